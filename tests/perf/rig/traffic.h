// SPDX-License-Identifier: BSD-3-Clause
//
// Writes and reads the rig's packets: many flows to one VIP. Each packet contains a timestamp and
// the number of its flow. Both come back inside the encapsulated packet. engine.c calls these
// functions for each packet.
//
// Threads: any, but rig_traffic_set_trial must not run at the same time as the other functions.
// Guarantees: T1 no two flows share a source address and port. T2 every packet has correct IPv4,
// TCP and UDP checksums. T3 a frame that rig_traffic_read accepts was written by rig_traffic_write
// for the same trial.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RIG_FRAME_MIN 60u // bytes in memory, without the FCS
#define RIG_FRAME_MAX 1514u

enum rig_kind {
	RIG_SYN, // a TCP SYN; with UDP, an ordinary datagram
	RIG_DATA, // ACK and data
};

struct rig_traffic_params {
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint16_t frame_bytes;
	uint32_t flows;
	uint32_t vip; // host order
	uint16_t port; // port of the VIP
	uint8_t source_mac[6];
	uint8_t destination_mac[6];
};

struct rig_traffic {
	struct rig_traffic_params params;
	uint32_t trial; // trial number in each packet; packets of another trial are stragglers
	uint32_t ip_sum; // checksum (not folded) of the constant part of packets
	uint32_t l4_sum;
	uint16_t stamp_at; // offsets in the frame
	uint16_t trial_at;
	uint16_t flow_at;
	uint16_t checksum_at;
	uint8_t frame[RIG_FRAME_MAX];
};

// The data in a received frame.
struct rig_seen {
	uint64_t stamp;
	uint32_t flow;
	uint32_t backend; // destination of the outer header, host order; 0: not encapsulated
};

enum rig_verdict {
	RIG_OURS,
	RIG_STRAGGLER, // a packet of another trial
	RIG_UNEXPECTED, // any other packet
};

// Returns 0, or -EINVAL if the protocol or the frame size is invalid or there are no flows.
int rig_traffic_init(const struct rig_traffic_params *params, struct rig_traffic *ret);
void rig_traffic_set_trial(struct rig_traffic *traffic, uint32_t trial);

// Source of a flow, host order: an address of 198.18.0.0/15 (RFC 2544) and a port from 1024.
void rig_traffic_source(uint32_t flow, uint32_t *ret_address, uint16_t *ret_port);

// Write the whole frame. Call once per buffer; after that, rig_traffic_write changes only the
// fields that vary.
void rig_traffic_fill(const struct rig_traffic *traffic, uint8_t *frame);
void rig_traffic_write(const struct rig_traffic *traffic, uint32_t flow, enum rig_kind kind,
	uint64_t stamp, uint8_t *frame);

// encapsulated: true: expect IPv4 in IPv4; false: expect the frame as it was sent.
enum rig_verdict rig_traffic_read(const struct rig_traffic *traffic, bool encapsulated,
	const uint8_t *frame, uint32_t bytes, struct rig_seen *ret);

// Returns whether all checksums of a frame accepted by rig_traffic_read are correct, and whether
// its addresses are those of the flow. Slow.
bool rig_traffic_intact(const struct rig_traffic *traffic, bool encapsulated, const uint8_t *frame,
	const struct rig_seen *seen);
