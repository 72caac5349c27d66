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

// A flood costs the others no more than this: how many packets one worker may offer, and how many
// one worker may get from all others. Each packet may pass by every worker.
#define WEIR_OFFERS_PER_SECOND 20000
#define WEIR_OFFERED_PER_SECOND 300000

// Offer packet i to the next worker: it has its verdict then. Returns false, and changes nothing,
// when there is no other worker, all of them were asked, or too many packets are offered.
bool weir_offer(struct weir_burst *b, unsigned int i);
