// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: the table of the SRE book, a backend whose flows fail at once, and limits of active
// flows, all replayed through Weir's policy.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy_client.h"
#include "replay.h"

#define NS_PER_S 1e9

static bool parse_limit(const char *key, unsigned int *ret_limit, unsigned int *ret_backends) {
	int end = 0;

	return sscanf(key, "flow_control_limit_%u_of_%u_backends%n", ret_limit, ret_backends,
		       &end) == 2 &&
	       key[end] == '\0' && *ret_limit > 0 && *ret_backends > 0 && *ret_backends < 65536;
}

static bool is_table(const json_t *value) {
	return json_is_array(json_object_get(value, "initial")) &&
	       json_is_array(json_object_get(value, "trace"));
}

bool replay_least_loaded_recognise(const json_t *root) {
	unsigned int limit, backends;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)root, key, value) {
		if (is_table(value) || strcmp(key, "sinkhole") == 0 ||
			parse_limit(key, &limit, &backends)) {
			return true;
		}
	}
	return false;
}

static struct policy_client *create(uint32_t n) {
	struct policy_client *with = policy_client_create(WEIR_POLICY_LEAST_LOADED, n);

	for (uint32_t i = 0; i < n; i++) {
		policy_client_add(with, i, 1);
	}
	return with;
}

// --- a table of active flows --------------------------------------------------------------------

static void check_table(
	struct replay *replay, const struct policy_client *with, const json_t *table, long step) {
	const json_t *value;
	size_t i;

	if (table == NULL) {
		return;
	}
	replay_check(replay, "length of the table after step", step,
		(long long)json_array_size(table), with->worker.backend_count);
	json_array_foreach (table, i, value) {
		if (i < with->worker.backend_count) {
			replay_check(replay, "table after step", step, json_integer_value(value),
				with->worker.backends[i].active);
		}
	}
}

static void replay_step(
	struct replay *replay, struct policy_client *with, const json_t *step, long index) {
	const char *op = replay_text(replay, step, "op", "");
	unsigned int id;
	int end = 0;

	if (!replay_known_keys(replay, step, "op pick table")) {
		return;
	}
	if (strcmp(op, "request") == 0) {
		long got = policy_client_choose(with, 0);

		replay_check(replay, "pick of step", index,
			replay_key(replay, json_object_get(step, "pick")), got);
		if (got >= 0) {
			weir_policy_started(&with->worker, &with->client, (uint16_t)got, 0);
		}
	} else if (sscanf(op, "finish t%u%n", &id, &end) == 1 && op[end] == '\0' &&
		   id < with->worker.backend_count && with->worker.backends[id].active > 0) {
		weir_policy_ended(
			&with->worker, &with->client, (uint16_t)id, WEIR_OUTCOME_COMPLETED, 0);
	} else {
		replay_fail(replay, "step %ld: \"%s\" is not a step", index, op);
	}
	check_table(replay, with, json_object_get(step, "table"), index);
}

static void replay_table(struct replay *replay, const json_t *vector) {
	const json_t *initial = json_object_get(vector, "initial");
	uint32_t n = (uint32_t)json_array_size(initial);
	struct policy_client *with;
	const json_t *value;
	size_t i;

	if (!replay_known_keys(replay, vector, "initial trace") || n == 0) {
		replay_fail(replay, "no initial table");
		return;
	}
	with = create(n);
	json_array_foreach (initial, i, value) {
		with->worker.backends[i].active = (uint32_t)json_integer_value(value);
	}
	policy_client_adopt(with, false, 0);
	json_array_foreach (json_object_get(vector, "trace"), i, value) {
		replay_step(replay, with, value, (long)i);
	}
	policy_client_free(with);
}

// --- sinkhole -----------------------------------------------------------------------------------

// A flow at a healthy backend.
struct flow {
	uint64_t end_ns;
	uint16_t id;
};

struct sinkhole {
	unsigned int backends;
	unsigned int bad;
	double interval_s;
	double latency_s;
};

static bool read_sinkhole(struct replay *replay, const json_t *vector, struct sinkhole *sinkhole) {
	const char *text = replay_text(replay, vector, "desc", "");
	bool parsed = sscanf(text,
			      "%u backends, request every %lf s, healthy latency %lf s, backend %u "
			      "answers with an immediate error",
			      &sinkhole->backends, &sinkhole->interval_s, &sinkhole->latency_s,
			      &sinkhole->bad) == 4;

	if (!parsed || sinkhole->backends == 0 || sinkhole->backends > UINT16_MAX ||
		sinkhole->bad >= sinkhole->backends || !(sinkhole->interval_s > 0) ||
		!(sinkhole->latency_s >= 0)) {
		replay_fail(replay, "cannot read the sinkhole's values from the description");
		return false;
	}
	return true;
}

static uint32_t end_flows(
	struct policy_client *with, struct flow *flows, uint32_t n, uint64_t now_ns) {
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (flows[i].end_ns <= now_ns) {
			weir_policy_ended(&with->worker, &with->client, flows[i].id,
				WEIR_OUTCOME_COMPLETED, flows[i].end_ns);
		} else {
			flows[left++] = flows[i];
		}
	}
	return left;
}

// How errors of the bad backend are counted.
enum lingering {
	LINGER_EXACTLY, // the error counts as an active flow that ends when the error expires
	LINGER_IN_SLOTS, // the error expires up to an eighth of the window early, as in Weir
};

static void answer(struct policy_client *with, struct flow *flows, uint32_t *n, uint16_t id,
	enum weir_outcome outcome, uint64_t now_ns, double lasts_s) {
	weir_policy_started(&with->worker, &with->client, id, now_ns);
	if (lasts_s > 0) {
		flows[(*n)++] =
			(struct flow){.end_ns = now_ns + replay_ns(lasts_s, NS_PER_S), .id = id};
	} else {
		weir_policy_ended(&with->worker, &with->client, id, outcome, now_ns);
	}
}

// Runs the sinkhole case, and checks the choices unless replay is NULL. Returns the number of flows
// of the bad backend.
static uint32_t play(struct replay *replay, const struct sinkhole *sinkhole, const json_t *picks,
	enum lingering lingering, double linger_s) {
	struct policy_client *with = create(sinkhole->backends);
	struct flow *flows = replay_alloc(json_array_size(picks) * sizeof(flows[0]));
	bool slots = lingering == LINGER_IN_SLOTS;
	enum weir_outcome outcome = slots ? WEIR_OUTCOME_REFUSED : WEIR_OUTCOME_COMPLETED;
	uint32_t n = 0, bad = 0;
	const json_t *value;
	size_t i;

	if (slots) {
		with->table.settings.error_window_ms =
			(uint32_t)fmin(fmax(1, round(linger_s * 1e3)), UINT32_MAX);
	}
	policy_client_adopt(with, false, 0);
	json_array_foreach (picks, i, value) {
		uint64_t now_ns = replay_ns((double)i * sinkhole->interval_s, NS_PER_S);
		bool is_bad;
		long got;

		n = end_flows(with, flows, n, now_ns);
		got = policy_client_choose(with, now_ns);
		if (replay != NULL) {
			replay_check(replay, "picks", (long)i, replay_key(replay, value), got);
		}
		if (got < 0) {
			continue;
		}
		is_bad = got == (long)sinkhole->bad;
		bad += is_bad;
		answer(with, flows, &n, (uint16_t)got, is_bad ? outcome : WEIR_OUTCOME_COMPLETED,
			now_ns, is_bad ? (slots ? 0 : linger_s) : sinkhole->latency_s);
	}
	free(flows);
	policy_client_free(with);
	return bad;
}

// Without lingering, an error expires at once; the policy then counts it as a flow that has ended.
static void replay_sinkhole(struct replay *replay, const json_t *vector) {
	const json_t *picks = replay_list(replay, vector, "picks");
	bool lingers = !json_is_null(json_object_get(vector, "linger_s"));
	double linger_s = lingers ? replay_real(replay, vector, "linger_s", 0) : 0;
	double n = (double)json_array_size(picks);
	struct sinkhole sinkhole;
	uint32_t bad;

	if (!replay_known_keys(replay, vector, "linger_s picks share_of_bad_backend") ||
		!read_sinkhole(replay, vector, &sinkhole)) {
		return;
	}
	bad = play(replay, &sinkhole, picks, LINGER_EXACTLY, linger_s);
	if (replay_has(vector, "share_of_bad_backend")) {
		replay_check_real(replay, "share_of_bad_backend", -1,
			replay_real(replay, vector, "share_of_bad_backend", 0),
			n > 0 ? (double)bad / n : 0, 1e-4);
	}
}

// Errors are counted as in Weir. The bad backend must get at least as many flows as if errors
// lingered for the recorded time, and at most as many as if they lingered for an eighth less. The
// tolerance is two flows, because time is counted in ticks.
static void replay_sinkhole_in_slots(struct replay *replay, const json_t *vector) {
	const json_t *picks = replay_list(replay, vector, "picks");
	double linger_s = json_number_value(json_object_get(vector, "linger_s"));
	uint32_t least, most, got;
	struct sinkhole sinkhole;

	if (!read_sinkhole(replay, vector, &sinkhole)) {
		return;
	}
	least = play(NULL, &sinkhole, picks, LINGER_EXACTLY, linger_s);
	most = play(NULL, &sinkhole, picks, LINGER_EXACTLY, linger_s * 7 / 8);
	got = play(NULL, &sinkhole, picks, LINGER_IN_SLOTS, linger_s);
	replay_check(replay, "flows to the bad backend not below", least, 1, got + 2 >= least);
	replay_check(replay, "flows to the bad backend not above", most, 1, got <= most + 2);
}

static void replay_sinkholes(struct replay *replay, const json_t *list) {
	const json_t *vector;
	size_t i;

	json_array_foreach (list, i, vector) {
		replay_begin(replay, "sinkhole %zu", i);
		replay_sinkhole(replay, vector);
		replay_end(replay);
		if (json_is_number(json_object_get(vector, "linger_s"))) {
			replay_begin(replay, "sinkhole %zu by slots of errors", i);
			replay_sinkhole_in_slots(replay, vector);
			replay_end(replay);
		}
	}
}

// --- limits -------------------------------------------------------------------------------------

static void replay_limit(
	struct replay *replay, unsigned int limit, unsigned int backends, const json_t *list) {
	struct policy_client *with = create(backends);
	const json_t *value;
	size_t i;

	with->table.settings.max_active_flows = limit;
	with->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	policy_client_adopt(with, false, 0);
	json_array_foreach (list, i, value) {
		long got = policy_client_choose(with, 0);

		replay_check(replay, "picks", (long)i, replay_key(replay, value), got);
		if (got >= 0) {
			weir_policy_started(&with->worker, &with->client, (uint16_t)got, 0);
		}
	}
	policy_client_free(with);
}

void replay_least_loaded(struct replay *replay, const json_t *root) {
	unsigned int limit, backends;
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)root, key, value) {
		if (replay_is_comment(key)) {
			continue;
		}
		if (strcmp(key, "sinkhole") == 0) {
			replay_sinkholes(replay, value);
			continue;
		}
		replay_begin(replay, "%s", key);
		if (is_table(value)) {
			replay_table(replay, value);
		} else if (parse_limit(key, &limit, &backends)) {
			replay_limit(replay, limit, backends, value);
		} else {
			replay_fail(replay, "unknown key");
		}
		replay_end(replay);
	}
}
