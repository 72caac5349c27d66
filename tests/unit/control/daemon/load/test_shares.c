// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the target shares of a policy, and the actual shares.
#include "tables_lab.h"

#include <math.h>
#include <stdio.h>

#include "backend_signal.h"
#include "shares.h"
#include "totals.h"

static void expect(double found, double wanted) {
	if (fabs(found - wanted) > 0.05) {
		fail_msg("%f instead of %f", found, wanted);
	}
}

// The shares of three backends for each policy. Their weights are 100, 200 and 300, their service
// times 1, 2 and 1 ms.
TEST(effective_share_by_policy) {
	static const struct {
		enum weir_policy policy;
		double share[3];
	} cases[] = {
		{WEIR_POLICY_MAGLEV, {16.7, 33.3, 50}},
		{WEIR_POLICY_ROUND_ROBIN, {33.3, 33.3, 33.3}},
		{WEIR_POLICY_LEAST_LOADED, {16.7, 33.3, 50}},
		{WEIR_POLICY_WEIGHTED_ROUND_ROBIN, {16.7, 33.3, 50}},
		{WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN, {20, 20, 60}},
		{WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, {20, 20, 60}},
		{WEIR_POLICY_FAIR_SHARE, {40, 20, 40}},
		{WEIR_POLICY_RANDOM, {33.3, 33.3, 33.3}},
		{WEIR_POLICY_POWER_OF_TWO, {33.3, 33.3, 33.3}},
		{WEIR_POLICY_PREQUAL, {33.3, 33.3, 33.3}},
	};

	_Static_assert(sizeof(cases) / sizeof(cases[0]) == WEIR_POLICY_COUNT, "policies");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = lab_config(2, 3);
		struct weir_recent recent = {0};
		struct weir_shares_of source = {.recent = &recent};
		struct weir_shares *shares;
		struct lab lab;

		config->services[1].policy.name = cases[i].policy;
		config->services[1].table_size = 65537;
		config->services[1].backends[1].weight = 200;
		config->services[1].backends[2].weight = 300;
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		source.tables = lab.tables;
		source.segment = lab.segment;
		lab.control->costs[3] = 1000000;
		lab.control->costs[4] = 2000000;
		lab.control->costs[5] = 1000000;
		for (int all = 0; all < 2; all++) {
			assert_int_equal(
				weir_shares_create(&source, all ? WEIR_SHARES_ALL : 1, &shares), 0);
			for (uint16_t id = 3; id < 6; id++) {
				struct weir_backend_state of = lab_state(&lab, id);
				double share = weir_shares_effective(shares, &of);

				if (fabs(share - cases[i].share[id - 3]) > 0.1) {
					fail_msg("%s: %u has %f", weir_policy_name(cases[i].policy),
						id, share);
				}
			}
			weir_shares_free(shares);
		}
		lab_close(&lab);
		lab_config_free(config);
	}
}

TEST(unknown_costs_count_as_the_mean) {
	struct weir_config *config = lab_config(1, 3);
	struct weir_backend_state of;
	struct weir_recent recent = {0};
	struct weir_shares_of source = {.recent = &recent};
	struct weir_shares *shares;
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_FAIR_SHARE;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	source.tables = lab.tables;
	source.segment = lab.segment;
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	of = lab_state(&lab, 2);
	expect(weir_shares_effective(shares, &of), 33.333);
	weir_shares_free(shares);
	lab.control->costs[0] = 1000;
	lab.control->costs[1] = 3000;
	lab.control->costs[2] = weir_signal_of_errors(7); // for the previous policy
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	// the third cost is unknown, so the mean (2000) is used; the shares have the ratios
	// 1 : 1/3 : 1/2
	expect(weir_shares_effective(shares, &of), 100.0 * 6 / (12 + 4 + 6));
	weir_shares_free(shares);
	source.segment = NULL; // without a dataplane, costs are unknown
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	expect(weir_shares_effective(shares, &of), 33.333);
	assert_true(weir_shares_recent(shares, &of) < 0);
	weir_shares_free(shares);
	weir_shares_free(NULL);
	lab_close(&lab);
	lab_config_free(config);
}

// Each worker has a subset of its own and gets half of the flows, whatever the costs of its
// members are.
TEST(costs_count_within_a_workers_subset) {
	static const struct {
		enum weir_policy policy;
		double share[4]; // shares of worker 0's members, then of worker 1's
	} cases[] = {
		{WEIR_POLICY_FAIR_SHARE, {45.4545, 4.5455, 25, 25}},
		{WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN, {45.4545, 4.5455, 12.5, 37.5}},
		{WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, {45.4545, 4.5455, 12.5, 37.5}},
		{WEIR_POLICY_LEAST_LOADED, {25, 25, 12.5, 37.5}},
		{WEIR_POLICY_WEIGHTED_ROUND_ROBIN, {25, 25, 12.5, 37.5}},
		{WEIR_POLICY_MAGLEV, {25, 25, 12.5, 37.5}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = lab_config(1, 4);
		struct weir_subset_member member[LAB_WORKERS][4];
		struct weir_recent recent = {0};
		struct weir_shares_of source = {.recent = &recent};
		struct weir_shares *shares;
		struct lab lab;

		config->services[0].policy.name = cases[i].policy;
		config->services[0].table_size = 65537;
		config->services[0].subset =
			(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
				.size = 2,
				.client = WEIR_SUBSET_CLIENT_WORKER};
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
			assert_int_equal(
				weir_tables_subset_members(lab.tables, 0, worker, member[worker]),
				2);
			lab.control->costs[member[worker][0].backend] =
				worker == 0 ? 1000000 : 10000000;
			lab.control->costs[member[worker][1].backend] = 10000000;
		}
		weir_tables_set_weight(lab.tables, member[1][1].backend, 300);
		weir_tables_publish(lab.tables);
		source.tables = lab.tables;
		source.segment = lab.segment;
		assert_int_equal(weir_shares_create(&source, WEIR_SHARES_ALL, &shares), 0);
		for (uint32_t j = 0; j < 4; j++) {
			struct weir_backend_state of =
				lab_state(&lab, member[j / 2][j % 2].backend);
			double share = weir_shares_effective(shares, &of);

			if (fabs(share - cases[i].share[j]) > 0.1) {
				fail_msg("%s: %u has %f", weir_policy_name(cases[i].policy), j,
					share);
			}
		}
		weir_shares_free(shares);
		lab_close(&lab);
		lab_config_free(config);
	}
}

// Without a dataplane there are no current costs. The shares then follow from the costs that were
// published last.
TEST(shares_of_subsets_outlive_the_segment) {
	struct weir_config *config = lab_config(1, 4);
	struct weir_recent recent = {0};
	struct weir_shares_of source = {.recent = &recent};
	struct weir_shares *shares;
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_FAIR_SHARE;
	config->services[0].subset =
		(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
			.size = 2,
			.client = WEIR_SUBSET_CLIENT_WORKER};
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	source.tables = lab.tables;
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	for (uint16_t id = 0; id < 4; id++) {
		struct weir_backend_state of = lab_state(&lab, id);

		expect(weir_shares_effective(shares, &of), 25);
	}
	weir_shares_free(shares);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(achieved_shares) {
	struct weir_config *config = lab_config(2, 2);
	struct weir_backend_state first, second;
	struct weir_recent recent = {0};
	struct weir_shares_of source = {.recent = &recent};
	struct weir_shares *shares;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	source.tables = lab.tables;
	source.segment = lab.segment;
	weir_segment_backend_counters(lab.segment, 0, 0)->new_flows = 100;
	// counters of another service
	weir_segment_backend_counters(lab.segment, 0, 2)->new_flows = 1000;
	weir_recent_take(&recent, lab.segment, 4, 2);
	first = lab_state(&lab, 0);
	second = lab_state(&lab, 1);
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	expect(weir_shares_achieved(shares, &first), 100);
	assert_true(weir_shares_recent(shares, &first) < 0);
	weir_shares_free(shares);
	weir_segment_backend_counters(lab.segment, 1, 0)->new_flows = 25;
	weir_segment_backend_counters(lab.segment, 1, 1)->new_flows = 75;
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	expect(weir_shares_achieved(shares, &first), 62.5);
	expect(weir_shares_recent(shares, &first), 25);
	expect(weir_shares_recent(shares, &second), 75);
	first.service_id = 1; // a backend of another service
	assert_true(weir_shares_achieved(shares, &first) < 0);
	expect(weir_shares_effective(shares, &first), 0);
	assert_true(weir_shares_recent(shares, &first) < 0);
	weir_shares_free(shares);
	weir_recent_fini(&recent);
	lab_close(&lab);
	lab_config_free(config);
}

static void count_of_predecessors(const struct lab *lab) {
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		*weir_segment_backend_counters(lab->segment, worker, 1) =
			(struct weir_share_counters){
				.packets = 1000000, .refused = 345, .new_flows = 1000};
		*weir_segment_service_counters(lab->segment, worker, 1) =
			(struct weir_share_counters){.packets = 5000, .spilled = 70, .rejected = 7};
	}
	weir_segment_backend_counters(lab->segment, 0, 0)->new_flows = 30;
}

static void assert_reused_ids(
	const struct lab *lab, const struct weir_recent *recent, uint64_t flows, uint64_t spilled) {
	static const struct weir_share_counters none;
	struct weir_share_counters backend = weir_sum_backend(lab->segment, 1);
	struct weir_share_counters service = weir_sum_service(lab->segment, 1);
	struct weir_shares_of source = {
		.tables = lab->tables, .segment = lab->control, .recent = recent};
	struct weir_backend_state state = lab_state(lab, 1);
	struct weir_shares *shares;

	assert_string_equal(state.name, "new");
	assert_int_equal(backend.new_flows, flows);
	assert_int_equal(service.spilled, spilled);
	backend.new_flows = 0;
	service.spilled = 0;
	assert_memory_equal(&backend, &none, sizeof(none));
	assert_memory_equal(&service, &none, sizeof(none));
	assert_int_equal(weir_sum_backend(lab->segment, 0).new_flows, 30); // the sum is unchanged
	assert_int_equal(weir_shares_create(&source, 0, &shares), 0);
	expect(weir_shares_achieved(shares, &state), 100.0 * (double)flows / (30 + (double)flows));
	weir_shares_free(shares);
	assert_int_equal(weir_recent_new_flows(recent, lab->control, 1), flows);
	assert_int_equal(weir_recent_limited(recent, lab->control, 1).spilled, spilled);
}

// An id gets a new owner, while the workers' counters of the id continue. The counts of the new
// owner start at 0, even after a restart of control.
TEST(reused_ids_start_with_zero_counters) {
	struct weir_config *config = lab_config(2, 2), *less = lab_config(1, 1);
	struct weir_config *next = lab_config(2, 2);
	struct weir_recent recent = {0};
	struct lab lab;

	snprintf(next->services[0].backends[1].name, WEIR_NAME_BYTES, "new");
	snprintf(next->services[1].name, WEIR_NAME_BYTES, "other");
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_recent_take(&recent, lab.control, 4, 2);
	count_of_predecessors(&lab);
	assert_int_equal(weir_sum_backend(lab.segment, 1).refused, 690);
	assert_int_equal(weir_recent_new_flows(&recent, lab.control, 1), 2000);
	assert_int_equal(weir_recent_limited(&recent, lab.control, 1).spilled, 140);
	assert_int_equal(weir_recent_limited(&recent, lab.control, 1).rejected, 14);
	weir_recent_take(&recent, lab.control, 4, 2);
	lab_apply(&lab, less);
	lab_settle(&lab);
	lab_apply(&lab, next);
	assert_reused_ids(&lab, &recent, 0, 0);
	weir_segment_backend_counters(lab.segment, 1, 1)->new_flows += 10;
	weir_segment_service_counters(lab.segment, 1, 1)->spilled += 4;
	assert_reused_ids(&lab, &recent, 10, 4);
	weir_recent_fini(&recent);
	lab_restart(&lab);
	lab_apply(&lab, next);
	assert_int_equal(weir_sum_backend(lab.segment, 1).new_flows, 10);
	assert_int_equal(weir_sum_backend(lab.segment, 1).refused, 0);
	assert_int_equal(weir_sum_service(lab.segment, 1).spilled, 4);
	weir_recent_take(&recent, lab.control, 4, 2);
	assert_int_equal(weir_recent_new_flows(&recent, lab.control, 1), 0);
	assert_int_equal(weir_recent_limited(&recent, lab.control, 1).spilled, 0);
	weir_recent_fini(&recent);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
	lab_config_free(next);
}
