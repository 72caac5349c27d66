// SPDX-License-Identifier: BSD-3-Clause
//
// Pipelines: the pipelines of all workers, and their flow memory. If flows are in buckets
// (distribution.h), the dataplane is *bucketed*: the workers share one flow memory, which is
// divided into parts, so that a part can move from one worker to another (pipeline_parts.h).
// Otherwise each worker has a private flow table.
//
// Threads: main, while no worker runs.
#pragma once

#include "config.h"
#include "log.h"
#include "rss_hash.h"
#include "segment.h"

struct weir_pipeline;
struct weir_affinity;
struct weir_flow_memory;
struct weir_flow_parcel;

struct weir_pipelines_params {
	const struct weir_config *config;
	const struct weir_segment *segment; // borrowed: must outlive the pipelines
	const struct weir_log *log;
	uint32_t any_mac_ports; // bit p: port p accepts frames to any unicast MAC address
	bool bucketed;
	// first_worker and rss are used only if bucketed, and are borrowed. first_worker: the first
	// owner of each part, [WEIR_BUCKETS]. rss: if devices spread flows, the RSS key of the hash
	// from which parts are computed; NULL = parts are computed from the flow hash.
	const uint8_t *first_worker;
	const struct weir_rss_key *rss;
};

struct weir_pipelines {
	uint32_t workers;
	struct weir_flow_memory *flows; // NULL = the dataplane is not bucketed
	struct weir_affinity *affinity; // shared by all workers; NULL = none
	struct weir_pipeline *pipeline[WEIR_WORKERS_MAX];
	// If bucketed: parcel of each worker, for a part that the worker gives to another worker
	struct weir_flow_parcel *parcel[WEIR_WORKERS_MAX];
};

// Returns whether the workers of this configuration can share one flow memory: there are several
// workers, and their flows fit in one memory.
bool weir_pipelines_may_share(const struct weir_config *config);
// Returns the size in bytes of the flow tables of all workers, with their flow memory. bucketed:
// the workers share one flow memory.
uint64_t weir_pipelines_flow_bytes(const struct weir_config *config, bool bucketed);

// Create the pipelines. If bucketed, each pipeline owns the parts assigned to its worker by
// first_worker. Returns 0, or negative errno (nothing to free) after logging the reason, which
// usually names the configuration key to lower.
int weir_pipelines_create(const struct weir_pipelines_params *params, struct weir_pipelines *ret);
void weir_pipelines_free(struct weir_pipelines *pipelines);
// Free the pipelines at the end of the process. The kernel frees the memory from DPDK.
void weir_pipelines_abandon(struct weir_pipelines *pipelines);
