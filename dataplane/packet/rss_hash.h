// SPDX-License-Identifier: BSD-3-Clause
//
// RSS hash: the Toeplitz hash of the addresses and ports of a TCP or UDP packet, by which a device
// chooses its receive queue, and the part of a flow that follows from the hash.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#include "flow.h"

#define WEIR_RSS_KEY_BYTES 40 // bytes in use; devices may have longer keys

struct weir_rss_key {
	uint8_t bytes[WEIR_RSS_KEY_BYTES] __attribute__((aligned(8)));
};

// Compute the hash of a packet without a hash from the device. Cost: a few hundred instructions.
uint32_t weir_rss_hash(const struct weir_rss_key *rss, const struct weir_flow_key *key);

// The part of a flow. Devices index a table of queues, whose size is a power of two, with the low
// bits of the hash: with at most WEIR_FLOW_PARTS entries, each entry consists of whole parts.
static inline uint32_t weir_rss_part(uint32_t hash) {
	return hash & (WEIR_FLOW_PARTS - 1);
}
