// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of balancers and the drain: which balancers the agent has registered, what they have
// acknowledged, and when a drain has ended.
#include <stdlib.h>
#include <string.h>

#include "balancers.h"
#include "drain.h"
#include "test.h"

#define AGENT 77

static const struct weir_path path = {.peer_bytes = 16};

static int setup(void **state) {
	*state = calloc(1, sizeof(struct weir_balancers));
	return 0;
}

static int teardown(void **state) {
	free(*state);
	return 0;
}

static struct weir_balancer *take(struct weir_balancers *balancers, uint64_t id, uint64_t sequence,
	uint32_t acknowledged, uint64_t now_ms) {
	struct weir_agent_probe probe = {.balancer = id,
		.sequence = sequence,
		.agent = AGENT,
		.acknowledged = acknowledged,
		.interval_ms = 1000,
		.wants = 1u << id % 32};
	enum weir_agent_refusal refusal = WEIR_AGENT_REFUSAL_NONE;
	struct weir_balancer *balancer =
		weir_balancers_take(balancers, &probe, AGENT, &path, now_ms, &refusal);

	assert_int_equal(balancer == NULL, refusal != WEIR_AGENT_REFUSAL_NONE);
	return balancer;
}

TEST(balancers_are_known_while_they_probe, setup, teardown) {
	struct weir_balancers *balancers = *state;

	assert_non_null(take(balancers, 1, 1, 0, 1000));
	assert_non_null(take(balancers, 2, 1, 0, 2000));
	assert_int_equal(weir_balancers_wants(balancers), 6);
	assert_int_equal(weir_balancers_expire(balancers, 5000), 2);
	assert_int_equal(weir_balancers_expire(balancers, 5001), 1);
	assert_int_equal(weir_balancers_wants(balancers), 4);
	assert_int_equal(weir_balancers_unacknowledged(balancers, 1), 1);
}

TEST(balancers_accept_a_number_once, setup, teardown) {
	struct weir_balancers *balancers = *state;

	assert_non_null(take(balancers, 1, 5, 0, 1000));
	assert_null(take(balancers, 1, 5, 0, 1001));
	// a probe that arrives after a newer probe is refused
	assert_null(take(balancers, 1, 4, 0, 1002));
	assert_non_null(take(balancers, 1, 6, 0, 1003));
	// the balancer has expired, but its old sequence numbers are still refused
	weir_balancers_expire(balancers, 9000);
	assert_null(take(balancers, 1, 6, 0, 9001));
}

TEST(balancers_are_bounded, setup, teardown) {
	struct weir_balancers *balancers = *state;

	for (uint64_t i = 1; i <= WEIR_BALANCERS_MAX; i++) {
		assert_non_null(take(balancers, i, 1, 0, 1000));
	}
	assert_null(take(balancers, 1000, 1, 0, 1000));
	assert_non_null(take(balancers, 1, 2, 0, 1000));
}

TEST(balancers_acknowledge_only_this_process, setup, teardown) {
	struct weir_balancers *balancers = *state;
	struct weir_agent_probe probe = {.balancer = 1,
		.sequence = 1,
		.agent = AGENT + 1, // an earlier process of the agent, whose serial was 9
		.acknowledged = 9,
		.interval_ms = 1000};
	enum weir_agent_refusal refusal;

	assert_non_null(weir_balancers_take(balancers, &probe, AGENT, &path, 1000, &refusal));
	take(balancers, 1, 2, 0, 1000);
	assert_int_equal(weir_balancers_unacknowledged(balancers, 1), 1);
	take(balancers, 1, 3, 1, 1000);
	assert_int_equal(weir_balancers_unacknowledged(balancers, 1), 0);
}

// A probe to an earlier agent process may be a replay, and its sender may no longer be a balancer.
// The test sends such probes from more balancers than fit in the table, with high sequence numbers.
TEST(probes_to_an_earlier_process_are_answered_without_state, setup, teardown) {
	struct weir_balancers *balancers = *state;

	assert_non_null(take(balancers, 1, 5, 0, 1000));
	for (uint64_t i = 1; i <= 2 * WEIR_BALANCERS_MAX; i++) {
		struct weir_agent_probe probe = {.balancer = i,
			.sequence = UINT64_MAX - 1,
			.agent = i % 2 == 0 ? 0 : AGENT + 1,
			.interval_ms = WEIR_AGENT_INTERVAL_MOST_MS,
			.wants = UINT32_MAX};
		enum weir_agent_refusal refusal;
		const struct weir_balancer *balancer =
			weir_balancers_take(balancers, &probe, AGENT, &path, 1000, &refusal);

		assert_non_null(balancer);
		assert_int_equal(balancer->id, i);
	}
	weir_balancers_announce(balancers, 1000);
	assert_int_equal(weir_balancers_unacknowledged(balancers, 2), 1);
	assert_int_equal(weir_balancers_wants(balancers), 2);
	assert_non_null(weir_balancers_next_to_notify(balancers, 2, 1000));
	assert_null(weir_balancers_next_to_notify(balancers, 2, 1000));
	assert_non_null(take(balancers, 1, 6, 2, 1000));
	assert_non_null(take(balancers, 2, 1, 2, 1000));
}

static uint32_t acknowledged_until(
	struct weir_balancers *balancers, uint64_t from_ms, uint64_t to_ms) {
	uint32_t count = 0;

	for (uint64_t now_ms = from_ms; now_ms < to_ms; now_ms++) {
		while (weir_balancers_next_to_notify(balancers, 2, now_ms) != NULL) {
			count++;
		}
	}
	return count;
}

TEST(balancers_get_notices_at_growing_intervals, setup, teardown) {
	struct weir_balancers *balancers = *state;

	take(balancers, 1, 1, 1, 1000);
	take(balancers, 2, 1, 1, 1000);
	weir_balancers_announce(balancers, 1000);
	// this balancer is added later, and its first answer already contains the state
	take(balancers, 3, 1, 0, 1000);
	assert_int_equal(acknowledged_until(balancers, 1000, 1001), 2);
	assert_int_equal(acknowledged_until(balancers, 1001, 1050), 0);
	take(balancers, 2, 2, 2, 1049);
	assert_int_equal(acknowledged_until(balancers, 1050, 1051), 1);
	// retransmissions after 100, 200 and 400 ms
	assert_int_equal(acknowledged_until(balancers, 1051, 1751), 3);
	// then a retransmission every 500 ms
	assert_int_equal(acknowledged_until(balancers, 1751, 3751), 4);
}

// --- drain --------------------------------------------------------------------------------

TEST(drain_waits_for_balancers_and_connections) {
	struct weir_drain drain = {0};

	assert_int_equal(weir_drain_step(&drain, 10, 0, 0, 0), WEIR_DRAIN_NONE);
	weir_drain_begin(&drain, 1000, 5000, false);
	assert_int_equal(weir_drain_step(&drain, 1000, 1, 0, 0), WEIR_DRAIN_TELLING);
	assert_int_equal(weir_drain_step(&drain, 1500, 1, 0, 0), WEIR_DRAIN_TELLING);
	assert_int_equal(weir_drain_step(&drain, 2000, 0, 3, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 2500, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 2799, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 2800, 0, 0, 0), WEIR_DRAIN_DONE);
}

TEST(drain_is_not_idle_when_a_connection_arrives) {
	struct weir_drain drain = {0};

	weir_drain_begin(&drain, 1000, 5000, false);
	assert_int_equal(weir_drain_step(&drain, 1000, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1290, 0, 1, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1400, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1699, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1700, 0, 0, 0), WEIR_DRAIN_DONE);
}

// A half-open connection delays the end of the drain, but only for the usual time of a handshake.
// Otherwise a SYN flood would delay the end forever.
TEST(half_open_connections_delay_a_drain_briefly) {
	struct weir_drain drain = {0};

	weir_drain_begin(&drain, 1000, 60000, false);
	assert_int_equal(weir_drain_step(&drain, 1000, 1, 0, 500), WEIR_DRAIN_TELLING);
	assert_int_equal(weir_drain_step(&drain, 9000, 0, 0, 500), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 10499, 0, 0, 500), WEIR_DRAIN_SERVING);
	assert_int_equal(drain.connections, 500);
	assert_int_equal(weir_drain_step(&drain, 10500, 0, 0, 500), WEIR_DRAIN_SERVING);
	assert_int_equal(drain.connections, 0);
	assert_int_equal(weir_drain_step(&drain, 10600, 0, 1, 500), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 10700, 0, 0, 500), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 11000, 0, 0, 500), WEIR_DRAIN_DONE);
	// a half-open connection that has ended does not delay the drain
	weir_drain_begin(&drain, 1000, 60000, false);
	assert_int_equal(weir_drain_step(&drain, 1000, 0, 0, 1), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1200, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 1500, 0, 0, 0), WEIR_DRAIN_DONE);
}

// If no balancer was known at the start of the drain, the drain lasts for the whole interval, even
// if a balancer is notified later. Other balancers may still start to probe the agent.
TEST(patient_drain_without_balancers_lasts_for_the_whole_interval) {
	struct weir_drain drain = {0};

	weir_drain_begin(&drain, 1000, 5000, true);
	weir_drain_note_balancers(&drain, 0, 0);
	assert_int_equal(weir_drain_step(&drain, 1000, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 3000, 0, 0, 0), WEIR_DRAIN_SERVING);
	weir_drain_note_balancers(&drain, 1, 1);
	assert_false(drain.notified);
	weir_drain_note_balancers(&drain, 1, 0);
	assert_true(drain.notified);
	assert_int_equal(weir_drain_step(&drain, 5999, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 6000, 0, 0, 0), WEIR_DRAIN_DEADLINE);
	// the only balancer leaves after it was notified
	weir_drain_begin(&drain, 1000, 5000, true);
	weir_drain_note_balancers(&drain, 1, 0);
	assert_int_equal(weir_drain_step(&drain, 1000, 0, 0, 0), WEIR_DRAIN_SERVING);
	weir_drain_note_balancers(&drain, 0, 0);
	assert_int_equal(weir_drain_step(&drain, 1300, 0, 0, 0), WEIR_DRAIN_DONE);
	// the only balancer leaves before it was notified
	weir_drain_begin(&drain, 1000, 5000, true);
	weir_drain_note_balancers(&drain, 1, 1);
	assert_int_equal(weir_drain_step(&drain, 1000, 1, 0, 0), WEIR_DRAIN_TELLING);
	weir_drain_note_balancers(&drain, 0, 0);
	assert_int_equal(weir_drain_step(&drain, 2000, 0, 0, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 2400, 0, 0, 0), WEIR_DRAIN_SERVING);
}

TEST(drain_ends_at_its_deadline) {
	struct weir_drain drain = {0};

	weir_drain_begin(&drain, 1000, 5000, false);
	assert_int_equal(weir_drain_step(&drain, 5999, 0, UINT32_MAX, 0), WEIR_DRAIN_SERVING);
	assert_int_equal(weir_drain_step(&drain, 6000, 2, 1, 0), WEIR_DRAIN_DEADLINE);
	weir_drain_begin(&drain, 7000, 1000, false); // a second drain
	assert_int_equal(weir_drain_step(&drain, 7000, 2, 1, 0), WEIR_DRAIN_TELLING);
	weir_drain_end(&drain);
	assert_int_equal(weir_drain_step(&drain, 9000, 0, 0, 0), WEIR_DRAIN_NONE);
}

// With many connections, counting them takes long.
TEST(drain_pauses_longer_after_an_expensive_step) {
	const uint64_t ms = 1000000;
	struct weir_drain drain = {0};

	weir_drain_begin(&drain, 1000, 5000, false);
	assert_int_equal(weir_drain_pause_ms(&drain, 1000, 5 * ms), 100);
	assert_int_equal(weir_drain_pause_ms(&drain, 1000, 50 * ms), 500);
	assert_int_equal(weir_drain_pause_ms(&drain, 1000, 500 * ms), 1000);
	assert_int_equal(weir_drain_pause_ms(&drain, 5990, 500 * ms), 10);
	assert_int_equal(weir_drain_pause_ms(&drain, 6001, 500 * ms), 0);
}
