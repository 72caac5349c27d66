// SPDX-License-Identifier: BSD-3-Clause
#include "takeovers.h"

#include <stdio.h>

#include "plural.h"

static void describe(const struct weir_service_state *service, char *text, size_t bytes) {
	uint32_t count = service->backends - service->backups;
	uint32_t eligible = service->eligible - service->backups_eligible;
	const char *noun = "primary backend";

	// If no primary backend is eligible, the reason is the number of eligible backups.
	if (!service->on_backups && eligible == 0 && service->backups > 0) {
		count = service->backups;
		eligible = service->backups_eligible;
		noun = "backup";
	}
	if (count == 0) {
		snprintf(text, bytes, "the service has no primary backends");
	} else {
		snprintf(text, bytes, "%u of %u %s%s %s eligible", eligible, count, noun,
			weir_plural(count), eligible == 1 || count == 1 ? "is" : "are");
	}
}

static void note(struct weir_log *log, struct weir_states *states, const char *name,
	const struct weir_service_state *service) {
	char why[80], what[WEIR_STATES_EVENT_BYTES];

	describe(service, why, sizeof(why));
	snprintf(what, sizeof(what), "%s on its backups: %s",
		service->on_backups ? "runs" : "no longer runs", why);
	weir_log_event(log, service->on_backups ? WEIR_LOG_WARN : WEIR_LOG_INFO,
		&(struct weir_log_fields){.service = name, .reason = what}, "service %s: %s", name,
		what);
	weir_states_record_service(states, name, "backups", what);
}

void weir_takeovers_note(
	struct weir_log *log, struct weir_states *states, struct weir_tables *tables) {
	struct weir_service_state service;
	uint16_t id;

	while (tables != NULL && weir_tables_takeover(tables, &id)) {
		if (weir_tables_service(tables, id, &service) == 0) {
			note(log, states, weir_tables_service_name(tables, id), &service);
		}
	}
}
