// SPDX-License-Identifier: BSD-3-Clause
#include "steer_attach.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>

#include "log.h"
#include "steer.h"

#define HOLDER_TRIES 50
#define HOLDER_PAUSE_NS 1000000
#define MAPS_MAX 64

// --- messages -----------------------------------------------------------------------------

// The log for messages of libbpf and libxdp. It is global, because the libraries pass no context to
// their callbacks.
static const struct weir_log *messages;

__attribute__((format(printf, 1, 0))) static int write_message(const char *format, va_list args) {
	char text[512];

	vsnprintf(text, sizeof(text), format, args);
	text[strcspn(text, "\n")] = '\0';
	weir_log_write(messages, WEIR_LOG_WARN, "%s", text);
	return 0;
}

__attribute__((format(printf, 2, 0))) static int print_libbpf(
	enum libbpf_print_level level, const char *format, va_list args) {
	return level == LIBBPF_WARN ? write_message(format, args) : 0;
}

__attribute__((format(printf, 2, 0))) static int print_libxdp(
	enum libxdp_print_level level, const char *format, va_list args) {
	return level == LIBXDP_WARN ? write_message(format, args) : 0;
}

void weir_steer_take_messages(const struct weir_log *log) {
	messages = log;
	libbpf_set_print(print_libbpf);
	libxdp_set_print(print_libxdp);
}

// --- claim --------------------------------------------------------------------------------

static socklen_t claim_address(uint32_t ifindex, struct sockaddr_un *ret) {
	int length;

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	length = snprintf(
		ret->sun_path + 1, sizeof(ret->sun_path) - 1, "weir-dataplane/%u", ifindex);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

// Find the process that holds the claim. Returns 0 or negative errno (-ECONNREFUSED: the process
// does not listen).
static int find_holder(const struct sockaddr_un *address, socklen_t bytes, struct ucred *ret) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t length = sizeof(*ret);
	int r = 0;

	if (fd < 0) {
		return -errno;
	}
	// The credentials are the holder's credentials at the time when it began to listen.
	if (connect(fd, (const struct sockaddr *)address, bytes) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &length) < 0) {
		r = -errno;
	}
	close(fd);
	return r;
}

// Finds the process that holds the claim, as find_holder does. If the process does not listen,
// tries again for a short time, because a dataplane binds the name shortly before it listens.
static int find_holder_patiently(
	const struct sockaddr_un *address, socklen_t bytes, struct ucred *ret) {
	const struct timespec pause = {.tv_nsec = HOLDER_PAUSE_NS};
	int r = find_holder(address, bytes, ret);

	for (int i = 0; i < HOLDER_TRIES && r == -ECONNREFUSED; i++) {
		nanosleep(&pause, NULL);
		r = find_holder(address, bytes, ret);
	}
	return r;
}

int weir_steer_claim(uint32_t ifindex, const char *interface, char *why, size_t why_bytes) {
	struct sockaddr_un address;
	socklen_t bytes = claim_address(ifindex, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred holder = {0};
	int r;

	if (fd < 0) {
		return -errno;
	}
	if (bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, 4) == 0) {
		return fd;
	}
	r = -errno;
	if (r == -EADDRINUSE) {
		r = find_holder_patiently(&address, bytes, &holder);
		if (r == -ECONNREFUSED || (r == 0 && holder.uid != 0 && holder.uid != geteuid())) {
			return fd; // the claim of an unprivileged user is ignored
		}
		snprintf(why, why_bytes, "interface %s is used by weir-dataplane, pid %d",
			interface, (int)holder.pid);
		r = -EBUSY;
	} else {
		snprintf(why, why_bytes, "interface %s cannot be claimed: %s", interface,
			strerror(-r));
	}
	close(fd);
	return r;
}

// --- programs and their maps --------------------------------------------------------------

// Find the VIP map among the maps of a program. Returns a descriptor, -ENOENT, or another negative
// errno.
static int map_of(int program_fd) {
	struct bpf_prog_info program = {0};
	__u32 ids[MAPS_MAX] = {0};
	__u32 bytes = sizeof(program);

	program.nr_map_ids = MAPS_MAX;
	program.map_ids = (__u64)(uintptr_t)ids;
	if (bpf_obj_get_info_by_fd(program_fd, &program, &bytes) < 0) {
		return -errno;
	}
	for (__u32 i = 0; i < program.nr_map_ids && i < MAPS_MAX; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		if (fd < 0) {
			continue;
		}
		bytes = sizeof(map);
		if (bpf_obj_get_info_by_fd(fd, &map, &bytes) == 0 &&
			strcmp(map.name, WEIR_STEER_VIPS_MAP) == 0 &&
			map.key_size == sizeof(struct weir_vip_key) &&
			map.value_size == sizeof(weir_vip_value)) {
			return fd;
		}
		close(fd);
	}
	return -ENOENT;
}

static int map_of_id(uint32_t id) {
	int program_fd = bpf_prog_get_fd_by_id(id);
	int r;

	if (program_fd < 0) {
		return -errno;
	}
	r = map_of(program_fd);
	close(program_fd);
	return r;
}

// Search for the VIP map in the programs that libxdp's dispatcher calls.
static int map_under_dispatcher(uint32_t ifindex) {
	struct xdp_multiprog *programs = xdp_multiprog__get_from_ifindex((int)ifindex);
	struct xdp_program *program = NULL;
	int r = -ENOENT;

	if (programs == NULL || libxdp_get_error(programs) != 0) {
		return -ENOENT;
	}
	while (r == -ENOENT && (program = xdp_multiprog__next_prog(program, programs)) != NULL) {
		r = map_of_id(xdp_program__id(program));
	}
	xdp_multiprog__close(programs);
	return r;
}

int weir_steer_map(uint32_t ifindex) {
	__u32 id = 0;
	int r = bpf_xdp_query_id((int)ifindex, 0, &id);

	if (r < 0) {
		return r;
	}
	if (id == 0) {
		return -ENOENT;
	}
	r = map_of_id(id);
	return r == -ENOENT ? map_under_dispatcher(ifindex) : r;
}

int weir_steer_clear(uint32_t ifindex, const char *interface, char *why, size_t why_bytes) {
	__u32 id = 0;
	int r = bpf_xdp_query_id((int)ifindex, 0, &id);
	int map;

	if (r < 0) {
		snprintf(why, why_bytes, "interface %s: cannot query its XDP program: %s",
			interface, strerror(-r));
		return r;
	}
	if (id == 0) {
		return 0;
	}
	map = map_of_id(id);
	if (map < 0) {
		snprintf(why, why_bytes,
			"interface %s has another XDP program (id %u; see \"bpftool prog show id "
			"%u\"); remove the program with \"ip link set dev %s xdp off\"",
			interface, id, id, interface);
		return -EBUSY;
	}
	close(map);
	r = bpf_xdp_detach((int)ifindex, 0, NULL);
	if (r < 0) {
		snprintf(why, why_bytes, "interface %s: cannot detach the stale XDP program: %s",
			interface, strerror(-r));
		return r;
	}
	return 1;
}
