// SPDX-License-Identifier: BSD-3-Clause
//
// Steer attach: attaching the real steer program to a veth in a separate namespace.
#include "steer_attach.h"

#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>

#include "device_lab.h"
#include "steer.h"
#include "test.h"

#define NOBODY 65534

struct lab {
	uint32_t ifindex;
	char why[512];
};

static int open_lab(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	*state = lab;
	if (lab == NULL || geteuid() != 0) {
		return 0; // the test skips itself
	}
	SHELL("ip link add sa0 type veth peer name sa1");
	SHELL("ip link set sa0 up && ip link set sa1 up");
	lab->ifindex = if_nametoindex("sa0");
	return 0;
}

static int close_lab(void **state) {
	if (geteuid() == 0) {
		SHELL("ip link del sa0");
	}
	free(*state);
	return 0;
}

// Attach the real steer program as net_af_xdp does.
static struct bpf_object *attach_steer(const struct lab *lab) {
	struct bpf_object *object = bpf_object__open_file(getenv("WEIR_STEER_OBJECT"), NULL);

	assert_non_null(object);
	assert_int_equal(bpf_object__load(object), 0);
	assert_int_equal(bpf_xdp_attach((int)lab->ifindex,
				 bpf_program__fd(bpf_object__next_program(object, NULL)),
				 XDP_FLAGS_UPDATE_IF_NOEXIST, NULL),
		0);
	return object;
}

// Check that control can add a VIP that the program then finds.
static void check_map(int fd, const struct bpf_object *object) {
	struct weir_vip_key key = {.address = {198, 51, 100, 10}, .family = 4, .protocol = 6};
	weir_vip_value value = 1, found = 0;

	assert_true(fd >= 0);
	assert_int_equal(bpf_map_update_elem(fd, &key, &value, BPF_ANY), 0);
	if (object != NULL) {
		int own = bpf_object__find_map_fd_by_name(object, WEIR_STEER_VIPS_MAP);

		assert_int_equal(bpf_map_lookup_elem(own, &key, &found), 0);
		assert_int_equal(found, 1);
	}
	close(fd);
}

TEST_GROUP(device_lab_eal);
TEST_EACH(open_lab, close_lab);

TEST(the_vip_map_of_the_attached_program_is_found) {
	struct lab *lab = *state;
	struct bpf_object *object;

	device_lab_need_root();
	assert_int_equal(weir_steer_map(lab->ifindex), -ENOENT);
	object = attach_steer(lab);
	check_map(weir_steer_map(lab->ifindex), object);
	bpf_object__close(object);
}

TEST(it_is_found_under_a_dispatcher_too) {
	struct lab *lab = *state;
	struct xdp_program *program;

	device_lab_need_root();
	program = xdp_program__open_file(getenv("WEIR_STEER_OBJECT"), "xdp", NULL);
	assert_int_equal(libxdp_get_error(program), 0);
	assert_int_equal(xdp_program__attach(program, (int)lab->ifindex, XDP_MODE_NATIVE, 0), 0);
	check_map(weir_steer_map(lab->ifindex), xdp_program__bpf_obj(program));
	assert_int_equal(xdp_program__detach(program, (int)lab->ifindex, XDP_MODE_NATIVE, 0), 0);
	xdp_program__close(program);
}

TEST(a_leftover_program_is_detached) {
	struct lab *lab = *state;
	uint32_t id = 1;

	device_lab_need_root();
	assert_int_equal(weir_steer_clear(lab->ifindex, "sa0", lab->why, sizeof(lab->why)), 0);
	bpf_object__close(attach_steer(lab)); // a program left behind by a killed process
	assert_int_equal(weir_steer_clear(lab->ifindex, "sa0", lab->why, sizeof(lab->why)), 1);
	assert_int_equal(bpf_xdp_query_id((int)lab->ifindex, 0, &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(weir_steer_clear(lab->ifindex, "sa0", lab->why, sizeof(lab->why)), 0);
}

TEST(a_program_of_another_owner_stays) {
	const struct bpf_insn pass[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	struct lab *lab = *state;
	uint32_t id = 0;
	int fd;

	device_lab_need_root();
	fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "other", "GPL", pass, 2, NULL);
	assert_true(fd >= 0);
	assert_int_equal(bpf_xdp_attach((int)lab->ifindex, fd, 0, NULL), 0);
	close(fd);
	assert_int_equal(weir_steer_map(lab->ifindex), -ENOENT);
	assert_int_equal(weir_steer_clear(lab->ifindex, "sa0", lab->why, sizeof(lab->why)), -EBUSY);
	assert_non_null(strstr(lab->why, "ip link set dev sa0 xdp off"));
	assert_int_equal(bpf_xdp_query_id((int)lab->ifindex, 0, &id), 0);
	assert_int_not_equal(id, 0);
}

// --- claims -------------------------------------------------------------------------------

// Start a process that holds the claim until it is killed.
static pid_t hold(struct lab *lab) {
	char byte;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (weir_steer_claim(lab->ifindex, "sa0", lab->why, sizeof(lab->why)) < 0 ||
			write(fds[1], "", 1) != 1) {
			_exit(1);
		}
		pause();
		_exit(0);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static void end(pid_t pid) {
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(an_interface_is_claimed_by_one_process_until_it_dies) {
	struct lab *lab = *state;
	pid_t pid;
	int fd;

	device_lab_need_root();
	pid = hold(lab);
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(
			weir_steer_claim(lab->ifindex, "sa0", lab->why, sizeof(lab->why)), -EBUSY);
		assert_non_null(strstr(lab->why, "is used by another weir-dataplane"));
	}
	fd = weir_steer_claim(lab->ifindex + 1, "sa1", lab->why, sizeof(lab->why));
	assert_true(fd >= 0);
	close(fd);
	end(pid);
	fd = weir_steer_claim(lab->ifindex, "sa0", lab->why, sizeof(lab->why));
	assert_true(fd >= 0);
	close(fd);
}

TEST(other_users_cannot_claim_an_interface) {
	struct lab *lab = *state;
	int fd;

	device_lab_need_root();
	assert_int_equal(seteuid(NOBODY), 0);
	fd = weir_steer_claim(lab->ifindex, "sa0", lab->why, sizeof(lab->why));
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(fd, -EACCES);
	assert_non_null(strstr(lab->why, "Permission denied; CAP_NET_BIND_SERVICE is needed"));
}
