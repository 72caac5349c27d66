// SPDX-License-Identifier: BSD-3-Clause
#include "deliver.h"

#include "choice.h"
#include "layout.h"

#define EXTRAS_MAX 256 // additional packets that a burst can create

// The packet is sent to next->backend, unless it is too big or the next hop is unknown.
static void forward(struct trial *trial, const struct next *next) {
	const struct seen *seen = trial->seen;
	const struct weir_backend_path *path = &trial->plan->backends[next->backend].path;
	uint32_t outer = output_l2_bytes(path) + output_outer_bytes(path);
	int headroom = (int)outer - (int)seen->view.l3;
	struct output_path output;

	if (!path->resolved) {
		trial_dropped(trial, REASON(NO_NEIGHBOUR), next->backend, next);
		return;
	}
	output_plan(trial->plan, &seen->view, (uint16_t)next->backend, seen->hash, 0, &output);
	if (output.pieces == 0 && seen->view.kind == VIEW_ERROR) {
		trial_dropped(trial, REASON(MTU_EXCEEDED), next->backend, next);
		return;
	}
	if (output.pieces == 0) {
		trial_answered(trial, LIMIT_TOO_BIG, REASON(MTU_EXCEEDED),
			trial_error_bytes(&seen->view), next->backend, next, next);
		return;
	}
	if (seen->headroom < headroom) {
		trial_dropped(trial, REASON(HEADROOM), next->backend, next);
		return;
	}
	if (output.tiny) {
		trial_dropped(trial, REASON(MTU_EXCEEDED), next->backend, next);
		return;
	}
	if (output.pieces > 1 &&
		(trial->extras + output.pieces - 1 > EXTRAS_MAX ||
			(output.outer && path->family == 6 && seen->headroom < headroom + 8))) {
		trial_dropped(trial, REASON(FRAGMENT_BUFFERS), next->backend, next);
	}
	trial_outcome(trial,
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

// Predicts the result if next->backend was removed, and the client's packets go to this backend.
static void from_gone_to(struct trial *trial, const struct next *next, int service, int backend) {
	struct next moved = *next;

	if (service < 0) {
		moved = (struct next){.states = FLOW_ABSENT, .backend = NOBODY, .refresh = true};
		if (trial->seen->view.kind == VIEW_FLOW) {
			trial_closed_port(trial, &moved);
		} else {
			trial_kernel(trial, &(struct next){.backend = NOBODY});
		}
		return;
	}
	if (backend == NOBODY) {
		moved = (struct next){.states = FLOW_ABSENT, .backend = NOBODY, .refresh = true};
		trial_dropped(trial, REASON(NO_BACKEND), NOBODY, &moved);
		return;
	}
	if (!trial->plan->backends[backend].present) {
		trial_dropped(trial, REASON(BACKEND_GONE), NOBODY, next);
		return;
	}
	moved.backend = backend;
	moved.choice = WEIR_CHOICE_REPLACED;
	if (is_tracked(trial, next)) {
		moved.states = moved_states(trial, next->states);
		moved.refresh = true;
	}
	forward(trial, &moved);
}

// Predicts the result if next->backend was removed. Another packet of the burst may have entered
// the client into the affinity table in the meantime.
static void from_gone(struct trial *trial, const struct next *next) {
	const int service = plan_service_of(trial->plan, &trial->seen->view.key);

	from_gone_to(trial, next, service, choice_fallback(trial, service));
	if (service < 0 || !trial->plan->services[service].affine) {
		return;
	}
	for (int k = 0; k < PLAN_PER_SERVICE; k++) {
		const int backend = service * PLAN_PER_SERVICE + k;

		if (backend != trial->guess && choice_usable(trial->plan, backend)) {
			from_gone_to(trial, next, service, backend);
		}
	}
}

// The client gets an RST, unless the checksum of its packet is wrong.
static void reset(struct trial *trial, const struct next *next) {
	const struct next ended = {
		.states = FLOW_ABSENT, .backend = NOBODY, .choice = next->choice, .refresh = true};

	if (!trial_is_from_vip(trial) &&
		!view_l4_sum_good(&trial->seen->frame, &trial->seen->view)) {
		if ((trial->seen->frame.bytes[6] & 1) != 0) {
			trial_dropped(trial, REASON(GROUP_MAC), next->backend, next);
			return;
		}
		forward(trial, next);
		if (trial->seen->verdict.action == WEIR_ACTION_DROP &&
			trial->seen->verdict.reason == WEIR_DROP_RESET_RATE) {
			trial->limit = LIMIT_RESET;
			trial_dropped(trial, REASON(RESET_RATE), next->backend, next);
		}
		return;
	}
	trial_answered(trial, LIMIT_RESET, REASON(BACKEND_DOWN), 0, next->backend, next, &ended);
}

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
		forward(trial, &evicted);
	}
}

void deliver_to_another(struct trial *trial, const struct next *next, uint32_t states) {
	int service = plan_service_of(trial->plan, &trial->seen->view.key);
	int ids[PLAN_PER_SERVICE + 1];
	bool refused;
	uint32_t n = choice_of_policy(trial, service, ids, &refused);
	bool stays = n == 0 || refused || trial->plan->crowded;

	if (trial->plan->crowded && service >= 0) { // moved flows can also use the fallback
		ids[n++] = choice_fallback(trial, service);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (choice_usable(trial->plan, ids[i])) {
			forward(trial, &(struct next){.states = states,
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

// Predicts the result if next->backend is down.
static void from_down(struct trial *trial, const struct next *next) {
	const struct view *view = &trial->seen->view;
	uint8_t state = trial->plan->backends[next->backend].path.state;
	bool tracked = is_tracked(trial, next);
	int service = plan_service_of(trial->plan, &view->key), other;

	if (view->kind != VIEW_FLOW || view->event == EVENT_SYN || view->event == EVENT_RST) {
		forward(trial, next);
		return;
	}
	if (view->event == EVENT_DATAGRAM) {
		if (tracked) {
			deliver_to_another(trial, next, next->states);
		} else {
			forward(trial, next);
		}
		return;
	}
	if ((state & WEIR_BACKEND_RESET) != 0) {
		reset(trial, next);
		return;
	}
	other = choice_fallback(trial, service);
	if ((state & WEIR_BACKEND_REHASH) != 0 && tracked && choice_usable(trial->plan, other)) {
		forward(trial,
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

void deliver(struct trial *trial, const struct next *next) {
	if (!trial->plan->backends[next->backend].present) {
		from_gone(trial, next);
		return;
	}
	// An earlier packet of the burst may have moved the flow to this backend
	if (trial->relaxed) {
		struct next moved = *next;

		moved.choice = WEIR_CHOICE_REPLACED;
		forward(trial, &moved);
	}
	if ((trial->plan->backends[next->backend].path.state & WEIR_BACKEND_DOWN) != 0) {
		from_down(trial, next);
	} else {
		forward(trial, next);
	}
}
