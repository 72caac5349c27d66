// SPDX-License-Identifier: BSD-3-Clause
//
// Traffic: generates frames from a seed, as clients, routers and attackers send them. It makes
// valid frames of a limited number of flows, so that each flow has several packets, and mutated
// frames.
//
// Threads: one.
#pragma once

#include "plan.h"
#include "rig.h"

#define TRAFFIC_FRAME_MAX 4608
#define RECENT_MAX 256
#define DATAGRAMS_SENT 24

struct tuple { // a client and a VIP
	uint8_t family, protocol;
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port;
};

struct sent_datagram { // datagram that is being sent in fragments
	struct tuple tuple;
	uint32_t id;
	uint16_t units; // length in units of 8 bytes
	uint16_t piece; // size of a fragment in units
	uint16_t next; // next unit to send
	uint8_t chain[2]; // IPv6: extension headers at the start of the fragmentable part
	uint8_t chained; // number of extension headers
};

struct traffic {
	struct random random;
	const struct plan *plan;
	struct tuple recent[RECENT_MAX];
	uint32_t recent_count;
	struct sent_datagram sent[DATAGRAMS_SENT];
	uint32_t mutated_percent;
};

void traffic_start(struct traffic *traffic, const struct plan *plan, uint64_t seed);
// Write a frame of at most TRAFFIC_FRAME_MAX bytes; *ret: how the frame is received. Returns the
// length of the frame.
uint32_t traffic_frame(struct traffic *traffic, uint8_t *frame, struct reception *ret);
