// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>

#include "host.h"
#include "test.h"

TEST(host_mss_leaves_room_for_any_outer_header) {
	struct weir_agent_host host = {.mtu = 1500};

	assert_int_equal(weir_agent_host_mss(&host, 4), 1420);
	assert_int_equal(weir_agent_host_mss(&host, 6), 1400);
	host.mtu = 68;
	assert_int_equal(weir_agent_host_mss(&host, 6), 0);
}

TEST(host_reads_this_one) {
	struct weir_agent_host host = {0};

	assert_int_equal(weir_agent_host_read("lo", &host), 0);
	assert_true(host.mtu >= 1500);
	assert_int_equal(weir_agent_host_read("no-such0", &host), -ENODEV);
}
