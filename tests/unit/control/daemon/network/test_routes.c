// SPDX-License-Identifier: BSD-3-Clause
//
// Tests requests to rtnetlink of the real kernel, and its events, in a network namespace of this
// process. Needs root.
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "routes.h"
#include "watch_lab.h"

#define NEWS_MAX 64

struct lab {
	uv_loop_t loop;
	struct weir_routes *routes;
	struct weir_neighbour news[NEWS_MAX];
	int news_count, changes, lost, turns;
	const char *wanted; // address for whose events the test waits
};

static void on_neighbour(void *context, const struct weir_neighbour *neighbour) {
	struct lab *lab = context;

	if (lab->news_count < NEWS_MAX) {
		lab->news[lab->news_count++] = *neighbour;
	}
}

static void on_change(void *context) {
	((struct lab *)context)->changes++;
}

static void on_lost(void *context) {
	((struct lab *)context)->lost++;
}

static void on_turn(void *context) {
	((struct lab *)context)->turns++;
}

static int setup(void **state) {
	static const struct weir_routes_events events = {on_neighbour, on_change, on_lost, on_turn};
	struct lab *lab = calloc(1, sizeof(*lab));

	SHELL("ip link add lb0 type veth peer name other0 &&"
	      "ip link set lb0 address 02:00:00:00:00:01 up && ip link set other0 up &&"
	      "ip addr add 10.0.0.2/24 dev lb0 &&"
	      "ip addr add 2001:db8:a::2/64 dev lb0 nodad &&"
	      "ip route add 10.1.0.0/16 via 10.0.0.1 src 10.0.0.2 &&"
	      "ip route add 10.2.0.0/16 via inet6 2001:db8:a::1 dev lb0 &&"
	      "ip route add unreachable 10.3.0.0/16 &&"
	      "ip route add blackhole 10.4.0.0/16 &&"
	      "ip -6 route add 2001:db8:b::/64 via fe80::1 dev lb0 &&"
	      // The kernel makes an IPv6 address local after some time.
	      "until ip -6 route show table local | grep -q '^local 2001:db8:a::2 '; "
	      "do sleep 0.01; done");
	uv_loop_init(&lab->loop);
	assert_int_equal(weir_routes_open(&lab->loop, &events, lab, &lab->routes), 0);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_routes_close(lab->routes);
	watch_lab_close(&lab->loop);
	free(lab);
	SHELL("ip link del lb0; ip route flush type unreachable; ip route flush type "
	      "blackhole; true");
	return 0;
}

static struct weir_route lookup(struct lab *lab, const char *text) {
	struct weir_address address = watch_lab_address(text);
	struct weir_route route;

	assert_int_equal(weir_routes_lookup(lab->routes, &address, &route), 0);
	return route;
}

static void assert_address(const struct weir_address *address, const char *text) {
	char buffer[64];

	assert_string_equal(weir_address_format(address, buffer, sizeof(buffer)), text);
}

TEST_GROUP(watch_lab_enter);
TEST_EACH(setup, teardown);

TEST(routes_lookup_on_link) {
	struct weir_route route = lookup(*state, "10.0.0.11");

	assert_int_equal(route.error, 0);
	assert_false(route.local);
	assert_int_equal(route.ifindex, if_nametoindex("lb0"));
	assert_address(&route.next_hop, "10.0.0.11");
	assert_address(&route.source, "10.0.0.2");
	route = lookup(*state, "2001:db8:a::11");
	assert_int_equal(route.ifindex, if_nametoindex("lb0"));
	assert_address(&route.next_hop, "2001:db8:a::11");
	assert_address(&route.source, "2001:db8:a::2");
}

TEST(routes_lookup_behind_a_gateway) {
	struct weir_route route = lookup(*state, "10.1.2.3");

	assert_address(&route.next_hop, "10.0.0.1");
	assert_address(&route.source, "10.0.0.2");
	route = lookup(*state, "2001:db8:b::7");
	assert_address(&route.next_hop, "fe80::1");
	assert_int_equal(route.ifindex, if_nametoindex("lb0"));
	route = lookup(*state, "10.2.3.4"); // an IPv4 route with an IPv6 gateway
	assert_address(&route.next_hop, "2001:db8:a::1");
	assert_int_equal(route.error, 0);
}

TEST(routes_lookup_without_a_route) {
	assert_int_equal(lookup(*state, "192.0.2.1").error, -ENETUNREACH);
	assert_int_equal(lookup(*state, "10.3.0.1").error, -EHOSTUNREACH);
	assert_int_not_equal(lookup(*state, "10.4.0.1").error, 0);
	assert_int_equal(lookup(*state, "2001:db8:99::1").error, -ENETUNREACH);
	assert_true(lookup(*state, "10.0.0.2").local);
	assert_true(lookup(*state, "2001:db8:a::2").local);
}

struct link_search {
	const char *name;
	struct weir_link found;
	int links;
};

static void take_link(void *context, const struct weir_link *link) {
	struct link_search *search = context;

	search->links++;
	if (strcmp(link->name, search->name) == 0) {
		search->found = *link;
	}
}

TEST(routes_links_with_their_masters) {
	struct lab *lab = *state;
	struct link_search search = {.name = "lb0"};

	assert_int_equal(weir_routes_links(lab->routes, take_link, &search), 0);
	assert_true(search.links >= 3);
	assert_int_equal(search.found.ifindex, if_nametoindex("lb0"));
	assert_int_equal(search.found.vlan, 0);
	assert_int_equal(search.found.lower, 0); // the other end of a veth is not its lower device
	assert_int_equal(search.found.master, 0);

	SHELL("ip link add br7 type bridge && ip link set lb0 master br7");
	assert_int_equal(weir_routes_links(lab->routes, take_link, &search), 0);
	assert_int_equal(search.found.master, if_nametoindex("br7"));
	SHELL("ip link del br7");
}

ssize_t __real_mnl_socket_recvfrom(const struct mnl_socket *socket, void *data, size_t bytes);
ssize_t __wrap_mnl_socket_recvfrom(const struct mnl_socket *socket, void *data, size_t bytes);

static bool *dumps_fail(void) {
	static bool fail;

	return &fail;
}

ssize_t __wrap_mnl_socket_recvfrom(const struct mnl_socket *socket, void *data, size_t bytes) {
	const ssize_t got = __real_mnl_socket_recvfrom(socket, data, bytes);
	struct nlmsghdr *message = data;

	for (int left = (int)got; *dumps_fail() && mnl_nlmsg_ok(message, left);
		message = mnl_nlmsg_next(message, &left)) {
		if (message->nlmsg_type == NLMSG_DONE) {
			*(int *)mnl_nlmsg_get_payload(message) = -ENOBUFS;
		}
	}
	return got;
}

// The last message of the kernel has the error that ended the dump.
TEST(routes_dump_that_fails_in_the_middle) {
	struct lab *lab = *state;
	struct link_search search = {.name = "lb0"};

	*dumps_fail() = true;
	assert_int_equal(weir_routes_links(lab->routes, take_link, &search), -ENOBUFS);
	*dumps_fail() = false;
	assert_int_equal(weir_routes_links(lab->routes, take_link, &search), 0);
}

TEST(routes_parse_link_of_a_vlan) {
	char buffer[512] __attribute__((aligned(8))) = {0};
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct nlattr *info, *data;
	struct ifinfomsg *link;
	struct weir_link parsed;

	message->nlmsg_type = RTM_NEWLINK;
	link = mnl_nlmsg_put_extra_header(message, sizeof(*link));
	link->ifi_index = 12;
	mnl_attr_put_strz(message, IFLA_IFNAME, "lb0.100");
	mnl_attr_put_u32(message, IFLA_LINK, 5);
	info = mnl_attr_nest_start(message, IFLA_LINKINFO);
	mnl_attr_put_strz(message, IFLA_INFO_KIND, "vlan");
	data = mnl_attr_nest_start(message, IFLA_INFO_DATA);
	mnl_attr_put_u16(message, IFLA_VLAN_ID, 100);
	mnl_attr_nest_end(message, data);
	mnl_attr_nest_end(message, info);
	weir_routes_parse_link(message, &parsed);
	assert_int_equal(parsed.ifindex, 12);
	assert_string_equal(parsed.name, "lb0.100");
	assert_int_equal(parsed.vlan, 100);
	assert_int_equal(parsed.lower, 5);
}

TEST(routes_neighbours_are_reported) {
	struct lab *lab = *state;
	bool found = false;

	SHELL("ip neigh add 10.0.0.11 lladdr 02:00:00:00:00:11 dev lb0 nud stale");
	assert_int_equal(weir_routes_neighbours(lab->routes, on_neighbour, lab), 0);
	for (int i = 0; i < lab->news_count; i++) {
		const struct weir_neighbour *news = &lab->news[i];

		if (news->address.family == 4 && news->address.bytes[3] == 11) {
			assert_true(news->has_mac);
			assert_int_equal(news->mac[5], 0x11);
			assert_int_equal(news->state, NUD_STALE);
			assert_int_equal(news->ifindex, if_nametoindex("lb0"));
			found = true;
		}
	}
	assert_true(found);
}

static bool has_news(void *context) {
	struct lab *lab = context;
	struct weir_address wanted = watch_lab_address(lab->wanted);

	for (int i = 0; i < lab->news_count; i++) {
		if (memcmp(&lab->news[i].address, &wanted, sizeof(wanted)) == 0) {
			lab->news[0] = lab->news[i];
			return true;
		}
	}
	return false;
}

TEST(routes_neighbours_have_a_limit) {
	struct lab *lab = *state;

	assert_true(weir_routes_neighbours_max(lab->routes, 4) > 0);
	assert_true(weir_routes_neighbours_max(lab->routes, 6) > 0);
	assert_int_equal(weir_routes_neighbours_max(lab->routes, 0), 0);
}

TEST(routes_events_of_neighbours) {
	static const char *const addresses[] = {"10.0.0.12", "2001:db8:a::12"};
	struct lab *lab = *state;

	for (int i = 0; i < 2; i++) {
		lab->wanted = addresses[i];
		lab->news_count = 0;
		SHELL("ip neigh add %s lladdr 02:00:00:00:00:12 dev lb0", addresses[i]);
		watch_lab_run(&lab->loop, has_news, lab, 2000, "event of an addition");
		assert_true(lab->news[0].has_mac);
		assert_false(lab->news[0].deleted);
		lab->news_count = 0;
		SHELL("ip neigh del %s dev lb0", addresses[i]);
		watch_lab_run(&lab->loop, has_news, lab, 2000, "event of a deletion");
		assert_false(lab->news[0].has_mac);
	}
	assert_true(lab->turns > 0);
	assert_int_equal(lab->lost, 0);
}

static bool has_changed(void *context) {
	return ((struct lab *)context)->changes > 0;
}

TEST(routes_events_of_changes) {
	static const char *const commands[] = {
		"ip route add 10.5.0.0/16 via 10.0.0.1",
		"ip route del 10.5.0.0/16",
		"ip -6 route add 2001:db8:c::/64 via 2001:db8:a::1",
		"ip addr add 10.0.0.3/24 dev lb0",
		"ip -6 addr add 2001:db8:a::3/64 dev lb0",
		"ip rule add from 10.9.9.9 table main",
		"ip link set lb0 mtu 1400",
		"ip rule del from 10.9.9.9 table main",
	};
	struct lab *lab = *state;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		watch_lab_idle(&lab->loop, 30);
		lab->changes = 0;
		SHELL("%s", commands[i]);
		watch_lab_run(&lab->loop, has_changed, lab, 2000, commands[i]);
	}
}

static bool has_lost(void *context) {
	return ((struct lab *)context)->lost > 0;
}

// The test reads no events until the buffer of the socket has overflowed.
TEST(routes_lost_events_are_reported) {
	struct lab *lab = *state;

	SHELL("for i in $(seq 1 20000); do echo route add 10.7.$((i / 250)).$((i %% 250)) "
	      "dev lb0; done | ip -batch -");
	watch_lab_run(&lab->loop, has_lost, lab, 2000, "word of the loss");
	assert_int_equal(lookup(lab, "10.7.1.1").error, 0);
}
