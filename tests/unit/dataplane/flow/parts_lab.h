// SPDX-License-Identifier: BSD-3-Clause
//
// Parts lab: two flow tables that share memory. Tests move parts of the memory between the tables.
#pragma once

#include "flow_parts.h"

#include "flow_lab.h"

#define PAIR_FLOWS 40000

// Two tables that share memory. At first table 0 has the even parts, and table 1 the odd parts.
struct pair {
	struct weir_flow_memory *memory;
	struct weir_flow_parcel *parcel;
	struct lab *lab[2];
};

static inline struct weir_flow_table_params params_with(struct weir_flow_memory *memory) {
	return (struct weir_flow_table_params){.flows = 1,
		.ipv6_percent = 25,
		.half_open_percent = 50,
		.timeout_ms = {5000, 900000, 10000, 30000, 8000, 4000},
		.socket = SOCKET_ID_ANY,
		.hash_seed = SEED,
		.secret = 77,
		.memory = memory};
}

static inline struct pair pair_make(uint64_t flows) {
	struct pair pair;
	struct weir_flow_table_params params;

	assert_int_equal(weir_flow_memory_create(flows, 25, true, SOCKET_ID_ANY, &pair.memory), 0);
	assert_int_equal(
		weir_flow_parcel_create(pair.memory, BACKENDS, SOCKET_ID_ANY, &pair.parcel), 0);
	params = params_with(pair.memory);
	for (unsigned int i = 0; i < 2; i++) {
		struct lab *f = calloc(1, sizeof(*f));
		struct weir_flow_listener listener = {
			on_established, on_finished, on_resumed, on_ended, NULL, f};

		assert_non_null(f);
		assert_int_equal(weir_flow_table_create(&params, &listener, &f->table), 0);
		pair.lab[i] = f;
	}
	for (uint32_t part = 0; part < WEIR_FLOW_PARTS; part++) {
		weir_flow_own(pair.lab[part % 2]->table, part);
	}
	return pair;
}

static inline void pair_free(struct pair *pair) {
	drop(pair->lab[0]);
	drop(pair->lab[1]);
	weir_flow_parcel_free(pair->parcel);
	weir_flow_memory_free(pair->memory);
}

static inline uint32_t part_of(const struct pair *pair, const struct weir_flow_key *key) {
	const struct weir_flow_secret *secret = &pair->lab[0]->table->secret;

	return weir_flow_part(secret, weir_flow_bucket_hash(secret, key, hash_of(key)));
}

static inline struct lab *owner_of(const struct pair *pair, const struct weir_flow_key *key) {
	uint32_t part = part_of(pair, key);

	assert_true(weir_flow_owns(pair->lab[0]->table, part) !=
		    weir_flow_owns(pair->lab[1]->table, part));
	return pair->lab[weir_flow_owns(pair->lab[1]->table, part)];
}

// Update the counts of a lab from a parcel, as a user of the tables does.
static inline void count_parcel(
	const struct weir_flow_parcel *parcel, struct lab *f, int64_t sign) {
	for (uint32_t i = 0; i < parcel->backend_count; i++) {
		uint16_t backend = parcel->backend[i];
		const struct weir_flow_tally *tally = &parcel->tally[backend];

		f->active[backend] += sign * tally->active;
		f->open[backend] += sign * tally->open;
		f->half_open[backend] += sign * tally->half_open;
	}
}

static inline void release(struct pair *pair, struct lab *from, uint32_t part) {
	while (!weir_flow_release(from->table, part, pair->parcel)) {
	}
}

static inline void adopt(struct pair *pair, struct lab *to, uint64_t now) {
	count_parcel(pair->parcel, to, 1);
	while (!weir_flow_adopt(to->table, pair->parcel, now)) {
	}
}

static inline void settle(struct pair *pair, struct lab *from) {
	count_parcel(pair->parcel, from, -1);
	do {
		weir_flow_parcel_remove(pair->parcel);
	} while (pair->parcel->state != WEIR_FLOW_PARCEL_EMPTY);
}

static inline void move(struct pair *pair, uint32_t part, uint64_t now) {
	bool second = weir_flow_owns(pair->lab[1]->table, part);

	release(pair, pair->lab[second], part);
	adopt(pair, pair->lab[!second], now);
	settle(pair, pair->lab[second]);
}

// Check that the counts of the labs agree with the contents of their tables.
static inline void check_counts(const struct pair *pair) {
	for (unsigned int i = 0; i < 2; i++) {
		const struct weir_flow_table *table = pair->lab[i]->table;
		uint32_t flows[2] = {0}, half_open[2] = {0};

		for (uint64_t b = 0; b < table->family4.bucket_count; b++) {
			uint32_t part = (uint32_t)(b / table->family4.part_buckets);

			for (unsigned int s = 0; s < 4 && weir_flow_owns(table, part); s++) {
				uint32_t word = weir_flow_bucket4_at(table, (uint32_t)b)->word[s];

				flows[0] += word != 0;
				half_open[0] += word != 0 && weir_flow_is_half_open(word);
			}
		}
		for (uint64_t b = 0; b < table->family6.bucket_count; b++) {
			uint32_t part = (uint32_t)(b / table->family6.part_buckets);

			for (unsigned int s = 0; s < 2 && weir_flow_owns(table, part); s++) {
				uint32_t word = weir_flow_bucket6_at(table, (uint32_t)b)->word[s];

				flows[1] += word != 0;
				half_open[1] += word != 0 && weir_flow_is_half_open(word);
			}
		}
		assert_int_equal(table->family4.count, flows[0]);
		assert_int_equal(table->family6.count, flows[1]);
		assert_int_equal(table->family4.half_open, half_open[0]);
		assert_int_equal(table->family6.half_open, half_open[1]);
		assert_int_equal(active_total(pair->lab[i]), flows[0] + flows[1]);
	}
}

// Returns the key of flow n. The number determines family and protocol.
static inline struct weir_flow_key flow_key(uint32_t n) {
	return key_of(n, n % 5 == 0 ? 6 : 4, n % 7 == 0 ? 17 : 6);
}

// Insert flow n into the table that owns its part. The number n determines the state of the flow.
// All states occur.
static inline bool begin(struct pair *pair, uint32_t n, uint64_t now) {
	static const enum weir_flow_event later[] = {SYN, DATA, FIN, RST, ACK};
	struct weir_flow_key key = flow_key(n);
	struct lab *f = owner_of(pair, &key);
	struct weir_flow_start start = {.now_ns = now,
		.event = key.protocol == 17 ? DGRAM : SYN,
		.backend = (uint16_t)(n % BACKENDS),
		.measured = n % 3 == 0};
	weir_flow_ref flow = weir_flow_insert(f->table, &key, hash_of(&key), &start);

	if (flow < 0) {
		return false;
	}
	began(f, start.backend, start.event);
	if (key.protocol == 17) {
		if (n % 2 == 0) {
			weir_flow_advance(f->table, flow, DGRAM, now);
		}
		return true;
	}
	weir_flow_advance(f->table, flow, later[n % 5], now);
	if (n % 11 == 0) {
		weir_flow_advance(f->table, flow, RST, now);
	}
	return true;
}

struct seen {
	uint16_t backend;
	uint8_t state;
	bool found;
	uint32_t idle_ms;
};

static inline struct seen look(const struct pair *pair, uint32_t n, uint64_t now) {
	struct weir_flow_key key = flow_key(n);
	struct lab *f = owner_of(pair, &key);
	weir_flow_ref flow = find(f, &key, now);

	if (flow < 0) {
		return (struct seen){0};
	}
	return (struct seen){.found = true,
		.backend = weir_flow_backend(f->table, flow),
		.state = (uint8_t)weir_flow_state(f->table, flow),
		.idle_ms = weir_flow_idle_ms(f->table, flow, now)};
}
