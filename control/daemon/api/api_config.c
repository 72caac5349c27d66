// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of the configuration: config.diff, config.reload, config.waiting.

#include "api_audit.h"
#include "api_commands.h"
#include "api_drain_sum.h"
#include "change_costs.h"
#include "daemon.h"

// Fails the call, because the configuration file cannot be used. The answer names the file and
// lists its errors.
static void fail_plan(
	struct weir_api_call *call, const struct weir_reload_plan *plan, const char *why) {
	weir_api_fail_with(call, WEIR_API_REFUSED,
		json_pack("{s:o, s:s?}", "errors",
			weir_config_errors_json(plan->errors.error, plan->errors.count), "file",
			plan->file),
		"%s", why);
}

// Checks that the argument `path` is absolute, because weir-control and the client have different
// working directories. On an error, fails the call and returns false.
static bool check_path(struct weir_api_call *call) {
	const char *path = weir_api_text(call, "path");

	if (path != NULL && path[0] != '/') {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"\"path\" must be absolute: weir-control runs in another directory");
		return false;
	}
	return true;
}

// Returns the warnings about the file as JSON.
static json_t *json_warnings(const struct weir_reload_plan *plan) {
	return weir_config_errors_json(plan->errors.warning, plan->errors.warning_count);
}

// Answers with the changes of a plan. file: the file that was read. default_file: the file that a
// reload without a path reads. Takes ownership of the references to warnings and keys.
static void answer_plan(struct weir_api_call *call, const struct weir_reload_plan *plan,
	const char *file, const char *default_file, json_t *warnings, json_t *keys) {
	weir_api_answer(
		call, json_pack("{s:s, s:s, s:o, s:o, s:o*}", "file", file, "default_file",
			      default_file, "changes", weir_difference_json(&plan->difference),
			      "warnings", warnings, "agent_keys", keys));
}

// Returns the numbers of keys of agents read, new and removed by the reload, as JSON. NULL = the
// keys have not changed, or were not read.
static json_t *json_keys(const struct weir_probed_agents *probed) {
	const struct weir_probed_agents_keys keys = weir_probed_agents_keys(probed);

	return keys.added + keys.removed == 0
		       ? NULL
		       : json_pack("{s:I, s:I, s:I}", "read", (json_int_t)keys.count, "new",
				 (json_int_t)keys.added, "removed", (json_int_t)keys.removed);
}

// Adds a warning if there is a problem with the key file, which every reload reads again. Returns
// warnings.
static json_t *add_keys(json_t *warnings, const struct weir_probed_agents *probed) {
	const char *why = weir_probed_agents_keys_problem(probed);

	if (why != NULL) {
		json_array_append_new(
			warnings, json_pack("{s:i, s:i, s:s, s:o}", "line", 0, "column", 0, "path",
					  "agents.key_file", "reason",
					  json_sprintf("%s; %s", why,
						  weir_probed_agents_has_keys(probed)
							  ? "the previous keys stay in use"
							  : "no agent is probed")));
	}
	return warnings;
}

void weir_api_config_diff(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_reload_plan plan;
	char why[WEIR_DAEMON_REASON_BYTES];
	int r;

	if (!check_path(call)) {
		return;
	}
	r = weir_daemon_plan(daemon, weir_api_text(call, "path"), &plan);
	if (r < 0) {
		fail_plan(
			call, &plan, weir_reload_explain(&plan, r, daemon->user, why, sizeof(why)));
	} else {
		weir_daemon_warn_too_large(daemon, &plan);
		answer_plan(call, &plan, plan.file, weir_reload_file(daemon->reload),
			json_warnings(&plan), NULL);
	}
	weir_reload_plan_fini(&plan);
}

void weir_api_config_reload(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *path = weir_api_text(call, "path");
	struct weir_reload_plan plan;
	char why[WEIR_DAEMON_REASON_BYTES];

	if (!check_path(call)) {
		return;
	}
	if (weir_daemon_reload(daemon, path, &plan, why, sizeof(why)) < 0) {
		fail_plan(call, &plan, why);
	} else {
		weir_api_not_published(
			call, weir_daemon_unpublished(daemon), plan.difference.count > 0);
		weir_api_audit_reload(call, &plan.difference);
		answer_plan(call, &plan, weir_reload_file_in_use(daemon->reload),
			weir_reload_file(daemon->reload),
			add_keys(json_warnings(&plan), daemon->probed_agents),
			json_keys(daemon->probed_agents));
	}
	weir_reload_plan_fini(&plan);
}

// Lists the changes that wait for a restart of the dataplane, and gets the cost of the restart.
// Returns 0 or negative errno.
static int list_waiting(struct weir_daemon *daemon, struct weir_difference *ret,
	struct weir_restart_cost *ret_cost) {
	struct weir_change_costs_of of = {.tables = daemon->tables,
		.segment = daemon->segment,
		.from = weir_reload_config(daemon->reload),
		.to = weir_reload_config(daemon->reload)};
	struct weir_reload_plan plan = {0};
	int r;

	// A file that does not fit the running dataplane waits as a whole.
	if (daemon->file_why[0] != '\0' && weir_daemon_plan(daemon, NULL, &plan) == 0) {
		of.to = plan.config;
		r = weir_change_restart_cost(&of, &plan.difference, ret_cost);
		*ret = plan.difference;
		plan.difference = (struct weir_difference){0};
	} else {
		*ret_cost = weir_restart_cost(daemon->tables, daemon->segment);
		r = weir_reload_waiting(daemon->reload, ret);
		r = r < 0 ? r : weir_change_costs(&of, ret);
	}
	weir_reload_plan_fini(&plan);
	return r;
}

void weir_api_config_waiting(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_restart_cost cost;
	struct weir_difference waiting;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (list_waiting(daemon, &waiting, &cost) < 0) {
		weir_api_answer(call, NULL);
	} else {
		weir_api_answer(
			call, json_pack("{s:s, s:o, s:{s:I, s:I, s:I, s:o}}", "file",
				      weir_reload_file_in_use(daemon->reload), "changes",
				      weir_difference_json(&waiting), "restart", "open_flows",
				      (json_int_t)cost.open, "breaks", (json_int_t)cost.lost,
				      "older", (json_int_t)cost.older, "recount_ms",
				      weir_json_recount(daemon->tables)));
	}
	weir_difference_fini(&waiting);
}
