// SPDX-License-Identifier: BSD-3-Clause
#include "datagrams.h"

#include <stdlib.h>

#include "fuzz.h"

void datagrams_init(struct datagrams *datagrams) {
	datagrams->slots = calloc(DATAGRAMS_MAX, sizeof(*datagrams->slots));
	datagrams->spare = calloc(DATAGRAMS_MAX, sizeof(*datagrams->spare));
	datagrams->count = 0;
	REQUIRE(datagrams->slots != NULL && datagrams->spare != NULL);
}

void datagrams_fini(struct datagrams *datagrams) {
	free(datagrams->slots);
	free(datagrams->spare);
}

void datagrams_clear(struct datagrams *datagrams) {
	if (datagrams->count > 0) {
		memset(datagrams->slots, 0, DATAGRAMS_MAX * sizeof(*datagrams->slots));
	}
	datagrams->count = 0;
}

// --- table ------------------------------------------------------------------------------------

// Fragments of one datagram have the same source, destination and identification (RFC 8200, 4.5),
// and in IPv4 also the same protocol (RFC 791, 3.2).
static bool same(const struct datagram *datagram, const struct key *key, uint32_t id) {
	return datagram->id == id && datagram->key.family == key->family &&
	       (key->family == 6 || datagram->key.protocol == key->protocol) &&
	       memcmp(datagram->key.source, key->source, 32) == 0;
}

static struct datagram *slot_of(struct datagram *slots, const struct key *key, uint32_t id) {
	struct key portless = *key;
	uint64_t hash;
	uint32_t i;

	memset(portless.ports, 0, sizeof(portless.ports));
	portless.protocol = key->family == 6 ? 0 : key->protocol;
	hash = key_hash(&portless) ^ id * 0x9e3779b97f4a7c15ull;
	i = (uint32_t)(hash >> 32 ^ hash) & (DATAGRAMS_MAX - 1);
	while (slots[i].used && !same(&slots[i], key, id)) {
		i = (i + 1) & (DATAGRAMS_MAX - 1);
	}
	return &slots[i];
}

static bool alive(const struct datagram *datagram, const struct plan *plan, uint64_t ms) {
	return datagram->used && ms - datagram->born_ms <= plan->fragment_timeout_ms;
}

static void clean(struct datagrams *datagrams, const struct plan *plan, uint64_t ms) {
	struct datagram *old = datagrams->slots;

	memset(datagrams->spare, 0, DATAGRAMS_MAX * sizeof(*datagrams->spare));
	datagrams->slots = datagrams->spare;
	datagrams->spare = old;
	datagrams->count = 0;
	for (uint32_t i = 0; i < DATAGRAMS_MAX; i++) {
		if (alive(&old[i], plan, ms)) {
			*slot_of(datagrams->slots, &old[i].key, old[i].id) = old[i];
			datagrams->count++;
		}
	}
	REQUIRE(datagrams->count < DATAGRAMS_MAX / 2);
}

struct datagram *datagrams_find(struct datagrams *datagrams, const struct plan *plan,
	const struct view *view, uint64_t ms) {
	struct datagram *datagram = slot_of(datagrams->slots, &view->key, view->id);

	return alive(datagram, plan, ms) ? datagram : NULL;
}

static bool complete(const struct datagram *datagram) {
	return datagram->end != 0 && datagram->parts == 1 && datagram->part[0].from == 0 &&
	       datagram->part[0].to == datagram->end;
}

struct datagram *datagrams_enter(struct datagrams *datagrams, const struct plan *plan,
	const struct view *view, uint64_t ms) {
	struct datagram *datagram;

	if (datagrams->count >= DATAGRAMS_MAX / 2) {
		clean(datagrams, plan, ms);
	}
	datagram = slot_of(datagrams->slots, &view->key, view->id);
	if (!alive(datagram, plan, ms) || complete(datagram)) {
		datagrams->count += !datagram->used;
		*datagram = (struct datagram){
			.key = view->key, .id = view->id, .born_ms = ms, .used = true};
	}
	return datagram;
}

// --- parts ------------------------------------------------------------------------------------

static uint64_t spoil(struct datagram *datagram) {
	datagram->fate = DATAGRAM_DROP;
	datagram->reasons = REASON(FRAGMENT_OVERLAP);
	return datagram->reasons;
}

uint64_t datagram_cover(struct datagram *datagram, const struct view *view) {
	uint32_t from = view->from, to = view->to, parts = 0;
	__typeof__(datagram->part[0]) part[DATAGRAM_PARTS + 1];
	bool put = false;

	if (datagram->end != 0 && (to > datagram->end || (view->last && to != datagram->end))) {
		return spoil(datagram);
	}
	for (uint32_t i = 0; i < datagram->parts; i++) {
		uint32_t a = datagram->part[i].from, b = datagram->part[i].to;

		if (from < b && a < to) { // the fragment overlaps earlier data, or repeats it
			return a <= from && to <= b ? REASON(FRAGMENT_OVERLAP) : spoil(datagram);
		}
		if (view->last && b > to) {
			return spoil(datagram);
		}
	}
	// Insert in order, then merge adjacent ranges
	for (uint32_t i = 0; i <= datagram->parts; i++) {
		uint32_t a = i < datagram->parts ? datagram->part[i].from : UINT32_MAX;
		uint32_t b = i < datagram->parts ? datagram->part[i].to : UINT32_MAX;

		if (!put && from < a) {
			put = true;
			if (parts > 0 && part[parts - 1].to == from) {
				part[parts - 1].to = to;
			} else {
				part[parts].from = from;
				part[parts++].to = to;
			}
		}
		if (i == datagram->parts) {
			break;
		}
		if (parts > 0 && part[parts - 1].to == a) {
			part[parts - 1].to = b;
		} else {
			part[parts].from = a;
			part[parts++].to = b;
		}
	}
	if (parts > DATAGRAM_PARTS) {
		return REASON(FRAGMENT_TABLE);
	}
	memcpy(datagram->part, part, sizeof(datagram->part));
	datagram->parts = parts;
	datagram->end = view->last ? to : datagram->end;
	return 0;
}
