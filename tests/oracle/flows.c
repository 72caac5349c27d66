// SPDX-License-Identifier: BSD-3-Clause
#include "flows.h"

#include <stdlib.h>

#include "flow_state.h"
#include "fuzz.h"

#define MS 1000000ull
#define TICK_NS (40 * MS) // upper limit of the length of a tick of the flow table
#define SWEEP_NS (1000 * MS) // guarantee F6 of flow_table.h
#define RECHECK_NS (2000 * MS) // as in weir_flow_recheck
#define IN_USE_NS (5000 * MS) // guarantee F3 of flow_table.h

// --- states -------------------------------------------------------------------------------------

// From docs/design/architecture.md, "Flows".
uint32_t flow_advance(uint32_t state, enum view_event event, bool *ret_refresh) {
	bool half_open = (state & (FLOW_SYN | FLOW_JOINED | FLOW_WAITING)) != 0;
	bool ended = (state & (FLOW_CLOSING | FLOW_RESET | FLOW_ABORTED)) != 0;

	*ret_refresh = true;
	switch (event) {
	case EVENT_SYN:
		if (ended || state == FLOW_JOINED) {
			return FLOW_ABSENT;
		}
		*ret_refresh = half_open;
		return state;
	case EVENT_ACK:
		return state == FLOW_CLOSING                ? FLOW_CLOSING
		       : half_open || state == FLOW_ABORTED ? FLOW_YOUNG
							    : FLOW_ESTABLISHED;
	case EVENT_DATA:
		return state == FLOW_CLOSING ? FLOW_CLOSING : FLOW_ESTABLISHED;
	case EVENT_FIN:
		return FLOW_CLOSING;
	case EVENT_RST:
		if (state == FLOW_CLOSING) {
			return state;
		}
		*ret_refresh = !ended;
		return (state & (FLOW_ESTABLISHED | FLOW_CHALLENGED | FLOW_RESET)) != 0
			       ? FLOW_RESET
			       : FLOW_ABORTED;
	case EVENT_DATAGRAM:
		return FLOW_UDP;
	}
	abort();
}

static uint64_t timeout_ns(const struct plan *plan, uint32_t state, bool least) {
	enum weir_flow_state key = WEIR_FLOW_SYN_SEEN;

	switch (state) {
	case FLOW_YOUNG:
		key = WEIR_FLOW_YOUNG;
		break;
	// A reset flow has the timeout of a closing flow while the table is at least three
	// quarters full.
	case FLOW_RESET:
		key = plan->crowded && least ? WEIR_FLOW_CLOSING : WEIR_FLOW_ESTABLISHED;
		break;
	case FLOW_ESTABLISHED:
	case FLOW_CHALLENGED:
		key = WEIR_FLOW_ESTABLISHED;
		break;
	case FLOW_CLOSING:
	case FLOW_ABORTED:
		key = WEIR_FLOW_CLOSING;
		break;
	case FLOW_UDP_SEEN:
		key = WEIR_FLOW_UDP_SEEN;
		break;
	case FLOW_UDP:
		key = WEIR_FLOW_UDP;
		break;
	default:
		break;
	}
	return plan->timeout_ms[key] * MS;
}

#define SPARED (FLOW_ESTABLISHED | FLOW_CHALLENGED | FLOW_UDP | FLOW_RESET | FLOW_CLOSING)

// Returns whether a newer flow can evict a flow that has been idle for `idle_ns`.
static bool evictable(const struct plan *plan, uint32_t state, uint64_t idle_ns) {
	return plan->crowded && ((state & SPARED) == 0 || idle_ns + TICK_NS > IN_USE_NS);
}

bool flow_evictable(const struct plan *plan, uint32_t states) {
	return plan->crowded && (states & ~(uint32_t)(SPARED | FLOW_ABSENT)) != 0;
}

static bool may_have_expired(
	const struct flow *flow, const struct plan *plan, uint32_t state, uint64_t now_ns) {
	return now_ns - flow->last_lo + TICK_NS > timeout_ns(plan, state, true);
}

bool flow_may_be_unswept(const struct flow *flow, const struct plan *plan, uint64_t now_ns) {
	uint32_t left = flow->states & ~(uint32_t)FLOW_ABSENT;

	while (left != 0 && !may_have_expired(flow, plan, left & -left, now_ns)) {
		left &= left - 1;
	}
	return left != 0;
}

void flows_age(struct flow *flow, const struct plan *plan, uint64_t now_ns) {
	uint64_t most = now_ns - flow->last_lo, least = now_ns - flow->last_hi;

	for (uint32_t left = flow->states & ~(uint32_t)FLOW_ABSENT; left != 0; left &= left - 1) {
		uint32_t state = left & -left;

		if (may_have_expired(flow, plan, state, now_ns) || evictable(plan, state, most)) {
			flow->states |= FLOW_ABSENT;
		}
		if (least > timeout_ns(plan, state, false) + SWEEP_NS + TICK_NS) {
			flow->states &= ~state;
		}
	}
	if (flow->stray_ns != 0 && now_ns - flow->stray_ns > RECHECK_NS) {
		flow->states = FLOW_ABSENT;
		flow->stray_ns = 0;
	}
}

// --- services that change -----------------------------------------------------------------------

bool flow_strays(const struct plan *plan, const struct key *key, int backend) {
	const uint16_t service = plan->backends[backend].path.service;

	return !plan->backends[backend].present || plan_service_of(plan, key) != service ||
	       plan->services[service].by_datagram;
}

// Returns whether the services have changed so recently that the balancer still checks UDP flows.
static bool is_rechecked(const struct plan *plan, uint64_t now_ns) {
	return plan->rebound_ns != 0 && now_ns - plan->rebound_ns <= RECHECK_NS;
}

// Returns whether one of the flow's possible backends can no longer have the flow. If `all` is
// true: whether none of the possible backends can have it.
static bool strays(const struct flow *flow, const struct plan *plan, bool all) {
	uint64_t left = flow->backends;

	while (left != 0 && flow_strays(plan, &flow->key, __builtin_ctzll(left)) == all) {
		left &= left - 1;
	}
	return (left == 0) == all;
}

void flow_recheck(struct flow *flow, const struct plan *plan, uint64_t now_ns) {
	if (flow->key.protocol == 17 && is_rechecked(plan, now_ns) && strays(flow, plan, false)) {
		flow->states |= FLOW_ABSENT;
	}
}

void flows_recheck(struct flows *flows, const struct plan *plan, uint64_t now_ns) {
	for (uint32_t i = 0; i < flows->count && is_rechecked(plan, now_ns); i++) {
		struct flow *flow = &flows->flow[i];
		bool all;

		if (flow->key.protocol != 17) {
			continue;
		}
		flow_recheck(flow, plan, now_ns);
		all = strays(flow, plan, true);
		// stray_ns is not set while a possible backend remains, because this backend may be
		// removed after the sweep has visited the flow.
		if (!all) {
			flow->stray_ns = 0;
		} else if (now_ns == plan->rebound_ns && flow->stray_ns == 0) {
			flow->stray_ns = now_ns;
		}
	}
}

// --- table --------------------------------------------------------------------------------------

void flows_init(struct flows *flows) {
	flows->flow = calloc(FLOWS_MAX, sizeof(*flows->flow));
	flows->slots = calloc(2 * FLOWS_MAX, sizeof(*flows->slots));
	flows->count = 0;
	REQUIRE(flows->flow != NULL && flows->slots != NULL);
}

void flows_fini(struct flows *flows) {
	free(flows->flow);
	free(flows->slots);
}

void flows_clear(struct flows *flows) {
	if (flows->count > 0) {
		memset(flows->slots, 0, 2 * FLOWS_MAX * sizeof(*flows->slots));
	}
	flows->count = 0;
}

// Returns the slot that contains the flow of a key, or a free slot for this flow.
static uint32_t *slot_of(struct flows *flows, const struct key *key, uint64_t hash) {
	uint32_t i = (uint32_t)(hash ^ hash >> 32) & (2 * FLOWS_MAX - 1);

	while (flows->slots[i] != 0) {
		const struct flow *flow = &flows->flow[flows->slots[i] - 1];

		if (flow->hash == hash && memcmp(&flow->key, key, sizeof(*key)) == 0) {
			break;
		}
		i = (i + 1) & (2 * FLOWS_MAX - 1);
	}
	return &flows->slots[i];
}

struct flow *flows_take(
	struct flows *flows, const struct plan *plan, const struct key *key, uint64_t now_ns) {
	uint64_t hash = key_hash(key);
	uint32_t *slot = slot_of(flows, key, hash);
	struct flow *flow;

	if (*slot != 0) {
		flow = &flows->flow[*slot - 1];
		flows_age(flow, plan, now_ns);
		return flow;
	}
	if (flows->count == FLOWS_MAX) {
		flows_clean(flows, plan, now_ns);
		REQUIRE(flows->count < FLOWS_MAX);
		slot = slot_of(flows, key, hash);
	}
	flow = &flows->flow[flows->count++];
	*slot = flows->count;
	*flow = (struct flow){.key = *key,
		.hash = hash,
		.states = FLOW_ABSENT,
		.last_lo = now_ns,
		.last_hi = now_ns};
	return flow;
}

void flows_clean(struct flows *flows, const struct plan *plan, uint64_t now_ns) {
	uint32_t count = flows->count;

	flows_clear(flows);
	for (uint32_t i = 0; i < count; i++) {
		struct flow flow = flows->flow[i];

		flows_age(&flow, plan, now_ns);
		if (flow.states != FLOW_ABSENT) {
			flows->flow[flows->count++] = flow;
			*slot_of(flows, &flow.key, flow.hash) = flows->count;
		}
	}
}

// --- counts -------------------------------------------------------------------------------------

static void count_one(struct flow_bounds *bounds, bool certain, bool possible) {
	bounds->least += certain;
	bounds->most += possible;
}

void flows_count(
	struct flows *flows, const struct plan *plan, uint64_t now_ns, struct flow_counts *ret) {
	memset(ret, 0, sizeof(*ret));
	flows_clean(flows, plan, now_ns);
	for (uint32_t i = 0; i < flows->count; i++) {
		const struct flow *flow = &flows->flow[i];
		uint32_t proven = FLOW_YOUNG | FLOW_ESTABLISHED | FLOW_CHALLENGED | FLOW_UDP;

		count_one(
			&ret->all, (flow->states & FLOW_ABSENT) == 0, flow->states != FLOW_ABSENT);
		count_one(&ret->half_open, (flow->states & ~(uint32_t)FLOW_HALF_OPEN) == 0,
			(flow->states & FLOW_HALF_OPEN) != 0);
		for (uint64_t left = flow->backends; left != 0; left &= left - 1) {
			uint32_t id = (uint32_t)__builtin_ctzll(left);
			bool alone = (flow->backends & (flow->backends - 1)) == 0;

			count_one(&ret->of_backend[id], alone && (flow->states & FLOW_ABSENT) == 0,
				flow->states != FLOW_ABSENT);
			count_one(&ret->proven[id], alone && (flow->states & ~proven) == 0,
				(flow->states & proven) != 0);
		}
	}
}
