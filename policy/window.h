// SPDX-License-Identifier: BSD-3-Clause
//
// The window of a scanning policy: up to WEIR_POLICY_WINDOW candidates, with their keys in
// contiguous memory for a fast scan. With more candidates, it slides by one after each choice, so
// that each candidate stays for WEIR_POLICY_WINDOW choices. Used by policy.c and the policies that
// scan.
//
// Threads: as policy.h. Code that changes an input of a key must update the key:
// weir_window_refresh.
#pragma once

#if defined(__SSE4_1__) && !defined(WEIR_WINDOW_PORTABLE)
#include <smmintrin.h>
#define WEIR_WINDOW_VECTORS
#endif

#include "policy_private.h"

// Load the window from the cursor of the new table on.
void weir_window_load(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops);

// The candidate at the cursor, in the table that the window was loaded from.
uint32_t weir_window_cursor_index(const struct weir_policy_client *client);

// Recompute all keys.
void weir_window_reload(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops);

// The place of the least max(key, floor) among those below the limit; of several, the first one at
// or after the cursor. WEIR_POLICY_NONE if all are at their limit; ret_least is untouched then.
// floor < WEIR_POLICY_KEY_NONE.
uint32_t weir_window_least(
	const struct weir_policy_client *client, uint32_t floor, uint32_t *ret_least);

// Whether the backend at a place takes a flow, with regard to slow start.
typedef bool weir_window_takes(struct weir_policy_worker *worker,
	const struct weir_policy_client *client, const struct weir_policy_table *table,
	uint32_t place, uint32_t floor);

// The backend at `place`, which has the least key, skips a flow in slow start: returns the next
// best place whose backend does not skip it. `place` itself if there is none.
uint32_t weir_window_pass_over(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, weir_window_takes *takes, uint32_t place,
	uint32_t floor, uint32_t *ret_least);

// The place was chosen: advance the cursor and the window. Returns the backend's id.
uint32_t weir_window_take(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t place);

// Write an element of an array that is read as vectors, with a vector store: a vector load after a
// narrow store would stall until the store reaches the cache.
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

// The least of a block's keys.
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
static inline void weir_window_set_key(
	struct weir_policy_client *client, uint32_t place, uint32_t key) {
	uint32_t block = place / WEIR_POLICY_BLOCK;

	weir_window_put(client->key, place, key);
	weir_window_put(client->least, block,
		weir_window_block_least(&client->key[block * WEIR_POLICY_BLOCK]));
}

// Backend id (< backend_count) has changed.
static inline void weir_window_refresh(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_ops *ops, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint32_t place = backend->place;

	if (place < client->window_count && client->id[place] == id) {
		weir_window_set_key(client, place,
			weir_policy_below_limit(client, backend) ? ops->key(client, backend)
								 : WEIR_POLICY_KEY_NONE);
	}
}
