// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the decap loader on a veth, in a separate network namespace. Needs root.
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decap_loader.h"
#include "shell.h"
#include "test.h"

static int enter_namespace(void **state) {
	(void)state;
	if (unshare(CLONE_NEWNET)) {
		fprintf(stderr, "unshare: %s (root?)\n", strerror(errno));
		return -1;
	}
	return 0;
}

static int setup(void **state) {
	(void)state;
	SHELL("ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up");
	return 0;
}

static int teardown(void **state) {
	(void)state;
	SHELL("ip link show d0 >/dev/null 2>&1 || exit 0; ip link del d0");
	return 0;
}

static struct weir_decap *attach(enum weir_agent_mode mode) {
	struct weir_decap_params params = {
		.interface = "d0", .modes = {.ipip = true}, .mode = mode};
	struct weir_decap *decap = NULL;
	char why[256] = "";

	if (weir_decap_attach(&params, &decap, why, sizeof(why))) {
		fail_msg("%s", why);
	}
	return decap;
}

static struct weir_address address(const char *text) {
	struct weir_address ret;

	assert_int_equal(weir_address_parse(text, &ret), 0);
	return ret;
}

TEST_GROUP(enter_namespace);

TEST(decap_attach_prefers_native, setup, teardown) {
	struct weir_decap *decap = attach(WEIR_AGENT_MODE_ANY);

	assert_true(weir_decap_is_native(decap));
	SHELL("ip -d link show d0 | grep -q 'xdp '");
	weir_decap_free(decap);
	decap = attach(WEIR_AGENT_MODE_SKB);
	assert_false(weir_decap_is_native(decap));
	SHELL("ip -d link show d0 | grep -q xdpgeneric");
	weir_decap_free(decap);
}

// The MTU of the peer is too large for native XDP on a veth.
TEST(decap_attach_falls_back_to_skb, setup, teardown) {
	struct weir_decap_params params = {.interface = "d2", .mode = WEIR_AGENT_MODE_NATIVE};
	struct weir_decap *decap = NULL;
	char why[256] = "";

	SHELL("ip link add d2 type veth peer name d3; ip link set d3 mtu 9000");
	assert_int_not_equal(weir_decap_attach(&params, &decap, why, sizeof(why)), 0);
	assert_non_null(strstr(why, "--mode skb"));
	assert_null(decap);
	params.mode = WEIR_AGENT_MODE_ANY;
	assert_int_equal(weir_decap_attach(&params, &decap, why, sizeof(why)), 0);
	assert_false(weir_decap_is_native(decap));
	weir_decap_free(decap);
	SHELL("ip link del d2");
}

TEST(decap_free_leaves_the_interface_clean, setup, teardown) {
	weir_decap_free(attach(WEIR_AGENT_MODE_ANY));
	SHELL("! ip link show d0 | grep -q xdp");
	weir_decap_free(NULL);
}

TEST(decap_attach_refuses, setup, teardown) {
	struct weir_decap_params params = {.interface = "d7"};
	struct weir_decap *decap = attach(WEIR_AGENT_MODE_ANY), *second = NULL;
	char why[256] = "";

	assert_int_equal(weir_decap_attach(&params, &second, why, sizeof(why)), -ENODEV);
	assert_string_equal(why, "no such interface: d7");
	params.interface = "d0";
	assert_int_equal(weir_decap_attach(&params, &second, why, sizeof(why)), -EBUSY);
	assert_non_null(strstr(why, "already has an XDP program"));
	assert_null(second);
	weir_decap_free(decap);
}

TEST(decap_detects_a_renamed_and_a_removed_interface, setup, teardown) {
	struct weir_decap *decap = attach(WEIR_AGENT_MODE_ANY);
	char name[IF_NAMESIZE] = "d0";

	SHELL("ip link set d0 down && ip link set d0 name d9");
	assert_true(weir_decap_is_attached(decap, name));
	assert_string_equal(name, "d9");
	SHELL("ip link del d9");
	assert_false(weir_decap_is_attached(decap, name));
	weir_decap_free(decap);
}

TEST(decap_addresses_are_replaced_as_a_whole, setup, teardown) {
	struct weir_decap *decap = attach(WEIR_AGENT_MODE_ANY);
	struct weir_address many[WEIR_DECAP_ADDRESSES_MAX + 1];

	for (uint32_t i = 0; i <= WEIR_DECAP_ADDRESSES_MAX; i++) {
		uint32_t ipv4 = htonl(0x0a000000 + i);

		many[i] = (struct weir_address){.family = 4};
		memcpy(many[i].bytes, &ipv4, 4);
	}
	// If the previous entries were not removed, the map would be full.
	assert_int_equal(weir_decap_set_addresses(decap, many, WEIR_DECAP_ADDRESSES_MAX), 0);
	assert_int_equal(weir_decap_set_addresses(decap, many + 1, WEIR_DECAP_ADDRESSES_MAX), 0);
	assert_int_equal(weir_decap_set_addresses(decap, many, WEIR_DECAP_ADDRESSES_MAX), 0);
	assert_int_equal(
		weir_decap_set_addresses(decap, many, WEIR_DECAP_ADDRESSES_MAX + 1), -ENOSPC);
	assert_int_equal(weir_decap_set_addresses(decap, NULL, 0), 0);
	weir_decap_free(decap);
}

TEST(decap_interface_addresses_are_usable_ones, setup, teardown) {
	struct weir_address found[8], four = address("10.5.0.1"), six = address("2001:db8:5::1");
	int count, matches = 0;

	SHELL("ip addr add 10.5.0.1/24 dev d0; ip addr add 2001:db8:5::1/64 dev d0 nodad;"
	      "ip addr add 10.6.0.1/24 dev d1");
	count = weir_decap_interface_addresses("d0", found, 8); // omits fe80:: addresses
	assert_int_equal(count, 2);
	for (int i = 0; i < count; i++) {
		matches += memcmp(&found[i], &four, sizeof(four)) == 0;
		matches += memcmp(&found[i], &six, sizeof(six)) == 0;
	}
	assert_int_equal(matches, 2);
	assert_int_equal(weir_decap_interface_addresses("d0", found, 1), 1);
	assert_int_equal(weir_decap_interface_addresses("d7", found, 8), 0);
}

TEST(decap_stats_are_those_of_the_interface, setup, teardown) {
	struct weir_decap_stats stats;
	struct weir_decap *decap;
	char why[256] = "";

	assert_int_equal(weir_decap_stats_of("d0", &stats, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_decap_stats_of("d7", &stats, why, sizeof(why)), -ENODEV);
	decap = attach(WEIR_AGENT_MODE_ANY);
	assert_int_equal(weir_decap_stats_of("d0", &stats, why, sizeof(why)), 0);
	assert_int_equal(stats.result[WEIR_DECAP_DECAPSULATED].packets, 0);
	assert_int_equal(weir_decap_stats(decap, &stats), 0);
	assert_int_equal(weir_decap_remove("d0", why, sizeof(why)), -EBUSY);
	weir_decap_free(decap);
	assert_int_equal(weir_decap_remove("d0", why, sizeof(why)), -ENOENT);
}

TEST(decap_removes_a_stale_program_in_both_modes, setup, teardown) {
	static const struct {
		enum weir_agent_mode mode;
		uint32_t flags;
	} cases[] = {{WEIR_AGENT_MODE_NATIVE, XDP_FLAGS_DRV_MODE},
		{WEIR_AGENT_MODE_SKB, XDP_FLAGS_SKB_MODE}};
	const int ifindex = (int)if_nametoindex("d0");
	char why[256] = "";

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_decap *decap = attach(cases[i].mode);
		uint32_t id = 0;
		int program;

		assert_int_equal(weir_decap_remove("d0", why, sizeof(why)), -EBUSY);
		assert_non_null(strstr(why, "a running weir-agent uses it"));
		assert_int_equal(bpf_xdp_query_id(ifindex, 0, &id), 0);
		program = bpf_prog_get_fd_by_id(id);
		weir_decap_free(decap);
		assert_int_equal(bpf_xdp_attach(ifindex, program, cases[i].flags, NULL), 0);
		close(program);
		assert_int_equal(weir_decap_remove("d0", why, sizeof(why)), 0);
		SHELL("! ip link show d0 | grep -q xdp");
	}
}

TEST(decap_modes_are_those_of_the_interface, setup, teardown) {
	struct weir_decap_params params = {
		.interface = "d0", .modes = {.gre = true, .gue_port = 6081, .gre_key = UINT32_MAX}};
	struct weir_decap_modes modes = {0};
	struct weir_decap *decap;
	char why[256] = "";

	assert_int_equal(weir_decap_modes_of("d0", &modes, why, sizeof(why)), -ENOENT);
	assert_int_equal(weir_decap_attach(&params, &decap, why, sizeof(why)), 0);
	assert_int_equal(weir_decap_modes_of("d0", &modes, why, sizeof(why)), 0);
	assert_memory_equal(&modes, &params.modes, sizeof(modes));
	weir_decap_free(decap);
}

TEST(decap_modes_have_a_text) {
	const struct {
		const char *text;
		struct weir_decap_modes modes;
	} cases[] = {
		{"ipip", {.ipip = true, .gre_key = 7}},
		{"gue (port 6080)", {.gue_port = 6080}},
		{"ipip, gre", {.ipip = true, .gre = true}},
		{"ipip, gue (port 65535), gre (key 4294967295)",
			{.ipip = true, .gre = true, .gue_port = UINT16_MAX, .gre_key = UINT32_MAX}},
	};
	char text[WEIR_DECAP_MODES_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(weir_decap_modes_text(&cases[i].modes, text), cases[i].text);
	}
}

TEST(decap_results_have_names) {
	assert_string_equal(weir_decap_result_name(WEIR_DECAP_DECAPSULATED), "decapsulated");
	assert_string_equal(weir_decap_result_name(WEIR_DECAP_RESULT_COUNT), "unknown");
	assert_string_equal(weir_decap_result_text(WEIR_DECAP_RESULT_COUNT), "unknown");
	for (uint32_t i = 0; i < WEIR_DECAP_RESULT_COUNT; i++) {
		assert_non_null(weir_decap_result_text(i));
	}
}
