// SPDX-License-Identifier: BSD-3-Clause
#include "kernel.h"

#include "shell.h"
#include "watch_lab.h"

static void assert_next_hop(const char *destination, const char *next_hop) {
	struct weir_address address = watch_lab_address(destination);
	struct weir_kernel_route route;
	char text[64];

	assert_int_equal(weir_kernel_route(&address, &route), 0);
	assert_string_equal(weir_address_format(&route.next_hop, text, sizeof(text)), next_hop);
	assert_string_equal(route.interface, "lb0");
}

TEST_GROUP(watch_lab_enter);

TEST(next_hop_is_the_gateway_of_either_family) {
	SHELL("ip link add lb0 type veth peer name other0 &&"
	      "ip link set lb0 up && ip link set other0 up &&"
	      "ip addr add 10.0.0.2/24 dev lb0 &&"
	      "ip route add 10.1.0.0/16 via 10.0.0.1 &&"
	      "ip route add 10.2.0.0/16 via inet6 fe80::1 dev lb0");
	assert_next_hop("10.0.0.11", "10.0.0.11");
	assert_next_hop("10.1.0.11", "10.0.0.1");
	assert_next_hop("10.2.0.11", "fe80::1");
}
