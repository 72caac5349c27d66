// SPDX-License-Identifier: BSD-3-Clause
//
// Offer: passes a packet on to the next worker, which may have the packet's flow. A port that
// spreads packets by RSS usually delivers an ICMP error to another worker than the worker of the
// quoted flow. The packet is passed from worker to worker until a worker has the flow. If no worker
// has the flow, the last worker handles the packet like a packet of an unknown flow. No worker
// reads the table of another worker.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Limits for floods: packets per second that one worker may offer, and that one worker may receive
// from all other workers. A packet may be passed to every worker.
#define WEIR_OFFERS_PER_SECOND 20000
#define WEIR_OFFERED_PER_SECOND 300000

// Offer packet i to the next worker, and set its verdict. Returns false, without a change, if there
// is no other worker, all workers have already received the packet, or the rate limit is reached.
bool weir_offer(struct weir_burst *b, unsigned int i);
