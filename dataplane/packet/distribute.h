// SPDX-License-Identifier: BSD-3-Clause
//
// Distribute: determines the part of all flows that a received packet belongs to, so that the
// packet is passed to the worker that owns the part (distributor.h).
//
// Threads: the worker whose pipeline it is; without one, any.
#pragma once

#include <stdint.h>

struct rte_mbuf;
struct weir_pipeline;

// Hash that determines the worker of a packet (software distributor). Never fails: a packet that
// cannot be parsed gets 0. ICMP errors get the hash of the flow in the quoted packet. Headers in
// several segments are gathered into the first.
uint64_t weir_pipeline_distribution_hash(struct rte_mbuf *pkt, uint64_t hash_seed);
// The part of all flows, below WEIR_FLOW_PARTS, that a packet belongs to: the same for all packets
// of a flow, ICMP errors about it, and fragments. With shared flow memory it is the part of that
// memory that holds the flow; packets without a flow then get an arbitrary part. Where parts come
// from RSS hashes, the hash is the device's if the packet has one, also for packets without a flow;
// and the packet must carry its part when it is processed (weir_distributor_mark). Uses the
// fragment table of this pipeline, that of the distributing worker, and enters first fragments into
// it.
uint32_t weir_pipeline_distribute(struct weir_pipeline *pipeline, struct rte_mbuf *pkt);
