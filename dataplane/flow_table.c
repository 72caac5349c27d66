// SPDX-License-Identifier: BSD-3-Clause
//
// Layout. Each family has its own array of buckets. A bucket holds three flows: one cache line for
// IPv4, two adjacent ones for IPv6. A flow lives in one of two buckets told by its hash, the first
// if there was room (bucketized cuckoo hashing, Erlingsson et al. 2006). An insertion that finds
// both full moves one resident to its other bucket, one or two steps deep.
//
// Time. A slot keeps 16 bits of time, in ticks of its state: 1/16384 of the state's timeout or
// finer, so that a tick counter wraps after at least four timeouts. The sweep ends flows long
// before that.
#include "flow_table.h"

#include <errno.h>
#include <string.h>

#include <rte_branch_prediction.h>
#include <rte_malloc.h>
#include <rte_prefetch.h>

#define SLOTS 3
#define STATES 4
#define FILL_PERCENT 80 // of all slots, when `flows` flows are in the table
#define SWEEP_BUCKETS_MAX 256 // per call
#define SWEEP_SHIFT 20 // sweep speed is kept in buckets per 2^20 ns (about a millisecond)
#define WRAP_NS_MIN 16000000000ull // no tick counter wraps faster than this

#define META_STATE 0x03u // enum weir_flow_state
#define META_RST 0x04u // closing because of an RST
#define META_USED 0x80u

struct key4 {
	uint32_t source;
	uint32_t destination;
	uint16_t source_port;
	uint16_t destination_port;
};

struct key6 {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
};

struct head {
	uint8_t tag[SLOTS]; // 8 bits of the hash, a quick filter
	uint8_t reserved0;
	uint8_t meta[SLOTS]; // META_*; 0 = free
	uint8_t reserved1;
	uint16_t last[SLOTS]; // ticks of the slot's state
	uint16_t backend[SLOTS];
};
_Static_assert(sizeof(struct head) == 20, "flow bucket layout");

struct bucket4 {
	struct head head;
	struct key4 key[SLOTS];
	uint8_t reserved[8];
};
_Static_assert(sizeof(struct bucket4) == 64, "one cache line per IPv4 bucket");

struct bucket6 {
	struct head head;
	struct key6 key[SLOTS];
};
_Static_assert(sizeof(struct bucket6) == 128, "two cache lines per IPv6 bucket");

struct part { // the flows of one family
	uint8_t *buckets;
	uint32_t bucket_bytes;
	uint32_t bucket_count;
	uint32_t capacity; // flows
	uint32_t count;
	uint32_t half_open;
	uint32_t half_open_max;
	uint32_t sweep_next; // bucket
	uint64_t sweep_rate; // buckets per 2^SWEEP_SHIFT ns, 16 fractional bits
	uint64_t sweep_debt; // buckets due, 16 fractional bits
};

struct weir_flow_table {
	struct part part[2]; // IPv4, IPv6
	uint8_t shift[STATES]; // tick of a state = 2^shift ns
	uint16_t timeout_ticks[STATES];
	weir_flow_ended ended;
	void *context;
	uint64_t swept_ns;
	uint64_t evicted;
};

// --- where a flow may be --------------------------------------------------------------------

static inline unsigned int family_index(uint8_t family) {
	return family != 4;
}

static inline uint32_t first_bucket(const struct part *part, uint64_t hash) {
	return (uint32_t)(((hash & 0xffffffffu) * part->bucket_count) >> 32);
}

// The other bucket of a flow that has this tag and lives in `bucket`: the two add up to a number
// told by the tag, so that each leads to the other without the key.
static inline uint32_t other_bucket(const struct part *part, uint32_t bucket, uint8_t tag) {
	uint32_t spread = (uint32_t)(tag + 1) * 0x9e3779b1u;
	uint32_t sum = (uint32_t)(((uint64_t)spread * part->bucket_count) >> 32);

	return sum >= bucket ? sum - bucket : sum + part->bucket_count - bucket;
}

static inline uint8_t tag_of(uint64_t hash) {
	return (uint8_t)(hash >> 40);
}

static inline struct head *bucket_at(const struct part *part, uint32_t index) {
	return (struct head *)(part->buckets + (uint64_t)index * part->bucket_bytes);
}

// A reference: bucket * 4 + slot, the family in bit 62.
static inline weir_flow_ref ref_make(unsigned int family, uint32_t bucket, unsigned int slot) {
	return (weir_flow_ref)((uint64_t)family << 62 | (uint64_t)bucket << 2 | slot);
}

static inline unsigned int ref_family(weir_flow_ref ref) {
	return (unsigned int)((uint64_t)ref >> 62);
}

static inline unsigned int ref_slot(weir_flow_ref ref) {
	return (unsigned int)(ref & 3);
}

static inline struct head *ref_head(const struct weir_flow_table *table, weir_flow_ref ref) {
	return bucket_at(&table->part[ref_family(ref)], (uint32_t)((uint64_t)ref >> 2));
}

// --- time -----------------------------------------------------------------------------------

static inline uint16_t ticks(
	const struct weir_flow_table *table, unsigned int state, uint64_t now_ns) {
	return (uint16_t)(now_ns >> table->shift[state]);
}

static inline bool is_expired(const struct weir_flow_table *table, const struct head *head,
	unsigned int slot, uint64_t now_ns) {
	unsigned int state = head->meta[slot] & META_STATE;
	uint16_t age = (uint16_t)(ticks(table, state, now_ns) - head->last[slot]);

	return age > table->timeout_ticks[state];
}

// --- slots ----------------------------------------------------------------------------------

static inline bool key_equals(const struct head *head, unsigned int family, unsigned int slot,
	const struct weir_flow_key *key) {
	uint32_t source, destination;

	if (family == 0) {
		const struct key4 *k = &((const struct bucket4 *)head)->key[slot];

		memcpy(&source, key->source, sizeof(source));
		memcpy(&destination, key->destination, sizeof(destination));
		return ((k->source ^ source) | (k->destination ^ destination) |
			       (uint32_t)(k->source_port ^ key->source_port) |
			       (uint32_t)(k->destination_port ^ key->destination_port)) == 0;
	}
	const struct key6 *k = &((const struct bucket6 *)head)->key[slot];

	return memcmp(k->source, key->source, 16) == 0 &&
	       memcmp(k->destination, key->destination, 16) == 0 &&
	       k->source_port == key->source_port && k->destination_port == key->destination_port;
}

// Only TCP and UDP have flows, so the state tells the protocol.
static inline bool protocol_equals(uint8_t meta, uint8_t protocol) {
	return ((meta & META_STATE) == WEIR_FLOW_UDP) == (protocol == 17);
}

static void key_store(struct head *head, unsigned int family, unsigned int slot,
	const struct weir_flow_key *key) {
	if (family == 0) {
		struct key4 *k = &((struct bucket4 *)head)->key[slot];

		memcpy(&k->source, key->source, sizeof(k->source));
		memcpy(&k->destination, key->destination, sizeof(k->destination));
		k->source_port = key->source_port;
		k->destination_port = key->destination_port;
	} else {
		struct key6 *k = &((struct bucket6 *)head)->key[slot];

		memcpy(k->source, key->source, 16);
		memcpy(k->destination, key->destination, 16);
		k->source_port = key->source_port;
		k->destination_port = key->destination_port;
	}
}

static void slot_move(struct head *to, unsigned int to_slot, const struct head *from,
	unsigned int from_slot, unsigned int family) {
	to->tag[to_slot] = from->tag[from_slot];
	to->meta[to_slot] = from->meta[from_slot];
	to->last[to_slot] = from->last[from_slot];
	to->backend[to_slot] = from->backend[from_slot];
	if (family == 0) {
		((struct bucket4 *)to)->key[to_slot] =
			((const struct bucket4 *)from)->key[from_slot];
	} else {
		((struct bucket6 *)to)->key[to_slot] =
			((const struct bucket6 *)from)->key[from_slot];
	}
}

static void state_set(struct weir_flow_table *table, struct part *part, struct head *head,
	unsigned int slot, enum weir_flow_state state, uint8_t flags, uint64_t now_ns) {
	bool was_half_open = head->meta[slot] == (META_USED | WEIR_FLOW_SYN_SEEN);

	part->half_open += (state == WEIR_FLOW_SYN_SEEN) - was_half_open;
	head->meta[slot] = (uint8_t)(META_USED | flags | state);
	head->last[slot] = ticks(table, state, now_ns);
}

static void slot_end(struct weir_flow_table *table, struct part *part, struct head *head,
	unsigned int slot, enum weir_flow_end end) {
	if ((head->meta[slot] & META_STATE) == WEIR_FLOW_SYN_SEEN) {
		part->half_open--;
	}
	head->meta[slot] = 0;
	head->tag[slot] = 0;
	part->count--;
	table->ended(table->context, head->backend[slot], end);
}

static enum weir_flow_end expiry_end(uint8_t meta) {
	if ((meta & META_STATE) != WEIR_FLOW_CLOSING) {
		return WEIR_FLOW_END_TIMED_OUT;
	}
	return meta & META_RST ? WEIR_FLOW_END_REFUSED : WEIR_FLOW_END_COMPLETED;
}

static void bucket_expire(
	struct weir_flow_table *table, struct part *part, struct head *head, uint64_t now_ns) {
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		if (head->meta[slot] != 0 && is_expired(table, head, slot, now_ns)) {
			slot_end(table, part, head, slot, expiry_end(head->meta[slot]));
		}
	}
}

// --- set-up ---------------------------------------------------------------------------------

static uint32_t buckets_for(uint32_t flows) {
	uint64_t slots = ((uint64_t)flows * 100 + FILL_PERCENT - 1) / FILL_PERCENT;

	return (uint32_t)((slots + SLOTS - 1) / SLOTS);
}

static uint32_t ipv6_share(uint32_t flows) {
	return flows / 4 > 0 ? flows / 4 : 1;
}

uint64_t weir_flow_table_bytes(uint32_t flows) {
	return sizeof(struct weir_flow_table) +
	       (uint64_t)buckets_for(flows) * sizeof(struct bucket4) +
	       (uint64_t)buckets_for(ipv6_share(flows)) * sizeof(struct bucket6);
}

static int part_create(struct part *part, uint32_t flows, uint32_t bucket_bytes,
	uint32_t half_open_percent, int socket) {
	part->bucket_bytes = bucket_bytes;
	part->bucket_count = buckets_for(flows);
	part->capacity = flows;
	part->half_open_max = (uint32_t)((uint64_t)flows * half_open_percent / 100);
	if (part->half_open_max == 0) {
		part->half_open_max = 1;
	}
	// A whole sweep takes about 0.8 s, so that it is over within the second of F6.
	part->sweep_rate =
		(((uint64_t)part->bucket_count << (16 + SWEEP_SHIFT)) / 800000000ull) + 1;
	part->buckets = rte_zmalloc_socket(
		"flow_table", (uint64_t)part->bucket_count * bucket_bytes, 128, socket);
	return part->buckets == NULL ? -ENOMEM : 0;
}

static void timeouts_set(struct weir_flow_table *table, const uint32_t timeout_ms[STATES]) {
	for (unsigned int state = 0; state < STATES; state++) {
		uint64_t timeout_ns = (uint64_t)timeout_ms[state] * 1000000;
		unsigned int shift = 0;

		while ((65536ull << shift) < 4 * timeout_ns || (65536ull << shift) < WRAP_NS_MIN) {
			shift++;
		}
		table->shift[state] = (uint8_t)shift;
		table->timeout_ticks[state] =
			(uint16_t)((timeout_ns + (1ull << shift) - 1) >> shift);
	}
}

int weir_flow_table_create(const struct weir_flow_table_params *params, weir_flow_ended ended,
	void *context, struct weir_flow_table **ret) {
	struct weir_flow_table *table;
	int r;

	if (params->flows == 0 || params->flows > 1u << 28 || params->half_open_percent == 0 ||
		params->half_open_percent > 100 || ended == NULL) {
		return -EINVAL;
	}
	for (unsigned int state = 0; state < STATES; state++) {
		if (params->timeout_ms[state] == 0) {
			return -EINVAL;
		}
	}
	table = rte_zmalloc_socket("flow_table", sizeof(*table), 64, params->socket);
	if (table == NULL) {
		return -ENOMEM;
	}
	table->ended = ended;
	table->context = context;
	timeouts_set(table, params->timeout_ms);
	r = part_create(&table->part[0], params->flows, sizeof(struct bucket4),
		params->half_open_percent, params->socket);
	if (r == 0) {
		r = part_create(&table->part[1], ipv6_share(params->flows), sizeof(struct bucket6),
			params->half_open_percent, params->socket);
	}
	if (r < 0) {
		weir_flow_table_free(table);
		return r;
	}
	*ret = table;
	return 0;
}

void weir_flow_table_free(struct weir_flow_table *table) {
	if (table == NULL) {
		return;
	}
	rte_free(table->part[1].buckets);
	rte_free(table->part[0].buckets);
	rte_free(table);
}

// --- look-up --------------------------------------------------------------------------------

void weir_flow_prefetch(const struct weir_flow_table *table, uint8_t family, uint64_t hash) {
	const struct part *part = &table->part[family_index(family)];
	const uint8_t *bucket = (const uint8_t *)bucket_at(part, first_bucket(part, hash));

	rte_prefetch0(bucket);
	if (family != 4) {
		rte_prefetch0(bucket + 64);
	}
}

static inline bool has_tag(const struct head *head, uint8_t tag) {
	return (head->meta[0] && head->tag[0] == tag) || (head->meta[1] && head->tag[1] == tag) ||
	       (head->meta[2] && head->tag[2] == tag);
}

void weir_flow_prefetch_second(const struct weir_flow_table *table, uint8_t family, uint64_t hash) {
	const struct part *part = &table->part[family_index(family)];
	const uint8_t *bucket;

	if (likely(has_tag(bucket_at(part, first_bucket(part, hash)), tag_of(hash)))) {
		return;
	}
	bucket = (const uint8_t *)bucket_at(
		part, other_bucket(part, first_bucket(part, hash), tag_of(hash)));
	rte_prefetch0(bucket);
	if (family != 4) {
		rte_prefetch0(bucket + 64);
	}
}

static inline int bucket_find(const struct weir_flow_table *table, const struct head *head,
	unsigned int family, uint8_t tag, const struct weir_flow_key *key, uint64_t now_ns) {
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		if (head->tag[slot] == tag && head->meta[slot] != 0 &&
			key_equals(head, family, slot, key) &&
			protocol_equals(head->meta[slot], key->protocol) &&
			!is_expired(table, head, slot, now_ns)) {
			return (int)slot;
		}
	}
	return -1;
}

static inline weir_flow_ref part_lookup(const struct weir_flow_table *table, unsigned int family,
	const struct weir_flow_key *key, uint64_t hash, uint64_t now_ns) {
	const struct part *part = &table->part[family];
	uint8_t tag = tag_of(hash);
	uint32_t bucket = first_bucket(part, hash);
	int slot = bucket_find(table, bucket_at(part, bucket), family, tag, key, now_ns);

	if (unlikely(slot < 0)) {
		bucket = other_bucket(part, bucket, tag);
		slot = bucket_find(table, bucket_at(part, bucket), family, tag, key, now_ns);
		if (slot < 0) {
			return -ENOENT;
		}
	}
	return ref_make(family, bucket, (unsigned int)slot);
}

weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns) {
	if (likely(key->family == 4)) {
		return part_lookup(table, 0, key, hash, now_ns);
	}
	return part_lookup(table, 1, key, hash, now_ns);
}

uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow) {
	return ref_head(table, flow)->backend[ref_slot(flow)];
}

enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow) {
	return (enum weir_flow_state)(ref_head(table, flow)->meta[ref_slot(flow)] & META_STATE);
}

uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns) {
	const struct head *head = ref_head(table, flow);
	unsigned int slot = ref_slot(flow);
	unsigned int state = head->meta[slot] & META_STATE;
	uint16_t age = (uint16_t)(ticks(table, state, now_ns) - head->last[slot]);

	return (uint32_t)(((uint64_t)age << table->shift[state]) / 1000000);
}

// --- the life of a flow ---------------------------------------------------------------------

bool weir_flow_advance(struct weir_flow_table *table, weir_flow_ref flow,
	enum weir_flow_event event, uint64_t now_ns) {
	struct part *part = &table->part[ref_family(flow)];
	struct head *head = ref_head(table, flow);
	unsigned int slot = ref_slot(flow);
	uint8_t meta = head->meta[slot];
	unsigned int state = meta & META_STATE;
	uint8_t flags = 0;

	if (likely(event == WEIR_FLOW_EVENT_DATA || event == WEIR_FLOW_EVENT_DATAGRAM)) {
		if (unlikely(state == WEIR_FLOW_SYN_SEEN || (meta & META_RST) != 0)) {
			state_set(table, part, head, slot, WEIR_FLOW_ESTABLISHED, 0, now_ns);
			return false;
		}
		head->last[slot] = ticks(table, state, now_ns);
		return false;
	}
	if (event == WEIR_FLOW_EVENT_SYN) {
		if (state == WEIR_FLOW_CLOSING) {
			return true;
		}
		// A repeated SYN does not refresh an established flow: it may be forged.
		if (state == WEIR_FLOW_SYN_SEEN) {
			head->last[slot] = ticks(table, state, now_ns);
		}
		return false;
	}
	// An RST after a FIN is how many clients end; it makes no refusal of a completed flow.
	if (event == WEIR_FLOW_EVENT_RST) {
		flags = state == WEIR_FLOW_CLOSING ? meta & META_RST : META_RST;
	}
	state_set(table, part, head, slot, WEIR_FLOW_CLOSING, flags, now_ns);
	return false;
}

static enum weir_flow_state first_state(enum weir_flow_event event) {
	switch (event) {
	case WEIR_FLOW_EVENT_SYN:
		return WEIR_FLOW_SYN_SEEN;
	case WEIR_FLOW_EVENT_DATAGRAM:
		return WEIR_FLOW_UDP;
	case WEIR_FLOW_EVENT_FIN:
	case WEIR_FLOW_EVENT_RST:
		return WEIR_FLOW_CLOSING;
	case WEIR_FLOW_EVENT_DATA:
		break;
	}
	return WEIR_FLOW_ESTABLISHED;
}

// F4 holds for a restart too: beyond the limit the flow waits in closing, marked so that its next
// packet makes it established, as after an RST that was not real.
void weir_flow_restart(struct weir_flow_table *table, weir_flow_ref flow, uint16_t backend,
	enum weir_flow_event event, enum weir_flow_end end, uint64_t now_ns) {
	struct part *part = &table->part[ref_family(flow)];
	struct head *head = ref_head(table, flow);
	unsigned int slot = ref_slot(flow);
	enum weir_flow_state state = first_state(event);
	uint8_t flags = event == WEIR_FLOW_EVENT_RST ? META_RST : 0;

	table->ended(table->context, head->backend[slot], end);
	head->backend[slot] = backend;
	if (state == WEIR_FLOW_SYN_SEEN && part->half_open >= part->half_open_max) {
		state = WEIR_FLOW_CLOSING;
		flags = META_RST;
	}
	state_set(table, part, head, slot, state, flags, now_ns);
}

void weir_flow_remove(struct weir_flow_table *table, weir_flow_ref flow, enum weir_flow_end end) {
	slot_end(table, &table->part[ref_family(flow)], ref_head(table, flow), ref_slot(flow), end);
}

// --- insertion ------------------------------------------------------------------------------

static inline int slot_free(const struct head *head) {
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		if (head->meta[slot] == 0) {
			return (int)slot;
		}
	}
	return -1;
}

// Make room in `bucket` by moving one of its residents to that one's other bucket; `depth` more
// steps may be taken to make room there. Returns the freed slot or -1.
static int make_room(struct part *part, unsigned int family, uint32_t bucket, unsigned int depth) {
	struct head *head = bucket_at(part, bucket);

	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		uint32_t other = other_bucket(part, bucket, head->tag[slot]);
		struct head *to = bucket_at(part, other);
		int room = slot_free(to);

		if (room < 0 && depth > 0 && other != bucket) {
			room = make_room(part, family, other, depth - 1);
		}
		if (room >= 0 && other != bucket) {
			slot_move(to, (unsigned int)room, head, slot, family);
			head->meta[slot] = 0;
			head->tag[slot] = 0;
			return (int)slot;
		}
	}
	return -1;
}

// The half-open flow of a bucket that has been idle longest, or -1.
static int oldest_half_open(const struct weir_flow_table *table, const struct head *head,
	uint64_t now_ns, uint16_t *ret_age) {
	int oldest = -1;

	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		if (head->meta[slot] == (META_USED | WEIR_FLOW_SYN_SEEN)) {
			uint16_t age = (uint16_t)(ticks(table, WEIR_FLOW_SYN_SEEN, now_ns) -
						  head->last[slot]);

			if (oldest < 0 || age > *ret_age) {
				oldest = (int)slot;
				*ret_age = age;
			}
		}
	}
	return oldest;
}

// Evict the older of the half-open flows in two buckets. Returns the freed slot, its bucket in
// *ret_bucket, or -1.
static int evict_half_open(struct weir_flow_table *table, struct part *part,
	const uint32_t buckets[2], uint64_t now_ns, uint32_t *ret_bucket) {
	uint16_t age[2] = {0, 0};
	int slot[2];
	unsigned int which;

	for (unsigned int i = 0; i < 2; i++) {
		slot[i] = oldest_half_open(table, bucket_at(part, buckets[i]), now_ns, &age[i]);
	}
	if (slot[0] < 0 && slot[1] < 0) {
		return -1;
	}
	which = slot[0] < 0 || (slot[1] >= 0 && age[1] > age[0]);
	slot_end(table, part, bucket_at(part, buckets[which]), (unsigned int)slot[which],
		WEIR_FLOW_END_EVICTED);
	table->evicted++;
	*ret_bucket = buckets[which];
	return slot[which];
}

static int find_room(struct weir_flow_table *table, struct part *part, unsigned int family,
	const uint32_t buckets[2], enum weir_flow_event event, uint64_t now_ns,
	uint32_t *ret_bucket) {
	bool at_limit = part->count >= part->capacity ||
			(event == WEIR_FLOW_EVENT_SYN && part->half_open >= part->half_open_max);

	if (likely(!at_limit)) {
		for (unsigned int i = 0; i < 2; i++) {
			int slot = slot_free(bucket_at(part, buckets[i]));

			if (slot >= 0) {
				*ret_bucket = buckets[i];
				return slot;
			}
		}
		for (unsigned int i = 0; i < 2; i++) {
			int slot = make_room(part, family, buckets[i], 1);

			if (slot >= 0) {
				*ret_bucket = buckets[i];
				return slot;
			}
		}
	}
	return evict_half_open(table, part, buckets, now_ns, ret_bucket);
}

weir_flow_ref weir_flow_insert(struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint16_t backend, enum weir_flow_event event, uint64_t now_ns) {
	unsigned int family = family_index(key->family);
	struct part *part = &table->part[family];
	uint32_t first = first_bucket(part, hash);
	uint32_t buckets[2] = {first, other_bucket(part, first, tag_of(hash))};
	uint32_t bucket = first;
	struct head *head;
	int slot;

	bucket_expire(table, part, bucket_at(part, buckets[0]), now_ns);
	bucket_expire(table, part, bucket_at(part, buckets[1]), now_ns);
	slot = find_room(table, part, family, buckets, event, now_ns, &bucket);
	if (unlikely(slot < 0)) {
		return -ENOSPC;
	}
	head = bucket_at(part, bucket);
	head->tag[slot] = tag_of(hash);
	head->backend[slot] = backend;
	key_store(head, family, (unsigned int)slot, key);
	state_set(table, part, head, (unsigned int)slot, first_state(event),
		event == WEIR_FLOW_EVENT_RST ? META_RST : 0, now_ns);
	part->count++;
	return ref_make(family, bucket, (unsigned int)slot);
}

// --- expiry ---------------------------------------------------------------------------------

static bool part_sweep(
	struct weir_flow_table *table, struct part *part, uint64_t elapsed_ns, uint64_t now_ns) {
	uint64_t due;

	part->sweep_debt += (elapsed_ns * part->sweep_rate) >> SWEEP_SHIFT;
	due = part->sweep_debt >> 16;
	if (due > SWEEP_BUCKETS_MAX) { // what a long turn left over is swept in the next ones
		due = SWEEP_BUCKETS_MAX;
	}
	part->sweep_debt -= due << 16;
	if (part->sweep_debt >> 16 > part->bucket_count) {
		part->sweep_debt = (uint64_t)part->bucket_count << 16;
	}
	if (part->count == 0) {
		part->sweep_debt = 0;
		return false;
	}
	while (due-- > 0) {
		bucket_expire(table, part, bucket_at(part, part->sweep_next), now_ns);
		if (++part->sweep_next == part->bucket_count) {
			part->sweep_next = 0;
		}
	}
	return part->sweep_debt >> 16 >= SWEEP_BUCKETS_MAX;
}

bool weir_flow_sweep(struct weir_flow_table *table, uint64_t now_ns) {
	uint64_t elapsed_ns = now_ns - table->swept_ns;
	bool more;

	// The first call, and a turn so long that a multiplication would overflow.
	if (unlikely(elapsed_ns > 1000000000ull)) {
		elapsed_ns = 1000000000ull;
	}
	table->swept_ns = now_ns;
	more = part_sweep(table, &table->part[0], elapsed_ns, now_ns);
	return part_sweep(table, &table->part[1], elapsed_ns, now_ns) || more;
}

// --- figures --------------------------------------------------------------------------------

uint32_t weir_flow_count(const struct weir_flow_table *table) {
	return table->part[0].count + table->part[1].count;
}

uint32_t weir_flow_half_open_count(const struct weir_flow_table *table) {
	return table->part[0].half_open + table->part[1].half_open;
}

uint64_t weir_flow_evicted_count(const struct weir_flow_table *table) {
	return table->evicted;
}

const char *weir_flow_state_name(enum weir_flow_state state) {
	static const char *const names[] = {
#define X(name, key) [WEIR_FLOW_##name] = (key),
		WEIR_FLOW_STATES(X)
#undef X
	};

	return (unsigned int)state < STATES ? names[state] : "unknown";
}
