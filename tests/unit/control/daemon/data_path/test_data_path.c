// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the data path with the kernel: packets are read at the other end of a veth, as on the wire.
//
//     host 10.0.0.2/24, 2001:db8:a::2/64 ---- wire: sent packets are read here
//
// Backends are 10.0.0.11 and 2001:db8:a::11, with link addresses that no host has.
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "data_path.h"
#include "data_path_packet.h"
#include "forwarding.h"
#include "watch_lab.h"

#define VIP4 "198.51.100.10"
#define VIP6 "2001:db8:f::10"
#define BACKEND4 "10.0.0.11"
#define BACKEND6 "2001:db8:a::11"
#define DEAD 500 // packets to dead backends: more than the default send buffer has room for

struct lab {
	uv_loop_t loop;
	struct weir_data_path *path;
	int wire; // socket that reads sent packets
	char lost[64]; // devices that failed
	uint8_t frame[2048]; // the last packet that was read
	size_t bytes;
};

static int enter(void **state) {
	if (watch_lab_enter(state) < 0) {
		return -1;
	}
	SHELL("ip link add ours type veth peer name wire &&"
	      "sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.ours.rp_filter=0 &&"
	      "ip link set ours up && ip link set wire up &&"
	      "ip addr add 10.0.0.2/24 dev ours && ip addr add 2001:db8:a::2/64 dev ours nodad &&"
	      "ip neigh add " BACKEND4 " lladdr 02:00:00:00:00:09 dev ours &&"
	      "ip neigh add " BACKEND6 " lladdr 02:00:00:00:00:09 dev ours &&"
	      "ip route add default via 10.0.0.11 && ip -6 route add default via " BACKEND6);
	return 0;
}

static void on_lost(void *context, const char *device) {
	struct lab *lab = context;

	strcat(lab->lost, device);
}

static struct weir_data_path_tunnel open_tunnel(void) {
	struct weir_data_path_tunnel tunnel;
	char why[256] = "";

	if (weir_data_path_tunnel_open(geteuid(), &tunnel, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
	assert_int_equal(tunnel.ipv6_error, 0);
	return tunnel;
}

static int start(void **state, struct weir_data_path_tunnel tunnel) {
	struct sockaddr_ll wire = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex("wire")};
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_data_path_create(&lab->loop, &tunnel, on_lost, lab, &lab->path), 0);
	assert_int_equal(tunnel.device, -1);
	lab->wire = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
	assert_int_equal(bind(lab->wire, (struct sockaddr *)&wire, sizeof(wire)), 0);
	*state = lab;
	return 0;
}

static int setup(void **state) {
	return start(state, open_tunnel());
}

// Simulates a process that may not open packet sockets.
static int setup_without_link(void **state) {
	struct weir_data_path_tunnel tunnel = open_tunnel();

	close(tunnel.link);
	tunnel.link = -1;
	return start(state, tunnel);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_data_path_free(lab->path);
	watch_lab_close(&lab->loop);
	close(lab->wire);
	free(lab);
	return 0;
}

static struct weir_data_path_target target_of(const char *backend, const char *vip) {
	return (struct weir_data_path_target){.backend = watch_lab_address(backend),
		.vip = watch_lab_address(vip),
		.protocol = IPPROTO_TCP,
		.port = 80};
}

static void open_flow(struct lab *lab, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow) {
	char why[96] = "";

	if (weir_data_path_open(lab->path, target, flow, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
}

// Returns 0 or negative errno.
static int connect_to(int fd, const char *address) {
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
	int r;

	if (inet_pton(AF_INET, address, &in.sin_addr) == 1) {
		r = connect(fd, (struct sockaddr *)&in, sizeof(in));
	} else {
		assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
		r = connect(fd, (struct sockaddr *)&in6, sizeof(in6));
	}
	return r < 0 && errno != EINPROGRESS ? -errno : 0;
}

static bool is_forwarded(const uint8_t *ip) {
	const bool ipv4 = ip[0] >> 4 == 4;

	switch (ipv4 ? ip[9] : ip[6]) {
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
	case IPPROTO_GRE:
	case IPPROTO_TCP:
		return ipv4 || ip[0] >> 4 == 6;
	case IPPROTO_UDP:
		return memcmp(ip + (ipv4 ? 20 : 40) + 2, (uint8_t[2]){0x17, 0xc0}, 2) == 0;
	default:
		return false;
	}
}

// Returns whether another complete packet to a backend was sent.
static bool has_left(void *context) {
	struct lab *lab = context;

	for (;;) {
		ssize_t got = recv(lab->wire, lab->frame, sizeof(lab->frame), 0);

		if (got < 0) {
			return false;
		}
		lab->bytes = (size_t)got - ETH_HLEN;
		if (got > ETH_HLEN && is_forwarded(lab->frame + ETH_HLEN)) {
			return true;
		}
	}
}

static void expect_packet(struct lab *lab, const char *backend, const char *source, const char *vip,
	const struct weir_data_path_flow *flow, bool reset) {
	struct weir_address address = watch_lab_address(backend);
	const uint8_t *ip = lab->frame + ETH_HLEN;
	size_t outer = address.family == 4 ? 20 : 40;
	struct weir_data_path_packet packet;

	watch_lab_run(&lab->loop, has_left, lab, 2000, "a packet on the wire");
	assert_int_equal(ip[0] >> 4, address.family);
	assert_memory_equal(
		ip + (outer == 20 ? 16 : 24), address.bytes, address.family == 4 ? 4 : 16);
	address = watch_lab_address(source);
	assert_memory_equal(
		ip + (outer == 20 ? 12 : 8), address.bytes, address.family == 4 ? 4 : 16);
	assert_true(weir_data_path_packet_read(ip + outer, lab->bytes - outer, &packet));
	address = watch_lab_address(vip);
	assert_memory_equal(&packet.destination, &address, sizeof(address));
	address = watch_lab_address(address.family == 4 ? "10.0.0.2" : "2001:db8:a::2");
	assert_memory_equal(&packet.source, &address, sizeof(address));
	assert_int_equal(packet.source_port, flow->port);
	assert_int_equal(packet.destination_port, 80);
	assert_int_equal(packet.reset, reset);
}

TEST_GROUP(enter);

TEST(syn_leaves_encapsulated_to_the_backend, setup, teardown) {
	static const struct {
		const char *backend, *source, *vip;
	} cases[] = {
		{BACKEND4, "10.0.0.2", VIP4},
		{BACKEND4, "10.0.0.2", VIP6},
		{BACKEND6, "2001:db8:a::2", VIP4},
		{BACKEND6, "2001:db8:a::2", VIP6},
	};
	struct lab *lab = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_data_path_target target = target_of(cases[i].backend, cases[i].vip);
		struct weir_data_path_flow flow;
		char why[96] = "";
		int error = 1;

		open_flow(lab, &target, &flow);
		assert_int_equal(connect_to(flow.socket, cases[i].vip), 0);
		expect_packet(lab, cases[i].backend, cases[i].source, cases[i].vip, &flow, false);
		assert_true(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
		assert_int_equal(error, 0);
		weir_data_path_close(lab->path, &flow);
		assert_int_equal(flow.port, 0);
	}
}

// A datagram leaves in the same way, from the same block of ports.
TEST(datagram_leaves_encapsulated_to_the_backend, setup, teardown) {
	static const char *const vips[] = {VIP4, VIP6};
	struct lab *lab = *state;

	for (size_t i = 0; i < sizeof(vips) / sizeof(vips[0]); i++) {
		struct weir_data_path_target target = target_of(BACKEND4, vips[i]);
		struct weir_data_path_packet packet;
		struct weir_data_path_flow flow;
		char why[96] = "";
		int error = 1;

		target.protocol = IPPROTO_UDP;
		open_flow(lab, &target, &flow);
		assert_int_equal(connect_to(flow.socket, vips[i]), 0);
		assert_int_equal(send(flow.socket, "x", 1, 0), 1);
		expect_packet(lab, BACKEND4, "10.0.0.2", vips[i], &flow, false);
		assert_true(weir_data_path_packet_read(
			lab->frame + ETH_HLEN + 20, lab->bytes - 20, &packet));
		assert_int_equal(packet.protocol, IPPROTO_UDP);
		assert_true(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
		assert_int_equal(error, 0);
		weir_data_path_close(lab->path, &flow);
	}
}

TEST(modes_reach_the_backend, setup, teardown) {
	static const char *const backends[] = {BACKEND4, BACKEND6}, *const vips[] = {VIP4, VIP6};
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
	struct lab *lab = *state;

	for (int i = 0; i < 4 * WEIR_FORWARDING_COUNT; i++) {
		struct weir_data_path_target target = target_of(backends[i % 2], vips[i / 2 % 2]);
		const struct weir_forwarding_headers *mode = weir_forwarding_headers[i / 4];
		size_t before = (!mode->outer ? 0 : i % 2 == 0 ? 20 : 40);
		const uint8_t *ip = lab->frame + ETH_HLEN;
		struct weir_data_path_packet packet;
		struct weir_data_path_flow flow;
		struct weir_forwarding found;
		uint8_t protocol = 0;

		target.forwarding = (struct weir_forwarding){
			.mode = (uint8_t)(i / 4), .gue_port = WEIR_GUE_PORT, .gre_key = 7};
		target.hop.ifindex = if_nametoindex("ours");
		target.hop.has_mac = true;
		memcpy(target.hop.mac, mac, sizeof(mac));
		open_flow(lab, &target, &flow);
		assert_int_equal(connect_to(flow.socket, vips[i / 2 % 2]), 0);
		watch_lab_run(&lab->loop, has_left, lab, 2000, "a packet on the wire");
		if (mode->outer) {
			int tail = weir_forwarding_find(before == 20 ? ip[9] : ip[6], ip + before,
				lab->bytes - before, &found, &protocol);

			assert_int_equal(tail, mode->tail_bytes(&target.forwarding));
			assert_int_equal(found.mode, target.forwarding.mode);
			assert_int_equal(protocol, i / 2 % 2 == 0 ? IPPROTO_IPIP : IPPROTO_IPV6);
			before += (size_t)tail;
		} else {
			assert_memory_equal(lab->frame, mac, sizeof(mac));
		}
		assert_true(weir_data_path_packet_read(ip + before, lab->bytes - before, &packet));
		assert_int_equal(packet.source_port, flow.port);
		weir_data_path_close(lab->path, &flow);
	}
}

// While the link-layer address of a backend is unknown, the kernel keeps the packets to it, which
// count as data that the raw socket has not sent yet.
TEST(packets_leave_although_other_backends_are_dead, setup, teardown) {
	static struct weir_data_path_flow dead[DEAD];
	struct weir_data_path_target target;
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char address[32], why[96];
	int error = 1;

	for (int i = 0; i < DEAD; i++) {
		snprintf(address, sizeof(address), "10.0.0.%d", 20 + i % 50);
		target = target_of(address, VIP4);
		open_flow(lab, &target, &dead[i]);
		assert_int_equal(connect_to(dead[i].socket, VIP4), 0);
		assert_true(weir_data_path_taken(lab->path, &dead[i], &error, why, sizeof(why)));
		assert_int_equal(error, 0);
	}
	target = target_of(BACKEND4, VIP4);
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP4), 0);
	expect_packet(lab, BACKEND4, "10.0.0.2", VIP4, &flow, false);
	weir_data_path_close(lab->path, &flow);
	for (int i = 0; i < DEAD; i++) {
		weir_data_path_close(lab->path, &dead[i]);
	}
}

TEST(l2_needs_the_mac_address, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96] = "";

	target.forwarding.mode = WEIR_FORWARDING_L2;
	assert_int_equal(
		weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -ENOLINK);
	assert_string_equal(why, "the link of the backend is not known yet");
	target.hop.ifindex = if_nametoindex("ours");
	assert_int_equal(
		weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -EHOSTUNREACH);
	assert_string_equal(why, "no ARP/ND reply from the backend");
	target.hop.through_gateway = true;
	assert_int_equal(
		weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -ENETUNREACH);
	assert_string_equal(why, "packets to the backend go through a gateway");
}

TEST(unreachable_backend_is_explained, setup, teardown) {
	struct weir_data_path_target target = target_of("10.99.0.1", VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96] = "";

	SHELL("ip route add unreachable 10.99.0.1");
	assert_int_equal(
		weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -EHOSTUNREACH);
	assert_string_equal(why, "host is unreachable");
	SHELL("ip route del unreachable 10.99.0.1");
}

TEST(only_l2_needs_packet_sockets, setup_without_link, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96] = "";

	open_flow(lab, &target, &flow);
	weir_data_path_close(lab->path, &flow);
	target.forwarding.mode = WEIR_FORWARDING_L2;
	target.hop.ifindex = if_nametoindex("ours");
	target.hop.has_mac = true;
	assert_int_equal(
		weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -EPROTONOSUPPORT);
	assert_string_equal(
		why, "packet sockets are not allowed: add AF_PACKET to RestrictAddressFamilies");
}

// The outer source address is the source address of the target. If the target has none, the
// kernel selects an address.
TEST(outer_source_is_the_requested_one, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;

	target.hop.source = watch_lab_address("192.0.2.77"); // not an address of this host
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP4), 0);
	expect_packet(lab, BACKEND4, "192.0.2.77", VIP4, &flow, false);
	weir_data_path_close(lab->path, &flow);
}

// A host that forwards packets has unreachable routes for its VIPs. Checks reach the backends
// nevertheless.
TEST(unreachable_vips_are_reached, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP6);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;

	SHELL("ip route add unreachable 198.51.100.0/24");
	SHELL("ip -6 route add unreachable 2001:db8:f::/64");
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP6), 0);
	expect_packet(lab, BACKEND4, "10.0.0.2", VIP6, &flow, false);
	weir_data_path_close(lab->path, &flow);
	target = target_of(BACKEND4, VIP4);
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP4), 0);
	expect_packet(lab, BACKEND4, "10.0.0.2", VIP4, &flow, false);
	weir_data_path_close(lab->path, &flow);
	SHELL("ip route del unreachable 198.51.100.0/24");
	SHELL("ip -6 route del unreachable 2001:db8:f::/64");
}

TEST(local_vip_is_not_the_data_path, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96];
	int error;

	SHELL("ip addr add " VIP4 "/32 dev lo");
	open_flow(lab, &target, &flow);
	connect_to(flow.socket, VIP4); // the connection is refused at once
	assert_false(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
	assert_string_equal(why, VIP4 " is an address of this host");
	weir_data_path_close(lab->path, &flow);
	SHELL("ip addr del " VIP4 "/32 dev lo");
}

// rp_filter of the host may drop the answers of backends. This depends on the route to the VIP.
TEST(dropped_answers_are_reported, setup, teardown) {
	static const struct {
		const char *filter, *route; // rp_filter, and the route to the VIP
		bool let_in;
	} cases[] = {
		{"0", "unreachable 198.51.100.0/24", true},
		{"1", "unreachable 198.51.100.0/24", false},
		{"2", "unreachable 198.51.100.0/24", false},
		{"1", "198.51.100.0/24 dev lo", false},
		{"2", "198.51.100.0/24 dev lo", true},
		{"1", "198.51.100.0/24 via " BACKEND4, true},
	};
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char why[96] = "";
		int error = 1;

		SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=%s", cases[i].filter);
		SHELL("ip route add %s", cases[i].route);
		open_flow(lab, &target, &flow);
		assert_int_equal(connect_to(flow.socket, VIP4), 0);
		expect_packet(lab, BACKEND4, "10.0.0.2", VIP4, &flow, false);
		assert_true(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
		assert_int_equal(weir_data_path_local_fault(lab->path, &flow, 0, why, sizeof(why)),
			!cases[i].let_in);
		assert_string_equal(why, cases[i].let_in ? ""
							 : "this host drops replies from " VIP4
							   " on ours: see rp_filter");
		weir_data_path_close(lab->path, &flow);
		SHELL("ip route del %s", cases[i].route);
	}
	SHELL("sysctl -qw net.ipv4.conf.all.rp_filter=0");
}

TEST(late_packets_of_this_host_are_no_result, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96] = "";
	int error;

	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP4), 0);
	usleep(50000); // the loop does other work
	uv_update_time(&lab->loop);
	assert_true(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
	assert_true(weir_data_path_local_fault(lab->path, &flow, 25, why, sizeof(why)));
	assert_string_equal(why, "this host was too busy to send a packet in time");
	watch_lab_idle(&lab->loop, 50);
	assert_false(weir_data_path_local_fault(lab->path, &flow, 25, why, sizeof(why)));
	weir_data_path_close(lab->path, &flow);
}

// While the device is down, no packet takes the default route to the VIP.
TEST(nothing_is_sent_while_the_device_is_down, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;
	char why[96];
	int error;

	SHELL("ip link set weir-check down");
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP4), -EHOSTUNREACH);
	assert_false(weir_data_path_taken(lab->path, &flow, &error, why, sizeof(why)));
	assert_string_equal(
		why, "no packet was sent through device weir-check: see \"ip rule\", table 47770");
	weir_data_path_close(lab->path, &flow);
	target = target_of(BACKEND6, VIP6);
	open_flow(lab, &target, &flow);
	assert_int_equal(connect_to(flow.socket, VIP6), -EHOSTUNREACH);
	weir_data_path_close(lab->path, &flow);
}

static bool is_lost(void *context) {
	return ((struct lab *)context)->lost[0] != '\0';
}

TEST(deleted_device_is_reported_once, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow = {0};
	struct lab *lab = *state;
	char why[96];

	SHELL("ip link del weir-check");
	watch_lab_run(&lab->loop, is_lost, lab, 2000, "the device is lost");
	watch_lab_idle(&lab->loop, 20);
	assert_string_equal(lab->lost, "weir-check");
	assert_int_equal(weir_data_path_open(lab->path, &target, &flow, why, sizeof(why)), -ENODEV);
	assert_string_equal(why, "device weir-check was removed: restart weir-control");
	assert_int_equal(flow.port, 0);
}

// The flow is closed before its socket. Then the socket is closed, which causes an RST. The RST
// still goes to the backend.
TEST(reset_of_an_ended_flow_goes_to_its_backend, setup, teardown) {
	static const uint8_t ack[] = {0x50, 0x04, 0, 0};
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct weir_data_path_flow flow, ended;
	struct lab *lab = *state;
	uint8_t reset[40] = {0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, IPPROTO_TCP, 0, 0, 10, 0, 0, 2, 198,
		51, 100, 10};
	struct sockaddr_in vip = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(VIP4)};
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	open_flow(lab, &target, &flow);
	ended = flow;
	weir_data_path_close(lab->path, &flow);
	reset[20] = (uint8_t)(ended.port >> 8);
	reset[21] = (uint8_t)ended.port;
	reset[23] = 80;
	memcpy(reset + 32, ack, sizeof(ack));
	assert_int_equal(setsockopt(raw, SOL_SOCKET, SO_BINDTODEVICE, "weir-check", 11), 0);
	assert_true(sendto(raw, reset, sizeof(reset), 0, (struct sockaddr *)&vip, sizeof(vip)) > 0);
	expect_packet(lab, BACKEND4, "10.0.0.2", VIP4, &ended, true);
	reset[33] = 0x02; // a SYN does not go to the backend
	assert_true(sendto(raw, reset, sizeof(reset), 0, (struct sockaddr *)&vip, sizeof(vip)) > 0);
	watch_lab_idle(&lab->loop, 50);
	assert_false(has_left(lab));
	close(raw);
}

// Any user can bind a socket to the device. Packets of such a socket are dropped.
TEST(packets_of_others_are_dropped, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	struct sockaddr_in any = {.sin_family = AF_INET}, vip = any, own = any;
	int stranger = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	int datagram = socket(AF_INET, SOCK_DGRAM, 0);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;

	open_flow(lab, &target, &flow);
	inet_pton(AF_INET, VIP4, &vip.sin_addr);
	vip.sin_port = htons(80);
	own.sin_addr.s_addr = inet_addr("10.0.0.2");
	own.sin_port = htons(flow.port);
	assert_int_equal(setsockopt(stranger, SOL_SOCKET, SO_BINDTODEVICE, "weir-check", 11), 0);
	assert_int_equal(setsockopt(datagram, SOL_SOCKET, SO_BINDTODEVICE, "weir-check", 11), 0);
	assert_int_equal(bind(stranger, (struct sockaddr *)&own, sizeof(own)), -1);
	assert_int_equal(errno, EADDRINUSE);
	// this connection uses a port that no check has
	assert_int_equal(connect_to(stranger, VIP4), 0);
	assert_int_equal(bind(datagram, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(sendto(datagram, "x", 1, 0, (struct sockaddr *)&vip, sizeof(vip)), 1);
	watch_lab_idle(&lab->loop, 50);
	assert_false(has_left(lab));
	weir_data_path_close(lab->path, &flow);
	close(stranger);
	close(datagram);
}

// The kernel chooses the source address of the check when it sends the first packet. A packet of
// another process with the same port, before that, is no packet of the check.
TEST(packets_of_others_do_not_change_the_source_address, setup, teardown) {
	struct weir_data_path_target target = target_of(BACKEND6, VIP4);
	uint8_t datagram[28] = {0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, IPPROTO_UDP, 0, 0, 192, 0, 2, 1,
		198, 51, 100, 10};
	struct sockaddr_in vip = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(VIP4)};
	int raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	struct weir_data_path_flow flow;
	struct lab *lab = *state;

	SHELL("ip route add unreachable 198.51.100.0/24");
	open_flow(lab, &target, &flow);
	datagram[20] = (uint8_t)(flow.port >> 8);
	datagram[21] = (uint8_t)flow.port;
	datagram[25] = 8;
	assert_int_equal(setsockopt(raw, SOL_SOCKET, SO_BINDTODEVICE, "weir-check", 11), 0);
	assert_int_equal(
		sendto(raw, datagram, sizeof(datagram), 0, (struct sockaddr *)&vip, sizeof(vip)),
		sizeof(datagram));
	watch_lab_idle(&lab->loop, 50);
	assert_int_equal(connect_to(flow.socket, VIP4), 0);
	expect_packet(lab, BACKEND6, "2001:db8:a::2", VIP4, &flow, false);
	weir_data_path_close(lab->path, &flow);
	close(raw);
	SHELL("ip route del unreachable 198.51.100.0/24");
}

TEST(ports_in_use_are_skipped, setup, teardown) {
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct weir_data_path_target target = target_of(BACKEND4, VIP4);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct weir_data_path_flow first, second;
	struct lab *lab = *state;

	open_flow(lab, &target, &first);
	any.sin_port = htons((uint16_t)(first.port + 1));
	assert_int_equal(bind(listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(listener, 1), 0);
	open_flow(lab, &target, &second);
	assert_int_equal(second.port, first.port + 2);
	weir_data_path_close(lab->path, &first);
	weir_data_path_close(lab->path, &second);
	close(listener);
}

static unsigned int count_lines(const char *command) {
	FILE *pipe = popen(command, "r");
	unsigned int lines = 0;
	char line[512];

	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe) != NULL) {
		lines++;
	}
	pclose(pipe);
	return lines;
}

// Rules of processes that have exited are replaced, even if another user made them. Rules of a
// running process stay.
TEST(rules_do_not_accumulate) {
	struct weir_data_path_tunnel first, second;
	char why[256];

	for (uid_t uid = 1000; uid < 1003; uid++) {
		assert_int_equal(weir_data_path_tunnel_open(uid, &first, why, sizeof(why)), 0);
		assert_string_equal(first.name, "weir-check");
		assert_int_equal(first.port_first, 63487);
		weir_data_path_tunnel_close(&first);
	}
	first = open_tunnel();
	second = open_tunnel();
	assert_string_equal(second.name, "weir-check1");
	assert_int_equal(second.port_first, 61439);
	assert_int_equal(count_lines("ip rule show table 47770 | grep 'ipproto tcp'"), 1);
	assert_int_equal(count_lines("ip rule show table 47770 | grep 'ipproto udp'"), 1);
	assert_int_equal(count_lines("ip -6 rule show table 47770"), 2);
	assert_int_equal(count_lines("ip rule show table 47771"), 2);
	assert_int_equal(count_lines("ip route show table 47770"), 2);
	assert_int_equal(count_lines("ip -6 route show table 47770"), 2);
	assert_int_equal(count_lines("ip -6 addr show dev weir-check"), 0);
	assert_int_equal(
		count_lines("ip link show dev weir-check | grep 'mtu 1280 .*qlen 16384'"), 1);
	weir_data_path_tunnel_close(&first);
	weir_data_path_tunnel_close(&second);
	assert_int_equal(count_lines("ip route show table 47770"), 1); // the unreachable route
}
