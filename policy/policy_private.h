// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the files of this folder: the interface that each policy implements, and small helpers.
//
// Candidates, slots and rounds are in memory that another process may write at any time. Therefore
// a value is read from shared memory only once, and is compared with a private count before it is
// used as an index.
#pragma once

#include <stddef.h>

#include "backend_signal.h"
#include "policy.h"

#define WEIR_POLICY_UNKNOWN_COST_NS 1000000u // predicted cost of a flow while no cost is known
// 73 minutes; with this limit, sums cannot overflow
#define WEIR_POLICY_COST_MAX_NS (UINT64_C(1) << 42)

// All pointers except choose may be NULL.
struct weir_policy_ops {
	// Initializes the policy's state. Called for the first table with candidates and this
	// policy, with the cursor at the first position of this worker (weir_policy_start). If
	// resume is NULL, also called for each later table.
	void (*start)(struct weir_policy_worker *worker, struct weir_policy_client *client,
		const struct weir_policy_table *table, uint64_t now_ns);
	// Called for each later table with candidates and this policy. found: the cursor is still
	// at the same backend. Otherwise the cursor has kept its index, or, if many candidates
	// were added, is at the first position of this worker again. NULL = start is called
	// instead.
	void (*resume)(struct weir_policy_worker *worker, struct weir_policy_client *client,
		const struct weir_policy_table *table, bool found, uint64_t now_ns);
	weir_policy_choice *choose;
	// Called when a flow has started.
	void (*charge)(struct weir_policy_worker *worker, struct weir_policy_client *client,
		uint16_t id, uint64_t now_ns);
	// For policies that scan (window.h): returns the key of a backend, below
	// WEIR_POLICY_KEY_NONE. A scan selects the least key.
	uint32_t (*key)(struct weir_policy_client *client, struct weir_policy_backend *backend);
	// Called when a backend (< backend_count) is no longer closed. The table is unchanged.
	void (*open)(
		struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);
	bool cursor; // the cursor must follow its backend from table to table
};

extern const struct weir_policy_ops weir_maglev_ops;
extern const struct weir_policy_ops weir_round_robin_ops;
extern const struct weir_policy_ops weir_least_loaded_ops;
extern const struct weir_policy_ops weir_weighted_round_robin_ops;
extern const struct weir_policy_ops weir_interleaved_ops;
extern const struct weir_policy_ops weir_time_weighted_ops;
extern const struct weir_policy_ops weir_fair_share_ops;
extern const struct weir_policy_ops weir_random_ops;
extern const struct weir_policy_ops weir_power_of_two_ops;
extern const struct weir_policy_ops weir_prequal_ops;

static inline uint32_t weir_policy_min(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

static inline uint64_t weir_policy_max64(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

// index < table->count. The id may be invalid.
static inline uint16_t weir_policy_id(const struct weir_policy_table *table, uint32_t index) {
	return __atomic_load_n(&table->candidates[index].id, __ATOMIC_RELAXED);
}

// index < table->count. The stride may be 0.
static inline uint16_t weir_policy_stride(const struct weir_policy_table *table, uint32_t index) {
	return __atomic_load_n(&table->candidates[index].stride, __ATOMIC_RELAXED);
}

static inline uint32_t weir_policy_next(const struct weir_policy_table *table, uint32_t index) {
	return index + 1 < table->count ? index + 1 : 0;
}

// Returns the cursor's index, below table->count.
static inline uint32_t weir_policy_cursor(
	const struct weir_policy_client *client, const struct weir_policy_table *table) {
	return client->cursor < table->count ? client->cursor : 0;
}

// index < table->count.
static inline void weir_policy_set_cursor(
	struct weir_policy_client *client, const struct weir_policy_table *table, uint32_t index) {
	client->cursor = index;
	client->cursor_id = weir_policy_id(table, index);
}

// Returns the initial index of this worker's cursor. Workers start at different candidates, if
// there are at least as many candidates as workers. table->count > 0.
static inline uint32_t weir_policy_start(
	const struct weir_policy_worker *worker, const struct weir_policy_table *table) {
	uint32_t ranks = worker->ranks > 0 ? worker->ranks : 1;

	return (uint32_t)((uint64_t)(worker->rank % ranks) * table->count / ranks);
}

// Returns whether the id is valid and the backend is below its limits.
static inline bool weir_policy_can_take(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint32_t id) {
	return id < worker->backend_count &&
	       (client->limits == 0 || weir_policy_below_limit(client, &worker->backends[id]));
}

// Call when a backend in slow start has a turn. Returns whether the backend gets a flow: true for
// the fraction `part` of its turns. (turns.c)
bool weir_policy_has_part(struct weir_policy_backend *backend);

// Returns whether a backend in slow start may get a flow. The backend may get at most `turns` times
// the mean number of flows of the candidates. (turns.c)
bool weir_policy_has_turns(const struct weir_policy_client *client,
	const struct weir_policy_table *table, struct weir_policy_backend *backend);

// Returns whether the backend uses its turn. Always true if the backend is not in slow start. id <
// backend_count.
static inline bool weir_policy_takes_turn(struct weir_policy_worker *worker, uint32_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];

	return __builtin_expect(backend->share.part == 0, 1) || weir_policy_has_part(backend);
}

// Returns whether the backend may get a flow. False only if the backend is in slow start and has
// already got as many flows as `turns` allows. id < backend_count.
static inline bool weir_policy_takes_flow(struct weir_policy_worker *worker,
	const struct weir_policy_client *client, const struct weir_policy_table *table,
	uint32_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];

	return __builtin_expect(backend->share.part == 0, 1) ||
	       weir_policy_has_turns(client, table, backend);
}

// Divides a load or cost by the `part` of a backend in slow start.
static inline uint64_t weir_policy_over_part(
	const struct weir_policy_backend *backend, uint64_t value) {
	if (__builtin_expect(backend->share.part == 0, 1)) {
		return value;
	}
	return value * WEIR_POLICY_PART_ONE / backend->share.part;
}

// Returns the predicted cost (service time) of a flow. id < backend_count. Only for policies with
// WEIR_NEEDS_COST.
static inline uint64_t weir_policy_cost(const struct weir_policy_worker *worker, uint32_t id) {
	uint64_t cost = weir_signal_cost(__atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED));

	cost = cost > 0 ? cost : WEIR_POLICY_UNKNOWN_COST_NS;
	return cost < WEIR_POLICY_COST_MAX_NS ? cost : WEIR_POLICY_COST_MAX_NS;
}

// Returns whether the service time of the backend, or of another backend of the service, is known.
// Any id is allowed.
static inline bool weir_policy_cost_is_known(const struct weir_policy_worker *worker, uint32_t id) {
	return id < worker->backend_count &&
	       weir_signal_cost(__atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED)) > 0;
}

// Returns the predicted cost of a flow, for policies whose turns last until quota_ns is used. While
// no cost is known, returns slightly more than half of the quota, so that a turn is two flows. If
// the cost were guessed, the first hundred flows might all go to one backend.
static inline uint64_t weir_policy_turn_cost(
	const struct weir_policy_worker *worker, uint32_t id, uint64_t quota_ns) {
	uint64_t cost = weir_signal_cost(__atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED));

	if (cost == 0) {
		return quota_ns / 2 + 1;
	}
	return cost < WEIR_POLICY_COST_MAX_NS ? cost : WEIR_POLICY_COST_MAX_NS;
}

// The output function of SplitMix64.
static inline uint64_t weir_policy_mix(uint64_t x) {
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

// Returns a random number from 0 to n - 1. n > 0.
static inline uint32_t weir_policy_uniform(struct weir_policy_worker *worker, uint32_t n) {
	worker->random += UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(((weir_policy_mix(worker->random) >> 32) * n) >> 32);
}
