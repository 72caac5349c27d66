// SPDX-License-Identifier: BSD-3-Clause
#include <netinet/in.h>
#include <string.h>

#include <rte_ip.h>

#include "packets.h"
#include "test.h"

static struct weir_bench_tuple tuple_of(uint8_t family, uint64_t number) {
	struct weir_bench_tuples tuples = {3, 2, family};
	struct weir_bench_tuple tuple;

	weir_bench_tuple(&tuples, number, &tuple);
	return tuple;
}

// Checks the checksum. DPDK's functions compute the correct checksum.
static void check_l4(const void *ip, uint8_t family, uint8_t protocol, const uint8_t *l4) {
	uint8_t *field = (uint8_t *)(uintptr_t)l4 + (protocol == IPPROTO_TCP ? 16 : 6);
	uint16_t found, right;

	memcpy(&found, field, 2);
	memset(field, 0, 2);
	right = family == 4 ? rte_ipv4_udptcp_cksum(ip, l4) : rte_ipv6_udptcp_cksum(ip, l4);
	memcpy(field, &found, 2);
	assert_int_equal(found, right);
}

// Checks the lengths and checksums of a frame with DPDK's functions.
static void check_frame(const struct weir_bench_packets *packets, const uint8_t *frame,
	const struct weir_bench_tuple *tuple, uint8_t protocol, uint8_t flags) {
	const uint8_t *ip = frame + packets->l3_offset;
	const uint8_t *l4 = ip + (tuple->family == 4 ? 20 : 40);

	if (tuple->family == 4) {
		const struct rte_ipv4_hdr *header = (const void *)ip;

		assert_int_equal(header->version_ihl, 0x45);
		assert_int_equal(
			ntohs(header->total_length), packets->frame_bytes - packets->l3_offset);
		assert_int_equal(rte_raw_cksum(header, 20), 0xffff);
		assert_memory_equal(&header->src_addr, tuple->source, 4);
		assert_memory_equal(&header->dst_addr, tuple->destination, 4);
		assert_int_equal(header->next_proto_id, protocol);
		check_l4(header, 4, protocol, l4);
	} else {
		const struct rte_ipv6_hdr *header = (const void *)ip;

		assert_int_equal(ip[0] >> 4, 6);
		assert_int_equal(
			ntohs(header->payload_len), packets->frame_bytes - packets->l3_offset - 40);
		assert_memory_equal(&header->src_addr, tuple->source, 16);
		assert_memory_equal(&header->dst_addr, tuple->destination, 16);
		assert_int_equal(header->proto, protocol);
		check_l4(header, 6, protocol, l4);
	}
	assert_int_equal(l4[0] << 8 | l4[1], tuple->source_port);
	assert_int_equal(l4[2] << 8 | l4[3], tuple->destination_port);
	if (protocol == IPPROTO_TCP) {
		assert_int_equal(l4[13], flags);
	}
}

TEST(every_frame_is_valid) {
	static const uint32_t lengths[] = {78, 79, 128, 255, 1500, WEIR_BENCH_FRAME_MAX};
	uint8_t frame[WEIR_BENCH_FRAME_MAX + 1];

	for (unsigned int i = 0; i < 6 * 2 * 2 * 2; i++) {
		uint8_t family = i % 2 ? 4 : 6, protocol = i / 2 % 2 ? IPPROTO_TCP : IPPROTO_UDP;
		struct weir_bench_packets packets;

		weir_bench_packets_init(&packets, family, i / 4 % 2, lengths[i / 8]);
		for (uint64_t number = 0; number < 500; number++) {
			struct weir_bench_tuple tuple = tuple_of(family, number);

			memset(frame, 0xaa, sizeof(frame));
			weir_bench_packet_write(&packets, &tuple, protocol, WEIR_BENCH_SYN,
				(uint32_t)number * 77777, frame);
			check_frame(&packets, frame, &tuple, protocol, WEIR_BENCH_SYN);
			assert_int_equal(frame[lengths[i / 8]], 0xaa);
		}
		if (i / 4 % 2) {
			assert_int_equal(frame[12] << 8 | frame[13], 0x8100);
			assert_int_equal(frame[14] << 8 | frame[15], WEIR_BENCH_VLAN);
		}
	}
}

TEST(shortest_frames) {
	assert_int_equal(weir_bench_frame_min(4, IPPROTO_TCP, false), 60);
	assert_int_equal(weir_bench_frame_min(4, IPPROTO_UDP, true), 60);
	assert_int_equal(weir_bench_frame_min(6, IPPROTO_UDP, false), 62);
	assert_int_equal(weir_bench_frame_min(6, IPPROTO_TCP, false), 74);
	assert_int_equal(weir_bench_frame_min(6, IPPROTO_TCP, true), 78);
}

// The buffer contains the frame of another packet. If the headers of that frame were longer, they
// have overwritten the first bytes of the payload. weir_bench_packet_rewrite must restore them.
TEST(rewrite_equals_write) {
	uint8_t used[WEIR_BENCH_FRAME_MAX], fresh[WEIR_BENCH_FRAME_MAX];

	for (unsigned int i = 0; i < 16; i++) {
		uint8_t family = i % 2 ? 4 : 6, protocol = i / 2 % 2 ? IPPROTO_TCP : IPPROTO_UDP;
		struct weir_bench_tuple tuple = tuple_of(family, 5), other = tuple_of(family, 6);
		uint32_t bytes = i / 8 % 2 ? 700 : 78;
		struct weir_bench_packets packets;

		weir_bench_packets_init(&packets, family, i / 4 % 2, bytes);
		weir_bench_packet_write(&packets, &other, IPPROTO_TCP, 0, 0, used);
		memset(used, 0x55, 60);
		weir_bench_packet_rewrite(&packets, &tuple, protocol, WEIR_BENCH_ACK, 9, used);
		weir_bench_packet_write(&packets, &tuple, protocol, WEIR_BENCH_ACK, 9, fresh);
		assert_memory_equal(used, fresh, bytes);
	}
}

TEST(sum_of_known_bytes) {
	// The example of RFC 1071.
	const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	assert_int_equal(weir_bench_sum(bytes, 8, 0), 0xddf2);
	assert_int_equal(weir_bench_sum(bytes, 7, 0), 0xdcfb);
	assert_int_equal(weir_bench_sum(bytes, 0, 0), 0);
	assert_int_equal(weir_bench_sum(bytes, 8, 0xffff), 0xddf2);
}
