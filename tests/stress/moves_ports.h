// SPDX-License-Identifier: BSD-3-Clause
//
// Ports of the stress of moves: packets of many flows, a few of which have most packets. A port has
// one queue, whose worker creates its packets, or a queue for each worker. In the latter case one
// thread creates the packets and puts each packet into the queue given by the table of the port's
// device, and another thread, the main thread of the dataplane, adapts the tables to the buckets.
// Programs that link it wrap the calls of DPDK that read and set a table (MOVES_WRAPS,
// meson.build); a device has its port's number.
//
// Threads: ports_receive by the worker of the queue, ports_give_back by the worker given as
// argument; the other functions by the test.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "distribution.h"
#include "flow.h"
#include "queue_tables.h"

#define WORKERS 3u
#define PORTS 2u
#define PACKETS 512u // maximum number of packets of a port in flight: no ring overflows
#define BURST 32u
#define ENTRIES 1024u // entries of the table of port 0's device; port 1's table has half as many
#define SEED 42

struct flow {
	struct weir_flow_key key;
	uint64_t hash;
	uint32_t bucket;
	uint32_t sent; // number of the last packet sent by its port
	uint32_t seen; // number of the last packet, written by the owner of its bucket
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
	// Held so that no packet is between the table and its queue during a change
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

// Distributors: the first distributor of each port, then those of port 0's further queues, then
// those of port 1's further queues.
static inline uint8_t ports_of(uint32_t distributor) {
	return (uint8_t)(distributor < PORTS ? distributor : (distributor - PORTS) / (WORKERS - 1));
}

static inline uint32_t ports_queue_of(uint32_t distributor) {
	return distributor < PORTS ? 0 : (distributor - PORTS) % (WORKERS - 1) + 1;
}

// The first owner of a bucket. With several queues, all buckets of an entry have one first owner.
static inline uint32_t ports_first_worker(uint32_t queues, uint32_t bucket) {
	return weir_distributor_first_worker(queues > 1 ? bucket % (ENTRIES / 2) : bucket, WORKERS);
}

uint64_t stress_random(uint64_t *state);

// queues: 1 or WORKERS. flow: [flows]; a flow's port is the remainder of its number. Returns NULL
// if there is too little memory.
struct ports *ports_make(struct flow *flow, uint32_t flows, uint32_t queues);
// Starts the threads, if there are any
bool ports_start(struct ports *ports, struct weir_moves *moves);
void ports_free(struct ports *ports);

// Receive from the queue: at most BURST packets, which contain their bucket.
uint16_t ports_receive(struct ports *ports, uint8_t port, uint32_t queue, struct rte_mbuf **pkts);
void ports_give_back(
	struct ports *ports, uint8_t port, uint32_t worker, struct rte_mbuf **pkts, uint16_t n);

// Stop receiving.
void ports_be_quiet(struct ports *ports);
// Stop changing tables. Call when no bucket moves any more.
void ports_stop_main(struct ports *ports);
bool ports_are_empty(const struct ports *ports); // call when the ports are quiet
uint64_t ports_sent(const struct ports *ports); // call when the ports are quiet
// number of table changes; call when the ports are quiet
uint64_t ports_shifts(const struct ports *ports);
static inline bool ports_have_tables(const struct ports *ports) {
	return ports->queues > 1;
}
