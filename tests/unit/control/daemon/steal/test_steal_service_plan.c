// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the plan of one service. Several full backends share the room in the queues of other
// backends, and this room is used only once.
#include "steal_plan_lab.h"

#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

TEST(a_round_is_shared_by_all_full_backends, setup, teardown) {
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
	set_up_plan(own, &plan, 1, 1000); // only one backend is full
	count = plan_round(own, &plan, 128, 2000000);
	assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
	weir_steal_service_fini(&plan.service);
}

// A report shows how much room a queue has. Several rounds use the same report, and moved flows
// arrive only with the next SYN of their clients. Until then, the room must be used only once.
TEST(room_is_used_once, setup, teardown) {
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

// A refused request uses no room in a queue.
TEST(refusals_use_no_room, setup, teardown) {
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

// The last report of a thief must be recent. It must not be older than the longest pause between
// probes of its agent plus a timeout. This limit is at least 5 s and at most a minute.
TEST(thieves_have_reported_recently, setup, teardown) {
	static const struct {
		uint32_t inactive_ms, most_ms;
	} cases[] = {{100, 5000}, {4600, 5000}, {10000, 10400}, {59600, 60000}, {3600000, 60000}};
	struct weir_reports_status status;
	struct own *own = *state;
	struct plan plan;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		own->config->services[0].agent = (struct weir_config_agent){.interval_ms = 100,
			.inactive_interval_ms = cases[i].inactive_ms,
			.timeout_ms = 400};
		assert_int_equal(weir_steal_service_init(&plan.service, own->lab.tables,
					 &own->config->services[0], SYN_SEEN_MS),
			0);
		assert_int_equal(plan.service.report_most_ms, cases[i].most_ms);
		weir_steal_service_fini(&plan.service);
	}
	set_up_plan(own, &plan, 1, 100);
	plan.service.report_most_ms = 1;
	do { // until the newest report is older than the limit
		assert_int_equal(weir_reports_status(own->reports, BACKENDS - 1, &status), 0);
	} while (status.age_ms <= 1);
	assert_int_equal(plan_round(own, &plan, 20, 1000000), 0);
	assert_true(plan.service.saturated);
	assert_int_equal(plan.victims, 0);
	plan.service.report_most_ms = 60000;
	assert_true(plan_round(own, &plan, 20, 1010000) > 0);
	weir_steal_service_fini(&plan.service);
}

// Run rounds for ten seconds. With two full backends, the agent of the second backend always
// answers `answer`. Returns how many connections of the first backend were moved.
static uint32_t moved_beside(struct own *own, uint32_t full, enum weir_flow_steal_outcome answer,
	uint32_t *ret_refused) {
	uint32_t moved = 0, count;
	struct plan plan;

	set_up_plan(own, &plan, full, 1000);
	for (uint16_t id = (uint16_t)(full + 3); id < BACKENDS; id++) {
		report(own, id, 500, 1000); // three backends remain thieves
	}
	*ret_refused = 0;
	for (uint64_t at_ms = 1000000; at_ms < 1010000; at_ms += 100) {
		count = plan_round(own, &plan, 128, at_ms);
		for (uint32_t i = 0; i < count; i++) {
			bool first = plan.service.members[plan.planned[i].victim].id == 0;

			weir_steal_service_ended(&plan.service, &plan.planned[i],
				first ? WEIR_FLOW_STEAL_MOVED : answer, at_ms + 1);
			moved += first;
			*ret_refused += !first;
		}
	}
	weir_steal_service_fini(&plan.service);
	return moved;
}

// An agent that always refuses gets fewer and fewer requests, down to one round of requests per
// second. Connections of the other full backend are still moved.
TEST(refusals_of_one_backend_do_not_affect_others, setup, teardown) {
	struct own *own = *state;
	uint32_t refused, alone = moved_beside(own, 1, WEIR_FLOW_STEAL_RUNNING, &refused);

	assert_true(alone > 1000);
	assert_true(moved_beside(own, 2, WEIR_FLOW_STEAL_RUNNING, &refused) > alone * 9 / 10);
	assert_in_range(refused, 10 * WEIR_FLOW_STEALS_OF_AGENT, 15 * WEIR_FLOW_STEALS_OF_AGENT);
	assert_true(moved_beside(own, 2, WEIR_FLOW_STEAL_CHANGED, &refused) > alone * 9 / 10);
	// with CHANGED the agent had permitted the move, so it does not pause
	assert_true(refused > alone * 9 / 10);
}

// A backend that cannot take connections gets no requests for a while. Its pause doubles each time.
TEST(thieves_that_take_nothing_pause, setup, teardown) {
	struct own *own = *state;
	uint32_t rounds[BACKENDS] = {0}, count;
	struct plan plan;

	set_up_plan(own, &plan, 1, 1000);
	for (uint64_t at_ms = 1000000; at_ms < 1010000; at_ms += 100) {
		count = plan_round(own, &plan, 128, at_ms);
		for (uint16_t id = 1; id < BACKENDS; id++) {
			rounds[id] += planned_by(&plan, count, id, true) > 0;
		}
		end_all(&plan, count, WEIR_FLOW_STEAL_UNUSABLE, at_ms + 1);
	}
	for (uint16_t id = 1; id < BACKENDS; id++) {
		assert_in_range(rounds[id], 5, 15);
	}
	weir_steal_service_fini(&plan.service);
}

static bool is_served(uint16_t flow) {
	return flow % 2 == 0;
}

// The service has many ports or addresses, and the victim's server serves only some of them. Its
// agent refuses requests for the other ports or addresses. After a refusal the agent gets no
// request for this port or address for some seconds, but gets all other requests. So a client that
// tries all ports or addresses does not prevent other moves.
static void refusals_of_places_pause_no_agent(struct own *own, bool addresses) {
	static const enum weir_flow_steal_outcome of_ports[] = {
		WEIR_FLOW_STEAL_OFF, WEIR_FLOW_STEAL_NO_LISTENER};
	struct plan plan;
	uint64_t at_ms = 1000000;
	uint32_t served, count;

	set_up_plan(own, &plan, 1, 1000);
	plan.service.many_ports = !addresses;
	plan.service.many_addresses = addresses;
	for (uint32_t round = 0; round < 35; round++, at_ms += 300) {
		look(own, &plan, at_ms);
		assert_int_equal(plan.victims, 1);
		for (uint16_t i = 0; i < 8; i++) {
			list(&plan, plan.victim[0], addresses || is_served(i) ? 80 : 1000 + i);
			plan.scan.flow[i].vip[0] = addresses && !is_served(i) ? 10 + i : 198;
		}
		count = weir_steal_service_plan(&plan.service, &plan.scan, at_ms, plan.planned);
		served = 0;
		for (uint32_t i = 0; i < count; i++) {
			bool ok = is_served((uint16_t)plan.planned[i].flow);
			enum weir_flow_steal_outcome no =
				addresses ? WEIR_FLOW_STEAL_NO_LISTENER : of_ports[i % 2];

			served += ok;
			weir_steal_service_ended(&plan.service, &plan.planned[i],
				ok ? WEIR_FLOW_STEAL_MOVED : no, at_ms + 1);
		}
		assert_int_equal(served, 4);
		assert_int_equal(count - served, round == 0 || round == 34 ? 4 : 0);
	}
	weir_steal_service_fini(&plan.service);
}

TEST(refused_ports_pause_no_agent, setup, teardown) {
	refusals_of_places_pause_no_agent(*state, false);
}

// Refused addresses do not pause the agent either. For example, the server listens only at IPv4
// addresses, so requests for IPv6 addresses are refused.
TEST(refused_addresses_pause_no_agent, setup, teardown) {
	refusals_of_places_pause_no_agent(*state, true);
}

// The service has a single port, so a refusal applies to all connections, and the agent pauses.
TEST(refusals_of_the_only_port_pause_the_agent, setup, teardown) {
	struct own *own = *state;
	struct plan plan;
	uint32_t count;

	set_up_plan(own, &plan, 1, 1000);
	assert_false(plan.service.many_ports);
	count = plan_round(own, &plan, 8, 1000000);
	assert_int_equal(count, 8);
	end_all(&plan, count, WEIR_FLOW_STEAL_OFF, 1000001);
	look(own, &plan, 1000900);
	assert_int_equal(plan.victims, 0);
	look(own, &plan, 1001100);
	assert_int_equal(plan.victims, 1);
	weir_steal_service_fini(&plan.service);
}

TEST(services_have_many_ports_or_addresses, setup, teardown) {
	static const struct {
		struct weir_config_bind binds[2];
		bool ports, addresses;
	} cases[] = {
		{{{{{0}, 0}, IPPROTO_TCP, 80, 80}, {{{0}, 0}, IPPROTO_TCP, 80, 80}}, false, false},
		{{{{{198}, 4}, IPPROTO_TCP, 80, 80}, {{{0x20}, 6}, IPPROTO_TCP, 80, 80}}, false,
			true},
		{{{{{198}, 4}, IPPROTO_UDP, 80, 80}, {{{0x20}, 6}, IPPROTO_TCP, 80, 80}}, false,
			false},
		{{{{{0}, 0}, IPPROTO_UDP, 53, 53}, {{{0}, 0}, IPPROTO_TCP, 80, 80}}, false, false},
		{{{{{0}, 0}, IPPROTO_TCP, 80, 80}, {{{0}, 0}, IPPROTO_TCP, 443, 443}}, true, false},
		{{{{{0}, 0}, IPPROTO_TCP, 80, 80}, {{{0}, 0}, IPPROTO_TCP, 0, 65535}}, true, false},
	};
	struct own *own = *state;
	struct weir_config_service *config = &own->config->services[0];
	struct weir_config_service changed = *config;
	struct steal_service service, former;

	assert_int_equal(weir_steal_service_init(&former, own->lab.tables, config, 5000), 0);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config_bind binds[2] = {cases[i].binds[0], cases[i].binds[1]};

		changed.binds = binds;
		changed.bind_count = 2;
		assert_int_equal(
			weir_steal_service_init(&service, own->lab.tables, &changed, 5000), 0);
		assert_int_equal(service.many_ports, cases[i].ports);
		assert_int_equal(service.many_addresses, cases[i].addresses);
		assert_int_equal(weir_steal_service_is_same(&former, &service),
			!cases[i].ports && !cases[i].addresses);
		weir_steal_service_fini(&service);
	}
	weir_steal_service_fini(&former);
}

// A queue with room takes connections. Only its own length counts, even if all other queues are
// equally long.
TEST(backends_with_room_take_waiting_connections, setup, teardown) {
	struct own *own = *state;
	struct plan plan;
	uint32_t count;

	set_up_plan(own, &plan, 1, 100);
	for (uint16_t id = 1; id < BACKENDS; id++) {
		report(own, id, 25, 100);
	}
	count = plan_round(own, &plan, 1, 1000000);
	assert_int_equal(count, 1);
	end_all(&plan, count, WEIR_FLOW_STEAL_MOVED, 1000001);
	count = plan_round(own, &plan, 128, 1000100);
	assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
	weir_steal_service_fini(&plan.service);
}

// An agent did not answer. Any later answer shows that it works again. If an agent was not able to
// help, only a permission shows that it can help now.
TEST(an_answer_ends_silence, setup, teardown) {
	static const struct {
		enum weir_flow_steal_outcome first, then;
		uint32_t pauses;
	} cases[] = {
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_RUNNING, 0},
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_UNSETTLED, 0},
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_LATE, 0},
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_MOVED, 0},
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_ABANDONED, 1},
		{WEIR_FLOW_STEAL_SILENT, WEIR_FLOW_STEAL_SILENT, 2},
		{WEIR_FLOW_STEAL_COOKIES, WEIR_FLOW_STEAL_RUNNING, 1},
		{WEIR_FLOW_STEAL_COOKIES, WEIR_FLOW_STEAL_LATE, 1},
		{WEIR_FLOW_STEAL_COOKIES, WEIR_FLOW_STEAL_MOVED, 0},
	};
	struct own *own = *state;
	struct plan plan;

	set_up_plan(own, &plan, 1, 100);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t at_ms = 1000000 * (i + 1);

		plan.service.members[0].pauses = 0;
		assert_int_equal(plan_round(own, &plan, 1, at_ms), 1);
		end_all(&plan, 1, cases[i].first, at_ms);
		assert_int_equal(plan.service.members[0].pauses, 1);
		look(own, &plan, at_ms + 500); // end the round
		assert_int_equal(plan_round(own, &plan, 1, at_ms + 2000), 1);
		end_all(&plan, 1, cases[i].then, at_ms + 2000);
		assert_int_equal(plan.service.members[0].pauses, cases[i].pauses);
		look(own, &plan, at_ms + 2500);
	}
	weir_steal_service_fini(&plan.service);
}

// A backend without reports takes no connections. Backends with reports still do.
TEST(silent_backends_do_not_prevent_others_from_taking, setup, teardown) {
	struct own *own = *state;
	struct plan plan;

	set_up_plan(own, &plan, 1, 100);
	report(own, 1, 20, 100);
	for (uint16_t id = 2; id < BACKENDS; id++) {
		report(own, id, 0, 0);
	}
	assert_int_equal(plan_round(own, &plan, 1, 1000000), 1);
	assert_int_equal(plan.planned[0].thief, 1);
	weir_steal_service_fini(&plan.service);
}

#define MANY 65000u

// Returns the CPU time for taking over the state of this many backends into a new state, which
// lists them in reverse order.
static double time_of_take_over(uint32_t count) {
	struct steal_service from = {.count = count}, to = {.count = count};
	uint32_t *place = calloc(WEIR_BACKEND_NONE, sizeof(*place));
	struct timespec begin, end;

	from.members = calloc(count, sizeof(from.members[0]));
	to.members = calloc(count, sizeof(to.members[0]));
	assert_non_null(place);
	assert_non_null(from.members);
	assert_non_null(to.members);
	for (uint32_t i = 0; i < count; i++) {
		from.members[i] = (struct steal_member){.id = (uint16_t)i, .pauses = 1 + i % 6};
		to.members[i].id = (uint16_t)(count - i); // one backend is new, one was removed
	}
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	weir_steal_service_take_over(&to, &from, place);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(to.members[i].id, count - i);
		assert_int_equal(to.members[i].pauses, i > 0 ? 1 + (count - i) % 6 : 0);
		assert_int_equal(place[count - i], 0);
	}
	free(place);
	free(from.members);
	free(to.members);
	return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

// No agent can help, and a reload takes over the pauses of all backends. The reload must take
// linear time. Quadratic time would block the loop for seconds, and the second measurement would
// take 256 times as long as the first.
TEST(pauses_are_taken_over_in_one_pass) {
	double few = time_of_take_over(MANY / 16), many = time_of_take_over(MANY);

	// take the minimum of several runs, because other programs use the CPU caches, too
	for (unsigned int i = 1; i < 5; i++) {
		few = fmin(few, time_of_take_over(MANY / 16));
		many = fmin(many, time_of_take_over(MANY));
	}
	printf("take-over: %.3f ms of %u backends, %.3f ms of %u\n", few * 1e3, MANY / 16,
		many * 1e3, MANY);
	assert_true(many < few * 150);
}

// --- half-open flows -----------------------------------------------------------------------

// Set the workers' counts for a backend.
static void count_flows(struct own *own, uint16_t backend, uint64_t new_flows, uint64_t half_open) {
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		struct weir_share_counters *of =
			weir_segment_backend_counters(own->lab.segment, worker, backend);

		of->new_flows += new_flows / LAB_WORKERS;
		of->half_open = half_open / LAB_WORKERS;
	}
}

// Each backend gets 40 new flows. All backends except one accept them. Then no flows arrive for
// some rounds.
static uint64_t stall(struct own *own, struct plan *plan, uint16_t backend) {
	uint64_t at_ms = 1000000;

	// No flows arrive for a while.
	weir_steal_services_count(&plan->service, 1, 0, own->lab.segment, at_ms - 10000);
	weir_steal_services_count(&plan->service, 1, 0, own->lab.segment, at_ms);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		count_flows(own, id, 40, id == backend ? 40 : 0);
	}
	for (int look = 0; look < 3; look++) {
		assert_int_equal(plan_round(own, plan, 20, at_ms), 0);
		at_ms += WEIR_ROUND_MS;
		weir_steal_services_count(&plan->service, 1, 0, own->lab.segment, at_ms);
	}
	return at_ms;
}

// The victim is found by its half-open flows, although its queue is not full or not reported.
TEST(half_open_flows_make_a_victim, setup, teardown) {
	struct own *own = *state;
	struct plan plan;

	for (int reported = 0; reported < 2; reported++) {
		const struct weir_report silence = {0};
		uint64_t at_ms;
		uint32_t count;

		set_up_plan(own, &plan, 0, 100);
		if (!reported) {
			weir_reports_take(own->reports, 5, &silence, "agent");
		}
		at_ms = stall(own, &plan, 5);
		count = plan_round(own, &plan, 20, at_ms);
		assert_int_equal(plan.victims, 1);
		assert_int_equal(plan.victim[0], 5);
		assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
		assert_int_equal(planned_by(&plan, count, 5, true), 0);
		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(plan.planned[i].reason, WEIR_FLOW_STEAL_FOR_HALF_OPEN);
		}
		end_all(&plan, count, WEIR_FLOW_STEAL_MOVED, at_ms);
		count_flows(own, 5, 0, 0); // the flows have ended
		weir_steal_services_count(
			&plan.service, 1, 0, own->lab.segment, at_ms + WEIR_ROUND_MS);
		assert_int_equal(plan_round(own, &plan, 20, at_ms + WEIR_ROUND_MS), 0);
		assert_false(plan.service.saturated);
		weir_steal_service_fini(&plan.service);
	}
}

// In a flood all backends have equally many half-open flows, so no backend is a victim. Counters
// are read only once per round.
TEST(half_open_flows_at_all_backends_make_no_victim, setup, teardown) {
	struct own *own = *state;
	struct plan plan;

	set_up_plan(own, &plan, 0, 100);
	for (uint64_t at_ms = 1000000; at_ms < 1003000; at_ms += 10) {
		for (uint16_t id = 0; id < BACKENDS; id++) {
			count_flows(own, id, 40, (at_ms - 1000000) * 4);
		}
		weir_steal_services_count(&plan.service, 1, 0, own->lab.segment, at_ms);
		assert_true(at_ms - plan.service.counted_ms < WEIR_ROUND_MS);
		assert_int_equal(plan.service.stalling_count, 0);
		assert_int_equal(plan_round(own, &plan, 20, at_ms), 0);
	}
	weir_steal_service_fini(&plan.service);
}

// Half-open flows that were moved to a backend recently are shown as a separate number.
TEST(recently_moved_flows_are_shown, setup, teardown) {
	struct own *own = *state;
	struct plan plan;

	set_up_plan(own, &plan, 0, 100);
	count_flows(own, 5, 40, 40);
	plan.service.members[5].given[0] = 30;
	plan.service.members[5].given_ms = 1000000;
	(void)weir_steal_services_count(&plan.service, 1, 0, own->lab.segment, 1000000);
	assert_int_equal(plan.service.handshakes[5].half_open, 40);
	assert_int_equal(plan.service.handshakes[5].moved, 30);
	weir_steal_service_fini(&plan.service);
}

// A backend has both a full queue and half-open flows. The full queue is shown as the reason,
// because it is certain.
TEST(a_full_queue_is_the_shown_reason, setup, teardown) {
	struct own *own = *state;
	struct plan plan;
	uint64_t at_ms;
	uint32_t count;

	set_up_plan(own, &plan, 0, 100);
	at_ms = stall(own, &plan, 5);
	report(own, 5, 100, 100);
	count = plan_round(own, &plan, 20, at_ms);
	assert_int_equal(count, WEIR_FLOW_STEALS_OF_AGENT);
	assert_int_equal(plan.planned[0].reason, WEIR_FLOW_STEAL_FOR_ACCEPT_QUEUE);
	weir_steal_service_fini(&plan.service);
}
