// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which shed orders the agent carries out, and how fast. The agent carries out each order
// only once, and no order after its deadline. It ends at most as many connections as the order
// requests, and at most at the rate of the order.
#include <stdlib.h>

#include "shed_orders.h"
#include "test.h"

#define AGENT UINT64_C(0xa1)
#define BURST_MS 100

struct lab {
	struct weir_shed_orders orders;
	struct weir_shed_order *entry; // entry of the last call to take()
	enum weir_agent_refusal refusal; // refusal of the last call to take()
	uint64_t clock_ms;
};

static struct weir_agent_shed order(const struct lab *lab, uint64_t balancer, uint64_t id) {
	return (struct weir_agent_shed){.key_id = 3,
		.balancer = balancer,
		.id = id,
		.agent = AGENT,
		.deadline_ms = lab->clock_ms + 2000,
		.count = 10,
		.rate_milli_per_s = 10000,
		.idle_ms = 1000,
		.bind_count = 1};
}

static enum weir_shed_verdict take(struct lab *lab, const struct weir_agent_shed *shed) {
	lab->entry = NULL;
	lab->refusal = WEIR_AGENT_REFUSAL_NONE;
	return weir_shed_orders_take(
		&lab->orders, shed, AGENT, lab->clock_ms, &lab->entry, &lab->refusal);
}

// End as many connections as the rate permits. Returns their number.
static uint32_t spend(struct lab *lab) {
	uint32_t count = weir_shed_orders_allowance(&lab->orders, lab->clock_ms, BURST_MS);

	weir_shed_orders_spend(&lab->orders, count, lab->clock_ms, BURST_MS);
	return count;
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

TEST(repeated_order_ends_nothing_more) {
	struct lab *lab = *state;
	struct weir_agent_shed shed = order(lab, 7, 1);
	uint32_t ended = 0;

	assert_int_equal(take(lab, &shed), WEIR_SHED_NEW);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_SHED_ACTIVE);
	for (uint32_t i = 0; i < 30; i++) {
		ended += spend(lab);
		lab->clock_ms += 50;
		assert_int_equal(take(lab, &shed), WEIR_SHED_KNOWN);
		assert_int_equal(lab->entry->answer.ended, ended);
	}
	assert_int_equal(ended, 10);
	assert_true(weir_shed_orders_is_over(&lab->orders, lab->clock_ms));
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	assert_int_equal(take(lab, &shed), WEIR_SHED_KNOWN);
	assert_int_equal(lab->entry->answer.ended, 10);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_SHED_DONE);
	assert_int_equal(spend(lab), 0);
}

TEST(order_ends_nothing_after_its_deadline) {
	struct lab *lab = *state;
	struct weir_agent_shed shed = order(lab, 7, 1);

	assert_int_equal(take(lab, &shed), WEIR_SHED_NEW);
	lab->clock_ms = shed.deadline_ms - 1;
	assert_int_equal(spend(lab), 1);
	lab->clock_ms = shed.deadline_ms;
	assert_int_equal(spend(lab), 0);
	assert_true(weir_shed_orders_is_over(&lab->orders, lab->clock_ms));
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	// The result is still stored after the deadline.
	lab->clock_ms += 10000;
	assert_int_equal(take(lab, &shed), WEIR_SHED_KNOWN);
	assert_int_equal(lab->entry->answer.ended, 1);
	shed.id = 2;
	assert_int_equal(take(lab, &shed), WEIR_SHED_LATE);
	shed.deadline_ms = lab->clock_ms + WEIR_SHED_AHEAD_MS + 1;
	assert_int_equal(take(lab, &shed), WEIR_SHED_REFUSED);
	assert_int_equal(lab->refusal, WEIR_AGENT_REFUSAL_VALUE);
}

TEST(delayed_order_is_refused) {
	struct lab *lab = *state;
	struct weir_agent_shed first = order(lab, 7, 1), second = order(lab, 7, 2);
	struct weir_agent_shed other = order(lab, 8, 1);

	assert_int_equal(take(lab, &second), WEIR_SHED_NEW);
	assert_int_equal(take(lab, &first), WEIR_SHED_REFUSED);
	assert_int_equal(lab->refusal, WEIR_AGENT_REFUSAL_REPLAY);
	// Each balancer has its own ids. The other balancer must wait until the first order has
	// ended.
	assert_int_equal(take(lab, &other), WEIR_SHED_KNOWN);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_SHED_BUSY);
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	other.id = 2;
	assert_int_equal(take(lab, &other), WEIR_SHED_NEW);
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	assert_int_equal(take(lab, &second), WEIR_SHED_KNOWN);
	other.id = 3;
	other.agent = AGENT + 1;
	assert_int_equal(take(lab, &other), WEIR_SHED_REFUSED);
	assert_int_equal(lab->refusal, WEIR_AGENT_REFUSAL_AGENT);
}

// If the agent answers "busy", the balancer counts no connection of the order as ended.
TEST(busy_order_is_not_carried_out_later) {
	struct lab *lab = *state;
	struct weir_agent_shed first = order(lab, 7, 1), busy = order(lab, 8, 1);

	assert_int_equal(take(lab, &first), WEIR_SHED_NEW);
	assert_int_equal(take(lab, &busy), WEIR_SHED_KNOWN);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_SHED_BUSY);
	assert_int_equal(spend(lab), 1); // the connection of the first order
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	lab->clock_ms = busy.deadline_ms - 1;
	assert_int_equal(take(lab, &busy), WEIR_SHED_KNOWN);
	assert_int_equal(lab->entry->answer.result, WEIR_AGENT_SHED_BUSY);
	assert_int_equal(lab->entry->answer.ended, 0);
	assert_int_equal(spend(lab), 0);
	lab->clock_ms = busy.deadline_ms;
	first = order(lab, 7, 2);
	assert_int_equal(take(lab, &first), WEIR_SHED_NEW);
}

// An entry is replaced only when its deadline has passed, so no order is carried out twice.
TEST(orders_that_may_be_repeated_are_kept) {
	struct lab *lab = *state;

	for (uint64_t balancer = 1; balancer <= WEIR_SHED_ORDERS; balancer++) {
		struct weir_agent_shed shed = order(lab, balancer, 1);

		assert_int_equal(take(lab, &shed), WEIR_SHED_NEW);
		weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
		lab->clock_ms += 10;
	}
	struct weir_agent_shed more = order(lab, WEIR_SHED_ORDERS + 1, 1);

	// The table is full. The agent does not answer, so the balancer counts all connections of
	// this order as ended.
	assert_int_equal(take(lab, &more), WEIR_SHED_REFUSED);
	assert_int_equal(lab->refusal, WEIR_AGENT_REFUSAL_RATE);
	lab->clock_ms += 2000 - 10 * WEIR_SHED_ORDERS; // the deadline of the first order
	more.deadline_ms = lab->clock_ms + 1000;
	assert_int_equal(take(lab, &more), WEIR_SHED_NEW);
	weir_shed_orders_end(&lab->orders, WEIR_AGENT_SHED_DONE);
	for (uint64_t balancer = 2; balancer <= WEIR_SHED_ORDERS; balancer++) {
		struct weir_agent_shed shed = order(lab, balancer, 1);

		assert_int_equal(take(lab, &shed), WEIR_SHED_KNOWN);
	}
}

// Checks that the number of connections ended in each second is at most the rate plus one burst.
static void expect_rate(uint32_t rate_milli_per_s, uint32_t step_ms) {
	struct lab lab = {.clock_ms = 100000};
	uint32_t ended[10] = {0};
	uint64_t id = 0;

	for (uint64_t at_ms = 0; at_ms < 10000; at_ms += step_ms) {
		struct weir_agent_shed shed;

		lab.clock_ms = 100000 + at_ms;
		if (weir_shed_orders_is_over(&lab.orders, lab.clock_ms)) {
			weir_shed_orders_end(&lab.orders, WEIR_AGENT_SHED_DONE);
		}
		if (lab.orders.active == NULL) {
			shed = order(&lab, 7, ++id);
			shed.rate_milli_per_s = rate_milli_per_s;
			shed.count = WEIR_AGENT_SHED_COUNT_MOST;
			assert_int_equal(take(&lab, &shed), WEIR_SHED_NEW);
		}
		ended[at_ms / 1000] += spend(&lab);
	}
	for (uint32_t i = 0; i < 10; i++) {
		uint32_t burst = rate_milli_per_s * BURST_MS / 1000000;

		assert_true(ended[i] <= (rate_milli_per_s + 999) / 1000 + (burst > 1 ? burst : 1));
	}
	// Together, successive orders use the full rate.
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 10; i++) {
		sum += ended[i];
	}
	assert_true(sum * 1000 >= rate_milli_per_s * 9 &&
		    sum * 1000 <= rate_milli_per_s * 10 + 1000 + rate_milli_per_s / 10);
}

TEST(rate_limits_all_orders_together) {
	static const uint32_t rates[] = {200, 500, 1000, 1500, 10000, 50000, 333000, 1000000};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		expect_rate(rates[i], 100);
		expect_rate(rates[i], 37);
	}
}

// Tests rates whose interval between connections is not a whole number of microseconds.
TEST(rate_holds_for_an_hour) {
	static const uint32_t rates[] = {999001, 700001, 333000};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		const uint64_t seconds = 3600, begin_ms = 100000;
		struct lab lab = {.clock_ms = begin_ms};
		uint64_t ended = 0, id = 0;

		for (; lab.clock_ms < begin_ms + seconds * 1000; lab.clock_ms += BURST_MS) {
			if (weir_shed_orders_is_over(&lab.orders, lab.clock_ms)) {
				weir_shed_orders_end(&lab.orders, WEIR_AGENT_SHED_DONE);
			}
			if (lab.orders.active == NULL) {
				struct weir_agent_shed shed = order(&lab, 7, ++id);

				shed.rate_milli_per_s = rates[i];
				shed.count = WEIR_AGENT_SHED_COUNT_MOST;
				assert_int_equal(take(&lab, &shed), WEIR_SHED_NEW);
			}
			ended += spend(&lab);
		}
		assert_true(ended * 1000 <= rates[i] * seconds + rates[i] / 1000 * BURST_MS);
		assert_true(ended * 1000 >= rates[i] * seconds / 100 * 98);
	}
}

TEST(unused_tokens_are_lost) {
	struct lab *lab = *state;
	struct weir_agent_shed shed = order(lab, 7, 1);

	shed.count = 1000;
	shed.rate_milli_per_s = 100000;
	assert_int_equal(take(lab, &shed), WEIR_SHED_NEW);
	lab->clock_ms += 1900;
	// connections that the rate permits in the last tenth of a second
	assert_int_equal(spend(lab), 10);
	assert_int_equal(spend(lab), 0);
}

TEST(dry_run_is_over_at_once) {
	struct lab *lab = *state;
	struct weir_agent_shed shed = order(lab, 7, 1);

	shed.count = 0;
	assert_int_equal(take(lab, &shed), WEIR_SHED_NEW);
	assert_int_equal(spend(lab), 0);
	assert_true(weir_shed_orders_is_over(&lab->orders, lab->clock_ms));
}
