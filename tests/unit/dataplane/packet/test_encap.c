// SPDX-License-Identifier: BSD-3-Clause
//
// Encap: every combination of address families, every DSCP and ECN value, tags, padding and mbuf
// segments. This test parses the result byte by byte, and recomputes its checksums.
#include "encap.h"

#include <stdlib.h>
#include <string.h>

#include "backend_row.h"
#include "frames.h"
#include "pipeline_lab.h"
#include "test.h"

#define SEED 5

static const uint8_t next_hop_mac[6] = {2, 1, 2, 3, 4, 5};
static const uint8_t port_mac[6] = {2, 9, 8, 7, 6, 5};
static const uint8_t backend4[16] = {10, 0, 0, 11};
static const uint8_t source4[16] = {10, 0, 0, 1};
static const uint8_t backend6[16] = {0xfd, [15] = 11};
static const uint8_t source6[16] = {0xfd, [15] = 1};

static struct weir_backend_path path_of(uint8_t family, uint16_t vlan) {
	struct weir_backend_path path = {.family = family,
		.vlan = vlan,
		.mtu = 9000,
		.resolved = 1,
		.forwarding = {.gue_port = WEIR_GUE_PORT}};

	memcpy(path.address, family == 4 ? backend4 : backend6, 16);
	memcpy(path.source, family == 4 ? source4 : source6, 16);
	memcpy(path.next_hop_mac, next_hop_mac, 6);
	memcpy(path.port_mac, port_mac, 6);
	return path;
}

// Check what the mode puts between the outer IP header and the packet. Returns its length.
static uint32_t check_tail(const uint8_t *tail, const struct weir_backend_path *path,
	const struct frame_spec *inner, uint32_t inner_bytes) {
	const bool ipv4 = inner->family == 4;

	switch ((enum weir_forwarding_mode)path->forwarding.mode) {
	case WEIR_FORWARDING_GUE:
		assert_in_range(frame_get16(tail), 0xc000, 0xffff);
		assert_int_equal(frame_get16(tail + 2), path->forwarding.gue_port);
		assert_int_equal(frame_get16(tail + 4), inner_bytes + 12);
		assert_int_equal(frame_get16(tail + 6), 0);
		assert_int_equal(frame_get32(tail + 8), (ipv4 ? 4u : 41u) << 16);
		return 12;
	case WEIR_FORWARDING_GRE:
		assert_int_equal(frame_get16(tail), path->forwarding.gre_key != 0 ? 0x2000 : 0);
		assert_int_equal(frame_get16(tail + 2), ipv4 ? 0x0800 : 0x86dd);
		if (path->forwarding.gre_key == 0) {
			return 4;
		}
		assert_int_equal(frame_get32(tail + 4), path->forwarding.gre_key);
		return 8;
	default:
		return 0;
	}
}

// Check the outer headers of an encapsulated packet. Returns the offset of the inner packet.
static uint32_t check_outer(const uint8_t *p, const struct weir_backend_path *path,
	const struct frame_spec *inner, uint32_t inner_bytes) {
	static const uint8_t protocols[WEIR_FORWARDING_COUNT] = {
		[WEIR_FORWARDING_GUE] = 17, [WEIR_FORWARDING_GRE] = 47};
	const uint8_t inside = inner->family == 4 ? 4 : 41;
	const uint8_t protocol = path->forwarding.mode == WEIR_FORWARDING_IPIP
					 ? inside
					 : protocols[path->forwarding.mode];
	const uint32_t tail_bytes =
		weir_forwarding_headers[path->forwarding.mode]->tail_bytes(&path->forwarding);
	const uint8_t family =
		path->forwarding.mode == WEIR_FORWARDING_L2 ? inner->family : path->family;
	const uint8_t *ip = p + 14;

	assert_memory_equal(p, path->next_hop_mac, 6);
	assert_memory_equal(p + 6, path->port_mac, 6);
	if (path->vlan != 0) {
		assert_int_equal(frame_get16(p + 12), 0x8100);
		assert_int_equal(frame_get16(p + 14), path->vlan);
		ip += 4;
	}
	assert_int_equal(frame_get16(ip - 2), family == 4 ? 0x0800 : 0x86dd);
	if (path->forwarding.mode == WEIR_FORWARDING_L2) {
		return (uint32_t)(ip - p);
	}
	if (path->family == 4) {
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(ip[1], inner->tos);
		assert_int_equal(frame_get16(ip + 2), inner_bytes + tail_bytes + 20);
		assert_int_equal(frame_get32(ip + 4), 0x4000); // DF is set, the identification is 0
		assert_int_equal(ip[8], 64);
		assert_int_equal(ip[9], protocol);
		assert_int_equal(frame_sum(ip, 20, 0), 0xffff);
		assert_memory_equal(ip + 12, path->source, 4);
		assert_memory_equal(ip + 16, path->address, 4);
		ip += 20;
		return (uint32_t)(ip + check_tail(ip, path, inner, inner_bytes) - p);
	}
	assert_int_equal(ip[0] >> 4, 6);
	assert_int_equal(frame_get16(ip) >> 4 & 0xff, inner->tos);
	assert_int_not_equal(frame_get32(ip) & 0xfffff, 0);
	assert_int_equal(frame_get16(ip + 4), inner_bytes + tail_bytes);
	assert_int_equal(ip[6], protocol);
	assert_int_equal(ip[7], 64);
	assert_memory_equal(ip + 8, path->source, 16);
	assert_memory_equal(ip + 24, path->address, 16);
	ip += 40;
	return (uint32_t)(ip + check_tail(ip, path, inner, inner_bytes) - p);
}

// Returns the length of a frame with n bytes of headers and packet: a short one is padded if the
// buffer has room.
static uint32_t sent_bytes(const struct rte_mbuf *m, uint32_t n) {
	return n < 60 && m->buf_len >= m->data_off + 60 ? 60 : n;
}

// Encapsulate a packet that has exactly the necessary headroom, and check all bytes of the result.
static void check_encap(const struct frame_spec *spec, const struct weir_backend_path *path) {
	struct weir_backend_row row;
	struct weir_row_head head;
	struct weir_descriptor d;
	uint8_t filled[WEIR_OUTER_HEADER_BYTES];
	uint32_t inner, headroom;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(spec, &f);
	weir_backend_row_build(path, &row);
	head = weir_encap_read(&row);
	assert_true(weir_encap_row_valid(&head));
	// L2 removes the tags of the client's frame and may need no headroom.
	headroom = head.header_bytes > f.l3 ? head.header_bytes - f.l3 : 0;
	m = frame_mbuf(f.bytes, f.n, (uint16_t)headroom);
	weir_parse(m, SEED, &d);
	assert_int_equal(d.kind, WEIR_PACKET_FLOW);
	assert_true(weir_encap_fits(&head, &d));
	weir_encap_push(m, &d, row.header, &head);
	assert_int_equal(m->data_off, headroom + f.l3 - head.header_bytes);
	assert_int_equal(m->data_len, sent_bytes(m, head.header_bytes + f.ip_bytes));
	assert_int_equal(m->pkt_len, m->data_len);
	inner = check_outer(rte_pktmbuf_mtod(m, uint8_t *), path, spec, f.ip_bytes);
	assert_int_equal(inner, head.header_bytes);
	assert_memory_equal(
		rte_pktmbuf_mtod_offset(m, uint8_t *, inner), f.bytes + f.l3, f.ip_bytes);
	weir_backend_row_fill(&row, f.bytes + f.l3, f.ip_bytes, d.hash, filled);
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), filled, head.header_bytes);
	frame_mbuf_free(m);
}

static struct frame_spec inner_of(uint8_t family) {
	return (struct frame_spec){
		.family = family, .protocol = 6, .tcp_flags = 0x10, .payload = 10};
}

TEST_GROUP(lab_eal);

TEST(encap_all_modes_and_mixes_copy_dscp_and_ecn) {
	static const uint8_t families[] = {4, 6};

	for (unsigned int mix = 0; mix < 4; mix++) {
		for (unsigned int mode = 0; mode < 2 * 2 * WEIR_FORWARDING_COUNT; mode++) {
			struct weir_backend_path path =
				path_of(families[mix / 2], (uint16_t)(mode % 2 * 77));
			struct frame_spec spec = inner_of(families[mix % 2]);

			path.forwarding.mode = (uint8_t)(mode / 4);
			path.forwarding.gre_key = mode / 2 % 2 != 0 ? 0xa1b2c3d4 : 0;
			for (unsigned int tos = 0; tos < 256; tos++) {
				spec.tos = (uint8_t)tos;
				spec.tags = (uint8_t)(tos % 3);
				check_encap(&spec, &path);
			}
		}
	}
}

// A TCP packet without options and data is shorter than the shortest Ethernet frame.
TEST(encap_l2_pads_short_frames_with_zeroes) {
	static const uint8_t zeroes[6];
	struct weir_backend_path path = path_of(6, 0);
	struct frame_spec spec = inner_of(4);

	path.forwarding.mode = WEIR_FORWARDING_L2;
	spec.payload = 0;
	for (unsigned int room = 0; room < 12; room++) {
		struct weir_backend_row row;
		struct weir_row_head head;
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;

		spec.padding = (uint16_t)room;
		frame_build(&spec, &f);
		memset(f.bytes + f.l3 + f.ip_bytes, 0xee, room);
		weir_backend_row_build(&path, &row);
		head = weir_encap_read(&row);
		m = frame_mbuf(f.bytes, f.n, 0);
		weir_parse(m, SEED, &d);
		weir_encap_push(m, &d, row.header, &head);
		assert_int_equal(m->pkt_len, room < 6 ? 54 : 60);
		assert_int_equal(m->data_len, m->pkt_len);
		assert_memory_equal(
			rte_pktmbuf_mtod_offset(m, uint8_t *, 54), zeroes, m->pkt_len - 54);
		frame_mbuf_free(m);
	}
}

TEST(encap_all_sizes_have_correct_lengths_and_checksums) {
	static const uint8_t families[] = {4, 6};

	for (unsigned int mix = 0; mix < 4 * WEIR_FORWARDING_COUNT; mix++) {
		struct weir_backend_path path = path_of(families[mix / 2 % 2], 0);
		struct frame_spec spec = inner_of(families[mix % 2]);

		path.forwarding.mode = (uint8_t)(mix / 4);
		for (unsigned int payload = 0; payload < 1500; payload++) {
			spec.payload = (uint16_t)payload;
			spec.padding = (uint16_t)(payload % 5);
			spec.protocol = payload % 2 == 0 ? 6 : 17;
			check_encap(&spec, &path);
		}
		spec.payload = 8900;
		check_encap(&spec, &path);
	}
}

// The addresses determine the constant part of the checksum. Many addresses are tried, including
// those that make the checksum 0 or ffff.
TEST(encap_ipv4_checksum_is_correct_for_all_addresses) {
	struct weir_backend_path path = path_of(4, 0);
	struct frame_spec spec = inner_of(4);

	for (uint32_t i = 0; i < 70000; i++) {
		frame_put32(path.address, i * 0x9e3779b1u);
		frame_put16(path.source + 2, (uint16_t)i);
		if (i % 16 != 0 && i < 65536) {
			frame_put32(path.address, 0x0a00000b);
		}
		check_encap(&spec, &path);
	}
}

TEST(encap_ipv6_flow_label_follows_the_flow) {
	struct weir_backend_path path = path_of(6, 0);
	struct weir_backend_row row;
	struct weir_row_head head;
	uint32_t labels[64];
	unsigned int distinct = 0;

	weir_backend_row_build(&path, &row);
	head = weir_encap_read(&row);
	for (unsigned int i = 0; i < 128; i++) {
		struct frame_spec spec = inner_of(4);
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;
		uint32_t label;

		spec.source_port = (uint16_t)(1000 + i % 64);
		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 128);
		weir_parse(m, SEED, &d);
		weir_encap_push(m, &d, row.header, &head);
		label = frame_get32(rte_pktmbuf_mtod_offset(m, uint8_t *, 14)) & 0xfffff;
		if (i < 64) {
			labels[i] = label;
			distinct += i == 0 || label != labels[i - 1];
		} else {
			assert_int_equal(label, labels[i - 64]);
		}
		frame_mbuf_free(m);
	}
	assert_true(distinct >= 60);
}

TEST(encap_ipv6_flow_label_is_never_zero) {
	uint8_t outer[40] = {0};

	weir_encap_ipv6(outer, 0, 0, 4, 100);
	assert_int_equal(frame_get32(outer), 6u << 28 | 1);
}

// A malicious control process cannot write a row that causes accesses outside of the packet or the
// row.
TEST(encap_row_valid_accepts_only_valid_lengths) {
	static const uint8_t families[] = {0, 4, 5, 6, 255};
	unsigned int accepted = 0;

	for (uint64_t n = 0; n < 5u * 24 * 20 * 24 * 24 * 7; n++) {
		uint64_t k = n;
		struct weir_row_head head = {0};
		uint32_t ip, last;

		head.outer_family = families[k % 5], k /= 5;
		head.l2_bytes = (uint8_t)(k % 24), k /= 24;
		head.tail_bytes = (uint8_t)(k % 20), k /= 20;
		head.inner_at = (uint8_t)(k % 24), k /= 24;
		head.udp_at = (uint8_t)(k % 24), k /= 24;
		ip = head.outer_family == 0 ? 0 : head.outer_family == 4 ? 20 : 40;
		head.header_bytes = (uint8_t)(head.l2_bytes + ip + head.tail_bytes + k - 3);
		if (!weir_encap_row_valid(&head)) {
			continue;
		}
		accepted++;
		last = ip == 0 ? head.l2_bytes : head.tail_bytes; // where fields are written
		if (head.outer_family == 5 || head.outer_family == 255 || head.l2_bytes < 14 ||
			head.header_bytes > 72 ||
			head.header_bytes != head.l2_bytes + ip + head.tail_bytes ||
			head.inner_at > last || head.inner_at == 1 || head.udp_at > last ||
			(head.udp_at > 0 && head.udp_at < 8)) {
			fail_msg("family %u l2 %u header %u tail %u inner %u udp %u",
				head.outer_family, head.l2_bytes, head.header_bytes,
				head.tail_bytes, head.inner_at, head.udp_at);
		}
	}
	assert_true(accepted > 0);
}

TEST(encap_fits_counts_the_outer_header) {
	struct weir_row_head head = {
		.outer_family = 4, .l2_bytes = 18, .header_bytes = 38, .mtu = 1500};
	struct weir_descriptor d = {.ip_bytes = 1480};

	assert_true(weir_encap_fits(&head, &d));
	d.ip_bytes = 1481;
	assert_false(weir_encap_fits(&head, &d));
	d.ip_bytes = 65575; // the largest IPv6 packet
	head.mtu = 65535;
	assert_false(weir_encap_fits(&head, &d));
}

// --- segments -------------------------------------------------------------------------------

// Returns a frame in a chain of mbufs from a pool: `first` bytes in the first mbuf, at most `piece`
// bytes in each other mbuf.
static struct rte_mbuf *segments_of(
	struct rte_mempool *pool, const struct frame *f, uint32_t first, uint32_t piece) {
	struct rte_mbuf *m = NULL;

	for (uint32_t at = 0; at < f->n;) {
		uint32_t n = RTE_MIN(at == 0 ? first : piece, f->n - at);
		struct rte_mbuf *segment = rte_pktmbuf_alloc(pool);

		assert_non_null(segment);
		memcpy(rte_pktmbuf_append(segment, (uint16_t)n), f->bytes + at, n);
		if (m == NULL) {
			m = segment;
		} else {
			assert_int_equal(rte_pktmbuf_chain(m, segment), 0);
		}
		at += n;
	}
	return m;
}

TEST(encap_segments_equal_one_segment) {
	struct rte_mempool *pool = rte_pktmbuf_pool_create("encap", 255, 0, 0, 2176, SOCKET_ID_ANY);
	struct weir_backend_path path = path_of(6, 77);
	struct weir_backend_row row;
	struct weir_row_head head;

	assert_non_null(pool);
	for (unsigned int i = 0; i < 300; i++) {
		struct frame_spec spec = inner_of(i % 2 == 0 ? 4 : 6);
		uint32_t piece = 1 + i % 97;
		uint8_t copy[2048];
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;
		const uint8_t *p;

		path.forwarding.mode = (uint8_t)(i / 2 % WEIR_FORWARDING_COUNT);
		weir_backend_row_build(&path, &row);
		head = weir_encap_read(&row);
		spec.payload = (uint16_t)(200 + i * 2);
		spec.padding = (uint16_t)(i % 200);
		frame_build(&spec, &f);
		m = segments_of(pool, &f, 74 + i % 100, piece < 20 ? 20 : piece);
		weir_parse(m, SEED, &d);
		assert_int_equal(d.kind, WEIR_PACKET_FLOW);
		weir_encap_push_segments(m, &d, row.header, &head);
		assert_int_equal(rte_mbuf_check(m, 1, &(const char *){NULL}), 0);
		assert_int_equal(m->pkt_len, head.header_bytes + f.ip_bytes);
		p = rte_pktmbuf_read(m, 0, m->pkt_len, copy);
		assert_non_null(p);
		assert_int_equal(check_outer(p, &path, &spec, f.ip_bytes), head.header_bytes);
		assert_memory_equal(p + head.header_bytes, f.bytes + f.l3, f.ip_bytes);
		rte_pktmbuf_free(m);
		assert_int_equal(rte_mempool_avail_count(pool), 255); // no buffer was leaked
	}
	rte_mempool_free(pool);
}
