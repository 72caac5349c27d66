// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: the factor at a given time, and the resulting weight of a backend with weight 100.
// Panic: whether panic mode is active for a given number of available hosts. weir-control
// determines the hosts used in panic mode; its unit tests use the same table.
#include <math.h>

#include "panic.h"
#include "replay.h"
#include "slow_start.h"

#define TOLERANCE 1e-12
#define MS_PER_S 1000

bool replay_slow_start_recognise(const json_t *root) {
	return replay_has(root, "slow_start") || replay_has(root, "panic");
}

static void replay_factor(struct replay *replay, const json_t *vector) {
	const struct weir_slow_start_settings settings = {
		.window_ms =
			(uint64_t)llround(replay_real(replay, vector, "window_s", 0) * MS_PER_S),
		.aggression = replay_real(replay, vector, "aggression", 1),
		.least = replay_real(replay, vector, "min_weight", 0),
	};
	uint64_t t_ms =
		(uint64_t)llround(replay_real(replay, vector, "t_since_start_s", 0) * MS_PER_S);
	double factor = weir_slow_start_factor(&settings, t_ms);

	if (!replay_known_keys(replay, vector,
		    "window_s aggression min_weight t_since_start_s factor weight_of_100")) {
		return;
	}
	replay_check_real(replay, "factor", -1, replay_real(replay, vector, "factor", NAN), factor,
		TOLERANCE);
	replay_check_real(replay, "weight of 100", -1,
		replay_real(replay, vector, "weight_of_100", NAN), 100 * factor, TOLERANCE);
}

static void replay_panic(struct replay *replay, const json_t *vector) {
	uint32_t hosts = replay_uint(replay, vector, "hosts", 0);
	uint32_t available = replay_uint(replay, vector, "available", 0);
	uint32_t threshold = replay_uint(replay, vector, "threshold_percent", 50);
	bool panic = weir_panic(available, hosts, threshold);

	if (!replay_known_keys(replay, vector,
		    "hosts available threshold_percent available_percent_int panic candidates")) {
		return;
	}
	replay_check(replay, "percent", -1, replay_uint(replay, vector, "available_percent_int", 0),
		hosts > 0 ? 100 * available / hosts : 0);
	replay_check(replay, "panic", -1, json_is_true(json_object_get(vector, "panic")), panic);
	replay_check(replay, "candidates", -1, replay_uint(replay, vector, "candidates", 0),
		panic ? hosts : available);
}

void replay_slow_start(struct replay *replay, const json_t *root) {
	replay_root(replay, root, "slow_start panic");
	replay_each(replay, root, "slow_start", replay_factor);
	replay_each(replay, root, "panic", replay_panic);
}
