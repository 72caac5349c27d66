// SPDX-License-Identifier: BSD-3-Clause
#include "sheds_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "totals.h"

const struct weir_agents_shed_result busy = {.answered = true,
	.over = true,
	.result = WEIR_AGENT_SHED_BUSY,
	.method = WEIR_AGENT_SHED_IDLE};

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

void set_flows(const struct shed_lab *test, uint32_t i, uint64_t flows) {
	weir_segment_backend_counters(test->lab.segment, 1, test->id[i])->open_flows = flows;
}

void open_lab(struct shed_lab *test, uint32_t backends) {
	lab_open(&test->lab, &(struct lab_room){.max_backends = 2048});
	test->config = lab_config(1, backends);
	test->config->segment.max_backends = 2048;
	test->config->services[0].table_size = 2003; // a prime
	test->config->flow_table.established_ms = 900000;
	lab_apply(&test->lab, test->config);
	lab_resolve(&test->lab);
	weir_sheds_follow(test->sheds, test->lab.tables);
}

int setup(void **state) {
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

int teardown(void **state) {
	struct shed_lab *test = *state;

	weir_sheds_free(test->sheds);
	lab_close(&test->lab);
	lab_config_free(test->config);
	weir_audit_free(test->audit);
	close(test->log.fd);
	free(test);
	return 0;
}

static void on_begun(void *context, const struct weir_shed *shed) {
	struct shed_lab *test = context;

	test->begun++;
	test->state = shed->state;
	snprintf(test->why, sizeof(test->why), "%s", shed->why);
}

int start(struct shed_lab *test, uint32_t i, bool dry_run) {
	static const struct weir_audit_who who = {.known = true, .uid = 7};
	struct weir_shed_terms terms = weir_shed_terms_default();

	terms.dry_run = dry_run;
	return weir_sheds_start(test->sheds, test->id[i], &terms, &who, test->now_ms, on_begun,
		test, test->why, sizeof(test->why));
}

void answer(struct shed_lab *test, struct weir_agents_shed_result result) {
	const struct weir_agents_shed order = test->order;

	test->ended(test->context, &order, &result);
}

struct weir_agents_shed_result result_of(uint32_t connections, uint32_t ended) {
	return (struct weir_agents_shed_result){.answered = true,
		.over = true,
		.result = WEIR_AGENT_SHED_DONE,
		.method = WEIR_AGENT_SHED_IDLE,
		.connections = connections,
		.candidates = connections,
		.ended = ended};
}

void second(struct shed_lab *test) {
	test->now_ms += 1000;
	weir_sheds_second(test->sheds, test->now_ms);
}

const struct weir_shed *first(const struct shed_lab *test) {
	return weir_sheds_last(test->sheds, "s0", "b0");
}

void begin(struct shed_lab *test) {
	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(test->order.count, 0);
	answer(test, result_of(60, 0));
	assert_int_equal(test->begun, 1);
	assert_int_equal(test->state, WEIR_SHED_RUNNING);
}

void begin_again(struct shed_lab *test) {
	test->begun = 0;
	begin(test);
}
