// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdio.h>

#include "daemon_private.h"
#include "duration.h"
#include "health_state.h"
#include "plural.h"

static void on_moved(void *context, const struct weir_states_transition *transition) {
	struct weir_daemon *daemon = context;
	char address[64];

	weir_notify_backend(daemon->notify, transition->id,
		&(struct weir_notify_event){.service = transition->service,
			.backend = transition->backend,
			.address =
				weir_address_format(transition->address, address, sizeof(address)),
			.from = weir_health_state_name(transition->from),
			.to = weir_health_state_name(transition->to),
			.why = transition->why,
			.time_ms = weir_daemon_wall_ms()});
}

static void on_quorum(void *context, const struct weir_quorum_change *change) {
	struct weir_daemon *daemon = context;

	weir_notify_service(daemon->notify, change->id,
		&(struct weir_notify_event){.service = change->service,
			.from = !change->known ? "unknown"
				: change->up   ? "down"
					       : "up",
			.to = change->up ? "up" : "down",
			.why = change->why,
			.eligible = change->eligible,
			.backends = change->backends,
			.quorum = change->quorum,
			.time_ms = weir_daemon_wall_ms()});
}

static void names_of(void *context, uint16_t backend, struct weir_health_names *ret) {
	const struct weir_tables *tables = ((struct weir_daemon *)context)->tables;
	const char *name = weir_tables_backend_name(tables, backend);
	const char *service =
		weir_tables_service_name(tables, weir_tables_backend_service(tables, backend));

	*ret = (struct weir_health_names){
		.service = service != NULL ? service : "", .backend = name != NULL ? name : ""};
}

// Returns whether the configuration has a program. only: NULL = all services, and notify.
static bool has_programs(const struct weir_config *config, const struct weir_config_service *only) {
	bool found = only == NULL && config->notify.command.words > 0;

	for (uint32_t i = 0; !found && i < config->service_count; i++) {
		struct weir_config_checks at = {.service = &config->services[i]};

		while (!found && (only == NULL || only == at.service) &&
			weir_config_next_check(&at)) {
			found = at.check->type == WEIR_CHECK_EXEC;
		}
	}
	return found;
}

bool weir_daemon_programs_problem(const struct weir_daemon *daemon,
	const struct weir_config_service *only, char *why, size_t bytes) {
	const char *problem = weir_programs_problem(daemon->programs);
	int service = only != NULL ? weir_tables_service_find(daemon->tables, only->name) : -1;
	char length[WEIR_DURATION_BYTES];
	uint32_t late;
	uint64_t ms;

	if (!has_programs(weir_reload_config(daemon->reload), only)) {
		return false;
	}
	if (problem != NULL) {
		snprintf(why, bytes, "programs of the configuration do not run: %s", problem);
		return true;
	}
	late = weir_health_programs_late(daemon->health, service, &ms);
	if (late > 0) {
		snprintf(why, bytes,
			"%" PRIu32 " health check%s of type exec wait%s for longer than their "
			"interval, up to %s, because at most %u programs run at the same time: use "
			"a longer interval_ms or a faster program",
			late, weir_plural(late), late == 1 ? "s" : "",
			weir_duration_text(ms, length), WEIR_HEALTH_PROGRAMS);
	}
	return late > 0;
}

int weir_daemon_set_programs(struct weir_daemon *daemon, int helper) {
	int r = helper < 0 ? 0
			   : weir_programs_create(
				     &daemon->loop, helper, daemon->log, &daemon->programs);

	if (r == 0) {
		r = weir_notify_create(
			&daemon->loop, daemon->programs, daemon->log, &daemon->notify);
	}
	if (r < 0) {
		weir_log_write(
			daemon->log, WEIR_LOG_ERROR, "cannot start: programs: %s", uv_strerror(r));
		return r;
	}
	weir_health_set_programs(daemon->health, daemon->programs, names_of);
	weir_notify_configure(daemon->notify, &weir_reload_config(daemon->reload)->notify);
	weir_states_on_moved(daemon->states, on_moved);
	daemon->quorums.changed = on_quorum;
	return 0;
}
