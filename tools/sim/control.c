// SPDX-License-Identifier: BSD-3-Clause
//
// The control process: maintains the list of backends and the set of usable backends. When the list
// or the set changes, some clients get other subsets. For comparison, this file also computes the
// minimum number of subset members that must be replaced to keep subsets evenly distributed.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simulation_private.h"
#include "subset.h"

#define PERCENT 100u

struct change { // change of the usable backends
	uint32_t before, after; // number of usable backends
	uint32_t lost, gained;
	uint32_t last; // the last backend that was lost or gained
};

// Returns whether a backend exists at the start. A backend does not exist at the start if the first
// event that adds or removes it is add-backends.
static bool begins_listed(const struct weir_sim_scenario *scenario, uint32_t backend) {
	uint64_t first_ns = WEIR_SIM_NEVER;
	bool listed = true;

	for (uint32_t i = 0; i < scenario->happening_count; i++) {
		const struct weir_sim_happening *happening = &scenario->happening[i];
		uint32_t number = backend - happening->backend;
		uint64_t at_ns = happening->at_ns + happening->every_ns * number;

		if ((happening->kind == WEIR_SIM_HAPPENING_ADD ||
			    happening->kind == WEIR_SIM_HAPPENING_REMOVE) &&
			backend >= happening->backend && number < happening->count &&
			at_ns < first_ns) {
			first_ns = at_ns;
			listed = happening->kind == WEIR_SIM_HAPPENING_REMOVE;
		}
	}
	return listed;
}

// Builds the list of backends. The list is sorted by the index of the backend, not by the time when
// the backend was added.
static void make_list(struct weir_sim *sim) {
	sim->listed_count = 0;
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		if (sim->backend[i].listed) {
			sim->listed[sim->listed_count++] = i;
		}
	}
}

// Finds the usable backends: the healthy backends. In panic mode (too few backends are healthy),
// failed backends are also usable. If no backend is healthy in panic mode, lame ducks are also
// usable.
static void find_usable(const struct weir_sim *sim, uint8_t *usable) {
	uint32_t count = sim->scenario->backends.count;
	uint64_t good = 0, in_service = 0; // lame ducks are neither healthy nor failed
	bool panic;

	for (uint32_t i = 0; i < count; i++) {
		const struct weir_sim_backend *backend = &sim->backend[i];

		usable[i] = backend->listed && !backend->known_down && !backend->known_lame;
		good += usable[i];
		in_service += backend->listed && !backend->known_lame;
	}
	in_service = in_service > 0 ? in_service : 1;
	panic = good * PERCENT < in_service * sim->scenario->control.panic_threshold_percent;
	for (uint32_t i = 0; panic && i < count; i++) {
		usable[i] = sim->backend[i].listed && (!sim->backend[i].known_lame || good == 0);
	}
}

static void note_eligible(struct weir_sim *sim) {
	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		struct weir_sim_backend *backend = &sim->backend[i];
		bool eligible = backend->listed && !backend->known_down && !backend->known_lame;

		if (eligible && !backend->eligible) {
			backend->slow_start_ns = sim->now_ns;
		}
		backend->eligible = eligible;
	}
}

static void adopt_usable(struct weir_sim *sim) {
	memcpy(sim->usable, sim->usable_next, sim->scenario->backends.count);
	for (uint32_t place = 0; place < sim->listed_count; place++) {
		sim->usable_listed[place] = sim->usable[sim->listed[place]];
	}
}

static struct change compare(const struct weir_sim *sim) {
	struct change change = {0};

	for (uint32_t i = 0; i < sim->scenario->backends.count; i++) {
		change.before += sim->usable[i];
		change.after += sim->usable_next[i];
		if (sim->usable[i] != sim->usable_next[i]) {
			change.lost += sim->usable[i];
			change.gained += sim->usable_next[i];
			change.last = i;
		}
	}
	return change;
}

// Returns the minimum share of members that must be replaced if all subsets have the same size and
// use all backends evenly. The minimum is the larger of two shares: the share of the lost backends,
// and the share that the gained backends must get in addition to the growth of the subsets.
static double least_replaced(const struct weir_sim *sim, const struct change *change) {
	uint32_t size = sim->scenario->subset.algorithm == WEIR_SUBSET_NONE
				? 0
				: sim->scenario->subset.size;
	double before = size > 0 && size < change->before ? size : change->before;
	double after = size > 0 && size < change->after ? size : change->after;
	double went, came;

	if (change->before == 0 || change->after == 0) {
		return change->lost > 0 ? 1 : 0;
	}
	went = (double)change->lost / change->before;
	came = (after * change->gained / change->after - fmax(after - before, 0)) / before;
	return fmax(went, came);
}

static void publish(struct weir_sim *sim, bool other_list) {
	struct change change;

	note_eligible(sim);
	find_usable(sim, sim->usable_next);
	change = compare(sim);
	if (change.lost + change.gained == 0 && !other_list) {
		return;
	}
	sim->totals.least_replaced += least_replaced(sim, &change) * (double)sim->members;
	adopt_usable(sim);
	if (other_list || change.lost + change.gained > 1) {
		weir_sim_clients_rechoose(sim);
	} else if (change.lost > 0) {
		weir_sim_clients_lose(sim, change.last);
	} else if (sim->list_changed) {
		// The list has changed during the run, so the backend may now belong to
		// different subsets than before.
		weir_sim_clients_rechoose(sim);
	} else {
		weir_sim_clients_regain(sim);
	}
	weir_sim_metrics_subsets(sim);
}

int weir_sim_control_init(struct weir_sim *sim) {
	uint32_t count = sim->scenario->backends.count;

	sim->usable = calloc(count, sizeof(*sim->usable));
	sim->usable_next = calloc(count, sizeof(*sim->usable_next));
	sim->usable_listed = calloc(count, sizeof(*sim->usable_listed));
	sim->listed = calloc(count, sizeof(*sim->listed));
	if (sim->usable == NULL || sim->usable_next == NULL || sim->usable_listed == NULL ||
		sim->listed == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		sim->backend[i].listed = begins_listed(sim->scenario, i);
	}
	make_list(sim);
	note_eligible(sim);
	find_usable(sim, sim->usable_next);
	adopt_usable(sim);
	return 0;
}

void weir_sim_control_fini(struct weir_sim *sim) {
	free(sim->usable);
	free(sim->usable_next);
	free(sim->usable_listed);
	free(sim->listed);
}

void weir_sim_control_update(struct weir_sim *sim) {
	publish(sim, false);
}

void weir_sim_control_list(struct weir_sim *sim, uint32_t first, uint32_t count, bool listed) {
	for (uint32_t i = first; i < first + count; i++) {
		struct weir_sim_backend *backend = &sim->backend[i];

		if (backend->listed != listed) {
			backend->listed = listed;
			backend->listing_ns = sim->now_ns;
			weir_capability_ready(&backend->capability);
		}
	}
	sim->list_changed = true;
	make_list(sim);
	publish(sim, true);
}
