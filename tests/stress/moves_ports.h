// SPDX-License-Identifier: BSD-3-Clause
//
// Ports of the stress test of moves: they receive packets of many flows, a few of which have most
// of the packets. A port has one queue, whose worker creates the packets, or one queue for each
// worker. With several queues, one thread creates the packets and puts each packet into the queue
// that the redirection table of the port's device selects. A second thread acts as the main thread
// of the dataplane and adapts the tables to the buckets. Programs that link this file wrap the DPDK
// functions that read and set a table (MOVES_WRAPS, meson.build). A device has the same number as
// its port.
//
// Threads: the worker of the queue calls ports_receive, the worker given as argument calls
// ports_give_back, and the main thread of the test calls the other functions.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "distribution.h"
#include "flow.h"
#include "queue_tables.h"

#define WORKERS 3u
#define PORTS 2u
#define PACKETS 512u // maximum number of packets of a port in flight, so that no ring overflows
#define BURST 32u
#define ENTRIES 1024u // entries of the table of port 0's device; port 1's table has half as many
#define SEED 42

struct flow {
	struct weir_flow_key key;
	uint64_t hash;
	uint32_t bucket;
	uint32_t sent; // sequence number of the last packet that its port sent
	// Sequence number of the last packet that was processed; written by the owner of the bucket
	uint32_t seen;
};

struct packet {
	struct rte_mbuf mbuf;
	uint32_t flow, number;
};

struct port {
	struct rte_ring *back[WORKERS]; // processed packets returned by a worker
	struct packet packet[PACKETS];
	struct packet *free[PACKETS];
	uint32_t free_count;
	uint64_t sent, random;
	// Used if the port has several queues:
	struct rte_ring *queue[WORKERS];
	// Held while a packet is put into its queue, and while the table changes
	pthread_mutex_t lock;
	uint16_t table[ENTRIES]; // relaxed
	pthread_t thread;
};

struct ports {
	struct flow *flow; // borrowed
	uint32_t flows;
	uint32_t queues; // number of queues of each port
	uint32_t distributors; // number of distributors: one for each queue
	struct weir_distributor *distributor[WEIR_DISTRIBUTORS_MAX];
	struct port port[PORTS];
	bool quiet; // no further packets are received; relaxed
	bool stop; // relaxed
	// Used if ports have several queues:
	struct weir_spreading spreading;
	struct weir_distribution distribution;
	struct weir_device device[PORTS];
	struct weir_queue_tables *tables;
	pthread_t main;
};

// Returns the port of a distributor. The order of distributors is: queue 0 of each port, the other
// queues of port 0, the other queues of port 1.
static inline uint8_t ports_of(uint32_t distributor) {
	return (uint8_t)(distributor < PORTS ? distributor : (distributor - PORTS) / (WORKERS - 1));
}

static inline uint32_t ports_queue_of(uint32_t distributor) {
	return distributor < PORTS ? 0 : (distributor - PORTS) % (WORKERS - 1) + 1;
}

// Returns the first owner of a bucket. With several queues, all buckets of an entry of the
// redirection table have the same first owner.
static inline uint32_t ports_first_worker(uint32_t queues, uint32_t bucket) {
	return weir_distributor_first_worker(queues > 1 ? bucket % (ENTRIES / 2) : bucket, WORKERS);
}

uint64_t stress_random(uint64_t *state);

// queues: 1 or WORKERS. flow: [flows]; the port of flow n is n modulo PORTS. Returns NULL if out of
// memory.
struct ports *ports_make(struct flow *flow, uint32_t flows, uint32_t queues);
// Start the threads, if ports have several queues.
bool ports_start(struct ports *ports, struct weir_moves *moves);
void ports_free(struct ports *ports);

// Receive at most BURST packets from a queue. Sets the bucket of each packet.
uint16_t ports_receive(struct ports *ports, uint8_t port, uint32_t queue, struct rte_mbuf **pkts);
void ports_give_back(
	struct ports *ports, uint8_t port, uint32_t worker, struct rte_mbuf **pkts, uint16_t n);

// Stop receiving.
void ports_be_quiet(struct ports *ports);
// Stop changing tables. Call after all moves of buckets have ended.
void ports_stop_main(struct ports *ports);
bool ports_are_empty(const struct ports *ports); // call when the ports are quiet
uint64_t ports_sent(const struct ports *ports); // call when the ports are quiet
// number of table changes; call when the ports are quiet
uint64_t ports_shifts(const struct ports *ports);
static inline bool ports_have_tables(const struct ports *ports) {
	return ports->queues > 1;
}
