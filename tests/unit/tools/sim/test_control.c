// SPDX-License-Identifier: BSD-3-Clause
//
// Control in a simulation: the list of backends, the usable backends, and changes of subsets. The
// number of replaced members must be the same as with the subsetting code alone.
#include <stdio.h>

#include "sim_lab.h"
#include "subset_lab.h"

// 100 requests a second to each of 10 backends, at equal intervals.
#define BASE \
	"'name': 'x', 'title': '', 'duration_ms': 20000, 'sample_ms': 1000, 'watch': 9," \
	"'backends': {'count': 10, 'cores': 1}, 'cost': {'mean_ms': 1}," \
	"'clients': {'count': 1, 'requests_per_second': 1000, 'arrivals': 'even'}"

// 50 clients with subsets of 20 backends. At first there are 100 backends: all except 50 and 101 to
// 110. The measured window is from 3 s to 7 s.
#define FLEET \
	"{'name': 'x', 'title': '', 'duration_ms': 20000," \
	"'backends': {'count': 111, 'cores': 1}, 'cost': {'mean_ms': 1}," \
	"'clients': {'count': 50, 'requests_per_second': 1000}," \
	"'control': {'announce_ms': 0, 'detection_ms': 0, 'recovery_ms': 0}," \
	"'subset': {'algorithm': '%s', 'mode': '%s', 'size': 20, 'salt': 5}," \
	"'windows': [{'name': 'change', 'from_ms': 3000, 'to_ms': 7000}]," \
	"'events': [{'event': 'add-backends', 'at_ms': 15000, 'backend': 101, 'count': 10}," \
	"{'event': 'add-backends', 'at_ms': 15000, 'backend': 50}, %s]}"

static const struct {
	const char *name, *mode;
	enum weir_subset_algorithm algorithm;
	enum weir_subset_mode subset_mode;
} algorithms[] = {
	{"random", "spread", WEIR_SUBSET_RANDOM, WEIR_SUBSET_MODE_SPREAD},
	{"deterministic", "spread", WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_MODE_SPREAD},
	{"deterministic", "exact", WEIR_SUBSET_DETERMINISTIC, WEIR_SUBSET_MODE_EXACT},
	{"rocksteadier", "spread", WEIR_SUBSET_ROCKSTEADIER, WEIR_SUBSET_MODE_SPREAD},
};

#define ALGORITHMS (sizeof(algorithms) / sizeof(algorithms[0]))

static struct weir_sim_result *run_fleet(size_t algorithm, const char *events) {
	char text[2048];

	snprintf(text, sizeof(text), FLEET, algorithms[algorithm].name, algorithms[algorithm].mode,
		events);
	return lab_try(text);
}

// Computes the subsets directly with the policy code, for a list of backends without `missing`.
static void direct(struct fleet *fleet, size_t algorithm, const uint8_t *missing) {
	struct weir_subset_params params = {
		algorithms[algorithm].algorithm, algorithms[algorithm].subset_mode, 20, 0, 5};
	uint32_t list[111];
	uint32_t n = 0;

	for (uint32_t i = 0; i < 111; i++) {
		if (!missing[i]) {
			list[n++] = i;
		}
	}
	fleet_choose(fleet, choose, &params, 50, NULL, n);
	for (uint32_t c = 0; c < fleet->clients; c++) {
		for (uint32_t i = 0; i < fleet->length[c]; i++) {
			fleet->member[c][i] = list[fleet->member[c][i]];
		}
	}
	fleet->backends = 111;
}

static uint64_t watched(const struct weir_sim_result *result, uint32_t second) {
	return result->sample[second - 1].totals.watched;
}

TEST(control_added_backend_gets_requests_from_then_on) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'events': [{'event': 'add-backends', 'at_ms': 5000,"
			"'backend': 9}]}");

	assert_int_equal(watched(result, 5), 0);
	assert_in_range(watched(result, 6), 98, 102);
	assert_in_range(watched(result, 20), 99, 101);
	assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
	// The backend was added in the middle of the window, so only the nine other backends are
	// measured.
	assert_true(result->measure[0].backend[9].listed);
	assert_false(result->measure[0].backend[9].measured);
	lab_near(result->measure[0].spread, 1, 0.01);
	weir_sim_result_free(result);
}

// A removed backend finishes the requests that it already has, as in the dataplane.
TEST(control_removed_backend_finishes_its_requests) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'wait': {'mean_ms': 1500}, 'events': ["
			"{'event': 'remove-backends', 'at_ms': 5000, 'backend': 9}]}");

	assert_in_range(watched(result, 5), 99, 101);
	assert_int_equal(watched(result, 6), 0);
	lab_near(result->sample[5].watched_cpu, 0.1, 0.05);
	assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
	assert_int_equal(result->totals.arrived, lab_accounted(result));
	weir_sim_result_free(result);
}

TEST(control_added_backend_may_be_cold) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'events': [{'event': 'add-backends', 'at_ms': 5000,"
			"'backend': 9, 'speed': 0.25, 'warm_ms': 5000}]}");

	lab_near(result->sample[7].watched_cpu, 0.4, 0.05);
	lab_near(result->sample[14].watched_cpu, 0.1, 0.05);
	weir_sim_result_free(result);
}

TEST(control_empty_list_rejects_everything) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'events': ["
			"{'event': 'remove-backends', 'at_ms': 5000, 'count': 10},"
			"{'event': 'add-backends', 'at_ms': 10000, 'count': 10}]}");

	assert_int_equal(result->sample[6].totals.ended[WEIR_SIM_REJECTED], 1000);
	assert_int_equal(result->sample[6].cpu_max, 0);
	assert_int_equal(result->sample[11].totals.ended[WEIR_SIM_REJECTED], 0);
	assert_in_range(watched(result, 12), 99, 101);
	weir_sim_result_free(result);
}

static const struct {
	const char *events;
	uint32_t first, count; // the backends that are added or removed
	bool added;
	double least; // percent of the members that evenly distributed subsets replace
} reloads[] = {
	{"{'event': 'add-backends', 'at_ms': 5000, 'backend': 101}", 101, 1, true, 100.0 / 101},
	{"{'event': 'add-backends', 'at_ms': 5000, 'backend': 101, 'count': 10}", 101, 10, true,
		1000.0 / 110},
	{"{'event': 'add-backends', 'at_ms': 5000, 'backend': 50}", 50, 1, true, 100.0 / 101},
	{"{'event': 'remove-backends', 'at_ms': 5000, 'backend': 100}", 100, 1, false, 1},
	{"{'event': 'remove-backends', 'at_ms': 5000, 'backend': 91, 'count': 10}", 91, 10, false,
		10},
};

static void check_reload(size_t algorithm, size_t reload) {
	static struct fleet before, after;
	static uint32_t counts[111];
	struct weir_sim_result *result = run_fleet(algorithm, reloads[reload].events);
	const struct weir_sim_measure *m = &result->measure[0];
	uint8_t missing[111] = {[50] = 1};

	memset(&missing[101], 1, 10);
	direct(&before, algorithm, missing);
	memset(&missing[reloads[reload].first], !reloads[reload].added, reloads[reload].count);
	direct(&after, algorithm, missing);
	assert_int_equal(m->members, fleet_members(&before));
	assert_int_equal(m->totals.replaced, fleet_left(&before, &after));
	lab_near(100 * m->totals.least_replaced / (double)m->members, reloads[reload].least, 1e-9);
	memset(counts, 0, sizeof(counts));
	for (uint32_t c = 0; c < after.clients; c++) {
		for (uint32_t i = 0; i < after.length[c]; i++) {
			counts[after.member[c][i]]++;
		}
	}
	for (uint32_t i = 0; i < 111; i++) {
		assert_int_equal(m->backend[i].clients, counts[i]);
		assert_int_equal(m->backend[i].listed, !missing[i]);
	}
	weir_sim_result_free(result);
}

TEST(control_reloads_replace_as_many_as_the_subsetting_code) {
	for (size_t i = 0; i < ALGORITHMS; i++) {
		for (size_t k = 0; k < sizeof(reloads) / sizeof(reloads[0]); k++) {
			check_reload(i, k);
		}
	}
}

// Backend 101 is added while backend 1 is down. When backend 1 is up again, it belongs to other
// subsets than before.
TEST(control_backend_returns_to_a_list_that_has_changed) {
	static struct fleet fleet;
	uint8_t missing[111] = {[50] = 1};

	memset(&missing[102], 1, 9);
	for (size_t i = 0; i < ALGORITHMS; i++) {
		struct weir_sim_result *result =
			run_fleet(i, "{'event': 'restart', 'at_ms': 4000, 'backend': 1,"
				     "'down_ms': 2000},"
				     "{'event': 'add-backends', 'at_ms': 5000, 'backend': 101}");
		uint32_t clients = 0;

		direct(&fleet, i, missing);
		for (uint32_t c = 0; c < fleet.clients; c++) {
			clients += (uint32_t)fleet_holds(&fleet, c, 1);
		}
		assert_int_equal(result->measure[0].backend[1].clients, clients);
		assert_int_equal(result->measure[0].members_least, 20);
		weir_sim_result_free(result);
	}
}

// According to the guarantees U2 and U3 of subset.h, each backend is removed from its subsets, and
// later added to the same subsets again.
TEST(control_rolling_restart_replaces_each_member_twice) {
	for (size_t i = 0; i < ALGORITHMS; i++) {
		struct weir_sim_result *result = run_fleet(i,
			"{'event': 'restart', 'at_ms': 3000, 'backend': 0, 'count': 50,"
			"'every_ms': 30, 'down_ms': 20},"
			"{'event': 'restart', 'at_ms': 5000, 'backend': 51, 'count': 50,"
			"'every_ms': 30, 'down_ms': 20}");
		const struct weir_sim_measure *m = &result->measure[0];

		assert_int_equal(m->totals.replaced, 2 * m->members);
		lab_near(m->totals.least_replaced, 2.0 * (double)m->members, 1e-9);
		assert_int_equal(m->members_least, 20);
		// During a restart, the clients of the backend are spread over other backends.
		assert_in_range(m->clients_peak, m->clients_max + (i > 0), m->clients_max + 5);
		weir_sim_result_free(result);
	}
}

// Adding ten backends one by one makes ten changes, and each change replaces members.
TEST(control_backends_added_one_by_one_cost_more) {
	struct weir_sim_result *one =
		run_fleet(1, "{'event': 'add-backends', 'at_ms': 5000, 'backend': 101, 'count': 10,"
			     "'every_ms': 100}");
	struct weir_sim_result *all = run_fleet(
		1, "{'event': 'add-backends', 'at_ms': 5000, 'backend': 101, 'count': 10}");

	assert_true(one->measure[0].totals.replaced > 4 * all->measure[0].totals.replaced);
	assert_true(one->measure[0].totals.least_replaced > all->measure[0].totals.least_replaced);
	weir_sim_result_free(one);
	weir_sim_result_free(all);
}

// Without subsets, all clients use a new backend, and it replaces no other backend.
TEST(control_without_subsets_only_losses_replace) {
	struct weir_sim_result *grown = lab_try(
		"{" BASE ", 'events': [{'event': 'add-backends', 'at_ms': 5000, 'backend': 9}]}");
	struct weir_sim_result *shrunk =
		lab_try("{" BASE ", 'events': [{'event': 'remove-backends', 'at_ms': 5000,"
			"'backend': 9}]}");

	assert_int_equal(grown->totals.replaced, 0);
	lab_near(grown->totals.least_replaced + 1, 1, 1e-9);
	assert_int_equal(shrunk->totals.replaced, 1);
	lab_near(shrunk->totals.least_replaced, 1, 1e-9);
	weir_sim_result_free(grown);
	weir_sim_result_free(shrunk);
}
