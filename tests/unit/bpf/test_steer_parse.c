// SPDX-License-Identifier: BSD-3-Clause
//
// Compares steer.bpf.c with the dataplane's parser, on IPv6 frames with all kinds of extension
// header chains. The program must redirect a frame to the dataplane if the parser accepts the frame
// as traffic of a VIP, and must redirect no other frame. Needs CAP_BPF and CAP_NET_RAW.
#include <errno.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "frames.h"
#include "parse.h"
#include "steer.h"
#include "steer.skel.h"
#include "test.h"

#define SEED 42
#define UMEM_BYTES ((size_t)64 * 4096)
#define HEADERS_MAX 11
#define TCP_PORT 80
#define UDP_PORT 53
#define OTHER_PORT 22

enum header {
	HOP,
	ROUTE,
	DEST,
	AUTH,
	ATOMIC,
	FIRST, // fragment header of a first fragment
	LATER, // fragment header of another fragment
	LAST,
	HEADERS
};

static const uint8_t type_of[HEADERS] = {[HOP] = 0,
	[ROUTE] = 43,
	[DEST] = 60,
	[AUTH] = 51,
	[ATOMIC] = 44,
	[FIRST] = 44,
	[LATER] = 44,
	[LAST] = 44};
// Offset and flag of fragment headers; ATOMIC has reserved bits set.
static const uint16_t part_of[HEADERS] = {
	[ATOMIC] = 0x0006, [FIRST] = 0x0001, [LATER] = 0x0401, [LAST] = 0x0808};

struct chain {
	enum header header[HEADERS_MAX];
	uint8_t units[HEADERS_MAX]; // length beyond the minimum, in units of 8 bytes
	unsigned int count;
	// Which header (counted from 1) has a length that exceeds the packet; 0 = none
	unsigned int overlong;
	uint8_t protocol; // protocol after the chain
	uint16_t port; // destination port, or the ICMP type
	uint16_t lost; // number of bytes cut from the end of the IP packet
	bool padded; // whether the frame is padded to its original length
	bool to_host;
	uint8_t tags;
};

struct lab {
	struct steer_bpf *steer;
	int socket;
	void *umem;
	unsigned int redirected, passed; // number of frames
	unsigned int kinds[WEIR_PACKET_FRAGMENT + 1];
};

// --- frames ---------------------------------------------------------------------------------

static uint32_t put_header(uint8_t *to, const struct chain *chain, unsigned int i, uint8_t next) {
	enum header header = chain->header[i];
	uint32_t bytes = header >= ATOMIC ? 8 : 8u + chain->units[i] * 8u;

	memset(to, 0, bytes);
	to[0] = next;
	if (header >= ATOMIC) {
		to[1] = chain->units[i]; // reserved
		frame_put16(to + 2, part_of[header]);
		frame_put32(to + 4, 7);
	} else {
		to[1] = header == AUTH ? (uint8_t)(chain->units[i] * 2) : chain->units[i];
		if (chain->overlong == i + 1) {
			to[1] = 255;
		}
	}
	return bytes;
}

static uint32_t put_transport(uint8_t *to, const struct chain *chain) {
	memset(to, 0, 24);
	switch (chain->protocol) {
	case 6:
		to[12] = 5 << 4;
		to[13] = 0x10; // ACK
		break;
	case 17:
		frame_put16(to + 4, 24);
		break;
	case 1:
	case 58:
		to[0] = (uint8_t)chain->port;
		return 24;
	default:
		break;
	}
	frame_put16(to, 40000);
	frame_put16(to + 2, chain->port);
	return 24;
}

static void build(const struct chain *chain, struct frame *f) {
	uint8_t *ip;

	memset(f->bytes, 0, 14);
	memcpy(f->bytes, frame_our_mac, 6);
	memcpy(f->bytes + 6, frame_client_mac, 6);
	f->n = 12;
	for (unsigned int i = 0; i < chain->tags; i++, f->n += 4) {
		frame_put16(f->bytes + f->n, 0x8100);
		frame_put16(f->bytes + f->n + 2, 100);
	}
	frame_put16(f->bytes + f->n, 0x86dd);
	f->n += 2;
	f->l3 = f->n;
	ip = f->bytes + f->l3;
	memset(ip, 0, 40);
	ip[0] = 0x60;
	ip[6] = chain->count > 0 ? type_of[chain->header[0]] : chain->protocol;
	ip[7] = 64;
	memcpy(ip + 8, frame_client6, 16);
	memcpy(ip + 24, chain->to_host ? frame_stranger6 : frame_vip6, 16);
	f->n += 40;
	for (unsigned int i = 0; i < chain->count; i++) {
		uint8_t next =
			i + 1 < chain->count ? type_of[chain->header[i + 1]] : chain->protocol;

		f->n += put_header(f->bytes + f->n, chain, i, next);
	}
	f->n += put_transport(f->bytes + f->n, chain);
	f->ip_bytes = f->n - f->l3;
	f->ip_bytes -= RTE_MIN((uint32_t)chain->lost, f->ip_bytes - 40);
	frame_put16(ip + 4, (uint16_t)(f->ip_bytes - 40));
	if (!chain->padded) {
		f->n = f->l3 + f->ip_bytes;
	}
}

static void print_chain(const struct chain *chain) {
	static const char *const names[HEADERS] = {
		"hop", "route", "dest", "auth", "atomic", "first", "later", "last"};

	for (unsigned int i = 0; i < chain->count; i++) {
		print_error("%s+%u%s ", names[chain->header[i]], chain->units[i],
			chain->overlong == i + 1 ? "!" : "");
	}
	print_error("protocol %u port %u%s%s, cut by %u%s\n", chain->protocol, chain->port,
		chain->to_host ? ", to the host" : "", chain->tags ? ", tagged" : "", chain->lost,
		chain->padded ? ", padded" : "");
}

// --- comparison -----------------------------------------------------------------------------

static bool is_served(uint8_t protocol, uint16_t port) {
	return (protocol == 6 && port == TCP_PORT) || (protocol == 17 && port == UDP_PORT);
}

// Returns whether an invalid packet to a VIP must reach the dataplane, which drops it. If the ports
// of the packet can be read, it must reach the dataplane only if a service has the port.
static bool suspect_is_ours(const struct weir_descriptor *d, const struct frame *f) {
	switch ((enum weir_drop_reason)d->verdict.reason) {
	case WEIR_DROP_TCP_TRUNCATED:
	case WEIR_DROP_UDP_TRUNCATED:
		return d->ip_bytes - d->l4_offset < 8 ||
		       is_served(d->key.protocol, frame_get16(f->bytes + f->l3 + d->l4_offset + 2));
	case WEIR_DROP_TCP_HEADER_LENGTH:
	case WEIR_DROP_TCP_FLAGS:
	case WEIR_DROP_UDP_LENGTH:
		return is_served(d->key.protocol, frame_get16(f->bytes + f->l3 + d->l4_offset + 2));
	default:
		return true;
	}
}

// Returns whether the dataplane treats this packet as traffic of a VIP.
static bool parser_takes(struct lab *lab, const struct frame *f) {
	struct rte_mbuf *m = frame_mbuf(f->bytes, f->n, 128);
	struct weir_descriptor d;

	weir_parse(m, SEED, &d);
	frame_mbuf_free(m);
	lab->kinds[d.kind]++;
	if (memcmp(d.key.destination, frame_vip6, 16) != 0) {
		return false;
	}
	switch ((enum weir_packet_kind)d.kind) {
	case WEIR_PACKET_FLOW:
		return is_served(d.key.protocol, rte_be_to_cpu_16(d.key.destination_port));
	case WEIR_PACKET_SUSPECT:
		return suspect_is_ours(&d, f);
	case WEIR_PACKET_OTHER:
		return false;
	default:
		return true;
	}
}

static bool steer_takes(const struct lab *lab, struct frame *f) {
	LIBBPF_OPTS(
		bpf_test_run_opts, opts, .data_in = f->bytes, .data_size_in = f->n, .repeat = 1);

	assert_int_equal(
		bpf_prog_test_run_opts(bpf_program__fd(lab->steer->progs.weir_steer), &opts), 0);
	assert_true(opts.retval == XDP_REDIRECT || opts.retval == XDP_PASS);
	return opts.retval == XDP_REDIRECT;
}

// Builds a frame and returns whether the program and the parser agree about it.
static bool agree(struct lab *lab, const struct chain *chain) {
	struct frame f;
	bool parser, steer;

	build(chain, &f);
	parser = parser_takes(lab, &f);
	steer = steer_takes(lab, &f);
	*(steer ? &lab->redirected : &lab->passed) += 1;
	if (parser != steer) {
		print_error("%s: ", steer ? "only steer redirects" : "only the parser takes");
		print_chain(chain);
	}
	return parser == steer;
}

// --- set-up ---------------------------------------------------------------------------------

static void allow(const struct lab *lab, uint8_t protocol, uint16_t port) {
	struct weir_vip_key key = {
		.family = 6, .protocol = protocol, .port = rte_cpu_to_be_16(port)};
	weir_vip_value value = 1;

	memcpy(key.address, frame_vip6, 16);
	assert_int_equal(bpf_map__update_elem(lab->steer->maps.weir_vips, &key, sizeof(key), &value,
				 sizeof(value), BPF_ANY),
		0);
}

// The kernel accepts a socket for an XSKMAP if the socket has a ring; no interface is needed.
static void open_socket(struct lab *lab) {
	struct xdp_umem_reg umem = {.len = UMEM_BYTES, .chunk_size = 4096};
	int slots = 64, queue = 0;

	lab->umem =
		mmap(NULL, UMEM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
	allow(lab, 6, TCP_PORT);
	allow(lab, 17, UDP_PORT);
	allow(lab, 0, 0);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	steer_bpf__destroy(lab->steer);
	close(lab->socket);
	munmap(lab->umem, UMEM_BYTES);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

// --- tests ----------------------------------------------------------------------------------

// Payloads after a chain.
static const struct {
	uint8_t protocol;
	uint16_t port;
} ends[] = {{6, TCP_PORT}, {6, OTHER_PORT}, {17, UDP_PORT}, {17, TCP_PORT}, {58, 128}, {58, 129},
	{58, 2}, {58, 4}, {58, 5}, {58, 100}, {58, 135}, {1, 8}, {50, 0}, {59, 0}, {135, 0},
	{255, 0}};

static void check(struct lab *lab, unsigned int failed) {
	assert_int_equal(failed, 0);
	assert_true(lab->redirected > 100);
	assert_true(lab->passed > 100);
	assert_true(lab->kinds[WEIR_PACKET_FLOW] > 0);
	assert_true(lab->kinds[WEIR_PACKET_FRAGMENT_FIRST] > 0);
	assert_true(lab->kinds[WEIR_PACKET_FRAGMENT] > 0);
	assert_true(lab->kinds[WEIR_PACKET_SUSPECT] > 0);
	assert_true(lab->kinds[WEIR_PACKET_OTHER] > 0);
}

// Tests all chains of up to four headers, with each payload of ends[].
TEST(steer_and_parser_agree_on_all_short_chains) {
	unsigned int failed = 0;

	for (unsigned int count = 0; count <= 4; count++) {
		for (unsigned int number = 0; number < 1u << 3 * count; number++) {
			struct chain chain = {.count = count};

			_Static_assert(HEADERS == 8, "three bits each");
			for (unsigned int i = 0; i < count; i++) {
				chain.header[i] = (enum header)(number >> 3 * i & 7);
				chain.units[i] = (uint8_t)i;
			}
			for (unsigned int i = 0; i < RTE_DIM(ends) && failed < 20; i++) {
				chain.protocol = ends[i].protocol;
				chain.port = ends[i].port;
				failed += !agree(*state, &chain);
			}
		}
	}
	check(*state, failed);
}

// Tests random long chains with headers of any length, truncated at any byte, with and without
// padding.
TEST(steer_and_parser_agree_on_random_chains) {
	unsigned int failed = 0;
	uint64_t random = 7;

	for (unsigned int k = 0; k < 100000 && failed < 20; k++) {
		unsigned int end = (unsigned int)(frame_random(&random) % RTE_DIM(ends));
		struct chain chain = {
			.count = (unsigned int)(frame_random(&random) % (HEADERS_MAX + 1)),
			.protocol = ends[end].protocol,
			.port = ends[end].port,
			.padded = frame_random(&random) % 2 == 0,
			.to_host = frame_random(&random) % 8 == 0,
			.tags = (uint8_t)(frame_random(&random) % 3)};

		// most chains have no fragment header
		for (unsigned int i = 0; i < chain.count; i++) {
			chain.header[i] =
				(enum header)(frame_random(&random) %
					      (frame_random(&random) % 4 ? ATOMIC + 1 : HEADERS));
			if (chain.header[i] == HOP && i > 0 && frame_random(&random) % 4) {
				chain.header[i] = DEST;
			}
			chain.units[i] =
				(uint8_t)(frame_random(&random) % 4 ? 0
								    : frame_random(&random) % 20);
		}
		if (frame_random(&random) % 2 == 0) {
			chain.lost = (uint16_t)(frame_random(&random) % 60);
		}
		if (chain.count > 0 && frame_random(&random) % 16 == 0) {
			chain.overlong = 1 + (unsigned int)(frame_random(&random) % chain.count);
		}
		failed += !agree(*state, &chain);
	}
	check(*state, failed);
}
