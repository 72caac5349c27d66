// SPDX-License-Identifier: BSD-3-Clause
#include "flow_table.h"

#include <errno.h>

#include <rte_malloc.h>

#include "flow_private.h"

// Of all slots, when as many flows are in the table as it was made for. IPv6's buckets are smaller:
// more of its flows would live in their second place, and be found later.
#define FILL_PERCENT4 75
#define FILL_PERCENT6 50
#define SWEEP_BUCKETS_MAX 256 // per call
#define SWEEP_SHIFT 20 // sweep speed is kept in buckets per 2^20 ns (about a millisecond)
#define FORGET_SWEEPS 256 // starts are looked through once in so many sweeps: every few minutes
#define START_SHIFT 14 // a start is kept in ticks of 2^14 ns: 16 us, for 4 hours

// What the event of a packet makes of a phase, and what it means.
enum step {
	STEP_NONE, // the packet says nothing (a SYN on an established flow may be forged)
	STEP_USUAL, // refresh
	STEP_MOVE, // another phase, nothing to report
	STEP_COMPLETE, // finished well
	STEP_REFUSE, // finished by an RST before it was established
	STEP_RESUME, // not finished after all
	STEP_RESTART, // a new flow in the same place
};

struct transition {
	uint8_t phase;
	uint8_t step; // enum step
};

// clang-format off
#define T(phase, step) {WEIR_PHASE_##phase, STEP_##step}
static const struct transition transitions[WEIR_FLOW_EVENTS][WEIR_FLOW_PHASES] = {
	// from  free, SYN seen, established, closing,
	//       reset, joined, waiting, UDP
	[WEIR_FLOW_EVENT_SYN] =
		{T(FREE, NONE), T(SYN_SEEN, USUAL), T(ESTABLISHED, NONE), T(CLOSING, RESTART),
		 T(RESET, RESTART), T(JOINED, RESTART), T(WAITING, USUAL), T(UDP, NONE)},
	[WEIR_FLOW_EVENT_DATA] =
		{T(FREE, NONE), T(ESTABLISHED, MOVE), T(ESTABLISHED, USUAL), T(CLOSING, USUAL),
		 T(ESTABLISHED, RESUME), T(ESTABLISHED, MOVE), T(ESTABLISHED, MOVE), T(UDP, NONE)},
	[WEIR_FLOW_EVENT_FIN] =
		{T(FREE, NONE), T(CLOSING, COMPLETE), T(CLOSING, COMPLETE), T(CLOSING, USUAL),
		 T(CLOSING, MOVE), T(CLOSING, COMPLETE), T(CLOSING, COMPLETE), T(UDP, NONE)},
	// An RST after a FIN is how many clients end; it makes no refusal of a completed flow.
	[WEIR_FLOW_EVENT_RST] =
		{T(FREE, NONE), T(RESET, REFUSE), T(RESET, COMPLETE), T(CLOSING, USUAL),
		 T(RESET, USUAL), T(RESET, COMPLETE), T(RESET, REFUSE), T(UDP, NONE)},
	[WEIR_FLOW_EVENT_DATAGRAM] =
		{T(FREE, NONE), T(SYN_SEEN, NONE), T(ESTABLISHED, NONE), T(CLOSING, NONE),
		 T(RESET, NONE), T(JOINED, NONE), T(WAITING, NONE), T(UDP, USUAL)},
};
#undef T
// clang-format on

static const uint8_t state_of[8] = {
	[WEIR_PHASE_SYN_SEEN] = WEIR_FLOW_SYN_SEEN,
	[WEIR_PHASE_ESTABLISHED] = WEIR_FLOW_ESTABLISHED,
	[WEIR_PHASE_CLOSING] = WEIR_FLOW_CLOSING,
	[WEIR_PHASE_RESET] = WEIR_FLOW_CLOSING,
	[WEIR_PHASE_JOINED] = WEIR_FLOW_SYN_SEEN,
	[WEIR_PHASE_WAITING] = WEIR_FLOW_CLOSING,
	[WEIR_PHASE_UDP] = WEIR_FLOW_UDP,
};

// --- time -----------------------------------------------------------------------------------

void weir_flow_stamp_anew(struct weir_flow_table *table, uint64_t now_ns) {
	uint32_t stamp[WEIR_FLOW_PHASES];

	for (unsigned int phase = WEIR_PHASE_SYN_SEEN; phase < WEIR_FLOW_PHASES; phase++) {
		stamp[phase] = weir_flow_word_make(table, phase, 0, now_ns);
		table->now.word[phase] = stamp[phase] | WEIR_WORD_BACKEND;
	}
	table->stamps.word[WEIR_FLOW_EVENT_SYN][WEIR_PHASE_SYN_SEEN] = stamp[WEIR_PHASE_SYN_SEEN];
	table->stamps.word[WEIR_FLOW_EVENT_DATA][WEIR_PHASE_ESTABLISHED] =
		stamp[WEIR_PHASE_ESTABLISHED];
	table->stamps.word[WEIR_FLOW_EVENT_DATA][WEIR_PHASE_CLOSING] = stamp[WEIR_PHASE_CLOSING];
	table->stamps.word[WEIR_FLOW_EVENT_DATAGRAM][WEIR_PHASE_UDP] = stamp[WEIR_PHASE_UDP];
	table->stamped = now_ns >> WEIR_FLOW_STAMP_SHIFT;
}

// --- service time ---------------------------------------------------------------------------

static void start_store(struct weir_flow_table *table, const struct weir_flow_place *place,
	bool measured, uint64_t now_ns) {
	uint32_t start = (uint32_t)(now_ns >> START_SHIFT);

	if (measured) {
		table->measuring = true;
	}
	// Until the first measured flow all of them are 0: nothing to touch.
	if (table->measuring) {
		struct weir_flow_late_starts *late = &table->late;
		uint32_t *at = &place->part->starts[place->slot];

		if (unlikely(late->count == WEIR_FLOW_STARTS_LATE)) {
			weir_flow_settle_starts(table);
		}
		late->at[late->count] = at;
		late->value[late->count++] = !measured ? 0 : start == 0 ? 1 : start;
		__builtin_prefetch(at, 1, 3);
	}
}

static uint64_t service_ns(
	struct weir_flow_table *table, const struct weir_flow_place *place, uint64_t end_ns) {
	uint32_t start = 0;
	int32_t elapsed;

	if (table->measuring) {
		weir_flow_settle_starts(table);
		start = place->part->starts[place->slot];
	}
	// The time of a flow's last packet is known to a tick of its state: it may seem to lie
	// before the start.
	elapsed = (int32_t)((uint32_t)(end_ns >> START_SHIFT) - start);
	return start == 0 || elapsed < 0 ? 0 : (uint64_t)elapsed << START_SHIFT;
}

// --- ends -----------------------------------------------------------------------------------

static inline bool is_open(unsigned int phase) {
	return phase != WEIR_PHASE_CLOSING && phase != WEIR_PHASE_RESET;
}

// Tell that a flow that was open has finished by a packet.
static void report_finished(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_outcome outcome, uint64_t now_ns) {
	table->listener.finished(table->listener.context, (uint16_t)*place->word, outcome,
		outcome == WEIR_OUTCOME_COMPLETED ? service_ns(table, place, now_ns) : 0);
}

// How a flow that was open ended, when it ends as `end` without FIN or RST.
static enum weir_outcome outcome_of(unsigned int phase, enum weir_flow_end end) {
	if (end != WEIR_FLOW_END_TIMED_OUT) {
		return WEIR_OUTCOME_ABANDONED;
	}
	return phase == WEIR_PHASE_UDP        ? WEIR_OUTCOME_COMPLETED
	       : phase == WEIR_PHASE_SYN_SEEN ? WEIR_OUTCOME_UNANSWERED
					      : WEIR_OUTCOME_ABANDONED;
}

static inline void report_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns) {
	uint32_t word = *place->word;
	unsigned int phase = weir_flow_phase_of(word);
	int outcome = WEIR_OUTCOME_KNOWN;
	uint64_t took_ns = 0;

	if (is_open(phase)) {
		outcome = (int)outcome_of(phase, end);
	}
	if (unlikely(outcome == WEIR_OUTCOME_COMPLETED)) { // with its last packet
		uint64_t idle_ns = (uint64_t)weir_flow_age_of(table, word, now_ns)
				   << table->shift[phase];

		took_ns = service_ns(table, place, now_ns - idle_ns);
	}
	table->listener.ended(table->listener.context, (uint16_t)word, end, outcome, took_ns);
}

void weir_flow_slot_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns) {
	place->part->half_open -= weir_flow_is_half_open(*place->word);
	place->part->count--;
	report_end(table, place, end, now_ns);
	*place->word = 0;
	if (unlikely(place->part == &table->part6)) {
		weir_flow_release_destination(table, (uint32_t)(place->slot / WEIR_FLOW_SLOTS6),
			place->slot % WEIR_FLOW_SLOTS6);
	}
}

static enum weir_flow_end expiry_end(unsigned int phase) {
	return phase == WEIR_PHASE_CLOSING ? WEIR_FLOW_END_COMPLETED
	       : phase == WEIR_PHASE_RESET ? WEIR_FLOW_END_REFUSED
					   : WEIR_FLOW_END_TIMED_OUT;
}

void weir_flow_bucket_expire(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	const uint32_t *words = weir_flow_bucket_words(table, ipv6, bucket);
	unsigned int slots = ipv6 ? WEIR_FLOW_SLOTS6 : WEIR_FLOW_SLOTS4;

	for (unsigned int slot = 0; slot < slots; slot++) {
		if (unlikely(
			    weir_flow_is_expired(table, words[slot], now_ns))) { // never a free one
			struct weir_flow_place place =
				weir_flow_place_at(table, ipv6, bucket, slot);

			weir_flow_slot_end(
				table, &place, expiry_end(weir_flow_phase_of(words[slot])), now_ns);
		}
	}
}

// --- create and free ------------------------------------------------------------------------

struct part_size {
	uint32_t slots; // of a bucket
	uint32_t bucket_bytes;
	uint32_t fill_percent;
};

static const struct part_size size4 = {
	WEIR_FLOW_SLOTS4, sizeof(struct weir_flow_bucket4), FILL_PERCENT4};
static const struct part_size size6 = {
	WEIR_FLOW_SLOTS6, sizeof(struct weir_flow_bucket6), FILL_PERCENT6};

static uint32_t buckets_for(uint32_t flows, const struct part_size *size) {
	uint64_t wanted = (uint64_t)flows * 100 / size->fill_percent + 1;

	return (uint32_t)((wanted + size->slots - 1) / size->slots);
}

static uint32_t ipv6_share(uint32_t flows) {
	return flows / WEIR_FLOW_IPV6_SHARE > 0 ? flows / WEIR_FLOW_IPV6_SHARE : 1;
}

// One more than flows: a new one has its number before another makes room for it.
static uint32_t destinations_for(uint32_t flows) {
	return RTE_MIN(flows + 1, WEIR_FLOW_DESTINATIONS_MAX);
}

static uint64_t part_bytes(uint32_t flows, const struct part_size *size) {
	return (uint64_t)buckets_for(flows, size) *
	       (size->bucket_bytes + size->slots * sizeof(uint32_t));
}

uint64_t weir_flow_table_bytes(uint32_t flows) {
	uint32_t flows6 = ipv6_share(flows);

	return sizeof(struct weir_flow_table) + part_bytes(flows, &size4) +
	       part_bytes(flows6, &size6) + weir_flow_destinations_bytes(destinations_for(flows6));
}

static int part_create(struct weir_flow_part *part, uint32_t flows, const struct part_size *size,
	const struct weir_flow_table_params *params) {
	part->slots = size->slots;
	part->bucket_count = buckets_for(flows, size);
	part->capacity = flows;
	part->half_open_max = (uint32_t)((uint64_t)flows * params->half_open_percent / 100);
	if (part->half_open_max == 0) {
		part->half_open_max = 1;
	}
	// A whole sweep takes about 0.8 s, so that it is over within the second of F6.
	part->sweep_rate =
		(((uint64_t)part->bucket_count << (16 + SWEEP_SHIFT)) / 800000000ull) + 1;
	part->buckets = rte_zmalloc_socket("flow_table",
		(uint64_t)part->bucket_count * size->bucket_bytes, 64, params->socket);
	part->starts = rte_zmalloc_socket("flow_table",
		(uint64_t)part->bucket_count * size->slots * sizeof(uint32_t), 64, params->socket);
	return part->buckets == NULL || part->starts == NULL ? -ENOMEM : 0;
}

static void timeouts_set(struct weir_flow_table *table, const uint32_t timeout_ms[4]) {
	for (unsigned int phase = WEIR_PHASE_SYN_SEEN; phase < WEIR_FLOW_PHASES; phase++) {
		uint64_t timeout_ns = (uint64_t)timeout_ms[state_of[phase]] * 1000000;
		uint64_t ticks_of_wrap = WEIR_WORD_LAST_MASK + 1;
		unsigned int shift = WEIR_FLOW_STAMP_SHIFT;

		while ((ticks_of_wrap << shift) < 2 * timeout_ns ||
			(ticks_of_wrap << shift) < WEIR_FLOW_WRAP_NS_MIN) {
			shift++;
		}
		table->shift[phase] = (uint8_t)shift;
		table->now.timeout_ticks[phase] =
			(uint32_t)((timeout_ns + (1ull << shift) - 1) >> shift);
	}
	// So that a free slot never counts as expired.
	table->now.timeout_ticks[WEIR_PHASE_FREE] = WEIR_WORD_LAST_MASK;
}

int weir_flow_table_create(const struct weir_flow_table_params *params,
	const struct weir_flow_listener *listener, struct weir_flow_table **ret) {
	uint32_t flows6 = ipv6_share(params->flows);
	struct weir_flow_table *table;
	int r;

	if (params->flows == 0 || params->flows > 1u << 28 || params->half_open_percent == 0 ||
		params->half_open_percent > 100 || listener->finished == NULL ||
		listener->resumed == NULL || listener->ended == NULL) {
		return -EINVAL;
	}
	for (unsigned int state = 0; state < 4; state++) {
		if (params->timeout_ms[state] == 0) {
			return -EINVAL;
		}
	}
	table = rte_zmalloc_socket("flow_table", sizeof(*table), 64, params->socket);
	if (table == NULL) {
		return -ENOMEM;
	}
	table->listener = *listener;
	table->hash_seed = params->hash_seed;
	timeouts_set(table, params->timeout_ms);
	weir_flow_stamp_anew(table, 0);
	r = part_create(&table->part4, params->flows, &size4, params);
	if (r == 0) {
		r = part_create(&table->part6, flows6, &size6, params);
	}
	if (r == 0) {
		r = weir_flow_destinations_create(
			destinations_for(flows6), params->socket, &table->destinations);
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
	weir_flow_destinations_free(&table->destinations);
	rte_free(table->part6.starts);
	rte_free(table->part6.buckets);
	rte_free(table->part4.starts);
	rte_free(table->part4.buckets);
	rte_free(table);
}

// --- look-up --------------------------------------------------------------------------------

// Only TCP and UDP have flows, so the phase tells the protocol.
static inline bool is_live(
	const struct weir_flow_table *table, uint32_t word, uint8_t protocol, uint64_t now_ns) {
	unsigned int phase = weir_flow_phase_of(word);

	return phase != WEIR_PHASE_FREE && (phase == WEIR_PHASE_UDP) == (protocol == 17) &&
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

uint32_t *weir_flow_find6_among(
	const struct weir_flow_table *table, struct weir_flow_bucket6 *bucket, const uint8_t *ip) {
	struct weir_flow_tuple6 tuple = {.source = ip + 8, .destination = ip + 24};
	unsigned int match;

	memcpy(&tuple.ports, ip + 40, 4);
	match = weir_flow_match6(table, bucket, &tuple);
	return match != 0 ? &bucket->word[__builtin_ctz(match)] : NULL;
}

weir_flow_ref weir_flow_lookup(const struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, uint64_t now_ns) {
	bool ipv6 = key->family != 4;
	uint32_t count = ipv6 ? table->part6.bucket_count : table->part4.bucket_count;
	uint32_t bucket = weir_flow_first_bucket(count, hash);
	int slot;

	for (unsigned int turn = 0; turn < 2; turn++) {
		slot = find(table, ipv6, bucket, key, now_ns);
		if (slot >= 0) {
			return weir_flow_ref_make(ipv6, bucket, (unsigned int)slot);
		}
		bucket = weir_flow_second_bucket(count, hash);
	}
	return -ENOENT;
}

uint16_t weir_flow_backend(const struct weir_flow_table *table, weir_flow_ref flow) {
	return (uint16_t)weir_flow_word_of(table, flow);
}

enum weir_flow_state weir_flow_state(const struct weir_flow_table *table, weir_flow_ref flow) {
	return (enum weir_flow_state)state_of[weir_flow_phase_of(weir_flow_word_of(table, flow))];
}

uint32_t weir_flow_idle_ms(
	const struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns) {
	uint32_t word = weir_flow_word_of(table, flow);
	uint64_t age = weir_flow_age_of(table, word, now_ns);

	return (uint32_t)((age << table->shift[weir_flow_phase_of(word)]) / 1000000);
}

// --- the life of a flow ---------------------------------------------------------------------

bool weir_flow_advance(struct weir_flow_table *table, weir_flow_ref flow,
	enum weir_flow_event event, uint64_t now_ns) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);
	unsigned int phase = weir_flow_phase_of(*place.word);
	const struct transition *to = &transitions[event][phase];
	uint16_t backend = (uint16_t)*place.word;

	switch ((enum step)to->step) {
	case STEP_NONE:
		return false;
	case STEP_RESTART:
		return true;
	case STEP_COMPLETE:
		report_finished(table, &place, WEIR_OUTCOME_COMPLETED, now_ns);
		break;
	case STEP_REFUSE:
		report_finished(table, &place, WEIR_OUTCOME_REFUSED, now_ns);
		break;
	case STEP_RESUME:
		if (table->measuring) { // it was measured already: once per flow
			weir_flow_settle_starts(table);
			place.part->starts[place.slot] = 0;
		}
		table->listener.resumed(table->listener.context, backend);
		break;
	case STEP_USUAL:
	case STEP_MOVE:
		break;
	}
	place.part->half_open -= weir_flow_is_half_open(*place.word);
	*place.word = weir_flow_word_make(table, to->phase, backend, now_ns);
	place.part->half_open += weir_flow_is_half_open(*place.word);
	return false;
}

static enum weir_flow_phase first_phase(const struct weir_flow_start *start) {
	switch (start->event) {
	case WEIR_FLOW_EVENT_SYN:
		return start->joined ? WEIR_PHASE_JOINED : WEIR_PHASE_SYN_SEEN;
	case WEIR_FLOW_EVENT_DATAGRAM:
		return WEIR_PHASE_UDP;
	case WEIR_FLOW_EVENT_FIN:
		return WEIR_PHASE_CLOSING;
	case WEIR_FLOW_EVENT_RST:
		return WEIR_PHASE_RESET;
	case WEIR_FLOW_EVENT_DATA:
		break;
	}
	return WEIR_PHASE_ESTABLISHED;
}

// The slot holds a new flow from now on.
void weir_flow_slot_begin(struct weir_flow_table *table, const struct weir_flow_place *place,
	const struct weir_flow_start *start) {
	enum weir_flow_phase phase;

	if (likely(start->event == WEIR_FLOW_EVENT_SYN) && likely(!start->joined) &&
		likely(place->part->half_open < place->part->half_open_max)) {
		*place->word = table->stamps.word[WEIR_FLOW_EVENT_SYN][WEIR_PHASE_SYN_SEEN] |
			       start->backend;
		place->part->half_open++;
	} else {
		phase = first_phase(start);
		// F4 holds for a restart too.
		if (start->event == WEIR_FLOW_EVENT_SYN &&
			place->part->half_open >= place->part->half_open_max) {
			phase = WEIR_PHASE_WAITING;
		}
		*place->word = weir_flow_word_make(table, phase, start->backend, start->now_ns);
		place->part->half_open += weir_flow_is_half_open(*place->word);
	}
	start_store(table, place, start->measured, start->now_ns);
}

void weir_flow_restart(struct weir_flow_table *table, weir_flow_ref flow,
	const struct weir_flow_start *start, enum weir_flow_end end) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);

	weir_flow_stamp(table, start->now_ns);
	// When a port is used again, the old flow ended as its state says.
	if (end == WEIR_FLOW_END_COMPLETED) {
		end = expiry_end(weir_flow_phase_of(*place.word));
	}
	report_end(table, &place, end, start->now_ns);
	place.part->half_open -= weir_flow_is_half_open(*place.word);
	weir_flow_slot_begin(table, &place, start);
}

void weir_flow_remove(struct weir_flow_table *table, weir_flow_ref flow, enum weir_flow_end end,
	uint64_t now_ns) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);

	weir_flow_slot_end(table, &place, end, now_ns);
}

// --- expiry ---------------------------------------------------------------------------------

// Starts are forgotten long before their ticks come round again. Such a flow is not measured.
static void starts_forget(
	struct weir_flow_table *table, bool ipv6, uint32_t bucket, uint64_t now_ns) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
	uint32_t *starts = &part->starts[(uint64_t)bucket * part->slots];
	uint32_t now = (uint32_t)(now_ns >> START_SHIFT);

	for (uint32_t slot = 0; slot < part->slots; slot++) {
		if (starts[slot] != 0 && now - starts[slot] > INT32_MAX / 2) {
			starts[slot] = 0;
		}
	}
}

static bool part_sweep(
	struct weir_flow_table *table, bool ipv6, uint64_t elapsed_ns, uint64_t now_ns) {
	struct weir_flow_part *part = weir_flow_part_of(table, ipv6);
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
		weir_flow_bucket_expire(table, ipv6, part->sweep_next, now_ns);
		if (unlikely(part->sweeps % FORGET_SWEEPS == 0) && table->measuring) {
			starts_forget(table, ipv6, part->sweep_next, now_ns);
		}
		if (++part->sweep_next == part->bucket_count) {
			part->sweep_next = 0;
			part->sweeps++;
		}
	}
	__builtin_prefetch(
		weir_flow_bucket_words(table, ipv6, part->sweep_next)); // for the next call
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
	weir_flow_settle_starts(table);
	more = part_sweep(table, false, elapsed_ns, now_ns);
	return part_sweep(table, true, elapsed_ns, now_ns) || more;
}

// --- figures --------------------------------------------------------------------------------

uint32_t weir_flow_count(const struct weir_flow_table *table) {
	return table->part4.count + table->part6.count;
}

uint32_t weir_flow_half_open_count(const struct weir_flow_table *table) {
	return table->part4.half_open + table->part6.half_open;
}

uint64_t weir_flow_evicted_count(const struct weir_flow_table *table) {
	return table->evicted;
}
