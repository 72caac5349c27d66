// SPDX-License-Identifier: BSD-3-Clause
//
// Forwarding: the headers of each forwarding mode (forwarding_mode.h). Each mode has a file
// forward_NAME.c, which builds the headers between the outer IP header and the packet, and marks
// the fields that depend on the packet. Workers read only the resulting backend rows
// (backend_row.h), so the dataplane has no code for a single mode.
//
// Threads: constant data and pure functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forwarding_mode.h"
#include "layout.h"

struct weir_forwarding_headers {
	bool outer; // has an outer IP header
	uint8_t protocol; // of the outer IP header; 0 = the protocol number of the inner packet's
			  // family
	// Returns the number of bytes between the outer IP header and the packet.
	uint32_t (*tail_bytes)(const struct weir_forwarding *forwarding);
	// Writes these bytes, and the fields inner_at, inner4, inner6 and udp_at of the row. at:
	// first of the bytes; without an outer header, the end of the Ethernet header.
	void (*build)(const struct weir_forwarding *forwarding, struct weir_backend_row *row,
		uint8_t *at);
	// Reads the port or the key from these bytes, `bytes` of them, which may be invalid. NULL:
	// the mode has neither.
	void (*read)(const uint8_t *at, size_t bytes, struct weir_forwarding *ret);
	// Finds the packet in a packet with the outer protocol `protocol`. at: behind the outer IP
	// header, `bytes` bytes. Returns the number of bytes before the packet, and sets
	// *ret_protocol to IPPROTO_IPIP or IPPROTO_IPV6; returns -1 if the mode does not build such
	// bytes. NULL if `protocol` is 0.
	int (*find)(const uint8_t *at, size_t bytes, uint8_t *ret_protocol);
};

// The modes, indexed by enum weir_forwarding_mode.
extern const struct weir_forwarding_headers *const weir_forwarding_headers[WEIR_FORWARDING_COUNT];

// Returns the number of bytes that are put in front of an IP packet. family: of the backend's
// address, 4 or 6.
uint32_t weir_forwarding_overhead(const struct weir_forwarding *forwarding, unsigned int family);

// Returns whether packets of a mode have this protocol in their outer IP header.
bool weir_forwarding_has_protocol(enum weir_forwarding_mode mode, uint8_t protocol);

// Finds the packet inside a packet that any mode may have built, for example one quoted in an ICMP
// error. protocol: of its outer IP header. *ret: how the packet was forwarded. Other parameters and
// result as of `find` above.
int weir_forwarding_find(uint8_t protocol, const uint8_t *at, size_t bytes,
	struct weir_forwarding *ret, uint8_t *ret_protocol);

// Reads the forwarding from a row. Returns false if weir_backend_row_build never builds such a row;
// the row may have been written by another process.
bool weir_forwarding_read(const struct weir_backend_row *row, struct weir_forwarding *ret);
