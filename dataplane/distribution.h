// SPDX-License-Identifier: BSD-3-Clause
//
// Distribution: the distributors of all ports that need distributors, and the moves of buckets
// between workers if flows are in buckets.
//
// If flows are in buckets, a port whose device spreads flows by RSS has a distributor for each of
// its queues. The device's RSS redirection table (RETA) initially maps each bucket to a queue of
// the bucket's first worker, if this worker polls a queue of the port. When a bucket has moved to
// another worker, the distributors pass the packets of the bucket to that worker.
//
// Threads: main, while no worker runs.
#pragma once

#include "device_plan.h"
#include "distributor.h"
#include "moves.h"
#include "rss_hash.h"
#include "segment.h"
#include "worker.h"

struct weir_distributed_port {
	bool distributed; // packets are spread by the software distributor, not by the device
	bool by_queue; // packets are spread by the device, and the RETA can be read
	// Used if distributed and by_queue are false: the reason why flows are not in buckets.
	// UNKNOWN = the device spreads flows, and no more specific reason is known.
	enum weir_bucketing why;
	// Worker that polls the port's first queue; the following workers poll the other queues
	uint32_t owner;
	uint16_t queues; // number of queues over which the device spreads packets
	uint16_t table_entries; // number of entries of the device's RETA
	bool table_stays; // a change of the RETA would restart the device
	const struct weir_rss_key *key; // RSS key of the device; borrowed
	int socket; // NUMA node of the device
};

struct weir_distribution {
	uint32_t ports;
	uint32_t distributors;
	// The first distributor of each port (NULL = not needed), then the distributors of the
	// other queues. A distributor's number is its index.
	struct weir_distributor *distributor[WEIR_DISTRIBUTORS_MAX];
	// Index of the first distributor of a port's other queues; 0 = one distributor, or none
	uint32_t further[WEIR_PORTS_MAX];
	struct weir_moves *moves; // NULL = flows are not in buckets
};
_Static_assert(WEIR_QUEUES_MAX <= WEIR_DISTRIBUTORS_MAX / WEIR_PORTS_MAX,
	"there must be enough distributors for all queues of all ports");

// Returns WEIR_BUCKETING_YES if flows are assigned to buckets, otherwise the reason why they are
// not. may_share: the workers can share one flow memory (pipeline_parts.h); if nothing else
// prevents buckets, false gives the reason UNKNOWN.
enum weir_bucketing weir_distribution_bucketing(
	const struct weir_distributed_port *port, uint32_t ports, uint32_t workers, bool may_share);
// Returns the RSS key of the first port with by_queue, or NULL. If flows are in buckets, all of
// these ports have this key, and the hash with this key gives the bucket of a flow. The key is
// borrowed.
const struct weir_rss_key *weir_distribution_key(
	const struct weir_distributed_port *port, uint32_t ports);

// Returns the worker that owns a bucket before any bucket is moved. workers: number of workers. All
// buckets of one RETA entry, of any device, have the same first worker.
uint32_t weir_distribution_first_worker(const struct weir_distributed_port *port, uint32_t ports,
	uint32_t workers, uint32_t bucket);
// Returns the queue to which the port's RETA maps the buckets of a worker. If the worker polls
// queues of the port, returns the first of them. workers: number of workers.
uint16_t weir_distribution_queue_of(
	const struct weir_distributed_port *port, uint32_t workers, uint32_t worker);
// Returns the worker that polls a queue of a port. workers: number of workers.
static inline uint32_t weir_distribution_receiver(
	const struct weir_distributed_port *port, uint32_t workers, uint32_t queue) {
	return (port->owner + queue) % workers;
}

// Initialize a distribution. parcel: one per worker, used only if the segment is bucketed. In a
// bucketed segment, the function also sets the owners of the buckets. Returns 0, or negative errno
// (nothing to free).
int weir_distribution_create(const struct weir_segment *segment,
	const struct weir_distributed_port *port, struct weir_flow_parcel *const *parcel,
	struct weir_distribution *ret);
// Add the rings of a port's distributors to the sources that the workers poll. queues: number of
// receive queues of the port. worker: [workers]. Returns 0 or -ENOSPC.
int weir_distribution_connect(const struct weir_distribution *distribution, uint32_t port,
	uint16_t queues, struct weir_worker *const *worker, uint32_t workers);
// Free the distribution and the packets in rings. Call before the packet buffers are freed.
void weir_distribution_free(struct weir_distribution *distribution);

// Returns the distributor of a queue, or NULL. If a port has one distributor for all queues,
// returns this distributor for every queue.
static inline struct weir_distributor *weir_distribution_of(
	const struct weir_distribution *distribution, uint32_t port, uint32_t queue) {
	return queue == 0 || distribution->further[port] == 0
		       ? distribution->distributor[port]
		       : distribution->distributor[distribution->further[port] + queue - 1];
}
