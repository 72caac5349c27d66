// SPDX-License-Identifier: BSD-3-Clause
#include "predict.h"

#include "fuzz.h"
#include "layout.h"

#define NOBODY (-1)
#define EXTRAS_MAX 256 // additional packets that a burst can create

// The state of a flow after a possible outcome.
struct next {
	uint32_t states; // possible states
	int backend;
	uint8_t choice; // reason for this outcome of the packet
	bool refresh;
};

static bool agrees(const struct trial *trial, const struct wanted *wanted) {
	const struct weir_verdict *verdict = &trial->seen->verdict;
	uint64_t reason = verdict->reason == WEIR_REASON_NONE ? 0 : 1ull << verdict->reason;
	// An earlier packet of the burst may have moved the flow. The choice in the verdict can
	// then differ from the expected choice.
	bool moved = trial->relaxed && (trial->seen->view.kind == VIEW_ERROR ||
					       (verdict->choice == WEIR_CHOICE_REPLACED &&
						       wanted->choice == WEIR_CHOICE_FLOW));

	if (verdict->action != wanted->action ||
		(wanted->reasons == 0 ? reason != 0 : (reason & wanted->reasons) == 0)) {
		return false;
	}
	if (wanted->backend == NOBODY) {
		return verdict->backend == WEIR_BACKEND_NONE;
	}
	return verdict->backend == wanted->backend && (verdict->choice == wanted->choice || moved);
}

static void outcome(struct trial *trial, struct wanted wanted, const struct next *next) {
	trial->all_states |= next->states;
	if (trial->wanted_count < WANTED_MAX) {
		trial->wanted[trial->wanted_count++] = wanted;
	}
	if (!agrees(trial, &wanted)) {
		return;
	}
	trial->matched = true;
	trial->states |= next->states;
	if (next->backend != NOBODY && (next->states & ~(uint32_t)FLOW_ABSENT) != 0) {
		trial->backends |= 1ull << next->backend;
	}
	if (next->refresh) {
		trial->refreshed = true;
	} else {
		trial->kept = true;
	}
}

// The packet is dropped after next->backend was chosen, or (backend NOBODY) before a backend was
// chosen.
static void dropped(struct trial *trial, uint64_t reasons, int backend, const struct next *next) {
	outcome(trial,
		(struct wanted){.action = WEIR_ACTION_DROP,
			.reasons = reasons,
			.backend = backend,
			.choice = next->choice},
		next);
}

// --- replies ----------------------------------------------------------------------------------

static bool is_from_vip(const struct trial *trial) {
	const struct key *key = &trial->seen->view.key;

	return plan_vip_of(trial->plan, key->source, key->family) >= 0;
}

// The balancer replies to the packet within a rate limit, or drops it because of its source
// address, a group MAC address, the rate limit, or too little headroom for the reply. ended: the
// state of the flow after a reply.
static void answered(struct trial *trial, enum limit limit, uint64_t reasons, int headroom,
	int backend, const struct next *next, const struct next *ended) {
	const struct seen *seen = trial->seen;
	const struct weir_verdict *verdict = &seen->verdict;
	uint64_t rate = limit == LIMIT_RESET ? REASON(RESET_RATE) : REASON(ICMP_RATE);
	bool before = trial->matched;

	if (is_from_vip(trial)) {
		dropped(trial, REASON(SOURCE_ADDRESS), backend, next);
		return;
	}
	if ((seen->frame.bytes[6] & 1) != 0) {
		dropped(trial, REASON(GROUP_MAC), backend, next);
		return;
	}
	dropped(trial, rate, backend, next);
	if ((int)seen->headroom < headroom + (seen->tag != 0 ? 4 : 0)) {
		dropped(trial, REASON(HEADROOM), backend, next);
	} else {
		outcome(trial,
			(struct wanted){.action = WEIR_ACTION_REPLY,
				.reasons = reasons,
				.backend = backend,
				.choice = next->choice},
			ended);
	}
	if (trial->matched && !before &&
		(verdict->action == WEIR_ACTION_REPLY || (rate >> verdict->reason & 1) != 0)) {
		trial->limit = limit;
	}
}

static int error_bytes(const struct view *view) {
	return view->key.family == 4 ? 28 : 48;
}

// --- packets forwarded to a backend -----------------------------------------------------------

static bool usable(const struct plan *plan, int backend) {
	return backend != NOBODY && plan->backends[backend].present &&
	       (plan->backends[backend].path.state & WEIR_BACKEND_CLOSED) == 0;
}

// Returns whether the row of the backend is marked CLOSED: new flows then skip the backend, even if
// a selection still contains it.
static bool is_closed(const struct plan *plan, int backend) {
	return plan->backends[backend].present &&
	       (plan->backends[backend].path.state & WEIR_BACKEND_CLOSED) != 0;
}

// Returns the backend of the flow's slot. If this backend is closed, returns the backend of the
// next slot whose backend is not closed. If all backends are closed, returns the backend of the
// flow's slot. With affinity, returns trial->guess.
static int fallback(const struct trial *trial, int service) {
	const struct plan *plan = trial->plan;
	const struct plan_service *s = &plan->services[service < 0 ? 0 : service];
	uint32_t slot = (uint32_t)((trial->seen->hash >> 32) * s->slot_count >> 32);

	if (service >= 0 && s->affine) {
		return trial->guess;
	}
	if (service < 0 || s->slot_count == 0) {
		return NOBODY;
	}
	for (uint32_t i = 0; i < s->slot_count; i++) {
		int backend = s->candidates[s->slots[(slot + i) % s->slot_count]];

		if (!is_closed(plan, backend)) {
			return backend;
		}
	}
	return s->candidates[s->slots[slot]];
}

static void deliver(struct trial *trial, const struct next *next) {
	const struct seen *seen = trial->seen;
	const struct weir_backend_path *path = &trial->plan->backends[next->backend].path;
	uint32_t outer = output_l2_bytes(path) + output_outer_bytes(path);
	int headroom = (int)outer - (int)seen->view.l3;
	struct output_path output;

	if (!path->resolved) {
		dropped(trial, REASON(NO_NEIGHBOUR), next->backend, next);
		return;
	}
	output_plan(trial->plan, &seen->view, (uint16_t)next->backend, seen->hash, 0, &output);
	if (output.pieces == 0 && seen->view.kind == VIEW_ERROR) {
		dropped(trial, REASON(MTU_EXCEEDED), next->backend, next);
		return;
	}
	if (output.pieces == 0) {
		answered(trial, LIMIT_TOO_BIG, REASON(MTU_EXCEEDED), error_bytes(&seen->view),
			next->backend, next, next);
		return;
	}
	if (seen->headroom < headroom) {
		dropped(trial, REASON(HEADROOM), next->backend, next);
		return;
	}
	if (output.tiny) {
		dropped(trial, REASON(MTU_EXCEEDED), next->backend, next);
		return;
	}
	if (output.pieces > 1 &&
		(trial->extras + output.pieces - 1 > EXTRAS_MAX ||
			(output.outer && path->family == 6 && seen->headroom < headroom + 8))) {
		dropped(trial, REASON(FRAGMENT_BUFFERS), next->backend, next);
	}
	outcome(trial,
		(struct wanted){.action = WEIR_ACTION_FORWARD,
			.backend = next->backend,
			.choice = next->choice},
		next);
}

// Returns the possible states of an existing flow after it has moved to another backend.
static uint32_t moved_states(const struct trial *trial, uint32_t states) {
	switch (trial->seen->view.event) {
	case EVENT_SYN:
		return FLOW_SYN | (trial->plan->crowded ? FLOW_WAITING : 0);
	case EVENT_FIN:
		return FLOW_CLOSING;
	case EVENT_RST:
		return FLOW_RESET | FLOW_ABORTED;
	case EVENT_DATAGRAM:
		return states;
	case EVENT_ACK:
	case EVENT_DATA:
		break;
	}
	return states | FLOW_ESTABLISHED;
}

static bool is_tracked(const struct trial *trial, const struct next *next) {
	return trial->seen->view.kind == VIEW_FLOW && (next->states & ~(uint32_t)FLOW_ABSENT) != 0;
}

static void closed_port(struct trial *trial, const struct next *former);

// Predicts the result if next->backend was removed, and the client's packets go to this backend.
static void from_gone_to(struct trial *trial, const struct next *next, int service, int backend) {
	struct next moved = *next;

	if (service < 0) {
		moved = (struct next){.states = FLOW_ABSENT, .backend = NOBODY, .refresh = true};
		if (trial->seen->view.kind == VIEW_FLOW) {
			closed_port(trial, &moved);
		} else {
			predict_kernel(trial);
		}
		return;
	}
	if (backend == NOBODY) {
		moved = (struct next){.states = FLOW_ABSENT, .backend = NOBODY, .refresh = true};
		dropped(trial, REASON(NO_BACKEND), NOBODY, &moved);
		return;
	}
	if (!trial->plan->backends[backend].present) {
		dropped(trial, REASON(BACKEND_GONE), NOBODY, next);
		return;
	}
	moved.backend = backend;
	moved.choice = WEIR_CHOICE_REPLACED;
	if (is_tracked(trial, next)) {
		moved.states = moved_states(trial, next->states);
		moved.refresh = true;
	}
	deliver(trial, &moved);
}

// Predicts the result if next->backend was removed. Another packet of the burst may have entered
// the client into the affinity table in the meantime.
static void from_gone(struct trial *trial, const struct next *next) {
	const int service = plan_service_of(trial->plan, &trial->seen->view.key);

	from_gone_to(trial, next, service, fallback(trial, service));
	if (service < 0 || !trial->plan->services[service].affine) {
		return;
	}
	for (int k = 0; k < PLAN_PER_SERVICE; k++) {
		const int backend = service * PLAN_PER_SERVICE + k;

		if (backend != trial->guess && usable(trial->plan, backend)) {
			from_gone_to(trial, next, service, backend);
		}
	}
}

// Finds all backends that the policy can choose and that are not closed; with Maglev, at most
// one. Returns the number of these backends.
static uint32_t chosen(
	const struct trial *trial, int service, int ret[PLAN_PER_SERVICE], bool *ret_refused) {
	const struct plan_service *s = &trial->plan->services[service < 0 ? 0 : service];
	uint32_t n = 0, open = 0;

	*ret_refused = service >= 0 && s->limit > 0;
	if (service < 0) {
		return 0;
	}
	if (s->policy == WEIR_POLICY_MAGLEV && s->slot_count > 0) {
		ret[0] = fallback(trial, service);
		return is_closed(trial->plan, ret[0]) ? 0 : 1;
	}
	for (uint32_t i = 0; i < s->member_count; i++) {
		uint16_t id = s->members[i];
		uint32_t slack = trial->burst;

		if (is_closed(trial->plan, id)) {
			continue;
		}
		open++;
		if (s->limit > 0 && trial->counts->proven[id].most + slack < s->limit) {
			*ret_refused = false; // this backend is below its limit
		}
		if (s->limit == 0 || trial->counts->proven[id].least < s->limit + slack) {
			ret[n++] = id;
		}
	}
	*ret_refused = *ret_refused && open > 0;
	if (s->affine && usable(trial->plan, trial->guess) && n < PLAN_PER_SERVICE) {
		ret[n++] = trial->guess; // it may not be a member any more
	}
	return n;
}

static void reset(struct trial *trial, const struct next *next);

// Returns whether the packet is a SYN of a flow whose address and port no longer belong to a
// service, and whose backend is down: then the client gets an RST.
static bool is_refused_syn(const struct trial *trial, int backend) {
	const struct view *view = &trial->seen->view;

	return view->kind == VIEW_FLOW && view->event == EVENT_SYN &&
	       (trial->plan->backends[backend].path.state & WEIR_BACKEND_RESET) != 0 &&
	       plan_service_of(trial->plan, &view->key) < 0;
}

// The packet goes to the backend of its flow. If the table is so small that flows are evicted, an
// earlier packet of the burst may have evicted the flow; the flow is then absent.
static void stay(struct trial *trial, const struct next *next) {
	struct next evicted = *next;

	evicted.states |= trial->plan->crowded ? FLOW_ABSENT : 0;
	if (is_refused_syn(trial, next->backend)) {
		reset(trial, &evicted);
	} else {
		deliver(trial, &evicted);
	}
}

// The policy chooses again, because the flow's backend gets no new flows. The packet may also go
// to the flow's current backend.
static void choose_another(struct trial *trial, const struct next *next, uint32_t states) {
	int service = plan_service_of(trial->plan, &trial->seen->view.key);
	int ids[PLAN_PER_SERVICE + 1];
	bool refused;
	uint32_t n = chosen(trial, service, ids, &refused);
	bool stays = n == 0 || refused || trial->plan->crowded;

	if (trial->plan->crowded && service >= 0) { // moved flows can also use the fallback
		ids[n++] = fallback(trial, service);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (usable(trial->plan, ids[i])) {
			deliver(trial, &(struct next){.states = states,
					       .backend = ids[i],
					       .choice = WEIR_CHOICE_REPLACED,
					       .refresh = true});
		} else {
			stays = true;
		}
	}
	if (stays) {
		stay(trial, next);
	}
}

static void reset(struct trial *trial, const struct next *next) {
	const struct next ended = {
		.states = FLOW_ABSENT, .backend = NOBODY, .choice = next->choice, .refresh = true};

	if (!is_from_vip(trial) && !view_l4_sum_good(&trial->seen->frame, &trial->seen->view)) {
		if ((trial->seen->frame.bytes[6] & 1) != 0) {
			dropped(trial, REASON(GROUP_MAC), next->backend, next);
			return;
		}
		deliver(trial, next);
		if (trial->seen->verdict.action == WEIR_ACTION_DROP &&
			trial->seen->verdict.reason == WEIR_DROP_RESET_RATE) {
			trial->limit = LIMIT_RESET;
			dropped(trial, REASON(RESET_RATE), next->backend, next);
		}
		return;
	}
	answered(trial, LIMIT_RESET, REASON(BACKEND_DOWN), 0, next->backend, next, &ended);
}

// Predicts the result if next->backend is down.
static void from_down(struct trial *trial, const struct next *next) {
	const struct view *view = &trial->seen->view;
	uint8_t state = trial->plan->backends[next->backend].path.state;
	bool tracked = is_tracked(trial, next);
	int service = plan_service_of(trial->plan, &view->key), other;

	if (view->kind != VIEW_FLOW || view->event == EVENT_SYN || view->event == EVENT_RST) {
		deliver(trial, next);
		return;
	}
	if (view->event == EVENT_DATAGRAM) {
		if (tracked) {
			choose_another(trial, next, next->states);
		} else {
			deliver(trial, next);
		}
		return;
	}
	if ((state & WEIR_BACKEND_RESET) != 0) {
		reset(trial, next);
		return;
	}
	other = fallback(trial, service);
	if ((state & WEIR_BACKEND_REHASH) != 0 && tracked && usable(trial->plan, other)) {
		deliver(trial,
			&(struct next){
				.states =
					view->event == EVENT_FIN
						? FLOW_CLOSING
						: FLOW_JOINED | (trial->plan->crowded ? FLOW_WAITING
										      : 0u),
				.backend = other,
				.choice = WEIR_CHOICE_REPLACED,
				.refresh = true});
		if (!trial->plan->crowded) {
			return;
		}
	}
	stay(trial, next);
}

// Sends the packet to next->backend, if this backend still exists.
static void rewrite(struct trial *trial, const struct next *next) {
	if (!trial->plan->backends[next->backend].present) {
		from_gone(trial, next);
		return;
	}
	// An earlier packet of the burst may have moved the flow to this backend
	if (trial->relaxed) {
		struct next moved = *next;

		moved.choice = WEIR_CHOICE_REPLACED;
		deliver(trial, &moved);
	}
	if ((trial->plan->backends[next->backend].path.state & WEIR_BACKEND_DOWN) != 0) {
		from_down(trial, next);
	} else {
		deliver(trial, next);
	}
}

// --- port reuse -------------------------------------------------------------------------------

#define PROVEN (FLOW_ESTABLISHED | FLOW_YOUNG | FLOW_CHALLENGED)

// A SYN of an established flow whose backend is not down but gets no new flows. If another backend
// gets new flows, the balancer sends the client one challenge ACK. Challenge ACKs have a separate
// rate limit, equal to the rate limit of RSTs.
static void challenge(struct trial *trial, const struct next *next) {
	const struct seen *seen = trial->seen;
	int service = plan_service_of(trial->plan, &seen->view.key);
	bool may_challenge = next->states != FLOW_CHALLENGED && !is_from_vip(trial) &&
			     (seen->frame.bytes[6] & 1) == 0 &&
			     usable(trial->plan, fallback(trial, service)) &&
			     view_l4_sum_good(&seen->frame, &seen->view) &&
			     seen->headroom >= (seen->tag != 0 ? 4 : 0);
	bool before = trial->matched;

	if (may_challenge) {
		outcome(trial,
			(struct wanted){.action = WEIR_ACTION_REPLY,
				.backend = next->backend,
				.choice = next->choice},
			&(struct next){.states = FLOW_CHALLENGED,
				.backend = next->backend,
				.choice = next->choice,
				.refresh = true});
	}
	if (trial->matched && !before) {
		trial->limit = LIMIT_CHALLENGE;
		return;
	}
	rewrite(trial, next);
	if (may_challenge && trial->certain && !before && trial->limit == LIMIT_NONE &&
		// with a limit, the other backend may be full
		trial->plan->services[service].limit == 0 &&
		// with affinity, the backend may be usable only as a guess
		!trial->plan->services[service].affine) {
		// Only the rate limit can have prevented the challenge
		trial->limit = LIMIT_CHALLENGE;
	}
}

// --- new flows --------------------------------------------------------------------------------

// former: the flow that remains if the packet starts no flow.
static void closed_port(struct trial *trial, const struct next *former) {
	const struct seen *seen = trial->seen;
	const struct view *view = &seen->view;
	bool tcp = view->key.protocol == 6;

	if (!view->to_vip || trial->plan->vips[view->vip].closed == WEIR_CLOSED_PORTS_KERNEL) {
		outcome(trial, (struct wanted){.action = WEIR_ACTION_KERNEL, .backend = NOBODY},
			former);
	} else if (trial->plan->vips[view->vip].closed == WEIR_CLOSED_PORTS_DROP ||
		   view->event == EVENT_RST) {
		dropped(trial, REASON(CLOSED_PORT), NOBODY, former);
	} else if (is_from_vip(trial)) {
		dropped(trial, REASON(SOURCE_ADDRESS), NOBODY, former);
	} else if (view_l4_sum_good(&seen->frame, view)) {
		answered(trial, LIMIT_UNREACHABLE, REASON(CLOSED_PORT), tcp ? 0 : error_bytes(view),
			NOBODY, former, former);
	} else {
		bool group = (seen->frame.bytes[6] & 1) != 0;

		dropped(trial, group ? REASON(GROUP_MAC) : REASON(CLOSED_PORT), NOBODY, former);
		if (!group && seen->verdict.action == WEIR_ACTION_DROP &&
			seen->verdict.reason == WEIR_DROP_ICMP_RATE) {
			trial->limit = LIMIT_UNREACHABLE;
			dropped(trial, REASON(ICMP_RATE), NOBODY, former);
		}
	}
}

// Insert the flow with this backend. If the table may be full, a flow that is not tracked is also a
// possible outcome.
static void enter(struct trial *trial, int backend, uint32_t states, bool restart, int untracked) {
	rewrite(trial, &(struct next){.states = states,
			       .backend = backend,
			       .choice = WEIR_CHOICE_NEW,
			       .refresh = true});
	if (trial->plan->crowded && !restart && untracked != NOBODY) {
		rewrite(trial, &(struct next){.states = FLOW_ABSENT,
				       .backend = untracked,
				       .choice = WEIR_CHOICE_UNTRACKED});
	}
}

// Predicts a datagram of a service without UDP flows. No entry is needed, so the policy also
// chooses if the table is full.
static void begin_datagram(struct trial *trial, int service, const struct next *former) {
	int ids[PLAN_PER_SERVICE];
	bool refused;
	uint32_t n = chosen(trial, service, ids, &refused);

	for (uint32_t i = 0; i < n; i++) {
		rewrite(trial, &(struct next){.states = FLOW_ABSENT,
				       .backend = ids[i],
				       .choice = WEIR_CHOICE_DATAGRAM});
	}
	if (refused || n == 0) {
		dropped(trial, refused ? REASON(FLOW_CONTROL) : REASON(NO_BACKEND), NOBODY, former);
	}
}

// Start a flow. former: the previous state (no flow, or a flow that has ended).
static void begin(struct trial *trial, const struct next *former, bool restart) {
	const struct view *view = &trial->seen->view;
	int service = plan_service_of(trial->plan, &view->key), ids[PLAN_PER_SERVICE], other;
	uint32_t waiting = trial->plan->crowded && restart ? FLOW_WAITING : 0, n;
	bool refused;

	if (service < 0) {
		closed_port(trial, former);
		return;
	}
	if (view->event == EVENT_DATAGRAM && is_from_vip(trial)) {
		dropped(trial, REASON(SOURCE_ADDRESS), NOBODY, former);
		return;
	}
	other = fallback(trial, service);
	if (other == NOBODY) {
		dropped(trial, REASON(NO_BACKEND), NOBODY, former);
		return;
	}
	if (view->event != EVENT_SYN && view->event != EVENT_DATAGRAM) {
		if (view->may_join) {
			enter(trial, other, FLOW_JOINED, false, other);
		} else {
			rewrite(trial, &(struct next){.states = FLOW_ABSENT,
					       .backend = other,
					       .choice = WEIR_CHOICE_UNTRACKED});
		}
		return;
	}
	if (view->event == EVENT_DATAGRAM && trial->plan->services[service].by_datagram) {
		begin_datagram(trial, service, former);
		return;
	}
	n = chosen(trial, service, ids, &refused);
	if (trial->plan->crowded) { // in a crowded table, first packets can use the fallback
		enter(trial, other, (view->event == EVENT_SYN ? FLOW_SYN : FLOW_UDP_SEEN) | waiting,
			restart, other);
	}
	for (uint32_t i = 0; i < n; i++) {
		enter(trial, ids[i],
			(view->event == EVENT_SYN ? FLOW_SYN : FLOW_UDP_SEEN) | waiting, restart,
			other);
	}
	if (refused) {
		dropped(trial, REASON(FLOW_CONTROL), NOBODY, former);
	} else if (n == 0) {
		dropped(trial, REASON(NO_BACKEND), NOBODY, former);
	}
}

// --- packets ----------------------------------------------------------------------------------

static void predict_flow_once(struct trial *trial, uint32_t state, int backend) {
	const struct view *view = &trial->seen->view;
	struct next next = {.states = state, .backend = backend, .choice = WEIR_CHOICE_FLOW};
	const struct plan_backend *row;

	if (state == FLOW_ABSENT) {
		begin(trial, &(struct next){.states = FLOW_ABSENT, .backend = NOBODY}, false);
		return;
	}
	if (view->event == EVENT_DATAGRAM && flow_strays(trial->plan, &view->key, backend)) {
		begin(trial, &(struct next){.states = FLOW_ABSENT, .backend = NOBODY}, false);
		if (trial->plan->backends[backend].present) {
			return;
		}
		// The backend was removed. If the balancer no longer checks UDP flows, the flow
		// moves.
	}
	next.states = flow_advance(state, view->event, &next.refresh);
	if (next.states == FLOW_ABSENT) {
		next.states = state;
		next.refresh = false;
		next.choice = WEIR_CHOICE_NONE;
		begin(trial, &next, true);
		return;
	}
	row = &trial->plan->backends[backend];
	if (view->event != EVENT_SYN || !is_closed(trial->plan, backend)) {
		rewrite(trial, &next);
	} else if ((row->path.state & WEIR_BACKEND_DOWN) != 0 || (next.states & PROVEN) == 0) {
		choose_another(trial, &next, FLOW_SYN | (trial->plan->crowded ? FLOW_WAITING : 0u));
	} else {
		challenge(trial, &next);
	}
}

static void predict_error_once(struct trial *trial, uint32_t state, int backend) {
	struct next next = {.states = state, .backend = backend, .choice = WEIR_CHOICE_FLOW};
	const struct view *view = &trial->seen->view;
	int service = plan_service_of(trial->plan, &view->key);

	if (state != FLOW_ABSENT &&
		(view->key.protocol != 17 || !flow_strays(trial->plan, &view->key, backend))) {
		rewrite(trial, &next);
		return;
	}
	if (service < 0) {
		dropped(trial, REASON(ICMP_UNMATCHED), NOBODY, &next);
		return;
	}
	next.backend = fallback(trial, service);
	next.choice = WEIR_CHOICE_UNTRACKED;
	if (next.backend == NOBODY) {
		dropped(trial, REASON(NO_BACKEND), NOBODY, &next);
	} else {
		rewrite(trial, &next);
	}
}

static void predict_later_once(struct trial *trial, uint32_t choice, int backend) {
	rewrite(trial,
		&(struct next){
			.states = FLOW_ABSENT, .backend = backend, .choice = (uint8_t)choice});
}

// Repeats a prediction for each backend that the affinity entry of the client, or its slot, may
// have. argument: state or choice.
static void predict_guesses(struct trial *trial, uint32_t argument, int backend,
	void (*predict)(struct trial *trial, uint32_t argument, int backend)) {
	const int service = plan_service_of(trial->plan, &trial->seen->view.key);

	trial->guess = NOBODY;
	if (service < 0 || !trial->plan->services[service].affine) {
		predict(trial, argument, backend);
		return;
	}
	if (trial->plan->services[service].slot_count == 0) {
		predict(trial, argument, backend);
	}
	for (int k = 0; k < PLAN_PER_SERVICE; k++) {
		trial->guess = service * PLAN_PER_SERVICE + k;
		predict(trial, argument, backend);
	}
}

void predict_flow(struct trial *trial, uint32_t state, int backend) {
	predict_guesses(trial, state, backend, predict_flow_once);
}

void predict_error(struct trial *trial, uint32_t state, int backend) {
	predict_guesses(trial, state, backend, predict_error_once);
}

void predict_later(struct trial *trial, int backend, uint8_t choice) {
	predict_guesses(trial, choice, backend, predict_later_once);
}

void predict_drop(struct trial *trial, uint64_t reasons) {
	dropped(trial, reasons, NOBODY, &(struct next){.backend = NOBODY});
}

void predict_kernel(struct trial *trial) {
	outcome(trial, (struct wanted){.action = WEIR_ACTION_KERNEL, .backend = NOBODY},
		&(struct next){.backend = NOBODY});
}

static void predict_echo(struct trial *trial) {
	const struct seen *seen = trial->seen;
	const struct view *view = &seen->view;
	const struct next none = {.backend = NOBODY};

	if (is_from_vip(trial)) {
		predict_drop(trial, REASON(SOURCE_ADDRESS));
	} else if (view_l4_sum_good(&seen->frame, view)) {
		uint32_t options = view->l4 - (view->key.family == 4 ? 20 : 40);

		answered(trial, LIMIT_ECHO, 0, -(int)options, NOBODY, &none, &none);
	} else {
		bool group = (seen->frame.bytes[6] & 1) != 0;

		predict_drop(trial, group ? REASON(GROUP_MAC) : REASON(ICMP_CHECKSUM));
		if (!group && seen->verdict.action == WEIR_ACTION_DROP &&
			seen->verdict.reason == WEIR_DROP_ICMP_RATE) {
			trial->limit = LIMIT_ECHO;
			predict_drop(trial, REASON(ICMP_RATE));
		}
	}
}

void predict_other(struct trial *trial) {
	const struct view *view = &trial->seen->view;

	if (view->kind == VIEW_BROKEN || (view->kind == VIEW_SUSPECT && view->to_vip)) {
		predict_drop(trial, view->reasons);
	} else if (view->kind == VIEW_ECHO && view->to_vip) {
		predict_echo(trial);
	} else {
		predict_kernel(trial);
	}
}
