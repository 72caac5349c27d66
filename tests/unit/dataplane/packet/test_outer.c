// SPDX-License-Identifier: BSD-3-Clause
//
// Outer: a worker encapsulates packets with its own copy of a backend's row. The result must have
// the same bytes as the result of weir_encap_push with the row itself, which test_encap.c checks.
// Unusable rows are refused.
#include "outer.h"

#include <stdlib.h>
#include <string.h>

#include "backend_row.h"
#include "frames.h"
#include "test.h"

#define PORTS 4
#define SERVICES 10

static struct weir_backend_row row_of(unsigned int n) {
	struct weir_backend_path path = {.family = n & 1 ? 6 : 4,
		.port = (uint8_t)(n % PORTS),
		.vlan = n & 2 ? (uint16_t)(1 + n) : 0,
		.mtu = 1500,
		.service = (uint16_t)(n % SERVICES),
		.resolved = 1,
		.forwarding = {.mode = (uint8_t)(n / 8 % WEIR_FORWARDING_COUNT),
			.gue_port = (uint16_t)(6080 + n),
			.gre_key = n & 32 ? n * 0x01020304u : 0},
		.source_bits = (uint8_t)(n % (WEIR_SOURCE_BITS_MAX + 1))};
	struct weir_backend_row row;
	uint16_t low;

	for (unsigned int i = 0; i < 16; i++) {
		path.address[i] = (uint8_t)(n * 31 + i * 7);
		path.source[i] = (uint8_t)(n * 17 + i * 3);
	}
	low = (uint16_t)((path.source[2] << 8 | path.source[3]) >> path.source_bits
									   << path.source_bits);
	path.source[2] = (uint8_t)(low >> 8);
	path.source[3] = (uint8_t)low;
	for (unsigned int i = 0; i < 6; i++) {
		path.next_hop_mac[i] = (uint8_t)(n + i);
		path.port_mac[i] = (uint8_t)(n * 5 + i);
	}
	weir_backend_row_build(&path, &row);
	return row;
}

TEST(outer_push_gives_the_bytes_of_encap_push) {
	for (unsigned int n = 0; n < 40000; n++) {
		struct weir_backend_row row = row_of(n % 1009);
		struct frame_spec spec = {.family = n % 3 ? 4 : 6,
			.protocol = n % 5 ? 6 : 17,
			.tcp_flags = 0x10,
			.tos = (uint8_t)(n % 256),
			.tags = (uint8_t)(n % 7 % 2),
			// UDP frames long enough for the fast path
			.payload = (uint16_t)(12 + n % 1388),
			.padding = (uint16_t)(n % 4)};
		struct weir_summary summary;
		struct weir_outer outer;
		struct weir_hash_keys keys = weir_hash_keys_of(1);
		struct weir_descriptor d;
		struct rte_mbuf *a, *b;
		struct weir_row_head head;
		struct frame f;

		frame_build(&spec, &f);
		// Only as much headroom as the fast path needs.
		a = frame_mbuf(f.bytes, f.n, WEIR_PARSE_HEADROOM - WEIR_ETHERNET_BYTES);
		b = frame_mbuf(f.bytes, f.n, 128);
		weir_parse(a, 1, &d);
		head = weir_encap_read(&row);
		assert_true(weir_outer_adopt(&outer, &row, 33, PORTS, SERVICES));
		assert_int_equal(outer.verdict.backend, 33);
		assert_int_equal(outer.verdict.port, row.port);
		assert_int_equal(outer.verdict.service, row.service);
		assert_int_equal(outer.verdict.action, WEIR_ACTION_FORWARD);
		assert_int_equal(outer.verdict.reason, WEIR_REASON_NONE);
		assert_int_equal(outer.inner_max, 1500 - (row.header_bytes - row.l2_bytes));
		assert_int_equal(outer.verdict.choice, WEIR_CHOICE_FLOW);
		assert_true(weir_parse_fast(a, &keys, &summary));
		weir_outer_push(a, &summary, &outer);
		weir_encap_push(b, &d, weir_outer_header(&outer), &head);
		assert_int_equal(a->pkt_len, b->pkt_len);
		assert_int_equal(a->data_len, b->data_len);
		assert_memory_equal(
			rte_pktmbuf_mtod(a, uint8_t *), rte_pktmbuf_mtod(b, uint8_t *), a->pkt_len);
		frame_mbuf_free(a);
		frame_mbuf_free(b);
	}
}

// Whatever a row contains, its copy has no index out of bounds and refers to no missing port or
// service. If a row is refused, the previous copy is unchanged.
TEST(outer_of_an_unusable_row_forwards_nothing) {
	const struct weir_backend_row gone = {0};
	struct weir_outer outer, before;
	unsigned int refused = 0;
	unsigned int usable = 0;
	uint64_t random = 1;

	assert_true(weir_outer_adopt(&outer, &gone, 1, PORTS, SERVICES));
	assert_int_equal(outer.inner_max, 0);
	assert_int_equal(outer.head.flags, 0);
	for (unsigned int n = 0; n < 200000; n++) {
		struct weir_backend_row row = row_of(n % 64);
		uint8_t *bytes = (uint8_t *)&row;

		for (unsigned int i = 0; i < 1 + n % 3; i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			bytes[(random >> 33) % 24] = (uint8_t)(random >> 50);
		}
		before = outer;
		if (!weir_outer_adopt(&outer, &row, 1, PORTS, SERVICES)) {
			assert_memory_equal(&outer, &before, sizeof(outer));
			refused++;
			continue;
		}
		assert_true(outer.head.flags == 0 || outer.head.port < PORTS);
		assert_true(outer.head.flags == 0 || outer.head.service < SERVICES);
		if (outer.inner_max == 0) {
			continue;
		}
		usable++;
		assert_true(outer.verdict.port < PORTS);
		assert_true(outer.verdict.service < SERVICES);
		assert_true(outer.header_bytes == row.header_bytes);
		assert_in_range(outer.header_bytes, 14, weir_outer_copy_bytes(&outer.head) - 2);
		assert_in_range(weir_outer_copy_bytes(&outer.head), 32, WEIR_OUTER_COPY_MAX);
		assert_true(outer.head.inner_at != 1 && outer.head.inner_at <= outer.header_bytes);
		assert_true(outer.head.udp_at == 0 ||
			    (outer.head.udp_at >= 8 && outer.head.udp_at <= outer.header_bytes));
		assert_true((row.flags & WEIR_BACKEND_PRESENT) != 0);
		assert_true((row.flags & WEIR_BACKEND_RESOLVED) != 0);
	}
	assert_in_range(usable, 20000, 180000);
	assert_in_range(refused, 20000, 180000);
}
