// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of sheds: how many connections a shed orders to end, which depends on the mean, on flows
// that have ended and on clients that return or leave.
#include "sheds_lab.h"

#include <errno.h>
#include <string.h>

TEST_EACH(setup, teardown);

TEST(shed_ends_at_the_mean) {
	struct shed_lab *test = *state;

	begin(test);
	assert_int_equal(first(test)->first.mean, MEAN);
	assert_int_equal(first(test)->first.above, 20);
	assert_int_equal(test->order.count, 10); // the rate permits 10 connections per second
	assert_int_equal(test->order.keep, MEAN);
	assert_int_equal(test->order.rate_milli_per_s, 10000);
	assert_int_equal(test->order.binds[0].port_first, 80);
	// The server sends the RSTs directly to the clients, so the flows stay in the table of
	// the balancer. The clients connect again, and get another backend.
	set_flows(test, 2, 10);
	answer(test, result_of(50, 10));
	assert_int_equal(test->order.count, 10);
	set_flows(test, 2, 20);
	answer(test, result_of(40, 10));
	assert_int_equal(test->order.count, 0); // the order only counts connections
	assert_int_equal(first(test)->level.flows, 40);
	for (uint32_t i = 0; i < 3; i++) {
		answer(test, result_of(40, 0));
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
		second(test);
	}
	answer(test, result_of(40, 0));
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_DONE);
	assert_string_equal(
		first(test)->why, "the backend no longer has connections above the mean");
	assert_int_equal(first(test)->ended, 20);
	assert_int_equal(first(test)->orders, 2);
	// The next shed still subtracts the flows that have ended.
	assert_int_equal(start(test, 0, false), -EINVAL);
	assert_non_null(strstr(test->why, "40 open flows"));
}

// After a restart of the dataplane, the mean is that of a part of the flows.
TEST(shed_does_not_start_before_all_flows_are_counted) {
	struct shed_lab *test = *state;

	weir_tables_recount_since(test->lab.tables, 0);
	assert_int_equal(start(test, 0, true), -EINVAL);
	assert_non_null(strstr(test->why, "not all flows are counted yet"));
	weir_tables_clock(test->lab.tables, WEIR_TABLES_RECOUNT_MS);
	assert_int_equal(start(test, 0, true), 0);
}

// Flows of UDP count for the mean, but only TCP connections can be ended.
TEST(shed_ends_when_only_other_flows_are_above_the_mean) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(40, 3));
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(test->order.count, 0);
		answer(test, result_of(40, 0));
		second(test);
	}
	assert_int_equal(first(test)->state, WEIR_SHED_DONE);
	assert_string_equal(first(test)->why,
		"its server has 40 connections, which is not above the mean (17 flows above the "
		"mean: UDP, or connections that have ended)");
}

// All clients return to the backend. The shed must not end more connections than there were at its
// start.
TEST(shed_ends_at_most_as_many_as_there_were) {
	struct shed_lab *test = *state;
	uint64_t ended = 0;

	begin(test);
	for (uint32_t i = 0; i < 100 && weir_shed_is_running(first(test)); i++) {
		assert_true(test->order.count <= 10);
		ended += test->order.count;
		set_flows(test, 0, 60 + ended);
		answer(test, result_of(60, test->order.count));
	}
	assert_int_equal(ended, 60);
	assert_int_equal(first(test)->ended, 60);
	assert_int_equal(first(test)->state, WEIR_SHED_DONE);
}

// If clients do not connect again, the number of flows falls, but the mean of the shed stays.
TEST(mean_does_not_fall_with_the_shed) {
	struct shed_lab *test = *state;

	begin(test);
	set_flows(test, 1, 0);
	answer(test, result_of(50, 10));
	assert_int_equal(first(test)->level.mean, MEAN);
	assert_int_equal(test->order.keep, MEAN);
	assert_int_equal(test->order.count, 10);
	// The mean rises with new clients.
	set_flows(test, 2, 100);
	answer(test, result_of(45, 0));
	second(test);
	assert_int_equal(test->order.keep, 50); // mean of 50, 0 and 100 flows
	assert_int_equal(test->order.count, 0);
}

// A policy that ignores weights gives each backend an equal share of the flows.
TEST(weights_count_only_if_the_policy_uses_them) {
	struct shed_lab *test = *state;

	for (uint32_t i = 0; i < 3; i++) {
		set_flows(test, i, 40);
	}
	weir_tables_set_weight(test->lab.tables, test->id[0], 50);
	lab_publish(&test->lab);
	assert_int_equal(start(test, 0, true), 0);
	answer(test, result_of(40, 0));
	assert_int_equal(
		weir_tables_set_policy(test->lab.tables,
			lab_state(&test->lab, test->id[0]).service_id, WEIR_POLICY_POWER_OF_TWO),
		0);
	lab_publish(&test->lab);
	assert_int_equal(start(test, 0, true), -EINVAL);
	assert_non_null(
		strstr(test->why, "the mean for its weight is 40: there is nothing to shed"));
}

// Connections that were passed to the hook are about to end, so they no longer count as above the
// mean. Their clients connect again, so the mean still includes them.
TEST(connections_that_leave_are_not_ordered_again) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result hook = result_of(60, 0);

	hook.method = WEIR_AGENT_SHED_HOOK;
	assert_int_equal(start(test, 0, false), 0);
	answer(test, hook);
	assert_int_equal(test->order.count, 20); // the number that ends in two seconds
	hook.ended = hook.leaving = 10;
	answer(test, hook);
	assert_int_equal(first(test)->level.mean, MEAN);
	assert_int_equal(first(test)->level.flows, 50);
	assert_int_equal(test->order.count, 10);
	hook.leaving = 20;
	answer(test, hook);
	assert_int_equal(test->order.count, 0);
	for (uint32_t i = 0; i < 10; i++) { // the server has not closed them yet
		hook.ended = 0;
		answer(test, hook);
		second(test);
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
	}
	set_flows(test, 0, 40); // the workers have seen the FINs
	hook.leaving = 0;
	hook.connections = 40;
	answer(test, hook);
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_DONE);
}

// The shed ends one connection every 10 s. The flow of each connection is removed from the flow
// table when its timeout has passed since the connection ended.
TEST(ended_flows_are_subtracted_until_their_timeout) {
	struct shed_lab *test = *state;

	test->config->flow_table.established_ms = 60000;
	begin(test);
	for (uint32_t i = 1; i <= 12; i++) {
		// Flows that ended in the last minute are still in the table.
		set_flows(test, 0, i <= 6 ? 60 : 60 - (i - 6));
		answer(test, result_of(60 - i, 1));
		assert_int_equal(first(test)->level.flows, 60 - i);
		test->now_ms += 9000;
		second(test);
	}
	assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
}

// It is not known whether an order without an answer has ended flows. The shed of this order
// counts these flows as ended, but other sheds do not.
TEST(lost_orders_do_not_lower_the_mean) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, (struct weir_agents_shed_result){.ended = 10});
	second(test);
	assert_int_equal(first(test)->level.flows, 50);
	assert_int_equal(first(test)->level.mean, MEAN);
	assert_int_equal(start(test, 1, false), 0);
	assert_int_equal(weir_sheds_last(test->sheds, "s0", "b1")->level.mean, MEAN);
	weir_sheds_abandon(test->sheds, "");
	begin_again(test);
	assert_int_equal(first(test)->level.flows, 60);
}

TEST(gone_flows_end_with_the_flow_table) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(50, 10));
	second(test);
	assert_int_equal(first(test)->level.flows, 50);
	weir_sheds_abandon(test->sheds, "");
	answer(test, result_of(40, 10)); // late
	assert_int_equal(first(test)->ended, 20);
	begin_again(test);
	assert_int_equal(first(test)->level.flows, 60);
}

// The maximum number of sheds runs in a service with 1000 backends. Each second, the counters of
// each backend are read once for all sheds. For each shed, the counters of its backend are read at
// most twice more.
TEST(many_sheds_read_each_backend_once_a_second) {
	struct shed_lab *test = *state;
	struct weir_agents_shed orders[WEIR_AGENTS_SHEDS_MAX];
	const struct weir_agents_shed_result some = result_of(1000, 1);

	lab_close(&test->lab);
	lab_config_free(test->config);
	open_lab(test, 1000);
	for (uint16_t i = 0; i <= WEIR_AGENTS_SHEDS_MAX; i++) {
		test->id[0] = i;
		set_flows(test, 0, 1000);
	}
	for (uint16_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
		test->id[0] = i;
		assert_int_equal(start(test, 0, false), 0);
		answer(test, result_of(1000, 0));
		orders[i] = test->order;
	}
	test->id[0] = WEIR_AGENTS_SHEDS_MAX;
	assert_int_equal(start(test, 0, false), -EINVAL);
	assert_string_equal(test->why,
		"64 sheds are running, which is the maximum; try again when one has ended");
	for (uint32_t s = 0; s < 5; s++) {
		test->sums = 0;
		second(test); // all orders are in flight
		for (uint32_t i = 0; i < WEIR_AGENTS_SHEDS_MAX; i++) {
			test->ended(test->context, &orders[i], &some);
			assert_int_equal(test->order.backend, orders[i].backend);
		}
		assert_in_range(test->sums, 1000, 1000 + 2 * WEIR_AGENTS_SHEDS_MAX);
	}
}
