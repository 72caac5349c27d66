// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of sheds with real tables and a simulated agent: which orders are sent when answers are
// lost and when clients return or leave, and why a shed ends.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sheds.h"
#include "tables_lab.h"
#include "totals.h"

#define MEAN 40

struct shed_lab { // one service with three backends
	struct lab lab;
	struct weir_config *config;
	struct weir_log log;
	struct weir_audit *audit;
	struct weir_sheds *sheds;
	weir_agents_shed_ended ended; // callback of the sheds, with its context
	void *context;
	uint16_t id[3];
	uint64_t now_ms;
	// Calls that the sheds have made, and results that the test returns.
	struct weir_agents_shed order; // the last order
	uint32_t orders;
	int refuse; // result of further orders: 0 or negative errno
	bool silent; // the agent does not answer probes
	uint64_t sums; // number of reads of the counters of a backend
	uint32_t begun; // number of calls of on_begun()
	uint8_t state; // state of the shed in the last call of on_begun()
	char why[WEIR_SHED_WHY_BYTES];
};

static struct shed_lab *current;

// The linker replaces functions that the sheds call with the functions below.
int __wrap_weir_agents_order_shed(struct weir_agents *agents, const struct weir_agents_shed *order);
int __wrap_weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret);
void __wrap_weir_agents_on_shed_ended(
	struct weir_agents *agents, weir_agents_shed_ended ended, void *context);
void __wrap_weir_states_record(
	struct weir_states *states, uint16_t backend, const char *source, const char *why);

struct weir_share_counters __real_weir_sum_backend(
	const struct weir_segment *segment, uint32_t backend);
struct weir_share_counters __wrap_weir_sum_backend(
	const struct weir_segment *segment, uint32_t backend);

struct weir_share_counters __wrap_weir_sum_backend(
	const struct weir_segment *segment, uint32_t backend) {
	current->sums++;
	return __real_weir_sum_backend(segment, backend);
}

int __wrap_weir_agents_order_shed(
	struct weir_agents *agents, const struct weir_agents_shed *order) {
	(void)agents;
	if (current->refuse == 0) {
		current->order = *order;
		current->orders++;
	}
	return current->refuse;
}

int __wrap_weir_agents_status(
	const struct weir_agents *agents, uint16_t backend, struct weir_agents_status *ret) {
	(void)agents;
	(void)backend;
	*ret = (struct weir_agents_status){
		.has_answer = !current->silent, .answers = !current->silent};
	return 0;
}

void __wrap_weir_agents_on_shed_ended(
	struct weir_agents *agents, weir_agents_shed_ended ended, void *context) {
	(void)agents;
	current->ended = ended;
	current->context = context;
}

void __wrap_weir_states_record(
	struct weir_states *states, uint16_t backend, const char *source, const char *why) {
	(void)states;
	(void)backend;
	(void)why;
	assert_string_equal(source, "shed");
}

static void set_flows(const struct shed_lab *test, uint32_t i, uint64_t flows) {
	weir_segment_backend_counters(test->lab.segment, 1, test->id[i])->open_flows = flows;
}

static void open_lab(struct shed_lab *test, uint32_t backends) {
	lab_open(&test->lab, &(struct lab_room){.max_backends = 2048});
	test->config = lab_config(1, backends);
	test->config->segment.max_backends = 2048;
	test->config->services[0].table_size = 2003; // a prime
	test->config->flow_table.established_ms = 900000;
	lab_apply(&test->lab, test->config);
	lab_resolve(&test->lab);
	weir_sheds_follow(test->sheds, test->lab.tables);
}

static int setup(void **state) {
	struct shed_lab *test = calloc(1, sizeof(*test));
	struct weir_sheds_of of = {0};
	char name[8];

	assert_non_null(test);
	current = test;
	test->now_ms = 1000000;
	test->log = (struct weir_log){.fd = open("/dev/null", O_WRONLY), .level = WEIR_LOG_ERROR};
	assert_int_equal(weir_audit_create(&test->log, NULL, &test->audit), 0);
	of.log = &test->log;
	of.audit = test->audit;
	assert_int_equal(weir_sheds_create(&of, &test->sheds), 0);
	open_lab(test, 3);
	for (uint32_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "b%u", i);
		test->id[i] = lab_id(&test->lab, "s0", name);
	}
	set_flows(test, 0, 60);
	set_flows(test, 1, 60);
	*state = test;
	return 0;
}

static int teardown(void **state) {
	struct shed_lab *test = *state;

	weir_sheds_free(test->sheds);
	lab_close(&test->lab);
	lab_config_free(test->config);
	weir_audit_free(test->audit);
	close(test->log.fd);
	free(test);
	return 0;
}

TEST_EACH(setup, teardown);

static void on_begun(void *context, const struct weir_shed *shed) {
	struct shed_lab *test = context;

	test->begun++;
	test->state = shed->state;
	snprintf(test->why, sizeof(test->why), "%s", shed->why);
}

static int start(struct shed_lab *test, uint32_t i, bool dry_run) {
	static const struct weir_audit_who who = {.known = true, .uid = 7};
	struct weir_shed_terms terms = weir_shed_terms_default();

	terms.dry_run = dry_run;
	return weir_sheds_start(test->sheds, test->id[i], &terms, &who, test->now_ms, on_begun,
		test, test->why, sizeof(test->why));
}

static void answer(struct shed_lab *test, struct weir_agents_shed_result result) {
	const struct weir_agents_shed order = test->order;

	test->ended(test->context, &order, &result);
}

static struct weir_agents_shed_result result_of(uint32_t connections, uint32_t ended) {
	return (struct weir_agents_shed_result){.answered = true,
		.over = true,
		.result = WEIR_AGENT_SHED_DONE,
		.method = WEIR_AGENT_SHED_IDLE,
		.connections = connections,
		.candidates = connections,
		.ended = ended};
}

static void second(struct shed_lab *test) {
	test->now_ms += 1000;
	weir_sheds_second(test->sheds, test->now_ms);
}

static const struct weir_shed *first(const struct shed_lab *test) {
	return weir_sheds_last(test->sheds, "s0", "b0");
}

static void begin(struct shed_lab *test) {
	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(test->order.count, 0);
	answer(test, result_of(60, 0));
	assert_int_equal(test->begun, 1);
	assert_int_equal(test->state, WEIR_SHED_RUNNING);
}

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

TEST(orders_without_an_answer_count_in_full) {
	struct shed_lab *test = *state;
	const struct weir_agents_shed_result lost = {.ended = 10};

	begin(test);
	answer(test, lost);
	assert_int_equal(first(test)->ended, 10);
	assert_int_equal(first(test)->level.flows, 60);
	second(test);
	assert_int_equal(first(test)->level.flows, 50); // 10 connections may have ended
	assert_int_equal(test->order.count, 10);
	answer(test, lost);
	// No flow is left above the mean, so no further connections are ended until the agent has
	// counted its connections.
	second(test);
	assert_int_equal(test->order.count, 0);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	second(test);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	second(test);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 20);
	assert_non_null(strstr(first(test)->why, "does not answer"));
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

TEST(agent_that_does_not_permit_ends_the_start) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result off = {
		.answered = true, .over = true, .result = WEIR_AGENT_SHED_OFF};

	assert_int_equal(start(test, 0, false), 0);
	answer(test, off);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "does not permit shedding"));
	assert_null(first(test));
	assert_int_equal(start(test, 0, false), 0);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	assert_string_equal(test->why,
		"its weir-agent answers probes, but did not answer the order within 1500 ms: it is "
		"busy, or its version does not support sheds");
	assert_null(first(test));
	assert_int_equal(test->begun, 2);
	// The agent withdraws the permission while the shed runs.
	test->begun = 0;
	begin(test);
	answer(test, off);
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
}

static const struct weir_agents_shed_result busy = {.answered = true,
	.over = true,
	.result = WEIR_AGENT_SHED_BUSY,
	.method = WEIR_AGENT_SHED_IDLE};

// An agent that answers "busy" has not counted its connections, so its answers must not end the
// shed.
TEST(busy_agent_is_waited_for) {
	struct shed_lab *test = *state;

	begin(test);
	for (uint32_t i = 0; i < 10; i++) {
		answer(test, busy);
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
		assert_string_equal(first(test)->why,
			"waiting: its weir-agent is still executing another order");
		assert_int_equal(first(test)->connections, 60);
		second(test);
		assert_int_equal(test->order.count, 10);
	}
	answer(test, result_of(50, 10));
	assert_int_equal(first(test)->connections, 50);
	assert_int_equal(first(test)->ended, 10);
}

TEST(busy_agent_ends_the_start) {
	struct shed_lab *test = *state;

	assert_int_equal(start(test, 0, false), 0);
	answer(test, busy);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "of another balancer, or of another service"));
	assert_null(first(test));
}

// The answer "late" contains no counts of connections. All connections of its order count as
// ended.
TEST(late_answers_are_no_answers) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result late = {.answered = true,
		.over = true,
		.result = WEIR_AGENT_SHED_LATE,
		.method = WEIR_AGENT_SHED_IDLE};

	assert_int_equal(start(test, 0, false), 0);
	answer(test, late);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "did not answer the order"));
	test->begun = 0;
	begin(test);
	late.ended = 1;
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
		answer(test, late);
		assert_int_equal(first(test)->connections, 60);
		second(test);
	}
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 5);
}

TEST(hook_that_fails_ends_the_shed) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result hook = result_of(60, 0);

	hook.method = WEIR_AGENT_SHED_HOOK;
	assert_int_equal(start(test, 0, false), 0);
	answer(test, hook);
	hook.result = WEIR_AGENT_SHED_HOOK_FAILED;
	hook.ended = hook.leaving = 7;
	answer(test, hook);
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(first(test)->why, "--shed-hook failed"));
	assert_int_equal(first(test)->ended, 7);
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

TEST(shed_ends_with_its_time_its_backend_or_the_dataplane) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(60, 0)); // no connection is idle
	assert_non_null(strstr(first(test)->why, "no connection has been idle for 5 s"));
	test->now_ms += 600000;
	second(test);
	assert_int_equal(first(test)->state, WEIR_SHED_EXPIRED);
	test->begun = 0;
	begin(test);
	weir_sheds_abandon(test->sheds, "gone");
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	answer(test, result_of(50, 10)); // late
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 10);
	test->begun = 0;
	begin(test);
	weir_tables_set_admin(test->lab.tables, test->id[0], WEIR_ADMIN_DRAIN);
	lab_publish(&test->lab);
	answer(test, result_of(59, 1));
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_string_equal(first(test)->why, "the backend is drained");
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
	test->begun = 0;
	begin(test);
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
	test->begun = 0;
	begin(test);
	assert_int_equal(first(test)->level.flows, 60);
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
	test->begun = 0;
	begin(test);
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

// If a start fails, the last shed of the backend is kept, and also the number of flows that it has
// ended.
TEST(failed_start_keeps_the_last_shed) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(50, 10));
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	answer(test, result_of(50, 0));
	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(first(test)->state, WEIR_SHED_STARTING);
	assert_int_equal(first(test)->level.flows, 50);
	answer(test, busy);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPED);
	assert_int_equal(first(test)->ended, 10);
	test->begun = 0;
	begin(test);
	assert_int_equal(first(test)->level.flows, 50);
	assert_int_equal(first(test)->ended, 0);
}

// A shed is abandoned while its order is in flight. The result of the order still counts for this
// shed, even if another shed of the backend was started.
TEST(late_result_counts_for_its_shed) {
	struct shed_lab *test = *state;
	struct weir_agents_shed order;

	begin(test);
	weir_sheds_abandon(test->sheds, "");
	order = test->order;
	test->refuse = -EALREADY; // the agents refuse further orders until the order is over
	assert_int_equal(start(test, 0, false), 0);
	test->ended(test->context, &order,
		&(struct weir_agents_shed_result){.answered = true,
			.over = true,
			.result = WEIR_AGENT_SHED_DONE,
			.ended = 7});
	test->refuse = -EBUSY;
	assert_int_equal(first(test)->state, WEIR_SHED_STARTING);
	test->refuse = 0;
	second(test);
	answer(test, busy); // the start fails
	assert_int_equal(first(test)->ended, 7);
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
