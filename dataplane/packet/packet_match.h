// SPDX-License-Identifier: BSD-3-Clause
//
// Packet match: compares a packet's bytes with the terms of a capture, and addresses with prefixes.
// Also reads packets that the parser refuses, as far as they are valid.
//
// Threads: pure functions.
#pragma once

#include "capture.h"
#include "flow.h"

// Protocol, addresses and ports of a frame, of which `bytes` may be read. family 0: neither IPv4
// nor IPv6, or cut off inside the IP header. protocol 0: cut off before the protocol field. ports
// 0: neither TCP nor UDP, a later fragment, or cut off.
void weir_packet_key_read(const uint8_t *frame, uint32_t bytes, struct weir_flow_key *ret);
// Whether an address is in a prefix.
bool weir_address_has_prefix(const uint8_t *address, const uint8_t *prefix, unsigned int bits);
bool weir_packet_matches(const struct weir_capture_terms *terms, const struct weir_flow_key *key);
