// SPDX-License-Identifier: BSD-3-Clause
#include "flow_table.h"

#include <errno.h>

#include <rte_malloc.h>

#include "flow_expire.h"
#include "flow_parts.h"
#include "flow_slot.h"

#define MS 1000000ull

static const struct {
	uint8_t state; // enum weir_flow_state
	uint8_t timeout; // the state whose timeout applies
} phases[WEIR_FLOW_PHASES] = {
	[WEIR_PHASE_SYN_SEEN] = {WEIR_FLOW_SYN_SEEN, WEIR_FLOW_SYN_SEEN},
	[WEIR_PHASE_ESTABLISHED] = {WEIR_FLOW_ESTABLISHED, WEIR_FLOW_ESTABLISHED},
	[WEIR_PHASE_CLOSING] = {WEIR_FLOW_CLOSING, WEIR_FLOW_CLOSING},
	// A forged RST must not make a flow expire earlier, so the established timeout applies.
	// While the flows of a family use more than three quarters of its capacity, the closing
	// timeout applies instead.
	[WEIR_PHASE_RESET] = {WEIR_FLOW_CLOSING, WEIR_FLOW_ESTABLISHED},
	[WEIR_PHASE_JOINED] = {WEIR_FLOW_SYN_SEEN, WEIR_FLOW_SYN_SEEN},
	[WEIR_PHASE_WAITING] = {WEIR_FLOW_SYN_SEEN, WEIR_FLOW_SYN_SEEN},
	[WEIR_PHASE_YOUNG] = {WEIR_FLOW_YOUNG, WEIR_FLOW_YOUNG},
	[WEIR_PHASE_UDP] = {WEIR_FLOW_UDP, WEIR_FLOW_UDP},
	[WEIR_PHASE_UDP_SEEN] = {WEIR_FLOW_UDP_SEEN, WEIR_FLOW_UDP_SEEN},
	[WEIR_PHASE_ABORTED] = {WEIR_FLOW_CLOSING, WEIR_FLOW_CLOSING},
	[WEIR_PHASE_CHALLENGED] = {WEIR_FLOW_ESTABLISHED, WEIR_FLOW_ESTABLISHED},
	[WEIR_PHASE_MOVED] = {WEIR_FLOW_SYN_SEEN, WEIR_FLOW_SYN_SEEN},
};

// --- create and free ------------------------------------------------------------------------

// Returns the number of IPv6 destinations for which a table needs room. It is one more than the
// number of flows: when a new flow evicts another flow, the destination of the new flow is stored
// before the eviction.
static uint32_t destinations_for(uint64_t flows) {
	return (uint32_t)RTE_MIN(flows + 1, (uint64_t)WEIR_FLOW_DESTINATIONS_MAX);
}

static uint64_t ipv6_share(uint64_t flows, uint32_t percent) {
	return RTE_MAX(flows * percent / 100, 1ull);
}

uint64_t weir_flow_table_bytes(uint32_t flows, uint32_t ipv6_percent) {
	return weir_flow_memory_bytes(flows, ipv6_percent, false) +
	       weir_flow_table_own_bytes(flows, ipv6_percent);
}

uint64_t weir_flow_table_own_bytes(uint64_t flows, uint32_t ipv6_percent) {
	return sizeof(struct weir_flow_table) +
	       weir_flow_destinations_bytes(destinations_for(ipv6_share(flows, ipv6_percent)));
}

static void use_lines(struct weir_flow_family *family, const struct weir_flow_lines *lines,
	const struct weir_flow_memory *memory) {
	family->buckets = lines->buckets;
	family->starts = lines->starts;
	family->slots = lines->slots;
	family->bucket_count = lines->bucket_count;
	family->part_buckets = lines->part_buckets;
	family->part_step = memory->shift > 0 ? lines->part_buckets : 0;
}

// Use the shared memory in the parameters, or allocate private memory.
static int use_memory(struct weir_flow_table *table, const struct weir_flow_table_params *params) {
	int r = 0;

	table->memory = params->memory;
	table->private = params->memory == NULL;
	if (table->private) {
		r = weir_flow_memory_create(
			params->flows, params->ipv6_percent, false, params->socket, &table->memory);
	}
	if (r < 0) {
		return r;
	}
	table->owned.shift = table->memory->shift;
	table->owned.half_open_percent = params->half_open_percent;
	use_lines(&table->family4, &table->memory->ipv4, table->memory);
	use_lines(&table->family6, &table->memory->ipv6, table->memory);
	if (table->private) {
		weir_flow_own(table, 0);
	}
	return weir_flow_destinations_create(
		destinations_for(table->memory->ipv6.flows), params->socket, &table->destinations);
}

static unsigned int shift_for(uint64_t timeout_ns) {
	uint64_t ticks_of_wrap = WEIR_WORD_LAST_MASK + 1;
	unsigned int shift = WEIR_FLOW_STAMP_SHIFT;

	while ((ticks_of_wrap << shift) < 2 * timeout_ns ||
		(ticks_of_wrap << shift) < WEIR_FLOW_WRAP_NS_MIN) {
		shift++;
	}
	return shift;
}

static uint32_t ticks_of(uint32_t ms, unsigned int shift) {
	return (uint32_t)((ms * MS + (1ull << shift) - 1) >> shift);
}

static void timeouts_set(struct weir_flow_table *table, const uint32_t *timeout_ms) {
	uint32_t half_open_ms =
		RTE_MAX(timeout_ms[WEIR_FLOW_SYN_SEEN], timeout_ms[WEIR_FLOW_UDP_SEEN]);

	for (unsigned int phase = WEIR_PHASE_SYN_SEEN; phase < WEIR_FLOW_PHASES; phase++) {
		uint32_t own_ms = timeout_ms[phases[phase].timeout];
		bool half_open = (phase & WEIR_PHASE_HALF_OPEN_MASK) == WEIR_PHASE_HALF_OPEN;
		unsigned int shift = shift_for((half_open ? half_open_ms : own_ms) * MS);

		table->shift[phase] = (uint8_t)shift;
		table->now.timeout_ticks[phase] = ticks_of(own_ms, shift);
	}
	table->reset_ticks = table->now.timeout_ticks[WEIR_PHASE_RESET];
	table->reset_ticks_short = RTE_MIN(table->reset_ticks,
		ticks_of(timeout_ms[WEIR_FLOW_CLOSING], table->shift[WEIR_PHASE_RESET]));
	table->now.handshake_ticks =
		RTE_MIN(ticks_of(WEIR_FLOW_HANDSHAKE_MS, table->shift[WEIR_PHASE_SYN_SEEN]),
			ticks_of(half_open_ms, table->shift[WEIR_PHASE_SYN_SEEN]));
	// A free slot never counts as expired.
	table->now.timeout_ticks[WEIR_PHASE_FREE] = WEIR_WORD_LAST_MASK;
}

// Returns the inverse of an odd number, modulo 2^64, computed by Newton's method: the initial value
// n has three correct bits, and each step doubles the number of correct bits.
static uint64_t inverse_of(uint64_t n) {
	uint64_t inverse = n;

	for (unsigned int bits = 3; bits < 64; bits *= 2) {
		inverse *= 2 - n * inverse;
	}
	return inverse;
}

static struct weir_flow_secret secret_of(uint64_t random) {
	uint64_t first = weir_hash_mix(random ^ 0x9e3779b97f4a7c15ull, 0xd1342543de82ef95ull) | 1;

	return (struct weir_flow_secret){.first = first,
		.second = weir_hash_mix(random ^ 0x8ebc6af09c88c6e3ull, 0x589965cc75374cc3ull) | 1,
		.first_inverse = inverse_of(first)};
}

static bool is_valid(const struct weir_flow_table_params *params) {
	for (unsigned int state = 0; state < WEIR_FLOW_STATE_COUNT; state++) {
		if (params->timeout_ms[state] == 0) {
			return false;
		}
	}
	return (params->memory != NULL || (params->flows > 0 && params->flows <= 1u << 28)) &&
	       params->half_open_percent > 0 && params->half_open_percent <= 100 &&
	       params->ipv6_percent > 0 && params->ipv6_percent <= WEIR_FLOW_IPV6_PERCENT_MAX;
}

int weir_flow_table_create(const struct weir_flow_table_params *params,
	const struct weir_flow_listener *listener, struct weir_flow_table **ret) {
	struct weir_flow_table *table;
	int r;

	if (!is_valid(params) || listener->established == NULL || listener->finished == NULL ||
		listener->resumed == NULL || listener->ended == NULL) {
		return -EINVAL;
	}
	table = rte_zmalloc_socket("flow_table", sizeof(*table), 64, params->socket);
	if (table == NULL) {
		return -ENOMEM;
	}
	table->listener = *listener;
	table->hash_seed = params->hash_seed;
	table->secret = secret_of(params->secret);
	table->given_parts = params->given_parts && params->memory != NULL;
	timeouts_set(table, params->timeout_ms);
	weir_flow_refresh_stamps(table, 0);
	r = use_memory(table, params);
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
	weir_flow_destinations_free(&table->destinations);
	if (table->private) {
		weir_flow_memory_free(table->memory);
	}
	rte_free(table);
}

// --- lookup ---------------------------------------------------------------------------------

// Returns whether a word belongs to a flow of this protocol that has not expired. Only TCP and UDP
// have flows, so the phase in the word determines the protocol.
static inline bool is_live(
	const struct weir_flow_table *table, uint32_t word, uint8_t protocol, uint64_t now_ns) {
	return word != 0 && weir_flow_is_udp(word) == (protocol == 17) &&
	       !weir_flow_is_expired(table, word, now_ns);
}

static inline int find(const struct weir_flow_table *table, bool ipv6, uint32_t bucket,
	const struct weir_flow_key *key, uint64_t now_ns) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);

	for (unsigned int left = weir_flow_match(table, ipv6, bucket, key); left != 0;
		left &= left - 1) {
		int slot = __builtin_ctz(left);

		if (is_live(table, words[slot], key->protocol, now_ns)) {
			return slot;
		}
	}
	return -1;
}

weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns) {
	bool ipv6 = key->family != 4;
	const struct weir_flow_family *family = ipv6 ? &table->family6 : &table->family4;
	uint64_t bucket_hash = weir_flow_bucket_hash(&table->secret, key, hash);
	uint32_t bucket = weir_flow_first_bucket(&table->secret, family->bucket_count, bucket_hash);
	int slot;

	for (unsigned int turn = 0; turn < 2; turn++) {
		slot = find(table, ipv6, bucket, key, now_ns);
		if (slot >= 0) {
			return weir_flow_ref_make(ipv6, bucket, (unsigned int)slot);
		}
		bucket = weir_flow_second_bucket(&table->secret, family, bucket_hash);
	}
	return -ENOENT;
}

bool weir_flow_owns_key(
	const struct weir_flow_table *table, const struct weir_flow_key *key, uint64_t hash) {
	return weir_flow_owns(table,
		weir_flow_part(&table->secret, weir_flow_bucket_hash(&table->secret, key, hash)));
}

weir_flow_ref weir_flow_lookup_owned(const struct weir_flow_table *table,
	const struct weir_flow_key *key, uint64_t hash, uint64_t now_ns) {
	return weir_flow_owns_key(table, key, hash) ? weir_flow_lookup(table, key, hash, now_ns)
						    : -ENOENT;
}

uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow) {
	return (uint16_t)weir_flow_word_of(table, flow);
}

enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow) {
	return (enum weir_flow_state)phases[weir_flow_phase_of(weir_flow_word_of(table, flow))]
		.state;
}

uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns) {
	uint32_t word = weir_flow_word_of(table, flow);
	uint64_t age = weir_flow_age_of(table, word, now_ns);

	return (uint32_t)((age << table->shift[weir_flow_phase_of(word)]) / 1000000);
}

// --- counts ---------------------------------------------------------------------------------

uint32_t weir_flow_count(const struct weir_flow_table *table) {
	return table->family4.count + table->family6.count;
}

uint32_t weir_flow_half_open_count(const struct weir_flow_table *table) {
	return table->family4.half_open + table->family6.half_open;
}

uint64_t weir_flow_evicted_count(const struct weir_flow_table *table) {
	return table->evicted;
}

uint64_t weir_flow_idle_evicted_count(const struct weir_flow_table *table) {
	return table->idle_evicted;
}
