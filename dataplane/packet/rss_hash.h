// SPDX-License-Identifier: BSD-3-Clause
//
// RSS hash: what a device computes of the addresses and ports of a TCP or UDP packet to choose its
// receive queue (Toeplitz), and how a flow's part follows from it.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

#include "flow.h"

#define WEIR_RSS_KEY_BYTES 40 // used; devices may have longer ones

struct weir_rss_key {
	uint8_t bytes[WEIR_RSS_KEY_BYTES] __attribute__((aligned(8)));
};

// For packets of which no device has told the hash: takes some hundred instructions.
uint32_t weir_rss_hash(const struct weir_rss_key *rss, const struct weir_flow_key *key);

// The part of a flow. Devices look up the queue with the low bits of the hash in a table of a power
// of two entries: an entry has whole parts if there are at most WEIR_FLOW_PARTS of them.
static inline uint32_t weir_rss_part(uint32_t hash) {
	return hash & (WEIR_FLOW_PARTS - 1);
}
