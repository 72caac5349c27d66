// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the keys of the VIP maps, with BPF maps of the kernel. Needs CAP_BPF.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "steer.h"
#include "steer_map.h"
#include "test.h"

#define BINDS_MAX 8

struct lab {
	int fds[3]; // map descriptors; the second map belongs to no port
	struct weir_config config;
	uint32_t now_s;
	struct weir_config_service services[2];
	struct weir_config_bind binds[2][BINDS_MAX];
};

static int make_map(uint32_t entries) {
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	int fd = bpf_map_create(BPF_MAP_TYPE_HASH, WEIR_STEER_VIPS_MAP, sizeof(struct weir_vip_key),
		sizeof(weir_vip_value), entries, &options);

	if (fd < 0) {
		fail_msg("bpf_map_create: %s (root?)", strerror(-fd));
	}
	return fd;
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->fds[0] = make_map(WEIR_STEER_VIPS_MAX);
	lab->fds[1] = -1;
	lab->fds[2] = make_map(WEIR_STEER_VIPS_MAX);
	lab->config.services = lab->services;
	lab->config.service_count = 2;
	lab->services[0].binds = lab->binds[0];
	lab->services[1].binds = lab->binds[1];
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	close(lab->fds[0]);
	close(lab->fds[2]);
	free(lab);
	return 0;
}

static void add_bind(struct lab *lab, int service, const char *address, uint8_t protocol,
	uint16_t first, uint16_t last) {
	struct weir_config_service *owner = &lab->services[service];
	struct weir_config_bind *added = &owner->binds[owner->bind_count++];

	assert_true(owner->bind_count <= BINDS_MAX);
	assert_int_equal(weir_address_parse(address, &added->address), 0);
	added->protocol = protocol;
	added->port_first = first;
	added->port_last = last;
}

static bool holds(int fd, const char *address, uint8_t protocol, uint16_t port) {
	struct weir_vip_key key = {.protocol = protocol, .port = htons(port)};
	struct weir_address parsed;
	weir_vip_value value;

	assert_int_equal(weir_address_parse(address, &parsed), 0);
	memcpy(key.address, parsed.bytes, sizeof(key.address));
	key.family = parsed.family;
	return bpf_map_lookup_elem(fd, &key, &value) == 0;
}

static uint32_t count(int fd) {
	struct weir_vip_key key, *previous = NULL;
	uint32_t n = 0;

	while (bpf_map_get_next_key(fd, previous, &key) == 0) {
		previous = &key;
		n++;
	}
	return n;
}

static struct weir_steer_map_changes update(struct lab *lab) {
	struct weir_steer_map_changes changes = {0};
	char why[256] = "";
	int r = weir_steer_map_update(
		lab->fds, 3, &lab->config, lab->now_s, &changes, why, sizeof(why));

	if (r) {
		fail_msg("%d: %s", r, why);
	}
	return changes;
}

TEST_EACH(setup, teardown);

TEST(steer_map_has_the_binds_and_their_addresses) {
	struct lab *lab = *state;
	struct weir_steer_map_changes changes;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 80);
	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 443, 443);
	add_bind(lab, 1, "198.51.100.10", IPPROTO_UDP, 100, 102);
	add_bind(lab, 1, "2001:db8:f::10", IPPROTO_TCP, 80, 80);
	changes = update(lab);
	assert_int_equal(changes.keys, 8);
	assert_int_equal(changes.added, 16);
	assert_int_equal(changes.total, 16);
	assert_int_equal(changes.deleted, 0);
	for (int i = 0; i < 3; i += 2) {
		int fd = lab->fds[i];

		assert_int_equal(count(fd), 8);
		assert_true(holds(fd, "198.51.100.10", IPPROTO_TCP, 80));
		assert_true(holds(fd, "198.51.100.10", IPPROTO_TCP, 443));
		assert_true(holds(fd, "198.51.100.10", IPPROTO_UDP, 100));
		assert_true(holds(fd, "198.51.100.10", IPPROTO_UDP, 101));
		assert_true(holds(fd, "198.51.100.10", IPPROTO_UDP, 102));
		assert_true(holds(fd, "198.51.100.10", 0, 0));
		assert_true(holds(fd, "2001:db8:f::10", IPPROTO_TCP, 80));
		assert_true(holds(fd, "2001:db8:f::10", 0, 0));
	}
}

// Returns whether the steer program would steer packets to this port.
static bool steers(int fd, const char *address, uint8_t protocol, uint16_t port) {
	struct weir_vip_key key = {.protocol = protocol};
	struct weir_address parsed;
	weir_vip_value value, blocks = 0;

	assert_int_equal(weir_address_parse(address, &parsed), 0);
	memcpy(key.address, parsed.bytes, sizeof(key.address));
	key.family = parsed.family;
	(void)bpf_map_lookup_elem(fd, &key, &blocks);
	if (blocks & WEIR_STEER_EVERY_PORT) {
		return true;
	}
	for (unsigned int k = 0; k <= WEIR_STEER_BLOCK_MAX; k++) {
		key.family = WEIR_STEER_BLOCK(parsed.family, k);
		key.port = htons((uint16_t)(port >> k << k));
		if ((k == 0 ? port != 0 : blocks >> k & 1) &&
			bpf_map_lookup_elem(fd, &key, &value) == 0) {
			return true;
		}
	}
	return false;
}

TEST(steer_map_wide_ranges_cover_only_their_ports) {
	static const uint16_t ranges[][2] = {{1, 65535}, {1024, 65535}, {1025, 65534}, {2000, 3024},
		{32767, 32768 + 1024}, {1, 1025}, {64000, 65534}};
	struct lab *lab = *state;

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		lab->services[0].bind_count = 0;
		add_bind(lab, 0, "2001:db8:f::10", IPPROTO_TCP, ranges[i][0], ranges[i][1]);
		assert_true(update(lab).keys <= 2 + 30);
		for (uint32_t port = 0; port <= UINT16_MAX; port++) {
			bool in = ranges[i][0] <= port && port <= ranges[i][1];

			assert_int_equal(
				steers(lab->fds[2], "2001:db8:f::10", IPPROTO_TCP, (uint16_t)port),
				in);
		}
		assert_false(steers(lab->fds[0], "2001:db8:f::10", IPPROTO_UDP, 3000));
	}
	// Two ranges, one of which is removed.
	add_bind(lab, 0, "2001:db8:f::10", IPPROTO_TCP, 2000, 5000);
	update(lab);
	assert_true(steers(lab->fds[0], "2001:db8:f::10", IPPROTO_TCP, 5000));
	assert_true(steers(lab->fds[0], "2001:db8:f::10", IPPROTO_TCP, 65000));
	lab->services[0].bind_count = 1;
	update(lab);
	assert_false(steers(lab->fds[0], "2001:db8:f::10", IPPROTO_TCP, 5000));
	assert_true(steers(lab->fds[0], "2001:db8:f::10", IPPROTO_TCP, 65000));
	assert_int_equal(update(lab).added, 0);
}

// --- removed ports------------------------------------------------------------------------

#define VIP "198.51.100.10"

static void set_used(int fd, uint16_t port, uint32_t used_s) {
	struct weir_vip_key key = {
		.family = 4, .protocol = WEIR_STEER_LEAVING, .port = htons(port)};

	assert_int_equal(inet_pton(AF_INET, VIP, key.address), 1);
	assert_int_equal(bpf_map_update_elem(fd, &key, &used_s, BPF_EXIST), 0);
}

static void set_up_leaving(struct lab *lab, uint16_t first, uint16_t last) {
	lab->now_s = 1000;
	lab->config.flow_table.established_ms = 900000;
	add_bind(lab, 0, VIP, IPPROTO_TCP, 80, 80);
	add_bind(lab, 0, VIP, IPPROTO_TCP, first, last);
	add_bind(lab, 0, VIP, IPPROTO_UDP, 53, 53);
	update(lab);
}

// A removed TCP port has state "leaving" as long as its connections are used. UDP ports are removed
// at once.
TEST(steer_map_keeps_removed_tcp_ports_while_they_are_used) {
	struct lab *lab = *state;
	struct weir_steer_map_changes changes;
	int fd = lab->fds[0];

	set_up_leaving(lab, 443, 443);
	lab->services[0].bind_count = 1;
	changes = update(lab);
	assert_int_equal(changes.leaving, 4); // two in each map
	assert_int_equal(changes.total, count(lab->fds[0]) + count(lab->fds[2]));
	assert_false(holds(fd, VIP, IPPROTO_TCP, 443));
	assert_false(holds(fd, VIP, IPPROTO_UDP, 53));
	assert_true(steers(fd, VIP, WEIR_STEER_LEAVING, 443));
	assert_false(steers(fd, VIP, WEIR_STEER_LEAVING, 80));
	assert_false(steers(fd, VIP, WEIR_STEER_LEAVING, 53));
	assert_true(holds(fd, VIP, WEIR_STEER_LEAVING, 0));

	lab->now_s += 800;
	assert_int_equal(update(lab).added, 0);
	// set the time of use as the steer program does, but only in one of the two maps
	set_used(fd, 443, lab->now_s);
	lab->now_s += 800;
	update(lab);
	assert_true(steers(fd, VIP, WEIR_STEER_LEAVING, 443));
	assert_false(steers(lab->fds[2], VIP, WEIR_STEER_LEAVING, 443));
	assert_int_equal(count(lab->fds[2]), 2);
	lab->now_s += 800;
	assert_int_equal(update(lab).leaving, 0);
	assert_int_equal(count(fd), 2);
}

// All binds of the address are removed, so it is no longer a VIP. Its ports have state "leaving".
TEST(steer_map_keeps_ports_of_a_removed_address) {
	struct lab *lab = *state;

	set_up_leaving(lab, 443, 443);
	lab->services[0].bind_count = 0;
	update(lab);
	assert_int_equal(count(lab->fds[0]), 3);
	assert_true(steers(lab->fds[0], VIP, WEIR_STEER_LEAVING, 80));
	assert_true(steers(lab->fds[0], VIP, WEIR_STEER_LEAVING, 443));
	assert_false(holds(lab->fds[0], VIP, 0, 0));
}

TEST(steer_map_keeps_removed_ranges) {
	static const uint16_t ranges[][2] = {{1, 65535}, {0, 65535}, {2000, 3100}};
	struct lab *lab = *state;

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		lab->services[0].bind_count = 0;
		lab->now_s += 2000;
		update(lab);
		lab->now_s += 2000;
		update(lab);
		assert_int_equal(count(lab->fds[2]), 0);
		set_up_leaving(lab, ranges[i][0], ranges[i][1]);
		lab->services[0].bind_count = 0;
		update(lab);
		for (uint32_t port = 1; port <= UINT16_MAX; port++) {
			bool was = port == 80 || (ranges[i][0] <= port && port <= ranges[i][1]);

			assert_int_equal(
				steers(lab->fds[2], VIP, WEIR_STEER_LEAVING, (uint16_t)port), was);
		}
	}
}

TEST(steer_map_port_that_returns_is_not_leaving) {
	struct lab *lab = *state;

	set_up_leaving(lab, 443, 443);
	lab->services[0].bind_count = 1;
	update(lab);
	lab->now_s += 10;
	lab->services[0].bind_count = 3;
	assert_int_equal(update(lab).leaving, 0);
	assert_true(holds(lab->fds[0], VIP, IPPROTO_TCP, 443));
	assert_false(holds(lab->fds[0], VIP, WEIR_STEER_LEAVING, 443));
	lab->services[0].bind_count = 1; // the ports are removed again, so their timeout restarts
	lab->now_s += 895;
	update(lab);
	lab->now_s += 895;
	assert_int_equal(update(lab).leaving, 4); // two in each map
}

// The steer program may use a port after control has read the clock. Then the time of use is later
// than the time that control has read.
TEST(steer_map_keeps_a_port_that_is_used_meanwhile) {
	struct lab *lab = *state;

	set_up_leaving(lab, 443, 443);
	lab->services[0].bind_count = 1;
	update(lab);
	set_used(lab->fds[0], 443, lab->now_s + 1);
	update(lab);
	assert_true(steers(lab->fds[0], VIP, WEIR_STEER_LEAVING, 443));
}

TEST(steer_map_keeps_ports_of_a_bind_that_had_all) {
	struct lab *lab = *state;

	set_up_leaving(lab, 0, 65535);
	lab->binds[0][1].port_first = 1024;
	update(lab);
	assert_true(steers(lab->fds[0], VIP, IPPROTO_TCP, 1024));
	assert_false(steers(lab->fds[0], VIP, IPPROTO_TCP, 1023));
	assert_true(steers(lab->fds[0], VIP, WEIR_STEER_LEAVING, 1023));
}

// A wider bind covers a removed port. The port is still steered, so it does not have state
// "leaving".
TEST(steer_map_ports_of_a_wider_bind_are_not_leaving) {
	struct lab *lab = *state;

	set_up_leaving(lab, 2000, 2999); // a thousand keys
	lab->binds[0][1].port_last = 5000; // a range that is stored as blocks
	assert_int_equal(update(lab).leaving, 0);
	lab->binds[0][1].port_first = 0;
	lab->binds[0][1].port_last = 65535;
	assert_int_equal(update(lab).leaving, 0);
}

// From now on bpf() cannot delete entries.
static void forbid_deletions(void) {
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_bpf, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, BPF_MAP_DELETE_ELEM, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		_exit(2);
	}
}

// Control may exit at any moment. A packet of an open connection must always find one of two keys:
// the key of the bind, or the key of the leaving port.
TEST(steer_map_port_is_leaving_before_its_key_goes) {
	struct lab *lab = *state;
	char why[256] = "";
	int status;
	pid_t child;

	close(lab->fds[2]);
	lab->fds[2] = make_map(6);
	set_up_leaving(lab, 443, 443); // four keys
	lab->services[0].bind_count = 1;
	add_bind(lab, 0, VIP, IPPROTO_UDP, 53, 53); // five keys, two of them new
	child = fork();
	if (child == 0) {
		forbid_deletions();
		_exit(weir_steer_map_update(&lab->fds[2], 1, &lab->config, lab->now_s, NULL, why,
			      sizeof(why)) == -EIO
				? 0
				: 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(holds(lab->fds[2], VIP, IPPROTO_TCP, 443));
	assert_true(steers(lab->fds[2], VIP, WEIR_STEER_LEAVING, 443));
}

TEST(steer_map_without_room_for_leaving_ports_drops_them) {
	struct lab *lab = *state;

	close(lab->fds[2]);
	lab->fds[2] = make_map(10);
	set_up_leaving(lab, 441, 446); // nine keys
	lab->binds[0][1].port_first = 451;
	lab->binds[0][1].port_last = 456;
	assert_int_equal(update(lab).leaving, 7);
	assert_true(steers(lab->fds[0], VIP, WEIR_STEER_LEAVING, 441));
	assert_false(steers(lab->fds[2], VIP, WEIR_STEER_LEAVING, 441));
	assert_true(holds(lab->fds[2], VIP, IPPROTO_TCP, 456));
	assert_int_equal(count(lab->fds[2]), 9);
}

// With closed_ports "reject" the dataplane answers at all ports of the VIP. So all ports are
// steered, also for other services of the VIP.
TEST(steer_map_closed_ports_are_steered) {
	struct lab *lab = *state;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 80);
	add_bind(lab, 1, "198.51.100.10", IPPROTO_TCP, 81, 81);
	add_bind(lab, 1, "198.51.100.11", IPPROTO_TCP, 81, 81);
	lab->services[0].closed_ports = WEIR_CONFIG_CLOSED_REJECT;
	update(lab);
	assert_true(steers(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 7));
	assert_true(steers(lab->fds[0], "198.51.100.10", IPPROTO_UDP, 7));
	assert_false(steers(lab->fds[0], "198.51.100.11", IPPROTO_TCP, 7));
	lab->services[0].closed_ports = WEIR_CONFIG_CLOSED_KERNEL;
	update(lab);
	assert_false(steers(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 7));
	assert_true(steers(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 80));
}

TEST(steer_map_enters_wide_ranges_once) {
	struct lab *lab = *state;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 0, 65535);
	add_bind(lab, 0, "198.51.100.11", IPPROTO_UDP, 2000, 2000 + WEIR_STEER_WIDE_RANGE);
	add_bind(lab, 1, "198.51.100.12", IPPROTO_UDP, 2000, 2000 + WEIR_STEER_WIDE_RANGE - 1);
	assert_int_equal(update(lab).keys, 2 + 10 + WEIR_STEER_WIDE_RANGE + 1);
	assert_true(holds(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 0));
	assert_true(holds(lab->fds[0], "198.51.100.11", IPPROTO_UDP, 0));
	assert_true(holds(lab->fds[0], "198.51.100.11", IPPROTO_UDP, 3024));
	// the port is covered by the key of a block
	assert_false(holds(lab->fds[0], "198.51.100.11", IPPROTO_UDP, 2000));
	assert_true(holds(lab->fds[0], "198.51.100.12", IPPROTO_UDP, 3023));
	assert_false(holds(lab->fds[0], "198.51.100.12", IPPROTO_UDP, 3024));
}

TEST(steer_map_update_changes_only_what_differs) {
	struct lab *lab = *state;
	struct weir_steer_map_changes changes;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 89);
	add_bind(lab, 1, "198.51.100.11", IPPROTO_TCP, 80, 80);
	update(lab);
	changes = update(lab);
	assert_int_equal(changes.added + changes.deleted, 0);

	lab->binds[0][0].port_last = 90;
	lab->services[1].bind_count = 0;
	add_bind(lab, 1, "198.51.100.12", IPPROTO_TCP, 80, 80);
	changes = update(lab);
	// In each of two maps: one key for port 90, two keys for the new address, and two keys for
	// the old address, which is leaving.
	assert_int_equal(changes.added, 2 * 5);
	assert_int_equal(changes.deleted, 2 * 2);
	assert_false(holds(lab->fds[2], "198.51.100.11", 0, 0));
	assert_true(holds(lab->fds[2], "198.51.100.12", IPPROTO_TCP, 80));
	assert_int_equal(count(lab->fds[0]), 14 + 2);
}

// One map is empty, because the dataplane was restarted or another program emptied it.
TEST(steer_map_update_repairs_each_map_separately) {
	struct lab *lab = *state;
	struct weir_steer_map_changes changes;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 80);
	update(lab);
	close(lab->fds[0]);
	lab->fds[0] = make_map(WEIR_STEER_VIPS_MAX);
	changes = update(lab);
	assert_int_equal(changes.added, 2);
	assert_int_equal(count(lab->fds[0]), 2);
}

TEST(steer_map_without_configuration_is_emptied) {
	struct lab *lab = *state;
	char why[256] = "";

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 1, 1000);
	update(lab);
	assert_int_equal(weir_steer_map_update(lab->fds, 3, NULL, 1, NULL, why, sizeof(why)), 0);
	assert_int_equal(count(lab->fds[0]), 0);
	assert_int_equal(count(lab->fds[2]), 0);
}

TEST(steer_map_too_small_returns_enospc_and_changes_nothing) {
	struct lab *lab = *state;
	struct weir_steer_map_changes changes = {.keys = 77};
	char why[256] = "";

	close(lab->fds[2]);
	lab->fds[2] = make_map(10);
	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 1, 9);
	update(lab); // ten keys: the map is full
	lab->binds[0][0].port_first = 101;
	lab->binds[0][0].port_last = 109;
	// All ports are replaced, although the map is full.
	assert_int_equal(update(lab).deleted, 2 * 9);
	assert_true(holds(lab->fds[2], "198.51.100.10", IPPROTO_TCP, 109));

	lab->binds[0][0].port_last = 110;
	assert_int_equal(weir_steer_map_update(
				 lab->fds, 3, &lab->config, lab->now_s, &changes, why, sizeof(why)),
		-ENOSPC);
	assert_non_null(strstr(why, "need 11 VIP map entries"));
	assert_int_equal(changes.keys, 77);
	assert_false(holds(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 110));
}

TEST(steer_map_without_room_for_ports_uses_blocks) {
	struct lab *lab = *state;

	close(lab->fds[2]);
	lab->fds[2] = make_map(20);
	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 64, 128);
	add_bind(lab, 0, "198.51.100.11", IPPROTO_TCP, 1, 10);
	assert_int_equal(update(lab).keys, 4 + 11);
	for (int i = 0; i < 3; i += 2) { // the same keys in all maps
		assert_int_equal(count(lab->fds[i]), 4 + 11);
		assert_false(steers(lab->fds[i], "198.51.100.10", IPPROTO_TCP, 63));
		assert_true(steers(lab->fds[i], "198.51.100.10", IPPROTO_TCP, 64));
		assert_true(steers(lab->fds[i], "198.51.100.10", IPPROTO_TCP, 128));
		assert_false(steers(lab->fds[i], "198.51.100.10", IPPROTO_TCP, 129));
	}
	close(lab->fds[2]);
	lab->fds[2] = make_map(100); // the map has room again
	assert_int_equal(update(lab).keys, 66 + 11);
	assert_true(holds(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 100));
}

TEST(steer_map_refuses_other_descriptors) {
	struct lab *lab = *state;
	char why[256] = "";
	int other = bpf_map_create(BPF_MAP_TYPE_HASH, "other", 4, 4, 10, NULL);
	int fds[] = {lab->fds[0], other};

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 80);
	assert_int_equal(
		weir_steer_map_update(fds, 2, &lab->config, 1, NULL, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, "is not a VIP map"));
	fds[1] = STDIN_FILENO;
	assert_int_equal(
		weir_steer_map_update(fds, 2, &lab->config, 1, NULL, why, sizeof(why)), -EINVAL);
	assert_int_equal(count(lab->fds[0]), 0);
	close(other);
}

// weir-control updates the maps without any capability.
TEST(steer_map_update_needs_no_privilege) {
	struct lab *lab = *state;
	int status;
	pid_t pid;

	add_bind(lab, 0, "198.51.100.10", IPPROTO_TCP, 80, 80);
	pid = fork();
	if (pid == 0) {
		char why[256] = "";
		int r = setgid(65534) || setuid(65534) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
				? -1
				: weir_steer_map_update(
					  lab->fds, 3, &lab->config, 1, NULL, why, sizeof(why));

		_exit(r ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(holds(lab->fds[0], "198.51.100.10", IPPROTO_TCP, 80));
}
