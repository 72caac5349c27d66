// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the published weights that are computed from reports.
#include "estimates_lab.h"

static void open_reported(struct estimates_lab *lab, uint32_t backends) {
	estimates_lab_open(lab, 1, backends);
	lab_policy(lab, 0, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	lab->config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_apply_follow(lab);
}

static void report(
	struct estimates_lab *lab, uint16_t backend, double requests, double errors, double used) {
	struct weir_report report = {
		.given = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION),
		.requests_per_second = requests,
		.errors_per_second = errors,
		.utilization = used,
	};
	char why[256] = "";

	if (weir_estimates_report(lab->estimates, backend, &report, lab->now, why, sizeof(why)) <
		0) {
		fail_msg("%s", why);
	}
}

// Each second, backends 0 to n - 1 report these numbers of requests and a utilization of 0.5.
// Returns how often weights were changed.
static int report_for(struct estimates_lab *lab, const double *requests, uint16_t n, int seconds) {
	int changes = 0;

	for (int i = 0; i < seconds; i++) {
		for (uint16_t id = 0; id < n; id++) {
			report(lab, id, requests[id], 0, 0.5);
		}
		lab->now += LAB_SECOND;
		changes += weir_estimates_second(lab->estimates, lab->now);
	}
	return changes;
}

static uint32_t weight_of(struct estimates_lab *lab, uint16_t backend) {
	return lab_state(&lab->lab, backend).effective_weight;
}

TEST(reported_weights_replace_the_configured_ones) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;

	open_reported(&lab, 3);
	assert_int_equal(report_for(&lab, requests, 2, 9), 0); // within the blackout
	assert_int_equal(weight_of(&lab, 0), 100);
	assert_int_equal(report_for(&lab, requests, 2, 1), 1);
	// the weight changes by at most a fifth per second
	assert_in_range(weight_of(&lab, 0), 8300, 8400);
	assert_in_range(weight_of(&lab, 1), 11900, 12000);
	assert_in_range(report_for(&lab, requests, 2, 5), 3, 4);
	assert_in_range(weight_of(&lab, 0), 4990, 5010);
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	assert_in_range(weight_of(&lab, 2), 9990, 10010); // unknown, so it is the mean
	assert_int_equal(lab_publish(&lab.lab), 1);
	assert_int_equal(lab_publish(&lab.lab), 0);
	estimates_lab_close(&lab);
}

// A backend without load reports an enormous number of requests. Its weight counts at most as ten
// times the mean of the other backends.
TEST(extreme_report_gets_at_most_ten_times_the_mean) {
	static const double requests[] = {100, 100, 200};
	struct estimates_lab lab;

	open_reported(&lab, 4);
	for (int second = 0; second < 120; second++) {
		report(&lab, 3, 1e12, 1e-9, 0);
		report_for(&lab, requests, 3, 1);
	}
	assert_in_range(weight_of(&lab, 3) / weight_of(&lab, 0), 12, 14); // 10 * 4 / 3
	assert_in_range(weight_of(&lab, 2) * 100 / weight_of(&lab, 0), 190, 210);
	estimates_lab_close(&lab);
}

// If only one weight is known, there is nothing to compare it with.
TEST(one_known_weight_is_not_enough) {
	static const double requests[] = {100};
	struct estimates_lab lab;

	open_reported(&lab, 2);
	assert_int_equal(report_for(&lab, requests, 1, 30), 0);
	assert_int_equal(weight_of(&lab, 0), 100);
	estimates_lab_close(&lab);
}

// A weight that has fallen to a few units, which a fifth per second would not change, rises again.
TEST(smallest_weight_rises_again) {
	static const double fallen[] = {100, 100, 0.0001}, equal[] = {100, 100, 100};
	struct estimates_lab lab;

	open_reported(&lab, 3);
	report_for(&lab, fallen, 3, 120);
	assert_in_range(weight_of(&lab, 2), 1, 4);
	report_for(&lab, equal, 3, 180);
	assert_in_range(weight_of(&lab, 2), 9800, 10200);
	estimates_lab_close(&lab);
}

TEST(small_changes_are_not_published) {
	static const double first[] = {100, 100}, small[] = {100, 102}, large[] = {100, 150};
	struct estimates_lab lab;

	open_reported(&lab, 2);
	assert_int_equal(report_for(&lab, first, 2, 20), 1);
	assert_int_equal(report_for(&lab, small, 2, 60), 0);
	assert_true(report_for(&lab, large, 2, 60) > 0);
	// The ratio is within 2 % of 40:60.
	assert_in_range(weight_of(&lab, 1) * 100 / weight_of(&lab, 0), 145, 155);
	estimates_lab_close(&lab);
}

TEST(errors_reduce_the_weight_of_a_backend) {
	struct estimates_lab lab;

	open_reported(&lab, 2);
	for (int i = 0; i < 15; i++) {
		report(&lab, 0, 100, 0, 0.5);
		report(&lab, 1, 100, 50, 0.5);
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	// weights: 100 / 0.5 and 100 / (0.5 + 0.5)
	assert_in_range(weight_of(&lab, 0) * 100 / weight_of(&lab, 1), 198, 202);
	estimates_lab_close(&lab);
}

// Reported load expires. Then the configured weights apply again.
TEST(configured_weights_return) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;
	int changes = 0;

	open_reported(&lab, 2);
	report_for(&lab, requests, 2, 20);
	for (int i = 0; i < 178; i++) {
		lab.now += LAB_SECOND;
		changes += weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(changes, 0);
	for (int i = 0; i < 4 && changes == 0; i++) {
		lab.now += LAB_SECOND;
		changes += weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(changes, 1);
	assert_in_range(weight_of(&lab, 0), 5950, 6050); // weights change gradually
	for (int i = 0; i < 5; i++) {
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(lab_state(&lab.lab, 0).reported_weight, 0);
	assert_int_equal(weight_of(&lab, 0), 100);
	assert_int_equal(weight_of(&lab, 1), 100);
	estimates_lab_close(&lab);
}

// All configured weights become 0, and the reports expire.
TEST(configured_weights_of_zero_return) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;

	open_reported(&lab, 2);
	report_for(&lab, requests, 2, 20);
	for (int i = 0; i < 2; i++) {
		lab.config->services[0].backends[i].weight = 0;
	}
	lab_apply_follow(&lab);
	for (int i = 0; i < 240; i++) {
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(lab_state(&lab.lab, 0).reported_weight, 0);
	assert_int_equal(lab_state(&lab.lab, 1).reported_weight, 0);
	estimates_lab_close(&lab);
}

// An operator sets a weight. A weight of 0 means no new flows. Other weights scale the reported
// weight.
TEST(weights_set_at_run_time) {
	static const double requests[] = {100, 300, 200};
	struct estimates_lab lab;

	open_reported(&lab, 3);
	report_for(&lab, requests, 3, 20);
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	weir_tables_set_weight(lab.lab.tables, 1, 50); // half of the configured 100
	assert_in_range(weight_of(&lab, 1), 7490, 7510);
	weir_tables_set_weight(lab.lab.tables, 1, 0);
	assert_int_equal(weight_of(&lab, 1), 0);
	weir_tables_set_weight(lab.lab.tables, 1, WEIR_WEIGHT_UNSET);
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	estimates_lab_close(&lab);
}

// A backend fails and becomes healthy again. Reports from before the failure do not count, and the
// blackout begins again.
TEST(blackout_restarts_when_a_backend_returns) {
	static const double requests[] = {100, 300, 200};
	struct estimates_lab lab;

	open_reported(&lab, 3);
	report_for(&lab, requests, 3, 20);
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	weir_tables_set_health(lab.lab.tables, 1, WEIR_HEALTH_REFUSING);
	report_for(&lab, requests, 3, 2);
	weir_tables_set_health(lab.lab.tables, 1, WEIR_HEALTH_HEALTHY);
	report_for(&lab, requests, 3, 4);
	assert_in_range(weight_of(&lab, 1), 9990, 10010); // weight: the mean of 100 and 200
	report_for(&lab, requests, 3, 12);
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	estimates_lab_close(&lab);
}

// Weights of the former process stay until new reports arrive or until they expire.
TEST(weights_survive_a_restart) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;

	for (int again = 0; again < 2; again++) {
		open_reported(&lab, 2);
		report_for(&lab, requests, 2, 20);
		weir_tables_publish(lab.lab.tables);
		weir_estimates_free(lab.estimates);
		lab_restart(&lab.lab);
		assert_int_equal(weir_estimates_create(&lab.estimates), 0);
		lab_apply_follow(&lab);
		assert_in_range(weight_of(&lab, 1), 14990, 15010);
		assert_int_equal(lab_publish(&lab.lab), 0);
		if (again == 0) {
			assert_int_equal(report_for(&lab, requests, 2, 30), 0);
			assert_in_range(weight_of(&lab, 1), 14990, 15010);
		} else {
			lab.now += 179 * LAB_SECOND;
			assert_false(weir_estimates_second(lab.estimates, lab.now));
			for (int i = 0; i < 10; i++) {
				lab.now += LAB_SECOND;
				weir_estimates_second(lab.estimates, lab.now);
			}
			assert_int_equal(weight_of(&lab, 1), 100);
		}
		estimates_lab_close(&lab);
	}
}

// Flows are distributed by the weights, with a load of half the total capacity. The second backend
// is three times as fast. Returns the utilization of the first backend, divided by the utilization
// of the second backend.
static double share_for(struct estimates_lab *lab, int seconds) {
	double used[2] = {0};

	for (int i = 0; i < seconds; i++) {
		double weights = weight_of(lab, 0) + weight_of(lab, 1);

		for (uint16_t id = 0; id < 2; id++) {
			used[id] = 2 * weight_of(lab, id) / weights / (id == 0 ? 1 : 3);
			report(lab, id, 100, 0, used[id]);
		}
		lab->now += LAB_SECOND;
		weir_estimates_second(lab->estimates, lab->now);
	}
	return used[0] / used[1];
}

static void open_balanced(struct estimates_lab *lab) {
	estimates_lab_open(lab, 1, 2);
	lab_policy(lab, 0, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	lab->config->services[0].policy.weights = WEIR_WEIGHTS_BALANCED;
	lab_apply_follow(lab);
}

// Balanced weights make utilizations equal, even if control is restarted. Without reports the
// configured weights apply again.
TEST(balanced_weights) {
	struct estimates_lab lab;

	open_balanced(&lab);
	assert_int_equal(weir_estimates_wants(lab.estimates, 0),
		WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION) |
			WEIR_REPORT(ACTIVE) | WEIR_REPORT(MAX_ACTIVE));
	assert_true(share_for(&lab, 2) > 2);
	assert_true(share_for(&lab, 60) < 1.1);
	weir_tables_publish(lab.lab.tables);
	weir_estimates_free(lab.estimates);
	lab_restart(&lab.lab);
	assert_int_equal(weir_estimates_create(&lab.estimates), 0);
	lab_apply_follow(&lab);
	assert_true(share_for(&lab, 1) < 1.1);
	assert_true(share_for(&lab, 20) < 1.1);
	for (int i = 0; i < 178; i++) {
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_in_range(weight_of(&lab, 1) * 10 / weight_of(&lab, 0), 27, 33);
	for (int i = 0; i < 60; i++) {
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(lab_state(&lab.lab, 0).reported_weight, 0);
	assert_int_equal(weight_of(&lab, 1), 100);
	estimates_lab_close(&lab);
}

// The policy changes to configured weights, which apply at once. When the policy changes back, old
// reports are not used again.
TEST(configuration_withdraws_reports) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;

	open_reported(&lab, 2);
	report_for(&lab, requests, 2, 20);
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_CONFIGURED;
	lab_apply_follow(&lab);
	assert_int_equal(weight_of(&lab, 1), 100);
	assert_int_equal(lab_state(&lab.lab, 1).reported_weight, 0);
	assert_int_equal(weir_estimates_extent(lab.estimates).services, 0);
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(weight_of(&lab, 1), 100);
	estimates_lab_close(&lab);
}

// After a reload with other settings, weights are computed from the reports that have already been
// received.
TEST(settings_of_reported_weights_change_without_a_new_start) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;
	struct weir_config_policy *policy;

	open_reported(&lab, 2);
	policy = &lab.config->services[0].policy;
	for (int i = 0; i < 20; i++) {
		report(&lab, 0, 100, 0, 0.5);
		report(&lab, 1, 100, 50, 0.5);
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_in_range(weight_of(&lab, 0) * 100 / weight_of(&lab, 1), 198, 202);
	policy->error_penalty = 3; // weights 200 and 50
	lab_apply_follow(&lab);
	report_for(&lab, requests, 0, 8); // 8 s without a report
	assert_in_range(weight_of(&lab, 0) * 100 / weight_of(&lab, 1), 396, 404);
	policy->requests = WEIR_REQUESTS_SUCCESSFUL; // weights 200 and 25
	lab_apply_follow(&lab);
	report_for(&lab, requests, 0, 8);
	assert_in_range(weight_of(&lab, 0) * 100 / weight_of(&lab, 1), 790, 810);
	policy->expiration_ms = 30000; // the reports expire, so the configured weights return
	lab_apply_follow(&lab);
	report_for(&lab, requests, 0, 29);
	assert_int_equal(weight_of(&lab, 0), weight_of(&lab, 1));
	policy->smoothing_ms = 0; // only the latest report counts
	policy->blackout_ms = 0;
	lab_apply_follow(&lab);
	report_for(&lab, requests, 2, 10);
	assert_in_range(weight_of(&lab, 1) * 100 / weight_of(&lab, 0), 294, 306);
	estimates_lab_close(&lab);
}

// Weights change every update_ms, here 3 s, by at most a fifth for each second of this interval. A
// late timer permits no larger change.
TEST(reported_weights_are_derived_every_update_ms) {
	static const double requests[] = {100, 300};
	struct estimates_lab lab;

	open_reported(&lab, 2);
	lab.config->services[0].policy.update_ms = 3000;
	lab.config->services[0].policy.blackout_ms = 0;
	lab_apply_follow(&lab);
	assert_int_equal(report_for(&lab, requests, 2, 1), 1);
	// three steps, 1.2 * 1.2 * 1.2, are enough
	assert_in_range(weight_of(&lab, 1), 14990, 15010);
	for (int i = 0; i < 6; i++) {
		report(&lab, 0, 300, 0, 0.5);
		report(&lab, 1, 100, 0, 0.5);
		lab.now += LAB_SECOND + LAB_MS;
		assert_int_equal(weir_estimates_second(lab.estimates, lab.now), i % 3 == 2);
	}
	estimates_lab_close(&lab);
}

// The weights are computed from the CPUs of the backends. Balancing starts with these weights.
TEST(balanced_weights_start_with_automatic_ones) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_BALANCED;
	lab.config->services[0].backends[0].weight_auto = true;
	lab.config->services[0].backends[1].weight_auto = true;
	lab_apply_follow(&lab);
	weir_tables_set_auto_weight(lab.lab.tables, 0, 300);
	weir_tables_set_auto_weight(lab.lab.tables, 1, 100);
	weir_tables_publish(lab.lab.tables);
	for (int i = 0; i < 10; i++) {
		report(&lab, 0, 100, 0, 0.6);
		report(&lab, 1, 100, 0, 0.4);
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
	}
	// Balancing has reduced the ratio of the weights, which was 3 at the start.
	assert_true(lab_state(&lab.lab, 0).reported_weight > 0);
	assert_in_range(weight_of(&lab, 0) * 100 / weight_of(&lab, 1), 150, 299);
	estimates_lab_close(&lab);
}
