// SPDX-License-Identifier: BSD-3-Clause
//
// Parser. The unusual packets of edges.c go through a complete pipeline. Each packet is truncated
// to every length. The fast parser is compared with the complete parser. Also tested: TCP flags,
// flow keys, hashes, and packets in several mbuf segments.
#include "parse.h"

#include <stdlib.h>
#include <string.h>

#include "edges.h"
#include "frames.h"
#include "icmp.h"
#include "pipeline_lab.h"
#include "test.h"

#define HEADROOM 128
#define SEED 77

static const uint8_t nops[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
static const uint8_t chain[16] = {60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4};
static const uint8_t chain_icmp[16] = {60, 0, 1, 4, 0, 0, 0, 0, 58, 0, 1, 4};

// Valid packets with each kind of header.
static const struct frame_spec valid[] = {
	{.family = 4, .protocol = 6, .tcp_flags = 0x10, .payload = 9},
	{.family = 4, .protocol = 6, .tcp_flags = 0x02, .tcp_options = 12, .tos = 0xb9},
	{.family = 4, .protocol = 6, .tcp_flags = 0x02, .options = nops, .option_bytes = 12},
	{.family = 4, .protocol = 6, .tcp_flags = 0x02, .tags = 1},
	{.family = 4, .protocol = 17, .destination_port = 53, .payload = 20, .tags = 2},
	{.family = 4, .protocol = 17, .destination_port = 53, .payload = 3},
	{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 10},
	{.family = 6, .protocol = 6, .tcp_flags = 0x02, .tos = 0x2e},
	{.family = 6, .protocol = 17, .destination_port = 53, .payload = 2, .tags = 1},
	{.family = 6,
		.protocol = 6,
		.tcp_flags = 0x10,
		.first_header = 0,
		.options = chain,
		.option_bytes = 16},
	{.family = 6,
		.protocol = 58,
		.icmp_type = 128,
		.payload = 8,
		.first_header = 0,
		.options = chain_icmp,
		.option_bytes = 16},
	{.family = 6, .protocol = 58, .icmp_type = 128, .payload = 5, .tags = 2},
};

static void check_verdict(const char *name, const struct weir_verdict *verdict,
	enum weir_action action, enum weir_drop_reason reason) {
	if (verdict->action != action ||
		(action == WEIR_ACTION_DROP && verdict->reason != reason)) {
		fail_msg("%s: is %s %s, should be %s %s", name,
			weir_action_name((enum weir_action)verdict->action),
			weir_drop_reason_name((enum weir_drop_reason)verdict->reason),
			weir_action_name(action),
			action == WEIR_ACTION_DROP ? weir_drop_reason_name(reason) : "");
	}
}

// --- the table ------------------------------------------------------------------------------

static void run_edges(struct lab *lab, unsigned int *drops) {
	for (unsigned int i = 0; i < edge_count; i++) {
		const struct edge *edge = &edges[i];
		struct weir_verdict verdict;
		struct rte_mbuf *m;
		struct frame f;

		edge_build(edge, &f);
		m = frame_mbuf(f.bytes, f.n, HEADROOM);
		lab->now_ns += 1000000;
		verdict = lab_process(lab, m);
		check_verdict(edge->name, &verdict, edge->action, edge->reason);
		if (edge->action == WEIR_ACTION_KERNEL || edge->action == WEIR_ACTION_DROP) {
			assert_int_equal(m->pkt_len, f.n);
			assert_int_equal(m->data_off, HEADROOM);
			assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
		}
		if (edge->action == WEIR_ACTION_DROP) {
			drops[edge->reason]++;
		}
		lab_check_counters(lab);
		frame_mbuf_free(m);
	}
}

TEST_GROUP(lab_eal);

TEST(parse_edges_get_their_verdicts) {
	unsigned int drops[WEIR_DROP_REASON_COUNT] = {0};
	struct lab *lab = lab_make();

	assert_true(edge_count >= 100);
	run_edges(lab, drops);
	for (unsigned int i = 0; i < WEIR_DROP_REASON_COUNT; i++) {
		assert_int_equal(lab_counters(lab)->drops[i], drops[i]);
	}
	// The table has at least one packet for every drop reason of the parser.
	for (unsigned int i = WEIR_DROP_FRAME_TOO_SHORT; i <= WEIR_DROP_ICMP_UNMATCHED; i++) {
		assert_true(drops[i] > 0);
	}
	lab_free(lab);
}

// --- truncation -----------------------------------------------------------------------------

// Returns the drop reason of a frame truncated to n bytes, according to the definition of the
// reasons.
static enum weir_drop_reason reason_of_cut(
	const struct frame_spec *spec, const struct frame *f, uint32_t n) {
	if (n < 14) {
		return WEIR_DROP_FRAME_TOO_SHORT;
	}
	if (n < f->l3) {
		return WEIR_DROP_VLAN_TRUNCATED;
	}
	if (spec->family == 4) {
		if (n < f->l3 + 20) {
			return WEIR_DROP_IPV4_TRUNCATED;
		}
		return n < f->l4 ? WEIR_DROP_IPV4_HEADER_LENGTH : WEIR_DROP_IPV4_TOTAL_LENGTH;
	}
	return n < f->l3 + 40 ? WEIR_DROP_IPV6_TRUNCATED : WEIR_DROP_IPV6_PAYLOAD_LENGTH;
}

TEST(parse_frame_cut_at_every_length_is_dropped) {
	struct lab *lab = lab_make();

	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		struct frame f;

		frame_build(&valid[i], &f);
		for (uint32_t n = 0; n < f.n; n++) {
			struct rte_mbuf *m = frame_mbuf(f.bytes, n, HEADROOM);
			struct weir_verdict verdict = lab_process(lab, m);

			check_verdict("cut frame", &verdict, WEIR_ACTION_DROP,
				reason_of_cut(&valid[i], &f, n));
			frame_mbuf_free(m);
		}
	}
	lab_check_counters(lab);
	lab_free(lab);
}

static enum weir_drop_reason reason_of_short_packet(
	const struct frame_spec *spec, const struct frame *f, uint32_t n) {
	uint32_t l4_bytes = n - f->l4;

	if (n < f->l4) {
		return WEIR_DROP_IPV6_EXTENSION;
	}
	switch (spec->protocol) {
	case 6:
		return l4_bytes < 20 ? WEIR_DROP_TCP_TRUNCATED : WEIR_DROP_TCP_HEADER_LENGTH;
	case 17:
		return l4_bytes < 8 ? WEIR_DROP_UDP_TRUNCATED : WEIR_DROP_UDP_LENGTH;
	default:
		return l4_bytes < 8 ? WEIR_DROP_ICMP_TRUNCATED : WEIR_DROP_ICMP_CHECKSUM;
	}
}

// Truncate the IP packet and set its length field to match, so that the IP header stays valid and
// only the payload is truncated.
static void cut_packet(const struct frame_spec *spec, struct frame *f, uint32_t n) {
	uint32_t ip_bytes = n - f->l3;

	if (spec->family == 4) {
		frame_put16(f->bytes + f->l3 + 2, (uint16_t)ip_bytes);
		frame_fix_ipv4(f);
	} else {
		frame_put16(f->bytes + f->l3 + 4, (uint16_t)(ip_bytes - 40));
	}
	f->n = n;
}

TEST(parse_packet_cut_at_every_length_is_dropped) {
	struct lab *lab = lab_make();

	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		uint32_t whole, first;
		struct frame f;

		frame_build(&valid[i], &f);
		whole = f.l4 + (valid[i].protocol == 6 ? 20u + valid[i].tcp_options : f.n - f.l4);
		first = valid[i].family == 4 ? f.l4 : f.l3 + 40;
		for (uint32_t n = first; n < whole; n++) {
			struct weir_verdict verdict;
			struct rte_mbuf *m;

			frame_build(&valid[i], &f);
			cut_packet(&valid[i], &f, n);
			m = frame_mbuf(f.bytes, f.n, HEADROOM);
			verdict = lab_process(lab, m);
			check_verdict("short packet", &verdict, WEIR_ACTION_DROP,
				reason_of_short_packet(&valid[i], &f, n));
			frame_mbuf_free(m);
		}
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// A packet that is not for a VIP goes to the kernel, even if it is truncated after the IP header.
TEST(parse_short_packet_of_others_goes_to_the_kernel) {
	struct lab *lab = lab_make();

	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		struct frame_spec spec = valid[i];
		uint32_t first;
		struct frame f;

		spec.destination = spec.family == 4 ? frame_stranger4 : frame_stranger6;
		frame_build(&spec, &f);
		first = spec.family == 4 ? f.l4 : f.l3 + 40;
		for (uint32_t n = f.n; n >= first; n--) {
			struct weir_verdict verdict;
			struct rte_mbuf *m;

			frame_build(&spec, &f);
			cut_packet(&spec, &f, n);
			m = frame_mbuf(f.bytes, f.n, HEADROOM);
			verdict = lab_process(lab, m);
			check_verdict("short packet of others", &verdict, WEIR_ACTION_KERNEL, 0);
			frame_mbuf_free(m);
		}
	}
	lab_check_counters(lab);
	lab_free(lab);
}

// --- two parsers ----------------------------------------------------------------------------

static void compare_parsers(const uint8_t *bytes, uint32_t n, uint64_t ol_flags) {
	struct rte_mbuf *m = frame_mbuf(bytes, n, HEADROOM);
	struct weir_descriptor a, b;

	m->ol_flags = ol_flags;
	memset(&a, 0x55, sizeof(a));
	memset(&b, 0xaa, sizeof(b));
	weir_parse(m, SEED, &a);
	weir_parse_slow(m, SEED, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	frame_mbuf_free(m);
}

TEST(parse_fast_agrees_with_slow) {
	uint64_t random = 42;

	for (unsigned int i = 0; i < edge_count; i++) {
		struct frame f;

		edge_build(&edges[i], &f);
		compare_parsers(f.bytes, f.n, 0);
	}
	for (unsigned int i = 0; i < 60000; i++) {
		unsigned int changes = (unsigned int)frame_random(&random) % 4;
		uint64_t flags = frame_random(&random) % 4 == 0 ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : 0;
		struct frame f;

		if (i % 3 == 0) {
			edge_build(&edges[frame_random(&random) % edge_count], &f);
		} else {
			frame_build(&valid[frame_random(&random) % RTE_DIM(valid)], &f);
		}
		for (unsigned int k = 0; k < changes; k++) {
			f.bytes[12 + frame_random(&random) % 80] = (uint8_t)frame_random(&random);
		}
		if (f.l3 >= 14 && f.bytes[f.l3] >> 4 == 4 && i % 2 == 0) {
			frame_fix_ipv4(&f);
		}
		if (frame_random(&random) % 8 == 0) {
			f.n = (uint32_t)frame_random(&random) % (f.n + 1);
		}
		compare_parsers(f.bytes, f.n, flags);
	}
}

// Valid TCP and UDP with up to one VLAN tag must take the fast path.
TEST(parse_fast_takes_most_valid_packets) {
	static const struct {
		struct frame_spec spec;
		bool fast;
	} rows[] = {
		{{.family = 4, .protocol = 6, .tcp_flags = 0x10}, true},
		{{.family = 4, .protocol = 6, .tcp_flags = 0x02, .tcp_options = 40}, true},
		{{.family = 4, .protocol = 6, .tcp_flags = 0x10, .payload = 1400, .tos = 3}, true},
		{{.family = 4, .protocol = 6, .tcp_flags = 0x10, .tags = 1}, true},
		{{.family = 4, .protocol = 6, .tcp_flags = 0x10, .tags = 2}, false},
		{{.family = 4, .protocol = 17, .padding = 18}, true},
		{{.family = 4, .protocol = 17, .payload = 12, .tags = 1}, true},
		{{.family = 6, .protocol = 6, .tcp_flags = 0x10}, true},
		{{.family = 6, .protocol = 17, .payload = 12, .tags = 1}, true},
		{{.family = 6, .protocol = 17}, true},
		{{.family = 4, .protocol = 6, .options = nops, .option_bytes = 12}, false},
		{{.family = 4, .protocol = 1, .icmp_type = 8, .payload = 56}, false},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weir_hash_keys keys = weir_hash_keys_of(SEED);
		struct weir_summary s;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&rows[i].spec, &f);
		m = frame_mbuf(f.bytes, f.n, HEADROOM);
		if (weir_parse_fast(m, &keys, &s) != rows[i].fast) {
			fail_msg("row %u: fast %d", i, !rows[i].fast);
		}
		// The packet must have headroom for any outer header, and all headers must be in
		// the first segment.
		m->data_off = (uint16_t)(WEIR_PARSE_HEADROOM - WEIR_ETHERNET_BYTES);
		memcpy(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
		assert_int_equal(weir_parse_fast(m, &keys, &s), rows[i].fast);
		m->nb_segs = 2;
		assert_false(weir_parse_fast(m, &keys, &s));
		m->nb_segs = 1;
		m->data_off--;
		memcpy(rte_pktmbuf_mtod(m, uint8_t *), f.bytes, f.n);
		assert_false(weir_parse_fast(m, &keys, &s));
		frame_mbuf_free(m);
	}
}

// --- fields ---------------------------------------------------------------------------------

TEST(parse_valid_packets_fill_the_descriptor) {
	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		const struct frame_spec *spec = &valid[i];
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(spec, &f);
		m = frame_mbuf(f.bytes, f.n, HEADROOM);
		weir_parse(m, SEED, &d);
		assert_int_equal(d.l3_offset, f.l3);
		assert_int_equal(d.l4_offset, f.l4 - f.l3);
		assert_int_equal(d.ip_bytes, f.ip_bytes);
		assert_int_equal(d.tos, spec->tos);
		assert_int_equal(d.key.family, spec->family);
		assert_int_equal(d.key.protocol, spec->protocol);
		assert_memory_equal(
			d.key.source, spec->family == 4 ? frame_client4 : frame_client6, 16);
		assert_memory_equal(
			d.key.destination, spec->family == 4 ? frame_vip4 : frame_vip6, 16);
		if (spec->protocol == 6 || spec->protocol == 17) {
			assert_int_equal(d.kind, WEIR_PACKET_FLOW);
			assert_memory_equal(&d.key.source_port, f.bytes + f.l4, 2);
			assert_memory_equal(&d.key.destination_port, f.bytes + f.l4 + 2, 2);
			assert_true(d.hash == weir_parse_hash(&d.key, SEED));
		} else {
			assert_int_equal(d.kind, WEIR_PACKET_ECHO);
		}
		frame_mbuf_free(m);
	}
}

TEST(parse_hash_is_that_of_the_policy) {
	struct weir_flow_key key = {.family = 4, .protocol = 6};

	memcpy(key.source, frame_client4, 4);
	memcpy(key.destination, frame_vip4, 4);
	frame_put16((uint8_t *)&key.source_port, 40000);
	frame_put16((uint8_t *)&key.destination_port, 80);
	assert_true(weir_parse_hash(&key, SEED) ==
		    weir_hash_ipv4(0x070200c0, 0x0a6433c6, 0x409c, 0x5000, 6, SEED));
	assert_true(weir_parse_hash(&key, SEED) != weir_parse_hash(&key, SEED + 1));
	key.family = 6;
	assert_true(weir_parse_hash(&key, SEED) ==
		    weir_hash_ipv6(key.source, key.destination, 0x409c, 0x5000, 6, SEED));
}

// Returns the event for a combination of TCP flags, or -1 if TCP never sends this combination.
// Written from the definition, not copied from the parser's table.
static int event_of(unsigned int flags) {
	unsigned int kinds = !!(flags & 1) + !!(flags & 2) + !!(flags & 4);
	bool ack = (flags & 0x10) != 0;

	if (kinds > 1 || (kinds == 0 && !ack)) {
		return -1;
	}
	if (flags & 4) {
		return WEIR_FLOW_EVENT_RST;
	}
	if (flags & 1) {
		return ack ? WEIR_FLOW_EVENT_FIN : -1;
	}
	return (flags & 2) && !ack ? WEIR_FLOW_EVENT_SYN : WEIR_FLOW_EVENT_DATA;
}

TEST(parse_tcp_flags_give_events) {
	for (unsigned int flags = 0; flags < 256; flags++) {
		struct frame_spec spec = {
			.family = 6, .protocol = 6, .tcp_flags = (uint8_t)flags, .payload = 4};
		int event = event_of(flags);
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&spec, &f);
		m = frame_mbuf(f.bytes, f.n, 0);
		weir_parse(m, SEED, &d);
		if (event < 0) {
			assert_int_equal(d.kind, WEIR_PACKET_SUSPECT);
			assert_int_equal(d.verdict.reason, WEIR_DROP_TCP_FLAGS);
		} else {
			assert_int_equal(d.kind, WEIR_PACKET_FLOW);
			assert_int_equal(d.event, event);
		}
		frame_mbuf_free(m);
	}
}

TEST(parse_trusts_the_nic_about_ipv4_checksums) {
	static const struct {
		uint64_t flags;
		int kind;
	} rows[] = {
		{RTE_MBUF_F_RX_IP_CKSUM_GOOD, WEIR_PACKET_FLOW},
		{RTE_MBUF_F_RX_IP_CKSUM_UNKNOWN, WEIR_PACKET_BROKEN},
		{RTE_MBUF_F_RX_IP_CKSUM_BAD, WEIR_PACKET_BROKEN},
		{RTE_MBUF_F_RX_IP_CKSUM_NONE, WEIR_PACKET_BROKEN},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weir_descriptor d;
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&valid[i % 2 * 2], &f); // without and with options
		f.bytes[f.l3 + 10] ^= 0xff;
		m = frame_mbuf(f.bytes, f.n, 0);
		m->ol_flags = rows[i].flags;
		weir_parse(m, SEED, &d);
		assert_int_equal(d.kind, rows[i].kind);
		frame_mbuf_free(m);
	}
}

// --- segments -------------------------------------------------------------------------------

// Returns a packet in three mbuf segments, split at offsets a and b. The first segment has `room`
// bytes of tailroom.
static struct rte_mbuf *chain_of(
	const struct frame *f, uint32_t a, uint32_t b, uint32_t room, struct rte_mbuf *parts[3]) {
	parts[0] = frame_mbuf(f->bytes, a, HEADROOM);
	parts[0]->buf_addr = realloc(parts[0]->buf_addr, HEADROOM + a + room);
	parts[0]->buf_len = (uint16_t)(HEADROOM + a + room);
	parts[1] = frame_mbuf(f->bytes + a, b - a, 0);
	parts[2] = frame_mbuf(f->bytes + b, f->n - b, 0);
	parts[0]->next = parts[1];
	parts[1]->next = parts[2];
	parts[0]->nb_segs = 3;
	parts[0]->pkt_len = f->n;
	return parts[0];
}

TEST(parse_segments_split_anywhere_parse_alike) {
	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		struct weir_descriptor whole, pieces;
		struct rte_mbuf *parts[3];
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&valid[i], &f);
		m = frame_mbuf(f.bytes, f.n, HEADROOM);
		weir_parse(m, SEED, &whole);
		frame_mbuf_free(m);
		for (uint32_t a = 0; a < f.n; a++) {
			m = chain_of(&f, a, a + (f.n - a) / 2, f.n - a, parts);
			weir_parse_gather(m);
			weir_parse(m, SEED, &pieces);
			assert_memory_equal(&whole, &pieces, sizeof(whole));
			assert_int_equal(m->pkt_len, f.n);
			assert_int_equal(
				parts[0]->data_len + parts[1]->data_len + parts[2]->data_len, f.n);
			for (unsigned int k = 0; k < 3; k++) {
				frame_mbuf_free(parts[k]);
			}
		}
	}
}

// If the first segment has no room for all headers, the headers count as truncated, and nothing is
// read beyond the segment.
TEST(parse_segments_without_room_are_truncated) {
	for (unsigned int i = 0; i < RTE_DIM(valid); i++) {
		struct weir_descriptor d;
		struct rte_mbuf *parts[3];
		struct rte_mbuf *m;
		struct frame f;

		frame_build(&valid[i], &f);
		for (uint32_t a = 0; a < f.l4 + 8; a++) {
			m = chain_of(&f, a, a + (f.n - a) / 2, 0, parts);
			weir_parse_gather(m);
			weir_parse(m, SEED, &d);
			assert_true(d.kind == WEIR_PACKET_BROKEN || d.kind == WEIR_PACKET_SUSPECT);
			for (unsigned int k = 0; k < 3; k++) {
				frame_mbuf_free(parts[k]);
			}
		}
	}
}
