// SPDX-License-Identifier: BSD-3-Clause
//
// Reset: the RST for each kind of TCP segment, also for segments that the pipeline never answers,
// and the handling of packet buffers. tests/packets compares whole RST packets with the RFCs.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ip.h>

#include "frames.h"
#include "parse.h"
#include "pipeline_lab.h"
#include "reset.h"
#include "test.h"

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10

struct segment {
	uint8_t flags;
	uint16_t payload;
	uint32_t seq, ack;
};

// Returns a frame with the segment. ret: its descriptor, as on the slow path.
static struct rte_mbuf *make(uint8_t family, const struct segment *segment, uint16_t headroom,
	struct weir_descriptor *ret) {
	struct frame_spec spec = {.family = family,
		.protocol = 6,
		.tcp_flags = ACK,
		.source_port = 1025,
		.payload = segment->payload,
		.padding = 4};
	struct rte_mbuf *m;
	struct frame f;
	uint8_t *tcp;

	frame_build(&spec, &f);
	tcp = f.bytes + f.l3 + (family == 4 ? 20 : 40);
	tcp[13] = segment->flags;
	weir_store32(tcp + 4, rte_cpu_to_be_32(segment->seq));
	weir_store32(tcp + 8, rte_cpu_to_be_32(segment->ack));
	weir_store16(tcp + 16, 0);
	weir_store16(
		tcp + 16, family == 4 ? rte_ipv4_udptcp_cksum((const void *)(f.bytes + f.l3), tcp)
				      : rte_ipv6_udptcp_cksum((const void *)(f.bytes + f.l3), tcp));
	m = frame_mbuf(f.bytes, f.n, headroom);
	weir_parse_slow(m, 0, ret);
	return m;
}

TEST_GROUP(lab_eal);

// RFC 5961, 4.2; RFC 9293, 3.10.7.3: a challenge ACK acknowledges the sequence number of the SYN,
// not the number after it. If the client did send the SYN, it answers the ACK with an RST that has
// this sequence number.
TEST(reset_challenge_acknowledges_nothing) {
	for (unsigned int ipv6 = 0; ipv6 < 2; ipv6++) {
		const struct segment syn = {SYN, 30, 100, 7};
		const uint32_t header_bytes = ipv6 ? 40 : 20;
		struct weir_descriptor d;
		struct rte_mbuf *m = make(ipv6 ? 6 : 4, &syn, 128, &d);
		const uint8_t *tcp;

		assert_int_equal(weir_reset_challenge(m, &d), 0);
		assert_in_range(m->pkt_len, d.l3_offset + header_bytes + 20, 60 + 20 * ipv6);
		tcp = rte_pktmbuf_mtod_offset(m, const uint8_t *, d.l3_offset + header_bytes);
		assert_int_equal(tcp[13], ACK);
		assert_int_equal(weir_load32(tcp + 4), 0);
		assert_int_equal(rte_be_to_cpu_32(weir_load32(tcp + 8)), 100);
		frame_mbuf_free(m);
	}
}

// RFC 9293, 3.10.7.1: <SEQ=SEG.ACK><CTL=RST>, or <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
TEST(reset_numbers_follow_the_segment) {
	static const struct {
		struct segment segment;
		uint8_t flags;
		uint32_t seq, ack;
	} cases[] = {
		{{SYN, 0, 100, 0}, RST | ACK, 0, 101},
		{{SYN, 30, 100, 0}, RST | ACK, 0, 131}, // a SYN with data (TCP Fast Open)
		{{SYN, 0, UINT32_MAX, 7}, RST | ACK, 0, 0},
		{{FIN, 0, 5, 7}, RST | ACK, 0, 6},
		{{PSH, 9, 5, 7}, RST | ACK, 0, 14},
		{{0, 0, 5, 7}, RST | ACK, 0, 5},
		{{SYN | FIN, 2, 5, 7}, RST | ACK, 0, 9},
		{{ACK, 0, 5, 7}, RST, 7, 0},
		{{SYN | ACK, 0, 5, 7}, RST, 7, 0},
		{{FIN | ACK | PSH, 9, 5, UINT32_MAX}, RST, UINT32_MAX, 0},
	};

	for (size_t i = 0; i < 2 * RTE_DIM(cases); i++) {
		const bool ipv4 = i % 2 == 0;
		const uint32_t header_bytes = ipv4 ? 20 : 40;
		struct weir_descriptor d;
		struct rte_mbuf *m = make(ipv4 ? 4 : 6, &cases[i / 2].segment, 0, &d);
		const uint8_t *tcp;

		// The parser stops at invalid flags, so the test sets these fields.
		d.key.family = ipv4 ? 4 : 6;
		d.l3_offset = 14;
		d.l4_offset = (uint16_t)header_bytes;
		d.ip_bytes = header_bytes + 20 + cases[i / 2].segment.payload;
		assert_int_equal(weir_reset(m, &d), 0);
		tcp = rte_pktmbuf_mtod_offset(m, const uint8_t *, 14 + header_bytes);
		// including padding
		assert_true(m->pkt_len == 14 + header_bytes + 20 || m->pkt_len == 60);
		assert_int_equal(m->data_len, m->pkt_len);
		assert_int_equal(tcp[13], cases[i / 2].flags);
		assert_int_equal(frame_get32(tcp + 4), cases[i / 2].seq);
		assert_int_equal(frame_get32(tcp + 8), cases[i / 2].ack);
		frame_mbuf_free(m);
	}
}

// A packet with a wrong checksum gets no RST, because every host would discard the packet.
TEST(reset_of_a_wrong_checksum_is_refused) {
	const struct segment segment = {.flags = ACK, .payload = 7};

	for (unsigned int family = 4; family <= 6; family += 2) {
		struct weir_descriptor d;
		struct rte_mbuf *m = make((uint8_t)family, &segment, 64, &d);
		uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
		uint8_t before[64];

		frame[m->pkt_len - 5] ^= 0x10; // change a byte of the data
		memcpy(before, frame, sizeof(before));
		assert_int_equal(weir_reset(m, &d), -EBADMSG);
		assert_memory_equal(before, rte_pktmbuf_mtod(m, uint8_t *), sizeof(before));
		frame_mbuf_free(m);
	}
}

// The reply has the VLAN tag that the NIC stripped. Without headroom for the tag, no reply is sent.
TEST(reset_restores_a_stripped_tag) {
	const struct segment segment = {.flags = ACK, .ack = 7};

	for (uint16_t headroom = 0; headroom < 8; headroom++) {
		struct weir_descriptor d;
		struct rte_mbuf *m = make(6, &segment, headroom, &d);
		const uint8_t *frame;

		m->ol_flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
		m->vlan_tci = 0x6009;
		if (headroom < 4) {
			assert_int_equal(weir_reset(m, &d), -ENOBUFS);
		} else {
			assert_int_equal(weir_reset(m, &d), 0);
			frame = rte_pktmbuf_mtod(m, const uint8_t *);
			assert_int_equal(frame_get32(frame + 12), 0x81006009);
			assert_int_equal(m->pkt_len, 18 + 60);
		}
		frame_mbuf_free(m);
	}
}
