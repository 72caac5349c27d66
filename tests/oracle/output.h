// SPDX-License-Identifier: BSD-3-Clause
//
// Output: computes the expected sent packets, byte by byte, only from the received frame and the
// plan.
//
// Threads: pure functions.
#pragma once

#include "read.h"

#define OUTPUT_FRAME_MAX 9216
#define OUTPUT_FRAME_MIN 60 // shorter frames are padded
#define OUTPUT_PIECES_MAX 64 // maximum number of fragments of one packet

enum output_kind {
	OUTPUT_ECHO,
	OUTPUT_TOO_BIG,
	OUTPUT_RESET, // an RST
	OUTPUT_CHALLENGE, // a challenge ACK: acknowledges the sequence number of the SYN itself
	OUTPUT_UNREACHABLE, // ICMP port unreachable
};

// A packet to a backend, in one or more fragments.
struct output_path {
	const struct weir_backend_path *path;
	uint64_t hash; // hash of the packet's flow
	uint32_t pieces; // 0 = the packet does not fit, and must not be fragmented
	bool outer; // whether the outer packet is fragmented, or routers can fragment it
	uint32_t outer_max; // size of the fragments of the outer packet
	bool tiny; // fragmentation is allowed, but not even 8 bytes of data fit
	uint32_t room;
};

// Returns the number of bytes in front of the packet, without the Ethernet header.
uint32_t output_outer_bytes(const struct weir_backend_path *path);
// Returns the length of the Ethernet header with its tag.
uint32_t output_l2_bytes(const struct weir_backend_path *path);
// room: bytes behind the packet in its buffer, for padding.
void output_plan(const struct plan *plan, const struct view *view, uint16_t backend, uint64_t hash,
	uint32_t room, struct output_path *ret);
// Write fragment number `piece`. id: identification of a fragmented outer packet. Returns the
// length of the fragment.
uint32_t output_piece(const struct view *view, const struct output_path *output, uint32_t piece,
	uint32_t id, uint8_t *to);
// Offset of the identification of a fragmented outer packet; *ret_bytes: 2 or 4.
uint32_t output_id_at(const struct output_path *output, uint32_t *ret_bytes);

// Write a reply. tag: the tag that the NIC has stripped and the reply must have; 0 = none. mtu:
// used by TOO_BIG. Returns the length of the reply without padding; *ret_end: the end of the reply,
// from the start of the frame.
uint32_t output_reply(const struct frame *frame, const struct view *view, enum output_kind kind,
	uint16_t tag, uint32_t mtu, uint8_t *to, uint32_t *ret_end);
