// SPDX-License-Identifier: BSD-3-Clause
//
// Weighted schedules: Weir's policies (static stride, time-weighted, interleaved), and the
// reference schedules that they are compared with.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capability.h"
#include "policy_client.h"
#include "replay.h"
#include "schedules.h"

#define NS_PER_MS 1e6

bool replay_schedules_recognise(const json_t *root) {
	return replay_has(root, "integer_weight_schedules") || replay_has(root, "edge_weights") ||
	       replay_has(root, "long_run") || replay_has(root, "execution_time_weight_schedules");
}

static bool are_whole(const double *weights, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		if (weights[i] != floor(weights[i]) || weights[i] > UINT32_MAX) {
			return false;
		}
	}
	return true;
}

static uint32_t *whole_weights(struct replay *replay, const double *weights, uint32_t n) {
	uint32_t *whole;

	if (weights == NULL || !are_whole(weights, n)) {
		replay_fail(replay, "weights are missing or not integers");
		return NULL;
	}
	whole = replay_alloc(n * sizeof(whole[0]));
	for (uint32_t i = 0; i < n; i++) {
		whole[i] = (uint32_t)weights[i];
	}
	return whole;
}

static void check_sequence(struct replay *replay, struct policy_client *with, const json_t *list) {
	const json_t *value;
	size_t i;

	if (!json_is_array(list)) {
		replay_fail(replay, "no list of choices");
		return;
	}
	json_array_foreach (list, i, value) {
		replay_check(replay, "choice", (long)i, replay_key(replay, value),
			policy_client_choose(with, 0));
	}
}

// --- reference schedules ----------------------------------------------------------------------

static void replay_reference(struct replay *replay, enum weir_schedule_kind kind,
	const uint32_t *weights, uint32_t n, const json_t *list) {
	struct weir_schedule *schedule = weir_schedule_create(kind, weights, n);
	const json_t *value;
	size_t i;

	if (schedule == NULL || !json_is_array(list)) {
		replay_fail(replay, "no weights or no list of choices");
	} else {
		json_array_foreach (list, i, value) {
			replay_check(replay, "choice", (long)i, replay_key(replay, value),
				weir_schedule_next(schedule));
		}
	}
	weir_schedule_free(schedule);
}

// --- static stride ------------------------------------------------------------------------------

// Creates a client. A weight of 0 means "unknown". If no weight is known, no client is created.
// Returns the number of known weights.
static uint32_t create_stride(
	const double *weights, uint32_t n, bool reported, struct policy_client **ret_with) {
	uint32_t *whole = replay_alloc(n * sizeof(whole[0]));
	uint32_t known = weir_capability_weights(weights, n, whole);
	struct policy_client *with = NULL;

	if (known > 0) {
		with = policy_client_create(WEIR_POLICY_WEIGHTED_ROUND_ROBIN, n);
		for (uint32_t i = 0; i < n; i++) {
			policy_client_add(with, i, whole[i]);
		}
		policy_client_adopt(with, reported, 0);
	}
	free(whole);
	*ret_with = with;
	return known;
}

// Returns whether the recorded program uses round robin instead of weights: with fewer than two
// backends, or if no weight is known; grpc-go also if fewer than two weights are known, or if all
// scaled weights are equal. Weir has no such fallback, but with equal strides its schedule is round
// robin.
static bool is_fallback(const struct policy_client *with, uint32_t n, uint32_t known, bool go) {
	bool equal = true;

	for (uint32_t i = 1; i < n && known > 0; i++) {
		equal = equal && with->candidates[i].stride == with->candidates[0].stride;
	}
	return n < 2 || known == 0 || (go && (known < 2 || equal));
}

// grpc-go rounds a very small weight to 0, so that its backend is never chosen. In Weir the rounded
// weight is at least 1.
static void check_scaled(
	struct replay *replay, const struct policy_client *with, const json_t *scaled, bool go) {
	const json_t *value;
	size_t i;

	replay_check(replay, "number of scaled weights", -1, (long long)json_array_size(scaled),
		with->table.count);
	json_array_foreach (scaled, i, value) {
		long long expected = json_integer_value(value);

		if (i < with->table.count) {
			replay_check(replay, "scaled weight", (long)i,
				go && expected == 0 ? 1 : expected, with->candidates[i].stride);
		}
	}
}

// In a trace, null means the fallback to round robin.
static void check_weights(struct replay *replay, const struct policy_client *with, uint32_t n,
	uint32_t known, const json_t *scaled, bool go) {
	bool fallback = is_fallback(with, n, known, go);

	if (scaled == NULL) {
		return;
	}
	replay_check(replay, "falls back to round robin", -1, json_is_null(scaled), fallback);
	if (with != NULL && json_is_array(scaled)) {
		check_scaled(replay, with, scaled, go);
	}
}

static uint64_t probes(const struct policy_client *with) {
	return (uint64_t)with->client.generation * with->table.count + with->client.cursor;
}

static void check_round_robin(struct replay *replay, struct policy_client *with) {
	uint32_t n = with->table.count;

	for (uint32_t i = 0; i < 2 * n; i++) {
		replay_check(
			replay, "choice of the fallback", i, i % n, policy_client_choose(with, 0));
	}
}

static void replay_stride(
	struct replay *replay, const double *weights, uint32_t n, const json_t *expected, bool go) {
	const json_t *list = json_object_get(expected, "sequence_from_seq0");
	const char *fallback = replay_text(replay, expected, "fallback", NULL);
	struct policy_client *with;
	uint32_t known;

	if (weights == NULL ||
		!replay_known_keys(replay, expected, "scaled sequence_from_seq0 probes fallback")) {
		replay_fail(replay, "no weights");
		return;
	}
	known = create_stride(weights, n, !go, &with);
	check_weights(replay, with, n, known, json_object_get(expected, "scaled"), go);
	if (fallback != NULL) {
		replay_check_text(replay, "fallback", -1, fallback, "round robin");
		if (with != NULL && known == n) {
			check_round_robin(replay, with);
		}
	}
	if (with != NULL && list != NULL) {
		uint64_t before = probes(with);

		check_sequence(replay, with, list);
		if (replay_has(expected, "probes")) {
			replay_check(replay, "probes", -1,
				replay_uint(replay, expected, "probes", 0),
				(long long)(probes(with) - before));
		}
	}
	policy_client_free(with);
}

static void replay_edge(
	struct replay *replay, const double *weights, uint32_t n, const json_t *scaled, bool go) {
	struct policy_client *with = NULL;
	uint32_t known;

	if (weights == NULL) {
		replay_fail(replay, "no weights");
		return;
	}
	known = create_stride(weights, n, !go, &with);
	check_weights(replay, with, n, known, scaled, go);
	policy_client_free(with);
}

// Checks the key counts_N: how often each backend is chosen in N choices.
static void check_counts(
	struct replay *replay, struct policy_client *with, const char *key, const json_t *counts) {
	uint32_t *got = replay_alloc(with->table.count * sizeof(got[0]));
	const json_t *value;
	unsigned int choices;
	size_t i;

	if (sscanf(key, "counts_%u", &choices) != 1) {
		replay_fail(replay, "unknown key \"%s\"", key);
		choices = 0;
	}
	for (unsigned int choice = 0; choice < choices; choice++) {
		long id = policy_client_choose(with, 0);

		if (id >= 0) {
			got[id]++;
		}
	}
	json_array_foreach (counts, i, value) {
		replay_check(replay, "count", (long)i, json_integer_value(value),
			i < with->table.count ? got[i] : 0);
	}
	free(got);
}

static double max_over_mean(const struct policy_client *with) {
	double sum = 0, most = 0;

	for (uint32_t i = 0; i < with->table.count; i++) {
		sum += with->candidates[i].weight;
		most = fmax(most, with->candidates[i].weight);
	}
	return most / (sum / with->table.count);
}

static void replay_long_run(struct replay *replay, const json_t *vector) {
	uint32_t n = 0;
	double *weights = replay_reals(replay, vector, "weights", &n);
	struct policy_client *with = NULL;
	uint64_t choices = 0;
	const char *key;
	json_t *value;

	if (weights == NULL || create_stride(weights, n, true, &with) == 0) {
		replay_fail(replay, "no weights");
		free(weights);
		return;
	}
	json_object_foreach ((json_t *)vector, key, value) {
		if (strcmp(key, "scaled") == 0) {
			check_scaled(replay, with, value, false);
		} else if (strcmp(key, "max_over_mean") == 0) {
			replay_check_real(replay, key, -1, json_number_value(value),
				max_over_mean(with), 1e-6);
		} else if (strncmp(key, "counts_", 7) == 0) {
			check_counts(replay, with, key, value);
			choices = strtoull(key + 7, NULL, 10);
		} else if (strcmp(key, "weights") != 0 && strcmp(key, "probes_per_pick") != 0) {
			replay_known_keys(replay, vector,
				"weights scaled max_over_mean "
				"probes_per_pick counts_60000");
		}
	}
	if (replay_has(vector, "probes_per_pick") && choices > 0) {
		replay_check_real(replay, "probes_per_pick", -1,
			replay_real(replay, vector, "probes_per_pick", 0),
			(double)probes(with) / (double)choices, 1e-4);
	}
	policy_client_free(with);
	free(weights);
}

// --- weights that are execution times ---------------------------------------------------------

// Reads one cost for all candidates, or a list with one cost for each candidate.
static double *read_costs(struct replay *replay, const json_t *vector, uint32_t n) {
	const json_t *value = json_object_get(vector, "cost_ms");
	uint32_t count = n;
	double *costs;

	if (json_is_number(value)) {
		costs = replay_alloc(n * sizeof(costs[0]));
		for (uint32_t i = 0; i < n; i++) {
			costs[i] = json_number_value(value);
		}
		return costs;
	}
	costs = replay_reals(replay, vector, "cost_ms", &count);
	if (costs == NULL || count != n) {
		replay_fail(replay, "costs are missing or not one for each weight");
		free(costs);
		return NULL;
	}
	return costs;
}

// In the trace, weights are whole milliseconds, and costs are nanoseconds. A backend with weight 0
// is not a candidate.
static void replay_by_policy(struct replay *replay, enum weir_policy policy,
	enum weir_rounds rounds, const double *weights, const double *costs, uint32_t n,
	const json_t *list) {
	struct policy_client *with = policy_client_create(policy, n);
	uint32_t *whole = whole_weights(replay, weights, n);

	for (uint32_t i = 0; whole != NULL && i < n; i++) {
		with->cost_ns[i] = replay_ns(costs[i], NS_PER_MS);
		if (whole[i] > 0) {
			policy_client_add(with, i, whole[i]);
		}
	}
	if (whole != NULL) {
		with->table.settings.rounds = (uint8_t)rounds;
		policy_client_adopt(with, false, 0);
		check_sequence(replay, with, list);
	}
	free(whole);
	policy_client_free(with);
}

// --- sections --------------------------------------------------------------------------------

static void describe(const json_t *vector, const char *key, char *text, size_t size) {
	char *weights = json_dumps(json_object_get(vector, key), JSON_COMPACT | JSON_ENCODE_ANY);

	snprintf(text, size, "%.80s", weights != NULL ? weights : "?");
	free(weights);
}

static void replay_integer_weights(struct replay *replay, const json_t *vector) {
	uint32_t n = 0;
	double *weights = replay_reals(replay, vector, "weights", &n);
	uint32_t *whole = NULL;
	char text[100];
	const char *key;
	json_t *value;

	describe(vector, "weights", text, sizeof(text));
	json_object_foreach ((json_t *)vector, key, value) {
		if (strcmp(key, "weights") == 0) {
			continue;
		}
		replay_begin(replay, "%s of %s", key, text);
		free(whole);
		whole = strstr(key, "stride") == NULL ? whole_weights(replay, weights, n) : NULL;
		if (strcmp(key, "static_stride_core") == 0 ||
			strcmp(key, "static_stride_go") == 0) {
			replay_stride(replay, weights, n, value, key[14] == 'g');
		} else if (whole == NULL) {
			replay_fail(replay, "it cannot be replayed");
		} else if (strcmp(key, "classic_wrr") == 0) {
			replay_reference(replay, WEIR_SCHEDULE_CLASSIC, whole, n, value);
		} else if (strcmp(key, "interleaved_wrr") == 0) {
			replay_reference(replay, WEIR_SCHEDULE_INTERLEAVED, whole, n, value);
		} else if (strcmp(key, "smooth_wrr") == 0) {
			replay_reference(replay, WEIR_SCHEDULE_SMOOTH, whole, n, value);
		} else if (strcmp(key, "edf") == 0) {
			replay_reference(replay, WEIR_SCHEDULE_EDF, whole, n, value);
		} else {
			replay_known_keys(replay, vector,
				"weights static_stride_core static_stride_go classic_wrr "
				"interleaved_wrr smooth_wrr edf");
		}
		replay_end(replay);
	}
	free(whole);
	free(weights);
}

static void replay_edge_weights(struct replay *replay, const json_t *vector) {
	uint32_t n = 0;
	double *weights = replay_reals(replay, vector, "weights", &n);
	char text[100];
	const char *key;
	json_t *value;

	describe(vector, "weights", text, sizeof(text));
	json_object_foreach ((json_t *)vector, key, value) {
		if (strcmp(key, "weights") == 0) {
			continue;
		}
		replay_begin(replay, "edge %s of %s", key, text);
		if (replay_known_keys(replay, vector, "weights core go")) {
			replay_edge(replay, weights, n, value, strcmp(key, "go") == 0);
		}
		replay_end(replay);
	}
	free(weights);
}

static void replay_execution_times(struct replay *replay, const json_t *vector) {
	uint32_t n = 0;
	double *weights = replay_reals(replay, vector, "weights_ms", &n);
	double *costs = NULL;
	char text[100];
	const char *key;
	json_t *value;

	describe(vector, "weights_ms", text, sizeof(text));
	json_object_foreach ((json_t *)vector, key, value) {
		if (strcmp(key, "weights_ms") == 0 || strcmp(key, "cost_ms") == 0) {
			continue;
		}
		replay_begin(replay, "%s of %s", key, text);
		free(costs);
		costs = weights != NULL ? read_costs(replay, vector, n) : NULL;
		if (costs == NULL) {
			replay_fail(replay, "no weights or costs");
		} else if (strcmp(key, "wrr_charge_first") == 0) {
			replay_by_policy(replay, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN, 0, weights,
				costs, n, value);
		} else if (strcmp(key, "iwrr_incremental_rounds") == 0 ||
			   strcmp(key, "iwrr_documented_rounds") == 0) {
			replay_by_policy(replay, WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN,
				key[5] == 'd' ? WEIR_ROUNDS_DOCUMENTED : WEIR_ROUNDS_INCREMENTAL,
				weights, costs, n, value);
		} else {
			replay_known_keys(replay, vector,
				"weights_ms cost_ms wrr_charge_first iwrr_incremental_rounds "
				"iwrr_documented_rounds");
		}
		replay_end(replay);
	}
	free(costs);
	free(weights);
}

static void replay_section(struct replay *replay, const json_t *root, const char *section,
	void (*replay_one)(struct replay *replay, const json_t *vector)) {
	const json_t *list = json_object_get(root, section);
	const json_t *vector;
	size_t i;

	json_array_foreach (list, i, vector) {
		unsigned long before = replay->passed + replay->failed;

		replay_one(replay, vector);
		if (replay->passed + replay->failed == before) {
			replay_begin(replay, "%s %zu", section, i);
			replay_end(replay);
		}
	}
}

static void replay_long(struct replay *replay, const json_t *vector) {
	char text[100];

	describe(vector, "weights", text, sizeof(text));
	replay_begin(replay, "long run of %s", text);
	replay_long_run(replay, vector);
	replay_end(replay);
}

void replay_schedules(struct replay *replay, const json_t *root) {
	replay_root(replay, root,
		"integer_weight_schedules edge_weights long_run execution_time_weight_schedules");
	replay_section(replay, root, "integer_weight_schedules", replay_integer_weights);
	replay_section(replay, root, "edge_weights", replay_edge_weights);
	replay_section(replay, root, "long_run", replay_long);
	replay_section(replay, root, "execution_time_weight_schedules", replay_execution_times);
}
