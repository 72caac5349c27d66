// SPDX-License-Identifier: BSD-3-Clause
//
// API handler of health changes of backends: health.history.
#include <string.h>

#include "api_commands.h"
#include "daemon.h"

// Of a service, backend and states are null.
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

// Oldest first. Removed backends have a history, too, so names are not checked.
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
	weir_api_answer(call, list);
}
