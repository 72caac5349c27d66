// SPDX-License-Identifier: BSD-3-Clause
//
// Tests replays. The test makes the recordings: flows begin as a Poisson process, are assigned to
// the backends in turn, and have exponential durations.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flow_replay.h"
#include "prng.h"
#include "test.h"

#define FLOWS 40000u
#define BACKENDS 10u
#define WORKERS 2u
#define GAP_NS 1000000.0 // 1,000 flows a second
#define MS 1000000.0

struct recording {
	struct weir_replay_flow *flows;
	struct weir_replay_backend backends[BACKENDS];
	struct weir_replay_params params;
};

static double exponential(struct weir_prng *random, double mean) {
	double uniform = (double)(weir_prng_next(random) >> 11) / 9007199254740992.0;

	return -mean * log(1 - uniform);
}

// time_ms[i] is the mean duration of flows at backend i.
static void record(struct recording *recording, const double *time_ms) {
	struct weir_prng random = {7};
	double now_ns = 1e12;

	recording->flows = calloc(FLOWS, sizeof(*recording->flows));
	assert_non_null(recording->flows);
	for (uint32_t i = 0; i < FLOWS; i++) {
		uint32_t backend = i % BACKENDS;

		now_ns += exponential(&random, GAP_NS);
		recording->flows[i] = (struct weir_replay_flow){.start_ns = (uint64_t)now_ns,
			.service_ns = (uint64_t)exponential(&random, time_ms[backend] * MS) + 1,
			.backend = (uint16_t)backend,
			.worker = (uint16_t)(i / 7 % WORKERS)};
	}
	for (uint32_t i = 0; i < BACKENDS; i++) {
		recording->backends[i] = (struct weir_replay_backend){
			.identity = i * 77, .subsets = 1, .weight = 100};
	}
	recording->params = (struct weir_replay_params){.flows = recording->flows,
		.flow_count = FLOWS,
		.backends = recording->backends,
		.backend_count = BACKENDS,
		.workers = WORKERS,
		.subsets = 1,
		.slots = 1009,
		.settings = {.error_window_ms = 1000},
		.scaled = true};
}

static void record_equal(struct recording *recording) {
	const double equal[BACKENDS] = {20, 20, 20, 20, 20, 20, 20, 20, 20, 20};

	record(recording, equal);
}

// Flows of backend 0 last ten times as long as flows of other backends.
static void record_slow(struct recording *recording) {
	const double slow[BACKENDS] = {200, 20, 20, 20, 20, 20, 20, 20, 20, 20};

	record(recording, slow);
}

struct outcome {
	struct weir_replay_result result;
	uint32_t flows_of[BACKENDS];
};

static struct outcome replay_in(const struct recording *recording, int policy, uint32_t slice) {
	struct outcome outcome;
	struct weir_replay *replay;

	assert_int_equal(weir_replay_create(&recording->params, policy, &replay), 0);
	while (!weir_replay_step(replay, slice)) {
	}
	weir_replay_read(replay, &outcome.result);
	memcpy(outcome.flows_of, outcome.result.flows_of, sizeof(outcome.flows_of));
	weir_replay_free(replay);
	return outcome;
}

static struct outcome replay(const struct recording *recording, int policy) {
	return replay_in(recording, policy, FLOWS);
}

TEST(recording_replayed_is_unchanged) {
	struct recording recording;
	struct outcome outcome;

	record_equal(&recording);
	outcome = replay(&recording, WEIR_REPLAY_RECORDED);
	assert_int_equal(outcome.result.flows, FLOWS);
	for (uint32_t i = 0; i < BACKENDS; i++) {
		assert_int_equal(outcome.flows_of[i], FLOWS / BACKENDS);
	}
	// 1,000 flows of 20 ms per second, at 10 backends.
	assert_float_equal(outcome.result.active_mean, 2.0, 0.1);
	free(recording.flows);
}

TEST(slices_make_no_difference) {
	struct recording recording;

	record_slow(&recording);
	for (int policy = WEIR_REPLAY_RECORDED; policy < WEIR_POLICY_COUNT; policy++) {
		struct outcome whole, slices;

		if (policy != WEIR_REPLAY_RECORDED && !weir_replay_can((enum weir_policy)policy)) {
			continue;
		}
		whole = replay(&recording, policy);
		slices = replay_in(&recording, policy, 997);
		assert_memory_equal(whole.flows_of, slices.flows_of, sizeof(whole.flows_of));
		assert_true(whole.result.spread == slices.result.spread);
		assert_true(whole.result.spread >= 1);
	}
	free(recording.flows);
}

// The recorded flows were assigned to the backends in turn. A replay with round-robin gives
// nearly the same result if the replay scales the duration of each flow to its new backend.
TEST(replay_of_the_policy_in_use_is_near_to_the_recording) {
	struct recording recording;
	double was, scaled, measured;

	record_slow(&recording);
	was = replay(&recording, WEIR_REPLAY_RECORDED).result.spread;
	scaled = replay(&recording, WEIR_POLICY_ROUND_ROBIN).result.spread;
	recording.params.scaled = false;
	measured = replay(&recording, WEIR_POLICY_ROUND_ROBIN).result.spread;
	// 20 of the 38 flows in progress are at the slow backend, ten times as many as at each
	// other backend
	assert_true(was > 5);
	assert_float_equal(scaled / was, 1, 0.1);
	assert_true(measured < was / 2);
	free(recording.flows);
}

TEST(policies_that_use_load_relieve_the_slow_backend) {
	static const enum weir_policy listening[] = {WEIR_POLICY_LEAST_LOADED,
		WEIR_POLICY_POWER_OF_TWO, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN,
		WEIR_POLICY_FAIR_SHARE};
	static const enum weir_policy deaf[] = {
		WEIR_POLICY_ROUND_ROBIN, WEIR_POLICY_RANDOM, WEIR_POLICY_WEIGHTED_ROUND_ROBIN};
	struct recording recording;

	record_slow(&recording);
	for (size_t i = 0; i < sizeof(listening) / sizeof(listening[0]); i++) {
		assert_true(replay(&recording, (int)listening[i]).flows_of[0] < FLOWS / 20);
	}
	for (size_t i = 0; i < sizeof(deaf) / sizeof(deaf[0]); i++) {
		assert_in_range(
			replay(&recording, (int)deaf[i]).flows_of[0], FLOWS / 11, FLOWS / 9);
	}
	free(recording.flows);
}

TEST(weights_and_subsets_are_those_of_the_service) {
	struct recording recording;
	struct outcome outcome;

	record_equal(&recording);
	recording.backends[1].weight = 300;
	recording.backends[2].weight = 0;
	recording.backends[3].subsets = 0;
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		if (weir_replay_can((enum weir_policy)policy)) {
			outcome = replay(&recording, policy);
			assert_int_equal(outcome.flows_of[2] + outcome.flows_of[3], 0);
		}
	}
	outcome = replay(&recording, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	assert_in_range(
		outcome.flows_of[1], 29 * outcome.flows_of[0] / 10, 31 * outcome.flows_of[0] / 10);
	outcome = replay(&recording, WEIR_POLICY_MAGLEV);
	assert_in_range(outcome.flows_of[1], 2 * outcome.flows_of[0], 4 * outcome.flows_of[0]);
	// The subset of worker 0 contains only backend 0. The subset of worker 1 contains all other
	// backends.
	recording.params.subsets = 2;
	for (uint32_t i = 0; i < BACKENDS; i++) {
		recording.backends[i].subsets = i == 0 ? 1 : 2;
	}
	outcome = replay(&recording, WEIR_POLICY_ROUND_ROBIN);
	assert_in_range(outcome.flows_of[0], FLOWS / 2 - 10, FLOWS / 2 + 10);
	free(recording.flows);
}

TEST(limits_spill_or_reject) {
	struct recording recording;
	struct outcome outcome;

	record_slow(&recording);
	recording.params.settings.max_active_flows = 1; // the workers share this limit
	outcome = replay(&recording, WEIR_POLICY_ROUND_ROBIN);
	assert_true(outcome.result.spilled > 0);
	assert_int_equal(outcome.result.flows, FLOWS);
	recording.params.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	outcome = replay(&recording, WEIR_POLICY_ROUND_ROBIN);
	assert_true(outcome.result.rejected > 0);
	assert_int_equal(outcome.result.flows + outcome.result.rejected, FLOWS);
	assert_true(outcome.result.active_most <= 1);
	for (uint32_t i = 0; i < BACKENDS; i++) {
		recording.backends[i].subsets = 0; // no backend is in a subset
	}
	outcome = replay(&recording, WEIR_POLICY_LEAST_LOADED);
	assert_int_equal(outcome.result.rejected, FLOWS);
	assert_true(outcome.result.spread == 0);
	free(recording.flows);
}

TEST(recordings_of_nothing_and_of_one_flow) {
	struct recording recording;

	record_equal(&recording);
	for (uint32_t flows = 0; flows <= 1; flows++) {
		recording.params.flow_count = flows;
		for (int policy = WEIR_REPLAY_RECORDED; policy < WEIR_POLICY_COUNT; policy++) {
			if (policy == WEIR_REPLAY_RECORDED ||
				weir_replay_can((enum weir_policy)policy)) {
				assert_int_equal(replay(&recording, policy).result.flows, flows);
			}
		}
	}
	free(recording.flows);
}

TEST(policies_that_need_more_are_refused) {
	struct recording recording;
	struct weir_replay *replay;

	record_equal(&recording);
	assert_int_equal(
		weir_replay_create(&recording.params, WEIR_POLICY_COUNT, &replay), -EINVAL);
	assert_true(weir_replay_can(WEIR_POLICY_MAGLEV));
	assert_true(weir_replay_can(WEIR_POLICY_FAIR_SHARE));
	free(recording.flows);
}
