// SPDX-License-Identifier: BSD-3-Clause
#include "trial.h"

#include "layout.h"

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

void trial_outcome(struct trial *trial, struct wanted wanted, const struct next *next) {
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

void trial_dropped(struct trial *trial, uint64_t reasons, int backend, const struct next *next) {
	trial_outcome(trial,
		(struct wanted){.action = WEIR_ACTION_DROP,
			.reasons = reasons,
			.backend = backend,
			.choice = next->choice},
		next);
}

void trial_kernel(struct trial *trial, const struct next *next) {
	trial_outcome(
		trial, (struct wanted){.action = WEIR_ACTION_KERNEL, .backend = NOBODY}, next);
}

// --- replies ----------------------------------------------------------------------------------

bool trial_is_from_vip(const struct trial *trial) {
	const struct key *key = &trial->seen->view.key;

	return plan_vip_of(trial->plan, key->source, key->family) >= 0;
}

void trial_answered(struct trial *trial, enum limit limit, uint64_t reasons, int headroom,
	int backend, const struct next *next, const struct next *ended) {
	const struct seen *seen = trial->seen;
	const struct weir_verdict *verdict = &seen->verdict;
	uint64_t rate = limit == LIMIT_RESET ? REASON(RESET_RATE) : REASON(ICMP_RATE);
	bool before = trial->matched;

	if (trial_is_from_vip(trial)) {
		trial_dropped(trial, REASON(SOURCE_ADDRESS), backend, next);
		return;
	}
	if ((seen->frame.bytes[6] & 1) != 0) {
		trial_dropped(trial, REASON(GROUP_MAC), backend, next);
		return;
	}
	trial_dropped(trial, rate, backend, next);
	if ((int)seen->headroom < headroom + (seen->tag != 0 ? 4 : 0)) {
		trial_dropped(trial, REASON(HEADROOM), backend, next);
	} else {
		trial_outcome(trial,
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

int trial_error_bytes(const struct view *view) {
	return view->key.family == 4 ? 28 : 48;
}

void trial_closed_port(struct trial *trial, const struct next *former) {
	const struct seen *seen = trial->seen;
	const struct view *view = &seen->view;
	bool tcp = view->key.protocol == 6;

	if (!view->to_vip || trial->plan->vips[view->vip].closed == WEIR_CLOSED_PORTS_KERNEL) {
		trial_kernel(trial, former);
	} else if (trial->plan->vips[view->vip].closed == WEIR_CLOSED_PORTS_DROP ||
		   view->event == EVENT_RST) {
		trial_dropped(trial, REASON(CLOSED_PORT), NOBODY, former);
	} else if (trial_is_from_vip(trial)) {
		trial_dropped(trial, REASON(SOURCE_ADDRESS), NOBODY, former);
	} else if (view_l4_sum_good(&seen->frame, view)) {
		trial_answered(trial, LIMIT_UNREACHABLE, REASON(CLOSED_PORT),
			tcp ? 0 : trial_error_bytes(view), NOBODY, former, former);
	} else {
		bool group = (seen->frame.bytes[6] & 1) != 0;

		trial_dropped(
			trial, group ? REASON(GROUP_MAC) : REASON(CLOSED_PORT), NOBODY, former);
		if (!group && seen->verdict.action == WEIR_ACTION_DROP &&
			seen->verdict.reason == WEIR_DROP_ICMP_RATE) {
			trial->limit = LIMIT_UNREACHABLE;
			trial_dropped(trial, REASON(ICMP_RATE), NOBODY, former);
		}
	}
}
