// SPDX-License-Identifier: BSD-3-Clause
//
// Dataplane: opens devices and the segment as planned, connects them, and runs the workers.
//
// Opens the parts in this order: for each device the claim of its interface and the device, then
// segment, pipelines, transmit paths, distributors, workers. Closes workers, distributors,
// pipelines, transmit paths, devices, claims, and last the segment.
//
// Threads: main. Workers run between weir_dataplane_start and weir_dataplane_stop.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "handover.h"
#include "log.h"
#include "plan.h"
#include "segment.h"

struct weir_dataplane;

// Create a dataplane. Call after rte_eal_init. config, plan and log are borrowed. Returns 0, or
// negative errno (logged).
int weir_dataplane_open(const struct weir_config *config, const struct weir_plan *plan,
	const struct weir_log *log, struct weir_dataplane **ret);
// Stop the workers, and close everything that weir_dataplane_open has opened. frees: also free the
// flow tables and packet buffers. Pass false if the process is about to exit: the kernel then frees
// this memory. With true, the call takes seconds, because DPDK overwrites the memory.
void weir_dataplane_close(struct weir_dataplane *dataplane, bool frees);

// Start the workers. Returns 0, or negative errno (logged). After an error some workers may run.
int weir_dataplane_start(struct weir_dataplane *dataplane);
void weir_dataplane_stop(struct weir_dataplane *dataplane); // returns when all workers have stopped

const struct weir_segment *weir_dataplane_segment(const struct weir_dataplane *dataplane);
// Returns the data that a control process receives when it attaches. The dataplane keeps the
// descriptors.
const struct weir_handover *weir_dataplane_offer(const struct weir_dataplane *dataplane);
// Allocate memory for the parts of the segment that weir-control uses (weir_segment_follow). Logs
// an error when memory becomes short, but not again in each later call.
void weir_dataplane_follow(struct weir_dataplane *dataplane);
// Update the RSS redirection tables (RETA) of devices, so that packets reach the workers that now
// own their buckets (queue_tables.h). now_ns: CLOCK_MONOTONIC.
void weir_dataplane_update_queue_tables(struct weir_dataplane *dataplane, uint64_t now_ns);
// Logs changes of each device's link, interface, MAC address and MTU since the last call, and
// writes the link states of ports into the segment. Returns 0, or -ENODEV (logged) if an interface
// was removed and a new interface has the same name. Opening the new interface needs capabilities
// that this process has dropped: the process must be restarted.
int weir_dataplane_watch_links(struct weir_dataplane *dataplane);
// Read the devices' statistics into the segment. now_ns: CLOCK_MONOTONIC.
void weir_dataplane_read_ports(struct weir_dataplane *dataplane, uint64_t now_ns);
