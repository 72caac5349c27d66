// SPDX-License-Identifier: BSD-3-Clause
#include "api_audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_binds.h"
#include "api_canary.h"
#include "api_capture_filter.h"
#include "api_commands.h"
#include "api_drain_sum.h"
#include "api_host.h"
#include "api_shed.h"
#include "api_show.h"
#include "api_text.h"
#include "append.h"
#include "daemon.h"
#include "plural.h"

struct pending { // an unanswered request for a change
	struct weir_daemon *daemon;
	const char *command;
	enum weir_api_audit kind;
	char object[WEIR_AUDIT_OBJECT_BYTES];
	char before[WEIR_AUDIT_VALUE_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
};

// --- current state ------------------------------------------------------------------------

static void describe_admin(const struct weir_backend_state *state, char *value) {
	snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%s", weir_api_admin_name(state->admin));
	if (state->drain == WEIR_DRAIN_DRAINING) {
		weir_api_append_deadline(state->drain_until_ns, value);
	}
}

static void describe_weight(const struct weir_backend_state *state, char *value) {
	if (state->runtime_weight == WEIR_WEIGHT_UNSET) {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "as configured (%u)",
			state->configured_weight);
	} else {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%u", state->runtime_weight);
	}
}

// Describes the backend of a call, and the value that calls of this kind change. value: unchanged
// if they change no value of the backend, or the backend was not found.
static void describe_backend(const struct weir_daemon *daemon, const struct weir_api_call *call,
	enum weir_api_audit kind, char *object, char *value) {
	const char *service = weir_api_text(call, "service"),
		   *name = weir_api_text(call, "backend");
	int id = weir_api_peek_backend(daemon, call);
	struct weir_backend_state state;

	if (id < 0 || weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0) {
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s%s%s", service != NULL ? service : "",
			service != NULL ? "/" : "", name != NULL ? name : "");
		return;
	}
	snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s/%s", state.service, state.name);
	if (kind == WEIR_API_AUDIT_ADMIN) {
		describe_admin(&state, value);
	} else if (kind == WEIR_API_AUDIT_WEIGHT) {
		describe_weight(&state, value);
	} else if (kind == WEIR_API_AUDIT_SHED) {
		weir_api_shed_describe(daemon, &state, value);
	}
}

static void describe_policy(const struct weir_daemon *daemon, const char *service, char *value) {
	struct weir_service_state state;
	int id = daemon->tables != NULL && service != NULL
			 ? weir_tables_service_find(daemon->tables, service)
			 : -1;

	if (id < 0 || weir_tables_service(daemon->tables, (uint16_t)id, &state) < 0) {
		return;
	}
	if (state.runtime_policy == WEIR_POLICY_UNSET) {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "as configured (%s)",
			weir_policy_name((enum weir_policy)state.configured_policy));
	} else {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%s",
			weir_policy_name((enum weir_policy)state.runtime_policy));
	}
}

static void describe_stealing(const struct weir_daemon *daemon, char *value) {
	enum weir_stealing set = weir_steals_set_to(daemon->steals);

	if (set == WEIR_STEALING_UNSET) {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "as configured (%s)",
			weir_steals_configured(daemon->steals) ? "on" : "off");
	} else {
		snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%s",
			set == WEIR_STEALING_ON ? "on" : "off");
	}
}

static void describe_file(
	const struct weir_daemon *daemon, const struct weir_api_call *call, char *object) {
	const char *path = weir_api_text(call, "path");

	snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s",
		path != NULL ? path : weir_reload_file(daemon->reload));
}

static void describe_flow(const struct weir_api_call *call, char *object) {
	const char *protocol = weir_api_text(call, "protocol");
	const char *source = weir_api_text(call, "source");
	const char *destination = weir_api_text(call, "destination");

	snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s %s:%d %s:%d",
		protocol != NULL ? protocol : "", source != NULL ? source : "",
		(int)weir_api_integer(call, "source_port", 0),
		destination != NULL ? destination : "",
		(int)weir_api_integer(call, "destination_port", 0));
}

// Describes the service, backend or client whose affinity entries a call deletes.
static void describe_affinity(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value) {
	const char *service = weir_api_text(call, "service");
	const char *client = weir_api_text(call, "client");

	if (weir_api_text(call, "backend") != NULL) {
		describe_backend(daemon, call, WEIR_API_AUDIT_AFFINITY, object, value);
	} else {
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s", service != NULL ? service : "");
	}
	if (client != NULL) {
		weir_append(object, WEIR_AUDIT_OBJECT_BYTES, " %s", client);
	}
}

static void describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	enum weir_api_audit kind, char *object, char *value) {
	const char *service = weir_api_text(call, "service");
	const char *address = weir_api_text(call, "address");

	object[0] = value[0] = '\0';
	switch (kind) {
	case WEIR_API_AUDIT_ADMIN:
	case WEIR_API_AUDIT_WEIGHT:
	case WEIR_API_AUDIT_BACKEND:
	case WEIR_API_AUDIT_FLOWS:
	case WEIR_API_AUDIT_SHED:
		describe_backend(daemon, call, kind, object, value);
		break;
	case WEIR_API_AUDIT_CANARY:
		weir_api_canary_describe(daemon, call, object, value);
		break;
	case WEIR_API_AUDIT_BINDS:
		weir_api_binds_describe(daemon, call, object, value);
		break;
	case WEIR_API_AUDIT_HOST:
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s", address != NULL ? address : "");
		weir_api_host_describe(daemon, call, value);
		break;
	case WEIR_API_AUDIT_POLICY:
		describe_policy(daemon, service, value);
		// fall through
	case WEIR_API_AUDIT_SERVICE:
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s", service != NULL ? service : "");
		break;
	case WEIR_API_AUDIT_STEALING:
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "workers");
		describe_stealing(daemon, value);
		break;
	case WEIR_API_AUDIT_RELOAD:
	case WEIR_API_AUDIT_FILE:
		describe_file(daemon, call, object);
		break;
	case WEIR_API_AUDIT_FLOW:
		describe_flow(call, object);
		break;
	case WEIR_API_AUDIT_AFFINITY:
		describe_affinity(daemon, call, object, value);
		break;
	case WEIR_API_AUDIT_CAPTURE:
		weir_api_capture_name(call, object);
		break;
	case WEIR_API_AUDIT_READING:
		snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "capture %lld",
			(long long)weir_api_integer(call, "capture", 0));
		break;
	case WEIR_API_AUDIT_NONE:
		break;
	}
}

// --- records ------------------------------------------------------------------------------

// Returns whether the handler of the request fills in pending->after, with weir_api_audit_reload,
// weir_api_audit_removed or weir_api_audit_capture.
static bool is_recorded_by_handler(enum weir_api_audit kind) {
	return kind == WEIR_API_AUDIT_RELOAD || kind == WEIR_API_AUDIT_FLOW ||
	       kind == WEIR_API_AUDIT_FLOWS || kind == WEIR_API_AUDIT_AFFINITY ||
	       kind == WEIR_API_AUDIT_CAPTURE;
}

static bool is_change(enum weir_api_audit kind) {
	return kind < WEIR_API_AUDIT_BACKEND;
}

static void record(
	void *context, const struct weir_api_call *call, const char *code, const char *text) {
	struct pending *pending = context;
	const struct weir_api_peer *peer = weir_api_peer(call);
	char object[WEIR_AUDIT_OBJECT_BYTES], why[WEIR_AUDIT_WHY_BYTES];
	struct weir_audit_event event = {
		.who = {.known = true, .uid = peer->uid, .gid = peer->gid, .pid = peer->pid},
		.command = pending->command,
		.object = pending->object,
		.before = pending->before,
		.after = pending->after,
		.code = code,
		.why = text};

	if (code == NULL && text != NULL) {
		snprintf(why, sizeof(why), "the change is not published yet: %s", text);
		event.why = why;
	}
	if (code != NULL) {
		pending->after[0] = '\0';
	} else if (!is_recorded_by_handler(pending->kind)) {
		describe(pending->daemon, call, pending->kind, object, pending->after);
	}
	if (code != NULL || is_change(pending->kind)) {
		weir_audit_add(pending->daemon->audit, &event);
	}
	free(pending);
}

// Returns the name of the command in weirctl. With an address, bind.drain is vip.drain and
// bind.ready is vip.ready; otherwise they are service.drain and service.ready.
static const char *words_of(
	const struct weir_api_call *call, const char *command, enum weir_api_audit kind) {
	bool vip = weir_api_text(call, "address") != NULL;

	if (kind != WEIR_API_AUDIT_BINDS) {
		return command;
	}
	return strcmp(command, "bind.drain") == 0 ? (vip ? "vip.drain" : "service.drain")
						  : (vip ? "vip.ready" : "service.ready");
}

void weir_api_audit_begin(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *command, enum weir_api_audit kind) {
	struct pending *pending = calloc(1, sizeof(*pending));

	if (pending == NULL) { // out of memory: record the request at least in the log
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"audit: out of memory: cannot record %s by uid %u", command,
			(unsigned int)weir_api_peer(call)->uid);
		return;
	}
	pending->daemon = daemon;
	pending->command = words_of(call, command, kind);
	pending->kind = kind;
	describe(daemon, call, kind, pending->object, pending->before);
	weir_api_when_ended(call, record, pending);
}

void weir_api_audit_reload(struct weir_api_call *call, const struct weir_difference *difference) {
	struct pending *pending = weir_api_ended_context(call);

	if (pending != NULL) {
		weir_audit_difference(difference, pending->after, sizeof(pending->after));
	}
}

void weir_api_audit_removed(
	struct weir_api_call *call, uint64_t count, const char *noun, const char *verb) {
	struct pending *pending = weir_api_ended_context(call);

	if (pending != NULL) {
		snprintf(pending->after, sizeof(pending->after), "%llu %s%s %s",
			(unsigned long long)count, noun, weir_plural(count), verb);
	}
}

void weir_api_audit_capture(
	struct weir_api_call *call, const struct weir_capture_request *request, uint32_t rate) {
	struct pending *pending = weir_api_ended_context(call);
	int used;

	if (pending == NULL) {
		return;
	}
	used = snprintf(pending->after, sizeof(pending->after),
		"at most %u bytes of each packet, %u packet%s per second and worker",
		request->terms.snap_bytes, rate, weir_plural(rate));
	if (request->packets > 0) {
		snprintf(pending->after + used, sizeof(pending->after) - (size_t)used,
			", ends after %llu packet%s", (unsigned long long)request->packets,
			weir_plural(request->packets));
	}
}

// --- audit.show ---------------------------------------------------------------------------

static json_t *safe(const char *text) {
	char copy[WEIR_AUDIT_WHY_BYTES];

	snprintf(copy, sizeof(copy), "%s", text);
	return weir_api_safe_string(copy);
}

static json_t *text_or_null(const char *text) {
	return text[0] != '\0' ? safe(text) : json_null();
}

static json_t *number_or_null(bool known, json_int_t number) {
	return known ? json_integer(number) : json_null();
}

static json_t *json_entry(const struct weir_audit_entry *entry) {
	const struct weir_audit_who *who = &entry->who;

	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:s, s:o, s:I}", "serial",
		(json_int_t)entry->serial, "time_ms", (json_int_t)entry->time_ms, "uid",
		number_or_null(who->known, who->uid), "gid", number_or_null(who->known, who->gid),
		"pid", number_or_null(who->known, who->pid), "command", entry->command, "object",
		safe(entry->object), "before", text_or_null(entry->before), "after",
		text_or_null(entry->after), "outcome", entry->outcome, "why",
		text_or_null(entry->why), "times", (json_int_t)entry->times);
}

void weir_api_audit_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_audit_entry *entries[WEIR_AUDIT_ENTRIES];
	uint32_t count = weir_audit_list(daemon->audit, entries);
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		json_array_append_new(list, json_entry(entries[i]));
	}
	weir_api_answer(call, list);
}
