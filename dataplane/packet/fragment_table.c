// SPDX-License-Identifier: BSD-3-Clause
#include "fragment_table.h"

#include <errno.h>
#include <string.h>

#include <rte_common.h>
#include <rte_malloc.h>

#include "checksum.h"
#include "drop_reasons.h"
#include "hash.h"
#include "layout.h"

#define WAYS 4u // entries of a bucket

struct weir_fragment_table {
	uint32_t mask; // mask to compute the index of a bucket
	uint32_t timeout_ms;
	uint64_t secret;
	struct weir_fragment_entry entry[];
};

static uint32_t rounded(uint32_t entries) {
	return RTE_MAX(rte_align32pow2(entries), WAYS);
}

uint64_t weir_fragment_table_bytes(uint32_t entries) {
	return entries == 0
		       ? 0
		       : sizeof(struct weir_fragment_table) +
				 (uint64_t)rounded(entries) * sizeof(struct weir_fragment_entry);
}

int weir_fragment_table_create(uint32_t entries, uint32_t timeout_ms, uint64_t secret, int socket,
	struct weir_fragment_table **ret) {
	struct weir_fragment_table *table;

	if (entries == 0) {
		return -EINVAL;
	}
	table = rte_zmalloc_socket(
		"fragments", weir_fragment_table_bytes(entries), RTE_CACHE_LINE_SIZE, socket);
	if (table == NULL) {
		return -ENOMEM;
	}
	table->mask = rounded(entries) / WAYS - 1;
	table->timeout_ms = timeout_ms;
	table->secret = secret;
	*ret = table;
	return 0;
}

void weir_fragment_table_free(struct weir_fragment_table *table) {
	rte_free(table);
}

// --- lookup -------------------------------------------------------------------------------

// Returns the protocol for IPv4, where it is part of the identity of a datagram (RFC 791). Returns
// 0 for IPv6, where fragments of a datagram can have different Next Header fields (RFC 8200, 4.5).
static uint8_t protocol_of(const struct weir_flow_key *key) {
	return (key->family & 0x0f) == 6 ? 0 : key->protocol;
}

static struct weir_fragment_entry *bucket_of(
	struct weir_fragment_table *table, const struct weir_flow_key *key, uint32_t id) {
	uint64_t hash = weir_hash_mix(table->secret ^ id,
		0x9e3779b97f4a7c15ull ^ (uint64_t)protocol_of(key) << 8 ^ key->family);

	for (unsigned int i = 0; i < 16; i += 8) {
		hash = weir_hash_mix(hash ^ weir_load64(key->source + i), table->secret | 1);
		hash = weir_hash_mix(hash ^ weir_load64(key->destination + i), table->secret | 1);
	}
	return &table->entry[((hash ^ hash >> 32) & table->mask) * WAYS];
}

static uint32_t milliseconds(uint64_t now_ns) {
	return (uint32_t)(now_ns / 1000000);
}

static bool is_alive(const struct weir_fragment_table *table,
	const struct weir_fragment_entry *entry, uint32_t now_ms) {
	return entry->family != 0 && now_ms - entry->born_ms <= table->timeout_ms;
}

static bool is_of(
	const struct weir_fragment_entry *entry, const struct weir_flow_key *key, uint32_t id) {
	return entry->id == id && entry->family == key->family &&
	       ((key->family & 0x0f) == 6 || entry->protocol == key->protocol) &&
	       memcmp(entry->source, key->source, 16) == 0 &&
	       memcmp(entry->destination, key->destination, 16) == 0;
}

static bool is_complete(const struct weir_fragment_entry *entry) {
	return entry->end != 0 && entry->seen[0].from == 0 && entry->seen[0].to == entry->end;
}

static struct weir_fragment_entry *find(const struct weir_fragment_table *table,
	struct weir_fragment_entry *bucket, const struct weir_flow_key *key, uint32_t id,
	uint32_t now_ms) {
	for (unsigned int i = 0; i < WAYS; i++) {
		if (is_alive(table, &bucket[i], now_ms) && is_of(&bucket[i], key, id)) {
			return &bucket[i];
		}
	}
	return NULL;
}

struct weir_fragment_entry *weir_fragment_find(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns) {
	return find(table, bucket_of(table, key, id), key, id, milliseconds(now_ns));
}

// Returns the entry that a new datagram replaces in its bucket.
static struct weir_fragment_entry *victim(const struct weir_fragment_table *table,
	struct weir_fragment_entry *bucket, uint32_t now_ms) {
	struct weir_fragment_entry *oldest = bucket;

	for (unsigned int i = 0; i < WAYS; i++) {
		if (!is_alive(table, &bucket[i], now_ms)) {
			return &bucket[i];
		}
	}
	for (unsigned int i = 0; i < WAYS; i++) {
		if (is_complete(&bucket[i])) {
			return &bucket[i];
		}
		if (now_ms - bucket[i].born_ms > now_ms - oldest->born_ms) {
			oldest = &bucket[i];
		}
	}
	return oldest;
}

struct weir_fragment_entry *weir_fragment_enter(struct weir_fragment_table *table,
	const struct weir_flow_key *key, uint32_t id, uint64_t now_ns) {
	struct weir_fragment_entry *bucket = bucket_of(table, key, id), *entry;
	uint32_t now_ms = milliseconds(now_ns);

	entry = find(table, bucket, key, id, now_ms);
	if (entry != NULL && !is_complete(entry)) {
		return entry;
	}
	if (entry == NULL) {
		entry = victim(table, bucket, now_ms);
	}
	*entry = (struct weir_fragment_entry){.id = id,
		.family = key->family,
		.protocol = key->protocol,
		.fate = WEIR_FRAGMENT_UNDECIDED,
		.born_ms = now_ms,
		.backend = WEIR_BACKEND_NONE};
	memcpy(entry->source, key->source, 16);
	memcpy(entry->destination, key->destination, 16);
	memcpy(&entry->ports, &key->source_port, 4);
	return entry;
}

// --- parts --------------------------------------------------------------------------------

static int spoil(struct weir_fragment_entry *entry) {
	entry->fate = WEIR_FRAGMENT_DROP;
	entry->reason = WEIR_DROP_FRAGMENT_OVERLAP;
	return -EBADMSG;
}

static unsigned int count_seen(const struct weir_fragment_entry *entry) {
	unsigned int n = 0;

	while (n < WEIR_FRAGMENT_RANGES && entry->seen[n].from != entry->seen[n].to) {
		n++;
	}
	return n;
}

// Join range i with the next range if both ranges are adjacent.
static void join(struct weir_fragment_entry *entry, unsigned int i, unsigned int count) {
	if (i + 1 >= count || entry->seen[i].to != entry->seen[i + 1].from) {
		return;
	}
	entry->seen[i].to = entry->seen[i + 1].to;
	memmove(&entry->seen[i + 1], &entry->seen[i + 2], (count - i - 2) * sizeof(entry->seen[0]));
	entry->seen[count - 1].from = entry->seen[count - 1].to = 0;
}

int weir_fragment_cover(struct weir_fragment_entry *entry, const struct weir_fragment_part *part) {
	unsigned int count = count_seen(entry), i = 0;

	if (entry->end != 0 && (part->to > entry->end || (part->last && part->to != entry->end))) {
		return spoil(entry);
	}
	while (i < count && entry->seen[i].to <= part->from) {
		i++;
	}
	// If i < count, range i is the first range that ends after the start of the part.
	if (i < count && entry->seen[i].from < part->to) {
		return entry->seen[i].from <= part->from && entry->seen[i].to >= part->to
			       ? -EALREADY
			       : spoil(entry);
	}
	if (part->last && i < count) { // a range begins beyond the end of the datagram
		return spoil(entry);
	}
	if (i > 0 && entry->seen[i - 1].to == part->from) {
		entry->seen[i - 1].to = part->to;
		join(entry, i - 1, count);
	} else if (i < count && part->to == entry->seen[i].from) {
		entry->seen[i].from = part->from;
	} else if (count < WEIR_FRAGMENT_RANGES) {
		memmove(&entry->seen[i + 1], &entry->seen[i], (count - i) * sizeof(entry->seen[0]));
		entry->seen[i].from = part->from;
		entry->seen[i].to = part->to;
	} else {
		return -ENOSPC;
	}
	if (part->last) {
		entry->end = part->to;
	}
	return 0;
}
