// SPDX-License-Identifier: BSD-3-Clause
//
// Distribute: which part of all flows a packet belongs to, before anything is done with it, so that
// it gets to the worker that has that part (distributor.h).
//
// Threads: the worker whose pipeline it is; without one, any.
#pragma once

#include <stdint.h>

struct rte_mbuf;
struct weir_pipeline;

// Hash that decides the worker of a packet (software distributor). Never fails: a packet that
// cannot be parsed gets 0. ICMP errors get the hash of the flow that they are about. Headers that
// lie in several segments are moved together.
uint64_t weir_pipeline_distribution_hash(struct rte_mbuf *pkt, uint64_t hash_seed);
// The part of all flows, below WEIR_FLOW_PARTS, that a packet belongs to: the same for all packets
// of a flow, ICMP errors about it, and fragments. With shared flow memory it is the part of that
// memory where the flow lives; packets without a flow are then of any one part. Where parts come
// from RSS hashes, that of the device if it has told one, also for packets without a flow; and the
// packet must carry its part when it is processed (weir_distributor_mark). Uses what this pipeline,
// that of the worker which distributes, knows of fragments; a first one is remembered.
uint32_t weir_pipeline_distribute(struct weir_pipeline *pipeline, struct rte_mbuf *pkt);
