// SPDX-License-Identifier: BSD-3-Clause
#include "flow_life.h"

#include "probes.h"

// The change of a flow when a packet causes an event.
enum step {
	STEP_NONE, // ignored (a SYN on an established flow may be forged)
	STEP_REFRESH, // the phase stays the same, and the time of the last packet is updated
	STEP_MOVE, // the flow gets a new phase, and the listener is not called
	STEP_ESTABLISH, // the flow is no longer half-open
	STEP_COMPLETE, // the flow has completed
	STEP_ABANDON, // an RST has finished the flow before the flow was established
	STEP_RESUME, // a finished flow is open again
	STEP_RESTART, // a new flow in the slot of the old flow
};

struct transition {
	uint8_t phase;
	uint8_t step; // enum step
};

// clang-format off
#define T(phase, step) {WEIR_PHASE_##phase, STEP_##step}
static const struct transition transitions[WEIR_FLOW_EVENT_COUNT][WEIR_FLOW_PHASES] = {
	// columns: free, SYN seen, established, closing,
	//       reset, joined, waiting, young,
	//       UDP, UDP seen, aborted, challenged,
	//       -, moved
	[WEIR_FLOW_EVENT_SYN] =
		{T(FREE, NONE), T(SYN_SEEN, REFRESH), T(ESTABLISHED, NONE), T(CLOSING, RESTART),
		 T(RESET, RESTART), T(JOINED, RESTART), T(WAITING, REFRESH), T(YOUNG, NONE),
		 T(UDP, NONE), T(UDP_SEEN, NONE), T(ABORTED, RESTART), T(CHALLENGED, NONE),
		 T(FREE, NONE), T(SYN_SEEN, REFRESH)},
	[WEIR_FLOW_EVENT_DATA] =
		{T(FREE, NONE), T(ESTABLISHED, ESTABLISH), T(ESTABLISHED, REFRESH), T(CLOSING, REFRESH),
		 T(ESTABLISHED, RESUME), T(ESTABLISHED, ESTABLISH), T(ESTABLISHED, ESTABLISH), T(ESTABLISHED, MOVE),
		 T(UDP, NONE), T(UDP_SEEN, NONE), T(ESTABLISHED, RESUME), T(ESTABLISHED, MOVE),
		 T(FREE, NONE), T(ESTABLISHED, ESTABLISH)},
	[WEIR_FLOW_EVENT_FIN] =
		{T(FREE, NONE), T(CLOSING, COMPLETE), T(CLOSING, COMPLETE), T(CLOSING, REFRESH),
		 T(CLOSING, MOVE), T(CLOSING, COMPLETE), T(CLOSING, COMPLETE), T(CLOSING, COMPLETE),
		 T(UDP, NONE), T(UDP_SEEN, NONE), T(CLOSING, MOVE), T(CLOSING, COMPLETE),
		 T(FREE, NONE), T(CLOSING, COMPLETE)},
	// Many clients send an RST after a FIN; the flow stays completed. A second RST changes
	// nothing. The RST with which a backend refuses a SYN goes directly to the client, so this
	// table does not process it. An RST from the client of a half-open flow does not indicate a
	// fault of the backend (scanners reply to each SYN ACK with an RST).
	[WEIR_FLOW_EVENT_RST] =
		{T(FREE, NONE), T(ABORTED, ABANDON), T(RESET, COMPLETE), T(CLOSING, REFRESH),
		 T(RESET, NONE), T(ABORTED, COMPLETE), T(ABORTED, ABANDON), T(ABORTED, COMPLETE),
		 T(UDP, NONE), T(UDP_SEEN, NONE), T(ABORTED, NONE), T(RESET, COMPLETE),
		 T(FREE, NONE), T(ABORTED, ABANDON)},
	[WEIR_FLOW_EVENT_DATAGRAM] =
		{T(FREE, NONE), T(SYN_SEEN, NONE), T(ESTABLISHED, NONE), T(CLOSING, NONE),
		 T(RESET, NONE), T(JOINED, NONE), T(WAITING, NONE), T(YOUNG, NONE),
		 T(UDP, REFRESH), T(UDP, ESTABLISH), T(ABORTED, NONE), T(CHALLENGED, NONE),
		 T(FREE, NONE), T(MOVED, NONE)},
	[WEIR_FLOW_EVENT_ACK] =
		{T(FREE, NONE), T(YOUNG, ESTABLISH), T(ESTABLISHED, REFRESH), T(CLOSING, REFRESH),
		 T(ESTABLISHED, RESUME), T(YOUNG, ESTABLISH), T(YOUNG, ESTABLISH), T(ESTABLISHED, MOVE),
		 T(UDP, NONE), T(UDP_SEEN, NONE), T(YOUNG, RESUME), T(ESTABLISHED, MOVE),
		 T(FREE, NONE), T(YOUNG, ESTABLISH)},
};
#undef T
// clang-format on

// --- service time ---------------------------------------------------------------------------

static void start_store(struct weir_flow_table *table, const struct weir_flow_place *place,
	bool measured, uint64_t now_ns) {
	uint32_t start = (uint32_t)(now_ns >> WEIR_FLOW_START_SHIFT);

	if (measured) {
		table->measuring = true;
	}
	// Until the first measured flow, all start times are 0 and need not be written.
	if (table->measuring) {
		struct weir_flow_late_starts *late = &table->late;
		uint32_t *at = &place->family->starts[place->slot];

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
		start = place->family->starts[place->slot];
	}
	// The time of the last packet is only accurate to a tick of the flow's state, and may
	// therefore be before the start time.
	elapsed = (int32_t)((uint32_t)(end_ns >> WEIR_FLOW_START_SHIFT) - start);
	return start == 0 || elapsed < 0 ? 0 : (uint64_t)elapsed << WEIR_FLOW_START_SHIFT;
}

// --- ends -----------------------------------------------------------------------------------

// Reports to the listener that a packet has finished an open flow. Call before the flow's phase is
// changed.
static void report_finished(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_outcome outcome, uint64_t now_ns) {
	table->listener.finished(table->listener.context, (uint16_t)*place->word, outcome,
		outcome == WEIR_OUTCOME_COMPLETED ? service_ns(table, place, now_ns) : 0,
		weir_flow_is_unproven(weir_flow_phase_of(*place->word)));
}

// Returns the outcome of an open flow that ends for the reason `end`, without FIN or RST.
static enum weir_outcome outcome_of(unsigned int phase, enum weir_flow_end end) {
	if (end != WEIR_FLOW_END_TIMED_OUT) {
		return WEIR_OUTCOME_ABANDONED;
	}
	switch (phase) {
	case WEIR_PHASE_UDP:
	case WEIR_PHASE_UDP_SEEN:
		return WEIR_OUTCOME_COMPLETED;
	case WEIR_PHASE_SYN_SEEN:
		return WEIR_OUTCOME_UNANSWERED;
	default:
		return WEIR_OUTCOME_ABANDONED;
	}
}

static inline void report_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns) {
	uint32_t word = *place->word;
	unsigned int phase = weir_flow_phase_of(word);
	int outcome = WEIR_OUTCOME_KNOWN;
	uint64_t took_ns = 0, idle_ns = 0;

	if (weir_flow_is_open(phase)) {
		outcome = (int)outcome_of(phase, end);
	}
	if (unlikely(outcome == WEIR_OUTCOME_COMPLETED)) { // UDP: ended at its last packet
		idle_ns = (uint64_t)weir_flow_age_of(table, word, now_ns) << table->shift[phase];
		took_ns = service_ns(table, place, now_ns - idle_ns);
	}
	WEIR_PROBE_FLOW_END((int)end, (uint16_t)word, place->word);
	table->listener.ended(table->listener.context, (uint16_t)word, end, outcome, took_ns,
		idle_ns, weir_flow_is_unproven(phase));
}

static inline void slot_clear(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns) {
	place->family->half_open -= weir_flow_is_half_open(*place->word);
	place->family->count--;
	report_end(table, place, end, now_ns);
	*place->word = 0;
}

void weir_flow_slot_lose(
	struct weir_flow_table *table, const struct weir_flow_place *place, uint64_t now_ns) {
	if (weir_flow_is_half_open(*place->word)) {
		table->evicted++;
	} else {
		table->idle_evicted++;
	}
	slot_clear(table, place, WEIR_FLOW_END_EVICTED, now_ns);
}

void weir_flow_slot_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns) {
	slot_clear(table, place, end, now_ns);
	if (unlikely(place->family == &table->family6)) {
		weir_flow_release_destination(table, (uint32_t)(place->slot / WEIR_FLOW_SLOTS6),
			place->slot % WEIR_FLOW_SLOTS6);
	}
}

enum weir_flow_end weir_flow_expiry_end(unsigned int phase) {
	switch (phase) {
	case WEIR_PHASE_CLOSING:
		return WEIR_FLOW_END_COMPLETED;
	case WEIR_PHASE_RESET:
	case WEIR_PHASE_ABORTED:
		return WEIR_FLOW_END_REFUSED;
	default:
		return WEIR_FLOW_END_TIMED_OUT;
	}
}

// --- begin and advance ----------------------------------------------------------------------

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
	case STEP_ABANDON:
		report_finished(table, &place, WEIR_OUTCOME_ABANDONED, now_ns);
		break;
	case STEP_ESTABLISH:
		table->listener.established(
			table->listener.context, backend, phase == WEIR_PHASE_SYN_SEEN);
		break;
	case STEP_RESUME:
		if (table->measuring) { // a flow is measured only once
			weir_flow_settle_starts(table);
			place.family->starts[place.slot] = 0;
		}
		table->listener.resumed(table->listener.context, backend);
		break;
	case STEP_REFRESH:
	case STEP_MOVE:
		break;
	}
	place.family->half_open -= weir_flow_is_half_open(*place.word);
	*place.word = weir_flow_word_make(table, to->phase, backend, now_ns);
	place.family->half_open += weir_flow_is_half_open(*place.word);
	return false;
}

static enum weir_flow_phase first_phase(const struct weir_flow_start *start) {
	switch (start->event) {
	case WEIR_FLOW_EVENT_SYN:
		return start->joined ? WEIR_PHASE_JOINED : WEIR_PHASE_SYN_SEEN;
	case WEIR_FLOW_EVENT_DATAGRAM:
		return WEIR_PHASE_UDP_SEEN;
	case WEIR_FLOW_EVENT_FIN:
		return WEIR_PHASE_CLOSING;
	case WEIR_FLOW_EVENT_RST:
		return WEIR_PHASE_ABORTED;
	case WEIR_FLOW_EVENT_DATA:
	case WEIR_FLOW_EVENT_ACK:
		break;
	}
	return WEIR_PHASE_ESTABLISHED;
}

static void begin_as(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_phase phase, const struct weir_flow_start *start) {
	*place->word = weir_flow_word_make(table, phase, start->backend, start->now_ns);
	place->family->half_open += weir_flow_is_half_open(*place->word);
	start_store(table, place, start->measured, start->now_ns);
}

void weir_flow_slot_begin(struct weir_flow_table *table, const struct weir_flow_place *place,
	const struct weir_flow_start *start) {
	if (likely(start->event == WEIR_FLOW_EVENT_SYN) && likely(!start->joined) &&
		likely(place->family->half_open < place->family->half_open_max)) {
		*place->word = table->stamps.word[WEIR_FLOW_EVENT_SYN][WEIR_PHASE_SYN_SEEN] |
			       start->backend;
		place->family->half_open++;
		start_store(table, place, start->measured, start->now_ns);
	} else if (start->event == WEIR_FLOW_EVENT_SYN &&
		   place->family->half_open >= place->family->half_open_max) {
		// The limit of half-open flows (F4 of flow_table.h) also applies to a restarted
		// flow.
		begin_as(table, place, WEIR_PHASE_WAITING, start);
	} else {
		begin_as(table, place, first_phase(start), start);
	}
}

// Returns the new phase of a flow when a packet other than its first packet moves the flow to
// another backend. former: the phase, which this packet may have changed already. A young flow
// stays young, and a UDP flow in phase UDP seen stays in this phase.
static enum weir_flow_phase next_phase(unsigned int former, const struct weir_flow_start *start) {
	switch (start->event) {
	case WEIR_FLOW_EVENT_DATAGRAM: // may be a repetition of the first datagram
		return former == WEIR_PHASE_UDP_SEEN ? WEIR_PHASE_UDP_SEEN : WEIR_PHASE_UDP;
	case WEIR_FLOW_EVENT_RST:
		return former == WEIR_PHASE_RESET ? WEIR_PHASE_RESET : WEIR_PHASE_ABORTED;
	case WEIR_FLOW_EVENT_DATA:
		return former == WEIR_PHASE_YOUNG ? WEIR_PHASE_YOUNG : WEIR_PHASE_ESTABLISHED;
	default:
		return first_phase(start);
	}
}

void weir_flow_restart(struct weir_flow_table *table, weir_flow_ref flow,
	const struct weir_flow_start *start, enum weir_flow_end end) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);
	unsigned int former = weir_flow_phase_of(*place.word);

	weir_flow_stamp(table, start->now_ns);
	// COMPLETED: a new flow replaces the old flow, because the client reuses its port. The
	// reported end then depends on the state of the old flow.
	if (end == WEIR_FLOW_END_COMPLETED) {
		end = weir_flow_expiry_end(former);
	}
	report_end(table, &place, end, start->now_ns);
	place.family->half_open -= weir_flow_is_half_open(*place.word);
	if (likely(start->event == WEIR_FLOW_EVENT_SYN)) {
		weir_flow_slot_begin(table, &place, start);
	} else {
		begin_as(table, &place, next_phase(former, start), start);
	}
}

void weir_flow_move(
	struct weir_flow_table *table, weir_flow_ref flow, uint16_t backend, uint64_t now_ns) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);
	const struct weir_flow_start start = {.backend = backend, .now_ns = now_ns};

	weir_flow_stamp(table, now_ns);
	report_end(table, &place, WEIR_FLOW_END_EVICTED, now_ns);
	place.family->half_open -= weir_flow_is_half_open(*place.word);
	begin_as(table, &place, WEIR_PHASE_MOVED, &start);
}

bool weir_flow_is_challenged(const struct weir_flow_table *table, weir_flow_ref flow) {
	return weir_flow_phase_of(weir_flow_word_of(table, flow)) == WEIR_PHASE_CHALLENGED;
}

void weir_flow_challenge(struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);

	*place.word =
		weir_flow_word_make(table, WEIR_PHASE_CHALLENGED, (uint16_t)*place.word, now_ns);
}

void weir_flow_remove(struct weir_flow_table *table, weir_flow_ref flow, enum weir_flow_end end,
	uint64_t now_ns) {
	struct weir_flow_place place = weir_flow_place_of(table, flow);

	weir_flow_slot_end(table, &place, end, now_ns);
}
