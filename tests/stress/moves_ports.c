// SPDX-License-Identifier: BSD-3-Clause
#include "moves_ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_ring.h>

#define HOT 16u // number of flows of a port that get most of the packets
#define PAUSE_NS 20000

static struct ports *the_ports; // the ports, for the wrapped DPDK functions

int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);
int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries);

uint64_t stress_random(uint64_t *state) {
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

static uint64_t clock_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void pause_a_while(void) {
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static uint32_t entries_of(uint32_t port) {
	return port == 0 ? ENTRIES : ENTRIES / 2;
}

// --- devices --------------------------------------------------------------------------------

int __wrap_rte_eth_dev_rss_reta_query(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	const struct port *port = &the_ports->port[device];

	for (uint32_t e = 0; e < entries; e++) {
		table[e / 64].reta[e % 64] = __atomic_load_n(&port->table[e], __ATOMIC_RELAXED);
	}
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_update(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	struct port *port = &the_ports->port[device];

	pthread_mutex_lock(&port->lock);
	for (uint32_t e = 0; e < entries; e++) {
		if ((table[e / 64].mask >> e % 64 & 1) != 0) {
			__atomic_store_n(
				&port->table[e], table[e / 64].reta[e % 64], __ATOMIC_RELAXED);
		}
	}
	pthread_mutex_unlock(&port->lock);
	return 0;
}

// --- packets --------------------------------------------------------------------------------

static void collect(struct port *port) {
	for (uint32_t w = 0; w < WORKERS; w++) {
		port->free_count += rte_ring_sc_dequeue_burst(port->back[w],
			(void **)&port->free[port->free_count], PACKETS - port->free_count, NULL);
	}
}

static uint16_t make_packets(struct ports *ports, uint8_t p, struct rte_mbuf **pkts) {
	struct port *port = &ports->port[p];
	uint16_t n = 0;

	collect(port);
	while (n < BURST && port->free_count > 0 &&
		!__atomic_load_n(&ports->quiet, __ATOMIC_RELAXED)) {
		struct packet *packet = port->free[--port->free_count];
		uint32_t range = stress_random(&port->random) % 8 == 0 ? ports->flows / PORTS : HOT;

		packet->flow = (uint32_t)(stress_random(&port->random) % range) * PORTS + p;
		packet->number = ++ports->flow[packet->flow].sent;
		weir_distributor_mark(&packet->mbuf, ports->flow[packet->flow].bucket);
		pkts[n++] = &packet->mbuf;
	}
	port->sent += n;
	return n;
}

uint16_t ports_receive(struct ports *ports, uint8_t port, uint32_t queue, struct rte_mbuf **pkts) {
	if (!ports_have_tables(ports)) {
		return make_packets(ports, port, pkts);
	}
	return (uint16_t)rte_ring_sc_dequeue_burst(
		ports->port[port].queue[queue], (void **)pkts, BURST, NULL);
}

void ports_give_back(
	struct ports *ports, uint8_t port, uint32_t worker, struct rte_mbuf **pkts, uint16_t n) {
	if (rte_ring_sp_enqueue_bulk(ports->port[port].back[worker], (void **)pkts, n, NULL) != n) {
		abort();
	}
}

// --- the threads ----------------------------------------------------------------------------

static void put_into_queue(struct port *port, uint32_t entries, struct rte_mbuf *m) {
	uint32_t entry = weir_distributor_bucket_of(m) & (entries - 1);

	pthread_mutex_lock(&port->lock);
	if (rte_ring_sp_enqueue(
		    port->queue[__atomic_load_n(&port->table[entry], __ATOMIC_RELAXED)], m) < 0) {
		abort();
	}
	pthread_mutex_unlock(&port->lock);
}

static void *run_wire(void *context) {
	struct ports *ports = the_ports;
	struct port *port = context;
	uint8_t p = (uint8_t)(port - ports->port);
	struct rte_mbuf *pkts[BURST];

	while (!__atomic_load_n(&ports->quiet, __ATOMIC_RELAXED)) {
		uint16_t n = make_packets(ports, p, pkts);

		for (uint16_t i = 0; i < n; i++) {
			put_into_queue(port, entries_of(p), pkts[i]);
		}
		if (n < BURST) {
			pause_a_while();
		}
	}
	return NULL;
}

// Returns whether a shift is in progress. A shift that has started always ends.
static bool is_shifting(const struct ports *ports) {
	enum weir_shift_state state = weir_shift_state(ports->distribution.moves);

	return state != WEIR_SHIFT_NOTHING && state != WEIR_SHIFT_REFUSED;
}

static void *run_main(void *context) {
	struct ports *ports = context;

	while (!__atomic_load_n(&ports->stop, __ATOMIC_RELAXED) || is_shifting(ports)) {
		weir_queue_tables_turn(ports->tables, clock_ns());
		pause_a_while();
	}
	return NULL;
}

// Set up the tables as in the dataplane (spreading.c, distribution.c).
static bool make_tables(struct ports *ports, struct weir_moves *moves) {
	static const struct weir_log log = {.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
	static struct weir_config_port names[PORTS];
	static const struct weir_config config = {.ports = names, .port_count = PORTS};
	static const struct weir_rss_key key;

	ports->spreading.workers = WORKERS;
	ports->spreading.ports = PORTS;
	ports->spreading.bucketing = WEIR_BUCKETING_YES;
	ports->distribution.ports = PORTS;
	ports->distribution.distributors = ports->distributors;
	ports->distribution.moves = moves;
	for (uint32_t p = 0; p < PORTS; p++) {
		ports->device[p].id = (uint16_t)p;
		ports->spreading.device[p] = &ports->device[p];
		ports->spreading.port[p] = (struct weir_distributed_port){.by_queue = true,
			.owner = p,
			.queues = WORKERS,
			.table_entries = (uint16_t)entries_of(p),
			.key = &key};
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		ports->spreading.first_worker[b] = (uint8_t)ports_first_worker(ports->queues, b);
	}
	for (uint32_t d = 0; d < ports->distributors; d++) {
		ports->distribution.distributor[d] = ports->distributor[d];
	}
	if (weir_queue_tables_create(
		    &ports->spreading, &ports->distribution, &config, &log, &ports->tables) < 0) {
		return false;
	}
	ports->tables->settled_ns = 0;
	for (uint32_t p = 0; p < PORTS; p++) {
		memcpy(ports->port[p].table, ports->tables->table[p].queue,
			entries_of(p) * sizeof(ports->port[p].table[0]));
	}
	return true;
}

bool ports_start(struct ports *ports, struct weir_moves *moves) {
	if (!ports_have_tables(ports)) {
		return true;
	}
	if (!make_tables(ports, moves)) {
		return false;
	}
	for (uint32_t p = 0; p < PORTS; p++) {
		if (pthread_create(&ports->port[p].thread, NULL, run_wire, &ports->port[p]) != 0) {
			return false;
		}
	}
	return pthread_create(&ports->main, NULL, run_main, ports) == 0;
}

void ports_be_quiet(struct ports *ports) {
	__atomic_store_n(&ports->quiet, true, __ATOMIC_RELAXED);
	for (uint32_t p = 0; p < PORTS && ports_have_tables(ports); p++) {
		pthread_join(ports->port[p].thread, NULL);
	}
}

void ports_stop_main(struct ports *ports) {
	__atomic_store_n(&ports->stop, true, __ATOMIC_RELAXED);
	if (ports_have_tables(ports)) {
		pthread_join(ports->main, NULL);
	}
}

// --- set-up ---------------------------------------------------------------------------------

static struct rte_ring *make_ring(const char *name, uint32_t port, uint32_t number) {
	char text[RTE_RING_NAMESIZE];

	snprintf(text, sizeof(text), "%s_%u_%u", name, port, number);
	return rte_ring_create(text, 2 * PACKETS, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
}

static bool make_port(struct ports *ports, uint32_t p) {
	struct port *port = &ports->port[p];
	bool made = pthread_mutex_init(&port->lock, NULL) == 0;

	port->random = p + 1;
	for (uint32_t w = 0; w < WORKERS; w++) {
		port->back[w] = make_ring("back", p, w);
		port->queue[w] = make_ring("queue", p, w);
		made = made && port->back[w] != NULL && port->queue[w] != NULL;
	}
	for (uint32_t i = 0; i < PACKETS; i++) {
		port->free[port->free_count++] = &port->packet[i];
	}
	return made;
}

static bool make_distributor(struct ports *ports, uint32_t d) {
	struct weir_distributor **distributor = &ports->distributor[d];
	uint32_t owner = (ports_of(d) + ports_queue_of(d)) % WORKERS;

	if (weir_distributor_create(d, WORKERS, owner, SOCKET_ID_ANY, distributor) < 0) {
		return false;
	}
	for (uint32_t b = 0; b < WEIR_BUCKETS; b++) {
		(*distributor)->worker[b] = (uint8_t)ports_first_worker(ports->queues, b);
	}
	return true;
}

struct ports *ports_make(struct flow *flow, uint32_t flows, uint32_t queues) {
	struct ports *ports = calloc(1, sizeof(*ports));
	bool made = ports != NULL;

	if (!made) {
		return NULL;
	}
	the_ports = ports;
	ports->flow = flow;
	ports->flows = flows;
	ports->queues = queues;
	ports->distributors = PORTS * queues;
	for (uint32_t p = 0; p < PORTS; p++) {
		ports->distribution.further[p] = queues > 1 ? PORTS + p * (WORKERS - 1) : 0;
		made = make_port(ports, p) && made;
	}
	for (uint32_t d = 0; d < ports->distributors; d++) {
		made = make_distributor(ports, d) && made;
	}
	if (!made) {
		ports_free(ports);
		return NULL;
	}
	return ports;
}

void ports_free(struct ports *ports) {
	weir_queue_tables_free(ports->tables);
	for (uint32_t d = 0; d < ports->distributors; d++) {
		weir_distributor_free(ports->distributor[d]);
	}
	for (uint32_t p = 0; p < PORTS; p++) {
		for (uint32_t w = 0; w < WORKERS; w++) {
			rte_ring_free(ports->port[p].back[w]);
			rte_ring_free(ports->port[p].queue[w]);
		}
		pthread_mutex_destroy(&ports->port[p].lock);
	}
	free(ports);
}

// --- results --------------------------------------------------------------------------------

// Used in place of rte_ring_empty, which would read memory without synchronization while a worker
// writes it.
static bool is_empty(const struct rte_ring *ring) {
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&ring->cons.tail, __ATOMIC_ACQUIRE);
}

bool ports_are_empty(const struct ports *ports) {
	for (uint32_t d = 0; d < ports->distributors; d++) {
		for (uint32_t w = 0; w < WORKERS; w++) {
			const struct rte_ring *ring = ports->distributor[d]->ring[w];

			if (ring != NULL && !is_empty(ring)) {
				return false;
			}
		}
		if (!is_empty(ports->port[ports_of(d)].queue[ports_queue_of(d)])) {
			return false;
		}
	}
	return true;
}

uint64_t ports_sent(const struct ports *ports) {
	uint64_t sent = 0;

	for (uint32_t p = 0; p < PORTS; p++) {
		sent += ports->port[p].sent;
	}
	return sent;
}

uint64_t ports_shifts(const struct ports *ports) {
	return ports->tables != NULL ? ports->tables->shifts : 0;
}
