// SPDX-License-Identifier: BSD-3-Clause
//
// Descriptor: the data of one packet for the stages of the pipeline. The parser fills the
// descriptor, and the pipeline completes it.
//
//   summary     the data of the fast path; most packets have only a summary
//   descriptor  all data; for the first packet of a flow, and for packets of the slow path
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "flow.h"
#include "layout.h"
#include "verdict.h"

#define WEIR_OUTER_TTL 64 // TTL of the outer header

// A packet of the fast path: a valid TCP or UDP packet, in IPv4 without options or IPv6 without
// extension headers. The packet is in one segment, and has headroom for any outer header. Addresses
// are read from the packet.
struct weir_summary {
	const uint8_t *ip; // IP header in the packet
	uint64_t hash; // hash of the flow's key
	void *bucket; // bucket of the flow table in which the flow is looked up
	uint32_t ip_bytes; // length of the IP packet, without padding of the frame
	uint8_t family; // 4 or 6; 0 = no summary: the packet has a descriptor
	uint8_t protocol;
	uint16_t ttl_protocol; // word of an outer IPv4 header: TTL, and protocol 4 or 41
	uint16_t first; // first word of an outer IPv4 header: 0x45, and DSCP and ECN
	uint8_t event; // enum weir_flow_event
	uint8_t reserved;
	uint16_t backend; // backend to forward to, or WEIR_BACKEND_NONE; set by the lookup
};
_Static_assert(sizeof(struct weir_summary) == 40,
	"a summary must be small, so that the summaries of a burst occupy few cache lines");

// IP addresses in the key are set for all kinds except OTHER and BROKEN. They are 0 for kind
// SUSPECT if a broadcast or multicast frame has no IP packet.
struct weir_descriptor {
	struct weir_flow_key key; // key of the packet; for an ICMP error, later its flow's key
	uint8_t kind; // enum weir_packet_kind
	uint8_t tos; // DSCP and ECN
	uint64_t hash; // hash of the key
	uint32_t ip_bytes; // length of the IP packet, without padding of the frame
	uint8_t l3_offset; // offset of the IP header in the frame
	uint8_t event; // enum weir_flow_event
	uint16_t l4_offset; // offset of the TCP, UDP or ICMP header from the IP header
	struct weir_verdict verdict;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_descriptor) == 64, "a descriptor must occupy one cache line");

// Forward to the backend of a known flow. The rewrite stage sets the port and the service, from the
// backend's row.
static inline void weir_descriptor_decide(struct weir_descriptor *d, uint16_t backend) {
	d->verdict = (struct weir_verdict){.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_FLOW,
		.backend = backend,
		.service = WEIR_SERVICE_NONE};
}

// Set the initial verdict of a packet. Costs one load and one store.
static inline void weir_descriptor_undecided(struct weir_descriptor *d) {
	static const struct weir_verdict undecided = {.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.service = WEIR_SERVICE_NONE};

	d->verdict = undecided;
}
