// SPDX-License-Identifier: BSD-3-Clause
//
// Traces of poolifier replayed through the policies with the same choices: round robin except for
// its first choice, and least used if ties go to the lowest key. docs/reference/policies.md lists
// the differences of Weir.
#include <stdlib.h>
#include <string.h>

#include "policy_client.h"
#include "replay.h"

static bool is_round_robin(const json_t *root) {
	const char *strategy = json_string_value(json_object_get(root, "strategy"));

	return strategy != NULL && strcmp(strategy, "ROUND_ROBIN") == 0;
}

static bool is_least_used(const json_t *root) {
	const char *strategy = json_string_value(json_object_get(root, "strategy"));

	return strategy != NULL && strcmp(strategy, "LEAST_USED") == 0;
}

bool replay_poolifier_recognise(const json_t *root) {
	return is_round_robin(root) || is_least_used(root);
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

// Weir starts at a position given by the worker's rank; poolifier at its second worker. So start at
// the first one of the trace.
static void begin_at(struct policy_client *with, const json_t *list) {
	const json_t *first = json_array_get(list, 0);

	with->worker.ranks = with->table.count > 0 ? with->table.count : 1;
	for (uint32_t i = 0; i < with->table.count; i++) {
		if (json_is_integer(first) && with->candidates[i].id == json_integer_value(first)) {
			with->worker.rank = i;
		}
	}
}

// Keys above the removed one have moved down.
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

// A new client checks the first candidate first: ties go to the lowest key.
static long choose_lowest(struct policy_client *with) {
	policy_client_restart(with, 0);
	return policy_client_choose(with, 0);
}

static void begin_flow(struct policy_client *with, long chosen) {
	if (chosen >= 0) {
		weir_policy_started(&with->worker, &with->client, (uint16_t)chosen, 0);
	}
}

// A task that waits at its worker counts as running: for Weir, a flow from its first packet on.
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

// --- cases --------------------------------------------------------------------------------------

static void replay_case(struct replay *replay, const json_t *vector, bool round_robin) {
	uint32_t workers = replay_uint(replay, vector, "workers", 0);
	struct policy_client *with;

	if (!replay_known_keys(replay, vector,
		    round_robin
			    ? "workers not_ready set keys before removed after"
			    : "workers not_ready initial_active worker_speed_factor keys events")) {
		return;
	}
	if (workers == 0 || workers > UINT16_MAX) {
		replay_fail(replay, "a pool has 1 to 65535 workers");
		return;
	}
	with = policy_client_create(
		round_robin ? WEIR_POLICY_ROUND_ROBIN : WEIR_POLICY_LEAST_LOADED, workers);
	add_candidates(with, vector, -1);
	if (round_robin) {
		replay_round_robin(replay, with, vector);
	} else {
		replay_least_used(replay, with, vector);
	}
	policy_client_free(with);
}

void replay_poolifier(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "strategy cases");
	json_array_foreach (json_object_get(root, "cases"), i, vector) {
		replay_begin(replay, "%s", replay_text(replay, vector, "name", "a case"));
		replay_case(replay, vector, is_round_robin(root));
		replay_end(replay);
	}
}
