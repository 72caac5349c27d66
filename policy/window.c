// SPDX-License-Identifier: BSD-3-Clause
#include "window.h"

#include <errno.h>
#include <stdlib.h>

#include "recent_errors.h"

#define BLOCKS (WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK) // number of blocks in a window
#define WINDOWS_MOST (WEIR_POLICY_EXACT / WEIR_POLICY_WINDOW) // maximum number of windows in a scan
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
_Static_assert(WEIR_POLICY_BLOCK == 16 && BLOCKS == 8, "the vector code assumes these sizes");
_Static_assert(BLOCKS *WINDOWS_MOST <= 64, "one bit per block must fit in 64 bits");

// --- memory ---------------------------------------------------------------------------------

#define RING_SHARE 3u // entries of the ring for each backend of the worker (window.h)

static uint32_t round_up(uint32_t places) {
	return (places + WEIR_POLICY_WINDOW - 1) / WEIR_POLICY_WINDOW * WEIR_POLICY_WINDOW;
}

static uint32_t ring_size(uint32_t backend_count) {
	return backend_count > WEIR_POLICY_WINDOW ? RING_SHARE * round_up(backend_count) : 0;
}

uint64_t weir_policy_windows_bytes(uint32_t backend_count) {
	const struct weir_policy_windows *all = NULL;
	uint64_t size = ring_size(backend_count);

	return size * (sizeof(all->key[0]) + sizeof(all->id[0])) +
	       size / WEIR_POLICY_BLOCK * sizeof(all->least[0]) +
	       size / WEIR_POLICY_WINDOW * sizeof(all->stamp[0]);
}

void weir_policy_windows_init(struct weir_policy_worker *worker, void *memory) {
	uint32_t size = ring_size(worker->backend_count);
	struct weir_policy_windows *all = &worker->windows;

	*all = (struct weir_policy_windows){.size = size,
		// Advancing the head invalidates all entries that clients allocated in the old
		// memory.
		.head = all->head + size,
		.stamps = all->stamps};
	if (size == 0) {
		return;
	}
	all->key = memory;
	all->least = &all->key[size];
	all->stamp = (uint64_t *)(void *)&all->least[size / WEIR_POLICY_BLOCK];
	all->id = (uint16_t *)(void *)&all->stamp[size / WEIR_POLICY_WINDOW];
}

int weir_policy_windows_alloc(struct weir_policy_worker *worker) {
	uint64_t bytes = weir_policy_windows_bytes(worker->backend_count);
	void *memory = bytes > 0 ? calloc(1, bytes) : NULL;

	if (memory == NULL && bytes > 0) {
		return -ENOMEM;
	}
	free(worker->windows.key);
	weir_policy_windows_init(worker, memory);
	return 0;
}

// Allocates the next entries of the ring to a client. The next entries are the entries that were
// allocated longest ago. room: number of entries, at most the size of the ring.
static void take_room(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint32_t room) {
	struct weir_policy_windows *all = &worker->windows;

	if (client->window_room == room && weir_window_is_intact(worker, client)) {
		return;
	}
	if (all->next + room > all->size) { // the rest of the ring is too short
		all->head += all->size - all->next;
		all->next = 0;
	}
	client->window_offset = all->next;
	client->window_at = all->head;
	client->window_room = room;
	all->next += room;
	all->head += room;
}

// --- loading --------------------------------------------------------------------------------

// Prefetches the backends, so that their cache misses overlap.
static void fetch_backends(const struct weir_policy_worker *worker,
	const struct weir_policy_table *table, uint32_t first, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint16_t id = weir_policy_id(table, first + i);

		if (id < worker->backend_count) {
			__builtin_prefetch(&worker->backends[id], 1);
		}
	}
}

// Assigns entry `index` to the candidate with this index (< table->count). Returns the candidate's
// key.
static uint32_t enter(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t index,
	uint16_t *ret_id) {
	uint16_t id = weir_policy_id(table, index);

	if (id >= worker->backend_count) {
		*ret_id = UINT16_MAX;
		return WEIR_POLICY_KEY_NONE;
	}
	*ret_id = id;
	worker->backends[id].index = (uint16_t)index;
	if (client->weighted != 0) {
		uint16_t factor = weir_policy_stride(table, index);

		worker->backends[id].factor = factor > 0 ? factor : 1;
	}
	if ((client->settings.needs & WEIR_NEEDS_ERRORS) != 0) {
		weir_errors_look(worker, id);
	}
	return weir_window_key(client, ops, &worker->backends[id]);
}

// Load the window that begins with candidate `first`.
static void load_window(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t first) {
	struct weir_window window = weir_window_of(worker, client, first);
	uint32_t end = weir_policy_min(client->window_count, table->count);
	uint32_t count = first < end ? weir_policy_min(end - first, WEIR_POLICY_WINDOW) : 0;

	fetch_backends(worker, table, first, count);
	for (uint32_t i = 0; i < count; i++) {
		window.key[i] = enter(worker, client, table, ops, first + i, &window.id[i]);
	}
	for (uint32_t i = count; i < WEIR_POLICY_WINDOW; i++) {
		window.key[i] = WEIR_POLICY_KEY_NONE;
		window.id[i] = UINT16_MAX;
	}
	for (uint32_t block = 0; block < BLOCKS; block++) {
		window.least[block] =
			weir_window_block_least(window.key + block * WEIR_POLICY_BLOCK);
	}
}

void weir_window_load(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops) {
	uint32_t most = worker->windows.size > 0 ? worker->windows.size : WEIR_POLICY_WINDOW;
	uint32_t count = weir_policy_min(table->count, most);

	client->window_count = count;
	if (count > WEIR_POLICY_WINDOW) {
		take_room(worker, client, round_up(count));
	}
	if (count > WEIR_POLICY_EXACT) {
		client->window_stamp = ++worker->windows.stamps;
		return;
	}
	for (uint32_t first = 0; first < count; first += WEIR_POLICY_WINDOW) {
		load_window(worker, client, table, ops, first);
	}
}

void weir_window_refresh_many(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint32_t place = backend->index;
	struct weir_window window;

	if (!weir_window_is_loaded(worker, client, place)) {
		return;
	}
	window = weir_window_of(worker, client, place);
	place %= WEIR_POLICY_WINDOW;
	if (window.id[place] == id) {
		weir_window_set_key(window, place, weir_window_key(client, ops, backend));
	}
}

// Updates the keys of all backends. If `look` is true, reads the signals of the backends first, and
// updates a key only if the signal has changed, or if the backend has errors, because they may have
// expired. If there are more than WEIR_POLICY_EXACT candidates, only marks their windows, so that
// they are loaded again when needed.
static void refresh_all(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops, bool look) {
	if (client->window_count > WEIR_POLICY_EXACT) {
		client->window_stamp = ++worker->windows.stamps;
		return;
	}
	for (uint32_t place = 0; weir_window_is_loaded(worker, client, place); place++) {
		uint16_t id = weir_window_of(worker, client, place).id[place % WEIR_POLICY_WINDOW];

		if (id < worker->backend_count && (!look || weir_errors_look(worker, id) ||
							  worker->backends[id].errors != 0)) {
			weir_window_refresh(worker, client, ops, id);
		}
	}
}

void weir_window_reload(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops) {
	refresh_all(worker, client, ops, false);
}

void weir_window_fit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops) {
	while (client->key_overflow != 0) {
		client->key_overflow = 0;
		client->key_shift++;
		refresh_all(worker, client, ops, false);
	}
}

void weir_window_tick(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_ops *ops) {
	refresh_all(worker, client, ops, true);
}

// --- scan -----------------------------------------------------------------------------------

#ifdef WEIR_WINDOW_VECTORS

// Returns the least key of the scanned windows. least[]: the minimum of each block.
static ALWAYS_INLINE uint32_t least_of_blocks(const uint32_t *least, uint32_t windows) {
	const __m128i *leasts = (const __m128i *)(const void *)least;
	__m128i a = _mm_min_epu32(leasts[0], leasts[1]);

	for (uint32_t i = 2; i < 2 * windows; i += 2) {
		a = _mm_min_epu32(a, _mm_min_epu32(leasts[i], leasts[i + 1]));
	}
	a = _mm_min_epu32(a, _mm_srli_si128(a, 8));
	a = _mm_min_epu32(a, _mm_srli_si128(a, 4));
	return (uint32_t)_mm_cvtsi128_si32(a);
}

static __m128i at_most(__m128i keys, __m128i most) {
	return _mm_cmpeq_epi32(_mm_min_epu32(keys, most), keys);
}

// Returns one bit for each block of a window, set if the minimum of the block is at most `most`.
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

static ALWAYS_INLINE uint32_t least_of_blocks(const uint32_t *least, uint32_t windows) {
	uint32_t result = UINT32_MAX;

	for (uint32_t i = 0; i < windows * BLOCKS; i++) {
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

// The range that a choice scans: one window, or several consecutive windows.
struct scan {
	uint32_t *key, *least;
	uint32_t first; // index of the first entry of the range
	uint32_t windows;
};

static inline struct scan scan_of(const struct weir_policy_worker *worker,
	struct weir_policy_client *client, uint32_t place) {
	uint32_t windows = (client->window_count + WEIR_POLICY_WINDOW - 1) / WEIR_POLICY_WINDOW;
	bool all = windows <= WINDOWS_MOST;
	uint32_t first = all ? 0 : place / WEIR_POLICY_WINDOW * WEIR_POLICY_WINDOW;
	struct weir_window window = weir_window_of(worker, client, first);

	return (struct scan){.key = window.key,
		.least = window.least,
		.first = first,
		.windows = all ? windows : 1};
}

// Returns the index of the first entry at or after the cursor whose key is at most `most`. Such
// an entry must exist. The search wraps around at the end of the range. The search begins in the
// cursor's block, from the cursor on, and continues in the next block that contains such a key,
// which may be the cursor's block again. The code has no branches, because the CPU could not
// predict them.
static ALWAYS_INLINE uint32_t find_first(
	const struct scan *scan, uint32_t windows, uint32_t most, uint32_t cursor) {
	uint32_t at = cursor - scan->first;
	uint32_t block = at / WEIR_POLICY_BLOCK;
	uint32_t ahead = UINT32_MAX << at % WEIR_POLICY_BLOCK;
	uint32_t here = keys_at_most(&scan->key[block * WEIR_POLICY_BLOCK], most) & ahead;
	uint32_t elsewhere = 0 - (uint32_t)(here == 0);
	uint64_t blocks = 0, later;
	uint32_t next;

	for (uint32_t i = 0; i < windows; i++) {
		blocks |= (uint64_t)blocks_at_most(&scan->least[i * BLOCKS], most) << i * BLOCKS;
	}
	later = blocks & UINT64_MAX << block << 1;
	next = (uint32_t)__builtin_ctzll(later != 0 ? later : blocks);
	block ^= (block ^ next) & elsewhere;
	here = keys_at_most(&scan->key[block * WEIR_POLICY_BLOCK], most) & (ahead | elsewhere);
	return scan->first + block * WEIR_POLICY_BLOCK + (uint32_t)__builtin_ctz(here);
}

// Returns the index of an entry with the least max(key, floor): the first entry at or after the
// cursor whose key is at most max(least key, floor).
static ALWAYS_INLINE uint32_t least_of_windows(const struct scan *scan, uint32_t windows,
	uint32_t floor, uint32_t cursor, uint32_t *ret_least) {
	uint32_t least = least_of_blocks(scan->least, windows);

	if (least == WEIR_POLICY_KEY_NONE) {
		return WEIR_POLICY_NONE;
	}
	least = least > floor ? least : floor;
	*ret_least = least;
	return find_first(scan, windows, least, cursor);
}

static uint32_t least_of_scan(
	const struct scan *scan, uint32_t floor, uint32_t cursor, uint32_t *ret_least) {
	// With a constant number of windows, the compiler generates no loop.
	return scan->windows == 1 ? least_of_windows(scan, 1, floor, cursor, ret_least)
				  : least_of_windows(scan, scan->windows, floor, cursor, ret_least);
}

// For more than WEIR_POLICY_EXACT candidates: finds the best candidate in each of two windows, and
// returns the index of the better candidate. If neither window is loaded, loads and uses only the
// window of the cursor.
static NOINLINE uint32_t least_of_two(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table,
	const struct weir_policy_ops *ops, uint32_t floor, uint32_t *ret_least) {
	uint32_t place[2], of_window[2], found;
	struct scan scan[2];

	if (!weir_window_is_intact(worker, client)) {
		weir_window_load(worker, client, table, ops);
	}
	place[0] = client->cursor < client->window_count ? client->cursor : 0;
	place[1] = weir_policy_uniform(worker, client->window_count);
	scan[0] = scan_of(worker, client, place[0]);
	scan[1] = scan_of(worker, client, place[1]);
	for (uint32_t i = 0, loaded = 0; i < 2; i++) {
		uint64_t *stamp = weir_window_stamp(worker, client, scan[i].first);

		of_window[i] = WEIR_POLICY_KEY_NONE;
		if (*stamp != client->window_stamp && loaded++ == 0) {
			load_window(worker, client, table, ops, scan[i].first);
			*stamp = client->window_stamp;
		}
		if (*stamp == client->window_stamp) {
			of_window[i] = least_of_blocks(scan[i].least, 1);
			of_window[i] = of_window[i] > floor ? of_window[i] : floor;
		}
	}
	found = of_window[1] < of_window[0];
	found = least_of_windows(&scan[found], 1, floor, place[found], ret_least);
	if (found == WEIR_POLICY_NONE) { // all backends of the cursor's window are at their limit
		uint32_t next = scan[0].first + WEIR_POLICY_WINDOW;

		weir_policy_set_cursor(client, table, next < table->count ? next : 0);
	}
	return found;
}

// Scans all windows of a client with 2 to WINDOWS_MOST windows.
static NOINLINE uint32_t least_of_several(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table,
	const struct weir_policy_ops *ops, uint32_t floor, uint32_t *ret_least) {
	struct scan scan;

	if (!weir_window_is_intact(worker, client)) {
		weir_window_load(worker, client, table, ops);
	}
	scan = scan_of(worker, client, 0);
	return least_of_windows(&scan, scan.windows, floor,
		client->cursor < client->window_count ? client->cursor : 0, ret_least);
}

uint32_t weir_window_least(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, const struct weir_policy_ops *ops, uint32_t floor,
	uint32_t *ret_least) {
	struct scan scan = {.key = client->key, .least = client->least};

	if (client->window_count > WEIR_POLICY_EXACT) {
		return least_of_two(worker, client, table, ops, floor, ret_least);
	}
	if (client->window_count > WEIR_POLICY_WINDOW) {
		return least_of_several(worker, client, table, ops, floor, ret_least);
	}
	return least_of_windows(&scan, 1, floor, client->cursor % WEIR_POLICY_WINDOW, ret_least);
}

#define PASSED_MOST 32u

static void set_key(const struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint32_t place, uint32_t key) {
	weir_window_set_key(weir_window_of(worker, client, place), place % WEIR_POLICY_WINDOW, key);
}

uint32_t weir_window_pass_over(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, weir_window_takes *takes, uint32_t place,
	uint32_t floor, uint32_t *ret_least) {
	struct scan scan = scan_of(worker, client, place);
	uint32_t cursor = client->cursor - scan.first < scan.windows * WEIR_POLICY_WINDOW
				  ? client->cursor
				  : place;
	struct {
		uint32_t place, key;
	} passed[PASSED_MOST];
	uint32_t count = 0, found = place, least = *ret_least;

	do {
		passed[count].place = found;
		passed[count++].key =
			weir_window_of(worker, client, found).key[found % WEIR_POLICY_WINDOW];
		set_key(worker, client, found, WEIR_POLICY_KEY_NONE);
		found = least_of_scan(&scan, floor, cursor, &least);
	} while (found != WEIR_POLICY_NONE && count < PASSED_MOST &&
		 !weir_window_place_takes(worker, client, table, takes, found, floor));
	for (uint32_t i = 0; i < count; i++) {
		set_key(worker, client, passed[i].place, passed[i].key);
	}
	if (found == WEIR_POLICY_NONE) {
		return place;
	}
	*ret_least = least;
	return found;
}

uint32_t weir_window_take(const struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint32_t place) {
	uint32_t count = client->window_count;
	uint32_t next = place + 1 < count ? place + 1 : 0;

	if (count <= WEIR_POLICY_WINDOW) {
		client->cursor = next;
		client->cursor_id = client->id[next];
		return client->id[place];
	}
	if (count <= WEIR_POLICY_EXACT) {
		client->cursor = next;
		client->cursor_id = weir_window_id(worker, client, next);
		return weir_window_id(worker, client, place);
	}
	// If the chosen entry is in the window of the cursor, and not before the cursor, the cursor
	// moves to the entry after it. Otherwise the cursor advances by one, so that it does not
	// jump back or to a random window.
	if (place < client->cursor ||
		place / WEIR_POLICY_WINDOW != client->cursor / WEIR_POLICY_WINDOW) {
		next = client->cursor + 1 < count ? client->cursor + 1 : 0;
	}
	weir_policy_set_cursor(client, table, next);
	return weir_window_id(worker, client, place);
}
