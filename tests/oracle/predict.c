// SPDX-License-Identifier: BSD-3-Clause
#include "predict.h"

#include "choice.h"
#include "deliver.h"
#include "layout.h"

// --- port reuse -------------------------------------------------------------------------------

#define PROVEN (FLOW_ESTABLISHED | FLOW_YOUNG | FLOW_CHALLENGED)

// A SYN of an established flow whose backend is not down but gets no new flows. If another backend
// gets new flows, the balancer sends the client one challenge ACK. Challenge ACKs have a separate
// rate limit, equal to the rate limit of RSTs.
static void challenge(struct trial *trial, const struct next *next) {
	const struct seen *seen = trial->seen;
	int service = plan_service_of(trial->plan, &seen->view.key);
	bool may_challenge = next->states != FLOW_CHALLENGED && !trial_is_from_vip(trial) &&
			     (seen->frame.bytes[6] & 1) == 0 &&
			     choice_usable(trial->plan, choice_fallback(trial, service)) &&
			     view_l4_sum_good(&seen->frame, &seen->view) &&
			     seen->headroom >= (seen->tag != 0 ? 4 : 0);
	bool before = trial->matched;

	if (may_challenge) {
		trial_outcome(trial,
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
	deliver(trial, next);
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

// Insert the flow with this backend. If the table may be full, a flow that is not tracked is also a
// possible outcome.
static void enter(struct trial *trial, int backend, uint32_t states, bool restart, int untracked) {
	deliver(trial, &(struct next){.states = states,
			       .backend = backend,
			       .choice = WEIR_CHOICE_NEW,
			       .refresh = true});
	if (trial->plan->crowded && !restart && untracked != NOBODY) {
		deliver(trial, &(struct next){.states = FLOW_ABSENT,
				       .backend = untracked,
				       .choice = WEIR_CHOICE_UNTRACKED});
	}
}

// Predicts a datagram of a service without UDP flows. No entry is needed, so the policy also
// chooses if the table is full.
static void begin_datagram(struct trial *trial, int service, const struct next *former) {
	int ids[PLAN_PER_SERVICE];
	bool refused;
	uint32_t n = choice_of_policy(trial, service, ids, &refused);

	for (uint32_t i = 0; i < n; i++) {
		deliver(trial, &(struct next){.states = FLOW_ABSENT,
				       .backend = ids[i],
				       .choice = WEIR_CHOICE_DATAGRAM});
	}
	if (refused || n == 0) {
		trial_dropped(
			trial, refused ? REASON(FLOW_CONTROL) : REASON(NO_BACKEND), NOBODY, former);
	}
}

// Start a flow. former: the previous state (no flow, or a flow that has ended).
static void begin(struct trial *trial, const struct next *former, bool restart) {
	const struct view *view = &trial->seen->view;
	int service = plan_service_of(trial->plan, &view->key), ids[PLAN_PER_SERVICE], other;
	uint32_t waiting = trial->plan->crowded && restart ? FLOW_WAITING : 0, n;
	bool refused;

	if (service < 0) {
		trial_closed_port(trial, former);
		return;
	}
	if (view->event == EVENT_DATAGRAM && trial_is_from_vip(trial)) {
		trial_dropped(trial, REASON(SOURCE_ADDRESS), NOBODY, former);
		return;
	}
	other = choice_fallback(trial, service);
	if (other == NOBODY) {
		trial_dropped(trial, REASON(NO_BACKEND), NOBODY, former);
		return;
	}
	if (view->event != EVENT_SYN && view->event != EVENT_DATAGRAM) {
		if (view->may_join) {
			enter(trial, other, FLOW_JOINED, false, other);
		} else {
			deliver(trial, &(struct next){.states = FLOW_ABSENT,
					       .backend = other,
					       .choice = WEIR_CHOICE_UNTRACKED});
		}
		return;
	}
	if (view->event == EVENT_DATAGRAM && trial->plan->services[service].by_datagram) {
		begin_datagram(trial, service, former);
		return;
	}
	n = choice_of_policy(trial, service, ids, &refused);
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
		trial_dropped(trial, REASON(FLOW_CONTROL), NOBODY, former);
	} else if (n == 0) {
		trial_dropped(trial, REASON(NO_BACKEND), NOBODY, former);
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
	if (view->event != EVENT_SYN || !choice_is_closed(trial->plan, backend)) {
		deliver(trial, &next);
	} else if ((row->path.state & WEIR_BACKEND_DOWN) != 0 || (next.states & PROVEN) == 0) {
		deliver_to_another(
			trial, &next, FLOW_SYN | (trial->plan->crowded ? FLOW_WAITING : 0u));
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
		deliver(trial, &next);
		return;
	}
	if (service < 0) {
		trial_dropped(trial, REASON(ICMP_UNMATCHED), NOBODY, &next);
		return;
	}
	next.backend = choice_fallback(trial, service);
	next.choice = WEIR_CHOICE_UNTRACKED;
	if (next.backend == NOBODY) {
		trial_dropped(trial, REASON(NO_BACKEND), NOBODY, &next);
	} else {
		deliver(trial, &next);
	}
}

static void predict_later_once(struct trial *trial, uint32_t choice, int backend) {
	deliver(trial,
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
	trial_dropped(trial, reasons, NOBODY, &(struct next){.backend = NOBODY});
}

void predict_kernel(struct trial *trial) {
	trial_kernel(trial, &(struct next){.backend = NOBODY});
}

static void predict_echo(struct trial *trial) {
	const struct seen *seen = trial->seen;
	const struct view *view = &seen->view;
	const struct next none = {.backend = NOBODY};

	if (trial_is_from_vip(trial)) {
		predict_drop(trial, REASON(SOURCE_ADDRESS));
	} else if (view_l4_sum_good(&seen->frame, view)) {
		uint32_t options = view->l4 - (view->key.family == 4 ? 20 : 40);

		trial_answered(trial, LIMIT_ECHO, 0, -(int)options, NOBODY, &none, &none);
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
