// SPDX-License-Identifier: BSD-3-Clause
#include "flow_steals_lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINES 3000u // lines of a worker's table

static bool on_line(void *context, enum weir_log_level level, const char *text) {
	struct own *own = context;

	assert_int_equal(level, WEIR_LOG_WARN);
	assert_non_null(strstr(text, "s0/b1 cannot be moved"));
	own->lines++;
	return false;
}

static void nothing(void *context) {
	(void)context;
}

// The linker replaces the functions of agents.h by the functions below. The pointer `agents` is the
// state of the test.
int __wrap_weir_agents_request_steal(
	struct weir_agents *agents, const struct weir_agents_steal *steal);
void __wrap_weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended answered, void *context);

void __wrap_weir_agents_on_steal_ended(
	struct weir_agents *agents, weir_agents_steal_ended answered, void *context) {
	struct own *own = (struct own *)(void *)agents;

	own->answer = answered;
	own->answer_context = context;
}

int __wrap_weir_agents_request_steal(
	struct weir_agents *agents, const struct weir_agents_steal *steal) {
	struct own *own = (struct own *)(void *)agents;

	assert_int_equal(steal->backend, VICTIM);
	if (steal->client_port == 0 || steal->vip_port == 0) {
		return -EINVAL;
	}
	assert_true(own->request_count < REQUESTS_MAX);
	own->requests[own->request_count++] = *steal;
	own->requested_ms = now_ms();
	own->answered += own->ask_error < 0;
	return own->ask_error;
}

// --- workers --------------------------------------------------------------------------------

static uint32_t line_of(uint32_t flow) {
	return flow * 7919 % LINES;
}

static void list(struct own *own, uint32_t worker, struct weir_message *message) {
	uint32_t last = message->waiting.last < LINES ? message->waiting.last : LINES;
	uint32_t line = message->waiting.first;
	uint64_t waited_ms;

	own->widest = last - line > own->widest ? last - line : own->widest;
	waited_ms = own->syn_ms > 0 ? now_ms() - own->syn_ms : own->waited_ms;
	message->waiting.waited = (uint8_t)(waited_ms / WEIR_WAITED_MS);
	own->lists++;
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.lines = LINES;
	for (; line < last; line++) {
		for (uint32_t n = 0; n < own->flows; n++) {
			struct weir_waiting_flow4 *to =
				&message->waiting.flow4[message->waiting.count];

			if (waited_ms < message->waiting.idle_ms || line_of(n) != line ||
				!own->flow[n].there || own->flow[n].worker != worker ||
				own->flow[n].backend != message->waiting.backend[0]) {
				continue;
			}
			if (message->waiting.count == WEIR_WAITING_FLOWS4) {
				message->waiting.next = line;
				return;
			}
			*to = (struct weir_waiting_flow4){.source = {192, 0, 2, 1},
				.destination = {198, 51, 100, 1},
				.source_port = htons(own->flow[n].client_port),
				.destination_port = htons(80),
				.stamp = own->flow[n].stamp};
			message->waiting.count++;
		}
	}
	message->waiting.next = line;
}

static struct flow *flow_of(struct own *own, uint16_t client_port) {
	uint32_t n = 0;

	while (n < own->flows && own->flow[n].client_port != client_port) {
		n++;
	}
	assert_true(n < own->flows);
	return &own->flow[n];
}

static void move(struct own *own, uint32_t worker, struct weir_message *message) {
	struct flow *flow = flow_of(own, ntohs(message->move.source_port));

	assert_int_equal(message->move.destination_port, htons(80));
	assert_true(flow->worker == worker);
	message->move.answer = WEIR_MOVE_MOVED;
	if (own->move_answer >= 0) {
		message->move.answer = (uint8_t)own->move_answer;
	} else if (flow->stamp != message->move.stamp) {
		message->move.answer = WEIR_MOVE_CHANGED;
	} else {
		flow->backend = message->move.to;
		flow->stamp = 0x20000 | flow->backend;
		flow->moves++;
	}
}

static void work(struct own *own) {
	struct weir_message message;

	for (uint32_t worker = 0; worker < LAB_WORKERS && own->workers != SILENT; worker++) {
		struct weir_worker_box *ours = &own->lab.segment->worker_boxes[worker];
		const struct weir_control_box *theirs = &own->lab.segment->control_boxes[worker];

		while (weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
			if (own->workers == OLD) { // an old dataplane returns unknown messages
			} else if (message.kind == WEIR_MESSAGE_FLOW_WAITING) {
				list(own, worker, &message);
			} else if (message.kind == WEIR_MESSAGE_FLOW_MOVE) {
				move(own, worker, &message);
			}
			weir_mailbox_send(&ours->response, &theirs->response, &message);
		}
	}
}

void answer_all(struct own *own) {
	for (; own->answered < own->request_count; own->answered++) {
		for (int i = 0; i < own->copies; i++) {
			own->answer(
				own->answer_context, &own->requests[own->answered], own->result, 1);
		}
	}
}

uint64_t now_ms(void) {
	return uv_hrtime() / 1000000;
}

void run_for(struct own *own, uint64_t ms) {
	for (uint64_t end = now_ms() + ms; now_ms() < end;) {
		uv_run(&own->loop, UV_RUN_NOWAIT);
		work(own);
		if (!own->holds) {
			answer_all(own);
		}
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
}

// --- set-up ---------------------------------------------------------------------------------

void report(struct own *own, uint16_t backend, double queue, double limit) {
	const struct weir_report said = {.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT),
		.accept_queue = queue,
		.accept_queue_limit = limit};

	weir_reports_take(own->reports, backend, &said, "agent");
	lab_publish(&own->lab);
}

void begin_flows(struct own *own, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		own->flow[own->flows] = (struct flow){.there = true,
			.worker = i % LAB_WORKERS,
			.client_port = (uint16_t)(own->flows + 1),
			.backend = VICTIM,
			.stamp = 0x10000 | VICTIM};
		own->flows++;
	}
}

void hold_answers(struct own *own, uint32_t n) {
	own->holds = true;
	begin_flows(own, n);
	while (own->request_count < n) {
		run_for(own, 5);
	}
}

void configure(struct own *own) {
	assert_int_equal(weir_flow_steals_configure(own->steals, own->lab.tables, own->config), 0);
}

int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));
	struct weir_config_service *service;

	assert_non_null(own);
	own->log = (struct weir_log){
		.fd = -1, .level = WEIR_LOG_INFO, .filter = on_line, .filter_context = own};
	own->move_answer = -1;
	own->waited_ms = 600;
	own->copies = 1;
	own->result = WEIR_AGENT_STEAL_NOTHING;
	own->config = lab_config(1, 4);
	own->config->instance.clients = own->config->instance.members = 1;
	own->config->flow_table.syn_seen_ms = 5000;
	service = &own->config->services[0];
	service->flow_control.accept_queue_percent = 75;
	service->steal =
		(struct weir_config_steal){.enabled = true, .after_ms = 500, .per_second = 10000};
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	lab_resolve(&own->lab);
	assert_int_equal(weir_states_create(&own->log, nothing, own, &own->states), 0);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_estimates_create(&own->estimates), 0);
	assert_int_equal(weir_estimates_follow(own->estimates, own->lab.tables, own->config, 1), 0);
	assert_int_equal(
		weir_reports_create(own->states, own->estimates, nothing, own, &own->reports), 0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	assert_int_equal(uv_loop_init(&own->loop), 0);
	weir_mailboxes_init(&own->mailboxes, &own->loop, uv_hrtime());
	weir_mailboxes_bind(&own->mailboxes, own->lab.control);
	assert_int_equal(weir_flow_steals_create(&own->loop, &own->log, &own->mailboxes,
				 own->reports, (struct weir_agents *)(void *)own, &own->steals),
		0);
	configure(own);
	report(own, 0, 0, 10);
	report(own, 2, 0, 10);
	report(own, 3, 0, 10);
	report(own, VICTIM, 10, 10); // the report begins a round
	*state = own;
	return 0;
}

int teardown(void **state) {
	struct own *own = *state;

	weir_mailboxes_fini(&own->mailboxes);
	weir_flow_steals_free(own->steals);
	uv_run(&own->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&own->loop), 0);
	weir_reports_free(own->reports);
	weir_states_free(own->states);
	weir_estimates_free(own->estimates);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

struct weir_flow_steals_service shown(const struct own *own) {
	struct weir_flow_steals_service service = {0};

	assert_true(weir_flow_steals_service(own->steals, 0, &service));
	assert_string_equal(service.name, "s0");
	return service;
}

uint64_t ended(const struct own *own) {
	struct weir_flow_steals_service service = shown(own);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WEIR_FLOW_STEAL_OUTCOME_COUNT; i++) {
		sum += service.outcomes[i];
	}
	return sum;
}

void run_until_ended(struct own *own, uint64_t count) {
	for (uint64_t end = now_ms() + 20000; ended(own) < count && now_ms() < end;) {
		run_for(own, 5);
	}
	assert_true(ended(own) >= count);
}

uint32_t flows_at(const struct own *own, uint16_t backend) {
	uint32_t count = 0;

	for (uint32_t n = 0; n < own->flows; n++) {
		count += own->flow[n].backend == backend;
	}
	return count;
}
