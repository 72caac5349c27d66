// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how next hops are found, and the reasons for missing ones. Needs root.
#include "neighbours_lab.h"

#include <net/if.h>
#include <string.h>

#include "neighbours_hops.h"

TEST_GROUP(watch_lab_enter);

TEST(neighbours_on_link_are_found_on_their_port, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;

	watch(lab, "10.0.0.11");
	watch(lab, "10.1.0.11");
	watch(lab, "2001:db8:0::11");
	watch(lab, "2001:db8:1::11");
	configure(lab);
	assert_int_equal(lab->calls, 0);
	seen = expect(lab, "10.0.0.11", MAC0);
	assert_int_equal(seen->hop.port, 0);
	assert_true(seen->hop.on_link);
	assert_int_equal(seen->hop.ifindex, if_nametoindex("lb0"));
	assert_source(seen, "10.0.0.2");
	seen = expect(lab, "10.1.0.11", MAC1);
	assert_int_equal(seen->hop.port, 1);
	assert_source(seen, "10.1.0.2");
	seen = expect(lab, "2001:db8:0::11", MAC0);
	assert_int_equal(seen->hop.port, 0);
	assert_source(seen, "2001:db8::2");
	assert_int_equal(expect(lab, "2001:db8:1::11", MAC1)->hop.port, 1);
}

TEST(neighbours_behind_a_gateway_have_its_mac, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;

	SHELL("ip route add 10.50.0.0/16 via 10.1.0.11 &&"
	      "ip -6 route add 2001:db8:50::/48 via 2001:db8:0::11");
	watch(lab, "10.50.1.1");
	watch(lab, "2001:db8:50::1");
	configure(lab);
	seen = expect(lab, "10.50.1.1", MAC1);
	assert_int_equal(seen->hop.port, 1);
	assert_false(seen->hop.on_link);
	assert_source(seen, "10.1.0.2");
	assert_int_equal(expect(lab, "2001:db8:50::1", MAC0)->hop.port, 0);
}

static bool has_no_way(void *context) {
	const struct lab *lab = context;
	const struct weir_address address = watch_lab_address(lab->wanted);

	return weir_neighbours_way(lab->neighbours, &address).since_ms == 0;
}

static bool has_no_port(void *context) {
	const struct lab *lab = context;
	const struct weir_address address = watch_lab_address(lab->wanted);

	return weir_neighbours_way(lab->neighbours, &address).port < 0;
}

static struct weir_way way_to(const struct lab *lab, const char *text) {
	const struct weir_address address = watch_lab_address(text);

	return weir_neighbours_way(lab->neighbours, &address);
}

// An address on the link need not answer, because its host may be down. A gateway must answer.
TEST(neighbours_way_needs_a_route_and_its_gateway, setup, teardown) {
	static const char behind[] = "10.9.0.1", silent[] = "10.1.0.77";
	struct lab *lab = *state;
	uint64_t since_ms;

	SHELL("ip route add 10.9.0.0/24 via 10.0.0.11");
	watch(lab, behind);
	watch(lab, silent);
	configure(lab);
	assert_int_equal(way_to(lab, behind).port, -1); // not looked up yet
	expect(lab, behind, MAC0);
	expect(lab, silent, NULL);
	since_ms = way_to(lab, behind).since_ms;
	assert_int_equal(way_to(lab, behind).port, 0);
	assert_true(since_ms > 0 && since_ms <= uv_now(&lab->loop));
	assert_int_equal(way_to(lab, silent).port, 1);
	assert_true(way_to(lab, silent).since_ms > 0);
	peer_sh(lab, "ip addr del 10.0.0.11/24 dev eth0");
	SHELL("ip neigh flush dev lb0");
	lab->wanted = behind;
	watch_lab_run(&lab->loop, has_no_way, lab, 5000, "no gateway");
	assert_int_equal(way_to(lab, behind).port, 0);
	peer_sh(lab, "ip addr add 10.0.0.11/24 dev eth0");
	expect(lab, behind, MAC0);
	SHELL("ip route del 10.9.0.0/24");
	watch_lab_run(&lab->loop, has_no_port, lab, 5000, "no route");
	assert_int_equal(way_to(lab, behind).since_ms, 0);
	assert_int_equal(way_to(lab, "10.9.0.2").port, -1); // not watched
}

TEST(neighbours_find_addresses_behind_known_gateways, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address behind = watch_lab_address("10.50.1.2");
	struct weir_address next_to = watch_lab_address("10.1.0.12");
	struct weir_next_hop hop;
	char mac[18];

	SHELL("ip route add 10.50.0.0/16 via 10.1.0.11");
	watch(lab, "10.1.0.11");
	configure(lab);
	assert_false(weir_neighbours_find(lab->neighbours, &behind, &hop));
	expect(lab, "10.1.0.11", MAC1);
	assert_true(weir_neighbours_find(lab->neighbours, &behind, &hop));
	format_mac(hop.mac, mac);
	assert_string_equal(mac, MAC1);
	assert_int_equal(hop.port, 1);
	assert_false(weir_neighbours_find(lab->neighbours, &next_to, &hop));
	// More addresses than one tick handles.
	for (int i = 0; i < 1000; i++) {
		weir_neighbours_find(lab->neighbours, &next_to, &hop);
	}
	assert_false(weir_neighbours_find(lab->neighbours, &behind, &hop));
}

TEST(neighbours_with_a_static_gateway_need_no_entry, setup, teardown) {
	static const uint8_t gateway[6] = {2, 0, 0, 0, 0, 0x99};
	struct lab *lab = *state;
	struct seen *seen;

	lab->ports[1].has_gateway_mac = true;
	memcpy(lab->ports[1].gateway_mac, gateway, sizeof(gateway));
	lab->ports[1].source_ipv4 = watch_lab_address("192.0.2.1");
	watch(lab, "10.1.0.77"); // the kernel's route leads to this port, but no host answers
	watch(lab, "203.0.113.5"); // the kernel has no route
	watch(lab, "10.0.0.11"); // the kernel's route leads to the other port
	watch(lab, "2001:db8:99::1"); // no route, and no source address of the family
	configure(lab);
	seen = expect(lab, "10.1.0.77", "02:00:00:00:00:99");
	assert_int_equal(seen->hop.port, 1);
	assert_false(seen->hop.on_link);
	assert_source(seen, "192.0.2.1");
	assert_int_equal(expect(lab, "203.0.113.5", "02:00:00:00:00:99")->hop.port, 1);
	assert_int_equal(expect(lab, "10.0.0.11", MAC0)->hop.port, 0);
	assert_non_null(strstr(expect(lab, "2001:db8:99::1", NULL)->why, "no route"));
}

// Such a route is a fallback for a subnet whose interface is down. An address without a route has
// the static gateway.
TEST(neighbours_with_a_route_that_refuses_have_no_next_hop, setup, teardown) {
	static const struct {
		const char *ipv4, *ipv6, *why;
	} cases[] = {{"10.70.0.1", "2001:db8:70::1", "the route is of type unreachable"},
		{"10.71.0.1", "2001:db8:71::1", "the route is of type prohibit"},
		{"10.72.0.1", "2001:db8:72::1", "the route is of type blackhole"}};
	struct lab *lab = *state;

	SHELL("ip route add unreachable 10.70.0.0/24 metric 4000000 &&"
	      "ip route add prohibit 10.71.0.0/24 && ip route add blackhole 10.72.0.0/24 &&"
	      "ip -6 route add unreachable 2001:db8:70::/64 metric 4000000 &&"
	      "ip -6 route add prohibit 2001:db8:71::/64 &&"
	      "ip -6 route add blackhole 2001:db8:72::/64");
	lab->ports[1].has_gateway_mac = true;
	lab->ports[1].source_ipv4 = watch_lab_address("192.0.2.1");
	lab->ports[1].source_ipv6 = watch_lab_address("2001:db8:77::1");
	for (size_t i = 0; i < 3; i++) {
		watch(lab, cases[i].ipv4);
		watch(lab, cases[i].ipv6);
	}
	watch(lab, "203.0.113.5");
	watch(lab, "2001:db8:99::1");
	configure(lab);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(expect(lab, cases[i].ipv4, NULL)->why, cases[i].why);
		assert_string_equal(expect(lab, cases[i].ipv6, NULL)->why, cases[i].why);
		assert_int_equal(way_to(lab, cases[i].ipv4).port, -1);
	}
	assert_int_equal(expect(lab, "203.0.113.5", "00:00:00:00:00:00")->hop.port, 1);
	assert_int_equal(expect(lab, "2001:db8:99::1", "00:00:00:00:00:00")->hop.port, 1);
	SHELL("ip route del 10.70.0.0/24 metric 4000000 && ip route del 10.71.0.0/24 &&"
	      "ip route del 10.72.0.0/24");
	SHELL("ip -6 route del 2001:db8:70::/64 && ip -6 route del 2001:db8:71::/64 &&"
	      "ip -6 route del 2001:db8:72::/64");
}

TEST(neighbours_use_the_configured_source, setup, teardown) {
	struct lab *lab = *state;

	lab->ports[0].source_ipv4 = watch_lab_address("192.0.2.1");
	lab->ports[0].source_ipv6 = watch_lab_address("2001:db8:77::1");
	watch(lab, "10.0.0.11");
	watch(lab, "2001:db8:0::11");
	configure(lab);
	assert_source(expect(lab, "10.0.0.11", MAC0), "192.0.2.1");
	assert_source(expect(lab, "2001:db8:0::11", MAC0), "2001:db8:77::1");
}

TEST(missing_neighbours_have_a_reason, setup, teardown) {
	struct lab *lab = *state;
	uint64_t start = uv_hrtime();

	SHELL("ip link add other0 type veth peer name other1 && ip link set other0 up &&"
	      "ip link set other1 up && ip route add 10.60.0.0/16 dev other0");
	watch(lab, "10.0.0.77");
	watch(lab, "203.0.113.5");
	watch(lab, "10.0.0.2");
	watch(lab, "10.60.0.1");
	configure(lab);
	assert_string_equal(
		expect(lab, "10.0.0.77", NULL)->why, "no ARP/ND reply for 10.0.0.77 on lb0");
	assert_string_equal(
		expect(lab, "203.0.113.5", NULL)->why, "no route (Network is unreachable)");
	assert_string_equal(expect(lab, "10.0.0.2", NULL)->why, "address is local to this host");
	assert_string_equal(expect(lab, "10.60.0.1", NULL)->why,
		"egress interface other0 is not a dataplane port");
	assert_true(uv_hrtime() - start > (WEIR_NEIGHBOURS_HOLD_MS - 100) * 1000000ull);
	SHELL("ip link del other0");

	// the port sends with a VLAN tag, and the route uses its interface without the tag
	lab->ports[0].info.vlan = 20;
	expect(lab, "10.0.0.77", NULL)->hop.resolved = true; // wait for another report
	configure(lab);
	assert_string_equal(expect(lab, "10.0.0.77", NULL)->why,
		"egress interface lb0 has no VLAN tag, but port port-0 sends with VLAN tag 20: the "
		"route must use a VLAN interface with this tag");
	lab->ports[0].info.vlan = 0;

	// the kernel's limit permits fewer neighbours than there are next hops
	lab->neighbours->kernel_max[0] = 1;
	expect(lab, "10.0.0.77", NULL)->hop.resolved = true; // wait for another report
	configure(lab);
	assert_string_equal(expect(lab, "10.0.0.77", NULL)->why,
		"no ARP/ND reply for 10.0.0.77 on lb0; the kernel's limit is 1 neighbours: raise "
		"net.ipv4.neigh.default.gc_thresh3");

	peer_sh(lab, "ip addr add 10.0.0.77/24 dev eth0");
	expect(lab, "10.0.0.77", MAC0); // resolved by the next datagram
}

static bool has_an_interface(void *context) {
	const struct lab *lab = context;

	return lab->seen[0].hop.ifindex == lab->ports[0].info.kernel_ifindex;
}

// The link of an address that does not reply is up again. Checks of l2 backends depend on the
// interface of the address.
TEST(missing_neighbours_have_their_latest_interface, setup, teardown) {
	struct lab *lab = *state;

	SHELL("ip link set lb0 down");
	watch(lab, "10.0.0.77");
	configure(lab);
	assert_int_equal(expect(lab, "10.0.0.77", NULL)->hop.ifindex, 0);
	SHELL("ip link set lb0 up");
	watch_lab_run(&lab->loop, has_an_interface, lab, 8000, "a report with the interface");
	assert_string_equal(lab->seen[0].why, "no ARP/ND reply for 10.0.0.77 on lb0");
}
