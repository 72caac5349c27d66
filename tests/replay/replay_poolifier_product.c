// SPDX-License-Identifier: BSD-3-Clause
//
// Traces of poolifier through Weir's own policies, where the two agree: round robin but for its
// first choice, and least used when ties go to the lowest key.
#include <stdlib.h>
#include <string.h>

#include "policy_client.h"
#include "replay_poolifier.h"

static bool is_in_set(const json_t *vector, uint32_t key) {
	const json_t *set = json_object_get(vector, "set");
	const json_t *value;
	size_t i;

	json_array_foreach (set, i, value) {
		if (json_is_integer(value) && json_integer_value(value) == key) {
			return true;
		}
	}
	return set == NULL;
}

static void add_candidates(struct policy_client *with, const json_t *vector, long removed) {
	policy_client_clear(with);
	for (uint32_t i = 0; i < with->worker.backend_count; i++) {
		if (replay_poolifier_is_ready(vector, i) && is_in_set(vector, i) &&
			(long)i != removed) {
			policy_client_add(with, i, 1);
		}
	}
}

// Ours begins where the worker's rank says; poolifier at its second worker. So begin at the first
// one of the trace.
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

void replay_poolifier_round_robin(struct replay *replay, const json_t *vector) {
	const json_t *removed = json_object_get(vector, "removed");
	const char *first = replay_has(vector, "before") ? "before" : "keys";
	uint32_t size = replay_poolifier_size(replay, vector);
	struct policy_client *with;

	if (size == 0) {
		return;
	}
	with = policy_client_create(WEIR_POLICY_ROUND_ROBIN, size);
	add_candidates(with, vector, -1);
	begin_at(with, replay_list(replay, vector, first));
	policy_client_adopt(with, false, 0);
	check_choices(replay, with, vector, first, -1);
	if (json_is_integer(removed)) {
		long key = (long)json_integer_value(removed);

		add_candidates(with, vector, key);
		policy_client_adopt(with, false, 0);
		check_choices(replay, with, vector, "after", key);
	}
	policy_client_free(with);
}

// --- least loaded -----------------------------------------------------------------------------

// A client that has just begun looks at the first candidate first: ties go to the lowest key.
static long choose_lowest(struct policy_client *with) {
	policy_client_restart(with, 0);
	return policy_client_choose(with, 0);
}

// A task that waits at its worker counts as one that runs: to us, a flow from its first packet.
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
			if (got >= 0) {
				weir_policy_started(&with->worker, &with->client, (uint16_t)got, 0);
			}
		} else if (strcmp(op, "finish") == 0) {
			weir_policy_ended(&with->worker, &with->client, (uint16_t)worker,
				WEIR_OUTCOME_COMPLETED, 0);
		} else if (strcmp(op, "start") != 0) {
			replay_fail(replay, "event %zu is no event", i);
		}
	}
}

static void replay_choices(
	struct replay *replay, struct policy_client *with, const json_t *vector) {
	const json_t *active = json_object_get(vector, "initial_active");
	const json_t *value;
	size_t i;

	for (i = 0; i < with->worker.backend_count && i < json_array_size(active); i++) {
		with->worker.backends[i].active =
			(uint32_t)json_integer_value(json_array_get(active, i));
	}
	json_array_foreach (replay_list(replay, vector, "keys"), i, value) {
		long got = choose_lowest(with);

		replay_check(replay, "keys", (long)i, replay_key(replay, value), got);
		if (got >= 0) {
			weir_policy_started(&with->worker, &with->client, (uint16_t)got, 0);
		}
	}
}

void replay_poolifier_least_loaded(struct replay *replay, const json_t *vector) {
	uint32_t size = replay_poolifier_size(replay, vector);
	struct policy_client *with;

	if (size == 0) {
		return;
	}
	with = policy_client_create(WEIR_POLICY_LEAST_LOADED, size);
	add_candidates(with, vector, -1);
	policy_client_adopt(with, false, 0);
	if (replay_has(vector, "events")) {
		replay_events(replay, with, vector);
	} else {
		replay_choices(replay, with, vector);
	}
	policy_client_free(with);
}
