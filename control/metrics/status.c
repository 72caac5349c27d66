// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

#include <stdbool.h>
#include <string.h>

static json_t *last_of(const json_t *list) {
	size_t count = json_array_size(list);
	json_t *last = json_array();

	for (size_t i = count > WEIR_STATUS_EVENTS ? count - WEIR_STATUS_EVENTS : 0; i < count;
		i++) {
		json_array_append(last, json_array_get(list, i));
	}
	return last;
}

// Returns whether the page shows an entry of the audit list. The page shows refused reloads, and
// changes of services, VIPs, backends, hosts, weights and stealing. Canaries are not listed,
// because the health history contains them. Other entries, for example about deleted flows and
// captures, are not listed, because they can contain addresses of clients.
static bool is_listed(const json_t *entry) {
	static const char *const commands[] = {"backend.drain", "backend.ready",
		"backend.maintenance", "config.reload", "host.drain", "host.maintenance",
		"host.ready", "service.drain", "service.ready", "service.set", "vip.drain",
		"vip.ready", "weight.set", "worker.steal"};
	const char *outcome = json_string_value(json_object_get(entry, "outcome"));
	const char *command = json_string_value(json_object_get(entry, "command"));

	if (outcome == NULL || command == NULL) {
		return false;
	}
	if (strcmp(outcome, "done") != 0) {
		return strcmp(command, "config.reload") == 0 && strcmp(outcome, "refused") == 0;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(command, commands[i]) == 0) {
			return true;
		}
	}
	return false;
}

// Copies the named members of an object. Returns a new object.
static json_t *pick(const json_t *object, const char *const *members, size_t count) {
	json_t *picked = json_object();

	for (size_t i = 0; i < count; i++) {
		json_object_set(picked, members[i], json_object_get(object, members[i]));
	}
	return picked;
}

// Returns the entries of the audit list that the page shows, without the names of users, because
// the page has no authentication. Owned by the caller.
static json_t *json_changes(const json_t *audit) {
	static const char *const members[] = {
		"time_ms", "command", "object", "before", "after", "outcome", "why"};
	json_t *changes = json_array();
	size_t i;
	json_t *entry;

	json_array_foreach ((json_t *)audit, i, entry) {
		if (is_listed(entry)) {
			json_array_append_new(changes,
				pick(entry, members, sizeof(members) / sizeof(members[0])));
		}
	}
	return changes;
}

// Returns the last steals for the page, without the addresses of clients, because the page has no
// authentication. Owned by the caller.
static json_t *json_steals(const json_t *steals) {
	static const char *const members[] = {
		"time_ms", "service", "from", "to", "reason", "outcome"};
	json_t *list = last_of(json_object_get(steals, "recent"));
	size_t i;
	json_t *steal;

	json_array_foreach (list, i, steal) {
		json_array_set_new(
			list, i, pick(steal, members, sizeof(members) / sizeof(members[0])));
	}
	return list;
}

// Returns a new reference to a JSON value, or JSON null if value is NULL.
static json_t *or_null(const json_t *value) {
	return value != NULL ? json_incref((json_t *)value) : json_null();
}

static int append(const char *bytes, size_t count, void *text) {
	weir_text_add(text, bytes, count);
	return 0;
}

void weir_status_write(struct weir_text *text, const struct weir_status *status) {
	json_t *changes = json_changes(status->audit);
	json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "metrics",
		or_null(status->figures.own), "control", or_null(status->figures.control),
		"history", weir_history_json(status->history), "events", last_of(status->events),
		"steals", json_steals(status->steals), "changes", last_of(changes), "why",
		status->why);

	if (object == NULL || json_dump_callback(object, append, text,
				      JSON_COMPACT | JSON_REAL_PRECISION(10)) < 0) {
		text->failed = true;
	}
	json_decref(changes);
	json_decref(object);
}
