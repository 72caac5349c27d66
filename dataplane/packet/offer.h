// SPDX-License-Identifier: BSD-3-Clause
//
// Offer: pass a packet on to the next worker, because that one may know its flow. A port that
// spreads packets by RSS gives an ICMP error to a worker that mostly is not that of the flow which
// it is about. The packet goes from worker to worker until one knows the flow; the last one treats
// it as unknown. No worker reads the table of another one.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

#define WEIR_OFFERS_PER_SECOND 20000 // of one worker: what a flood costs the others is bounded

// Offer packet i to the next worker: it has its verdict then. Returns false, and changes nothing,
// when there is no other worker, all of them were asked, or too many packets are offered.
bool weir_offer(struct weir_burst *b, unsigned int i);
