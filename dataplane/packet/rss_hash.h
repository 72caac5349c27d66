// SPDX-License-Identifier: BSD-3-Clause
//
// RSS hash: the Toeplitz hash of the addresses and ports of a TCP or UDP packet, from which a
// device chooses the receive queue. The part of a flow is also computed from this hash.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#include "flow.h"

#define WEIR_RSS_KEY_BYTES 40 // bytes in use; devices may have longer keys

struct weir_rss_key {
	uint8_t bytes[WEIR_RSS_KEY_BYTES] __attribute__((aligned(8)));
};

// Compute the hash in software, for a packet without a hash from the device. Costs a few hundred
// instructions.
uint32_t weir_rss_hash(const struct weir_rss_key *rss, const struct weir_flow_key *key);

// Returns the part of a flow. Devices use the low bits of the hash as an index into their RETA,
// whose size is a power of two. If the RETA has at most WEIR_FLOW_PARTS entries, all flows of a
// part use the same entry.
static inline uint32_t weir_rss_part(uint32_t hash) {
	return hash & (WEIR_FLOW_PARTS - 1);
}
