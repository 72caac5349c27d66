// SPDX-License-Identifier: BSD-3-Clause
//
// Distribution: the distributors of all ports that need one, and the moves of buckets between
// workers when all ports do.
//
// Threads: main, while no worker runs.
#pragma once

#include "distributor.h"
#include "moves.h"
#include "segment.h"

struct weir_distributed_port {
	bool distributed; // the software distributor spreads its packets, not its device
	uint32_t owner; // the worker that does that
	int socket; // NUMA node of the device
};

struct weir_distribution {
	uint32_t ports;
	struct weir_distributor *distributor[WEIR_PORTS_MAX]; // NULL = not needed
	struct weir_moves *moves; // NULL = flows are not in buckets
};

// Whether flows are in buckets. may_share: the workers can share a flow memory.
enum weir_bucketing weir_distribution_bucketing(
	const struct weir_distributed_port *port, uint32_t ports, uint32_t workers, bool may_share);

// parcel: [workers], if the segment is bucketed; then its owners are set, too. Returns 0, -ENOMEM:
// nothing to free.
int weir_distribution_create(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *ret);
// Before the buffers of packets are: it frees packets that are under way.
void weir_distribution_free(struct weir_distribution *distribution);
