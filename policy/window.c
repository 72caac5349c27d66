// SPDX-License-Identifier: BSD-3-Clause
#include "window.h"

#if defined(__SSE4_1__)
#include <smmintrin.h>
#endif

#define PLACE_MASK (WEIR_POLICY_WINDOW - 1)
#define BLOCK 16u // places that a scan takes at a time
_Static_assert((WEIR_POLICY_WINDOW & PLACE_MASK) == 0, "power of two");
_Static_assert(WEIR_POLICY_WINDOW == 128, "two words of bits");

static void clear_place(struct weir_policy_client *client, uint32_t place) {
	client->id[place] = UINT16_MAX;
	client->key[place] = WEIR_POLICY_KEY_NONE;
}

// index < table->count.
static void enter(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t index,
	uint32_t place) {
	uint16_t id = weir_policy_id(table, index);

	if (id >= worker->backend_count) {
		clear_place(client, place);
		return;
	}
	client->id[place] = id;
	worker->backends[id].place = (uint16_t)place;
	weir_window_refresh(worker, client, ops, id);
}

void weir_window_load(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops) {
	uint32_t index = 0;

	client->window_count = weir_policy_min(table->count, WEIR_POLICY_WINDOW);
	client->window_place = 0;
	if (table->count > WEIR_POLICY_WINDOW) {
		index = weir_policy_cursor(client, table);
		client->cursor = 0;
	}
	for (uint32_t place = 0; place < client->window_count; place++) {
		enter(worker, client, table, ops, index, place);
		index = weir_policy_next(table, index);
	}
	for (uint32_t place = client->window_count; place < WEIR_POLICY_WINDOW; place++) {
		clear_place(client, place);
	}
	client->window_next = index;
}

uint32_t weir_window_cursor_index(const struct weir_policy_client *client) {
	uint32_t oldest = client->window_next - WEIR_POLICY_WINDOW; // at window_place
	uint32_t index;

	if (client->count <= WEIR_POLICY_WINDOW) {
		return client->cursor;
	}
	if (client->window_next < WEIR_POLICY_WINDOW) {
		oldest += client->count;
	}
	index = oldest + ((client->cursor - client->window_place) & PLACE_MASK);
	return index < client->count ? index : index - client->count;
}

void weir_window_reload(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops) {
	for (uint32_t place = 0; place < client->window_count; place++) {
		if (client->id[place] < worker->backend_count) {
			weir_window_refresh(worker, client, ops, client->id[place]);
		}
	}
}

#if defined(__SSE4_1__) && !defined(WEIR_WINDOW_PORTABLE)

static __m128i keys_at(const uint32_t *key) {
	return _mm_load_si128((const __m128i *)(const void *)key);
}

static uint32_t find_least(const uint32_t *key, uint32_t places) {
	__m128i a = _mm_set1_epi32(-1);
	__m128i b = a, c = a, d = a;

	for (uint32_t i = 0; i < places; i += BLOCK) {
		a = _mm_min_epu32(a, keys_at(&key[i]));
		b = _mm_min_epu32(b, keys_at(&key[i + 4]));
		c = _mm_min_epu32(c, keys_at(&key[i + 8]));
		d = _mm_min_epu32(d, keys_at(&key[i + 12]));
	}
	a = _mm_min_epu32(_mm_min_epu32(a, b), _mm_min_epu32(c, d));
	a = _mm_min_epu32(a, _mm_srli_si128(a, 8));
	a = _mm_min_epu32(a, _mm_srli_si128(a, 4));
	return (uint32_t)_mm_cvtsi128_si32(a);
}

static __m128i at_most(const uint32_t *key, __m128i most) {
	__m128i keys = keys_at(key);

	return _mm_cmpeq_epi32(_mm_min_epu32(keys, most), keys);
}

// The first bit at or after the cursor, cyclic. One is set.
static uint32_t first_from(const uint64_t bits[2], uint32_t cursor) {
	uint32_t half = cursor / 64;
	uint64_t ahead = bits[half] >> cursor % 64;

	if (ahead != 0) {
		return cursor + (uint32_t)__builtin_ctzll(ahead);
	}
	// The other half, and then what lies before the cursor in this one.
	half = bits[half ^ 1] != 0 ? half ^ 1 : half;
	return half * 64 + (uint32_t)__builtin_ctzll(bits[half]);
}

static uint32_t find_first(const uint32_t *key, uint32_t places, uint32_t most, uint32_t cursor) {
	uint64_t bits[WEIR_POLICY_WINDOW / 64] = {0, 0};
	__m128i mosts = _mm_set1_epi32((int)most);

	for (uint32_t i = 0; i < places; i += BLOCK) {
		__m128i low = _mm_packs_epi32(at_most(&key[i], mosts), at_most(&key[i + 4], mosts));
		__m128i high =
			_mm_packs_epi32(at_most(&key[i + 8], mosts), at_most(&key[i + 12], mosts));
		uint64_t mask = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));

		bits[i / 64] |= mask << i % 64;
	}
	return first_from(bits, cursor);
}

#else

// The same in plain loops over whole vectors, of lengths known to the compiler, which turns them
// into vector instructions.
static uint32_t find_least(const uint32_t *key, uint32_t places) {
	uint32_t least = UINT32_MAX;

	(void)places;
	for (uint32_t i = 0; i < WEIR_POLICY_WINDOW; i++) {
		least = key[i] < least ? key[i] : least;
	}
	return least;
}

static uint32_t find_first(const uint32_t *key, uint32_t places, uint32_t most, uint32_t cursor) {
	uint32_t nearest = UINT32_MAX;

	(void)places;
	for (uint32_t i = 0; i < WEIR_POLICY_WINDOW; i++) {
		uint32_t distance = (i - cursor) & PLACE_MASK;

		distance |= key[i] <= most ? 0 : UINT32_MAX;
		nearest = distance < nearest ? distance : nearest;
	}
	return (cursor + nearest) & PLACE_MASK;
}

#endif

// max(key, floor) is the least where the key is at most max(least key, floor).
uint32_t weir_window_least(
	const struct weir_policy_client *client, uint32_t floor, uint32_t *ret_least) {
	uint32_t places = (client->window_count + BLOCK - 1) / BLOCK * BLOCK;
	uint32_t least = find_least(client->key, places);

	if (least == WEIR_POLICY_KEY_NONE) {
		return WEIR_POLICY_NONE;
	}
	least = least > floor ? least : floor;
	*ret_least = least;
	return find_first(client->key, places, least, client->cursor & PLACE_MASK);
}

static void slide(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops) {
	uint32_t index = client->window_next < table->count ? client->window_next : 0;
	uint16_t ahead;

	enter(worker, client, table, ops, index, client->window_place);
	client->window_place = (client->window_place + 1) & PLACE_MASK;
	client->window_next = weir_policy_next(table, index);
	ahead = weir_policy_id(table, client->window_next);
	if (ahead < worker->backend_count) {
		__builtin_prefetch(&worker->backends[ahead]);
	}
}

uint32_t weir_window_take(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t place) {
	uint32_t id = client->id[place];

	client->cursor = place + 1 < client->window_count ? place + 1 : 0;
	client->cursor_id = client->id[client->cursor];
	if (table->count > WEIR_POLICY_WINDOW) {
		slide(worker, client, table, ops);
	}
	return id;
}
