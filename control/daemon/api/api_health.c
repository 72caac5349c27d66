// SPDX-License-Identifier: BSD-3-Clause
//
// API handler health.history, which lists the health changes and the events of backends and
// services.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api_commands.h"
#include "daemon.h"

// Returns one change as JSON. If the change concerns a whole service, the backend and the states
// are null.
static json_t *change_row(const struct weir_states_change *change) {
	bool one = change->backend[0] != '\0';

	return json_pack("{s:I, s:s, s:s?, s:s?, s:s?, s:s, s:s}", "time_ms",
		(json_int_t)change->time_ms, "service", change->service, "backend",
		one ? change->backend : NULL, "from",
		one ? weir_health_state_name(change->from) : NULL, "to",
		one ? weir_health_state_name(change->to) : NULL, "source", change->source, "why",
		change->why);
}

static bool is_wanted(const char *wanted, const char *name) {
	return wanted == NULL || strcmp(wanted, name) == 0;
}

// If no service or backend has the name in the request, fails the call and returns true. Call this
// function only if the name has no history: a name with a history is valid even if the service or
// backend is no longer configured.
static bool is_unknown(struct weir_daemon *daemon, struct weir_api_call *call) {
	if (daemon->tables == NULL) {
		return false;
	}
	if (weir_api_text(call, "backend") != NULL && weir_api_text(call, "service") == NULL &&
		weir_api_peek_backend(daemon, call) == -ENOENT) {
		weir_api_no_backend(daemon, call, weir_api_text(call, "backend"), true);
		return true;
	}
	if (weir_api_text(call, "backend") != NULL) {
		return weir_api_peek_backend(daemon, call) != -EEXIST &&
		       weir_api_find_backend(daemon, call) < 0;
	}
	return weir_api_text(call, "service") != NULL && weir_api_find_service(daemon, call) < 0;
}

// Returns whether the request concerns a backend of this service: it names the service, or no
// backend, or the service has a backend of this name or a change of it.
static bool is_concerned(
	const struct weir_daemon *daemon, const struct weir_api_call *call, const char *service) {
	const char *backend = weir_api_text(call, "backend");
	struct weir_states_change change;

	if (weir_api_text(call, "service") != NULL || backend == NULL) {
		return is_wanted(weir_api_text(call, "service"), service);
	}
	if (daemon->tables != NULL &&
		weir_tables_backend_find(daemon->tables, service, backend) >= 0) {
		return true;
	}
	for (uint32_t n = 0; weir_states_history(daemon->states, n, &change); n++) {
		if (strcmp(change.service, service) == 0 && strcmp(change.backend, backend) == 0) {
			return true;
		}
	}
	return false;
}

// Adds an event to the list: the history of the service begins at this time, because this number of
// older changes is no longer kept.
static void add_begin(json_t *list, uint64_t time_ms, const char *service, uint64_t older) {
	struct weir_states_change begin = {.time_ms = time_ms, .source = "history"};

	snprintf(begin.service, sizeof(begin.service), "%s", service);
	snprintf(begin.why, sizeof(begin.why),
		"the history of this service begins here: %" PRIu64
		" older change%s no longer kept",
		older, older == 1 ? " is" : "s are");
	json_array_append_new(list, change_row(&begin));
}

// Adds this event for the service in the request if none of its changes is kept any more.
static void add_lost(
	const struct weir_daemon *daemon, const struct weir_api_call *call, json_t *list) {
	const char *service = weir_api_text(call, "service");
	int id = weir_api_peek_backend(daemon, call);
	struct weir_states_change oldest;
	struct weir_backend_state backend;
	uint64_t lost;

	if (service == NULL && id >= 0 &&
		weir_tables_backend(daemon->tables, (uint16_t)id, &backend) == 0) {
		service = backend.service;
	}
	lost = service != NULL ? weir_states_history_lost(daemon->states, service) : 0;
	if (lost > 0 && weir_states_history(daemon->states, WEIR_STATES_HISTORY - 1, &oldest)) {
		add_begin(list, oldest.time_ms, service, lost);
	}
}

// Lists the changes and events, the oldest first.
void weir_api_health_history(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_states *states = daemon->states;
	const char *service = weir_api_text(call, "service");
	const char *backend = weir_api_text(call, "backend");
	struct weir_states_change change;
	json_t *list = json_array();
	bool found = false;

	for (uint32_t n = WEIR_STATES_HISTORY; n-- > 0;) {
		if (!weir_states_history(states, n, &change)) {
			continue;
		}
		if (change.older > 0 && is_concerned(daemon, call, change.service)) {
			add_begin(list, change.time_ms, change.service, change.older);
		}
		if (is_wanted(service, change.service) && is_wanted(backend, change.backend)) {
			json_array_append_new(list, change_row(&change));
			found = true;
		}
	}
	if (!found && is_unknown(daemon, call)) {
		json_decref(list);
		return;
	}
	if (json_array_size(list) == 0) {
		add_lost(daemon, call, list);
	}
	weir_api_answer(call, list);
}
