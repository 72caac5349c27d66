// SPDX-License-Identifier: BSD-3-Clause
//
// Prequal: the hot-cold rule, and the maximum number of uses of a probe's result.
#include <math.h>

#include "prequal.h"
#include "replay.h"

#define TOLERANCE 1e-12
#define PER_MS 1000.0

bool replay_prequal_recognise(const json_t *root) {
	return replay_has(root, "hcl") || replay_has(root, "b_reuse");
}

static void replay_pick(struct replay *replay, const json_t *vector) {
	const json_t *list = replay_list(replay, vector, "pool_rif_latency_ms");
	uint32_t hot = replay_uint(replay, vector, "theta_rif", 0);
	struct weir_probe probes[WEIR_POLICY_PROBES] = {0};
	uint32_t count = 0, picked;
	const json_t *pair;
	size_t i;

	if (!replay_known_keys(replay, vector, "pool_rif_latency_ms theta_rif pick branch") ||
		!replay_check(replay, "a pool", -1, true,
			json_array_size(list) > 0 && json_array_size(list) <= WEIR_POLICY_PROBES)) {
		return;
	}
	json_array_foreach (list, i, pair) {
		probes[count].active = (uint32_t)json_number_value(json_array_get(pair, 0));
		probes[count++].latency =
			(uint32_t)(json_number_value(json_array_get(pair, 1)) * PER_MS);
	}
	picked = weir_prequal_pick(probes, count, hot);
	replay_check(replay, "pick", -1, replay_uint(replay, vector, "pick", UINT32_MAX), picked);
	replay_check_text(replay, "branch", -1, replay_text(replay, vector, "branch", ""),
		probes[picked].active > hot ? "hot" : "cold");
}

static void replay_reuse(struct replay *replay, const json_t *vector) {
	double reuse = weir_prequal_reuse(replay_uint(replay, vector, "n_replicas", 0),
		replay_uint(replay, vector, "pool_m", 0), replay_real(replay, vector, "r_probe", 0),
		replay_real(replay, vector, "r_remove", 0),
		replay_real(replay, vector, "delta", 0));
	const json_t *expected = json_object_get(vector, "b_reuse");

	if (!replay_known_keys(
		    replay, vector, "n_replicas pool_m r_probe r_remove delta b_reuse")) {
		return;
	}
	if (json_is_null(expected)) {
		replay_check(replay, "without bound", -1, true, isinf(reuse) != 0);
	} else {
		replay_check_real(
			replay, "b_reuse", -1, json_number_value(expected), reuse, TOLERANCE);
	}
}

void replay_prequal(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "hcl b_reuse");
	json_array_foreach (json_object_get(root, "hcl"), i, vector) {
		replay_begin(replay, "hot and cold %zu", i);
		replay_pick(replay, vector);
		replay_end(replay);
	}
	json_array_foreach (json_object_get(root, "b_reuse"), i, vector) {
		replay_begin(replay, "reuse %zu", i);
		replay_reuse(replay, vector);
		replay_end(replay);
	}
}
