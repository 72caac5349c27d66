// SPDX-License-Identifier: BSD-3-Clause
//
// Replays traces of poolifier through the policies that make the same choices. These are round
// robin (except for its first choice), least used (where the lowest key wins a tie), and
// interleaved rounds of tasks, as documented by poolifier. docs/reference/policies.md lists the
// differences between poolifier and Weir.
#include <stdlib.h>
#include <string.h>

#include "policy_client.h"
#include "replay.h"

struct strategy {
	const char *name;
	const char *rounds; // value of the key for rounds of tasks; NULL = the file has no such key
	enum weir_policy policy;
	const char *keys; // keys of a case
	void (*replay)(struct replay *replay, struct policy_client *with, const json_t *vector);
};

static void replay_round_robin(
	struct replay *replay, struct policy_client *with, const json_t *vector);
static void replay_least_used(
	struct replay *replay, struct policy_client *with, const json_t *vector);
static void replay_rounds_of_tasks(
	struct replay *replay, struct policy_client *with, const json_t *vector);

static const struct strategy strategies[] = {
	{"ROUND_ROBIN", NULL, WEIR_POLICY_ROUND_ROBIN,
		"workers not_ready set keys before removed after", replay_round_robin},
	{"LEAST_USED", NULL, WEIR_POLICY_LEAST_LOADED,
		"workers not_ready initial_active worker_speed_factor keys events",
		replay_least_used},
	{"INTERLEAVED_WEIGHTED_ROUND_ROBIN", "tasks", WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN,
		"workers weights_ms keys release_keys", replay_rounds_of_tasks},
};

static bool has_text(const json_t *root, const char *key, const char *text) {
	const char *value = json_string_value(json_object_get(root, key));

	return text == NULL ? value == NULL : value != NULL && strcmp(value, text) == 0;
}

static const struct strategy *strategy_of(const json_t *root) {
	for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
		if (has_text(root, "strategy", strategies[i].name) &&
			has_text(root, "rounds", strategies[i].rounds)) {
			return &strategies[i];
		}
	}
	return NULL;
}

bool replay_poolifier_recognise(const json_t *root) {
	return strategy_of(root) != NULL;
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

static void add_candidates(struct policy_client *with, const json_t *vector, long removed) {
	const json_t *set = json_object_get(vector, "set");

	policy_client_clear(with);
	for (uint32_t i = 0; i < with->worker.backend_count; i++) {
		if (!is_in(json_object_get(vector, "not_ready"), i) &&
			(set == NULL || is_in(set, i)) && (long)i != removed) {
			policy_client_add(with, i, 1);
		}
	}
}

// --- round robin --------------------------------------------------------------------------------

// Starts the client at the first backend of the trace: Weir starts at a position that depends on
// the worker's rank, and poolifier starts at its second worker.
static void begin_at(struct policy_client *with, const json_t *list) {
	const json_t *first = json_array_get(list, 0);

	with->worker.ranks = with->table.count > 0 ? with->table.count : 1;
	for (uint32_t i = 0; i < with->table.count; i++) {
		if (json_is_integer(first) && with->candidates[i].id == json_integer_value(first)) {
			with->worker.rank = i;
		}
	}
}

// poolifier decrements the keys above a removed key. removed: this key; negative = none.
static void check_choices(struct replay *replay, struct policy_client *with, const json_t *vector,
	const char *what, long removed) {
	const json_t *value;
	size_t i;

	json_array_foreach (replay_list(replay, vector, what), i, value) {
		long got = policy_client_choose(with, 0);

		got -= removed >= 0 && got > removed;
		replay_check(replay, what, (long)i, replay_key(replay, value), got);
	}
}

static void replay_round_robin(
	struct replay *replay, struct policy_client *with, const json_t *vector) {
	const json_t *removed = json_object_get(vector, "removed");
	const char *first = replay_has(vector, "before") ? "before" : "keys";

	begin_at(with, replay_list(replay, vector, first));
	policy_client_adopt(with, false, 0);
	check_choices(replay, with, vector, first, -1);
	if (json_is_integer(removed)) {
		long key = (long)json_integer_value(removed);

		add_candidates(with, vector, key);
		policy_client_adopt(with, false, 0);
		check_choices(replay, with, vector, "after", key);
	}
}

// --- least loaded -------------------------------------------------------------------------------

// Chooses with a new client. It compares the first candidate first, so the lowest key wins a tie.
static long choose_lowest(struct policy_client *with) {
	policy_client_restart(with, 0);
	return policy_client_choose(with, 0);
}

static void begin_flow(struct policy_client *with, long chosen) {
	if (chosen >= 0) {
		weir_policy_started(&with->worker, &with->client, (uint16_t)chosen, 0);
	}
}

// A task that waits at its worker counts as running. In Weir it is a flow, which counts from its
// first packet.
static void replay_events(struct replay *replay, struct policy_client *with, const json_t *vector) {
	const json_t *event;
	size_t i;

	json_array_foreach (json_object_get(vector, "events"), i, event) {
		const char *op = json_string_value(json_object_get(event, "op"));
		uint32_t worker = replay_uint(replay, event, "w", 0);

		if (op == NULL || worker >= with->worker.backend_count) {
			replay_fail(replay, "event %zu is no event", i);
		} else if (strcmp(op, "choose") == 0) {
			long got = choose_lowest(with);

			replay_check(replay, "choice of event", (long)i,
				replay_key(replay, json_object_get(event, "key")), got);
			begin_flow(with, got);
		} else if (strcmp(op, "finish") == 0) {
			weir_policy_ended(&with->worker, &with->client, (uint16_t)worker,
				WEIR_OUTCOME_COMPLETED, 0);
		} else if (strcmp(op, "start") != 0) {
			replay_fail(replay, "event %zu is no event", i);
		}
	}
}

static void replay_least_used(
	struct replay *replay, struct policy_client *with, const json_t *vector) {
	const json_t *active = json_object_get(vector, "initial_active");
	const json_t *value;
	size_t i;

	policy_client_adopt(with, false, 0);
	for (i = 0; i < with->worker.backend_count && i < json_array_size(active); i++) {
		with->worker.backends[i].active =
			(uint32_t)json_integer_value(json_array_get(active, i));
	}
	json_array_foreach (replay_list(replay, vector, "keys"), i, value) {
		long got = choose_lowest(with);

		replay_check(replay, "keys", (long)i, replay_key(replay, value), got);
		begin_flow(with, got);
	}
	replay_events(replay, with, vector);
}

// --- rounds of tasks ----------------------------------------------------------------------------

static void replay_rounds_of_tasks(
	struct replay *replay, struct policy_client *with, const json_t *vector) {
	const json_t *release = json_object_get(vector, "release_keys");
	uint32_t n = 0;
	double *weights = replay_reals(replay, vector, "weights_ms", &n);

	policy_client_clear(with);
	for (uint32_t i = 0; weights != NULL && i < n && i < with->worker.backend_count; i++) {
		policy_client_add(with, i, (uint32_t)weights[i]);
	}
	free(weights);
	with->table.settings.rounds = WEIR_ROUNDS_TASKS;
	policy_client_adopt(with, false, 0);
	check_choices(replay, with, vector, "keys", -1);
	if (release != NULL && json_equal(release, json_object_get(vector, "keys"))) {
		replay_fail(replay, "the release behaves as documented");
	}
}

// --- cases --------------------------------------------------------------------------------------

static void replay_case(
	struct replay *replay, const json_t *vector, const struct strategy *strategy) {
	uint32_t workers = replay_uint(replay, vector, "workers", 0);
	struct policy_client *with;

	if (!replay_known_keys(replay, vector, strategy->keys)) {
		return;
	}
	if (workers == 0 || workers > UINT16_MAX) {
		replay_fail(replay, "a pool has 1 to 65535 workers");
		return;
	}
	with = policy_client_create(strategy->policy, workers);
	add_candidates(with, vector, -1);
	strategy->replay(replay, with, vector);
	policy_client_free(with);
}

void replay_poolifier(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "strategy rounds cases");
	json_array_foreach (json_object_get(root, "cases"), i, vector) {
		replay_begin(replay, "%s", replay_text(replay, vector, "name", "a case"));
		replay_case(replay, vector, strategy_of(root));
		replay_end(replay);
	}
}
