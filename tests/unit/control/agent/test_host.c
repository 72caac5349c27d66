// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>

#include "host.h"
#include "test.h"

TEST(host_mss_leaves_room_for_outer_headers) {
	const struct {
		enum weir_forwarding_mode mode;
		uint32_t outer, mss4, mss6;
	} cases[] = {
		{WEIR_FORWARDING_IPIP, 40, 1420, 1400},
		{WEIR_FORWARDING_L2, 0, 1460, 1440},
		{WEIR_FORWARDING_GUE, 52, 1408, 1388},
		{WEIR_FORWARDING_GRE, 48, 1412, 1392},
	};
	struct weir_agent_host host = {.mtu = 1500};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const uint32_t outer = weir_agent_host_outer_bytes(cases[i].mode);

		assert_int_equal(outer, cases[i].outer);
		assert_int_equal(weir_agent_host_mss(&host, 4, outer), cases[i].mss4);
		assert_int_equal(weir_agent_host_mss(&host, 6, outer), cases[i].mss6);
	}
	host.mtu = 68;
	assert_int_equal(weir_agent_host_mss(&host, 6, 40), 0);
}

TEST(host_reads_this_one) {
	struct weir_agent_host host = {0};

	assert_int_equal(weir_agent_host_read("lo", &host), 0);
	assert_true(host.mtu >= 1500);
	assert_int_equal(weir_agent_host_read("no-such0", &host), -ENODEV);
}
