// SPDX-License-Identifier: BSD-3-Clause
//
// Read: classifies a frame, byte by byte, only according to docs/reference/packet-formats.md and
// the RFCs.
//
// Threads: pure functions.
#pragma once

#include "drop_reasons.h"
#include "plan.h"

#define REASON(name) (1ull << WEIR_DROP_##name)

enum view_kind {
	VIEW_BROKEN, // dropped for any destination
	VIEW_SUSPECT, // dropped if its destination is a VIP
	VIEW_FLOW, // TCP or UDP, whole or a first fragment
	VIEW_LATER, // a fragment other than the first
	VIEW_ECHO,
	VIEW_ERROR, // an ICMP error about a flow; `key` is the key of this flow
	VIEW_OTHER, // a packet for the kernel
};

enum view_event { EVENT_SYN, EVENT_ACK, EVENT_DATA, EVENT_FIN, EVENT_RST, EVENT_DATAGRAM };

// The key of a flow, as in packets from the client. Keys are compared with memcmp.
struct key {
	uint8_t source[16], destination[16]; // IPv4 in the first 4 bytes
	uint8_t ports[4]; // source and destination, as in the packet
	uint8_t family, protocol;
	uint8_t reserved[2];
};

struct frame {
	const uint8_t *bytes;
	uint32_t n;
	uint32_t readable; // number of bytes in the first segment
	bool checked; // the NIC reports that the IPv4 checksum is correct
};

struct view {
	enum view_kind kind;
	// Possible drop reasons of BROKEN and SUSPECT packets, and of invalid fragments
	uint64_t reasons;
	const uint8_t *ip;
	uint32_t l3; // offset of ip in the frame
	uint32_t ip_bytes; // packet length from the IP header
	uint32_t l4; // offset of the transport header from ip
	uint8_t tos;
	struct key key;
	enum view_event event;
	bool may_join; // TCP: if its flow is unknown, the packet starts a flow without a SYN
	bool whole; // the packet is not a fragment
	// Fragment: identification, start and end in units of 8 bytes.
	uint32_t id, from, to;
	uint64_t alone; // the reason to drop a later fragment whose first fragment is unknown
	bool last;
	bool to_vip; // the destination is a MAC address of the balancer and a VIP
	int vip; // index of the VIP, or -1
};

void view_frame(const struct plan *plan, const struct frame *frame, struct view *ret);

// Returns the index of the VIP with this address, or -1.
int plan_vip_of(const struct plan *plan, const uint8_t *address, uint8_t family);
// Returns the service of the narrowest bind that contains the destination of the key, or -1.
int plan_service_of(const struct plan *plan, const struct key *key);
// Returns whether the TCP, UDP or ICMP checksum is correct. frame: as received.
bool view_l4_sum_good(const struct frame *frame, const struct view *view);
// Returns the hash of a flow, as described in hash.h.
uint64_t key_hash(const struct key *key);
