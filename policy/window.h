// SPDX-License-Identifier: BSD-3-Clause
//
// The keys of candidates, for policies that choose the candidate with the least key. The keys are
// in contiguous memory for a fast scan: entry p (`place` in the code) is the key of candidate p.
// Used by policy.c, shared_limit.c and by these policies.
//
//   up to WEIR_POLICY_WINDOW candidates  the keys are in the client
//   up to WEIR_POLICY_EXACT              the keys are in worker->windows; a choice takes the
//                                        candidate with the least key
//   more                                 the candidates are divided into windows of
//                                        WEIR_POLICY_WINDOW entries. A choice compares two
//                                        windows and takes the better candidate. One window is at
//                                        the cursor, which each choice advances by at least one
//                                        candidate; the other window is random. After a
//                                        publication, a window is loaded when a choice needs it
//                                        for the first time, and a choice loads at most one
//                                        window.
//
// worker->windows is a ring: a client that needs room allocates the next entries, and overwrites
// the entries that were allocated longest ago. The client that used these entries before detects
// this from their age, and loads its keys again at its next choice. Entries are never released,
// so no cleanup is needed when a service is removed or changes its policy. The ring has three
// entries for each of the worker's backends. A service in the ring has more than
// WEIR_POLICY_WINDOW candidates. Rounded up to whole windows, a service needs fewer than two
// entries per candidate, so that all services together need at most two thirds of the ring. For
// each entry that a client allocates, other clients load at most two entries again.
//
// Threads: as in policy.h. Code that changes an input of a key must call weir_window_refresh to
// update the key.
#pragma once

#if defined(__SSE4_1__) && !defined(WEIR_WINDOW_PORTABLE)
#include <smmintrin.h>
#define WEIR_WINDOW_VECTORS
#endif

#include "policy_private.h"

// The arrays of one window.
struct weir_window {
	uint32_t *key; // [WEIR_POLICY_WINDOW]
	uint32_t *least; // [WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK]
	uint16_t *id; // [WEIR_POLICY_WINDOW]
};

// Load the keys of all candidates of a table; with more than WEIR_POLICY_EXACT candidates, each
// window is loaded when it is needed. worker->windows always has room for worker->backend_count
// candidates; further candidates are left out.
void weir_window_load(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops);

// Recompute all keys; with more than WEIR_POLICY_EXACT candidates, each window is loaded again when
// it is needed.
void weir_window_reload(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops);

// If a product of load and factor did not fit into its key, makes all keys coarser until every
// product fits. Until then, keys that do not fit are equal.
void weir_window_fit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops);

// Read the signals of all backends, and recompute the keys of backends that have errors or whose
// signal has changed; with more than WEIR_POLICY_EXACT candidates, each window is loaded again when
// it is needed.
void weir_window_tick(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops);

// Returns the index of the entry with the least max(key, floor) among backends below their limit;
// with more than WEIR_POLICY_EXACT candidates, among the entries of two windows. If several entries
// are equal, returns the first of them at or after the cursor or, in a random window, at or after a
// random entry. If all compared backends are at their limit, returns WEIR_POLICY_NONE and leaves
// ret_least unchanged. floor < WEIR_POLICY_KEY_NONE. table: the loaded table.
uint32_t weir_window_least(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t floor,
	uint32_t *ret_least);

// Returns false if backend `id` must skip a flow because of its slow start. waits: the backend's
// key is above the floor.
typedef bool weir_window_takes(struct weir_policy_worker *worker,
	const struct weir_policy_client *client, const struct weir_policy_table *table, uint16_t id,
	bool waits);

// Call when the backend of entry `place`, which has the least key, skips a flow because of its slow
// start. Returns the index of the next best entry whose backend does not skip the flow, or `place`
// if every other backend skips it or is at its limit. After 32 skips, returns the next best entry
// even if its backend must skip the flow. With more than WEIR_POLICY_EXACT candidates, only the
// window of `place` is searched.
uint32_t weir_window_pass_over(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, weir_window_takes *takes, uint32_t place,
	uint32_t floor, uint32_t *ret_least);

// Advance the cursor after a choice of entry `place`. Returns the backend's id.
uint32_t weir_window_take(const struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint32_t place);

// Writes an element of an array that is read as vectors. Uses a vector store, because a vector load
// soon after a narrow store would stall until the store reaches the cache.
static inline void weir_window_put(uint32_t *array, uint32_t index, uint32_t value) {
#ifdef WEIR_WINDOW_VECTORS
	__m128i *four = (__m128i *)(void *)&array[index & ~3u];
	__m128i lane =
		_mm_cmpeq_epi32(_mm_set1_epi32((int)(index & 3)), _mm_setr_epi32(0, 1, 2, 3));

	*four = _mm_blendv_epi8(*four, _mm_set1_epi32((int)value), lane);
#else
	array[index] = value;
#endif
}

// Returns the least key of a block.
static inline uint32_t weir_window_block_least(const uint32_t key[WEIR_POLICY_BLOCK]) {
#ifdef WEIR_WINDOW_VECTORS
	const __m128i *keys = (const __m128i *)(const void *)key;
	__m128i least =
		_mm_min_epu32(_mm_min_epu32(keys[0], keys[1]), _mm_min_epu32(keys[2], keys[3]));

	least = _mm_min_epu32(least, _mm_srli_si128(least, 8));
	least = _mm_min_epu32(least, _mm_srli_si128(least, 4));
	return (uint32_t)_mm_cvtsi128_si32(least);
#else
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < WEIR_POLICY_BLOCK; i++) {
		least = key[i] < least ? key[i] : least;
	}
	return least;
#endif
}

// place < WEIR_POLICY_WINDOW.
static inline void weir_window_set_key(struct weir_window window, uint32_t place, uint32_t key) {
	uint32_t block = place / WEIR_POLICY_BLOCK;

	weir_window_put(window.key, place, key);
	weir_window_put(window.least, block,
		weir_window_block_least(window.key + block * WEIR_POLICY_BLOCK));
}

// Returns the window that contains entry `place` (< client->window_count). In the window, the index
// of the entry is place % WEIR_POLICY_WINDOW.
static inline struct weir_window weir_window_of(const struct weir_policy_worker *worker,
	struct weir_policy_client *client, uint32_t place) {
	const struct weir_policy_windows *all = &worker->windows;
	uint32_t at = client->window_offset + place / WEIR_POLICY_WINDOW * WEIR_POLICY_WINDOW;

	if (client->window_count <= WEIR_POLICY_WINDOW) {
		return (struct weir_window){
			.key = client->key, .least = client->least, .id = client->id};
	}
	return (struct weir_window){.key = &all->key[at],
		.least = &all->least[at / WEIR_POLICY_BLOCK],
		.id = &all->id[at]};
}

static inline uint16_t weir_window_id(const struct weir_policy_worker *worker,
	struct weir_policy_client *client, uint32_t place) {
	return weir_window_of(worker, client, place).id[place % WEIR_POLICY_WINDOW];
}

// Returns false if the backend of entry `place` must skip a flow because of its slow start.
static inline bool weir_window_place_takes(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table,
	weir_window_takes *takes, uint32_t place, uint32_t floor) {
	struct weir_window window = weir_window_of(worker, client, place);

	place %= WEIR_POLICY_WINDOW;
	return takes(worker, client, table, window.id[place], window.key[place] > floor);
}

// Returns false if another client has overwritten this client's entries in worker->windows.
static inline bool weir_window_is_intact(
	const struct weir_policy_worker *worker, const struct weir_policy_client *client) {
	return worker->windows.head - client->window_at <= worker->windows.size;
}

// Returns the stamp of the window that contains entry `place`. With more than WEIR_POLICY_EXACT
// candidates, a window is loaded only if its stamp is client->window_stamp.
static inline uint64_t *weir_window_stamp(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint32_t place) {
	return &worker->windows.stamp[(client->window_offset + place) / WEIR_POLICY_WINDOW];
}

// Returns whether the key of entry `place` is loaded.
static inline bool weir_window_is_loaded(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint32_t place) {
	if (place >= client->window_count) {
		return false;
	}
	return client->window_count <= WEIR_POLICY_WINDOW ||
	       (weir_window_is_intact(worker, client) &&
		       (client->window_count <= WEIR_POLICY_EXACT ||
			       *weir_window_stamp(worker, client, place) == client->window_stamp));
}

static inline uint32_t weir_window_key(struct weir_policy_client *client,
	const struct weir_policy_ops *ops, struct weir_policy_backend *backend) {
	return weir_policy_below_limit(client, backend) ? ops->key(client, backend)
							: WEIR_POLICY_KEY_NONE;
}

// Like weir_window_refresh, for a client whose keys are in worker->windows.
void weir_window_refresh_many(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops, uint16_t id);

// Update the key of backend id (< backend_count) after a change of its inputs.
static inline void weir_window_refresh(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_ops *ops, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint32_t place = backend->index;

	if (client->window_count > WEIR_POLICY_WINDOW) {
		weir_window_refresh_many(worker, client, ops, id);
	} else if (place < client->window_count && client->id[place] == id) {
		weir_window_set_key(
			(struct weir_window){.key = client->key, .least = client->least}, place,
			weir_window_key(client, ops, backend));
	}
}
