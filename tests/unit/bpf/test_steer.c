// SPDX-License-Identifier: BSD-3-Clause
//
// Tests steer.bpf.c: runs the program in the kernel on a table of frames, and checks whether it
// redirects or passes them. Needs CAP_BPF and CAP_NET_RAW. An AF_XDP socket replaces queue 0 of the
// dataplane.
#include <errno.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "frame.h"
#include "steer.h"
#include "steer.skel.h"
#include "test.h"

#define VIP4 "198.51.100.10"
#define RANGE4 "198.51.100.30" // VIP with TCP ports 1000 to 1007, 4096 to 8191 and 32768 to 65535
#define ANY_PORT4 "198.51.100.20" // VIP with every UDP port
#define HOST4 "10.0.0.2"
#define VIP6 "2001:db8:f::10"
#define HOST6 "2001:db8:a::2"
#define PADDED "c633:640a::" // the bytes of VIP4, padded with zeroes, as an IPv6 address
#define CLIENT4 "192.0.2.2"
#define CLIENT6 "2001:db8:c::2"

#define AH IPPROTO_AH
#define HOP IPPROTO_HOPOPTS
#define ROUTE IPPROTO_ROUTING
#define FRAG IPPROTO_FRAGMENT
#define DEST IPPROTO_DSTOPTS
#define ICMP6 IPPROTO_ICMPV6

// A case sets only the fields that it needs.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct steer_case {
	const char *name;
	int expect; // XDP_REDIRECT or XDP_PASS
	const char *destination; // determines the family of the packet; NULL: no IP header
	uint8_t protocol;
	uint16_t port; // destination port, or the ICMP type
	int tags;
	uint16_t tag_type; // Ethernet type of the outermost tag; 0 = the default
	uint32_t option_bytes;
	uint16_t fragment; // IPv4 frag_off, or IPv6 offset and flag of FRAG headers
	uint8_t extension[10]; // IPv6 extension headers, in order, terminated by 255
	uint8_t extensions;
	uint32_t cut; // truncate the IP packet to this length; 0 = not truncated
	int version; // version in the header; 0 = the correct value
	int ihl; // IHL in the header; 0 = the correct value
};

#define EXTENSIONS(...) .extension = {__VA_ARGS__}, .extensions = sizeof((uint8_t[]){__VA_ARGS__})

static const struct steer_case cases[] = {
	{"tcp to its port", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80},
	{"tcp to another port of a VIP", XDP_PASS, VIP4, IPPROTO_TCP, 22},
	{"udp to a port that is tcp's", XDP_PASS, VIP4, IPPROTO_UDP, 80},
	{"udp to its port", XDP_REDIRECT, VIP4, IPPROTO_UDP, 53},
	{"tcp to the host itself", XDP_PASS, HOST4, IPPROTO_TCP, 80},
	{"tcp to port 0", XDP_PASS, VIP4, IPPROTO_TCP, 0},
	{"before a range", XDP_PASS, RANGE4, IPPROTO_TCP, 999},
	{"first of a range", XDP_REDIRECT, RANGE4, IPPROTO_TCP, 1000},
	{"last of a range", XDP_REDIRECT, RANGE4, IPPROTO_TCP, 1007},
	{"behind a range", XDP_PASS, RANGE4, IPPROTO_TCP, 1008},
	{"first of a wide range", XDP_REDIRECT, RANGE4, IPPROTO_TCP, 4096},
	{"last of a wide range", XDP_REDIRECT, RANGE4, IPPROTO_TCP, 8191},
	{"behind a wide range", XDP_PASS, RANGE4, IPPROTO_TCP, 8192},
	{"before half of all ports", XDP_PASS, RANGE4, IPPROTO_TCP, 32767},
	{"in half of all ports", XDP_REDIRECT, RANGE4, IPPROTO_TCP, 65535},
	{"port 0 of a range", XDP_PASS, RANGE4, IPPROTO_TCP, 0},
	{"udp where tcp has a range", XDP_PASS, RANGE4, IPPROTO_UDP, 4096},
	{"udp to any port", XDP_REDIRECT, ANY_PORT4, IPPROTO_UDP, 40000},
	{"udp to port 0 of any", XDP_REDIRECT, ANY_PORT4, IPPROTO_UDP, 0},
	{"tcp where udp has every port", XDP_PASS, ANY_PORT4, IPPROTO_TCP, 40000},
	{"tcp behind a tag", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .tags = 1},
	{"tcp behind two tags", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .tags = 2},
	{"tcp behind an old QinQ tag", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .tags = 2,
		.tag_type = 0x9100},
	{"tcp behind three tags", XDP_PASS, VIP4, IPPROTO_TCP, 80, .tags = 3},
	{"tcp to the host, two tags", XDP_PASS, HOST4, IPPROTO_TCP, 80, .tags = 2},
	{"options", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .option_bytes = 40},
	{"options, other port", XDP_PASS, VIP4, IPPROTO_TCP, 81, .option_bytes = 12},
	{"first fragment", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .fragment = 0x2000},
	{"later fragment", XDP_REDIRECT, VIP4, IPPROTO_UDP, 1, .fragment = 0x0010},
	{"fragment to the host", XDP_PASS, HOST4, IPPROTO_UDP, 1, .fragment = 0x0010},
	{"packet with DF is not a fragment", XDP_PASS, VIP4, IPPROTO_TCP, 22, .fragment = 0x4000},
	{"fragment of a tunnel", XDP_PASS, VIP4, IPPROTO_GRE, 0, .fragment = 0x2000},
	{"echo request", XDP_REDIRECT, VIP4, IPPROTO_ICMP, 8},
	{"echo reply is the kernel's", XDP_PASS, VIP4, IPPROTO_ICMP, 0},
	{"unreachable", XDP_REDIRECT, VIP4, IPPROTO_ICMP, 3},
	{"time exceeded", XDP_REDIRECT, VIP4, IPPROTO_ICMP, 11},
	{"parameter problem", XDP_REDIRECT, VIP4, IPPROTO_ICMP, 12},
	{"redirect is the kernel's", XDP_PASS, VIP4, IPPROTO_ICMP, 5},
	{"echo request to the host", XDP_PASS, HOST4, IPPROTO_ICMP, 8},
	{"icmpv6 in ipv4 is ignored", XDP_PASS, VIP4, ICMP6, 128},
	{"gre to a VIP", XDP_PASS, VIP4, IPPROTO_GRE, 0},
	{"ipip to a VIP", XDP_PASS, VIP4, IPPROTO_IPIP, 0},
	{"ports cut off", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .cut = 22},
	{"ports cut off, to the host", XDP_PASS, HOST4, IPPROTO_TCP, 80, .cut = 22},
	{"rest of tcp cut off", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .cut = 24},
	{"icmp cut off", XDP_REDIRECT, VIP4, IPPROTO_ICMP, 0, .cut = 20},
	{"options cut off", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .option_bytes = 40, .cut = 40},
	{"ipv4 header cut off", XDP_PASS, VIP4, IPPROTO_TCP, 80, .cut = 19},
	{"ipv4 of version 6", XDP_REDIRECT, VIP4, IPPROTO_TCP, 22, .version = 6},
	{"ipv4 of version 6, to the host", XDP_PASS, HOST4, IPPROTO_TCP, 80, .version = 6},
	{"header length 16", XDP_REDIRECT, VIP4, IPPROTO_TCP, 22, .ihl = 4},
	{"header length beyond the frame", XDP_REDIRECT, VIP4, IPPROTO_TCP, 80, .ihl = 15,
		.cut = 44},

	{"ipv6 tcp to its port", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80},
	{"ipv6 tcp to another port", XDP_PASS, VIP6, IPPROTO_TCP, 22},
	{"ipv6 tcp to the host", XDP_PASS, HOST6, IPPROTO_TCP, 80},
	{"ipv6 address with a VIP's bytes", XDP_PASS, PADDED, IPPROTO_TCP, 80},
	{"ipv6 tag", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80, .tags = 1},
	{"ipv6 port 0 of any", XDP_REDIRECT, VIP6, IPPROTO_UDP, 0},
	{"ipv6 any port", XDP_REDIRECT, VIP6, IPPROTO_UDP, 4711},
	{"ipv6 hop by hop", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80, EXTENSIONS(HOP)},
	{"ipv6 four extensions", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80,
		EXTENSIONS(HOP, DEST, ROUTE, DEST)},
	{"ipv6 extensions, other port", XDP_PASS, VIP6, IPPROTO_TCP, 22, EXTENSIONS(HOP, AH)},
	{"ipv6 eight extensions", XDP_PASS, VIP6, IPPROTO_TCP, 22,
		EXTENSIONS(DEST, DEST, DEST, DEST, DEST, DEST, DEST, DEST)},
	{"ipv6 nine extensions", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22,
		EXTENSIONS(DEST, DEST, DEST, DEST, DEST, DEST, DEST, DEST, DEST)},
	{"ipv6 nine extensions, host", XDP_PASS, HOST6, IPPROTO_TCP, 80,
		EXTENSIONS(DEST, DEST, DEST, DEST, DEST, DEST, DEST, DEST, DEST)},
	{"ipv6 first fragment", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22, EXTENSIONS(FRAG),
		.fragment = 0x0001},
	{"ipv6 later fragment", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22, EXTENSIONS(HOP, FRAG),
		.fragment = 0x0100},
	{"ipv6 atomic fragment", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80, EXTENSIONS(FRAG)},
	{"ipv6 atomic fragment, other port", XDP_PASS, VIP6, IPPROTO_TCP, 22, EXTENSIONS(FRAG)},
	{"ipv6 fragment to the host", XDP_PASS, HOST6, IPPROTO_TCP, 80, EXTENSIONS(FRAG),
		.fragment = 0x0001},
	{"ipv6 first fragment of options", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22,
		EXTENSIONS(FRAG, DEST), .fragment = 0x0001},
	{"ipv6 later fragment of options", XDP_REDIRECT, VIP6, DEST, 0, EXTENSIONS(FRAG),
		.fragment = 0x0101},
	{"ipv6 first fragment of authentication", XDP_REDIRECT, VIP6, IPPROTO_UDP, 22,
		EXTENSIONS(HOP, FRAG, AH), .fragment = 0x0001},
	{"ipv6 later fragment of authentication", XDP_REDIRECT, VIP6, AH, 0, EXTENSIONS(HOP, FRAG),
		.fragment = 0x0100},
	{"ipv6 later fragment of anything", XDP_REDIRECT, VIP6, IPPROTO_NONE, 0, EXTENSIONS(FRAG),
		.fragment = 0x0100},
	{"ipv6 fragment of options to the host", XDP_PASS, HOST6, DEST, 0, EXTENSIONS(FRAG),
		.fragment = 0x0101},
	{"ipv6 hop by hop behind another", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22,
		EXTENSIONS(DEST, HOP)},
	{"ipv6 extension cut off", XDP_REDIRECT, VIP6, IPPROTO_TCP, 80, EXTENSIONS(HOP), .cut = 47},
	{"ipv6 header cut off", XDP_PASS, VIP6, IPPROTO_TCP, 80, .cut = 39},
	{"ipv6 of version 4", XDP_REDIRECT, VIP6, IPPROTO_TCP, 22, .version = 4},
	{"ipv6 no next header", XDP_PASS, VIP6, IPPROTO_NONE, 0},
	{"ipv6 echo request", XDP_REDIRECT, VIP6, ICMP6, 128},
	{"ipv6 echo request behind options", XDP_REDIRECT, VIP6, ICMP6, 128, EXTENSIONS(DEST)},
	{"ipv6 echo reply", XDP_PASS, VIP6, ICMP6, 129},
	{"ipv6 too big", XDP_REDIRECT, VIP6, ICMP6, 2},
	{"ipv6 unreachable", XDP_REDIRECT, VIP6, ICMP6, 1},
	{"ipv6 parameter problem", XDP_REDIRECT, VIP6, ICMP6, 4},
	{"ipv6 error of another kind is the kernel's", XDP_PASS, VIP6, ICMP6, 5},
	{"ipv6 router advertisement", XDP_PASS, VIP6, ICMP6, 134},
	{"ipv6 neighbour solicitation", XDP_PASS, VIP6, ICMP6, 135},
	{"ipv6 neighbour advertisement", XDP_PASS, VIP6, ICMP6, 136},
	{"ipv6 listener report", XDP_PASS, VIP6, ICMP6, 143},
	{"ipv4's icmp in ipv6 is ignored", XDP_PASS, VIP6, IPPROTO_ICMP, 8},

	{"arp", XDP_PASS, NULL},
	{"arp behind a tag", XDP_PASS, NULL, .tags = 1},
	{"ethernet header alone", XDP_PASS, NULL, .cut = 1},
};

struct lab {
	struct steer_bpf *steer;
	int socket;
	void *umem;
};

// Allow a block of 2^k ports.
static void allow_value(struct lab *lab, const char *address, uint8_t protocol, uint16_t port,
	unsigned int k, uint32_t value) {
	const uint8_t family = strchr(address, ':') != NULL ? 6 : 4;
	struct weir_vip_key key = {
		.family = WEIR_STEER_BLOCK(family, k), .protocol = protocol, .port = htons(port)};

	inet_pton(family == 4 ? AF_INET : AF_INET6, address, key.address);
	assert_int_equal(bpf_map__update_elem(lab->steer->maps.weir_vips, &key, sizeof(key), &value,
				 sizeof(value), BPF_ANY),
		0);
}

static void allow(struct lab *lab, const char *address, uint8_t protocol, uint16_t port) {
	allow_value(lab, address, protocol, port, 0, 1);
}

// The kernel accepts a socket for an XSKMAP if the socket has a ring; no interface is needed.
static void open_socket(struct lab *lab) {
	struct xdp_umem_reg umem = {.len = 64 * 4096, .chunk_size = 4096};
	int slots = 64, queue = 0;

	lab->umem =
		mmap(NULL, umem.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(lab->umem, MAP_FAILED);
	umem.addr = (uintptr_t)lab->umem;
	lab->socket = socket(AF_XDP, SOCK_RAW, 0);
	assert_true(lab->socket >= 0);
	assert_int_equal(setsockopt(lab->socket, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)), 0);
	assert_int_equal(setsockopt(lab->socket, SOL_XDP, XDP_RX_RING, &slots, sizeof(slots)), 0);
	assert_int_equal(bpf_map__update_elem(lab->steer->maps.xsks_map, &queue, sizeof(queue),
				 &lab->socket, sizeof(lab->socket), BPF_ANY),
		0);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->steer = steer_bpf__open_and_load();
	if (lab->steer == NULL) {
		fprintf(stderr, "steer.bpf.c cannot be loaded (root?): %s\n", strerror(errno));
		free(lab);
		return -1;
	}
	open_socket(lab);
	allow(lab, VIP4, IPPROTO_TCP, 80);
	allow(lab, VIP4, IPPROTO_UDP, 53);
	allow(lab, VIP4, 0, 0);
	allow(lab, ANY_PORT4, IPPROTO_UDP, 0);
	allow(lab, ANY_PORT4, 0, 0);
	allow(lab, VIP6, IPPROTO_TCP, 80);
	allow(lab, VIP6, IPPROTO_UDP, 0);
	allow(lab, VIP6, 0, 0);
	allow_value(lab, RANGE4, IPPROTO_TCP, 0, 0, 1u << 3 | 1u << 12 | 1u << 15);
	allow_value(lab, RANGE4, IPPROTO_TCP, 1000, 3, 1);
	allow_value(lab, RANGE4, IPPROTO_TCP, 4096, 12, 1);
	allow_value(lab, RANGE4, IPPROTO_TCP, 32768, 15, 1);
	allow(lab, RANGE4, 0, 0);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	steer_bpf__destroy(lab->steer);
	close(lab->socket);
	munmap(lab->umem, 64 * 4096);
	free(lab);
	return 0;
}

static void put_transport(struct frame *frame, const struct steer_case *test) {
	if (test->protocol == IPPROTO_ICMP || test->protocol == ICMP6) {
		*(uint8_t *)put(frame, NULL, 8) = (uint8_t)test->port;
	} else {
		put_ports(frame, 4711, test->port);
	}
}

static void put_extensions(struct frame *frame, const struct steer_case *test) {
	for (uint8_t i = 0; i < test->extensions; i++) {
		uint8_t *extension = put(frame, NULL, test->extension[i] == AH ? 24 : 8);

		extension[0] = i + 1 < test->extensions ? test->extension[i + 1] : test->protocol;
		if (test->extension[i] == FRAG) {
			*(uint16_t *)(extension + 2) = htons(test->fragment);
		} else if (test->extension[i] == AH) {
			extension[1] = 24 / 4 - 2;
		}
	}
}

static void build(struct frame *frame, const struct steer_case *test) {
	bool ipv6 = test->destination != NULL && strchr(test->destination, ':') != NULL;
	uint32_t start;

	frame->length = 0;
	if (test->destination == NULL) {
		put_ethernet(frame, test->tags, ETH_P_ARP);
		put(frame, NULL, test->cut ? 0 : 46);
		return;
	}
	put_ethernet(frame, test->tags, ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	start = frame->length;
	if (ipv6) {
		struct ipv6hdr *ip = put_ipv6(frame, CLIENT6, test->destination,
			test->extensions ? test->extension[0] : test->protocol);

		put_extensions(frame, test);
		put_transport(frame, test);
		finish_ipv6(frame, ip);
		ip->version = test->version ? test->version & 15 : 6;
	} else {
		struct iphdr *ip = put_ipv4(
			frame, CLIENT4, test->destination, test->protocol, test->option_bytes);

		put_transport(frame, test);
		ip->frag_off = htons(test->fragment);
		finish_ipv4(frame, ip);
		ip->version = test->version ? test->version & 15 : 4;
		ip->ihl = test->ihl ? test->ihl & 15 : ip->ihl;
	}
	if (test->cut) {
		frame->length = start + test->cut;
	}
	if (test->tag_type) {
		*(uint16_t *)(frame->byte + 2 * ETH_ALEN) = htons(test->tag_type);
	}
}

static int run(const struct lab *lab, struct frame *frame) {
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame->byte, .data_size_in = frame->length,
		.repeat = 1);
	int r = bpf_prog_test_run_opts(bpf_program__fd(lab->steer->progs.weir_steer), &opts);

	return r ? r : (int)opts.retval;
}

TEST_EACH(setup, teardown);

TEST(steer_redirects_only_vip_traffic) {
	unsigned int failed = 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct frame frame;
		int verdict;

		build(&frame, &cases[i]);
		verdict = run(*state, &frame);
		if (verdict != cases[i].expect) {
			print_error("%zu, %s: %d instead of %d\n", i, cases[i].name, verdict,
				cases[i].expect);
			failed++;
		}
	}
	assert_int_equal(failed, 0);
}

TEST(steer_without_a_socket_passes_packets_to_the_kernel) {
	struct lab *lab = *state;
	struct frame frame;
	int queue = 0;

	build(&frame, &cases[0]);
	assert_int_equal(run(lab, &frame), XDP_REDIRECT);
	assert_int_equal(
		bpf_map__delete_elem(lab->steer->maps.xsks_map, &queue, sizeof(queue), 0), 0);
	assert_int_equal(run(lab, &frame), XDP_PASS);
}

TEST(steer_follows_the_vip_map) {
	struct lab *lab = *state;
	struct weir_vip_key key = {.family = 4, .protocol = IPPROTO_TCP, .port = htons(80)};
	struct frame frame;

	build(&frame, &cases[0]);
	inet_pton(AF_INET, VIP4, key.address);
	assert_int_equal(run(lab, &frame), XDP_REDIRECT);
	assert_int_equal(bpf_map__delete_elem(lab->steer->maps.weir_vips, &key, sizeof(key), 0), 0);
	assert_int_equal(run(lab, &frame), XDP_PASS);
}

// --- leaving ports ------------------------------------------------------------------------

#define SYN 0x02
#define ACK 0x10

static void build_tcp(struct frame *frame, const char *source, const char *destination,
	uint16_t from, uint16_t to, uint8_t flags) {
	const bool ipv6 = strchr(destination, ':') != NULL;
	uint32_t start;

	frame->length = 0;
	put_ethernet(frame, 0, ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	if (ipv6) {
		struct ipv6hdr *ip = put_ipv6(frame, source, destination, IPPROTO_TCP);

		start = frame->length;
		put_ports(frame, from, to);
		finish_ipv6(frame, ip);
	} else {
		struct iphdr *ip = put_ipv4(frame, source, destination, IPPROTO_TCP, 0);

		start = frame->length;
		put_ports(frame, from, to);
		finish_ipv4(frame, ip);
	}
	frame->byte[start + 13] = flags;
}

static int run_tcp(const struct lab *lab, const char *destination, uint16_t port, uint8_t flags) {
	struct frame frame;

	build_tcp(&frame, strchr(destination, ':') != NULL ? CLIENT6 : CLIENT4, destination, 4711,
		port, flags);
	return run(lab, &frame);
}

static uint32_t used_s(const struct lab *lab, uint16_t port) {
	struct weir_vip_key key = {
		.family = 4, .protocol = WEIR_STEER_LEAVING, .port = htons(port)};
	uint32_t value = 0;

	inet_pton(AF_INET, VIP4, key.address);
	assert_int_equal(bpf_map__lookup_elem(lab->steer->maps.weir_vips, &key, sizeof(key), &value,
				 sizeof(value), 0),
		0);
	return value;
}

TEST(steer_leaves_open_connections_of_removed_binds_to_the_dataplane) {
	static const uint8_t of_connections[] = {ACK, 0, ACK | 0x01, ACK | 0x04, 0x04, SYN | ACK};
	struct lab *lab = *state;
	struct timespec now;

	allow_value(lab, VIP4, WEIR_STEER_LEAVING, 0, 0, 1u << 4);
	allow_value(lab, VIP4, WEIR_STEER_LEAVING, 443, 0, 1);
	allow_value(lab, VIP4, WEIR_STEER_LEAVING, 1024, 4, 1);
	allow_value(lab, HOST6, WEIR_STEER_LEAVING, 0, 0, 0);
	allow_value(lab, HOST6, WEIR_STEER_LEAVING, 443, 0, 1);
	for (size_t i = 0; i < sizeof(of_connections); i++) {
		assert_int_equal(run_tcp(lab, VIP4, 443, of_connections[i]), XDP_REDIRECT);
		assert_int_equal(run_tcp(lab, VIP4, 1039, of_connections[i]), XDP_REDIRECT);
		assert_int_equal(run_tcp(lab, HOST6, 443, of_connections[i]), XDP_REDIRECT);
		assert_int_equal(run_tcp(lab, VIP4, 444, of_connections[i]), XDP_PASS);
		assert_int_equal(run_tcp(lab, VIP4, 1040, of_connections[i]), XDP_PASS);
		assert_int_equal(run_tcp(lab, HOST4, 443, of_connections[i]), XDP_PASS);
	}
	assert_int_equal(run_tcp(lab, VIP4, 443, SYN), XDP_PASS);
	assert_int_equal(run_tcp(lab, VIP4, 1024, SYN), XDP_PASS);
	assert_int_equal(run_tcp(lab, HOST6, 443, SYN | 0x40), XDP_PASS); // a SYN with ECE
	assert_int_equal(run_tcp(lab, VIP4, 80, SYN), XDP_REDIRECT); // an existing bind
	clock_gettime(CLOCK_MONOTONIC, &now);
	assert_in_range(used_s(lab, 443), (uint64_t)now.tv_sec - 5, (uint64_t)now.tv_sec);
}

TEST(steer_needs_the_flags_to_find_an_open_connection) {
	struct lab *lab = *state;
	struct frame frame;

	allow_value(lab, VIP4, WEIR_STEER_LEAVING, 0, 0, 0);
	allow_value(lab, VIP4, WEIR_STEER_LEAVING, 443, 0, 1);
	build_tcp(&frame, CLIENT4, VIP4, 4711, 443, ACK);
	frame.length -= 20 - 14;
	assert_int_equal(run(lab, &frame), XDP_REDIRECT);
	frame.length--;
	assert_int_equal(run(lab, &frame), XDP_PASS);
}

// If a program of the host uses the address and port of a removed bind, the packets of the
// program's connections go to the kernel.
TEST(steer_leaves_the_kernel_its_own_connections) {
	struct lab *lab = *state;
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in from;
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	struct frame frame;
	uint16_t port;

	assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(getsockname(client, (struct sockaddr *)&from, &bytes), 0);
	port = ntohs(address.sin_port);
	allow_value(lab, "127.0.0.1", WEIR_STEER_LEAVING, 0, 0, 0);
	allow_value(lab, "127.0.0.1", WEIR_STEER_LEAVING, port, 0, 1);
	build_tcp(&frame, "127.0.0.1", "127.0.0.1", ntohs(from.sin_port), port, ACK);
	assert_int_equal(run(lab, &frame), XDP_PASS);
	build_tcp(&frame, CLIENT4, "127.0.0.1", 4711, port, ACK);
	assert_int_equal(run(lab, &frame), XDP_REDIRECT);
	close(client);
	close(listener);
}

// net_af_xdp and the handover find the maps by these names.
TEST(steer_maps_have_the_names_used_by_other_code) {
	struct lab *lab = *state;
	struct bpf_object *object = lab->steer->obj;
	struct bpf_map *xsks = bpf_object__find_map_by_name(object, WEIR_STEER_XSKS_MAP);
	struct bpf_map *vips = bpf_object__find_map_by_name(object, WEIR_STEER_VIPS_MAP);

	assert_non_null(xsks);
	assert_non_null(vips);
	assert_int_equal(bpf_map__type(xsks), BPF_MAP_TYPE_XSKMAP);
	assert_int_equal(bpf_map__max_entries(vips), WEIR_STEER_VIPS_MAX);
	assert_ptr_equal(bpf_object__next_program(object, NULL), lab->steer->progs.weir_steer);
}
