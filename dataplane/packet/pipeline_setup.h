// SPDX-License-Identifier: BSD-3-Clause
//
// Set-up of a pipeline: its memory and its parameters. Called before its worker starts and after it
// has stopped.
#pragma once

#include "flow_table.h"
#include "rss_hash.h"
#include "segment.h"

// Maximum of RSTs per second of one worker, and maximum of challenge ACKs: a backend that goes
// down, or drains, has many clients.
#define WEIR_RESETS_PER_SECOND 10000u

// Maximum replies per second of one worker, by kind of reply, as in the configuration. Each kind
// has a token bucket. 0 = no replies.
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
	struct weir_flow_table_params flow_table;
	uint64_t hash_seed;
	struct weir_icmp_rates icmp;
	struct weir_fragment_params fragments;
	// RSTs per second for backends that are down, and challenge ACKs per second. 0 =
	// WEIR_RESETS_PER_SECOND.
	uint32_t resets_per_second;
	uint32_t any_mac_ports; // a bit per port that accepts frames to any unicast MAC address
	// Only with shared flow memory: the RSS key whose hash gives the part of a flow. Each
	// packet then carries the part that weir_pipeline_distribute has returned. NULL = the flow
	// hash gives the part.
	const struct weir_rss_key *rss;
};

struct weir_pipeline;

// Create a pipeline. params is copied; the segment is borrowed and must outlive the pipeline.
// [set-up] Returns 0, -EINVAL (worker out of range, or refused by the flow table), -ENOMEM.
int weir_pipeline_create(const struct weir_pipeline_params *params, struct weir_pipeline **ret);
void weir_pipeline_free(struct weir_pipeline *pipeline);
// Free the memory that is not from DPDK, at the end of the process.
void weir_pipeline_abandon(struct weir_pipeline *pipeline);

// Bytes of memory that a pipeline takes in addition to its flow table.
uint64_t weir_pipeline_bytes(uint32_t max_services, uint32_t max_backends);
