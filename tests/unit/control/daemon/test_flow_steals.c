// SPDX-License-Identifier: BSD-3-Clause
//
// Flow steals over real tables and mailboxes, with workers and agents that do as the test says.
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flow_steals.h"
#include "tables_lab.h"

#define LINES 3000u // of a worker's table
#define FLOWS_MAX 1000u
#define ASKED_MAX 4096u
#define VICTIM 1

struct flow { // in the table of a worker
	bool there;
	uint32_t worker;
	uint16_t backend;
	uint32_t stamp;
	uint32_t moves;
};

enum workers { ANSWER, SILENT, OLD }; // OLD: of a dataplane that does not know the messages

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	struct weir_estimates *estimates;
	struct weir_reports *reports;
	struct weir_mailboxes mailboxes;
	struct weir_flow_steals *steals;
	uv_loop_t loop;
	struct flow flow[FLOWS_MAX]; // by client port
	uint32_t flows;
	enum workers workers;
	int move_answer; // instead of what is right; -1 = that
	uint32_t widest; // range that a worker was asked to look at
	// The agents.
	int ask_error; // of weir_flow_steals_agents.ask
	bool holds; // answers wait until the test gives them
	int copies; // of each answer
	enum weir_agent_steal_result result;
	struct weir_agents_steal asked[ASKED_MAX];
	uint32_t asked_count, answered;
	unsigned int lines; // of the log
};

static bool on_line(void *context, enum weir_log_level level, const char *text) {
	struct own *own = context;

	assert_int_equal(level, WEIR_LOG_WARN);
	assert_non_null(strstr(text, "s0/b1 cannot move"));
	own->lines++;
	return false;
}

static void nothing(void *context) {
	(void)context;
}

static int ask(void *context, const struct weir_agents_steal *steal) {
	struct own *own = context;

	assert_int_equal(steal->backend, VICTIM);
	assert_true(own->asked_count < ASKED_MAX);
	own->asked[own->asked_count++] = *steal;
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

	own->widest = last - line > own->widest ? last - line : own->widest;
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.lines = LINES;
	for (; line < last; line++) {
		for (uint32_t n = 0; n < own->flows; n++) {
			struct weir_waiting_flow4 *to =
				&message->waiting.flow4[message->waiting.count];

			if (line_of(n) != line || !own->flow[n].there ||
				own->flow[n].worker != worker ||
				own->flow[n].backend != message->waiting.backend[0]) {
				continue;
			}
			if (message->waiting.count == WEIR_WAITING_FLOWS4) {
				message->waiting.next = line;
				return;
			}
			*to = (struct weir_waiting_flow4){.source = {192, 0, 2, 1},
				.destination = {198, 51, 100, 1},
				.source_port = htons((uint16_t)n),
				.destination_port = htons(80),
				.stamp = own->flow[n].stamp};
			message->waiting.count++;
		}
	}
	message->waiting.next = line;
}

static void move(struct own *own, uint32_t worker, struct weir_message *message) {
	struct flow *flow = &own->flow[ntohs(message->move.source_port)];

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
			if (own->workers == OLD) { // sends back what it does not know
			} else if (message.kind == WEIR_MESSAGE_FLOW_WAITING) {
				list(own, worker, &message);
			} else if (message.kind == WEIR_MESSAGE_FLOW_MOVE) {
				move(own, worker, &message);
			}
			weir_mailbox_send(&ours->response, &theirs->response, &message);
		}
	}
}

static void answer_all(struct own *own) {
	for (; own->answered < own->asked_count; own->answered++) {
		for (int i = 0; i < own->copies; i++) {
			weir_flow_steals_answer(
				own->steals, own->asked[own->answered].token, own->result);
		}
	}
}

static uint64_t now_ms(void) {
	return uv_hrtime() / 1000000;
}

static void run_for(struct own *own, uint64_t ms) {
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

static void report(struct own *own, uint16_t backend, double queue, double limit) {
	const struct weir_report said = {.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT),
		.accept_queue = queue,
		.accept_queue_limit = limit};

	weir_reports_take(own->reports, backend, &said, "agent");
	lab_publish(&own->lab);
}

static void begin_flows(struct own *own, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		own->flow[own->flows++] = (struct flow){.there = true,
			.worker = i % LAB_WORKERS,
			.backend = VICTIM,
			.stamp = 0x10000 | VICTIM};
	}
}

static void configure(struct own *own) {
	assert_int_equal(weir_flow_steals_configure(own->steals, own->lab.tables, own->config), 0);
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));
	const struct weir_flow_steals_agents agents = {.ask = ask, .context = own};
	struct weir_config_service *service;

	assert_non_null(own);
	own->log = (struct weir_log){
		.fd = -1, .level = WEIR_LOG_INFO, .filter = on_line, .filter_context = own};
	own->move_answer = -1;
	own->copies = 1;
	own->result = WEIR_AGENT_STEAL_NOTHING;
	own->config = lab_config(1, 4);
	own->config->instance.clients = own->config->instance.members = 1;
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
	weir_mailboxes_init(&own->mailboxes, uv_hrtime());
	weir_mailboxes_bind(&own->mailboxes, own->lab.control);
	assert_int_equal(weir_flow_steals_create(&own->loop, &own->log, &own->mailboxes,
				 own->reports, &agents, &own->steals),
		0);
	configure(own);
	report(own, 0, 0, 10);
	report(own, VICTIM, 10, 10);
	report(own, 2, 0, 10);
	report(own, 3, 0, 10);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

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

static struct weir_flow_steals_service shown(const struct own *own) {
	struct weir_flow_steals_service service = {0};

	assert_true(weir_flow_steals_service(own->steals, 0, &service));
	assert_string_equal(service.name, "s0");
	return service;
}

static uint64_t ended(const struct own *own) {
	struct weir_flow_steals_service service = shown(own);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WEIR_FLOW_STEAL_OUTCOME_COUNT; i++) {
		sum += service.outcomes[i];
	}
	return sum;
}

static void run_until_ended(struct own *own, uint64_t count) {
	for (uint64_t end = now_ms() + 20000; ended(own) < count && now_ms() < end;) {
		run_for(own, 5);
	}
	assert_true(ended(own) >= count);
}

static uint32_t flows_at(const struct own *own, uint16_t backend) {
	uint32_t count = 0;

	for (uint32_t n = 0; n < own->flows; n++) {
		count += own->flow[n].backend == backend;
	}
	return count;
}

// --- tests ----------------------------------------------------------------------------------

static void steals_spread_who_waits_over_the_others(void **state) {
	struct own *own = *state;
	const struct weir_flow_steals_event *event;

	begin_flows(own, 18);
	run_until_ended(own, 18);
	assert_int_equal(shown(own).asked, 18);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 18);
	assert_int_equal(flows_at(own, VICTIM), 0);
	assert_in_range(flows_at(own, 0), 4, 8);
	assert_in_range(flows_at(own, 2), 4, 8);
	assert_in_range(flows_at(own, 3), 4, 8);
	assert_in_range(own->widest, 1, WEIR_WAITING_LINES);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
	assert_true(weir_flow_steals_recent(own->steals, 17, &event));
	assert_false(weir_flow_steals_recent(own->steals, 18, &event));
	assert_string_equal(event->service, "s0");
	assert_string_equal(event->from, "b1");
	assert_int_equal(event->outcome, WEIR_FLOW_STEAL_MOVED);
	assert_int_equal(event->vip_port, 80);
	assert_int_equal(event->client.bytes[0], 192);
}

// In a round no backend gets more than its accept queue has room for, and no agent more requests
// than it takes.
static void steals_leave_room_in_the_queues(void **state) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 400);
	run_for(own, 200);
	assert_int_equal(own->asked_count, WEIR_FLOW_STEALS_OF_AGENT);
	configure(own); // the next round
	own->asked_count = own->answered = 0;
	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, id == VICTIM ? 3 : 0, 3);
	}
	run_for(own, 200);
	assert_int_equal(own->asked_count, 3 * 3);
}

static void steals_ask_nobody_without_need_or_room(void **state) {
	struct own *own = *state;

	begin_flows(own, 20);
	report(own, VICTIM, 3, 10); // below half of its mark: it goes on
	run_for(own, 300);
	assert_int_equal(own->asked_count, 0);
	report(own, VICTIM, 10, 10);
	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, id == VICTIM ? 10 : 5, 10); // half full themselves
	}
	run_for(own, 300);
	assert_int_equal(own->asked_count, 0);
	for (uint16_t id = 0; id < 4; id++) { // idle, but they take no new flows
		report(own, id, id == VICTIM ? 10 : 0, 10);
		weir_tables_set_admin(
			own->lab.tables, id, id == VICTIM ? WEIR_ADMIN_READY : WEIR_ADMIN_DRAIN);
	}
	lab_publish(&own->lab);
	run_for(own, 300);
	assert_int_equal(own->asked_count, 0);
	weir_tables_set_admin(own->lab.tables, 2, WEIR_ADMIN_READY); // and now one does
	lab_publish(&own->lab);
	run_until_ended(own, 10);
	assert_int_equal(flows_at(own, 0), 0);
	assert_int_equal(flows_at(own, 3), 0);
	assert_in_range(flows_at(own, 2), 10, 20);
}

static void steals_count_what_agents_refuse(void **state) {
	static const struct {
		enum weir_agent_steal_result result;
		enum weir_flow_steal_outcome outcome;
		bool pauses; // the same agent is not asked again at once
		bool told; // what to do about it, in one line
	} cases[] = {
		{WEIR_AGENT_STEAL_RUNNING, WEIR_FLOW_STEAL_RUNNING, false, false},
		{WEIR_AGENT_STEAL_UNSETTLED, WEIR_FLOW_STEAL_UNSETTLED, false, false},
		{WEIR_AGENT_STEAL_LATE, WEIR_FLOW_STEAL_LATE, false, false},
		{WEIR_AGENT_STEAL_COOKIES, WEIR_FLOW_STEAL_COOKIES, true, true},
		{WEIR_AGENT_STEAL_NO_LISTENER, WEIR_FLOW_STEAL_NO_LISTENER, true, true},
		{WEIR_AGENT_STEAL_CANNOT_TELL, WEIR_FLOW_STEAL_CANNOT_TELL, true, true},
		{WEIR_AGENT_STEAL_OFF, WEIR_FLOW_STEAL_OFF, true, true},
		{WEIR_AGENT_STEAL_NO_RESULT, WEIR_FLOW_STEAL_SILENT, true, false},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		void *lab = NULL;
		struct own *own;

		setup(&lab);
		own = lab;
		own->result = cases[i].result;
		begin_flows(own, 3);
		run_until_ended(own, 3);
		run_for(own, 600);
		assert_int_equal(shown(own).outcomes[cases[i].outcome], ended(own));
		assert_int_equal(flows_at(own, VICTIM), 3);
		assert_int_equal(own->lines, cases[i].told);
		if (cases[i].pauses) {
			assert_int_equal(ended(own), 3);
		} else {
			assert_true(ended(own) > 3);
		}
		teardown(&lab);
	}
	(void)state;
}

static void steals_take_silence_for_a_no(void **state) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 3);
	run_until_ended(own, 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 3);
	answer_all(own); // late
	run_for(own, 200);
	assert_int_equal(flows_at(own, VICTIM), 3);
	own->ask_error = -EAGAIN; // it cannot even be asked
	run_until_ended(own, 6);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 6);
}

// The second answer to a request, and one to none, move nothing.
static void steals_take_one_answer(void **state) {
	struct own *own = *state;

	own->copies = 3;
	begin_flows(own, 6);
	run_until_ended(own, 6);
	for (uint64_t token = 0; token < 1000; token++) {
		weir_flow_steals_answer(own->steals, token, WEIR_AGENT_STEAL_NOTHING);
	}
	weir_flow_steals_answer(own->steals, own->asked[5].token + 1, WEIR_AGENT_STEAL_NOTHING);
	run_for(own, 300);
	assert_int_equal(ended(own), 6);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
}

static void steals_count_what_workers_refuse(void **state) {
	static const enum weir_flow_steal_outcome outcomes[WEIR_MOVE_ANSWER_COUNT + 1] = {
		[WEIR_MOVE_NONE] = WEIR_FLOW_STEAL_NO_WORKER,
		[WEIR_MOVE_MOVED] = WEIR_FLOW_STEAL_MOVED,
		[WEIR_MOVE_CHANGED] = WEIR_FLOW_STEAL_CHANGED,
		[WEIR_MOVE_GONE] = WEIR_FLOW_STEAL_GONE,
		[WEIR_MOVE_UNUSABLE] = WEIR_FLOW_STEAL_UNUSABLE,
		[WEIR_MOVE_LIMIT] = WEIR_FLOW_STEAL_LIMIT,
		[WEIR_MOVE_LATE] = WEIR_FLOW_STEAL_LATE,
		[WEIR_MOVE_ANSWER_COUNT] = WEIR_FLOW_STEAL_NO_WORKER, // not an answer
	};

	(void)state;
	for (int answer = 0; answer <= WEIR_MOVE_ANSWER_COUNT; answer++) {
		void *lab = NULL;
		struct own *own;

		setup(&lab);
		own = lab;
		own->move_answer = answer;
		begin_flows(own, 3);
		run_until_ended(own, 3);
		assert_int_equal(shown(own).outcomes[outcomes[answer]], ended(own));
		teardown(&lab);
	}
}

static void steals_end_when_workers_do_not_answer(void **state) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 3);
	while (own->asked_count < 3) {
		run_for(own, 5);
	}
	own->workers = SILENT;
	answer_all(own);
	run_until_ended(own, 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_NO_WORKER], 3);
	own->holds = false;
	run_for(own, 1300); // a scan that nobody answers ends, too
	// It answers after all, also to what was given up: the agent has permitted that.
	own->workers = ANSWER;
	begin_flows(own, 3);
	run_until_ended(own, 6);
	assert_int_equal(flows_at(own, VICTIM), 0);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
}

static void steals_notice_an_older_dataplane(void **state) {
	struct own *own = *state;

	own->workers = OLD;
	begin_flows(own, 3);
	run_for(own, 300);
	assert_int_equal(own->asked_count, 0);
	assert_true(weir_flow_steals_unsupported(own->steals));
}

// Whatever comes in between, an answer to a request that was given up moves nothing.
static void steals_survive_reload_and_loss_of_the_dataplane(void **state) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 3);
	while (own->asked_count < 3) {
		run_for(own, 5);
	}
	configure(own);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], 3);
	assert_int_equal(shown(own).asked, 3);
	answer_all(own);
	run_for(own, 50);
	assert_int_equal(flows_at(own, VICTIM), 3);
	while (own->asked_count < 6) {
		run_for(own, 5);
	}
	weir_flow_steals_abandon(own->steals);
	weir_mailboxes_bind(&own->mailboxes, NULL);
	answer_all(own);
	run_for(own, 300);
	assert_int_equal(own->asked_count, 6);
	assert_int_equal(flows_at(own, VICTIM), 3);
	weir_mailboxes_bind(&own->mailboxes, own->lab.control);
	own->holds = false;
	run_until_ended(own, 9);
	assert_int_equal(flows_at(own, VICTIM), 0);
	own->config->services[0].steal.enabled = false;
	configure(own);
	assert_false(shown(own).enabled);
	assert_int_equal(shown(own).asked, 9);
	begin_flows(own, 3);
	run_for(own, 300);
	assert_int_equal(own->asked_count, 9);
}

static void steals_keep_to_their_rate(void **state) {
	struct own *own = *state;
	uint64_t began_ms;

	own->config->services[0].steal.per_second = 5;
	own->result = WEIR_AGENT_STEAL_RUNNING;
	configure(own);
	begin_flows(own, 100);
	began_ms = now_ms();
	run_for(own, 1000);
	assert_in_range(own->asked_count, 5, 5 + 5 * (now_ms() - began_ms) / 1000 + 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(steals_spread_who_waits_over_the_others),
		TEST(steals_leave_room_in_the_queues),
		TEST(steals_ask_nobody_without_need_or_room),
		TEST(steals_count_what_agents_refuse),
		TEST(steals_take_silence_for_a_no),
		TEST(steals_take_one_answer),
		TEST(steals_count_what_workers_refuse),
		TEST(steals_end_when_workers_do_not_answer),
		TEST(steals_notice_an_older_dataplane),
		TEST(steals_survive_reload_and_loss_of_the_dataplane),
		TEST(steals_keep_to_their_rate),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
