// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "append.h"
#include "clocks.h"
#include "glance.h"
#include "processes.h"
#include "terminal.h"

// Levels of the status. The index of a level is its exit status, as in monitoring plugins. The
// levels are not ordered by severity: "critical" is worse than "unknown".
static const struct level {
	const char *name, *shown;
} levels[] = {
	{"ok", "OK"}, {"warning", "WARNING"}, {"critical", "CRITICAL"}, {"unknown", "UNKNOWN"}};

enum { LEVEL_OK, LEVEL_WARNING, LEVEL_CRITICAL, LEVEL_UNKNOWN, LEVEL_COUNT };

#define NO_PACKET "no packet is forwarded"

static int level_of(const json_t *object) {
	const char *name = json_string_value(json_object_get(object, "level"));

	for (int i = 0; name != NULL && i < LEVEL_COUNT; i++) {
		if (strcmp(levels[i].name, name) == 0) {
			return i;
		}
	}
	return LEVEL_UNKNOWN;
}

__attribute__((format(printf, 3, 4))) static void add(
	json_t *status, int level, const char *format, ...) {
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_array_append_new(json_object_get(status, "reasons"),
		json_pack("{s:s, s:s}", "level", levels[level].name, "text", text));
}

// --- weir-control ---------------------------------------------------------------------------

// Request the status from weir-control. Returns the reply, owned by the caller. On an error,
// returns NULL with the negative errno in *ret_error and one line in why.
static json_t *ask_control(
	const struct weir_cli_options *options, char *why, size_t why_bytes, int *ret_error) {
	const uint64_t began_ns = weir_monotonic_ns();
	int limit_ms = options->timeout_ms < WEIR_STATUS_LIMIT_MS ? options->timeout_ms
								  : WEIR_STATUS_LIMIT_MS;
	json_t *request = json_pack("{s:s}", "command", "status"), *answer = NULL;
	struct weir_processes found;
	struct weir_client *client;
	int spent_ms, r;

	if (options->service != NULL &&
		json_object_set_new(request, "service", json_string(options->service))) {
		json_decref(request);
		snprintf(why, why_bytes, "the service name is not valid UTF-8");
		*ret_error = -EINVAL;
		return NULL;
	}
	r = weir_client_connect(options->run_dir, limit_ms, &client, why, why_bytes);
	if (r == 0) {
		spent_ms = (int)((weir_monotonic_ns() - began_ns) / 1000000);
		weir_client_set_timeout(client, limit_ms > spent_ms ? limit_ms - spent_ms : 1);
		r = weir_client_call(client, request, &answer, why, why_bytes);
		weir_client_free(client);
	}
	json_decref(request);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		found = weir_processes_find("", WEIR_PROGRAM_CONTROL, options->run_dir);
		if (!weir_processes_explain(
			    &found, WEIR_PROGRAM_CONTROL, options->run_dir, why, why_bytes)) {
			snprintf(why, why_bytes, "weir-control is not running");
		}
	} else if (r == -ETIMEDOUT) {
		snprintf(why, why_bytes, "weir-control does not answer within %d ms", limit_ms);
	}
	*ret_error = r;
	return answer;
}

// --- weir-dataplane, without weir-control ---------------------------------------------------

// Replace the state of weir-dataplane in the status, except the reason why weir-control cannot
// attach. seen: true if its shared memory could be read; if not, the state of the workers is
// unknown.
static void show_dataplane(json_t *status, const struct weir_glance *glance, bool seen) {
	json_t *stalled = seen ? json_array() : json_null();
	json_t *why = json_object_get(json_object_get(status, "dataplane"), "why");

	for (uint32_t i = 0; seen && i < glance->stalled; i++) {
		json_array_append_new(stalled, json_integer(glance->stalled_worker[i]));
	}
	json_object_set_new(status, "dataplane",
		json_pack("{s:b, s:O?, s:i, s:o, s:o}", "attached", 0, "why", why, "pid",
			(int)glance->pid, "workers",
			seen ? json_integer((json_int_t)glance->workers) : json_null(), "stalled",
			stalled));
}

// Determine the state of weir-dataplane from its process, because the shared memory could not be
// read (error, why). Only root and the user of weir-dataplane can read it, but every user can see
// whether the process is stopped. Returns false if the process is stopped or a zombie, or if it is
// starting or exiting.
static bool judge_process(json_t *status, pid_t pid, int error, const char *why) {
	if (weir_glance_is_stopped(pid)) {
		add(status, LEVEL_CRITICAL, "weir-dataplane (pid %d) is stopped: " NO_PACKET,
			(int)pid);
		return false;
	}
	if (error == -ENOENT) {
		add(status, LEVEL_CRITICAL, "weir-dataplane (pid %d) is starting or stopping",
			(int)pid);
		return false;
	}
	if (error == -EACCES || error == -EPERM) {
		add(status, LEVEL_WARNING,
			"only root can check whether the workers of weir-dataplane (pid %d) run",
			(int)pid);
	} else {
		add(status, LEVEL_WARNING, "%s", why);
	}
	return true;
}

static bool judge_glance(json_t *status, const struct weir_glance *glance) {
	if (glance->stalled == glance->workers) {
		add(status, LEVEL_CRITICAL, "weir-dataplane (pid %d) is stalled: " NO_PACKET,
			(int)glance->pid);
	} else if (glance->stalled > 0) {
		add(status, LEVEL_CRITICAL,
			"%u of %u workers of weir-dataplane (pid %d) stalled: the packets of their "
			"queues are lost",
			glance->stalled, glance->workers, (int)glance->pid);
	} else if (!glance->has_tables) {
		add(status, LEVEL_CRITICAL, "weir-dataplane (pid %d) has no tables: " NO_PACKET,
			(int)glance->pid);
	} else {
		return true;
	}
	return false;
}

// Determine the state of weir-dataplane without weir-control, and add its problems to the status.
// Returns false if weir-dataplane is not running, has no tables, has a stalled worker or an unknown
// pid, or if judge_process returns false.
static bool look_at_dataplane(json_t *status, const char *run_dir) {
	struct weir_glance glance = {0};
	pid_t pid = weir_glance_find(run_dir);
	struct weir_processes found;
	char why[512] = "";
	int r;

	if (pid == -ENOENT) {
		found = weir_processes_find("", WEIR_PROGRAM_DATAPLANE, run_dir);
		if (weir_processes_explain(
			    &found, WEIR_PROGRAM_DATAPLANE, run_dir, why, sizeof(why))) {
			add(status, LEVEL_CRITICAL, "%s", why);
		} else {
			add(status, LEVEL_CRITICAL, "weir-dataplane is not running: " NO_PACKET);
		}
		return false;
	}
	if (pid < 0) {
		add(status, LEVEL_UNKNOWN, "cannot determine whether weir-dataplane runs: %s",
			strerror(-pid));
		return false;
	}
	glance.pid = pid;
	r = weir_glance_at(pid, weir_monotonic_ns(), &glance, why, sizeof(why));
	show_dataplane(status, &glance, r == 0);
	return r == 0 ? judge_glance(status, &glance) : judge_process(status, pid, r, why);
}

// Determine the status without weir-control. weir-dataplane continues to forward with its last
// tables, so this instance can still handle traffic.
static void judge_without_control(
	json_t *status, const struct weir_cli_options *options, const char *why) {
	if (look_at_dataplane(status, options->run_dir)) {
		add(status, LEVEL_WARNING,
			"weir-dataplane forwards with its last tables, without health checks");
	}
	add(status, LEVEL_WARNING, "%s", why);
}

// --- result ---------------------------------------------------------------------------------

static json_t *empty_status(void) {
	return json_pack(
		"{s:s, s:[], s:{s:b, s:n, s:n, s:n, s:n}, s:n, s:n, s:n, s:n, s:n, s:n, s:n, "
		"s:n, s:n, s:n, s:n, s:n, s:n, s:n, s:n}",
		"level", "unknown", "reasons", "dataplane", "attached", 0, "why", "pid", "workers",
		"stalled", "not_published", "services", "backends", "eligible", "unchecked",
		"programs", "untracked", "no_room_for", "not_eligible", "unreachable",
		"below_quorum", "panic", "on_backups", "drained", "rejecting");
}

// Append the reasons with this level to the text. Returns whether there are any.
static bool append_reasons(const json_t *status, int level, char *text, size_t bytes) {
	const json_t *reason;
	bool any = false;
	size_t i;

	json_array_foreach (json_object_get(status, "reasons"), i, reason) {
		if (level_of(reason) == level) {
			weir_append(text, bytes, "%s%s", text[0] != '\0' ? "; " : "",
				json_string_value(json_object_get(reason, "text")));
			any = true;
		}
	}
	return any;
}

// Sets the level of the status to the worst level of its reasons, and its summary to the texts of
// the reasons. If the level is "ok", the summary begins with numbers of workers and backends. The
// reasons of the worst level come first, and the reasons with level "ok", which are not faults,
// come last.
static void finish(json_t *status) {
	static const int order[] = {LEVEL_CRITICAL, LEVEL_UNKNOWN, LEVEL_WARNING};
	char text[1024] = "";
	int worst = LEVEL_OK;

	for (int k = 0; k < 3; k++) {
		if (append_reasons(status, order[k], text, sizeof(text)) && worst == LEVEL_OK) {
			worst = order[k];
		}
	}
	if (worst == LEVEL_OK) {
		const json_t *dataplane = json_object_get(status, "dataplane");

		snprintf(text, sizeof(text),
			"workers: %" JSON_INTEGER_FORMAT ", services: %" JSON_INTEGER_FORMAT
			", eligible backends: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT,
			json_integer_value(json_object_get(dataplane, "workers")),
			json_integer_value(json_object_get(status, "services")),
			json_integer_value(json_object_get(status, "eligible")),
			json_integer_value(json_object_get(status, "backends")));
	}
	append_reasons(status, LEVEL_OK, text, sizeof(text));
	json_object_set_new(status, "level", json_string(levels[worst].name));
	json_object_set_new(status, "summary", json_string(text));
}

// Returns the status in the reply of weir-control. If weir-control is not attached to
// weir-dataplane, the reply lacks the state of weir-dataplane, so weirctl determines this state and
// replaces the reasons.
static json_t *take_answer(const struct weir_cli_options *options, json_t *result) {
	json_t *status = json_incref(result);
	const json_t *dataplane = json_object_get(status, "dataplane");
	char why[384] = "";

	if (json_is_true(json_object_get(dataplane, "attached"))) {
		return status;
	}
	if (json_is_string(json_object_get(dataplane, "why"))) {
		snprintf(why, sizeof(why), "%s",
			json_string_value(json_object_get(dataplane, "why")));
	}
	json_object_set_new(status, "reasons", json_array());
	if (look_at_dataplane(status, options->run_dir)) {
		add(status, LEVEL_WARNING,
			"weir-control is not attached to weir-dataplane, which forwards with its "
			"last tables: %s",
			why[0] != '\0' ? why : "see the log of weir-control");
	} else if (why[0] != '\0') {
		add(status, LEVEL_WARNING, "weir-control cannot attach to weir-dataplane: %s", why);
	}
	return status;
}

json_t *weir_status_get(const struct weir_cli_options *options) {
	char why[512] = "";
	int error = 0;
	json_t *answer = ask_control(options, why, sizeof(why), &error), *status;
	const char *refused = json_string_value(json_object_get(answer, "error"));

	if (json_is_object(json_object_get(answer, "result"))) {
		status = take_answer(options, json_object_get(answer, "result"));
	} else {
		status = empty_status();
		if (answer != NULL) {
			add(status, LEVEL_UNKNOWN, "%s",
				refused != NULL ? refused : "invalid reply from weir-control");
		} else if (error == -EACCES || error == -EPERM || error == -EINVAL ||
			   error == -ENAMETOOLONG) {
			add(status, LEVEL_UNKNOWN, "%s", why);
		} else {
			judge_without_control(status, options, why);
		}
	}
	json_object_set_new(status, "control",
		json_pack("{s:b, s:o}", "answers", answer != NULL, "why",
			answer != NULL ? json_null() : json_string(why)));
	finish(status);
	json_decref(answer);
	return status;
}

int weir_status_run(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *status = weir_status_get(cli->options);
	const char *summary = json_string_value(json_object_get(status, "summary"));
	int level = level_of(status);
	char shown[1024];

	(void)command;
	if (cli->options->json) {
		weir_cli_print_json(cli->out, status);
	} else {
		fprintf(cli->out, "%s: %s\n", levels[level].shown,
			weir_terminal_text(
				summary != NULL ? summary : "out of memory", shown, sizeof(shown)));
	}
	json_decref(status);
	return level;
}
