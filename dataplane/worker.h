// SPDX-License-Identifier: BSD-3-Clause
//
// Worker: the poll loop of one lcore. Takes packets from receive queues and rings, passes them to
// the pipeline, and sends them according to their verdicts.
//
// An iteration (turn) of the loop polls every source once, moves packets of other workers into
// queues that this worker owns, answers at most one request from the mailbox, does one step of each
// move of a bucket from or to this worker (moves.h) and of a shift (shift.h), expires flows,
// reports a quiescent state, and pauses if it took and sent no packet.
//
// Threads: created by main, then used only by its lcore, until the caller of weir_worker_stop has
// waited for the lcore. No lock, no allocation, no log (S1, docs/design/architecture.md). System
// calls are made only in drivers that need them, in the pause of idle modes `yield` and `sleep`
// after an iteration without packets, and in clock_gettime if the kernel's clock source needs one
// (clock.h).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "config.h"
#include "device.h"
#include "distributor.h"
#include "moves.h"
#include "pipeline.h"
#include "transmit.h"

// Maximum number of sources: queues of devices, rings from distributors to this worker, and the
// ring of offered packets.
#define WEIR_SOURCES_MAX (2 * WEIR_DEVICES_MAX + WEIR_DISTRIBUTORS_MAX + 1)
#define WEIR_NO_DEVICE 0xff

enum weir_source_kind {
	WEIR_SOURCE_QUEUE, // a port's receive queue, for this worker's pipeline
	WEIR_SOURCE_SHARED, // a port's receive queue that the distributor spreads
	WEIR_SOURCE_HANDED, // ring from the worker that polls a shared queue
	// Ring from another worker, for packets whose flow is not in that worker's flow table
	WEIR_SOURCE_OFFERED,
	WEIR_SOURCE_KERNEL, // an exception device: packets from the kernel to send on the port
};

struct weir_source {
	uint8_t kind; // enum weir_source_kind
	uint8_t port; // index of the port of the packets; unused by WEIR_SOURCE_OFFERED
	uint16_t device; // DPDK's port id; unused by sources with a ring
	uint16_t queue; // unused by sources with a ring
	struct rte_ring *ring; // WEIR_SOURCE_HANDED, WEIR_SOURCE_OFFERED
	struct weir_distributor *distributor; // WEIR_SOURCE_SHARED, WEIR_SOURCE_HANDED
};

// The devices to which packets of a port are sent. Read-only for workers.
struct weir_port {
	uint8_t wire; // index of the port's device
	uint8_t exception; // index of the port's exception device, or WEIR_NO_DEVICE
	bool kernel_has_copy; // the kernel also receives each packet
};

struct weir_worker_params {
	uint32_t index;
	const struct weir_segment *segment;
	struct weir_pipeline *pipeline; // borrowed
	struct weir_transmit *transmit; // borrowed
	const struct weir_port *ports; // [ports], borrowed
	uint32_t ports_count;
	enum weir_config_idle idle;
	int socket;
};

struct weir_worker;

// Create a worker. Returns 0 or -ENOMEM. [set-up]
int weir_worker_create(const struct weir_worker_params *params, struct weir_worker **ret);
void weir_worker_free(struct weir_worker *worker); // NULL is allowed
// Add a source. Returns 0 or -ENOSPC. [set-up]
int weir_worker_add_source(struct weir_worker *worker, const struct weir_source *source);
// In idle mode `sleep`, make packets in this queue of a device wake the worker. The worker must
// poll the queue. If the device cannot wake the worker, or another source is a ring, the worker
// pauses as in idle mode `yield`. [set-up]
void weir_worker_wake_by(
	struct weir_worker *worker, const struct weir_device *device, uint16_t queue);
// Returns true in idle mode `sleep` if all sources of the worker are queues that wake the worker.
// [set-up]
bool weir_worker_is_woken(const struct weir_worker *worker);
// Add an outlet, which the worker empties. Returns 0 or -ENOSPC. [set-up]
int weir_worker_add_outlet(struct weir_worker *worker, struct weir_outlet *outlet);
// Offer packets of unknown flows to the next worker through this ring. [set-up]
void weir_worker_offer_to(struct weir_worker *worker, struct rte_ring *next);
// Include the worker in moves of buckets. Call only if flows are in buckets. moves is borrowed.
// [set-up]
void weir_worker_join_moves(struct weir_worker *worker, struct weir_moves *moves);

// Do one iteration of the loop, without the pause. Returns the number of packets that were taken
// from sources or sent from rings. [worker]
uint32_t weir_worker_turn(struct weir_worker *worker);
// Run the loop until stopped; for rte_eal_remote_launch. context: struct weir_worker.
int weir_worker_run(void *context);
// End the loop after the current iteration, without waiting. May be called from any thread.
void weir_worker_stop(struct weir_worker *worker);
