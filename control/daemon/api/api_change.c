// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers that change what is: backend.drain, backend.ready, backend.maintenance,
// weight.set. The change is published before the reply is sent, so that the next packet sees it, or
// the reply says that it is not yet.
#include "api_commands.h"
#include "daemon.h"

static void set_admin(struct weir_daemon *daemon, struct weir_api_call *call,
	enum weir_admin_state admin, const char *name) {
	const struct weir_api_peer *peer = weir_api_peer(call);
	struct weir_backend_state state;
	int id;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	id = weir_api_find_backend(daemon, call);
	if (id < 0) {
		return;
	}
	if (admin == WEIR_ADMIN_READY) {
		// An operator overrules what the backend said of itself; it may say it again.
		weir_states_say(weir_watch_states(daemon->watch), (uint16_t)id,
			WEIR_HEALTH_WORD_NONE, "operator", "weirctl backend ready");
	}
	weir_tables_set_admin(daemon->tables, (uint16_t)id, admin);
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	weir_log_write(daemon->log, WEIR_LOG_INFO, "backend %s/%s: %s (by uid %u, pid %d)",
		state.service, state.name, name, (unsigned int)peer->uid, (int)peer->pid);
	weir_api_publish_now(daemon, call);
	weir_api_answer(
		call, json_pack("{s:s, s:s, s:s, s:I}", "service", state.service, "backend",
			      state.name, "admin", name, "active_flows",
			      (json_int_t)weir_tables_backend_flows(daemon->tables, (uint16_t)id)));
}

void weir_api_backend_drain(struct weir_daemon *daemon, struct weir_api_call *call) {
	set_admin(daemon, call, WEIR_ADMIN_DRAIN, "drain");
}

void weir_api_backend_ready(struct weir_daemon *daemon, struct weir_api_call *call) {
	set_admin(daemon, call, WEIR_ADMIN_READY, "ready");
}

void weir_api_backend_maintenance(struct weir_daemon *daemon, struct weir_api_call *call) {
	set_admin(daemon, call, WEIR_ADMIN_MAINTENANCE, "maintenance");
}

void weir_api_weight_set(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_api_peer *peer = weir_api_peer(call);
	json_int_t weight = weir_api_integer(call, "weight", -1);
	struct weir_backend_state state;
	int id;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	id = weir_api_find_backend(daemon, call);
	if (id < 0) {
		return;
	}
	weir_tables_set_weight(
		daemon->tables, (uint16_t)id, weight < 0 ? WEIR_WEIGHT_UNSET : (uint32_t)weight);
	weir_api_publish_now(daemon, call);
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	weir_log_write(daemon->log, WEIR_LOG_INFO, "backend %s/%s: weight %u%s (by uid %u, pid %d)",
		state.service, state.name, state.effective_weight,
		weight < 0 ? ", as configured" : "", (unsigned int)peer->uid, (int)peer->pid);
	weir_api_answer(
		call, json_pack("{s:s, s:s, s:o, s:I}", "service", state.service, "backend",
			      state.name, "weight", weight < 0 ? json_null() : json_integer(weight),
			      "effective_weight", (json_int_t)state.effective_weight));
}
