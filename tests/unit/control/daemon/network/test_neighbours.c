// SPDX-License-Identifier: BSD-3-Clause
//
// Tests next hops on real veth pairs. lb0 and lb1 are ports. Their peers eth0 and eth1 are in a
// separate network namespace, which answers ARP requests and neighbour solicitations. Needs root.
#include <errno.h>
#include <grp.h>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "neighbours.h"
#include "neighbours_hops.h"
#include "watch_lab.h"

#define REPORTS_MAX 32
#define MAC0 "02:00:00:00:00:10" // MAC address of eth0
#define MAC1 "02:00:00:00:00:11" // MAC address of eth1

struct seen { // last report about an address
	struct weir_address address;
	struct weir_next_hop hop;
	char why[256];
	int calls;
};

struct lab {
	uv_loop_t loop;
	struct weir_neighbours *neighbours;
	pid_t peer; // process that holds the other namespace
	struct seen seen[REPORTS_MAX];
	uint32_t seen_count;
	uint32_t calls;
	struct weir_neighbour_port ports[2];
	struct weir_address addresses[REPORTS_MAX];
	uint32_t address_count;
	const char *wanted; // address for which the test waits
	const char *wanted_mac; // expected MAC address; NULL = unresolved
	bool clear_in_callback;
};

static struct seen *seen_of(struct lab *lab, const struct weir_address *address) {
	for (uint32_t i = 0; i < lab->seen_count; i++) {
		if (memcmp(&lab->seen[i].address, address, sizeof(*address)) == 0) {
			return &lab->seen[i];
		}
	}
	return NULL;
}

static void on_next_hop(void *context, const struct weir_address *address,
	const struct weir_next_hop *hop, const char *why) {
	struct lab *lab = context;
	struct seen *seen = seen_of(lab, address);

	lab->calls++;
	if (seen == NULL && lab->seen_count < REPORTS_MAX) {
		seen = &lab->seen[lab->seen_count++];
		seen->address = *address;
	}
	if (seen != NULL) {
		seen->hop = *hop;
		seen->calls++;
		strncpy(seen->why, why, sizeof(seen->why) - 1);
	}
	if (lab->clear_in_callback) {
		assert_int_equal(weir_neighbours_configure(
					 lab->neighbours, lab->ports, 2, lab->addresses, 0),
			0);
	}
}

static void peer_sh(const struct lab *lab, const char *command) {
	SHELL("nsenter -t %d -n sh -c '%s'", lab->peer, command);
}

static void make_peer(struct lab *lab) {
	static const char *const words[] = {"unshare", "--net", "sleep", "600", NULL};

	lab->peer = watch_lab_start(words);
	SHELL("for i in $(seq 500); do [ \"$(readlink /proc/%d/ns/net)\" != "
	      "\"$(readlink /proc/%d/ns/net)\" ] && exit; sleep 0.01; done; exit 1",
		lab->peer, getpid());
	for (int i = 0; i < 2; i++) {
		SHELL("ip link add lb%d type veth peer name eth%d netns %d &&"
		      "ip link set lb%d up && ip addr add 10.%d.0.2/24 dev lb%d &&"
		      "ip addr add 2001:db8:%d::2/64 dev lb%d nodad",
			i, i, lab->peer, i, i, i, i, i);
	}
	peer_sh(lab,
		"ip link set eth0 address " MAC0 " up && ip link set eth1 address " MAC1 " up &&"
		"ip addr add 10.0.0.11/24 dev eth0 && ip addr add 10.1.0.11/24 dev eth1 &&"
		"ip addr add 2001:db8:0::11/64 dev eth0 nodad &&"
		"ip addr add 2001:db8:1::11/64 dev eth1 nodad");
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	make_peer(lab);
	uv_loop_init(&lab->loop);
	assert_int_equal(weir_neighbours_create(&lab->loop, on_next_hop, lab, &lab->neighbours), 0);
	for (int i = 0; i < 2; i++) {
		struct weir_port_info *info = &lab->ports[i].info;

		snprintf(info->name, sizeof(info->name), "port-%d", i);
		snprintf(info->kernel_interface, sizeof(info->kernel_interface), "lb%d", i);
		info->kernel_ifindex = if_nametoindex(info->kernel_interface);
	}
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_neighbours_free(lab->neighbours);
	watch_lab_close(&lab->loop);
	SHELL("ip link del lb0; ip link del lb1");
	watch_lab_stop(lab->peer);
	free(lab);
	return 0;
}

static void watch(struct lab *lab, const char *address) {
	lab->addresses[lab->address_count++] = watch_lab_address(address);
}

static void configure(struct lab *lab) {
	assert_int_equal(weir_neighbours_configure(lab->neighbours, lab->ports, 2, lab->addresses,
				 lab->address_count),
		0);
}

static void format_mac(const uint8_t mac[6], char text[18]) {
	snprintf(text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		mac[5]);
}

static bool is_as_wanted(void *context) {
	struct lab *lab = context;
	struct weir_address address = watch_lab_address(lab->wanted);
	struct seen *seen = seen_of(lab, &address);
	char mac[18];

	if (seen == NULL || seen->hop.resolved != (lab->wanted_mac != NULL)) {
		return false;
	}
	format_mac(seen->hop.mac, mac);
	return lab->wanted_mac == NULL || strcmp(mac, lab->wanted_mac) == 0;
}

// Wait until the last report of an address has this MAC address (NULL: unresolved).
static struct seen *expect(struct lab *lab, const char *address, const char *mac) {
	struct weir_address parsed = watch_lab_address(address);

	lab->wanted = address;
	lab->wanted_mac = mac;
	watch_lab_run(&lab->loop, is_as_wanted, lab, 8000, address);
	return seen_of(lab, &parsed);
}

static void assert_source(const struct seen *seen, const char *text) {
	char buffer[64];

	assert_string_equal(weir_address_format(&seen->hop.source, buffer, sizeof(buffer)), text);
}

// --- finding ------------------------------------------------------------------------------

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

// --- changes ------------------------------------------------------------------------------

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

ssize_t __real_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes);
ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes);

ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *socket, const void *data, size_t bytes) {
	if (((const struct nlmsghdr *)data)->nlmsg_type == RTM_GETROUTE && *lookups_to_fail() > 0) {
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

// --- configuring --------------------------------------------------------------------------

static bool was_called_again(void *context) {
	return ((struct lab *)context)->calls >= 2;
}

TEST(neighbours_are_reported_once_per_configure, setup, teardown) {
	struct lab *lab = *state;
	struct seen *seen;

	watch(lab, "10.0.0.11");
	watch(lab, "10.0.0.11");
	configure(lab);
	assert_int_equal(lab->calls, 0);
	seen = expect(lab, "10.0.0.11", MAC0);
	watch_lab_idle(&lab->loop, 600);
	assert_int_equal(seen->calls, 1);
	configure(lab);
	watch_lab_run(&lab->loop, was_called_again, lab, 2000, "second report");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(seen->calls, 2);
	assert_true(seen->hop.resolved);

	lab->address_count = 0;
	configure(lab);
	SHELL("ip neigh replace 10.0.0.11 lladdr 02:00:00:00:00:aa dev lb0");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(lab->calls, 2);
}

TEST(neighbours_configure_refuses_invalid_input, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address bad = {.family = 5};

	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, 2, &bad, 1), -EINVAL);
	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, WEIR_PORTS_MAX + 1, NULL, 0),
		-EINVAL);
}

static bool was_called(void *context) {
	return ((struct lab *)context)->calls > 0;
}

TEST(neighbours_callback_may_configure, setup, teardown) {
	struct lab *lab = *state;

	lab->clear_in_callback = true;
	watch(lab, "10.0.0.11");
	watch(lab, "10.1.0.11");
	watch(lab, "2001:db8:0::11");
	configure(lab);
	watch_lab_run(&lab->loop, was_called, lab, 5000, "first report");
	watch_lab_idle(&lab->loop, 300);
	assert_int_equal(lab->calls, 1);
}

static bool has_ten_thousand(void *context) {
	return ((struct lab *)context)->calls >= 10000;
}

TEST(neighbours_of_ten_thousand_backends, setup, teardown) {
	struct lab *lab = *state;
	struct weir_address *addresses = calloc(10000, sizeof(*addresses));
	uint64_t start;

	SHELL("ip route add 10.50.0.0/16 via 10.0.0.11");
	for (uint32_t i = 0; i < 10000; i++) {
		addresses[i] = (struct weir_address){
			.bytes = {10, 50, (uint8_t)(i / 250), (uint8_t)(i % 250)}, .family = 4};
	}
	start = uv_hrtime();
	assert_int_equal(
		weir_neighbours_configure(lab->neighbours, lab->ports, 2, addresses, 10000), 0);
	watch_lab_run(&lab->loop, has_ten_thousand, lab, 60000, "10,000 reports");
	print_message("10,000 addresses: %.1f ms\n", (double)(uv_hrtime() - start) / 1e6);
	lab->calls = 0;
	SHELL("ip route replace 10.50.0.0/16 via 10.1.0.11"); // all next hops change
	watch_lab_run(&lab->loop, has_ten_thousand, lab, 60000, "10,000 more");
	free(addresses);
}

// weir-control needs no capability to resolve neighbours.
TEST(neighbours_need_no_privilege, setup, teardown) {
	struct lab *lab = *state;
	int status;
	pid_t pid;

	SHELL("ip neigh flush dev lb0");
	pid = fork();
	if (pid == 0) {
		struct lab own = *lab;
		bool found = false;

		own.calls = 0;
		if (setgroups(0, NULL) || setgid(65534) || setuid(65534) ||
			prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
			_exit(2);
		}
		uv_loop_init(&own.loop);
		if (weir_neighbours_create(&own.loop, on_next_hop, &own, &own.neighbours)) {
			_exit(3);
		}
		watch(&own, "10.0.0.11");
		configure(&own);
		own.wanted = "10.0.0.11";
		own.wanted_mac = MAC0;
		for (int i = 0; i < 300 && !found; i++) {
			watch_lab_idle(&own.loop, 10);
			found = is_as_wanted(&own);
		}
		_exit(found ? 0 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

// --- ports --------------------------------------------------------------------------------

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

	n->links = links;
	n->link_count = sizeof(links) / sizeof(links[0]);
	n->port_count = 5;
	n->ports[0].info = (struct weir_port_info){.kernel_ifindex = 2};
	n->ports[1].info = (struct weir_port_info){.kernel_ifindex = 2, .vlan = 100};
	n->ports[2].info = (struct weir_port_info){.kernel_ifindex = 3, .vlan = 100};
	n->ports[3].info = (struct weir_port_info){.kernel_ifindex = 11};
	// a port without a kernel interface
	n->ports[4].info = (struct weir_port_info){.kernel_ifindex = 0};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int port = weir_neighbours_port_of(n, cases[i].ifindex);

		if (port != cases[i].port) {
			fail_msg("interface %u: port %d", cases[i].ifindex, port);
		}
	}
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
