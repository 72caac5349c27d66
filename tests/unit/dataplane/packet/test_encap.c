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
	struct weir_backend_path path = {
		.family = family, .vlan = vlan, .mtu = 9000, .resolved = 1};

	memcpy(path.address, family == 4 ? backend4 : backend6, 16);
	memcpy(path.source, family == 4 ? source4 : source6, 16);
	memcpy(path.next_hop_mac, next_hop_mac, 6);
	memcpy(path.port_mac, port_mac, 6);
	return path;
}

// Check the outer headers of an encapsulated packet. Returns the offset of the inner packet.
static uint32_t check_outer(const uint8_t *p, const struct weir_backend_path *path,
	const struct frame_spec *inner, uint32_t inner_bytes) {
	const uint8_t *ip = p + 14;

	assert_memory_equal(p, path->next_hop_mac, 6);
	assert_memory_equal(p + 6, path->port_mac, 6);
	if (path->vlan != 0) {
		assert_int_equal(frame_get16(p + 12), 0x8100);
		assert_int_equal(frame_get16(p + 14), path->vlan);
		ip += 4;
	}
	assert_int_equal(frame_get16(ip - 2), path->family == 4 ? 0x0800 : 0x86dd);
	if (path->family == 4) {
		assert_int_equal(ip[0], 0x45);
		assert_int_equal(ip[1], inner->tos);
		assert_int_equal(frame_get16(ip + 2), inner_bytes + 20);
		assert_int_equal(frame_get32(ip + 4), 0x4000); // DF is set, the identification is 0
		assert_int_equal(ip[8], 64);
		assert_int_equal(ip[9], inner->family == 4 ? 4 : 41);
		assert_int_equal(frame_sum(ip, 20, 0), 0xffff);
		assert_memory_equal(ip + 12, path->source, 4);
		assert_memory_equal(ip + 16, path->address, 4);
		return (uint32_t)(ip + 20 - p);
	}
	assert_int_equal(ip[0] >> 4, 6);
	assert_int_equal(frame_get16(ip) >> 4 & 0xff, inner->tos);
	assert_int_not_equal(frame_get32(ip) & 0xfffff, 0);
	assert_int_equal(frame_get16(ip + 4), inner_bytes);
	assert_int_equal(ip[6], inner->family == 4 ? 4 : 41);
	assert_int_equal(ip[7], 64);
	assert_memory_equal(ip + 8, path->source, 16);
	assert_memory_equal(ip + 24, path->address, 16);
	return (uint32_t)(ip + 40 - p);
}

// Encapsulate a packet that has exactly the necessary headroom, and check all bytes of the result.
static void check_encap(const struct frame_spec *spec, const struct weir_backend_path *path) {
	struct weir_backend_row row;
	struct weir_row_head head;
	struct weir_descriptor d;
	uint32_t inner, headroom;
	struct rte_mbuf *m;
	struct frame f;

	frame_build(spec, &f);
	weir_backend_row_build(path, &row);
	head = weir_encap_read(&row);
	assert_true(weir_encap_row_valid(&head));
	headroom = head.header_bytes - f.l3;
	m = frame_mbuf(f.bytes, f.n, (uint16_t)headroom);
	weir_parse(m, SEED, &d);
	assert_int_equal(d.kind, WEIR_PACKET_FLOW);
	assert_true(weir_encap_fits(&head, &d));
	weir_encap_push(m, &d, row.header, &head);
	assert_int_equal(m->data_off, 0);
	assert_int_equal(m->data_len, head.header_bytes + f.ip_bytes);
	assert_int_equal(m->pkt_len, m->data_len);
	inner = check_outer(rte_pktmbuf_mtod(m, uint8_t *), path, spec, f.ip_bytes);
	assert_int_equal(inner, head.header_bytes);
	assert_memory_equal(
		rte_pktmbuf_mtod_offset(m, uint8_t *, inner), f.bytes + f.l3, f.ip_bytes);
	frame_mbuf_free(m);
}

static struct frame_spec inner_of(uint8_t family) {
	return (struct frame_spec){
		.family = family, .protocol = 6, .tcp_flags = 0x10, .payload = 10};
}

TEST_GROUP(lab_eal);

TEST(encap_all_mixes_copy_dscp_and_ecn) {
	static const uint8_t families[] = {4, 6};

	for (unsigned int mix = 0; mix < 4; mix++) {
		for (unsigned int vlan = 0; vlan < 2; vlan++) {
			struct weir_backend_path path =
				path_of(families[mix / 2], (uint16_t)(vlan * 77));
			struct frame_spec spec = inner_of(families[mix % 2]);

			for (unsigned int tos = 0; tos < 256; tos++) {
				spec.tos = (uint8_t)tos;
				spec.tags = (uint8_t)(tos % 3);
				check_encap(&spec, &path);
			}
		}
	}
}

TEST(encap_all_sizes_have_correct_lengths_and_checksums) {
	static const uint8_t families[] = {4, 6};

	for (unsigned int mix = 0; mix < 4; mix++) {
		struct weir_backend_path path = path_of(families[mix / 2], 0);
		struct frame_spec spec = inner_of(families[mix % 2]);

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
	unsigned int accepted = 0;

	for (unsigned int family = 0; family < 256; family++) {
		for (unsigned int lengths = 0; lengths < 65536; lengths++) {
			struct weir_row_head head = {.outer_family = (uint8_t)family,
				.l2_bytes = (uint8_t)lengths,
				.header_bytes = (uint8_t)(lengths >> 8)};

			if (!weir_encap_row_valid(&head)) {
				continue;
			}
			accepted++;
			if (head.l2_bytes < 14 || head.header_bytes > 62 ||
				weir_encap_outer_bytes(&head) != (family == 6 ? 40 : 20)) {
				fail_msg("family %u l2 %u header %u", family, head.l2_bytes,
					head.header_bytes);
			}
		}
	}
	assert_true(accepted > 0);
}

TEST(encap_fits_counts_the_outer_header) {
	struct weir_row_head head = {.l2_bytes = 18, .header_bytes = 38, .mtu = 1500};
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
	weir_backend_row_build(&path, &row);
	head = weir_encap_read(&row);
	for (unsigned int i = 0; i < 300; i++) {
		struct frame_spec spec = inner_of(i % 2 == 0 ? 4 : 6);
		uint32_t piece = 1 + i % 97;
		uint8_t copy[2048];
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;
		const uint8_t *p;

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
