// SPDX-License-Identifier: BSD-3-Clause
#include "api_commands.h"

#include <string.h>

#include "api_audit.h"
#include "daemon.h"
#include "report.h"

#define ARGUMENTS_MAX 20
#define WEIGHT_MAX 65535
#define PORT_MAX 65535

enum argument_type {
	ARGUMENT_TEXT,
	ARGUMENT_PORT, // 0..65535
	ARGUMENT_WEIGHT, // 0..65535, or null
	ARGUMENT_NAME, // text, or null
	ARGUMENT_NUMBER, // 0 or more, with or without a fraction
	ARGUMENT_OBJECT,
	ARGUMENT_COUNT, // 0 or more, without a fraction
	ARGUMENT_NUMBERS, // an array of numbers
};

struct argument {
	const char *name;
	enum argument_type type;
	bool required;
};

enum right {
	LOOK, // read-only; every user who can connect may use the command
	CHANGE, // only users with the right to make changes (api_rights.h)
};

struct command {
	const char *name;
	enum right right;
	enum weir_api_audit audit; // only for commands with CHANGE
	void (*run)(struct weir_daemon *daemon, struct weir_api_call *call);
	struct argument arguments[ARGUMENTS_MAX];
};

#define OPTIONAL(name, type) {name, type, false}
#define REQUIRED(name, type) {name, type, true}
#define FLOW_ARGUMENTS \
	REQUIRED("protocol", ARGUMENT_TEXT), REQUIRED("source", ARGUMENT_TEXT), \
		REQUIRED("source_port", ARGUMENT_PORT), REQUIRED("destination", ARGUMENT_TEXT), \
		REQUIRED("destination_port", ARGUMENT_PORT)

#define CANARY_ARGUMENTS \
	OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT), \
		OPTIONAL("steps", ARGUMENT_NUMBERS), OPTIONAL("every_ms", ARGUMENT_NUMBER), \
		OPTIONAL("max_error_ratio", ARGUMENT_NUMBER), \
		OPTIONAL("max_latency_ratio", ARGUMENT_NUMBER), \
		OPTIONAL("min_requests", ARGUMENT_NUMBER)

#define SHED_ARGUMENTS \
	OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT), \
		OPTIONAL("rate", ARGUMENT_NUMBER), OPTIONAL("idle_ms", ARGUMENT_NUMBER), \
		OPTIONAL("for_ms", ARGUMENT_NUMBER)

static const struct command commands[] = {
	{"version", LOOK, WEIR_API_AUDIT_NONE, weir_api_version, {{0}}},
	{"status", LOOK, WEIR_API_AUDIT_NONE, weir_api_status,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"service.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_service_show,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"service.set", CHANGE, WEIR_API_AUDIT_POLICY, weir_api_service_set,
		{REQUIRED("service", ARGUMENT_TEXT), REQUIRED("policy", ARGUMENT_NAME)}},
	{"service.waste", LOOK, WEIR_API_AUDIT_NONE, weir_api_service_waste,
		{REQUIRED("service", ARGUMENT_TEXT)}},
	{"backend.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_backend_show,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("backend", ARGUMENT_TEXT)}},
	{"backend.drain", CHANGE, WEIR_API_AUDIT_ADMIN, weir_api_backend_drain,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT),
			OPTIONAL("interval_ms", ARGUMENT_NUMBER)}},
	{"backend.ready", CHANGE, WEIR_API_AUDIT_ADMIN, weir_api_backend_ready,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT)}},
	{"backend.maintenance", CHANGE, WEIR_API_AUDIT_ADMIN, weir_api_backend_maintenance,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT)}},
	{"backend.report", CHANGE, WEIR_API_AUDIT_BACKEND, weir_api_backend_report,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT),
#define X(name, field, most) OPTIONAL(#field, ARGUMENT_NUMBER),
			WEIR_REPORT_FIELDS(X)
#undef X
		}},
	{"bind.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_bind_show,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("address", ARGUMENT_TEXT)}},
	{"bind.drain", CHANGE, WEIR_API_AUDIT_BINDS, weir_api_bind_drain,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("address", ARGUMENT_TEXT),
			OPTIONAL("interval_ms", ARGUMENT_NUMBER)}},
	{"bind.ready", CHANGE, WEIR_API_AUDIT_BINDS, weir_api_bind_ready,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("address", ARGUMENT_TEXT)}},
	{"host.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_host_show,
		{REQUIRED("address", ARGUMENT_TEXT)}},
	{"host.drain", CHANGE, WEIR_API_AUDIT_HOST, weir_api_host_drain,
		{REQUIRED("address", ARGUMENT_TEXT), OPTIONAL("interval_ms", ARGUMENT_NUMBER)}},
	{"host.maintenance", CHANGE, WEIR_API_AUDIT_HOST, weir_api_host_maintenance,
		{REQUIRED("address", ARGUMENT_TEXT)}},
	{"host.ready", CHANGE, WEIR_API_AUDIT_HOST, weir_api_host_ready,
		{REQUIRED("address", ARGUMENT_TEXT)}},
	{"weight.set", CHANGE, WEIR_API_AUDIT_WEIGHT, weir_api_weight_set,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT),
			REQUIRED("weight", ARGUMENT_WEIGHT)}},
	// This command requires CHANGE, because replaying flows keeps the loop busy.
	{"canary.plan", CHANGE, WEIR_API_AUDIT_BACKEND, weir_api_canary_plan, {CANARY_ARGUMENTS}},
	{"canary.start", CHANGE, WEIR_API_AUDIT_CANARY, weir_api_canary_start, {CANARY_ARGUMENTS}},
	{"canary.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_canary_show,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"canary.stop", CHANGE, WEIR_API_AUDIT_CANARY, weir_api_canary_stop,
		{REQUIRED("service", ARGUMENT_TEXT), OPTIONAL("outcome", ARGUMENT_TEXT)}},
	// This command requires CHANGE, because it makes an agent list its connections.
	{"shed.plan", CHANGE, WEIR_API_AUDIT_BACKEND, weir_api_shed_plan, {SHED_ARGUMENTS}},
	{"shed.start", CHANGE, WEIR_API_AUDIT_SHED, weir_api_shed_start, {SHED_ARGUMENTS}},
	{"shed.stop", CHANGE, WEIR_API_AUDIT_SHED, weir_api_shed_stop,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT)}},
	{"subset.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_subset_show,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"audit.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_audit_show, {{0}}},
	{"flow.count", LOOK, WEIR_API_AUDIT_NONE, weir_api_flow_count,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"flow.lookup", LOOK, WEIR_API_AUDIT_NONE, weir_api_flow_lookup, {FLOW_ARGUMENTS}},
	// flow.list requires CHANGE, because it shows all clients, and uses CPU time of the
	// workers.
	{"flow.list", CHANGE, WEIR_API_AUDIT_SERVICE, weir_api_flow_list,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("backend", ARGUMENT_TEXT),
			OPTIONAL("worker", ARGUMENT_COUNT), OPTIONAL("state", ARGUMENT_TEXT),
			OPTIONAL("client", ARGUMENT_TEXT), OPTIONAL("next", ARGUMENT_COUNT)}},
	{"flow.delete", CHANGE, WEIR_API_AUDIT_FLOW, weir_api_flow_delete, {FLOW_ARGUMENTS}},
	{"flow.clear", CHANGE, WEIR_API_AUDIT_FLOWS, weir_api_flow_clear,
		{OPTIONAL("service", ARGUMENT_TEXT), REQUIRED("backend", ARGUMENT_TEXT)}},
	// affinity.show requires CHANGE, because it uses CPU time of a worker.
	{"affinity.show", CHANGE, WEIR_API_AUDIT_SERVICE, weir_api_affinity_show,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"affinity.lookup", LOOK, WEIR_API_AUDIT_NONE, weir_api_affinity_lookup,
		{REQUIRED("service", ARGUMENT_TEXT), REQUIRED("client", ARGUMENT_TEXT)}},
	{"affinity.clear", CHANGE, WEIR_API_AUDIT_AFFINITY, weir_api_affinity_clear,
		{REQUIRED("service", ARGUMENT_TEXT), OPTIONAL("backend", ARGUMENT_TEXT),
			OPTIONAL("client", ARGUMENT_TEXT)}},
	{"flow.steals", LOOK, WEIR_API_AUDIT_NONE, weir_api_flow_steals,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	// The capture commands require CHANGE, because they show packets of clients, and use CPU
	// time of the workers.
	{"capture.start", CHANGE, WEIR_API_AUDIT_CAPTURE, weir_api_capture_start,
		{OPTIONAL("filter", ARGUMENT_OBJECT), OPTIONAL("snaplen", ARGUMENT_COUNT),
			OPTIONAL("rate", ARGUMENT_COUNT), OPTIONAL("packets", ARGUMENT_COUNT)}},
	{"capture.read", CHANGE, WEIR_API_AUDIT_READING, weir_api_capture_read,
		{REQUIRED("capture", ARGUMENT_COUNT)}},
	{"capture.stop", CHANGE, WEIR_API_AUDIT_READING, weir_api_capture_stop,
		{REQUIRED("capture", ARGUMENT_COUNT)}},
	{"worker.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_worker_show, {{0}}},
	{"worker.steal", CHANGE, WEIR_API_AUDIT_STEALING, weir_api_worker_steal,
		{REQUIRED("stealing", ARGUMENT_NAME)}},
	// This command requires CHANGE, because it enables measurements in the workers, and keeps
	// the loop busy.
	{"policy.compare", CHANGE, WEIR_API_AUDIT_SERVICE, weir_api_policy_compare,
		{REQUIRED("service", ARGUMENT_TEXT), OPTIONAL("for_ms", ARGUMENT_NUMBER),
			OPTIONAL("durations", ARGUMENT_TEXT)}},
	{"port.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_port_show,
		{OPTIONAL("port", ARGUMENT_TEXT)}},
	{"stats.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_stats_show, {{0}}},
	{"metrics.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_metrics_show, {{0}}},
	{"health.show", LOOK, WEIR_API_AUDIT_NONE, weir_api_health_show,
		{OPTIONAL("service", ARGUMENT_TEXT)}},
	{"health.history", LOOK, WEIR_API_AUDIT_NONE, weir_api_health_history,
		{OPTIONAL("service", ARGUMENT_TEXT), OPTIONAL("backend", ARGUMENT_TEXT)}},
	// config.diff and config.reload require CHANGE: they read a file with weir-control's
	// permissions, quote the errors of the file, and block the loop while reading.
	{"config.diff", CHANGE, WEIR_API_AUDIT_FILE, weir_api_config_diff,
		{OPTIONAL("path", ARGUMENT_TEXT)}},
	{"config.reload", CHANGE, WEIR_API_AUDIT_RELOAD, weir_api_config_reload,
		{OPTIONAL("path", ARGUMENT_TEXT)}},
	{"config.waiting", LOOK, WEIR_API_AUDIT_NONE, weir_api_config_waiting, {{0}}},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

// --- checks -------------------------------------------------------------------------------

static const struct argument *find_argument(const struct command *command, const char *name) {
	for (size_t i = 0; i < ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
		if (strcmp(command->arguments[i].name, name) == 0) {
			return &command->arguments[i];
		}
	}
	return NULL;
}

static bool is_numbers(const json_t *value) {
	const json_t *each;
	size_t i;

	json_array_foreach (value, i, each) {
		if (!json_is_number(each)) {
			return false;
		}
	}
	return json_is_array(value);
}

// Returns what is wrong with the value of an argument; NULL = the value is valid.
static const char *check_value(const struct argument *argument, const json_t *value) {
	json_int_t number = json_integer_value(value);

	switch (argument->type) {
	case ARGUMENT_TEXT:
		return json_is_string(value) ? NULL : "must be a string";
	case ARGUMENT_PORT:
		return json_is_integer(value) && number >= 0 && number <= PORT_MAX
			       ? NULL
			       : "must be a number from 0 to 65535";
	case ARGUMENT_WEIGHT:
		return json_is_null(value) || (json_is_integer(value) && number >= 0 &&
						      number <= WEIGHT_MAX)
			       ? NULL
			       : "must be a number from 0 to 65535, or null";
	case ARGUMENT_NAME:
		return json_is_null(value) || json_is_string(value) ? NULL
								    : "must be a string, or null";
	case ARGUMENT_NUMBER:
		return json_is_number(value) && json_number_value(value) >= 0
			       ? NULL
			       : "must be a number of at least 0";
	case ARGUMENT_OBJECT:
		return json_is_object(value) ? NULL : "must be an object";
	case ARGUMENT_COUNT:
		return json_is_integer(value) && number >= 0
			       ? NULL
			       : "must be a whole number of at least 0";
	case ARGUMENT_NUMBERS:
		return is_numbers(value) ? NULL : "must be an array of numbers";
	}
	return "cannot be checked";
}

// Check the arguments of a request. On an error, fails the call and returns false.
static bool check_arguments(const struct command *command, struct weir_api_call *call) {
	json_t *request = (json_t *)weir_api_request(call);
	const char *name;
	json_t *value;

	json_object_foreach (request, name, value) {
		const struct argument *argument = find_argument(command, name);
		const char *wrong;

		if (strcmp(name, "command") == 0) {
			continue;
		}
		if (argument == NULL) {
			weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s has no argument \"%.100s\"",
				command->name, name);
			return false;
		}
		// An optional argument may be null: null means that it is omitted.
		wrong = json_is_null(value) && !argument->required ? NULL
								   : check_value(argument, value);
		if (wrong != NULL) {
			weir_api_fail(
				call, WEIR_API_BAD_REQUEST, "argument \"%s\" %s", name, wrong);
			return false;
		}
	}
	for (size_t i = 0; i < ARGUMENTS_MAX && command->arguments[i].name != NULL; i++) {
		const struct argument *argument = &command->arguments[i];

		if (argument->required && json_object_get(request, argument->name) == NULL) {
			weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s needs the argument \"%s\"",
				command->name, argument->name);
			return false;
		}
	}
	return true;
}

// Checks whether the client may use the command. If not, fails the call and returns false.
static bool check_right(const struct command *command, struct weir_api_call *call) {
	const struct weir_api_peer *peer = weir_api_peer(call);

	if (peer->may_change || command->right == LOOK) {
		return true;
	}
	weir_api_fail(call, WEIR_API_FORBIDDEN,
		"user %u may only read: %s is for root, the user of weir-control, and the "
		"members of its --admin-group",
		(unsigned int)peer->uid, command->name);
	return false;
}

void weir_api_dispatch(void *context, struct weir_api_call *call) {
	struct weir_daemon *daemon = context;
	const char *name = json_string_value(json_object_get(weir_api_request(call), "command"));

	if (name == NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "missing \"command\"");
		return;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0) {
			if (commands[i].right == CHANGE) {
				weir_api_audit_begin(
					daemon, call, commands[i].name, commands[i].audit);
			}
			if (check_right(&commands[i], call) &&
				check_arguments(&commands[i], call)) {
				// Publish pending changes first. Replies describe the published
				// state, which applies to packets and remains in use after this
				// process exits.
				if (daemon->dirty) {
					(void)weir_daemon_publish(daemon);
				}
				weir_api_not_published(
					call, weir_daemon_unpublished(daemon), false);
				commands[i].run(daemon, call);
			}
			return;
		}
	}
	weir_api_fail(call, WEIR_API_BAD_REQUEST, "unknown command \"%.100s\"", name);
}
