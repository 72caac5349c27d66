/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Decap: definitions for decap.bpf.c and user space.
//
// User space fills weir_decap_addresses with the outer destination addresses of this host. Before
// it loads the program, user space sets the constants: the forwarding modes to decapsulate, the
// port of GUE, the key of GRE, and whether the program checks outer source addresses. If the
// program checks source addresses, user space also fills weir_decap_sources with the allowed
// prefixes.
#pragma once

#include <linux/types.h>

#define WEIR_DECAP_ADDRESSES_MAX 1024
#define WEIR_DECAP_SOURCES_MAX 1024

struct weir_decap_address {
	__u8 address[16]; // IPv4 in the first 4 bytes, remaining bytes 0
	__u8 family; // 4 or 6
	__u8 reserved[3];
};
_Static_assert(sizeof(struct weir_decap_address) == 20,
	"the key of weir_decap_addresses must not have padding");

// Key of an LPM trie (longest prefix match). The family is the first 8 bits of the prefix.
struct weir_decap_prefix {
	__u32 bits; // 8 + length of the prefix
	__u8 family; // 4 or 6
	__u8 address[16];
	__u8 reserved[3];
};

struct weir_decap_refused { // per CPU: the packet last counted as WEIR_DECAP_SOURCE
	__u64 time_ns; // CLOCK_MONOTONIC; 0 = none
	struct weir_decap_address source; // outer source address
	__u8 reserved[4];
};

// Results of decapsulating packets to addresses of this host. X(NAME, "name", "meaning")
// clang-format off
#define WEIR_DECAP_RESULTS(X)                                                                      \
	X(DECAPSULATED, "decapsulated", "outer headers removed, passed to the kernel")             \
	X(GUE, "gue", "decapsulated packets that came in GUE")                                     \
	X(GRE, "gre", "decapsulated packets that came in GRE")                                     \
	X(MARKED, "congestion_marked", "decapsulated packets whose congestion mark (CE) was copied to the inner header") \
	X(SOURCE, "source_refused", "dropped: outer source not allowed by --from")                 \
	X(FRAGMENT, "outer_fragment", "dropped: outer packet was a fragment; raise the MTU of the path from the balancers") \
	X(CHECKSUM, "outer_checksum", "dropped: wrong outer IPv4 header checksum")                 \
	X(OUTER, "outer_malformed", "dropped: invalid outer header or length")                     \
	X(UDP_CHECKSUM, "udp_checksum", "dropped: GUE packet with an outer UDP checksum; the balancers send 0") \
	X(GUE_HEADER, "gue_unsupported", "dropped: GUE header of another version, with optional fields, or without an IP packet") \
	X(GRE_KEY, "other_gre_key", "passed to the kernel: GRE packet without the key of --gre-key") \
	X(INNER, "inner_malformed", "dropped: inner packet truncated or of the wrong IP version")  \
	X(ECN, "ecn_not_capable", "dropped: outer CE mark, inner packet without ECN (RFC 6040)")   \
	X(FAILED, "failed", "dropped: the kernel could not remove the outer headers")
// clang-format on

enum weir_decap_result {
#define X(name, key, text) WEIR_DECAP_##name,
	WEIR_DECAP_RESULTS(X)
#undef X
		WEIR_DECAP_RESULT_COUNT
};

struct weir_decap_counter { // per CPU, indexed by enum weir_decap_result
	__u64 packets;
	__u64 bytes; // bytes of outer IP packets; if not decapsulated, may include padding
};
