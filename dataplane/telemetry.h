// SPDX-License-Identifier: BSD-3-Clause
//
// Telemetry: Weir's commands on DPDK's telemetry socket, for dpdk-telemetry.py and other readers
// (--telemetry). DPDK serves the socket with its own threads. The socket is owned by root, in the
// run-time directory of DPDK's file prefix.
//
//   /weir/workers    per worker: core, busy and idle cycles, packets, drops, flows
//   /weir/worker,N   core and counters of worker N, without drops by reason
//   /weir/flows      flows of all workers together
//   /weir/drops      packets dropped, by reason
//
// From DPDK 23.03 on, /eal/lcore/usage and /eal/lcore/info report the cycles in which a worker
// processed packets, and its total cycles. (The CPU usage does not show the load, because a poll
// loop without pauses uses 100 %.)
//
// Threads: main. The commands run in DPDK's threads, and only read counters in the segment.
#pragma once

#include "config.h"
#include "segment.h"

// Register the commands. Call before rte_eal_init, so that the list of commands is complete when
// the socket appears. The commands fail until weir_telemetry_begin is called. Returns 0 or negative
// errno.
int weir_telemetry_register(void);

// Begin to serve the commands. The segment and the configuration are borrowed until
// weir_telemetry_end, which waits until commands in progress have ended. weir_telemetry_end may be
// called without begin.
void weir_telemetry_begin(const struct weir_segment *segment, const struct weir_config *config);
void weir_telemetry_end(void);
