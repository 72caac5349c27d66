// SPDX-License-Identifier: BSD-3-Clause
//
// Forwarding modes: a mode determines the headers that the dataplane puts in front of a client's
// packet to a backend (segment/forwarding.h). This file lists the modes.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The list of forwarding modes. X(NAME, suffix of the mode's C names, "name", "description")
#define WEIR_FORWARDING_MODES(X) \
	X(IPIP, ipip, "ipip", "IP in IP: an outer IP header (RFC 2003, RFC 2473, RFC 4213)") \
	X(L2, l2, "l2", "the backend's MAC address only; the backend must be on a link of a port") \
	X(GUE, gue, "gue", "generic UDP encapsulation, version 0") \
	X(GRE, gre, "gre", \
		"generic routing encapsulation (RFC 2784), with an optional key (RFC 2890)")

enum weir_forwarding_mode {
#define X(name, member, key, text) WEIR_FORWARDING_##name,
	WEIR_FORWARDING_MODES(X)
#undef X
		WEIR_FORWARDING_COUNT
};

#define WEIR_GUE_PORT 6080 // default destination port (IANA: gue)

// How packets are forwarded to a backend. A field that the mode does not use has its default, so
// that weir_forwarding_equal finds a difference only if packets differ.
struct weir_forwarding {
	uint8_t mode; // enum weir_forwarding_mode
	uint16_t gue_port; // destination port, host order; default WEIR_GUE_PORT
	uint32_t gre_key; // 0 = none, the default
};

static inline bool weir_forwarding_equal(
	const struct weir_forwarding *a, const struct weir_forwarding *b) {
	return a->mode == b->mode && a->gue_port == b->gue_port && a->gre_key == b->gre_key;
}

static inline const char *weir_forwarding_name(enum weir_forwarding_mode mode) {
	static const char *const names[] = {
#define X(name, member, key, text) key,
		WEIR_FORWARDING_MODES(X)
#undef X
	};

	return mode < WEIR_FORWARDING_COUNT ? names[mode] : "unknown";
}
