// SPDX-License-Identifier: BSD-3-Clause
//
// Descriptor: everything that the stages of the pipeline need to know about one packet, in one
// cache line. Filled by parse, completed by pipeline.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "flow_table.h"
#include "pipeline.h"

// What a packet is, as far as it can be told without any table.
enum weir_packet_kind {
	WEIR_PACKET_FLOW, // TCP or UDP, valid: key, hash and event are set
	WEIR_PACKET_ECHO, // ICMP or ICMPv6 echo request
	WEIR_PACKET_ICMP_ERROR, // ICMP or ICMPv6 error message
	WEIR_PACKET_OTHER, // nothing that a service could own: for the kernel
	WEIR_PACKET_SUSPECT, // verdict.reason holds, but only if the destination is a VIP
	WEIR_PACKET_BROKEN, // verdict.reason holds, whatever the destination
};

// IP addresses in the key are set for all kinds but OTHER and BROKEN.
struct weir_descriptor {
	struct weir_flow_key key; // as in the packet; of an ICMP error's flow once that is known
	uint8_t kind; // enum weir_packet_kind
	uint8_t tos; // DSCP and ECN
	uint64_t hash; // of the key
	uint32_t ip_bytes; // of the IP packet, padding of the frame excluded
	uint8_t l3_offset; // of the IP header in the frame
	uint8_t event; // enum weir_flow_event
	uint16_t l4_offset; // of the TCP, UDP or ICMP header, from the IP header
	struct weir_verdict verdict;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_descriptor) == 64, "one cache line per packet");

// Forward to a backend, as far as is known: its row has the rest.
static inline void weir_descriptor_decide(
	struct weir_descriptor *d, enum weir_choice choice, uint16_t backend) {
	d->verdict = (struct weir_verdict){.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = (uint8_t)choice,
		.backend = backend,
		.service = WEIR_SERVICE_NONE};
}
