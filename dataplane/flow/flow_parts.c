// SPDX-License-Identifier: BSD-3-Clause
#include "flow_parts.h"

#include <errno.h>

#include <rte_malloc.h>

#include "flow_expire.h"
#include "flow_life.h"
#include "flow_slot.h"

// An age above this limit means that the time of the last packet is in the future, because the
// clock of the flow's previous worker was ahead. Other ages stay below this limit: a timeout is
// at most half of the range of ages, and the sweep is late by at most one second, which is at
// most a sixteenth of the range.
#define AGE_MAX (WEIR_WORD_LAST_MASK / 4 * 3)

#define SWEEP_NS 800000000ull

// --- parcels --------------------------------------------------------------------------------

static uint32_t destinations_for(uint64_t flows6) {
	return (uint32_t)RTE_MIN(flows6, (uint64_t)WEIR_FLOW_DESTINATIONS_MAX);
}

uint64_t weir_flow_parcel_bytes(uint64_t flows, uint32_t ipv6_percent, uint32_t max_backends) {
	return sizeof(struct weir_flow_parcel) +
	       (uint64_t)max_backends * (sizeof(uint16_t) + sizeof(struct weir_flow_tally)) +
	       weir_flow_destinations_bytes(
		       destinations_for(weir_flow_memory_part_flows6(flows, ipv6_percent)));
}

int weir_flow_parcel_create(const struct weir_flow_memory *memory, uint32_t max_backends,
	int socket, struct weir_flow_parcel **ret) {
	struct weir_flow_parcel *parcel =
		rte_zmalloc_socket("flow_parcel", sizeof(*parcel), RTE_CACHE_LINE_SIZE, socket);

	if (parcel == NULL) {
		return -ENOMEM;
	}
	parcel->backend = rte_zmalloc_socket(
		"flow_parcel", max_backends * sizeof(*parcel->backend), 0, socket);
	parcel->tally =
		rte_zmalloc_socket("flow_parcel", max_backends * sizeof(*parcel->tally), 0, socket);
	if (parcel->backend == NULL || parcel->tally == NULL ||
		weir_flow_destinations_create(
			destinations_for(memory->ipv6.part_buckets * memory->ipv6.slots), socket,
			&parcel->destinations) < 0) {
		weir_flow_parcel_free(parcel);
		return -ENOMEM;
	}
	*ret = parcel;
	return 0;
}

void weir_flow_parcel_free(struct weir_flow_parcel *parcel) {
	if (parcel == NULL) {
		return;
	}
	weir_flow_destinations_free(&parcel->destinations);
	rte_free(parcel->tally);
	rte_free(parcel->backend);
	rte_free(parcel);
}

void weir_flow_parcel_remove(struct weir_flow_parcel *parcel) {
	if (parcel->backend_count > 0) {
		parcel->tally[parcel->backend[--parcel->backend_count]] =
			(struct weir_flow_tally){0};
	}
	if (parcel->backend_count == 0) {
		parcel->state = WEIR_FLOW_PARCEL_EMPTY;
	}
}

static void count_in(struct weir_flow_parcel *parcel, uint32_t word) {
	uint16_t backend = (uint16_t)word;
	struct weir_flow_tally *tally = &parcel->tally[backend];
	unsigned int phase = weir_flow_phase_of(word);

	if (tally->active == 0) {
		parcel->backend[parcel->backend_count++] = backend;
	}
	tally->active++;
	tally->open += weir_flow_is_open(phase);
	tally->half_open += weir_flow_is_unproven(phase);
	parcel->flows++;
	parcel->half_open += weir_flow_is_half_open(word);
}

// --- owned parts ----------------------------------------------------------------------------

static void resize(struct weir_flow_family *family, const struct weir_flow_lines *lines,
	const struct weir_flow_owned *owned) {
	bool crowded = family->crowded_at < weir_flow_crowded_mark(family, false);

	family->owned_buckets = family->part_buckets * owned->count;
	family->capacity = (uint32_t)((uint64_t)lines->flows * owned->count >> owned->shift);
	family->half_open_max = RTE_MAX(
		(uint32_t)((uint64_t)family->capacity * owned->half_open_percent / 100), 1u);
	family->crowded_at = weir_flow_crowded_mark(family, crowded);
	// A sweep of the whole table takes about 0.8 s: less than the second that F6 of
	// flow_table.h allows.
	family->sweep_rate =
		(family->owned_buckets << 16) / (SWEEP_NS >> WEIR_FLOW_SWEEP_SHIFT) + 1;
}

// Sets the capacities and half-open limits of both families from the number of parts that the table
// owns.
static void resize_all(struct weir_flow_table *table) {
	resize(&table->family4, &table->memory->ipv4, &table->owned);
	resize(&table->family6, &table->memory->ipv6, &table->owned);
}

static void use(struct weir_flow_table *table, uint32_t part) {
	table->owned.bits[part / 64] |= 1ull << part % 64;
	if (++table->owned.parts == 1) {
		weir_flow_sweep_from(table, part);
	}
}

void weir_flow_own(struct weir_flow_table *table, uint32_t part) {
	table->owned.count++;
	resize_all(table);
	use(table, part);
}

// --- release --------------------------------------------------------------------------------

// A bucket of a part. A part's buckets are numbered: first the IPv4 buckets, then the IPv6 buckets.
struct spot {
	bool ipv6;
	uint32_t bucket; // index of the bucket in the memory
	uint32_t *words;
	unsigned int slots;
};

static struct spot spot_at(const struct weir_flow_table *table, uint32_t part, uint64_t n) {
	bool ipv6 = n >= table->family4.part_buckets;
	const struct weir_flow_family *family = ipv6 ? &table->family6 : &table->family4;
	uint64_t bucket = part * family->part_buckets + n;

	bucket -= ipv6 ? table->family4.part_buckets : 0;
	return (struct spot){.ipv6 = ipv6,
		.bucket = (uint32_t)bucket,
		.words = weir_flow_bucket_words(table, ipv6, (uint32_t)bucket),
		.slots = family->slots};
}

static uint64_t part_end(const struct weir_flow_table *table) {
	return table->family4.part_buckets + table->family6.part_buckets;
}

// Converts the number of the IPv6 destination in a slot of a bucket: from the number in the table
// to a number in the parcel.
static void pack_destination(struct weir_flow_table *table, struct weir_flow_parcel *parcel,
	const struct spot *spot, unsigned int slot) {
	uint16_t *number = &weir_flow_bucket6_at(table, spot->bucket)->destination[slot];
	// This cannot fail: the parcel has room for a destination per flow of the part, or for all
	// destinations that the table can have.
	int packed = weir_flow_destinations_take(
		&parcel->destinations, table->destinations.address[*number]);

	weir_flow_destinations_release(&table->destinations, *number);
	*number = (uint16_t)packed;
}

static void release_bucket(
	struct weir_flow_table *table, struct weir_flow_parcel *parcel, const struct spot *spot) {
	struct weir_flow_family *family = weir_flow_family_of(table, spot->ipv6);

	for (unsigned int slot = 0; slot < spot->slots; slot++) {
		uint32_t word = spot->words[slot];

		if (word == 0) {
			continue;
		}
		count_in(parcel, word);
		family->count--;
		family->half_open -= weir_flow_is_half_open(word);
		if (spot->ipv6) {
			pack_destination(table, parcel, spot, slot);
		}
	}
}

static void release_begin(
	struct weir_flow_table *table, uint32_t part, struct weir_flow_parcel *parcel) {
	weir_flow_settle_starts(table);
	table->owned.bits[part / 64] &= ~(1ull << part % 64);
	table->owned.parts--;
	weir_flow_sweep_leave(table, part);
	parcel->part = part;
	parcel->next = 0;
	parcel->flows = 0;
	parcel->half_open = 0;
	parcel->measured = table->measuring;
	parcel->state = WEIR_FLOW_PARCEL_RELEASING;
}

bool weir_flow_release(
	struct weir_flow_table *table, uint32_t part, struct weir_flow_parcel *parcel) {
	uint64_t end;

	if (parcel->state == WEIR_FLOW_PARCEL_EMPTY) {
		release_begin(table, part, parcel);
	}
	end = RTE_MIN(parcel->next + WEIR_FLOW_SLICE, part_end(table));
	for (; parcel->next < end; parcel->next++) {
		struct spot spot = spot_at(table, part, parcel->next);

		release_bucket(table, parcel, &spot);
	}
	if (parcel->next < part_end(table)) {
		return false;
	}
	// Subtract the part's capacity last, so that the table does not count as full before all
	// flows of the part are subtracted.
	table->owned.count--;
	resize_all(table);
	parcel->state = WEIR_FLOW_PARCEL_RELEASED;
	return true;
}

// --- adopt ----------------------------------------------------------------------------------

// Converts the number of the IPv6 destination in a slot of a bucket: from the number in the parcel
// to a number in the table. Returns false if the table has no free number; the caller then evicts
// the flow.
static bool unpack_destination(struct weir_flow_table *table, struct weir_flow_parcel *parcel,
	const struct spot *spot, unsigned int slot) {
	uint16_t *number = &weir_flow_bucket6_at(table, spot->bucket)->destination[slot];
	int unpacked = weir_flow_destinations_take(
		&table->destinations, parcel->destinations.address[*number]);

	weir_flow_destinations_release(&parcel->destinations, *number);
	*number = (uint16_t)(unpacked < 0 ? 0 : unpacked);
	return unpacked >= 0;
}

static void limit_age(struct weir_flow_table *table, uint32_t *word, uint64_t now_ns) {
	if (weir_flow_age_of(table, *word, now_ns) > AGE_MAX) {
		*word = weir_flow_word_make(
			table, weir_flow_phase_of(*word), (uint16_t)*word, now_ns);
	}
}

static void adopt_bucket(struct weir_flow_table *table, struct weir_flow_parcel *parcel,
	const struct spot *spot, uint64_t now_ns) {
	struct weir_flow_family *family = weir_flow_family_of(table, spot->ipv6);

	for (unsigned int slot = 0; slot < spot->slots; slot++) {
		uint32_t *word = &spot->words[slot];

		if (*word == 0) {
			continue;
		}
		limit_age(table, word, now_ns);
		family->count++;
		family->half_open += weir_flow_is_half_open(*word);
		if (spot->ipv6 && unlikely(!unpack_destination(table, parcel, spot, slot))) {
			struct weir_flow_place place =
				weir_flow_place_at(table, true, spot->bucket, slot);

			weir_flow_slot_lose(table, &place, now_ns);
		}
	}
	// End expired flows now: perhaps the sweep of the previous worker has not reached the
	// bucket, and the sweep of this worker reaches it late.
	weir_flow_bucket_expire(table, spot->ipv6, spot->bucket, now_ns);
	// Perhaps the previous worker has not loaded the service tables that this worker uses.
	weir_flow_bucket_recheck(table, spot->ipv6, spot->bucket, now_ns);
	if (table->measuring) {
		weir_flow_starts_clear(table, spot->ipv6, spot->bucket, now_ns);
	}
}

static void adopt_begin(
	struct weir_flow_table *table, struct weir_flow_parcel *parcel, uint64_t now_ns) {
	weir_flow_stamp(table, now_ns);
	// Add the part's capacity first, so that the flows of the part do not make the table full.
	table->owned.count++;
	resize_all(table);
	table->measuring = table->measuring || parcel->measured;
	parcel->next = 0;
	parcel->rechecks = table->rechecks;
	parcel->state = WEIR_FLOW_PARCEL_ADOPTING;
}

bool weir_flow_adopt(
	struct weir_flow_table *table, struct weir_flow_parcel *parcel, uint64_t now_ns) {
	uint64_t end;

	if (parcel->state == WEIR_FLOW_PARCEL_RELEASED) {
		adopt_begin(table, parcel, now_ns);
	}
	end = RTE_MIN(parcel->next + WEIR_FLOW_SLICE, part_end(table));
	for (; parcel->next < end; parcel->next++) {
		struct spot spot = spot_at(table, parcel->part, parcel->next);

		adopt_bucket(table, parcel, &spot, now_ns);
	}
	if (parcel->next < part_end(table)) {
		return false;
	}
	use(table, parcel->part);
	// If the services have changed since the first call, the first buckets were checked with
	// the previous services. The sweep has not checked them, because it skips parts that the
	// table does not own yet.
	if (unlikely(parcel->rechecks != table->rechecks)) {
		weir_flow_recheck(table, table->recheck_tcp, now_ns);
	}
	parcel->state = WEIR_FLOW_PARCEL_ADOPTED;
	return true;
}
