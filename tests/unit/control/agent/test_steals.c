// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which steal requests the agent processes: each request once, no request after its deadline,
// and only as many as fit in its table.
#include <stdlib.h>
#include <string.h>

#include "steals.h"
#include "test.h"

#define AGENT UINT64_C(0xa1)

struct lab {
	struct weir_steals steals;
	struct weir_steals_entry *entry; // entry of the last call to take()
	enum weir_agent_refusal refusal; // refusal of the last call to take()
	uint64_t clock_ms;
};

static struct weir_agent_steal request(const struct lab *lab, uint64_t balancer, uint64_t id) {
	struct weir_agent_steal steal = {.key_id = 3,
		.balancer = balancer,
		.id = id,
		.agent = AGENT,
		.deadline_ms = lab->clock_ms + 1000,
		.client_port = 1000,
		.vip_port = 80,
		.protocol = 6};

	steal.client[15] = 1;
	steal.vip[15] = 2;
	return steal;
}

static enum weir_steals_verdict take(struct lab *lab, const struct weir_agent_steal *steal) {
	lab->entry = NULL;
	lab->refusal = WEIR_AGENT_REFUSAL_NONE;
	return weir_steals_take(
		&lab->steals, steal, AGENT, lab->clock_ms, &lab->entry, &lab->refusal);
}

static void expect_refused(
	struct lab *lab, const struct weir_agent_steal *steal, enum weir_agent_refusal refusal) {
	assert_int_equal(take(lab, steal), WEIR_STEALS_REFUSED);
	assert_int_equal(lab->refusal, refusal);
}

// Process a new request, and store its result.
static void settle(struct lab *lab, const struct weir_agent_steal *steal, uint8_t result) {
	assert_int_equal(take(lab, steal), WEIR_STEALS_NEW);
	lab->entry->pending = false;
	lab->entry->answer.result = result;
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	lab->clock_ms = 100000;
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	free(*state);
	return 0;
}

TEST_EACH(setup, teardown);

TEST(request_is_processed_once) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1);

	assert_int_equal(take(lab, &steal), WEIR_STEALS_NEW);
	assert_int_equal(lab->entry->key_id, 3);
	assert_true(weir_agent_steal_is_same_flow(&steal, &lab->entry->answer));
	assert_int_equal(take(lab, &steal), WEIR_STEALS_PENDING);
	lab->entry->pending = false;
	lab->entry->answer.result = WEIR_AGENT_STEAL_REMOVED;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_KNOWN);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_STEAL_REMOVED);
	lab->clock_ms += 1000000; // long after the deadline of the request
	assert_int_equal(take(lab, &steal), WEIR_STEALS_KNOWN);
}

TEST(ids_belong_to_a_balancer) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1), other = request(lab, 8, 1);

	settle(lab, &steal, WEIR_AGENT_STEAL_RUNNING);
	other.client_port = 2000;
	settle(lab, &other, WEIR_AGENT_STEAL_NOTHING);
	assert_int_equal(take(lab, &steal), WEIR_STEALS_KNOWN);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_STEAL_RUNNING);
}

TEST(known_id_with_another_flow_is_refused) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1);

	settle(lab, &steal, WEIR_AGENT_STEAL_REMOVED);
#define OTHER(field, value) \
	do { \
		struct weir_agent_steal other = steal; \
		other.field = value; \
		expect_refused(lab, &other, WEIR_AGENT_REFUSAL_FLOW); \
	} while (0)
	OTHER(client_port, 1001);
	OTHER(vip_port, 81);
	OTHER(client[15], 2);
	OTHER(vip[0], 2);
#undef OTHER
	assert_int_equal(take(lab, &steal), WEIR_STEALS_KNOWN);
}

TEST(request_to_another_process_is_refused) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1);

	steal.agent++;
	expect_refused(lab, &steal, WEIR_AGENT_REFUSAL_AGENT);
	steal.agent--;
	settle(lab, &steal, WEIR_AGENT_STEAL_REMOVED);
	// the request id is known, but the request is for another process, so it does not get the
	// stored answer
	steal.agent++;
	expect_refused(lab, &steal, WEIR_AGENT_REFUSAL_AGENT);
}

TEST(deadlines_have_two_limits) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1);

	steal.deadline_ms = lab->clock_ms;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_LATE);
	steal.deadline_ms = 0;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_LATE);
	steal.deadline_ms = lab->clock_ms + WEIR_AGENT_STEAL_AHEAD_MS + 1;
	expect_refused(lab, &steal, WEIR_AGENT_REFUSAL_VALUE);
	steal.deadline_ms = UINT64_MAX;
	expect_refused(lab, &steal, WEIR_AGENT_REFUSAL_VALUE);
	// None of the refused requests was stored.
	steal.deadline_ms = lab->clock_ms + WEIR_AGENT_STEAL_AHEAD_MS;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_NEW);
	steal.id = 2;
	steal.deadline_ms = lab->clock_ms + 1;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_NEW);
}

TEST(burst_is_limited_and_then_the_rate) {
	struct lab *lab = *state;
	uint64_t id = 0;

	for (uint32_t i = 0; i < WEIR_STEALS_BURST; i++) {
		struct weir_agent_steal steal = request(lab, 7, ++id);

		settle(lab, &steal, WEIR_AGENT_STEAL_NOTHING);
	}
	for (uint32_t i = 0; i < 10; i++) {
		struct weir_agent_steal steal = request(lab, 7, ++id);

		expect_refused(lab, &steal, WEIR_AGENT_REFUSAL_RATE);
		lab->clock_ms += WEIR_STEALS_EVERY_MS;
		settle(lab, &steal, WEIR_AGENT_STEAL_NOTHING);
	}
}

// The first request stays in the table until its deadline, even if other requests fill the rest of
// the table.
TEST(no_request_is_dropped_before_its_deadline) {
	struct lab *lab = *state;
	struct weir_agent_steal first = request(lab, 7, 1);
	uint64_t id = 1, until_ms = lab->clock_ms + WEIR_AGENT_STEAL_AHEAD_MS;
	uint32_t taken = 1;

	first.deadline_ms = until_ms;
	settle(lab, &first, WEIR_AGENT_STEAL_REMOVED);
	for (; lab->clock_ms < until_ms; lab->clock_ms++) {
		for (;;) {
			struct weir_agent_steal steal = request(lab, 7, ++id);

			if (take(lab, &steal) != WEIR_STEALS_NEW) {
				break;
			}
			taken++;
		}
		assert_int_equal(take(lab, &first), WEIR_STEALS_KNOWN);
	}
	// all entries are in use, including the entry of the first request
	assert_int_equal(taken, WEIR_STEALS_MOST - 1);
	// Now the oldest entries may be replaced, because the deadlines of their requests have
	// passed.
	for (int i = 0; i < 4; i++, lab->clock_ms += WEIR_STEALS_EVERY_MS) {
		struct weir_agent_steal steal = request(lab, 7, ++id);

		(void)take(lab, &steal);
	}
	assert_int_equal(take(lab, &first), WEIR_STEALS_LATE);
}

TEST(pending_entry_is_found_by_its_number) {
	struct lab *lab = *state;
	struct weir_agent_steal steal = request(lab, 7, 1);
	uint32_t number;

	assert_null(weir_steals_pending(&lab->steals, 0));
	assert_null(weir_steals_pending(&lab->steals, 1));
	assert_int_equal(take(lab, &steal), WEIR_STEALS_NEW);
	number = lab->entry->number;
	assert_ptr_equal(weir_steals_pending(&lab->steals, number), lab->entry);
	assert_null(weir_steals_pending(&lab->steals, number + WEIR_STEALS_MOST));
	lab->entry->pending = false;
	assert_null(weir_steals_pending(&lab->steals, number));
	// after UINT32_MAX, the numbers of requests continue at 1, because 0 is not used
	lab->steals.last = UINT32_MAX;
	steal.id = 2;
	assert_int_equal(take(lab, &steal), WEIR_STEALS_NEW);
	assert_int_equal(lab->entry->number, 1);
}
