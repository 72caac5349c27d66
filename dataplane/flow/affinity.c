// SPDX-License-Identifier: BSD-3-Clause
#include "affinity.h"

#include <errno.h>

#include <rte_branch_prediction.h>
#include <rte_malloc.h>

// Fields of an entry, from the highest bit, with their bits: tag 26, proven 1, expiry 21, backend
// 16. An entry of 0 is free. The expiry is in ticks of 2^29 ns (0.54 s). Ticks are compared modulo
// 2^21, so an expiry can be at most 2^20 ticks (6.5 days) in the future.
#define BACKEND_BITS 16
#define EXPIRY_BITS 21
#define EXPIRY_MASK ((1u << EXPIRY_BITS) - 1)
#define PROVEN (1ull << (BACKEND_BITS + EXPIRY_BITS))
#define TAG_SHIFT (BACKEND_BITS + EXPIRY_BITS + 1)
#define TICK_SHIFT 29
#define TRIES 4
#define SWEPT 64u // buckets per call of sweep: 2^20 buckets in less than 5 hours

int weir_affinity_create(
	uint32_t entries, uint64_t secret, int socket, struct weir_affinity **ret) {
	const uint32_t buckets = (entries + WEIR_AFFINITY_WAYS - 1) / WEIR_AFFINITY_WAYS;
	struct weir_affinity *table;

	if (entries == 0) {
		return -EINVAL;
	}
	table = rte_zmalloc_socket("affinity", weir_affinity_bytes(entries), 64, socket);
	if (table == NULL) {
		return -ENOMEM;
	}
	table->secret = secret;
	table->buckets = buckets;
	*ret = table;
	return 0;
}

void weir_affinity_free(struct weir_affinity *table) {
	rte_free(table);
}

uint64_t weir_affinity_bytes(uint32_t entries) {
	return sizeof(struct weir_affinity) +
	       (uint64_t)(entries + WEIR_AFFINITY_WAYS - 1) / WEIR_AFFINITY_WAYS * 64;
}

static uint32_t tick_of(uint64_t now_ns) {
	return (uint32_t)(now_ns >> TICK_SHIFT) & EXPIRY_MASK;
}

static uint64_t load(const uint64_t *entry) {
	return __atomic_load_n(entry, __ATOMIC_RELAXED);
}

static bool replace(uint64_t *entry, uint64_t before, uint64_t after) {
	return __atomic_compare_exchange_n(
		entry, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static bool is_live(uint64_t entry, uint32_t tick) {
	const uint32_t left = ((uint32_t)(entry >> BACKEND_BITS) - tick) & EXPIRY_MASK;

	return entry != 0 && left <= EXPIRY_MASK / 2;
}

static uint16_t backend_of(uint64_t entry) {
	return (uint16_t)entry;
}

// Returns the tag of a source: the low 26 bits of its hash. The bucket of the source is computed
// from the high bits. The tag is never 0, because an entry with the value 0 is free.
static uint64_t tag_of(uint64_t hash) {
	const uint64_t tag = hash & ((1u << (64 - TAG_SHIFT)) - 1);

	return tag + (tag == 0);
}

// Returns the index of the first entry of the bucket of a source.
static uint64_t bucket_of(const struct weir_affinity *table, uint64_t hash) {
	return ((hash >> 32) * table->buckets >> 32) * WEIR_AFFINITY_WAYS;
}

// Returns the index of the first entry with this tag that has not expired at this tick, or -1.
// *ret_entry: the value of the entry that the function has compared; another worker may have
// replaced or removed the entry since.
static inline int index_of(
	const uint64_t *entries, uint64_t tag, uint32_t tick, uint64_t *ret_entry) {
	for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
		const uint64_t entry = load(&entries[i]);

		if (entry >> TAG_SHIFT == tag && is_live(entry, tick)) {
			*ret_entry = entry;
			return (int)i;
		}
	}
	return -1;
}

uint16_t weir_affinity_find(const struct weir_affinity *table, uint64_t hash, uint64_t now_ns) {
	const uint64_t *entries = &table->entries[bucket_of(table, hash)];
	uint64_t entry;

	return index_of(entries, tag_of(hash), tick_of(now_ns), &entry) < 0 ? WEIR_AFFINITY_NONE
									    : backend_of(entry);
}

// Returns the index of the entry that a new entry replaces: a free or expired entry, otherwise the
// unproven entry that expires first. Returns -1 if all entries of the bucket are proven.
static int victim_of(const uint64_t *entries, uint32_t tick) {
	uint32_t least = UINT32_MAX;
	int victim = -1;

	for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
		const uint64_t entry = load(&entries[i]);
		const uint32_t left = ((uint32_t)(entry >> BACKEND_BITS) - tick) & EXPIRY_MASK;

		if (!is_live(entry, tick)) {
			return (int)i;
		}
		if ((entry & PROVEN) == 0 && left < least) {
			least = left;
			victim = (int)i;
		}
	}
	return victim;
}

// Updates the existing entry of a source from `before` to `after`. If the backend of the entry
// differs from `stale` and from the backend in `after`, the entry stays unchanged. Returns the
// backend of the entry, or WEIR_AFFINITY_NONE if another worker has changed the entry in the
// meantime.
static uint16_t follow(uint64_t *at, uint64_t after, uint16_t stale, uint64_t before) {
	if (backend_of(before) != backend_of(after) && backend_of(before) != stale) {
		return backend_of(before);
	}
	after |= before & PROVEN;
	return before == after || replace(at, before, after) ? backend_of(after)
							     : WEIR_AFFINITY_NONE;
}

// Removes a duplicate: two workers may have inserted entries of the same source at the same time.
// The first of the two entries in the bucket is kept. Returns the backend of this entry.
static uint16_t settle(uint64_t *entries, int at, uint64_t entry, uint32_t tick) {
	uint64_t kept;
	const int first = index_of(entries, entry >> TAG_SHIFT, tick, &kept);

	if (first < 0 || first == at) {
		return backend_of(entry);
	}
	(void)replace(&entries[at], entry, 0);
	return backend_of(kept);
}

uint16_t weir_affinity_enter(struct weir_affinity *table, uint64_t hash, uint16_t backend,
	uint16_t stale, bool proven, uint32_t timeout_ms, uint64_t now_ns) {
	const uint32_t tick = tick_of(now_ns);
	const uint64_t ticks = ((uint64_t)timeout_ms * 1000000 >> TICK_SHIFT) + 1;
	const uint64_t after = tag_of(hash) << TAG_SHIFT | (proven ? PROVEN : 0) |
			       ((tick + ticks) & EXPIRY_MASK) << BACKEND_BITS | backend;
	uint64_t *entries = &table->entries[bucket_of(table, hash)];

	for (int i = 0; i < TRIES; i++) {
		uint64_t before;
		int at = index_of(entries, after >> TAG_SHIFT, tick, &before);
		uint16_t found;

		if (at >= 0) {
			found = follow(&entries[at], after, stale, before);
			if (found != WEIR_AFFINITY_NONE) {
				return found;
			}
			continue;
		}
		at = victim_of(entries, tick);
		if (at < 0) {
			return WEIR_AFFINITY_NONE;
		}
		before = load(&entries[at]);
		if ((before & PROVEN) != 0 && is_live(before, tick)) {
			continue; // another worker has replaced or proven the entry in the meantime
		}
		if (replace(&entries[at], before, after)) {
			return settle(entries, at, after, tick);
		}
	}
	return WEIR_AFFINITY_NONE;
}

// --- requests of control --------------------------------------------------------------------

static struct weir_affinity_entry entry_of(uint64_t entry, uint32_t tick) {
	const uint32_t left = ((uint32_t)(entry >> BACKEND_BITS) - tick) & EXPIRY_MASK;

	return (struct weir_affinity_entry){.backend = backend_of(entry),
		.proven = (entry & PROVEN) != 0,
		.left_ms = (uint32_t)(((uint64_t)left << TICK_SHIFT) / 1000000)};
}

bool weir_affinity_read(const struct weir_affinity *table, uint64_t hash, uint64_t now_ns,
	struct weir_affinity_entry *ret) {
	const uint64_t *entries = &table->entries[bucket_of(table, hash)];
	const uint32_t tick = tick_of(now_ns);
	uint64_t entry;

	if (index_of(entries, tag_of(hash), tick, &entry) < 0) {
		return false;
	}
	*ret = entry_of(entry, tick);
	return true;
}

bool weir_affinity_remove(struct weir_affinity *table, uint64_t hash, uint16_t backend,
	uint64_t now_ns, struct weir_affinity_entry *ret) {
	uint64_t *entries = &table->entries[bucket_of(table, hash)];
	const uint32_t tick = tick_of(now_ns);
	bool removed = false;

	// If several workers insert a source at the same time, two entries may exist for a short
	// time.
	for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
		uint64_t entry;
		const int at = index_of(entries, tag_of(hash), tick, &entry);

		if (at < 0 || (backend != WEIR_AFFINITY_NONE && backend_of(entry) != backend)) {
			break;
		}
		if (replace(&entries[at], entry, 0) && !removed) {
			*ret = entry_of(entry, tick);
			removed = true;
		}
	}
	return removed;
}

uint32_t weir_affinity_read_bucket(const struct weir_affinity *table, uint32_t bucket,
	uint64_t now_ns, struct weir_affinity_entry ret[WEIR_AFFINITY_WAYS]) {
	const uint64_t *entries = &table->entries[(uint64_t)bucket * WEIR_AFFINITY_WAYS];
	const uint32_t tick = tick_of(now_ns);
	uint32_t count = 0;

	for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
		const uint64_t entry = load(&entries[i]);

		if (is_live(entry, tick)) {
			ret[count++] = entry_of(entry, tick);
		}
	}
	return count;
}

uint32_t weir_affinity_clear_bucket(struct weir_affinity *table, uint32_t bucket, uint64_t now_ns,
	bool (*matches)(const void *context, uint16_t backend), const void *context) {
	uint64_t *entries = &table->entries[(uint64_t)bucket * WEIR_AFFINITY_WAYS];
	const uint32_t tick = tick_of(now_ns);
	uint32_t count = 0;

	for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
		const uint64_t entry = load(&entries[i]);

		if (entry != 0 && matches(context, backend_of(entry)) &&
			replace(&entries[i], entry, 0)) {
			count += is_live(entry, tick);
		}
	}
	return count;
}

void weir_affinity_sweep(struct weir_affinity *table, uint64_t now_ns) {
	const uint32_t tick = tick_of(now_ns);
	const uint32_t buckets = RTE_MIN(SWEPT, table->buckets);

	for (uint32_t n = 0; n < buckets; n++) {
		uint64_t *entries = &table->entries[(uint64_t)table->swept * WEIR_AFFINITY_WAYS];

		for (unsigned int i = 0; i < WEIR_AFFINITY_WAYS; i++) {
			const uint64_t entry = load(&entries[i]);

			if (entry != 0 && !is_live(entry, tick)) {
				(void)replace(&entries[i], entry, 0);
			}
		}
		table->swept = table->swept + 1 < table->buckets ? table->swept + 1 : 0;
	}
}
