// SPDX-License-Identifier: BSD-3-Clause
//
// Traces of poolifier: which kind of case, which strategy, how large the pool is.
#include "replay_poolifier.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool any_key(const json_t *object, const char *const *keys) {
	for (; *keys != NULL; keys++) {
		if (replay_has(object, *keys)) {
			return true;
		}
	}
	return false;
}

static bool is_statistics(const json_t *vector) {
	return any_key(vector, (const char *const[]){"inputs_ms", "inputs", "ops", NULL});
}

static bool is_choices(const json_t *vector) {
	return any_key(vector, (const char *const[]){"keys", "before", "result", NULL});
}

bool replay_poolifier_recognise(const json_t *root) {
	const json_t *cases = json_object_get(root, "cases");
	const json_t *vector;
	size_t i;

	json_array_foreach (cases, i, vector) {
		if (is_statistics(vector) || is_choices(vector) || replay_has(vector, "events")) {
			return true;
		}
	}
	return json_is_object(json_object_get(root, "default_weights"));
}

// --- strategy -----------------------------------------------------------------------------------

// The first strategy that a text names, in either case of letters; rest: what follows it.
static int find_strategy(const char *text, const char **ret_rest) {
	int found = -1;
	const char *first = NULL;
	size_t longest = 0;

	for (int strategy = 0; strategy < WEIR_POOLIFIER_STRATEGY_COUNT; strategy++) {
		const char *name = weir_poolifier_name(strategy);
		const char *at = strcasestr(text, name);
		size_t length = strlen(name);

		// One name is the end of another: the one that begins first is meant, or is longer.
		if (at != NULL &&
			(first == NULL || at < first || (at == first && length > longest))) {
			first = at;
			found = strategy;
			longest = length;
		}
	}
	if (found >= 0 && ret_rest != NULL) {
		*ret_rest = first + longest;
	}
	return found;
}

// A description that begins with one strategy and no list of them.
static int strategy_of_description(const char *text) {
	const char *rest = "";
	int strategy = find_strategy(text, &rest);

	while (isspace((unsigned char)*rest)) {
		rest++;
	}
	return strategy >= 0 && rest[0] != '/' && rest[0] != ',' ? strategy : -1;
}

static int strategy_of_file(const char *path) {
	const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	int strategy = find_strategy(name, NULL);

	if (strategy < 0 && strcasestr(name, "interleaved") != NULL) {
		return WEIR_POOLIFIER_INTERLEAVED_WEIGHTED_ROUND_ROBIN;
	}
	return strategy < 0 && strcasestr(name, "wrr") != NULL ? WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN
							       : strategy;
}

static int strategy_of(struct replay *replay, const json_t *root, const json_t *vector) {
	const json_t *result = json_object_get(vector, "result");
	const char *named = replay_text(replay, vector, "strategy", NULL);
	const char *error = replay_text(replay, vector, "error", NULL);
	int strategy = -1;

	named = named != NULL ? named : replay_text(replay, root, "strategy", NULL);
	if (named != NULL) {
		return weir_poolifier_parse(named);
	}
	error = error != NULL ? error : replay_text(replay, result, "error", NULL);
	if (error != NULL) {
		strategy = find_strategy(error, NULL);
	}
	if (strategy < 0) {
		strategy = strategy_of_description(replay_text(replay, root, "description", ""));
	}
	if (strategy < 0) {
		strategy = find_strategy(replay_text(replay, vector, "name", ""), NULL);
	}
	return strategy >= 0 ? strategy : strategy_of_file(replay->file);
}

// --- what a case tells
// ----------------------------------------------------------------------------

void replay_poolifier_read_option(
	struct replay *replay, const json_t *vector, struct weir_poolifier_options *options) {
	char *text = strdup(replay_text(replay, vector, "option", ""));
	char *rest = NULL;

	for (char *word = text != NULL ? strtok_r(text, " ,;", &rest) : NULL; word != NULL;
		word = strtok_r(NULL, " ,;", &rest)) {
		if (strcmp(word, "runTime.median=true") == 0) {
			options->run_median = true;
		} else if (strcmp(word, "waitTime.median=true") == 0) {
			options->wait_median = true;
		} else if (strcmp(word, "elu.median=true") == 0) {
			options->elu_median = true;
		} else if (strcmp(word, "measurement=elu") == 0) {
			options->measure_elu = true;
		} else if (strcmp(word, "measurement=runTime") != 0) {
			replay_fail(replay, "unknown option \"%s\"", word);
		}
	}
	free(text);
}

static bool is_in(const json_t *list, uint32_t key) {
	const json_t *value;
	size_t i;

	json_array_foreach (list, i, value) {
		if (json_is_integer(value) && json_integer_value(value) == key) {
			return true;
		}
	}
	return false;
}

static bool all_null(const json_t *list) {
	const json_t *value;
	size_t i;

	json_array_foreach (list, i, value) {
		if (!json_is_null(value)) {
			return false;
		}
	}
	return json_array_size(list) > 0;
}

// The worker of "...worker2_not_ready...", or -1.
static long not_ready_by_name(const json_t *vector) {
	const char *name = json_string_value(json_object_get(vector, "name"));
	unsigned int key;
	int end;

	for (; name != NULL && (name = strstr(name, "worker")) != NULL; name++) {
		end = 0;
		if (sscanf(name, "worker%u_not_ready%n", &key, &end) == 1 && end > 0) {
			return key;
		}
	}
	return -1;
}

bool replay_poolifier_is_ready(const json_t *vector, uint32_t key) {
	const json_t *list = json_object_get(vector, "not_ready");
	const json_t *result = json_object_get(vector, "result");
	bool chose = !json_is_null(json_object_get(result, "key")) &&
		     !all_null(json_object_get(vector, "keys"));

	if (list != NULL) {
		return !is_in(list, key);
	}
	if (not_ready_by_name(vector) >= 0) {
		return key != (uint32_t)not_ready_by_name(vector);
	}
	// Weights and a set explain a failure in their own way.
	return chose || replay_has(vector, "weights_ms") || replay_has(vector, "set") ||
	       replay_has(vector, "events");
}

static long at_least(long size, long other) {
	return size > other ? size : other;
}

static long largest_of_events(const json_t *vector) {
	const json_t *event;
	long largest = -1;
	size_t i;

	json_array_foreach (json_object_get(vector, "events"), i, event) {
		const json_t *key = json_object_get(event, "key");
		const json_t *worker = json_object_get(event, "w");

		largest = at_least(largest, json_is_integer(key) ? json_integer_value(key) : -1);
		largest = at_least(
			largest, json_is_integer(worker) ? json_integer_value(worker) : -1);
	}
	return largest;
}

// Of "(max: 6)": twice the size. A choice of nobody that tells nothing else is the same in a pool
// of any size.
static long size_of_error(const char *error) {
	const char *most = strstr(error, "(max: ");
	long retries = most != NULL ? strtol(most + 6, NULL, 10) : 0;

	return retries >= 2 ? retries / 2 : 1;
}

uint32_t replay_poolifier_size(struct replay *replay, const json_t *vector) {
	static const char *const per_worker[] = {
		"weights_ms", "initial_active", "vt_end", "estimated_cost_ms", "per_worker"};
	const json_t *result = json_object_get(vector, "result");
	long size = replay_uint(replay, vector, "workers", 0);
	size_t i;

	for (i = 0; size == 0 && i < sizeof(per_worker) / sizeof(per_worker[0]); i++) {
		size = (long)json_array_size(json_object_get(vector, per_worker[i]));
	}
	if (size == 0) {
		const json_t *list = json_object_get(vector, "vt_end_after_each");

		size = (long)json_array_size(json_array_get(list, 0));
	}
	if (size == 0) {
		// The budget of retries is twice the size.
		size = replay_uint(replay, result, "retries", 0) / 2;
		size = at_least(size, replay_largest(json_object_get(vector, "keys")) + 1);
		size = at_least(size, replay_largest(json_object_get(vector, "before")) + 1);
		size = at_least(size, replay_largest(json_object_get(vector, "set")) + 1);
		size = at_least(size, replay_largest(json_object_get(vector, "not_ready")) + 1);
		size = at_least(size, not_ready_by_name(vector) + 1);
		size = at_least(size, largest_of_events(vector) + 1);
	}
	if (size == 0 && replay_has(vector, "result")) {
		size = size_of_error(replay_text(replay, result, "error", ""));
	}
	if (size <= 0 || size > UINT16_MAX) {
		replay_fail(replay, "it does not tell how many workers there are");
		return 0;
	}
	return (uint32_t)size;
}

// --- cases
// ------------------------------------------------------------------------------------------

static void replay_case(struct replay *replay, const json_t *root, const json_t *vector, size_t i) {
	const char *name = json_string_value(json_object_get(vector, "name"));
	char number[32];
	int strategy;

	snprintf(number, sizeof(number), "case %zu", i);
	name = name != NULL ? name : number;
	replay_begin(replay, "%s", name);
	if (is_statistics(vector)) {
		replay_poolifier_statistics(replay, vector);
		replay_end(replay);
		return;
	}
	strategy = strategy_of(replay, root, vector);
	if (strategy < 0) {
		replay_fail(replay, "it does not tell the strategy");
	} else if (replay_has(vector, "events")) {
		replay_poolifier_events(replay, vector, strategy);
	} else if (is_choices(vector)) {
		replay_poolifier_choices(replay, vector, strategy);
	} else {
		replay_fail(replay, "neither choices, nor events, nor statistics");
	}
	replay_end(replay);

	if (strategy == WEIR_POOLIFIER_ROUND_ROBIN && is_choices(vector) &&
		!replay_has(vector, "result")) {
		replay_begin(replay, "%s by round-robin", name);
		replay_poolifier_round_robin(replay, vector);
		replay_end(replay);
	} else if (strategy == WEIR_POOLIFIER_LEAST_USED && !replay_has(vector, "result")) {
		replay_begin(replay, "%s by least-loaded", name);
		replay_poolifier_least_loaded(replay, vector);
		replay_end(replay);
	}
}

static void replay_default_weights(struct replay *replay, const json_t *root) {
	const json_t *cases = json_object_get(json_object_get(root, "default_weights"), "cases");
	const json_t *vector;
	size_t i;

	json_array_foreach (cases, i, vector) {
		replay_begin(replay, "default weight %zu", i);
		replay_poolifier_default_weight(replay, vector);
		replay_end(replay);
	}
}

void replay_poolifier(struct replay *replay, const json_t *root) {
	const json_t *cases = json_object_get(root, "cases");
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "strategy cases default_weights");
	json_array_foreach (cases, i, vector) {
		replay_case(replay, root, vector, i);
	}
	replay_default_weights(replay, root);
}
