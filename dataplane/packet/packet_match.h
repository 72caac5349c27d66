// SPDX-License-Identifier: BSD-3-Clause
//
// Packet match: compares a packet's bytes with the terms of a capture, and addresses with prefixes.
// Unlike the parser, this module also reads invalid packets, as far as their headers can be read.
//
// Threads: pure functions.
#pragma once

#include "capture.h"
#include "flow.h"

// Read the protocol, the addresses and the ports of a frame. bytes: number of bytes that may be
// read. The family is 0 if the frame is not IPv4 or IPv6, or is truncated in the IP header. The
// protocol is 0 if the frame is truncated before the protocol field or has invalid IPv6 extension
// headers. The ports are 0 if the packet is not TCP or UDP, is a fragment other than the first, or
// is truncated.
void weir_packet_key_read(const uint8_t *frame, uint32_t bytes, struct weir_flow_key *ret);
// Returns whether an address is in a prefix. bits: at most the length of the address.
bool weir_address_has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned int bits);
bool weir_packet_matches(const struct weir_capture_terms *terms, const struct weir_flow_key *key);
