// SPDX-License-Identifier: BSD-3-Clause
#include "panic.h"
#include "state.h"

// Groups of backends, each one a superset of the former.
enum group {
	GROUP_ELIGIBLE, // ready, healthy
	// Ready, refusing, and was healthy before: its checks may be wrong. Or ejected.
	GROUP_ANSWERS_MAYBE,
	GROUP_LAST_RESORT, // all but maintenance: drained, lame ducks, never healthy so far
	GROUP_NONE, // takes nothing
};

void weir_backend_set_health(struct weir_backend_entry *backend, enum weir_health_state health) {
	backend->health = (uint8_t)health;
	backend->proven |= health == WEIR_HEALTH_HEALTHY;
}

uint32_t weir_backend_configured_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	uint32_t mean = state->services[backend->service].auto_mean;

	return !backend->weight_auto      ? backend->configured_weight
	       : backend->auto_weight > 0 ? backend->auto_weight
	       : mean > 0                 ? mean
					  : WEIR_CONFIG_WEIGHT_DEFAULT;
}

static void decide_auto_mean(const struct weir_state *state, struct weir_service_entry *service) {
	uint64_t sum = 0, known = 0;

	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->stage == WEIR_ID_LIVE && backend->weight_auto &&
			backend->auto_weight > 0) {
			sum += backend->auto_weight;
			known++;
		}
	}
	service->auto_mean = known > 0 ? (uint32_t)((sum + known / 2) / known) : 0;
}

// A weight set at run time takes the place of the configured one, as does what the backend says of
// itself; either scales a reported one by as much as it differs from the configured one.
uint32_t weir_backend_effective_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	uint32_t configured = weir_backend_configured_weight(state, backend);
	uint32_t wanted = backend->runtime_weight != WEIR_WEIGHT_UNSET ? backend->runtime_weight
			  : backend->own_weight != WEIR_WEIGHT_UNSET   ? backend->own_weight
								       : configured;
	uint64_t scaled = backend->reported_weight;

	if (scaled == 0 || wanted == 0 ||
		!weir_service_takes_reports(&state->services[backend->service])) {
		return wanted;
	}
	if (configured > 0) {
		scaled = scaled * wanted / configured;
	}
	return scaled == 0 ? 1 : scaled > UINT32_MAX ? UINT32_MAX : (uint32_t)scaled;
}

// Weights of a table with backends in slow start are multiplied by this, so that parts of a weight
// of 1 can be told apart.
#define WEIGHT_SCALE 1024u

uint32_t weir_backend_weight(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	const struct weir_service_entry *service = &state->services[backend->service];
	uint64_t weight = weir_backend_effective_weight(state, backend);

	if (!service->slow_start || weight == 0 ||
		(weir_policy_needs(weir_service_policy(service)) & WEIR_NEEDS_SLOTS) == 0) {
		return (uint32_t)weight;
	}
	weight *= WEIGHT_SCALE;
	if (backend->share.part != 0) {
		weight = weight * backend->share.part / WEIR_POLICY_PART_ONE;
	}
	return weight < 1 ? 1 : weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

static enum group group_of(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	if (backend->stage != WEIR_ID_LIVE || backend->admin == WEIR_ADMIN_MAINTENANCE ||
		weir_backend_effective_weight(state, backend) == 0) {
		return GROUP_NONE;
	}
	if (backend->admin == WEIR_ADMIN_DRAIN || backend->health == WEIR_HEALTH_LAME_DUCK) {
		return GROUP_LAST_RESORT;
	}
	if (backend->health == WEIR_HEALTH_HEALTHY) {
		return backend->ejected ? GROUP_ANSWERS_MAYBE : GROUP_ELIGIBLE;
	}
	return backend->health == WEIR_HEALTH_REFUSING && backend->proven ? GROUP_ANSWERS_MAYBE
									  : GROUP_LAST_RESORT;
}

// Packets to a backend whose next hop is unresolved are lost, whatever its health: it is left out
// while another one of those that may be used is resolved.
static void decide_usable(
	struct weir_state *state, const struct weir_service_entry *service, enum group worst) {
	bool any_resolved = false;

	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];
		enum group group = group_of(state, backend);

		if (group != GROUP_ELIGIBLE) {
			weir_slow_start_end(state, link - 1);
		} else if (!backend->eligible && service->config != NULL &&
			   service->config->slow_start.window_ms > 0) {
			weir_slow_start_begin(state, backend);
		}
		backend->eligible = group == GROUP_ELIGIBLE;
		backend->usable = group <= worst;
		any_resolved |= backend->usable && backend->hop.resolved;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->usable &= backend->hop.resolved || !any_resolved;
	}
}

// In panic a backend that fails its checks is used all the same: it may not be down at all.
static bool is_down(const struct weir_backend_entry *backend) {
	return !backend->usable &&
	       (backend->stage != WEIR_ID_LIVE || backend->admin == WEIR_ADMIN_MAINTENANCE ||
		       backend->health == WEIR_HEALTH_REFUSING);
}

// What workers are told of it.
static void set_flags(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];
	uint8_t flags = 0;

	if (!backend->usable) {
		flags |= WEIR_BACKEND_CLOSED;
	}
	if (is_down(backend)) {
		flags |= WEIR_BACKEND_DOWN;
		flags |= backend->drain == WEIR_DRAIN_DROPPED
				 ? WEIR_BACKEND_RESET
				 : state->services[backend->service].down_flags;
	}
	if (backend->flags != flags) {
		backend->flags = flags;
		weir_state_mark_backend(state, id);
	}
}

int weir_eligible_decide(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	uint32_t count[GROUP_NONE + 1] = {0}, in_service;
	enum group worst = GROUP_ELIGIBLE;
	int r;

	decide_auto_mean(state, service);
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		count[group_of(state, &state->backends[link - 1])]++;
	}
	// What an operator or the backend itself has taken out is neither healthy nor failed; nor
	// is what was never healthy: a reload that adds more backends than there are is no panic.
	in_service = count[GROUP_ELIGIBLE] + count[GROUP_ANSWERS_MAYBE];
	service->eligible = count[GROUP_ELIGIBLE];
	service->panic = service->config != NULL && in_service + count[GROUP_LAST_RESORT] > 0 &&
			 weir_panic(count[GROUP_ELIGIBLE], in_service > 0 ? in_service : 1,
				 service->config->panic_threshold_percent);
	if (service->panic) {
		worst = count[GROUP_ELIGIBLE] > 0 ? GROUP_ANSWERS_MAYBE : GROUP_LAST_RESORT;
	}
	decide_usable(state, service, worst);
	r = weir_subsets_decide(state, service);
	if (r < 0) {
		return r;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		state->backends[link - 1].chosen = state->backends[link - 1].subsets != 0;
		set_flags(state, link - 1);
	}
	r = weir_slow_start_decide(state, service);
	if (r < 0) {
		return r;
	}
	service->undecided = false;
	return 0;
}

bool weir_eligible_may_eject(const struct weir_state *state, uint16_t id) {
	const struct weir_backend_entry *backend = &state->backends[id];
	const struct weir_service_entry *service = &state->services[backend->service];
	uint32_t left = 0, in_service = 0;
	bool others = false; // that flows can go to instead

	if (service->config == NULL || group_of(state, backend) != GROUP_ELIGIBLE) {
		return false;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		const struct weir_backend_entry *other = &state->backends[link - 1];
		enum group group = group_of(state, other);

		in_service += group <= GROUP_ANSWERS_MAYBE;
		if (other != backend && group == GROUP_ELIGIBLE) {
			left++;
			others |= other->usable && (other->hop.resolved || !backend->hop.resolved);
		}
	}
	return others &&
	       100ull * left >= (uint64_t)service->config->panic_threshold_percent * in_service;
}

int weir_eligible_decide_all(struct weir_state *state) {
	for (uint32_t id = 0; state->undecided && id < state->service_ids; id++) {
		int r = state->services[id].undecided ? weir_eligible_decide(state, (uint16_t)id)
						      : 0;

		if (r < 0) {
			return r;
		}
	}
	state->undecided = false;
	return 0;
}

uint32_t weir_eligible_members(const struct weir_state *state, uint16_t id,
	struct weir_selection_member *members, bool *ret_reported) {
	bool takes_reports = weir_service_takes_reports(&state->services[id]);
	uint32_t n = 0;

	*ret_reported = false;
	for (uint16_t link = state->services[id].first; link != 0;
		link = state->backends[link - 1].next) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		if (backend->chosen) {
			members[n].identity = backend->identity;
			members[n].id = link - 1;
			members[n].weight = weir_backend_weight(state, backend);
			members[n].subsets = backend->subsets;
			*ret_reported |= takes_reports && backend->reported_weight > 0;
			n++;
		}
	}
	return n;
}
