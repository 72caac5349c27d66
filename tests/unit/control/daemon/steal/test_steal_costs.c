// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the estimated cost of waiting and the cost of a move, in seconds. A connection stays if a
// move does not reduce its waiting time.
#include "steal_costs.h"

#include <math.h>

#include "steal_plan_lab.h"

static void check(double a, double b) {
	if (fabs(a - b) > 1e-9) {
		fail_msg("%f, not %f", a, b);
	}
}

// RFC 6298: the first SYN is retransmitted after 1 s, and the interval doubles each time.
TEST(move_costs_the_time_until_the_next_syn) {
	check(weir_steal_move_s(0), 1);
	check(weir_steal_move_s(300), 0.7);
	check(weir_steal_move_s(999), 0.001);
	check(weir_steal_move_s(1000), 1);
	check(weir_steal_move_s(1500), 0.5);
	check(weir_steal_move_s(2000), 2);
	check(weir_steal_move_s(4080), 3.92);
	assert_true(weir_steal_move_s(UINT32_MAX) > 0);
}

TEST(service_time_is_unknown_if_a_connection_has_waited_longer) {
	check(weir_steal_service_s(9, -1, 0), 0.5);
	check(weir_steal_service_s(9, 0.01, 200), 0.01);
	check(weir_steal_service_s(9, 0.01, 201), 0.5);
	check(weir_steal_service_s(9, 2, 60000), 2); // at least the known service time
	assert_true(weir_steal_service_s(9, 0, 0) > 0);
	check(weir_steal_queue_s(9, 1, 0.01), 0.09);
	check(weir_steal_queue_s(1000, 1, 0.5), 8);
	check(weir_steal_queue_s(250, 0.25, 0.5), 2);
	check(weir_steal_queue_s(1000, 1, 2), 32);
}

static double service_s(struct own *own, const struct weir_report *report) {
	struct weir_reports_status status;

	weir_reports_take(own->reports, 0, report, "agent");
	assert_int_equal(weir_reports_status(own->reports, 0, &status), 0);
	return status.service_s;
}

TEST(time_for_a_connection_comes_from_reports, setup, teardown) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT),
		.accept_queue_limit = 10,
		.service_time_ms = 100,
		.active_requests = 5,
		.service_count = 10};
	double s;

	check(service_s(own, &report), -1);
	report.given |= WEIR_REPORT(SERVICE_TIME);
	check(service_s(own, &report), 0.1);
	report.given |= WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(ACTIVE);
	// (0.1 + 0.02) / 2: the new value is 0.02 s, because five connections are served at a time
	check(service_s(own, &report), 0.06);
	report.accept_queue = 3; // three of the five connections wait, so two are served at a time
	check(service_s(own, &report), 0.055);
	for (int i = 0; i < 8; i++) { // ten connections are served between two reports
		run_for(own, 50);
		s = service_s(own, &report);
	}
	assert_true(s >= 0.005 && s < 0.03);
	report.service_count = 0; // the server hangs
	check(service_s(own, &report), s);
	report.service_count = 10;
	report.accept_queue = 0;
	check(service_s(own, &report), s / 2 + 0.01);
}

// Report that the first backend has a full queue of 100 connections, and this mean service time.
static void report_service(struct own *own, double service_ms, double active) {
	const struct weir_report said = {.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT) |
						  WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(ACTIVE),
		.service_time_ms = service_ms,
		.active_requests = active,
		.accept_queue = 100,
		.accept_queue_limit = 100};

	weir_reports_take(own->reports, 0, &said, "agent");
	lab_publish(&own->lab);
}

// A moved connection reaches its new backend only with the client's next SYN, which is sent a
// second after the first SYN. So a connection stays if its queue will be served before that SYN.
TEST(connections_stay_where_a_move_does_not_pay, setup, teardown) {
	static const struct {
		double service_ms, active;
		uint32_t waited_ms, count; // waiting time; how many of the five connections move
	} cases[] = {
		{4, 1, 500, 0}, // the queue takes 0.4 s; the next SYN is sent in 0.5 s
		{4, 0, 500, 0},
		// 100 connections are served at a time; the other connections are in the queue
		{400, 200, 500, 0},
		{4, 1, 700, 5}, // the next SYN is sent before the queue is served
		{20, 1, 300, 5}, // the queue takes 2 s
		{8, 1, 300, 5},
		{1, 1, 150, 0}, // the queue would be served within 0.1 s
		// the queue would have been served twice by now, so the server hangs
		{1, 1, 250, 5},
		{0, 1, 100, 5}, // the server hangs
		{8, 1, 1001, 0}, // after the second SYN, the third SYN is sent in 2 s
		{8, 1, 1700, 5},
		{60000, 1, 500, 5},
	};
	struct own *own = *state;
	struct plan plan;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t count;

		set_up_plan(own, &plan, 1, 100);
		for (int n = 0; n < 40; n++) { // repeat until the average has this value
			report_service(own, cases[i].service_ms, cases[i].active);
		}
		look(own, &plan, 1000000);
		assert_int_equal(plan.victims, 1);
		for (uint16_t n = 0; n < 5; n++) {
			list(&plan, 0, 80);
			plan.scan.flow[n].waited_ms = cases[i].waited_ms;
		}
		count = weir_steal_service_plan(&plan.service, &plan.scan, 1000000, plan.planned);
		if (count != cases[i].count) {
			fail_msg("case %zu: %u", i, count);
		}
		weir_steal_service_fini(&plan.service);
	}
}

// One backend needs minutes to serve its queue, and another backend needs seconds. Connections of
// both backends are moved.
TEST(a_long_queue_does_not_hide_a_shorter_one, setup, teardown) {
	struct own *own = *state;
	struct plan plan;
	uint32_t count;

	set_up_plan(own, &plan, 2, 100);
	for (int n = 0; n < 40; n++) {
		report_service(own, 5000, 1);
	}
	count = plan_round(own, &plan, 128, 1000000);
	assert_true(planned_by(&plan, count, 0, false) > 0);
	assert_true(planned_by(&plan, count, 1, false) > 0);
	weir_steal_service_fini(&plan.service);
}
