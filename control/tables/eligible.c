// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include "state.h"

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

// Returns the effective weight of a backend: the run-time weight if set, otherwise the weight that
// the backend reported for itself, otherwise the configured weight. If this weight is not 0, and
// the service uses a weight derived from load reports, returns the derived weight times the ratio
// of this weight to the configured weight (1 if the configured weight is 0), at least 1.
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

// If the policy of a service uses slots and a backend is in slow start, all weights of the service
// are multiplied by this scale, so that fractions of a weight can be represented.
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

static enum weir_group group_of(
	const struct weir_state *state, const struct weir_backend_entry *backend) {
	if (backend->stage != WEIR_ID_LIVE || backend->admin == WEIR_ADMIN_MAINTENANCE ||
		weir_backend_effective_weight(state, backend) == 0) {
		return WEIR_GROUP_NONE;
	}
	if (backend->admin == WEIR_ADMIN_DRAIN || backend->health == WEIR_HEALTH_LAME_DUCK) {
		return WEIR_GROUP_LAST_RESORT;
	}
	if (backend->health == WEIR_HEALTH_HEALTHY) {
		return backend->ejected ? WEIR_GROUP_MAYBE_UP : WEIR_GROUP_ELIGIBLE;
	}
	return backend->health == WEIR_HEALTH_REFUSING && backend->proven ? WEIR_GROUP_MAYBE_UP
									  : WEIR_GROUP_LAST_RESORT;
}

// Returns whether a backend counts as one of weir_group_counts.primaries.
static bool counts_as_primary(const struct weir_backend_entry *backend) {
	return backend->stage == WEIR_ID_LIVE && !backend->backup &&
	       (backend->health != WEIR_HEALTH_STARTING || backend->proven ||
		       backend->admin != WEIR_ADMIN_READY);
}

static void count_groups(const struct weir_state *state, const struct weir_service_entry *service,
	struct weir_group_counts *ret) {
	memset(ret, 0, sizeof(*ret));
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		const struct weir_backend_entry *backend = &state->backends[link - 1];

		ret->in_group[backend->backup][group_of(state, backend)]++;
		ret->primaries += counts_as_primary(backend);
		ret->backups += backend->stage == WEIR_ID_LIVE && backend->backup;
	}
}

static bool may_get_flows(const struct weir_openings *open,
	const struct weir_backend_entry *backend, enum weir_group group) {
	return (uint8_t)group < open->groups[backend->backup];
}

// Decides which backends are usable: backends that may get new flows and whose next hop is
// resolved. Packets to a backend without a next hop would be lost, even if the backend is healthy.
// If no backend that may get new flows has a resolved next hop, next hops are ignored.
static void decide_usable(struct weir_state *state, struct weir_service_entry *service) {
	service->resolved = 0;

	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];
		enum weir_group group = group_of(state, backend);

		if (group != WEIR_GROUP_ELIGIBLE) {
			weir_slow_start_end(state, link - 1);
		} else if (!backend->eligible && service->config != NULL &&
			   service->config->slow_start.window_ms > 0) {
			weir_slow_start_begin(state, backend);
		}
		backend->eligible = group == WEIR_GROUP_ELIGIBLE;
		backend->usable = may_get_flows(&service->open, backend, group);
		backend->group = (uint8_t)group;
		backend->counted = counts_as_primary(backend);
		backend->resolved = backend->hop.resolved;
		service->resolved += backend->usable && backend->resolved;
	}
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->usable &= backend->resolved || service->resolved == 0;
	}
}

// Returns whether a backend is down. In panic mode, a backend that fails its checks is still used
// and does not count as down, because the checks may be wrong.
static bool is_down(const struct weir_backend_entry *backend) {
	return !backend->usable &&
	       (backend->stage != WEIR_ID_LIVE || backend->admin == WEIR_ADMIN_MAINTENANCE ||
		       backend->health == WEIR_HEALTH_REFUSING);
}

// Set the flags of the backend's row.
static void set_flags(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];
	bool ended = weir_bind_drains_ended(&state->services[backend->service]);
	uint8_t flags = 0;

	if (!backend->usable || ended) {
		flags |= WEIR_BACKEND_CLOSED;
	} else if (!backend->chosen) {
		flags |= WEIR_BACKEND_OUTSIDE;
	}
	if (is_down(backend) || ended) {
		flags |= WEIR_BACKEND_DOWN;
		flags |= backend->drain == WEIR_DRAIN_DROPPED || ended
				 ? WEIR_BACKEND_RESET
				 : state->services[backend->service].down_flags;
	}
	if (backend->flags != flags) {
		backend->flags = flags;
		weir_state_mark_backend(state, id);
	}
}

// Updates whether a backend gets new flows: it must be chosen, and be a candidate of the published
// selection.
static void set_in_selection(
	struct weir_service_entry *service, struct weir_backend_entry *backend) {
	bool in_selection = backend->listed && backend->chosen;

	if (backend->in_selection != in_selection) {
		backend->in_selection = in_selection;
		service->parts += in_selection ? backend->parts : 0 - backend->parts;
	}
}

static void decide_openings(struct weir_state *state, struct weir_service_entry *service) {
	service->open = weir_openings_decide(service->config, &service->counts);
	service->eligible = service->counts.in_group[WEIR_TIER_PRIMARY][WEIR_GROUP_ELIGIBLE] +
			    service->counts.in_group[WEIR_TIER_BACKUP][WEIR_GROUP_ELIGIBLE];
	state->takeover |= service->open.on_backups != service->noted_on_backups;
}

int weir_eligible_decide(struct weir_state *state, uint16_t id) {
	struct weir_service_entry *service = &state->services[id];
	int r;

	decide_auto_mean(state, service);
	count_groups(state, service, &service->counts);
	state->examined += service->members;
	service->counted = false;
	decide_openings(state, service);
	decide_usable(state, service);
	r = weir_subsets_decide(state, service);
	if (r < 0) {
		return r;
	}
	service->chosen = 0;
	service->listed_chosen = 0;
	for (uint16_t link = service->first; link != 0; link = state->backends[link - 1].next) {
		struct weir_backend_entry *backend = &state->backends[link - 1];

		backend->chosen = backend->subsets != 0;
		backend->moved = false;
		service->chosen += backend->chosen;
		service->listed_chosen += backend->listed && backend->chosen;
		set_in_selection(service, backend);
		set_flags(state, link - 1);
	}
	r = weir_slow_start_decide(state, service);
	if (r < 0) {
		return r;
	}
	service->undecided = false;
	service->moved = false;
	service->counted = true;
	return 0;
}

// --- single backends ------------------------------------------------------------------------

// Returns whether, because of slow start, the shares of other backends change when a backend
// moves to this group.
static bool concerns_slow_start(const struct weir_service_entry *service, enum weir_group group) {
	return service->slow_start ||
	       (service->config->slow_start.window_ms > 0 && group == WEIR_GROUP_ELIGIBLE);
}

// Returns whether a change of this backend may change the subsets. Returns false if there are no
// subsets, or if the backend ranks behind the members and spares of all subsets. However, in panic
// mode and while backups are used, all backends matter, because the subsets then depend on the
// numbers of usable backends.
static bool concerns_subsets(
	const struct weir_service_entry *service, const struct weir_backend_entry *backend) {
	return service->divided &&
	       (!backend->far || service->open.panic || service->open.on_backups);
}

static void set_chosen(
	struct weir_service_entry *service, struct weir_backend_entry *backend, bool chosen) {
	if (service->divided || backend->chosen == chosen) {
		return;
	}
	backend->subsets = chosen ? 1 : 0;
	backend->chosen = chosen;
	service->chosen += chosen ? 1 : UINT32_MAX;
	service->listed_chosen += !backend->listed ? 0 : chosen ? 1 : UINT32_MAX;
	set_in_selection(service, backend);
}

// Applies a change of one backend. Returns false if the change may also affect other backends; the
// caller then decides the whole service.
static bool move(struct weir_state *state, uint16_t id) {
	struct weir_backend_entry *backend = &state->backends[id];
	struct weir_service_entry *service = &state->services[backend->service];
	const struct weir_openings before = service->open;
	enum weir_group group = group_of(state, backend);
	uint32_t *in_group = service->counts.in_group[backend->backup];
	bool counts = counts_as_primary(backend);
	uint32_t resolved = service->resolved;

	if (!service->counted || service->config == NULL || backend->stage != WEIR_ID_LIVE ||
		(group != (enum weir_group)backend->group && concerns_slow_start(service, group)) ||
		concerns_subsets(service, backend)) {
		return false;
	}
	in_group[backend->group]--;
	in_group[group]++;
	service->counts.primaries += (uint32_t)counts - backend->counted;
	decide_openings(state, service);
	resolved -= may_get_flows(&before, backend, (enum weir_group)backend->group) &&
		    backend->resolved;
	resolved += may_get_flows(&service->open, backend, group) && backend->hop.resolved;
	if (memcmp(before.groups, service->open.groups, sizeof(before.groups)) != 0 ||
		(resolved > 0) != (service->resolved > 0)) {
		return false;
	}
	service->resolved = resolved;
	backend->group = (uint8_t)group;
	backend->counted = counts;
	backend->resolved = backend->hop.resolved;
	backend->eligible = group == WEIR_GROUP_ELIGIBLE;
	backend->usable = may_get_flows(&service->open, backend, group) &&
			  (backend->resolved || resolved == 0);
	set_chosen(service, backend, backend->usable);
	set_flags(state, id);
	return true;
}

void weir_eligible_move(struct weir_state *state) {
	for (uint32_t i = 0; i < state->touched_backend_count; i++) {
		uint16_t id = state->touched_backends[i];
		struct weir_backend_entry *backend = &state->backends[id];
		struct weir_service_entry *service = &state->services[backend->service];

		if (!backend->moved) {
			continue;
		}
		backend->moved = false;
		state->examined++;
		if (service->undecided || !move(state, id)) {
			service->undecided = true;
		}
	}
}

// Returns whether this eligible backend could get flows of the service after the openings have
// changed to `open`.
static bool could_take_over(const struct weir_service_entry *service,
	const struct weir_openings *open, const struct weir_backend_entry *backend) {
	return may_get_flows(open, backend, WEIR_GROUP_ELIGIBLE) &&
	       (backend->usable || !may_get_flows(&service->open, backend, WEIR_GROUP_ELIGIBLE));
}

bool weir_eligible_may_eject(const struct weir_state *state, uint16_t id) {
	const struct weir_backend_entry *backend = &state->backends[id];
	const struct weir_service_entry *service = &state->services[backend->service];
	struct weir_group_counts counts;
	struct weir_openings open; // after the ejection
	bool others = false; // another backend can get the flows

	if (service->config == NULL || group_of(state, backend) != WEIR_GROUP_ELIGIBLE) {
		return false;
	}
	count_groups(state, service, &counts);
	counts.in_group[backend->backup][WEIR_GROUP_ELIGIBLE]--;
	counts.in_group[backend->backup][WEIR_GROUP_MAYBE_UP]++;
	open = weir_openings_decide(service->config, &counts);
	for (uint16_t link = service->first; link != 0 && !others;
		link = state->backends[link - 1].next) {
		const struct weir_backend_entry *other = &state->backends[link - 1];

		others = other != backend && group_of(state, other) == WEIR_GROUP_ELIGIBLE &&
			 could_take_over(service, &open, other) &&
			 (other->hop.resolved || !backend->hop.resolved);
	}
	return others && !open.panic;
}

int weir_eligible_decide_all(struct weir_state *state) {
	weir_eligible_move(state);
	for (uint32_t id = 0; state->undecided && id < state->service_ids; id++) {
		const struct weir_service_entry *service = &state->services[id];
		int r = service->undecided && service->stage == WEIR_ID_LIVE
				? weir_eligible_decide(state, (uint16_t)id)
				: 0;

		if (r < 0) {
			return r;
		}
	}
	state->undecided = false;
	return 0;
}

bool weir_eligible_differ(const struct weir_service_entry *service) {
	return service->chosen != service->listed_chosen ||
	       service->listed != service->listed_chosen;
}

bool weir_eligible_member(const struct weir_state *state, uint16_t id,
	struct weir_selection_member *ret, bool *reported) {
	const struct weir_backend_entry *backend = &state->backends[id];

	if (!backend->chosen) {
		return false;
	}
	ret->identity = backend->identity;
	ret->id = id;
	ret->weight = weir_backend_weight(state, backend);
	ret->subsets = backend->subsets;
	*reported |= backend->reported_weight > 0 &&
		     weir_service_takes_reports(&state->services[backend->service]);
	return true;
}

uint32_t weir_eligible_members(const struct weir_state *state, uint16_t id,
	struct weir_selection_member *members, bool *ret_reported) {
	uint32_t n = 0;

	*ret_reported = false;
	for (uint16_t link = state->services[id].first; link != 0;
		link = state->backends[link - 1].next) {
		n += weir_eligible_member(state, link - 1, &members[n], ret_reported);
	}
	return n;
}
