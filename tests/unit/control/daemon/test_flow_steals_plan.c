// SPDX-License-Identifier: BSD-3-Clause
//
// The plan of one service: shares of several full backends, and room that is spent once.
#include "flow_steals_lab.h"

#include "flow_steals_private.h"

#define BACKENDS 12u

struct plan {
	struct steal_service service;
	struct weir_flow_scan scan;
	struct steal_planned planned[WEIR_FLOW_STEALS_AT_ONCE];
	uint16_t victim[WEIR_WAITING_BACKENDS];
	uint32_t victims;
};

// The lab of the rounds, with more backends: the first `full` have a full queue.
static void set_up_plan(struct own *own, struct plan *plan, uint32_t full, double limit) {
	lab_config_free(own->config);
	own->config = lab_config(1, BACKENDS);
	own->config->instance.clients = own->config->instance.members = 1;
	own->config->services[0].flow_control.accept_queue_percent = 75;
	own->config->services[0].steal =
		(struct weir_config_steal){.enabled = true, .after_ms = 500, .per_second = 640};
	lab_apply(&own->lab, own->config);
	lab_resolve(&own->lab);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		report(own, id, id < full ? limit : 0, limit);
	}
	*plan = (struct plan){.victims = 0};
	assert_int_equal(
		weir_steal_service_init(&plan->service, own->lab.tables, &own->config->services[0]),
		0);
}

// Look, list `flows` flows of each victim, and plan at this time. Returns how many.
static uint32_t plan_round(struct own *own, struct plan *plan, uint32_t flows, uint64_t at_ms) {
	plan->victims = weir_steal_service_look(
		&plan->service, own->lab.tables, own->reports, at_ms, plan->victim);
	plan->scan.count = 0;
	for (uint32_t v = 0; v < plan->victims; v++) {
		for (uint32_t i = 0; i < flows && plan->scan.count < WEIR_FLOW_SCAN_FLOWS; i++) {
			plan->scan.flow[plan->scan.count++] = (struct weir_flow_waiting_at){
				.family = 4, .backend = plan->victim[v]};
		}
	}
	return weir_steal_service_plan(&plan->service, &plan->scan, at_ms, plan->planned);
}

static uint32_t planned_by(
	const struct plan *plan, uint32_t count, uint16_t backend, bool is_thief) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct steal_planned *one = &plan->planned[i];
		uint32_t member = is_thief ? one->thief : one->victim;

		n += plan->service.members[member].id == backend;
	}
	return n;
}

static void end_all(
	struct plan *plan, uint32_t count, enum weir_flow_steal_outcome outcome, uint64_t at_ms) {
	for (uint32_t i = 0; i < count; i++) {
		weir_steal_service_ended(&plan->service, &plan->planned[i], outcome, at_ms);
	}
}

static void a_round_is_shared_by_all_that_are_full(void **state) {
	struct own *own = *state;
	struct plan plan;
	uint32_t count;

	set_up_plan(own, &plan, 4, 1000);
	count = plan_round(own, &plan, 128, 1000000);
	assert_int_equal(plan.victims, 4);
	assert_int_equal(count, WEIR_FLOW_STEALS_AT_ONCE);
	for (uint32_t v = 0; v < 4; v++) {
		assert_int_equal(planned_by(&plan, count, plan.victim[v], false),
			WEIR_FLOW_STEALS_AT_ONCE / 4);
	}
	end_all(&plan, count, WEIR_FLOW_STEAL_MOVED, 1000001);
	weir_steal_service_fini(&plan.service);
	set_up_plan(own, &plan, 1, 1000); // alone
	count = plan_round(own, &plan, 128, 2000000);
	assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
	weir_steal_service_fini(&plan.service);
}

// Reports come more seldom than rounds, and moved flows arrive later: the room that a report tells
// of is given once, until their clients have had time for a SYN.
static void room_is_given_once(void **state) {
	struct own *own = *state;
	uint32_t given[BACKENDS] = {0}, count;
	struct plan plan;

	set_up_plan(own, &plan, 4, 4);
	for (uint64_t at_ms = 1000000; at_ms < 1000900; at_ms += 100) {
		count = plan_round(own, &plan, 128, at_ms);
		for (uint16_t id = 0; id < BACKENDS; id++) {
			given[id] += planned_by(&plan, count, id, true);
		}
		end_all(&plan, count, WEIR_FLOW_STEAL_MOVED, at_ms + 1);
	}
	for (uint16_t id = 0; id < BACKENDS; id++) {
		assert_int_equal(given[id], id < 4 ? 0 : 4);
	}
	for (uint64_t at_ms = 1000900; at_ms < 1001900; at_ms += 100) {
		count = plan_round(own, &plan, 128, at_ms);
		assert_int_equal(count, 0);
	}
	count = plan_round(own, &plan, 128, 1002200);
	assert_in_range(count, 1, 8 * 4);
	weir_steal_service_fini(&plan.service);
}

// A refused request gives no room away.
static void refusals_spend_no_room(void **state) {
	struct own *own = *state;
	struct plan plan;
	uint32_t count;

	set_up_plan(own, &plan, 1, 4);
	for (uint64_t at_ms = 1000000; at_ms < 1060000; at_ms += 10000) {
		count = plan_round(own, &plan, 128, at_ms);
		assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
		end_all(&plan, count, WEIR_FLOW_STEAL_CHANGED, at_ms + 1);
	}
	weir_steal_service_fini(&plan.service);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_round_is_shared_by_all_that_are_full),
		TEST(room_is_given_once),
		TEST(refusals_spend_no_room),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
