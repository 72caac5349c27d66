// SPDX-License-Identifier: BSD-3-Clause
#include "judge.h"

#include <stdarg.h>
#include <stdio.h>

#include "fuzz.h"

#define SECOND_NS 1000000000ull
#define FRAGMENT_REASONS \
	(REASON(FRAGMENT_OVERLAP) | REASON(FRAGMENT_TABLE) | REASON(FRAGMENT_FIRST_MISSING))

bool judge_fail(struct judge *judge, int packet, const char *format, ...) {
	size_t used = strlen(judge->text);
	va_list arguments;

	judge->wrong = packet;
	va_start(arguments, format);
	vsnprintf(judge->text + used, sizeof(judge->text) - used, format, arguments);
	va_end(arguments);
	return false;
}

// --- limits -----------------------------------------------------------------------------------

static void limit_start(struct limit_state *limit, uint32_t per_second) {
	*limit = (struct limit_state){
		.cost_ns = per_second == 0 ? UINT64_MAX : SECOND_NS / per_second,
		.credit_ns = SECOND_NS};
}

// Check that the rate limit allowed the replies of the burst, and did not allow the refused
// replies.
static bool limit_settle(struct judge *judge, struct limit_state *limit, uint64_t now_ns) {
	uint64_t passed = now_ns - limit->last_ns;
	uint32_t replies = limit->replies;
	bool refused = limit->refused;

	limit->replies = 0;
	limit->refused = false;
	limit->last_ns = now_ns;
	limit->credit_ns += passed < SECOND_NS ? passed : SECOND_NS;
	limit->credit_ns = limit->credit_ns < SECOND_NS ? limit->credit_ns : SECOND_NS;
	if (replies > 0 && limit->credit_ns / replies < limit->cost_ns) {
		return judge_fail(
			judge, -1, "%u replies are more than the limit allows\n", replies);
	}
	limit->credit_ns -= replies > 0 ? replies * limit->cost_ns : 0;
	if (refused && limit->credit_ns >= limit->cost_ns) {
		return judge_fail(judge, -1, "a reply was suppressed below the limit\n");
	}
	return true;
}

// --- begin ------------------------------------------------------------------------------------

void judge_init(struct judge *judge) {
	flows_init(&judge->flows);
	datagrams_init(&judge->datagrams);
}

void judge_fini(struct judge *judge) {
	flows_fini(&judge->flows);
	datagrams_fini(&judge->datagrams);
}

void judge_start(struct judge *judge, struct plan *plan, uint64_t now_ns) {
	struct flows flows = judge->flows;
	struct datagrams datagrams = judge->datagrams;

	memset(judge, 0, sizeof(*judge));
	flows_clear(&flows);
	datagrams_clear(&datagrams);
	judge->flows = flows;
	judge->datagrams = datagrams;
	judge->plan = plan;
	judge->now_ns = now_ns;
	limit_start(&judge->limits[LIMIT_ECHO], plan->limits.echo);
	limit_start(&judge->limits[LIMIT_TOO_BIG], plan->limits.too_big);
	limit_start(&judge->limits[LIMIT_UNREACHABLE], plan->limits.unreachable);
	limit_start(&judge->limits[LIMIT_RESET], plan->limits.reset);
	limit_start(&judge->limits[LIMIT_CHALLENGE], plan->limits.reset);
}

// --- verdicts ---------------------------------------------------------------------------------

static struct trial trial_of(struct judge *judge, const struct judged_burst *burst, uint32_t i) {
	return (struct trial){.plan = judge->plan,
		.counts = &judge->counts,
		.seen = &burst->seen[i],
		.burst = burst->n,
		.extras = burst->extra_count};
}

static const char *reason_name(uint64_t reasons) {
	return reasons == 0
		       ? ""
		       : weir_drop_reason_name((enum weir_drop_reason)__builtin_ctzll(reasons));
}

static bool wrong_verdict(struct judge *judge, const struct trial *trial, uint32_t i) {
	const struct weir_verdict *verdict = &trial->seen->verdict;

	judge_fail(judge, (int)i, "wrong verdict: %s %s, backend %d, choice %s\nexpected",
		weir_action_name((enum weir_action)verdict->action),
		verdict->reason == WEIR_REASON_NONE
			? ""
			: weir_drop_reason_name((enum weir_drop_reason)verdict->reason),
		verdict->backend == WEIR_BACKEND_NONE ? -1 : verdict->backend,
		weir_choice_name((enum weir_choice)verdict->choice));
	for (uint32_t k = 0; k < trial->wanted_count; k++) {
		const struct wanted *wanted = &trial->wanted[k];

		judge_fail(judge, (int)i, "%s %s %s", k > 0 ? ", or" : "",
			weir_action_name((enum weir_action)wanted->action),
			reason_name(wanted->reasons));
		for (uint64_t left = wanted->reasons & (wanted->reasons - 1); left != 0;
			left &= left - 1) {
			judge_fail(judge, (int)i, "/%s", reason_name(left));
		}
		if (wanted->backend >= 0) {
			judge_fail(judge, (int)i, " to backend %d (%s)", wanted->backend,
				weir_choice_name((enum weir_choice)wanted->choice));
		}
	}
	return judge_fail(judge, (int)i, "\n");
}

// Record the effect of a packet on the rate limits. Returns false if no possible outcome agrees
// with the verdict.
static bool conclude(struct judge *judge, const struct trial *trial, uint32_t i) {
	if (!trial->matched) {
		return wrong_verdict(judge, trial, i);
	}
	if (trial->limit != LIMIT_NONE) {
		struct limit_state *limit = &judge->limits[trial->limit];

		if (trial->seen->verdict.action == WEIR_ACTION_REPLY) {
			limit->replies++;
		} else {
			limit->refused = true;
		}
	}
	return true;
}

// --- flows ------------------------------------------------------------------------------------

// The packets of a burst that concern one flow.
struct group {
	uint8_t index[BURST_MAX];
	uint32_t n;
	struct flow *flow;
	uint32_t states; // states before the burst
	uint64_t backends;
};

// Try all possible states and backends.
static void try_all(struct trial *trial, uint32_t states, uint64_t backends) {
	bool error = trial->seen->view.kind == VIEW_ERROR;

	for (; states != 0; states &= states - 1) {
		uint32_t state = states & -states;
		uint64_t left = state == FLOW_ABSENT ? 1 : backends;

		for (; left != 0; left &= left - 1) {
			int backend = __builtin_ctzll(left);

			if (error) {
				predict_error(trial, state, backend);
			} else {
				predict_flow(trial, state, backend);
			}
		}
	}
}

// Returns true if no packet of the group can move the flow to another backend.
static bool stays(const struct judge *judge, const struct group *group) {
	int service = plan_service_of(judge->plan, &group->flow->key);
	uint64_t backends = group->backends;

	for (uint32_t i = 0; service >= 0 && i < judge->plan->services[service].member_count; i++) {
		backends |= 1ull << judge->plan->services[service].members[i];
	}
	for (; backends != 0; backends &= backends - 1) {
		const struct plan_backend *backend =
			&judge->plan->backends[__builtin_ctzll(backends)];

		if (!backend->present || (backend->path.state & WEIR_BACKEND_CLOSED) != 0) {
			return false;
		}
	}
	return true;
}

// Returns whether the packets of the group have the same effect as if they arrived in separate
// bursts. This is the case if all packets change the flow in the same way, or if the flow is absent
// before the burst and no packet ends it.
static bool in_order(
	const struct judge *judge, const struct judged_burst *burst, const struct group *group) {
	bool begins = false, ends = false;

	for (uint32_t k = 0; k < group->n; k++) {
		const struct view *view = &burst->seen[group->index[k]].view;

		if (view->kind == VIEW_FLOW) {
			begins = begins || view->event == EVENT_SYN;
			ends = ends || view->event == EVENT_FIN || view->event == EVENT_RST;
		}
	}
	if (group->n == 1) {
		return true;
	}
	return stays(judge, group) && !ends &&
	       (group->states == FLOW_ABSENT || (!begins && (group->states & FLOW_ABSENT) == 0));
}

static void learn(struct judge *judge, struct flow *flow, const struct trial *trial) {
	// Keep the possible states if an expired entry may still be in the table, and the packet
	// neither found it nor created another entry: a later packet may find the expired entry.
	if ((flow->states & trial->states & FLOW_ABSENT) == 0 ||
		(flow->stray_ns != 0 && !flow_may_be_unswept(flow, judge->plan, judge->now_ns))) {
		flow->states = 0;
		flow->backends = 0;
		flow->stray_ns = 0;
	}
	flow->states |= trial->states;
	flow->backends |= trial->backends;
	if (trial->refreshed) {
		flow->last_hi = judge->now_ns;
		flow->last_lo = trial->kept ? flow->last_lo : judge->now_ns;
	}
	flow_recheck(flow, judge->plan, judge->now_ns);
}

static bool judge_in_order(
	struct judge *judge, const struct judged_burst *burst, struct group *group) {
	struct flow *flow = group->flow;

	for (uint32_t k = 0; k < group->n; k++) {
		uint32_t i = group->index[k];
		struct trial trial = trial_of(judge, burst, i);
		bool error = burst->seen[i].view.kind == VIEW_ERROR;

		flows_age(flow, judge->plan, judge->now_ns);
		trial.relaxed = error && group->n > 1;
		trial.certain = group->n == 1 && (flow->states & (flow->states - 1)) == 0 &&
				(flow->backends & (flow->backends - 1)) == 0;
		try_all(&trial, flow->states, flow->backends);
		if (error && group->n > 1) { // flows are looked up before new flows are inserted
			try_all(&trial, group->states, group->backends);
		}
		if (!conclude(judge, &trial, i)) {
			return false;
		}
		if (!error) {
			learn(judge, flow, &trial);
		}
	}
	return true;
}

// Judges packets whose order is not known: the flow may be in any state that its packets can cause.
static bool judge_any_order(
	struct judge *judge, const struct judged_burst *burst, struct group *group) {
	struct flow *flow = group->flow;
	uint32_t states = group->states;
	uint64_t backends = group->backends;

	for (uint32_t k = 0; k < group->n; k++) {
		uint16_t backend = burst->seen[group->index[k]].verdict.backend;

		backends |= backend < PLAN_BACKENDS ? 1ull << backend : 0;
	}
	for (uint32_t round = 0; round < 3; round++) {
		// another packet of the burst can evict the flow
		if (flow_evictable(judge->plan, states)) {
			states |= FLOW_ABSENT;
		}
		for (uint32_t k = 0; k < group->n; k++) {
			struct trial trial = trial_of(judge, burst, group->index[k]);

			trial.relaxed = true;
			try_all(&trial, states, backends);
			states |= trial.all_states;
			backends |= trial.backends;
		}
	}
	for (uint32_t k = 0; k < group->n; k++) {
		struct trial trial = trial_of(judge, burst, group->index[k]);

		trial.relaxed = true;
		try_all(&trial, states, backends);
		if (!conclude(judge, &trial, group->index[k])) {
			return false;
		}
	}
	flow->states = states;
	flow->backends = backends;
	flow->stray_ns = 0;
	flow->last_lo = group->states == FLOW_ABSENT ? judge->now_ns : flow->last_lo;
	flow->last_hi = judge->now_ns;
	flow_recheck(flow, judge->plan, judge->now_ns);
	return true;
}

static bool concerns_flow(const struct seen *seen) {
	return seen->view.to_vip && (seen->view.kind == VIEW_FLOW || seen->view.kind == VIEW_ERROR);
}

static bool judge_flows(struct judge *judge, const struct judged_burst *burst) {
	uint64_t done = 0;

	for (uint32_t i = 0; i < burst->n; i++) {
		struct group group = {.n = 0};

		if ((done >> i & 1) != 0 || !concerns_flow(&burst->seen[i])) {
			continue;
		}
		for (uint32_t k = i; k < burst->n; k++) {
			if (concerns_flow(&burst->seen[k]) &&
				burst->seen[k].hash == burst->seen[i].hash &&
				memcmp(&burst->seen[k].view.key, &burst->seen[i].view.key,
					sizeof(struct key)) == 0) {
				group.index[group.n++] = (uint8_t)k;
				done |= 1ull << k;
			}
		}
		group.flow = flows_take(
			&judge->flows, judge->plan, &burst->seen[i].view.key, judge->now_ns);
		group.states = group.flow->states;
		group.backends = group.flow->backends;
		if (!(in_order(judge, burst, &group) ? judge_in_order(judge, burst, &group)
						     : judge_any_order(judge, burst, &group))) {
			return false;
		}
	}
	return true;
}

// --- fragments --------------------------------------------------------------------------------

// First fragments are recorded before any packet of the burst is processed.
static void note_first(struct judge *judge, struct seen *seen) {
	uint64_t ms = judge->now_ns / 1000000, reasons;
	const struct weir_verdict *verdict = &seen->verdict;
	uint64_t reason = verdict->action == WEIR_ACTION_DROP ? 1ull << verdict->reason : 0;
	struct datagram *datagram =
		datagrams_enter(&judge->datagrams, judge->plan, &seen->view, ms);

	reasons = datagram_cover(datagram, &seen->view);
	// the entry of the datagram may have been evicted or replaced
	if (judge->plan->fragments_evicted) {
		reasons = reason & FRAGMENT_REASONS;
		datagram->born_ms = ms;
		datagram->protocols[datagram->firsts % DATAGRAM_PORTS] = seen->view.key.protocol;
		memcpy(datagram->ports[datagram->firsts++ % DATAGRAM_PORTS], seen->view.key.ports,
			4);
	}
	if (reasons != 0) {
		seen->view.kind = VIEW_SUSPECT;
		seen->view.reasons = reasons;
	}
}

// Returns the choice of a later fragment whose first fragment has this verdict.
static uint8_t choice_of_later(const struct weir_verdict *verdict) {
	return verdict->choice == WEIR_CHOICE_DATAGRAM ? WEIR_CHOICE_DATAGRAM : WEIR_CHOICE_FLOW;
}

static void settle_first(struct judge *judge, const struct seen *seen) {
	struct datagram *datagram = datagrams_find(
		&judge->datagrams, judge->plan, &seen->view, judge->now_ns / 1000000);
	const struct weir_verdict *verdict = &seen->verdict;

	if (datagram == NULL ||
		(datagram->fate == DATAGRAM_DROP && !judge->plan->fragments_evicted)) {
		return;
	}
	switch ((enum weir_action)verdict->action) {
	case WEIR_ACTION_REPLY:
		if (verdict->backend == WEIR_BACKEND_NONE) {
			datagram->fate = DATAGRAM_DROP;
			datagram->reasons = REASON(CLOSED_PORT);
			break;
		}
		// fallthrough
	case WEIR_ACTION_FORWARD:
		datagram->fate = DATAGRAM_FORWARD;
		datagram->backend = verdict->backend;
		datagram->choice = choice_of_later(verdict);
		break;
	case WEIR_ACTION_KERNEL:
		datagram->fate = DATAGRAM_KERNEL;
		break;
	case WEIR_ACTION_DROP:
		datagram->fate = DATAGRAM_DROP;
		datagram->reasons = 1ull << verdict->reason;
		break;
	case WEIR_ACTION_OFFER:
		break;
	}
}

// If entries can be evicted, it is not known to which first fragment a later fragment belongs.
// Therefore this function tries all first fragments.
static void predict_evicted(
	struct trial *trial, struct seen *seen, const struct datagram *datagram) {
	uint32_t n = datagram->firsts < DATAGRAM_PORTS ? datagram->firsts : DATAGRAM_PORTS;
	uint16_t backend = seen->verdict.backend;
	int service = backend / PLAN_PER_SERVICE;

	predict_drop(trial, UINT64_MAX);
	predict_kernel(trial);
	for (uint32_t i = 0; i < n && backend != WEIR_BACKEND_NONE && !trial->matched; i++) {
		memcpy(seen->view.key.ports, datagram->ports[i], 4);
		seen->view.key.protocol = datagram->protocols[i];
		seen->hash = key_hash(&seen->view.key);
		if (!judge_is_sent(trial->plan, seen)) {
			continue;
		}
		for (int id = 0; id < PLAN_BACKENDS; id++) {
			// A removed backend can belong to another service: the service that
			// had the address and port when the first fragment arrived.
			if (id / PLAN_PER_SERVICE == service ||
				!trial->plan->backends[id].present) {
				predict_later(trial, id, choice_of_later(&seen->verdict));
			}
		}
	}
}

static bool judge_later(struct judge *judge, const struct judged_burst *burst, uint32_t i) {
	struct seen *seen = &burst->seen[i];
	struct trial trial = trial_of(judge, burst, i);
	struct datagram *datagram = datagrams_find(
		&judge->datagrams, judge->plan, &seen->view, judge->now_ns / 1000000);
	uint64_t reasons = seen->view.alone;
	bool evicted = judge->plan->fragments_evicted;

	if (datagram != NULL) {
		reasons = datagram_cover(datagram, &seen->view);
		memcpy(seen->view.key.ports, datagram->key.ports, 4);
		seen->view.key.protocol = datagram->key.protocol;
		seen->hash = key_hash(&seen->view.key);
	}
	if (evicted && datagram != NULL) {
		predict_evicted(&trial, seen, datagram);
		return conclude(judge, &trial, i);
	}
	if (reasons != 0) {
		predict_drop(&trial, reasons);
	} else if (datagram->fate == DATAGRAM_FORWARD) {
		predict_later(&trial, datagram->backend, datagram->choice);
	} else if (datagram->fate == DATAGRAM_KERNEL) {
		predict_kernel(&trial);
	} else if (datagram->fate == DATAGRAM_DROP) {
		predict_drop(&trial, datagram->reasons);
	}
	return conclude(judge, &trial, i);
}

// --- bursts -----------------------------------------------------------------------------------

static bool judge_one(struct judge *judge, const struct judged_burst *burst, uint32_t i) {
	struct trial trial = trial_of(judge, burst, i);

	predict_other(&trial);
	return conclude(judge, &trial, i);
}

static bool is_first(const struct seen *seen) {
	return seen->view.to_vip && seen->view.kind == VIEW_FLOW && !seen->view.whole;
}

static bool judge_verdicts(struct judge *judge, struct judged_burst *burst) {
	bool first[BURST_MAX];

	for (uint32_t i = 0; i < burst->n; i++) {
		first[i] = is_first(&burst->seen[i]);
		if (first[i]) {
			note_first(judge, &burst->seen[i]);
			first[i] = burst->seen[i].view.kind == VIEW_FLOW;
		}
	}
	if (!judge_flows(judge, burst)) {
		return false;
	}
	for (uint32_t i = 0; i < burst->n; i++) {
		const struct seen *seen = &burst->seen[i];
		bool later = seen->view.to_vip && seen->view.kind == VIEW_LATER;

		if (first[i]) {
			settle_first(judge, seen);
		} else if (!later && !concerns_flow(seen) && !judge_one(judge, burst, i)) {
			return false;
		}
	}
	for (uint32_t i = 0; i < burst->n; i++) {
		if (burst->seen[i].view.to_vip && burst->seen[i].view.kind == VIEW_LATER &&
			!judge_later(judge, burst, i)) {
			return false;
		}
	}
	for (enum limit limit = LIMIT_ECHO; limit < LIMITS; limit++) {
		if (!limit_settle(judge, &judge->limits[limit], judge->now_ns)) {
			return false;
		}
	}
	return true;
}

// Returns whether a service of the burst has a limit, so that the number of flows of each backend
// is needed.
static bool wants_counts(const struct judge *judge, const struct judged_burst *burst) {
	for (uint32_t i = 0; i < burst->n; i++) {
		const struct seen *seen = &burst->seen[i];
		int service =
			concerns_flow(seen) ? plan_service_of(judge->plan, &seen->view.key) : -1;

		if (service >= 0 && judge->plan->services[service].limit > 0) {
			return true;
		}
	}
	return false;
}

void judge_change(struct judge *judge, uint64_t now_ns) {
	flows_recheck(&judge->flows, judge->plan, now_ns);
}

bool judge_burst(struct judge *judge, struct judged_burst *burst, uint64_t now_ns) {
	judge->now_ns = now_ns;
	judge->text[0] = '\0';
	for (uint32_t i = 0; i < burst->n; i++) {
		struct seen *seen = &burst->seen[i];

		view_frame(judge->plan, &seen->frame, &seen->view);
		seen->hash = concerns_flow(seen) ? key_hash(&seen->view.key) : 0;
	}
	if (wants_counts(judge, burst)) {
		flows_count(&judge->flows, judge->plan, now_ns, &judge->counts);
	}
	return judge_verdicts(judge, burst) && judge_outputs(judge, burst);
}
