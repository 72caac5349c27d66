// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of sheds: which sheds are refused, what a shed waits for, and what ends it besides the
// mean.
#include "sheds_lab.h"

#include <errno.h>
#include <string.h>

TEST_EACH(setup, teardown);

TEST(terms_have_bounds) {
	static const struct weir_shed_terms bad[] = {{0.19, 5000, 60000, false},
		{1000.1, 5000, 60000, false}, {10, 999, 60000, false}, {10, 86400001, 60000, false},
		{10, 5000, 999, false}, {10, 5000, 86400001, false}};
	struct weir_shed_terms terms = weir_shed_terms_default();
	char why[128];

	(void)state;
	assert_int_equal(weir_shed_terms_check(&terms, why, sizeof(why)), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_shed_terms_check(&bad[i], why, sizeof(why)), -EINVAL);
	}
}

TEST(reasons_to_refuse) {
	struct shed_lab *test = *state;

#define REFUSED(i, text) \
	do { \
		assert_int_equal(start(test, i, false), -EINVAL); \
		assert_non_null(strstr(test->why, text)); \
	} while (0)
	REFUSED(2, "there is nothing to shed");
	test->silent = true;
	REFUSED(0, "does not answer");
	test->silent = false;
	begin(test);
	REFUSED(0, "is being shed");
	weir_tables_set_admin(test->lab.tables, test->id[1], WEIR_ADMIN_DRAIN);
	lab_publish(&test->lab);
	REFUSED(1, "gets no new flows");
	assert_int_equal(test->orders, 2);
	assert_int_equal(test->begun, 1);
}

TEST(dry_run_ends_nothing_and_leaves_nothing) {
	struct shed_lab *test = *state;

	assert_int_equal(start(test, 0, true), 0);
	assert_int_equal(test->order.count, 0);
	answer(test, result_of(60, 0));
	assert_int_equal(test->begun, 1);
	assert_int_equal(test->state, WEIR_SHED_DONE);
	assert_int_equal(test->orders, 1);
	second(test);
	assert_int_equal(test->orders, 1);
	assert_null(first(test));
}

TEST(start_without_a_slot_ends_in_its_time) {
	struct shed_lab *test = *state;

	test->refuse = -EBUSY;
	assert_int_equal(start(test, 0, false), 0);
	second(test);
	assert_int_equal(test->begun, 0);
	test->now_ms += 600000;
	second(test);
	assert_int_equal(test->begun, 1);
	assert_int_equal(test->state, WEIR_SHED_EXPIRED);
	assert_null(first(test));
}

TEST(stop_waits_for_the_order_in_flight) {
	struct shed_lab *test = *state;

	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), -ENOENT);
	begin(test);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPING);
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPING);
	answer(test, result_of(57, 3));
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPED);
	assert_int_equal(first(test)->ended, 3);
	assert_int_equal(test->orders, 2);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), -ENOENT);
}

// A shed that is starting waits for an answer of its agent, or for a slot for its order.
TEST(shed_is_stopped_while_it_starts) {
	struct shed_lab *test = *state;

	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPING);
	answer(test, result_of(60, 0));
	assert_int_equal(test->begun, 1);
	assert_int_equal(test->state, WEIR_SHED_STOPPED);
	assert_string_equal(test->why, "stopped by an operator");
	assert_null(first(test));
	test->refuse = -EBUSY;
	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	second(test);
	assert_int_equal(test->begun, 2);
	assert_int_equal(test->state, WEIR_SHED_STOPPED);
	assert_null(first(test));
}

TEST(shed_waits_while_its_service_is_in_panic_mode) {
	struct shed_lab *test = *state;

	for (uint32_t i = 0; i < 3; i++) {
		weir_tables_set_health(test->lab.tables, test->id[i], WEIR_HEALTH_HEALTHY);
	}
	lab_publish(&test->lab);
	begin(test);
	for (uint32_t i = 1; i < 3; i++) {
		weir_tables_set_health(test->lab.tables, test->id[i], WEIR_HEALTH_REFUSING);
	}
	lab_publish(&test->lab);
	assert_true(lab_state(&test->lab, test->id[2]).in_selection);
	answer(test, result_of(50, 10));
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
	assert_string_equal(first(test)->why, "waiting: the service is in panic mode");
	assert_int_equal(test->orders, 2);
	assert_int_equal(start(test, 1, false), -EINVAL);
	assert_non_null(strstr(test->why, "is in panic mode"));
	weir_tables_set_health(test->lab.tables, test->id[2], WEIR_HEALTH_HEALTHY);
	lab_publish(&test->lab);
	second(test);
	assert_int_equal(test->orders, 3);
	assert_int_equal(test->order.count, 10);
	// The shed expires at its deadline, whatever it waits for.
	answer(test, result_of(50, 0));
	weir_tables_set_health(test->lab.tables, test->id[2], WEIR_HEALTH_REFUSING);
	lab_publish(&test->lab);
	test->now_ms += 600000;
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_EXPIRED);
}

TEST(shed_ends_with_its_time_its_backend_or_the_dataplane) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(60, 0)); // no connection is idle
	assert_non_null(strstr(first(test)->why, "no connection has been idle for 5 s"));
	test->now_ms += 600000;
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_EXPIRED);
	begin_again(test);
	weir_sheds_abandon(test->sheds, "gone");
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	answer(test, result_of(50, 10)); // late
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 10);
	begin_again(test);
	weir_tables_set_admin(test->lab.tables, test->id[0], WEIR_ADMIN_DRAIN);
	lab_publish(&test->lab);
	answer(test, result_of(59, 1));
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_string_equal(first(test)->why, "the backend is drained");
}

static void move_backend(struct shed_lab *test, struct weir_config *config) {
	config->services[0].backends[0].address.bytes[3] += 100;
	lab_apply(&test->lab, config);
	lab_resolve(&test->lab);
	weir_sheds_follow(test->sheds, test->lab.tables);
	test->id[0] = lab_id(&test->lab, "s0", "b0");
	set_flows(test, 0, 60);
}

// A backend with a new address is another server with other connections, so its shed ends.
TEST(shed_ends_with_the_address_of_its_backend) {
	struct shed_lab *test = *state;
	struct weir_config *config = lab_config_copy(test->config);
	const uint16_t before = test->id[0];

	begin(test);
	answer(test, result_of(50, 10));
	move_backend(test, config);
	assert_int_not_equal(test->id[0], before);
	answer(test, result_of(45, 5));
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_string_equal(
		first(test)->why, "the backend was removed, or its address has changed");
	begin_again(test);
	assert_int_equal(first(test)->level.flows, 60);
	weir_sheds_follow(test->sheds, test->lab.tables);
	lab_config_free(test->config);
	test->config = config;
}

TEST(sheds_of_removed_backends_are_dropped) {
	struct shed_lab *test = *state;
	struct weir_config *config = lab_config_copy(test->config);

	begin(test);
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	answer(test, result_of(60, 0));
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPED);
	lab_remove_backend(config, 0, 0);
	lab_apply(&test->lab, config);
	second(test);
	assert_null(first(test));
	lab_config_free(test->config);
	test->config = config;
}
