// SPDX-License-Identifier: BSD-3-Clause
#include "shares.h"

#include <errno.h>
#include <stdlib.h>

#include "backend_signal.h"
#include "totals.h"

struct whole { // totals of a service
	struct weir_service_state state;
	double known_costs; // sum of the known costs
	uint32_t known;
	double target; // sum of the targets of the service's backends
	uint64_t new_flows;
	uint64_t recent;
};

struct weir_shares {
	struct weir_shares_of of;
	uint32_t only; // id of the service whose shares are computed, or WEIR_SHARES_ALL
	struct whole *whole; // [WEIR_SERVICES_MAX]
	uint32_t ids;
	uint64_t *new_flows; // [ids] new flows of each backend, when the shares were created
	double *target; // [ids] targets of backends, for services with targets_by_subset
	struct weir_subset_part *part; // [ids]
};

static double cost_of(const struct weir_shares *shares, uint16_t id) {
	const struct weir_segment *segment = shares->of.segment;

	return segment != NULL && id < segment->max_backends
		       ? (double)weir_signal_cost(
				 __atomic_load_n(&segment->costs[id], __ATOMIC_RELAXED))
		       : 0;
}

static bool includes(const struct weir_shares *shares, uint16_t service) {
	return service < WEIR_SERVICES_MAX &&
	       (shares->only == WEIR_SHARES_ALL || shares->only == service);
}

static bool has_costs(const struct whole *whole) {
	return (weir_policy_needs((enum weir_policy)whole->state.policy) & WEIR_NEEDS_COST) != 0;
}

// Returns whether shares by cost must first be computed within each subset. If there are several
// subsets, each subset gets about the same number of flows, regardless of the costs of its
// backends.
static bool targets_by_subset(const struct whole *whole) {
	return has_costs(whole) && whole->state.subsets > 1;
}

static double per_cost(
	const struct weir_shares *shares, const struct whole *whole, uint16_t id, uint64_t parts) {
	double cost = cost_of(shares, id);

	if (cost == 0) {
		cost = whole->known > 0 ? whole->known_costs / whole->known : 1;
	}
	return (double)parts / cost;
}

static void add_subset(struct weir_shares *shares, const struct whole *whole, uint32_t subset) {
	uint32_t n = weir_tables_subset_parts(
		shares->of.tables, whole->state.id, subset, shares->part, shares->ids);
	double sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct weir_subset_part *part = &shares->part[i];

		sum += per_cost(shares, whole, part->backend, part->parts);
	}
	for (uint32_t i = 0; i < n && sum > 0; i++) {
		const struct weir_subset_part *part = &shares->part[i];

		if (part->backend < shares->ids) {
			shares->target[part->backend] +=
				per_cost(shares, whole, part->backend, part->parts) / sum;
		}
	}
}

static void add_subsets(struct weir_shares *shares) {
	for (uint32_t id = 0; id < WEIR_SERVICES_MAX; id++) {
		const struct whole *whole = &shares->whole[id];

		for (uint32_t i = 0; targets_by_subset(whole) && i < whole->state.subsets; i++) {
			add_subset(shares, whole, i);
		}
	}
}

// Returns the target of a backend, in the same unit as whole->target.
static double target_of(const struct weir_shares *shares, const struct weir_backend_state *of) {
	const struct whole *whole = &shares->whole[of->service_id];
	uint64_t parts = weir_tables_backend_parts(shares->of.tables, of->id);

	if (targets_by_subset(whole)) {
		return of->id < shares->ids ? shares->target[of->id] : 0;
	}
	return has_costs(whole) ? per_cost(shares, whole, of->id, parts) : (double)parts;
}

static void add_backend(struct weir_shares *shares, uint16_t id, bool second_pass) {
	struct weir_backend_state state;
	struct whole *whole;
	double cost;

	if (!includes(shares, weir_tables_backend_service(shares->of.tables, id)) ||
		weir_tables_backend(shares->of.tables, id, &state) < 0) {
		return;
	}
	whole = &shares->whole[state.service_id];
	if (second_pass) {
		whole->target += target_of(shares, &state);
		return;
	}
	cost = cost_of(shares, id);
	whole->known += cost > 0;
	whole->known_costs += cost;
	shares->new_flows[id] = weir_sum_backend(shares->of.segment, id).new_flows;
	whole->new_flows += shares->new_flows[id];
	if (shares->of.recent != NULL) {
		whole->recent += weir_recent_new_flows(shares->of.recent, shares->of.segment, id);
	}
}

int weir_shares_create(
	const struct weir_shares_of *of, uint32_t service, struct weir_shares **ret) {
	uint32_t ids = weir_tables_backend_ids(of->tables);
	struct weir_shares *shares = calloc(1, sizeof(*shares));

	if (shares == NULL) {
		return -ENOMEM;
	}
	shares->of = *of;
	shares->only = service;
	shares->ids = ids;
	shares->whole = calloc(WEIR_SERVICES_MAX, sizeof(shares->whole[0]));
	shares->new_flows = calloc(ids + 1, sizeof(shares->new_flows[0]));
	shares->target = calloc(ids + 1, sizeof(shares->target[0]));
	shares->part = calloc(ids + 1, sizeof(shares->part[0]));
	if (shares->whole == NULL || shares->new_flows == NULL || shares->target == NULL ||
		shares->part == NULL) {
		weir_shares_free(shares);
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < WEIR_SERVICES_MAX; id++) {
		if (includes(shares, (uint16_t)id)) {
			weir_tables_service(of->tables, (uint16_t)id, &shares->whole[id].state);
		}
	}
	for (uint32_t id = 0; id < ids; id++) {
		add_backend(shares, (uint16_t)id, false);
	}
	add_subsets(shares);
	for (uint32_t id = 0; id < ids; id++) {
		add_backend(shares, (uint16_t)id, true);
	}
	*ret = shares;
	return 0;
}

void weir_shares_free(struct weir_shares *shares) {
	if (shares != NULL) {
		free(shares->part);
		free(shares->target);
		free(shares->new_flows);
		free(shares->whole);
		free(shares);
	}
}

static double percent(double part, double whole) {
	return whole > 0 ? 100.0 * part / whole : 0;
}

double weir_shares_effective(
	const struct weir_shares *shares, const struct weir_backend_state *of) {
	return includes(shares, of->service_id)
		       ? percent(target_of(shares, of), shares->whole[of->service_id].target)
		       : 0;
}

double weir_shares_achieved(const struct weir_shares *shares, const struct weir_backend_state *of) {
	if (!includes(shares, of->service_id) || shares->whole[of->service_id].new_flows == 0) {
		return -1;
	}
	return percent(of->id < shares->ids ? (double)shares->new_flows[of->id] : 0,
		(double)shares->whole[of->service_id].new_flows);
}

double weir_shares_recent(const struct weir_shares *shares, const struct weir_backend_state *of) {
	if (!includes(shares, of->service_id) || shares->whole[of->service_id].recent == 0) {
		return -1;
	}
	return percent((double)weir_recent_new_flows(shares->of.recent, shares->of.segment, of->id),
		(double)shares->whole[of->service_id].recent);
}
