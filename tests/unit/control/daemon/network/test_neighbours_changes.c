// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how next hops follow changes of neighbours and routes, and how they are kept. Needs root.
#include "neighbours_lab.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "neighbours_hops.h"

TEST_GROUP(watch_lab_enter);

TEST(neighbours_follow_a_new_mac, setup, teardown) {
	struct lab *lab = *state;

	watch(lab, "10.0.0.11");
	watch(lab, "2001:db8:0::11");
	configure(lab);
	expect(lab, "10.0.0.11", MAC0);
	expect(lab, "2001:db8:0::11", MAC0);
	SHELL("ip neigh replace 10.0.0.11 lladdr 02:00:00:00:00:aa dev lb0 nud reachable");
	expect(lab, "10.0.0.11", "02:00:00:00:00:aa");
	SHELL("ip neigh replace 2001:db8:0::11 lladdr 02:00:00:00:00:ab dev lb0");
	expect(lab, "2001:db8:0::11", "02:00:00:00:00:ab");
}

// The other host gets a new MAC address, and announces it with a gratuitous ARP.
TEST(neighbours_follow_a_gratuitous_arp, setup, teardown) {
	struct lab *lab = *state;

	watch(lab, "10.0.0.11");
	configure(lab);
	expect(lab, "10.0.0.11", MAC0);
	peer_sh(lab, "sysctl -qw net.ipv4.conf.eth0.arp_notify=1 && ip link set eth0 down &&"
		     "ip link set eth0 address 02:00:00:00:00:cc && ip link set eth0 up");
	expect(lab, "10.0.0.11", "02:00:00:00:00:cc");
}

TEST(neighbours_move_with_their_route, setup, teardown) {
	struct lab *lab = *state;

	SHELL("ip route add 10.50.0.0/16 via 10.0.0.11");
	watch(lab, "10.50.1.1");
	configure(lab);
	assert_int_equal(expect(lab, "10.50.1.1", MAC0)->hop.port, 0);
	SHELL("ip route replace 10.50.0.0/16 via 10.1.0.11");
	assert_int_equal(expect(lab, "10.50.1.1", MAC1)->hop.port, 1);
	SHELL("ip route del 10.50.0.0/16");
	assert_non_null(strstr(expect(lab, "10.50.1.1", NULL)->why, "no route"));
	SHELL("ip route add 10.50.0.0/16 via 10.0.0.11");
	expect(lab, "10.50.1.1", MAC0);
}

static unsigned int *lookups_to_fail(void) {
	static unsigned int count;

	return &count;
}

static unsigned int *lookups(void) {
	static unsigned int count;

	return &count;
}

ssize_t __real_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes);
ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes);

ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes) {
	const bool is_lookup = ((const struct nlmsghdr *)data)->nlmsg_type == RTM_GETROUTE;

	*lookups() += is_lookup;
	if (is_lookup && *lookups_to_fail() > 0) {
		(*lookups_to_fail())--;
		errno = ENOBUFS;
		return -1;
	}
	return __real_mnl_socket_sendto(socket, data, bytes);
}

// The kernel has no memory for a lookup. It sends no event when it has memory again, so control has
// to retry.
TEST(neighbours_retry_a_failed_lookup, setup, teardown) {
	struct lab *lab = *state;

	watch(lab, "10.0.0.11");
	configure(lab);
	expect(lab, "10.0.0.11", MAC0);
	watch_lab_idle(&lab->loop, 2500); // until the lookups that the new links caused have ended
	watch(lab, "10.1.0.11");
	*lookups_to_fail() = 2;
	configure(lab);
	expect(lab, "10.1.0.11", MAC1);
	expect(lab, "10.0.0.11", MAC0);
	assert_int_equal(*lookups_to_fail(), 0);
}

// Between two parts of a round, the loop handles other events.
TEST(one_iteration_makes_a_limited_number_of_lookups, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address addresses[600];

	for (unsigned int i = 0; i < 600; i++) {
		addresses[i] = watch_lab_address("10.0.0.0");
		addresses[i].bytes[2] = (uint8_t)(i >> 8);
		addresses[i].bytes[3] = (uint8_t)i;
	}
	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, 2, addresses, 600), 0);
	*lookups() = 0;
	uv_run(&lab->loop, UV_RUN_NOWAIT);
	assert_in_range(*lookups(), 1, 256);
	watch_lab_idle(&lab->loop, 300);
	assert_true(*lookups() >= 600);
}

// While routes change all the time, as with a BGP feed, there is about one round per second.
TEST(rounds_do_not_follow_each_change, setup, teardown) {
	struct lab *lab = *state;
	uint64_t start;

	watch(lab, "10.0.0.11");
	configure(lab);
	expect(lab, "10.0.0.11", MAC0);
	start = uv_hrtime();
	*lookups() = 0;
	for (int i = 0; i < 20; i++) {
		SHELL("ip route replace 10.60.%d.0/24 via 10.0.0.11", i);
		watch_lab_idle(&lab->loop, 100);
	}
	assert_in_range(*lookups(), 1, (uv_hrtime() - start) / 1000000000 + 2);
}

TEST(neighbours_survive_a_flush, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;

	watch(lab, "10.0.0.11");
	configure(lab);
	seen = expect(lab, "10.0.0.11", MAC0);
	for (int i = 0; i < 3; i++) {
		SHELL("ip neigh flush dev lb0");
		watch_lab_idle(&lab->loop, 400);
	}
	assert_int_equal(seen->calls, 1); // the next hop was never reported as missing
	SHELL("ip neigh show 10.0.0.11 dev lb0 | grep -q " MAC0);
}

TEST(lost_neighbours_are_reported_after_the_hold, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;
	uint64_t start;

	watch(lab, "10.0.0.11");
	configure(lab);
	seen = expect(lab, "10.0.0.11", MAC0);
	peer_sh(lab, "ip addr del 10.0.0.11/24 dev eth0");
	SHELL("ip neigh flush dev lb0");
	start = uv_hrtime();
	watch_lab_idle(&lab->loop, 500);
	assert_int_equal(lab->calls, 1);
	assert_true(seen->hop.resolved); // the next hop stays resolved during the hold time
	expect(lab, "10.0.0.11", NULL);
	assert_true(uv_hrtime() - start > (WEIR_NEIGHBOURS_HOLD_MS - 400) * 1000000ull);
}

static bool is_confirmed(void *context) {
	struct lab *lab = context;
	struct hop *hop = weir_hop_find(
		lab->neighbours, lab->ports[0].info.kernel_ifindex, &lab->addresses[0]);

	return hop != NULL && (hop->state & NUD_REACHABLE);
}

// The dataplane's packets do not pass through the kernel. So they do not keep the kernel's
// neighbour entry reachable, and control refreshes it.
TEST(stale_neighbours_are_refreshed, setup, teardown) {
	struct lab *lab = *state;
	struct hop *hop;

	SHELL("sysctl -qw net.ipv4.neigh.lb0.delay_first_probe_time=1");
	watch(lab, "10.0.0.11");
	configure(lab);
	expect(lab, "10.0.0.11", MAC0);
	SHELL("ip neigh replace 10.0.0.11 lladdr " MAC0 " dev lb0 nud stale");
	watch_lab_idle(&lab->loop, 600);
	assert_false(is_confirmed(lab)); // the refresh is not immediate
	hop = weir_hop_find(lab->neighbours, lab->ports[0].info.kernel_ifindex, &lab->addresses[0]);
	assert_true(hop->state & NUD_STALE);
	hop->probe_ms = 0; // makes the probe due now
	watch_lab_run(&lab->loop, is_confirmed, lab, 5000, "confirmation");
	assert_int_equal(lab->calls, 1);
}
