// SPDX-License-Identifier: BSD-3-Clause
#include "window.h"

#include "recent_errors.h"

#define PLACE_MASK (WEIR_POLICY_WINDOW - 1)
#define BLOCKS (WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK)
_Static_assert((WEIR_POLICY_WINDOW & PLACE_MASK) == 0, "power of two");
_Static_assert(WEIR_POLICY_BLOCK == 16 && BLOCKS == 8, "vectors, and a byte of bits");

static void clear_place(struct weir_policy_client *client, uint32_t place) {
	client->id[place] = UINT16_MAX;
	weir_window_set_key(client, place, WEIR_POLICY_KEY_NONE);
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
	worker->backends[id].place = (uint8_t)place;
	if ((client->settings.needs & WEIR_NEEDS_ERRORS) != 0) {
		weir_errors_look(worker, id);
	}
	weir_window_refresh(worker, client, ops, id);
}

// Issue all cache misses at once, not one after the other.
static void fetch_window(const struct weir_policy_worker *worker,
	const struct weir_policy_table *table, uint32_t index, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint16_t id = weir_policy_id(table, index);

		if (id < worker->backend_count) {
			__builtin_prefetch(&worker->backends[id], 1);
		}
		index = weir_policy_next(table, index);
	}
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
	fetch_window(worker, table, index, client->window_count);
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

#ifdef WEIR_WINDOW_VECTORS

static uint32_t least_of_blocks(const uint32_t least[BLOCKS]) {
	const __m128i *leasts = (const __m128i *)(const void *)least;
	__m128i a = _mm_min_epu32(leasts[0], leasts[1]);

	a = _mm_min_epu32(a, _mm_srli_si128(a, 8));
	a = _mm_min_epu32(a, _mm_srli_si128(a, 4));
	return (uint32_t)_mm_cvtsi128_si32(a);
}

static __m128i at_most(__m128i keys, __m128i most) {
	return _mm_cmpeq_epi32(_mm_min_epu32(keys, most), keys);
}

// One bit for each key that is at most `most`.
static uint32_t blocks_at_most(const uint32_t least[BLOCKS], uint32_t most) {
	const __m128i *leasts = (const __m128i *)(const void *)least;
	__m128i mosts = _mm_set1_epi32((int)most);
	__m128i both = _mm_packs_epi32(at_most(leasts[0], mosts), at_most(leasts[1], mosts));

	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(both, _mm_setzero_si128()));
}

static uint32_t keys_at_most(const uint32_t key[WEIR_POLICY_BLOCK], uint32_t most) {
	const __m128i *keys = (const __m128i *)(const void *)key;
	__m128i mosts = _mm_set1_epi32((int)most);
	__m128i low = _mm_packs_epi32(at_most(keys[0], mosts), at_most(keys[1], mosts));
	__m128i high = _mm_packs_epi32(at_most(keys[2], mosts), at_most(keys[3], mosts));

	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high));
}

#else

static uint32_t least_of_blocks(const uint32_t least[BLOCKS]) {
	uint32_t result = UINT32_MAX;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		result = least[i] < result ? least[i] : result;
	}
	return result;
}

static uint32_t blocks_at_most(const uint32_t least[BLOCKS], uint32_t most) {
	uint32_t bits = 0;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		bits |= (uint32_t)(least[i] <= most) << i;
	}
	return bits;
}

static uint32_t keys_at_most(const uint32_t key[WEIR_POLICY_BLOCK], uint32_t most) {
	uint32_t bits = 0;

	for (uint32_t i = 0; i < WEIR_POLICY_BLOCK; i++) {
		bits |= (uint32_t)(key[i] <= most) << i;
	}
	return bits;
}

#endif

// The first place at or after the cursor, cyclic, whose key is at most `most`. It exists. The
// cursor's own block is searched first, from the cursor on, then the next block with such a key,
// which may be the same block. The result is unpredictable, so there is no branch.
static uint32_t find_first(
	const struct weir_policy_client *client, uint32_t most, uint32_t cursor) {
	uint32_t block = cursor / WEIR_POLICY_BLOCK;
	uint32_t ahead = UINT32_MAX << cursor % WEIR_POLICY_BLOCK;
	uint32_t blocks = blocks_at_most(client->least, most);
	uint32_t here = keys_at_most(&client->key[block * WEIR_POLICY_BLOCK], most) & ahead;
	uint32_t later = (blocks | blocks << BLOCKS) >> (block + 1);
	uint32_t next = (block + 1 + (uint32_t)__builtin_ctz(later)) % BLOCKS;
	uint32_t elsewhere = 0 - (uint32_t)(here == 0);

	block ^= (block ^ next) & elsewhere;
	here = keys_at_most(&client->key[block * WEIR_POLICY_BLOCK], most) & (ahead | elsewhere);
	return block * WEIR_POLICY_BLOCK + (uint32_t)__builtin_ctz(here);
}

// max(key, floor) is minimal where the key is at most max(least key, floor).
uint32_t weir_window_least(
	const struct weir_policy_client *client, uint32_t floor, uint32_t *ret_least) {
	uint32_t least = least_of_blocks(client->least);

	if (least == WEIR_POLICY_KEY_NONE) {
		return WEIR_POLICY_NONE;
	}
	least = least > floor ? least : floor;
	*ret_least = least;
	return find_first(client, least, client->cursor & PLACE_MASK);
}

#define PASSED_MOST 32u

uint32_t weir_window_pass_over(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, weir_window_takes *takes, uint32_t place,
	uint32_t floor, uint32_t *ret_least) {
	struct {
		uint32_t place, key;
	} passed[PASSED_MOST];
	uint32_t count = 0, found = place, least = *ret_least;

	do {
		passed[count].place = found;
		passed[count++].key = client->key[found];
		weir_window_set_key(client, found, WEIR_POLICY_KEY_NONE);
		found = weir_window_least(client, floor, &least);
	} while (found != WEIR_POLICY_NONE && count < PASSED_MOST &&
		 !takes(worker, client, table, found, floor));
	for (uint32_t i = 0; i < count; i++) {
		weir_window_set_key(client, passed[i].place, passed[i].key);
	}
	if (found == WEIR_POLICY_NONE) {
		return place;
	}
	*ret_least = least;
	return found;
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
