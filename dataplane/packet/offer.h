// SPDX-License-Identifier: BSD-3-Clause
//
// Offer: passes a packet on to the next worker, which may have its flow. A port that spreads
// packets by RSS mostly delivers an ICMP error to another worker than that of the quoted flow. The
// packet is passed from worker to worker until one has the flow; the last one treats it as unknown.
// No worker reads the table of another one.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// Limits for floods: packets per second that one worker may offer, and that one worker may get from
// all others. Each packet may visit every worker.
#define WEIR_OFFERS_PER_SECOND 20000
#define WEIR_OFFERED_PER_SECOND 300000

// Offer packet i to the next worker, and set its verdict. Returns false, with no change, if there
// is no other worker, all of them had the packet, or the rate limit is reached.
bool weir_offer(struct weir_burst *b, unsigned int i);
