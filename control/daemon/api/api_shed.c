// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of sheds: shed.plan, shed.start, shed.stop. weir-control answers shed.plan and
// shed.start when the agent has permitted or refused the shed, or when the shed has failed.
#include "api_shed.h"

#include <errno.h>
#include <stdlib.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"

#define WHY_BYTES 320

// --- answers --------------------------------------------------------------------------------

static json_t *json_number(uint64_t number) {
	return json_integer((json_int_t)number);
}

static json_t *json_of(const struct weir_shed *shed) {
	const bool answered = shed->method != WEIR_AGENT_SHED_NO_METHOD;
	json_t *object = json_pack("{s:s, s:s, s:s, s:s*, s:f, s:f, s:f}", "service", shed->service,
		"backend", shed->backend, "state",
		weir_shed_state_name((enum weir_shed_state)shed->state), "why",
		shed->why[0] != '\0' ? shed->why : NULL, "rate", shed->terms.rate, "idle_ms",
		shed->terms.idle_ms, "for_ms", shed->terms.for_ms);

	json_object_set_new(object, "method",
		answered ? json_string(weir_agent_shed_method_name(shed->method)) : json_null());
	json_object_set_new(object, "flows", json_number(shed->level.flows));
	json_object_set_new(object, "mean", json_number(shed->level.mean));
	json_object_set_new(object, "above", json_number(shed->level.above));
	json_object_set_new(object, "most", json_number(shed->first.flows));
	json_object_set_new(object, "ended", json_number(shed->ended));
	json_object_set_new(object, "orders", json_number(shed->orders));
	json_object_set_new(
		object, "connections", answered ? json_number(shed->connections) : json_null());
	json_object_set_new(
		object, "candidates", answered ? json_number(shed->candidates) : json_null());
	json_object_set_new(object, "leaving", answered ? json_number(shed->leaving) : json_null());
	json_object_set_new(object, "started_ms", json_number(shed->started_ms));
	json_object_set_new(object, "ended_ms",
		shed->ended_ms == 0 ? json_null() : json_number(shed->ended_ms));
	json_object_set_new(object, "uid", json_number(shed->who.uid));
	return object;
}

json_t *weir_json_shed(const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	const struct weir_shed *shed = weir_sheds_last(daemon->sheds, state->service, state->name);

	return shed != NULL ? json_of(shed) : json_null();
}

void weir_api_shed_describe(
	const struct weir_daemon *daemon, const struct weir_backend_state *state, char *value) {
	const struct weir_shed *shed = weir_sheds_last(daemon->sheds, state->service, state->name);

	if (shed != NULL) {
		weir_shed_describe(shed, value, WEIR_AUDIT_VALUE_BYTES);
	}
}

// --- shed.plan, shed.start ------------------------------------------------------------------

static void on_begun(void *context, const struct weir_shed *shed) {
	struct weir_api_call *call = context;

	if (shed->state != WEIR_SHED_RUNNING && shed->state != WEIR_SHED_DONE) {
		weir_api_fail(call, WEIR_API_REFUSED, "%s/%s cannot be shed: %s", shed->service,
			shed->backend, shed->why);
	} else {
		weir_api_answer(call, json_of(shed));
	}
}

static void take_number(const struct weir_api_call *call, const char *name, double *number) {
	const json_t *given = json_object_get(weir_api_request(call), name);

	if (json_is_number(given)) {
		*number = json_number_value(given);
	}
}

static void start(struct weir_daemon *daemon, struct weir_api_call *call, bool dry_run) {
	const struct weir_api_peer *peer = weir_api_peer(call);
	const struct weir_audit_who who = {
		.known = true, .uid = peer->uid, .gid = peer->gid, .pid = peer->pid};
	struct weir_shed_terms terms = weir_shed_terms_default();
	char why[WHY_BYTES];
	int id, r;

	terms.dry_run = dry_run;
	take_number(call, "rate", &terms.rate);
	take_number(call, "idle_ms", &terms.idle_ms);
	take_number(call, "for_ms", &terms.for_ms);
	if (weir_shed_terms_check(&terms, why, sizeof(why)) < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s", why);
		return;
	}
	id = weir_api_has_dataplane(daemon, call) ? weir_api_find_backend(daemon, call) : -1;
	if (id < 0) {
		return; // the call has failed
	}
	r = weir_sheds_start(daemon->sheds, (uint16_t)id, &terms, &who,
		weir_daemon_now_ns() / 1000000, on_begun, call, why, sizeof(why));
	if (r == -EINVAL) {
		weir_api_fail(call, WEIR_API_REFUSED, "%s", why);
	} else if (r < 0) {
		weir_api_answer(call, NULL);
	}
}

void weir_api_shed_plan(struct weir_daemon *daemon, struct weir_api_call *call) {
	start(daemon, call, true);
}

void weir_api_shed_start(struct weir_daemon *daemon, struct weir_api_call *call) {
	start(daemon, call, false);
}

// --- shed.stop ------------------------------------------------------------------------------

void weir_api_shed_stop(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_backend_state state = {.id = 0};
	int id = weir_api_has_tables(daemon, call) ? weir_api_find_backend(daemon, call) : -1;

	if (id < 0) {
		return; // the call has failed
	}
	if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
		weir_sheds_stop(daemon->sheds, state.service, state.name) < 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "%s/%s is not being shed", state.service,
			state.name);
		return;
	}
	weir_api_answer(call, weir_json_shed(daemon, &state));
}
