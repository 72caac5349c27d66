// SPDX-License-Identifier: BSD-3-Clause
//
// Forwarding: the headers of each forwarding mode (forwarding_mode.h). The functions of each mode
// are in the file forward_NAME.c. They build the headers between the outer IP header and the
// packet, and mark the fields that depend on the packet. Workers read only the resulting backend
// rows (backend_row.h), so the dataplane has no code for any particular mode.
//
// Threads: any; constant data, no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forwarding_mode.h"
#include "layout.h"

struct weir_forwarding_headers {
	bool outer; // has an outer IP header
	// protocol of the outer IP header; 0 = 4 or 41, depending on the inner packet
	uint8_t protocol;
	// Returns the number of bytes between the outer IP header and the packet.
	uint32_t (*tail_bytes)(const struct weir_forwarding *forwarding);
	// Writes the bytes between the outer IP header and the packet, and the fields inner_at,
	// inner4, inner6 and udp_at of the row. at: the end of the outer IP header; without an
	// outer IP header, the end of the Ethernet header.
	void (*build)(const struct weir_forwarding *forwarding, struct weir_backend_row *row,
		uint8_t *at);
	// Reads the setting of the mode (GUE port or GRE key) from the bytes between the outer IP
	// header and the packet. at: these bytes, which may be invalid; bytes: their number. This
	// pointer is NULL if the mode has no setting.
	void (*read)(const uint8_t *at, size_t bytes, struct weir_forwarding *ret);
	// Finds the inner packet in a packet whose outer IP header has the protocol `protocol`. at:
	// the payload of the outer IP header, `bytes` bytes long. Returns the number of bytes
	// between `at` and the inner packet, and sets *ret_protocol to IPPROTO_IPIP or
	// IPPROTO_IPV6. Returns -1 if this mode does not build such a packet. This pointer is NULL
	// in modes whose field `protocol` is 0.
	int (*find)(const uint8_t *at, size_t bytes, uint8_t *ret_protocol);
};

// The modes, indexed by enum weir_forwarding_mode.
extern const struct weir_forwarding_headers *const weir_forwarding_headers[WEIR_FORWARDING_COUNT];

// Returns the number of bytes that are put in front of an IP packet, without the Ethernet header.
// family: family of the backend's address, 4 or 6.
uint32_t weir_forwarding_overhead(const struct weir_forwarding *forwarding, unsigned int family);

// Returns whether packets of a mode have this protocol in their outer IP header.
bool weir_forwarding_has_protocol(enum weir_forwarding_mode mode, uint8_t protocol);

// Finds the inner packet in a forwarded packet of any mode, for example in a packet that an ICMP
// error quotes. protocol: protocol of the outer IP header. at: the payload of the outer IP header,
// `bytes` bytes long. *ret: the forwarding mode and its setting. *ret_protocol: IPPROTO_IPIP or
// IPPROTO_IPV6, the family of the inner packet. Returns the number of bytes between `at` and the
// inner packet, or -1 if no mode builds such a packet.
int weir_forwarding_find(uint8_t protocol, const uint8_t *at, size_t bytes,
	struct weir_forwarding *ret, uint8_t *ret_protocol);

// Reads the forwarding mode and its setting from a row, which another process may have written.
// Returns false if the row is invalid: weir_backend_row_build never builds such a row.
bool weir_forwarding_read(const struct weir_backend_row *row, struct weir_forwarding *ret);
