// SPDX-License-Identifier: BSD-3-Clause
//
// Set-up of a pipeline: its memory and its parameters. Called before the worker of the pipeline
// starts and after the worker has stopped.
#pragma once

#include "flow_table.h"
#include "rss_hash.h"
#include "segment.h"

// Default maximum number of RSTs for backends that are down, and of challenge ACKs, that one worker
// sends per second. The limit is high, because a backend that goes down or drains may have many
// clients.
#define WEIR_RESETS_PER_SECOND 10000u

// Maximum number of replies per second of one worker, for each kind of reply, from the
// configuration. Each kind has its own token bucket. 0 = no replies.
struct weir_icmp_rates {
	uint32_t echo;
	uint32_t too_big;
	uint32_t unreachable; // port unreachable, and RST to closed ports
};

struct weir_fragment_params {
	uint32_t entries; // number of datagrams; 0 = fragments are dropped
	uint32_t timeout_ms;
};

struct weir_pipeline_params {
	const struct weir_segment *segment;
	uint32_t worker;
	struct weir_flow_table_params flow_table; // its hash_seed and given_parts are ignored
	uint64_t hash_seed;
	struct weir_icmp_rates icmp;
	struct weir_fragment_params fragments;
	// Maximum number per second of RSTs for backends that are down, and of challenge ACKs. 0
	// = WEIR_RESETS_PER_SECOND.
	uint32_t resets_per_second;
	uint32_t any_mac_ports; // bit p: port p accepts frames to any unicast MAC address
	// Only with shared flow memory: the RSS key of the hash from which the part of a flow is
	// computed. Each packet then carries the part that weir_pipeline_distribute has returned.
	// NULL = the part is computed from the flow hash.
	const struct weir_rss_key *rss;
	// Affinity table of services with affinity, shared by all workers. Borrowed; must outlive
	// the pipeline. NULL = affinity only by the Maglev fallback.
	struct weir_affinity *affinity;
};

struct weir_pipeline;

// Create a pipeline. params is copied; the segment is borrowed and must outlive the pipeline.
// [set-up] Returns 0, -EINVAL (the worker is out of range, or the flow table rejects the
// parameters), -ENOMEM.
int weir_pipeline_create(const struct weir_pipeline_params *params, struct weir_pipeline **ret);
void weir_pipeline_free(struct weir_pipeline *pipeline); // NULL is allowed
// Free the memory that does not come from DPDK. Call when the process is about to exit.
void weir_pipeline_abandon(struct weir_pipeline *pipeline);

// Returns the number of bytes of memory that a pipeline uses in addition to its flow table and
// fragment table.
uint64_t weir_pipeline_bytes(uint32_t max_services, uint32_t max_backends);
