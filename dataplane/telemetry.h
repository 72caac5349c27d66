// SPDX-License-Identifier: BSD-3-Clause
//
// Telemetry: Weir's commands on DPDK's telemetry socket, for dpdk-telemetry.py and other readers
// (--telemetry). DPDK serves the socket with its own threads; root owns it, in the run-time
// directory of DPDK's file prefix.
//
//   /weir/workers    per worker: core, busy and idle cycles, packets, flows
//   /weir/worker,N   all counters of worker N
//   /weir/flows      flows of all workers together
//   /weir/drops      packets dropped, by reason
//
// And, from DPDK 23.03 on, /eal/lcore/usage and /eal/lcore/info: the cycles in which a worker had
// packets, of all that it polled for. (A poll loop always uses 100 % of its CPU.)
//
// Threads: main. The commands run in DPDK's threads, and only read counters in the segment.
#pragma once

#include "config.h"
#include "segment.h"

// Register the commands, before rte_eal_init: its list of commands is complete when the socket
// appears. They fail until weir_telemetry_begin. Returns 0 or negative errno.
int weir_telemetry_register(void);

// The segment and the configuration are borrowed until weir_telemetry_end, which waits for answers
// in progress. It may be called without begin.
void weir_telemetry_begin(const struct weir_segment *segment, const struct weir_config *config);
void weir_telemetry_end(void);
