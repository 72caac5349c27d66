// SPDX-License-Identifier: BSD-3-Clause
//
// Distribute: determines the part of the flows to which a received packet belongs. The packet is
// then passed to the worker that owns the part (distributor.h).
//
// Threads: the worker of the pipeline; any thread if there is no pipeline.
#pragma once

#include <stdint.h>

struct rte_mbuf;
struct weir_pipeline;

// Returns the hash from which weir_pipeline_distribute computes the part of a packet, if parts do
// not come from RSS hashes. Uses no fragment table. Never fails: a packet without a flow gets 0.
// ICMP errors get the hash of the flow in the quoted packet. Headers that continue in other
// segments are copied into the first segment.
uint64_t weir_pipeline_distribution_hash(struct rte_mbuf *pkt, uint64_t hash_seed);
// Returns the part (below WEIR_FLOW_PARTS) to which a packet belongs. All packets of a flow, its
// fragments, and ICMP errors about the flow belong to one part, except a later fragment that
// arrives before the first fragment. With shared flow memory, the flow is stored in this part of
// the memory. Packets without a flow get an arbitrary part.
//
// If parts come from RSS hashes, the function uses the hash from the device for a TCP or UDP packet
// of the fast path and for a packet without a flow. For other packets, or without a hash from the
// device, it computes the hash from the key of the flow. With RSS hashes, each packet must carry
// its part when it is processed (weir_distributor_mark).
//
// pipeline: the pipeline of the distributing worker. The function uses its fragment table, and adds
// first fragments to this table.
uint32_t weir_pipeline_distribute(struct weir_pipeline *pipeline, struct rte_mbuf *pkt);
