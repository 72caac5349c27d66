// SPDX-License-Identifier: BSD-3-Clause
//
// Flow lab: a flow table and counts of its callbacks, for the tests of the flow table.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_memory.h>

#include "flow_bucket.h"
#include "flow_expire.h"
#include "flow_insert.h"
#include "flow_life.h"
#include "flow_table.h"
#include "hash.h"
#include "test.h"

#define MS 1000000ull
#define SECOND 1000000000ull
#define START (3 * 86400 * SECOND)
#define BACKENDS 16
#define SEED 7

struct lab {
	struct weir_flow_table *table;
	int64_t active[BACKENDS];
	int64_t open[BACKENDS];
	int64_t half_open[BACKENDS]; // half-open flows among open flows, by backend
	uint64_t ended[4];
	uint64_t finished[4]; // finished flows, by enum weir_outcome
	uint64_t service_ns; // service time of the last flow that finished
	uint64_t idle_ns; // idle time of the last flow that ended
	uint64_t answered; // flows that were established after a SYN
};

static inline void on_established(void *context, uint16_t backend, bool answered) {
	struct lab *f = context;

	f->answered += answered;
	assert_true(backend < BACKENDS);
	f->half_open[backend]--;
	assert_true(f->half_open[backend] >= 0);
}

static inline void on_finished(void *context, uint16_t backend, enum weir_outcome outcome,
	uint64_t service_ns, bool half_open) {
	struct lab *f = context;

	assert_true(backend < BACKENDS);
	if (half_open) {
		on_established(context, backend, false);
	}
	f->open[backend]--;
	assert_true(f->open[backend] >= f->half_open[backend]);
	assert_true(f->open[backend] >= 0);
	f->finished[outcome]++;
	f->service_ns = service_ns;
}

static inline void on_resumed(void *context, uint16_t backend) {
	struct lab *f = context;

	assert_true(backend < BACKENDS);
	f->open[backend]++;
}

static inline void on_ended(void *context, uint16_t backend, enum weir_flow_end end, int outcome,
	uint64_t service_ns, uint64_t idle_ns, bool half_open) {
	struct lab *f = context;

	f->idle_ns = idle_ns;
	if (outcome != WEIR_OUTCOME_KNOWN) {
		on_finished(context, backend, (enum weir_outcome)outcome, service_ns, half_open);
	}
	assert_true(backend < BACKENDS);
	f->active[backend]--;
	assert_true(f->active[backend] >= 0);
	f->ended[end]++;
}

static inline struct lab *make(uint32_t flows, uint32_t half_open_percent) {
	struct lab *f = calloc(1, sizeof(*f));
	struct weir_flow_table_params params = {
		.flows = flows,
		.ipv6_percent = 25,
		.half_open_percent = half_open_percent,
		.timeout_ms = {5000, 900000, 10000, 30000, 8000, 4000},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED,
	};
	struct weir_flow_listener listener = {
		on_established, on_finished, on_resumed, on_ended, NULL, f};

	assert_non_null(f);
	assert_int_equal(weir_flow_table_create(&params, &listener, &f->table), 0);
	return f;
}

static inline void drop(struct lab *f) {
	weir_flow_table_free(f->table);
	free(f);
}

static inline struct weir_flow_key key_of(uint32_t n, uint8_t family, uint8_t protocol) {
	struct weir_flow_key key = {.family = family, .protocol = protocol};
	uint64_t mixed = weir_hash_mix(n + 1, 0x9e3779b97f4a7c15ull);

	memcpy(key.source, &mixed, 4);
	memcpy(key.destination, &(uint32_t){0x0a6433c6}, 4);
	if (family == 6) {
		memcpy(key.source + 8, &mixed, 8);
		key.destination[15] = (uint8_t)(1 + n % 3);
	}
	key.source_port = (uint16_t)n;
	key.destination_port = 0x5000;
	return key;
}

static inline uint64_t hash_of(const struct weir_flow_key *key) {
	uint32_t source, destination;

	if (key->family == 6) {
		return weir_hash_ipv6(key->source, key->destination, key->source_port,
			key->destination_port, key->protocol, SEED);
	}
	memcpy(&source, key->source, 4);
	memcpy(&destination, key->destination, 4);
	return weir_hash_ipv4(
		source, destination, key->source_port, key->destination_port, key->protocol, SEED);
}

static inline weir_flow_ref find(struct lab *f, const struct weir_flow_key *key, uint64_t now) {
	return weir_flow_lookup(f->table, key, hash_of(key), now);
}

static inline void began(struct lab *f, uint16_t backend, enum weir_flow_event event) {
	f->active[backend]++;
	f->open[backend] += event != WEIR_FLOW_EVENT_FIN && event != WEIR_FLOW_EVENT_RST;
	f->half_open[backend] += event == WEIR_FLOW_EVENT_SYN || event == WEIR_FLOW_EVENT_DATAGRAM;
}

static inline weir_flow_ref insert(struct lab *f, const struct weir_flow_key *key, uint16_t backend,
	enum weir_flow_event event, uint64_t now) {
	struct weir_flow_start start = {.now_ns = now, .event = event, .backend = backend};
	weir_flow_ref flow = weir_flow_insert(f->table, key, hash_of(key), &start);

	if (flow >= 0) {
		began(f, backend, event);
	}
	return flow;
}

static inline void restart(struct lab *f, weir_flow_ref flow, uint16_t backend,
	enum weir_flow_event event, uint64_t now) {
	struct weir_flow_start start = {.now_ns = now, .event = event, .backend = backend};

	weir_flow_restart(f->table, flow, &start, WEIR_FLOW_END_COMPLETED);
	began(f, backend, event);
}

struct buckets {
	uint32_t bucket[2];
};

static inline struct buckets buckets_of(const struct lab *f, const struct weir_flow_key *key) {
	const struct weir_flow_secret *secret = &f->table->secret;
	const struct weir_flow_family *family =
		key->family == 4 ? &f->table->family4 : &f->table->family6;
	uint64_t hash = weir_flow_bucket_hash(secret, key, hash_of(key));

	return (struct buckets){{weir_flow_first_bucket(secret, family->bucket_count, hash),
		weir_flow_second_bucket(secret, family, hash)}};
}

// Look up the flow of a packet with this key, as the fast path does.
static inline bool hit(struct lab *f, const struct weir_flow_key *key, enum weir_flow_event event,
	uint64_t now, uint16_t *ret_backend) {
	uint8_t ip[44] = {0}; // addresses and ports, in the layout of a packet
	uint32_t *word, backend;

	memcpy(ip + (key->family == 4 ? 12 : 8), key->source, key->family == 4 ? 4 : 16);
	memcpy(ip + (key->family == 4 ? 16 : 24), key->destination, key->family == 4 ? 4 : 16);
	memcpy(ip + (key->family == 4 ? 20 : 40), &key->source_port, 4);
	weir_flow_stamp(f->table, now);
	if (key->family == 4) {
		word = weir_flow_find4(
			weir_flow_bucket4_at(f->table, buckets_of(f, key).bucket[0]), ip);
	} else {
		word = weir_flow_find6(
			f->table, weir_flow_bucket6_at(f->table, buckets_of(f, key).bucket[0]), ip);
	}
	if (word == NULL || !weir_flow_refresh(f->table, word, event, &backend)) {
		return false;
	}
	*ret_backend = (uint16_t)backend;
	return true;
}

static inline int64_t active_total(const struct lab *f) {
	int64_t total = 0;

	for (unsigned int i = 0; i < BACKENDS; i++) {
		total += f->active[i];
	}
	return total;
}

// Sweep for `duration`, as often as a poll loop does. Returns the time at the end.
static inline uint64_t sweep_for(struct lab *f, uint64_t now, uint64_t duration) {
	uint64_t end = now + duration;

	for (; now < end; now += MS / 10) {
		weir_flow_sweep(f->table, now);
	}
	return now;
}

#define SYN WEIR_FLOW_EVENT_SYN
#define DATA WEIR_FLOW_EVENT_DATA
#define FIN WEIR_FLOW_EVENT_FIN
#define RST WEIR_FLOW_EVENT_RST
#define DGRAM WEIR_FLOW_EVENT_DATAGRAM
#define ACK WEIR_FLOW_EVENT_ACK

static inline int eal_start(void **state) {
	static char *argv[] = {"test", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"-m", "256", "--log-level=error", "-l", "0", NULL};

	(void)state;
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}
