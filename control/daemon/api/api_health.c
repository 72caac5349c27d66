// SPDX-License-Identifier: BSD-3-Clause
//
// API handler health.history, which lists the health changes and the events of backends and
// services.
#include <errno.h>
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

// Lists the changes and events, the oldest first.
void weir_api_health_history(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_states *states = daemon->states;
	const char *service = weir_api_text(call, "service");
	const char *backend = weir_api_text(call, "backend");
	struct weir_states_change change;
	json_t *list = json_array();

	for (uint32_t n = WEIR_STATES_HISTORY; n-- > 0;) {
		if (weir_states_history(states, n, &change) && is_wanted(service, change.service) &&
			is_wanted(backend, change.backend)) {
			json_array_append_new(list, change_row(&change));
		}
	}
	if (json_array_size(list) == 0 && is_unknown(daemon, call)) {
		json_decref(list);
		return;
	}
	weir_api_answer(call, list);
}
