// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of canaries: canary.plan, canary.start, canary.show, canary.stop. canary.plan shows
// the canary's share of the new flows at each step. It also replays as many flows as began in the
// last minute, with random hashes and the weight of the step. If there were more than
// REPLAYED_MOST, it replays this number, and scales the result.
#include "api_canary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"
#include "flow_replay.h"

// Maximum number of flows replayed for each step. The replay blocks the loop for some milliseconds.
#define REPLAYED_MOST 10000u
#define RECENT_MOST (UINT64_C(1) << 48) // a larger number of new flows in a minute is not valid
#define MINUTE_NS 60000000000ull
#define WHY_BYTES 320

// --- arguments ------------------------------------------------------------------------------

static void take_number(const struct weir_api_call *call, const char *name, double *number) {
	const json_t *given = json_object_get(weir_api_request(call), name);

	if (json_is_number(given)) {
		*number = json_number_value(given);
	}
}

// Reads the plan from a request. On an error, fails the call and returns false.
static bool take_plan(struct weir_api_call *call, struct weir_canary_plan *plan) {
	const json_t *steps = json_object_get(weir_api_request(call), "steps");
	char why[WHY_BYTES];

	*plan = weir_canary_plan_default();
	if (json_is_array(steps)) {
		plan->steps = json_array_size(steps) <= WEIR_CANARY_STEPS_MOST
				      ? (uint32_t)json_array_size(steps)
				      : WEIR_CANARY_STEPS_MOST + 1;
		for (uint32_t i = 0; i < plan->steps && i < WEIR_CANARY_STEPS_MOST; i++) {
			plan->percent[i] = json_number_value(json_array_get(steps, i));
		}
	}
	take_number(call, "every_ms", &plan->every_ms);
	take_number(call, "max_error_ratio", &plan->error_ratio);
	take_number(call, "max_latency_ratio", &plan->latency_ratio);
	take_number(call, "min_requests", &plan->min_requests);
	if (weir_canary_plan_check(plan, why, sizeof(why)) < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s", why);
		return false;
	}
	return true;
}

// Checks a request to plan or start a canary. *others: sum of the weights of the other backends
// that get new flows. Returns the id of the backend. On an error, fails the call and returns a
// negative number.
static int take(struct weir_daemon *daemon, struct weir_api_call *call,
	struct weir_canary_plan *plan, uint64_t *others) {
	char why[WHY_BYTES];
	int id;

	if (!weir_api_has_dataplane(daemon, call) || !take_plan(call, plan)) {
		return -EINVAL;
	}
	id = weir_api_find_backend(daemon, call);
	if (id >= 0 && weir_canaries_check(daemon->canaries, daemon->tables, (uint16_t)id, plan,
			       others, why, sizeof(why)) < 0) {
		weir_api_fail(call, WEIR_API_REFUSED, "%s", why);
		return -EINVAL;
	}
	return id;
}

// --- canary.plan ----------------------------------------------------------------------------

struct planned {
	struct weir_canary_plan plan;
	uint64_t others;
	uint32_t next; // next step
	uint32_t canary; // index of the canary in backends
	int policy;
	uint32_t slots;
	struct weir_policy_settings settings;
	struct weir_replay_backend *backends;
	uint32_t backend_count;
	struct weir_replay_flow *flows;
	uint32_t flow_count;
	uint64_t recent; // new flows of the service in the last minute, at least flow_count
};

static void free_planned(void *context) {
	struct planned *planned = context;

	free(planned->backends);
	free(planned->flows);
	free(planned);
}

// Replays the flows with this weight of the canary. *ret_flows: number of flows to the canary, of
// all new flows of the last minute. Returns 0 or negative errno.
static int replay(struct planned *planned, uint32_t weight, uint64_t *ret_flows) {
	const struct weir_replay_params params = {.flows = planned->flows,
		.flow_count = planned->flow_count,
		.backends = planned->backends,
		.backend_count = planned->backend_count,
		// one worker suffices, because the shares are the same at all workers
		.workers = 1,
		.subsets = 1,
		.slots = planned->slots,
		.settings = planned->settings};
	struct weir_replay_result result;
	struct weir_replay *run;
	int r;

	planned->backends[planned->canary].weight = weight;
	r = weir_replay_create(&params, planned->policy, &run);
	if (r < 0) {
		return r;
	}
	weir_replay_step(run, planned->flow_count);
	weir_replay_read(run, &result);
	*ret_flows =
		(result.flows_of[planned->canary] * planned->recent + planned->flow_count / 2) /
		planned->flow_count;
	weir_replay_free(run);
	return 0;
}

static int next_planned(void *context, json_t **ret) {
	struct planned *planned = context;
	uint64_t flows = 0;
	uint32_t weight;
	double percent;

	if (planned->next == planned->plan.steps) {
		return 0;
	}
	percent = planned->plan.percent[planned->next++];
	weight = weir_canary_weight(percent, planned->others);
	weight = weight > 0 ? weight : 1;
	if (planned->flow_count > 0 && replay(planned, weight, &flows) < 0) {
		*ret = NULL;
		return 1;
	}
	*ret = json_pack("{s:I, s:f, s:I, s:o, s:o}", "step", (json_int_t)planned->next, "percent",
		percent, "weight", (json_int_t)weight, "share_percent",
		weir_json_percent(weir_canary_share(weight, planned->others)), "flows",
		planned->flow_count > 0 ? json_integer((json_int_t)flows) : json_null());
	return 1;
}

// Lists in planned->backends the backends that get new flows, and the canary. Returns 0 or -ENOMEM.
static int list_backends(const struct weir_daemon *daemon, uint16_t service, uint16_t canary,
	struct planned *planned) {
	const uint32_t ids = weir_tables_backend_ids(daemon->tables);
	struct weir_backend_state state;

	planned->backends = calloc(ids + 1, sizeof(*planned->backends));
	if (planned->backends == NULL) {
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < ids; id++) {
		if (weir_tables_backend_service(daemon->tables, (uint16_t)id) != service ||
			weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
			(!state.in_selection && id != canary)) {
			continue;
		}
		if (id == canary) {
			planned->canary = planned->backend_count;
		}
		planned->backends[planned->backend_count++] = (struct weir_replay_backend){
			.identity = state.identity, .subsets = 1, .weight = state.effective_weight};
	}
	return 0;
}

// Counts the flows that began at the service in the last minute, and creates as many, at most
// REPLAYED_MOST, with equal times between their starts. Returns 0 or -ENOMEM.
static int list_flows(const struct weir_daemon *daemon, uint16_t service, struct planned *planned) {
	uint64_t recent = 0;

	for (uint32_t id = 0; id < weir_tables_backend_ids(daemon->tables); id++) {
		if (weir_tables_backend_service(daemon->tables, (uint16_t)id) == service) {
			recent += weir_recent_new_flows(&daemon->recent, daemon->segment, id);
		}
	}
	planned->recent = recent < RECENT_MOST ? recent : RECENT_MOST;
	planned->flow_count = recent < REPLAYED_MOST ? (uint32_t)recent : REPLAYED_MOST;
	planned->flows = calloc(planned->flow_count + 1, sizeof(*planned->flows));
	for (uint32_t i = 0; planned->flows != NULL && i < planned->flow_count; i++) {
		planned->flows[i] = (struct weir_replay_flow){
			.start_ns = MINUTE_NS + i * (MINUTE_NS / planned->flow_count),
			.service_ns = 1};
	}
	return planned->flows == NULL ? -ENOMEM : 0;
}

// Prepare the replay of a plan. Returns 0 or -ENOMEM; the caller frees *planned in both cases.
static int prepare(const struct weir_daemon *daemon, const struct weir_backend_state *state,
	struct planned *planned) {
	const struct weir_config_service *config =
		weir_tables_service_config(daemon->tables, state->service);
	struct weir_service_state service;
	int r;

	if (config == NULL ||
		weir_tables_service(daemon->tables, state->service_id, &service) < 0) {
		return -ENOMEM;
	}
	planned->policy = service.policy;
	planned->slots = config->table_size;
	planned->settings = service.settings;
	r = list_backends(daemon, state->service_id, state->id, planned);
	return r < 0 ? r : list_flows(daemon, state->service_id, planned);
}

void weir_api_canary_plan(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_api_rows rows = {.next = next_planned, .free = free_planned};
	struct planned *planned = calloc(1, sizeof(*planned));
	struct weir_backend_state state;
	int id;

	if (planned == NULL) {
		weir_api_answer(call, NULL);
		return;
	}
	id = take(daemon, call, &planned->plan, &planned->others);
	if (id < 0) {
		free_planned(planned);
		return;
	}
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	if (prepare(daemon, &state, planned) < 0) {
		free_planned(planned);
		weir_api_answer(call, NULL);
		return;
	}
	rows.context = planned;
	weir_api_answer_rows(call,
		json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:I}", "service", state.service,
			"backend", state.name, "policy",
			weir_policy_name((enum weir_policy)planned->policy), "configured_weight",
			(json_int_t)state.configured_weight, "others_weight",
			(json_int_t)planned->others, "every_ms", planned->plan.every_ms, "flows",
			(json_int_t)planned->recent),
		"steps", &rows);
}

// --- canary.show ----------------------------------------------------------------------------

// Returns the counts of one side of the comparison as JSON: the canary, or the other backends.
static json_t *json_side(const struct weir_canary *canary, const struct weir_canary_side *side) {
	const struct weir_canary_counts *counts =
		weir_canary_is_reported(&canary->signs.canary, &canary->signs.others)
			? &side->reported
			: &side->flows;

	return json_pack("{s:I, s:I, s:o, s:o}", "requests", (json_int_t)counts->requests, "errors",
		(json_int_t)counts->errors, "error_percent",
		counts->requests > 0 ? weir_json_percent(100 * counts->errors / counts->requests)
				     : json_null(),
		"latency_ms",
		counts->latency_count > 0
			? json_real(counts->latency_sum_ms / counts->latency_count)
			: json_null());
}

static json_t *json_steps(const struct weir_canary_plan *plan) {
	json_t *steps = json_array();

	for (uint32_t i = 0; i < plan->steps; i++) {
		json_array_append_new(steps, json_real(plan->percent[i]));
	}
	return steps;
}

// Add the members that only a running canary has.
static void add_progress(json_t *row, const struct weir_canary *canary) {
	const struct weir_canary_signs *signs = &canary->signs;
	double left_ms = canary->record.plan.every_ms - (double)canary->passed_ms;

	json_object_set_new(row, "left_ms",
		canary->begun ? json_integer(left_ms > 0 ? (json_int_t)left_ms : 0) : json_null());
	json_object_set_new(row, "prolonged", json_boolean(canary->begun && canary->prolonged));
	json_object_set_new(row, "judged_by",
		json_string(weir_canary_is_reported(&signs->canary, &signs->others) ? "reports"
										    : "flows"));
	json_object_set_new(row, "canary", json_side(canary, &signs->canary));
	json_object_set_new(row, "others", json_side(canary, &signs->others));
}

// Returns why a canary is paused or prolonged; "" = it is not paused and not prolonged.
static const char *hindrance(const struct weir_canary *canary, char why[WEIR_CANARY_WHY_BYTES]) {
	why[0] = '\0';
	if (canary->paused != NULL) {
		return canary->paused;
	}
	if (canary->begun && canary->prolonged) {
		(void)weir_canary_judge(&canary->record.plan, &canary->signs.canary,
			&canary->signs.others, true, why);
	}
	return why;
}

static json_t *json_canary(const struct weir_daemon *daemon, const struct weir_canary *canary) {
	const struct weir_canary_record *record = &canary->record;
	const bool running = weir_canary_is_running(canary);
	char hindered[WEIR_CANARY_WHY_BYTES];
	const char *why = running ? hindrance(canary, hindered) : record->why;
	int id = daemon->tables != NULL ? weir_tables_backend_find(
						  daemon->tables, record->service, record->backend)
					: -1;
	struct weir_backend_state state = {.effective_weight = 0};
	const char *figures = weir_canary_figures(&canary->signs);
	json_t *row;

	if (id >= 0) {
		weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	}
	row = json_pack(
		"{s:s, s:s, s:s, s:o, s:o, s:I, s:f, s:I, s:f, s:f, s:f, s:f, s:I, s:o, s:I}",
		"service", record->service, "backend", record->backend, "state",
		weir_canary_state_text(canary), "why",
		why[0] != '\0' ? json_string(why) : json_null(), "steps", json_steps(&record->plan),
		"step", (json_int_t)record->step + 1, "percent", record->plan.percent[record->step],
		"effective_weight", (json_int_t)state.effective_weight, "every_ms",
		record->plan.every_ms, "max_error_ratio", record->plan.error_ratio,
		"max_latency_ratio", record->plan.latency_ratio, "min_requests",
		record->plan.min_requests, "started_ms", (json_int_t)record->started_ms, "ended_ms",
		running ? json_null() : json_integer((json_int_t)record->ended_ms), "uid",
		(json_int_t)record->who.uid);
	json_object_set_new(row, "figures", figures != NULL ? json_string(figures) : json_null());
	if (running) {
		add_progress(row, canary);
	}
	return row;
}

// Fails a call because its service has no such canary. what: "canary" or "running canary".
static void fail_without(struct weir_daemon *daemon, struct weir_api_call *call, const char *what) {
	if (daemon->tables == NULL || weir_api_find_service(daemon, call) >= 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND,
			"service \"%.100s\" has no %s; to list all canaries, run \"weirctl "
			"canary list\"",
			weir_api_text(call, "service"), what);
	}
}

void weir_api_canary_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	const struct weir_canary *one = weir_canaries_find(daemon->canaries, service);
	json_t *list;

	if (service != NULL && one == NULL) {
		fail_without(daemon, call, "canary");
		return;
	}
	list = json_array();
	if (one != NULL) {
		json_array_append_new(list, json_canary(daemon, one));
	}
	for (uint32_t i = 0; one == NULL && i < weir_canaries_count(daemon->canaries); i++) {
		json_array_append_new(
			list, json_canary(daemon, weir_canaries_at(daemon->canaries, i)));
	}
	weir_api_answer(call, list);
}

// --- canary.start, canary.stop --------------------------------------------------------------

static void warn_of_unsaved(const struct weir_daemon *daemon, json_t *warnings) {
	if (weir_canaries_are_unsaved(daemon->canaries)) {
		json_array_append_new(warnings,
			json_sprintf("the canaries cannot be saved in %s (see the log); "
				     "weir-control retries every second. If it restarts before "
				     "a retry succeeds, this change is lost",
				daemon->run_dir));
	}
}

// Publish the change, save the canaries, and answer the call with the canary of the service.
static void answer(struct weir_daemon *daemon, struct weir_api_call *call, const char *service) {
	const struct weir_canary *canary = weir_canaries_find(daemon->canaries, service);
	json_t *row = NULL, *warnings = json_array();

	weir_api_publish_now(daemon, call);
	(void)weir_canaries_save(daemon->canaries, weir_daemon_unpublished(daemon) == NULL);
	warn_of_unsaved(daemon, warnings);
	if (canary != NULL) {
		row = json_canary(daemon, canary);
		json_object_set(row, "warnings", warnings);
	}
	json_decref(warnings);
	weir_api_answer(call, row);
}

void weir_api_canary_start(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_api_peer *peer = weir_api_peer(call);
	const struct weir_audit_who who = {
		.known = true, .uid = peer->uid, .gid = peer->gid, .pid = peer->pid};
	struct weir_canary_plan plan;
	struct weir_backend_state state;
	uint64_t others;
	int id = take(daemon, call, &plan, &others), r;

	if (id < 0) {
		return;
	}
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	r = weir_canaries_start(daemon->canaries, daemon->tables, (uint16_t)id, &plan, &who);
	if (r == -ENOMEM) {
		weir_api_answer(call, NULL);
	} else if (r == -E2BIG) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"the canary was not started, because there are too many rolled-back "
			"canaries; to end one, run \"weirctl weight set SERVICE/BACKEND "
			"configured\"");
	} else if (r < 0) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"the canary was not started, because it cannot be saved in %s: %s",
			daemon->run_dir, strerror(-r));
	} else {
		answer(daemon, call, state.service);
	}
}

// Returns the canary state for the argument `outcome`, or a negative number if it is not valid.
static int outcome_of(const char *text) {
	return text == NULL                    ? WEIR_CANARY_STOPPED
	       : strcmp(text, "promote") == 0  ? WEIR_CANARY_PROMOTED
	       : strcmp(text, "rollback") == 0 ? WEIR_CANARY_ROLLED_BACK
					       : -1;
}

void weir_api_canary_stop(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	int outcome = outcome_of(weir_api_text(call, "outcome"));

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	if (outcome < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"outcome\" must be \"promote\" or \"rollback\"");
	} else if (weir_canaries_stop(daemon->canaries, service, (enum weir_canary_state)outcome) <
		   0) {
		fail_without(daemon, call, "running canary");
	} else {
		answer(daemon, call, service);
	}
}

// --- other commands -------------------------------------------------------------------------

void weir_api_canary_describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value) {
	const char *service = weir_api_text(call, "service");
	const char *backend = weir_api_text(call, "backend");
	const struct weir_canary *canary;
	int id = backend != NULL ? weir_api_peek_backend(daemon, call) : -1;
	struct weir_backend_state state;

	if (id >= 0 && weir_tables_backend(daemon->tables, (uint16_t)id, &state) == 0) {
		service = state.service;
	}
	canary = weir_canaries_find(daemon->canaries, service);
	if (backend == NULL && canary != NULL) {
		backend = canary->record.backend;
	}
	snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s%s%s", service != NULL ? service : "",
		service != NULL && backend != NULL ? "/" : "", backend != NULL ? backend : "");
	if (canary != NULL) {
		weir_canary_describe(canary, value, WEIR_AUDIT_VALUE_BYTES);
	}
}

json_t *weir_json_canary_state(const struct weir_daemon *daemon, const char *service) {
	const struct weir_canary *canary = weir_canaries_find(daemon->canaries, service);

	return canary != NULL ? json_string(weir_canary_state_text(canary)) : json_null();
}
