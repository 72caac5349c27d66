// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"
#include "traffic.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define FLOWS 100000u
#define OUTER 20u
#define IP_AT 14u
#define STAMP 0x0000123456789abcull

static const struct rig_traffic_params tcp = {.protocol = IPPROTO_TCP,
	.frame_bytes = RIG_FRAME_MIN,
	.flows = FLOWS,
	.vip = 0xc633640a,
	.port = 80};

static struct rig_traffic make(uint8_t protocol, uint16_t bytes) {
	struct rig_traffic_params params = tcp;
	struct rig_traffic traffic;

	params.protocol = protocol;
	params.frame_bytes = bytes;
	assert_int_equal(rig_traffic_init(&params, &traffic), 0);
	return traffic;
}

static void write_one(const struct rig_traffic *traffic, uint32_t flow, uint8_t *frame) {
	rig_traffic_fill(traffic, frame);
	rig_traffic_write(traffic, flow, RIG_DATA, STAMP, frame);
}

// Encapsulate like a balancer: insert an outer IPv4 header with destination 10.0.0.11.
static void encapsulate(const uint8_t *frame, uint16_t bytes, uint8_t *ret) {
	uint8_t *ip = ret + IP_AT;
	uint32_t sum = 0;
	uint16_t total = (uint16_t)(bytes - IP_AT + OUTER);

	memcpy(ret, frame, IP_AT);
	memset(ip, 0, OUTER);
	ip[0] = 0x45;
	ip[2] = (uint8_t)(total >> 8);
	ip[3] = (uint8_t)total;
	ip[8] = 64;
	ip[9] = IPPROTO_IPIP;
	memcpy(ip + 12, "\x0a\x00\x00\x02\x0a\x00\x00\x0b", 8);
	for (unsigned int i = 0; i < OUTER; i += 2) {
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	}
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
	memcpy(ip + OUTER, frame + IP_AT, bytes - IP_AT);
}

TEST(invalid_parameters_are_refused) {
	struct rig_traffic_params params = tcp;
	struct rig_traffic traffic;

	params.protocol = IPPROTO_ICMP;
	assert_int_equal(rig_traffic_init(&params, &traffic), -EINVAL);
	params = tcp;
	params.frame_bytes = RIG_FRAME_MIN - 1;
	assert_int_equal(rig_traffic_init(&params, &traffic), -EINVAL);
	params.frame_bytes = RIG_FRAME_MAX + 1;
	assert_int_equal(rig_traffic_init(&params, &traffic), -EINVAL);
	params = tcp;
	params.flows = 0;
	assert_int_equal(rig_traffic_init(&params, &traffic), -EINVAL);
}

static int compare(const void *left, const void *right) {
	const uint64_t *a = left;
	const uint64_t *b = right;

	return (*a > *b) - (*a < *b);
}

TEST(t1_no_two_flows_share_a_source) {
	uint64_t *source = calloc(FLOWS, sizeof(*source));

	assert_non_null(source);
	for (uint32_t flow = 0; flow < FLOWS; flow++) {
		uint32_t address;
		uint16_t port;

		rig_traffic_source(flow, &address, &port);
		assert_int_equal(address >> 17, 0xc6120000u >> 17);
		assert_true(port >= 1024);
		source[flow] = (uint64_t)address << 16 | port;
	}
	qsort(source, FLOWS, sizeof(*source), compare);
	for (uint32_t flow = 1; flow < FLOWS; flow++) {
		assert_true(source[flow] != source[flow - 1]);
	}
	free(source);
}

TEST(t2_checksums_are_correct) {
	const uint16_t sizes[] = {RIG_FRAME_MIN, 61, 252, RIG_FRAME_MAX};
	const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	uint8_t frame[RIG_FRAME_MAX];
	struct rig_seen seen;

	for (unsigned int i = 0; i < 8; i++) {
		struct rig_traffic traffic = make(protocols[i & 1], sizes[i >> 1]);

		for (uint32_t flow = 0; flow < 1000; flow++) {
			rig_traffic_set_trial(&traffic, flow * 7919);
			write_one(&traffic, flow, frame);
			assert_int_equal(
				rig_traffic_read(&traffic, false, frame, sizes[i >> 1], &seen),
				RIG_OURS);
			assert_int_equal(seen.flow, flow);
			assert_true(rig_traffic_intact(&traffic, false, frame, &seen));
			frame[sizes[i >> 1] - 1] ^= 1;
			assert_false(rig_traffic_intact(&traffic, false, frame, &seen));
		}
	}
}

TEST(syn_and_data_differ_in_their_flags) {
	struct rig_traffic traffic = make(IPPROTO_TCP, RIG_FRAME_MIN);
	uint8_t frame[RIG_FRAME_MAX];
	struct rig_seen seen = {0};

	rig_traffic_fill(&traffic, frame);
	rig_traffic_write(&traffic, 0, RIG_SYN, STAMP, frame);
	assert_int_equal(frame[IP_AT + 20 + 13], 0x02);
	assert_true(rig_traffic_intact(&traffic, false, frame, &seen));
	rig_traffic_write(&traffic, 0, RIG_DATA, STAMP, frame);
	assert_int_equal(frame[IP_AT + 20 + 13], 0x18);
	assert_true(rig_traffic_intact(&traffic, false, frame, &seen));
}

TEST(encapsulated_packet_contains_flow_stamp_and_backend) {
	uint8_t frame[RIG_FRAME_MAX], back[RIG_FRAME_MAX + OUTER];
	const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	struct rig_seen seen;

	for (unsigned int i = 0; i < 2; i++) {
		struct rig_traffic traffic = make(protocols[i], 252);

		write_one(&traffic, 4711, frame);
		encapsulate(frame, 252, back);
		assert_int_equal(
			rig_traffic_read(&traffic, true, back, 252 + OUTER, &seen), RIG_OURS);
		assert_int_equal(seen.flow, 4711);
		assert_true(seen.stamp == STAMP);
		assert_int_equal(seen.backend, 0x0a00000b);
		assert_true(rig_traffic_intact(&traffic, true, back, &seen));
		back[IP_AT + 8]--; // change the TTL of the outer header
		assert_false(rig_traffic_intact(&traffic, true, back, &seen));
	}
}

TEST(t3_other_packets_are_rejected) {
	struct rig_traffic traffic = make(IPPROTO_TCP, RIG_FRAME_MIN);
	uint8_t frame[RIG_FRAME_MAX], back[RIG_FRAME_MAX + OUTER];
	struct rig_seen seen;

	rig_traffic_set_trial(&traffic, 1);
	write_one(&traffic, 1, frame);
	encapsulate(frame, RIG_FRAME_MIN, back);
	// Not accepted: frames that are not encapsulated, or have another length, another VIP, or
	// an unknown flow.
	assert_int_equal(
		rig_traffic_read(&traffic, true, frame, RIG_FRAME_MIN, &seen), RIG_UNEXPECTED);
	assert_int_equal(rig_traffic_read(&traffic, true, back, RIG_FRAME_MIN + OUTER + 1, &seen),
		RIG_UNEXPECTED);
	back[IP_AT + OUTER + 19] ^= 1;
	assert_int_equal(rig_traffic_read(&traffic, true, back, RIG_FRAME_MIN + OUTER, &seen),
		RIG_UNEXPECTED);
	write_one(&traffic, FLOWS, frame);
	encapsulate(frame, RIG_FRAME_MIN, back);
	assert_int_equal(rig_traffic_read(&traffic, true, back, RIG_FRAME_MIN + OUTER, &seen),
		RIG_UNEXPECTED);
	// A packet of the previous trial is a straggler.
	write_one(&traffic, 1, frame);
	encapsulate(frame, RIG_FRAME_MIN, back);
	rig_traffic_set_trial(&traffic, 2);
	assert_int_equal(rig_traffic_read(&traffic, true, back, RIG_FRAME_MIN + OUTER, &seen),
		RIG_STRAGGLER);
}
