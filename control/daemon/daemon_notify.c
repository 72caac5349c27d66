// SPDX-License-Identifier: BSD-3-Clause
#include "daemon_private.h"
#include "health_state.h"

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
	weir_notify_configure(daemon->notify, &weir_reload_config(daemon->reload)->notify);
	weir_states_on_moved(daemon->states, on_moved);
	daemon->quorums.changed = on_quorum;
	return 0;
}
