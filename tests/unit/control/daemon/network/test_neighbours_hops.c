// SPDX-License-Identifier: BSD-3-Clause
//
// Tests functions of neighbours_hops.h on a state that the test sets, without the kernel.
#include "neighbours_hops.h"

#include <stdlib.h>

#include "test.h"

// This kernel may lack VLAN and bonding devices. So the test passes a list of links instead.
TEST(neighbours_port_of_stacked_links) {
	struct weir_link links[] = {
		// The list is sorted by ifindex
		{.ifindex = 2, .name = "eth0"},
		{.ifindex = 3, .name = "eth1", .master = 9},
		{.ifindex = 4, .name = "eth0.100", .lower = 2, .vlan = 100},
		{.ifindex = 5, .name = "eth0.200", .lower = 2, .vlan = 200},
		{.ifindex = 6, .name = "bond0.100", .lower = 9, .vlan = 100},
		{.ifindex = 9, .name = "bond0"},
		{.ifindex = 11, .name = "eth2", .master = 12},
		{.ifindex = 12, .name = "br0"},
	};
	static const struct {
		uint32_t ifindex;
		int port;
	} cases[] = {{2, 0}, {4, 1}, {5, -1}, {9, -1}, {6, 2}, {11, 3}, {12, 3}, {7, -1}, {0, -1}};
	struct weir_neighbours *n = calloc(1, sizeof(*n));
	char why[256];

	n->links = links;
	n->link_count = sizeof(links) / sizeof(links[0]);
	n->port_count = 5;
	n->ports[0].info = (struct weir_port_info){.name = "wan", .kernel_ifindex = 2};
	n->ports[1].info = (struct weir_port_info){.kernel_ifindex = 2, .vlan = 100};
	n->ports[2].info = (struct weir_port_info){.name = "lan", .kernel_ifindex = 3, .vlan = 100};
	n->ports[3].info = (struct weir_port_info){.kernel_ifindex = 11};
	// a port without a kernel interface
	n->ports[4].info = (struct weir_port_info){.kernel_ifindex = 0};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int port = weir_neighbours_port_of(n, cases[i].ifindex);

		if (port != cases[i].port) {
			fail_msg("interface %u: port %d", cases[i].ifindex, port);
		}
	}
	weir_neighbours_explain_interface(n, 5, why, sizeof(why));
	assert_string_equal(why,
		"egress interface eth0.200 has VLAN tag 200, but port wan sends without a tag: set "
		"\"vlan\" of the port, or another route");
	weir_neighbours_explain_interface(n, 9, why, sizeof(why));
	assert_string_equal(why,
		"egress interface bond0 has no VLAN tag, but port lan sends with VLAN tag 100: the "
		"route must use a VLAN interface with this tag");
	weir_neighbours_explain_interface(n, 7, why, sizeof(why));
	assert_string_equal(why, "egress interface ? is not a dataplane port");
	n->ports[0].info.kernel_ifindex = 5; // a port may be the VLAN interface itself
	assert_int_equal(weir_neighbours_port_of(n, 5), 0);
	free(n);
}

#define SILENT 10000u

// So many next hops do not answer that one iteration cannot send a datagram to each of them. Other
// next hops are probed nevertheless.
TEST(neighbours_that_are_silent_do_not_prevent_probes_of_others) {
	struct weir_neighbours *n = calloc(1, sizeof(*n));
	struct entry *entries = calloc(SILENT, sizeof(*entries));
	uint32_t without_request = 0, turns = 0;
	uv_loop_t loop;

	uv_loop_init(&loop);
	n->loop = &loop;
	n->datagram4 = -1; // no datagrams are sent
	n->port_count = 1;
	n->ports[0].info.kernel_ifindex = 1;
	for (uint32_t i = 0; i < SILENT; i++) {
		entries[i].address = (struct weir_address){
			.bytes = {10, 50, (uint8_t)(i / 250), (uint8_t)(i % 250)}, .family = 4};
		weir_hop_join(n, &entries[i], 1, &entries[i].address);
	}
	n->kernel_max[0] = SILENT + 1;
	assert_int_equal(weir_hops_limit_reached(n, 4), 0);
	n->kernel_max[0] = SILENT;
	assert_int_equal(weir_hops_limit_reached(n, 4), SILENT);
	assert_int_equal(weir_hops_limit_reached(n, 6), 0);
	// Iterations are frequent until a datagram has been sent to each next hop, and not
	// afterwards.
	while (weir_hops_probe(n)) {
		loop.time += 20;
		assert_true(++turns < 2 * SILENT / 128);
	}
	for (int turn = 0; turn < 120; turn++) { // half a minute in total
		loop.time += 250;
		assert_false(weir_hops_probe(n));
	}
	for (uint32_t i = 0; i < SILENT; i++) {
		without_request += entries[i].hop->probe_ms == 0;
		weir_hop_join(n, &entries[i], 0, NULL);
	}
	assert_int_equal(without_request, 0);
	assert_int_equal(weir_hops_limit_reached(n, 4), 0);
	uv_loop_close(&loop);
	free(entries);
	free(n);
}
