// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hints.h"
#include "test.h"

#define ROOT_BYTES 64

// A separate tree of sysctls, because the test must not change those of this host.
static void set(const char *root, const char *interface, const char *key, const char *value) {
	static const char *const folders[] = {"net", "net/ipv4", "net/ipv4/conf"};
	char path[512];
	FILE *file;

	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
		mkdir(path, 0700);
	}
	snprintf(path, sizeof(path), "%s/net/ipv4/conf/%s", root, interface);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/net/ipv4/conf/%s/%s", root, interface, key);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(value, file);
	fclose(file);
}

static int setup(void **state) {
	char *root = calloc(1, ROOT_BYTES);

	strcpy(root, "/tmp/weir-hints-XXXXXX");
	assert_non_null(mkdtemp(root));
	set(root, "all", "rp_filter", "0\n");
	set(root, "eth0", "rp_filter", "2\n");
	set(root, "all", "arp_ignore", "0\n");
	set(root, "eth0", "arp_ignore", "1\n");
	set(root, "all", "arp_announce", "2\n");
	set(root, "eth0", "arp_announce", "0\n");
	*state = root;
	return 0;
}

static int teardown(void **state) {
	char command[ROOT_BYTES + 16];

	snprintf(command, sizeof(command), "rm -r %s", (char *)*state);
	assert_int_equal(system(command), 0);
	free(*state);
	return 0;
}

static struct weir_hints_host well_set_host(void **state) {
	return (struct weir_hints_host){
		.sysctl_root = *state,
		.interface = "eth0",
		.mtu = 1540,
		.loopback_addresses = 1,
	};
}

static unsigned int hints(const struct weir_hints_host *host, const char *expected) {
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);
	unsigned int count = weir_hints_write(host, file);

	fclose(file);
	if (strstr(text, expected) == NULL) {
		fail_msg("\"%s\" is not in \"%s\"", expected, text);
	}
	free(text);
	return count;
}

TEST(hints_none_for_a_correctly_set_host, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	assert_int_equal(hints(&host, ""), 0);
}

TEST(hints_strict_reverse_path_filter, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	set(*state, "eth0", "rp_filter", "1\n");
	assert_int_equal(hints(&host, "sysctl -w net.ipv4.conf.eth0.rp_filter=2"), 1);
	set(*state, "eth0", "rp_filter", "0\n");
	set(*state, "all", "rp_filter", "1\n");
	assert_int_equal(hints(&host, "rp_filter=2"), 1);
	set(*state, "all", "rp_filter", "2\n");
	assert_int_equal(hints(&host, ""), 0);
}

// In a key with dots, sysctl treats eth0.20 as a key 20 of interface eth0.
TEST(hints_name_a_vlan_like_sysctl, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	host.interface = "eth0.20";
	set(*state, "eth0.20", "rp_filter", "1\n");
	set(*state, "eth0.20", "arp_ignore", "1\n");
	assert_int_equal(hints(&host, "sysctl -w net.ipv4.conf.eth0/20.rp_filter=2"), 1);
	set(*state, "eth0.20", "rp_filter", "2\n");
	set(*state, "eth0.20", "arp_ignore", "0\n");
	assert_int_equal(hints(&host, "net.ipv4.conf.eth0/20.arp_announce=2"), 1);
}

TEST(hints_arp, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	set(*state, "eth0", "arp_ignore", "0\n");
	assert_int_equal(hints(&host, "arp_ignore=1"), 1);
	set(*state, "eth0", "arp_ignore", "2\n");
	assert_int_equal(hints(&host, ""), 0);
	set(*state, "all", "arp_announce", "1\n");
	assert_int_equal(hints(&host, "net.ipv4.conf.eth0.arp_announce=2"), 1);
}

TEST(hints_missing_vip_and_small_mtu, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	host.loopback_addresses = 0;
	assert_int_equal(hints(&host, "ip addr add VIP/32 dev lo"), 1);
	host.mtu = 1500;
	assert_int_equal(hints(&host, "advmss 1420"), 2);
	assert_int_equal(hints(&host, "ip -6 route change default ... advmss 1400"), 2);
	assert_int_equal(weir_hints_mss(&host, 4), 1420);
	host.mtu = 68;
	assert_int_equal(weir_hints_mss(&host, 6), 0);
}

TEST(hints_ignore_unreadable_sysctls, setup, teardown) {
	struct weir_hints_host host = well_set_host(state);

	host.sysctl_root = "/nonexistent";
	assert_int_equal(hints(&host, "arp_ignore"), 1);
}

TEST(hints_read_this_host) {
	struct weir_hints_host host = {0};

	assert_int_equal(weir_hints_host_read("lo", &host), 0);
	assert_true(host.mtu >= 1500);
	assert_string_equal(host.sysctl_root, "/proc/sys");
	assert_int_equal(weir_hints_host_read("no-such0", &host), -ENODEV);
}
