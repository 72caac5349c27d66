// SPDX-License-Identifier: BSD-3-Clause
//
// Balancer: a real segment with published tables and one worker's pipeline on it, small enough to
// be recreated for every input.
//
//   service 0  TCP 80 and 8000..8099 of both VIPs      backends 0 to 3
//   service 1  UDP, every port, of both VIPs           backends 4 and 5; affinity
// Backends with even ids have IPv4 addresses, backends with odd ids have IPv6 addresses. Packets
// to backend 2 get a VLAN tag. Backend 3 has no next hop yet. Backend 6 is in a selection
// although its row was removed (see enum balancer_tables).
//
// Threads: one.
#pragma once

#include "backend_row.h"
#include "guarded_segment.h"
#include "pipeline.h"
#include "pipeline_setup.h"

// MAC address of all ports, and of the frames of the unit tests
#define BALANCER_MAC {2, 0, 0, 0, 0, 2}
#define BALANCER_SERVICES 4
#define BALANCER_BACKENDS 8
#define BALANCER_PORTS 3
#define BALANCER_SEED 0x1234567890abcdefull
#define BALANCER_NOW 1000000000000ull

extern const uint8_t balancer_vip4[16], balancer_vip6[16];

// Variants of the published tables.
enum balancer_tables {
	BALANCER_USUAL,
	// Backends 0 and 4 were removed; service 0 also selects backend 6, which does not exist
	BALANCER_GONE,
	BALANCER_SMALL_MTU, // every backend has a path MTU of 1280 bytes
	BALANCER_EMPTY, // no backend is selected
	BALANCER_VARIANTS,
};

struct balancer {
	struct guarded_segment memory;
	struct weir_pipeline *pipeline;
	struct weir_affinity *affinity;
	struct weir_backend_row rows[BALANCER_BACKENDS]; // the published rows
	uint64_t now_ns;
};

// Publishes no tables. The worker is offline afterwards. Flow timeouts in ms: 50 (half-open), 200
// (young, UDP), 100 (closing), 1000 (others).
void balancer_init(struct balancer *balancer);
void balancer_fini(struct balancer *balancer);
void balancer_publish(struct balancer *balancer, enum balancer_tables tables);
