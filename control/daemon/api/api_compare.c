// SPDX-License-Identifier: BSD-3-Clause
//
// API handler policy.compare: shows how each policy would have distributed the flows of a service.
// It replies when the flows have been recorded and replayed.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"

#define FOR_MS 60000

static const char *policy_key(int at) {
	return at == WEIR_POLICY_COUNT ? "recorded" : weir_policy_name((enum weir_policy)at);
}

static double percent(uint64_t part, uint64_t of) {
	return of > 0 ? 100.0 * (double)part / (double)of : 0;
}

// --- a row for each backend -----------------------------------------------------------------

struct rows {
	struct weir_comparison_result *result;
	uint32_t number; // index of the next backend in the reply
};

static json_t *json_shares(const struct weir_comparison_result *result, uint32_t number) {
	json_t *shares = json_object();

	for (int at = 0; at <= WEIR_POLICY_COUNT; at++) {
		const struct weir_replay_result *one = &result->replayed[at];

		if (one->flows_of != NULL) {
			json_object_set_new(shares, policy_key(at),
				weir_json_percent(percent(one->flows_of[number], one->flows)));
		}
	}
	return shares;
}

static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;
	const struct weir_comparison_result *result = rows->result;
	uint32_t number = rows->number++;
	uint32_t flows;

	if (number >= result->params.backend_count) {
		return 0;
	}
	flows = result->replayed[WEIR_POLICY_COUNT].flows_of[number];
	*ret = json_pack("{s:s, s:I, s:b, s:I, s:o, s:o}", "backend", result->names[number].name,
		"weight", (json_int_t)result->params.backends[number].weight, "in_selection",
		(int)(result->params.backends[number].subsets != 0), "flows", (json_int_t)flows,
		"time_ms",
		flows > 0 ? json_real((double)result->names[number].time_sum_ns / flows / 1e6)
			  : json_null(),
		"shares", json_shares(result, number));
	return 1;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	weir_comparison_result_free(rows->result);
	free(rows);
}

// --- a row for each policy ------------------------------------------------------------------

static json_t *json_policy(const struct weir_comparison_result *result, int at) {
	const struct weir_replay_result *one = &result->replayed[at];
	uint32_t least = UINT32_MAX, most = 0;

	for (uint32_t i = 0; i < result->params.backend_count; i++) {
		const struct weir_replay_backend *backend = &result->params.backends[i];
		uint32_t flows = one->flows_of[i];

		if (backend->subsets != 0 && backend->weight > 0) {
			least = flows < least ? flows : least;
		}
		most = flows > most ? flows : most;
	}
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:o, s:o, s:f, s:f, s:f}", "policy",
		policy_key(at), "in_use", (int)(at == result->policy), "flows",
		(json_int_t)one->flows, "spilled", (json_int_t)one->spilled, "rejected",
		(json_int_t)one->rejected, "share_least_percent",
		weir_json_percent(percent(least == UINT32_MAX ? 0 : least, one->flows)),
		"share_most_percent", weir_json_percent(percent(most, one->flows)), "active_mean",
		one->active_mean, "active_most", one->active_most, "spread", one->spread);
}

static json_t *json_head(const struct weir_comparison_result *result) {
	json_t *policies = json_array();

	json_array_append_new(policies, json_policy(result, WEIR_POLICY_COUNT));
	for (int at = 0; at < WEIR_POLICY_COUNT; at++) {
		if (result->replayed[at].flows_of != NULL) {
			json_array_append_new(policies, json_policy(result, at));
		}
	}
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "service",
		result->service, "policy", weir_policy_name((enum weir_policy)result->policy),
		"durations", result->params.scaled ? "scaled" : "measured", "recorded_ms",
		(json_int_t)result->recorded_ms, "began", (json_int_t)result->began, "flows",
		(json_int_t)result->params.flow_count, "lost", (json_int_t)result->lost, "omitted",
		(json_int_t)result->omitted, "policies", policies);
}

static void on_done(void *context, struct weir_comparison_result *result, const char *why) {
	struct weir_api_call *call = context;
	struct weir_api_rows rows = {.next = next_row, .free = free_rows};
	struct rows *own;

	if (why != NULL) {
		weir_api_fail(call, WEIR_API_NO_DATAPLANE, "the comparison was aborted: %s", why);
		return;
	}
	own = result != NULL ? calloc(1, sizeof(*own)) : NULL;
	if (own == NULL) {
		weir_comparison_result_free(result);
		weir_api_answer(call, NULL);
		return;
	}
	own->result = result;
	rows.context = own;
	weir_api_answer_rows(call, json_head(result), "backends", &rows);
}

// Abandon the comparison that is in progress if its client has disconnected.
static void abandon_disconnected(struct weir_comparisons *comparisons) {
	const struct weir_api_call *call = weir_comparison_context(comparisons);

	if (call != NULL && !weir_api_is_connected(call)) {
		weir_comparison_abandon(comparisons, "the client disconnected");
	}
}

void weir_api_policy_compare(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *durations = weir_api_text(call, "durations");
	const json_t *given = json_object_get(weir_api_request(call), "for_ms");
	double for_ms = json_is_number(given) ? json_number_value(given) : FOR_MS;
	bool measured = durations != NULL && strcmp(durations, "measured") == 0;
	int service, r;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	service = weir_api_find_service(daemon, call);
	if (service < 0) {
		return;
	}
	if (durations != NULL && !measured && strcmp(durations, "scaled") != 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"durations\" must be \"scaled\" or \"measured\"");
		return;
	}
	if (for_ms < WEIR_COMPARISON_MS_LEAST || for_ms > WEIR_COMPARISON_MS_MOST) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"for_ms\" must be a number from %u to %u",
			WEIR_COMPARISON_MS_LEAST, WEIR_COMPARISON_MS_MOST);
		return;
	}
	abandon_disconnected(weir_daemon_comparisons(daemon));
	r = weir_comparison_begin(weir_daemon_comparisons(daemon), (uint16_t)service,
		(uint32_t)for_ms, !measured, on_done, call);
	if (r == -EBUSY) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"another comparison is in progress: wait until it ends, or stop the "
			"weirctl process that started it");
	} else if (r < 0) {
		weir_api_answer(call, NULL);
	}
}
