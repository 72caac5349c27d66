// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers that change the state of a backend: backend.drain, backend.ready,
// backend.maintenance, weight.set. A change is published before the reply is sent, so that it
// applies to the next packet. If publishing to an attached dataplane fails, the reply reports that
// the change is not published yet.
#include "api_change.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "api_counters.h"
#include "api_show.h"
#include "daemon.h"
#include "plural.h"
#include "totals.h"

#define INTERVAL_MAX_MS 604800000.0 // a week

// Find the backend that a call names. Returns its id. On an error, fails the call and returns a
// negative number.
static int find_backend(struct weir_daemon *daemon, struct weir_api_call *call) {
	return weir_api_has_tables(daemon, call) ? weir_api_find_backend(daemon, call) : -1;
}

// Returns the number of backends of a service that get new flows. name: set to the name of the
// first such backend, if there is one.
static uint32_t count_used(
	const struct weir_daemon *daemon, uint16_t service, char name[WEIR_NAME_BYTES]) {
	struct weir_backend_state state;
	uint32_t n = 0;

	for (uint32_t id = 0; id < weir_tables_backend_ids(daemon->tables); id++) {
		if (weir_tables_backend_service(daemon->tables, (uint16_t)id) != service ||
			weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
			!state.in_selection) {
			continue;
		}
		if (n++ == 0) {
			snprintf(name, WEIR_NAME_BYTES, "%s", state.name);
		}
	}
	return n;
}

json_t *weir_json_service_warnings(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	char text[4 * WEIR_NAME_BYTES], name[WEIR_NAME_BYTES], more[32] = "";
	struct weir_service_state service;
	uint32_t used;

	if (weir_tables_service(daemon->tables, state->service_id, &service) < 0) {
		return json_array();
	}
	if (service.on_backups && !state->backup && service.eligible > 0) {
		snprintf(text, sizeof(text),
			"service %s runs on its backups: %u of %u primary backend%s eligible",
			state->service, service.eligible - service.backups_eligible,
			service.backends - service.backups,
			weir_plural(service.backends - service.backups));
		return json_pack("[s]", text);
	}
	if (service.eligible > 0) {
		return json_array();
	}
	used = count_used(daemon, state->service_id, name);
	if (used == 0) {
		snprintf(text, sizeof(text), "service %s has no backend for new flows",
			state->service);
	} else {
		if (used > 1) {
			snprintf(more, sizeof(more), " and %u more", used - 1);
		}
		snprintf(text, sizeof(text),
			"no backend of service %s is ready: new flows still go to %s%s",
			state->service, name, more);
	}
	return json_pack("[s]", text);
}

// A restarted worker has no entry for a connection that has sent no packet since the restart, and
// finds its backend with the current selection.
bool weir_api_moves_flows(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	return daemon->segment != NULL && !state->in_selection &&
	       weir_tables_recount_left_ms(daemon->tables) > 0;
}

json_t *weir_json_moves_flows(const char *object) {
	return json_sprintf("weir-dataplane was restarted less than a minute ago: connections to "
			    "%s that have sent no packet since then move to other backends, which "
			    "reset them, unless it gets new flows again before their next packet",
		object);
}

json_t *weir_json_warnings(
	const struct weir_daemon *daemon, const struct weir_backend_state *state, bool takes_out) {
	json_t *warnings = takes_out ? weir_json_service_warnings(daemon, state) : json_array();
	char name[2 * WEIR_NAME_BYTES];

	if (takes_out && weir_api_moves_flows(daemon, state)) {
		snprintf(name, sizeof(name), "%s/%s", state->service, state->name);
		json_array_append_new(warnings, weir_json_moves_flows(name));
	}
	return warnings;
}

// Returns a warning if the last report of the backend's agent announces a lame duck state, for the
// host or for a port, because the next report announces it again. Otherwise returns NULL. Assumes
// that the service has the same name in `weir-agent announce`.
static json_t *json_announced_lame_duck(
	const struct weir_daemon *daemon, uint16_t id, const struct weir_backend_state *state) {
	struct weir_reports_status status;
	uint64_t age_ms;

	if (weir_probed_agents_state(daemon->probed_agents, id, &age_ms) != WEIR_AGENT_ANSWERS ||
		weir_reports_status(daemon->reports, id, &status) < 0 ||
		strcmp(status.source, "agent") != 0) {
		return NULL;
	}
	if (status.report->word == WEIR_HEALTH_WORD_LAME_DUCK) {
		return json_string("the agent announces lame-duck again in its next report; to end "
				   "this, run \"weir-agent ready\" on the host");
	}
	for (uint32_t i = 0; i < status.report->port_word_count; i++) {
		if (status.report->port_words[i].word == WEIR_HEALTH_WORD_LAME_DUCK) {
			return json_sprintf("the agent announces lame-duck again in its next "
					    "report; to end this, run \"weir-agent announce ready "
					    "--service %s\" on the host",
				state->service);
		}
	}
	return NULL;
}

// Returns the state of a backend as JSON. Call this function after a change was published.
static json_t *json_admin(struct weir_daemon *daemon, uint16_t id) {
	struct weir_share_counters counters = weir_sum_backend(daemon->segment, id);
	struct weir_backend_state state;

	weir_tables_backend(daemon->tables, id, &state);
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "service", state.service, "backend",
		state.name, "admin", weir_api_admin_name(state.admin), "active_flows",
		weir_json_count(daemon, counters.active_flows), "open_flows",
		weir_json_count(daemon, counters.open_flows), "drain",
		weir_json_drain(daemon, &state), "warnings",
		weir_json_warnings(daemon, &state, state.admin != WEIR_ADMIN_READY));
}

bool weir_api_deadline(struct weir_api_call *call, uint64_t *ret_until_ns) {
	const json_t *interval = json_object_get(weir_api_request(call), "interval_ms");
	double ms = json_number_value(interval);

	if (ms > INTERVAL_MAX_MS) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"interval_ms\" must be a number from 0 to %.0f",
			INTERVAL_MAX_MS);
		return false;
	}
	*ret_until_ns = json_is_number(interval) ? weir_daemon_now_ns() + (uint64_t)(ms * 1e6) : 0;
	return true;
}

void weir_api_make_ready(struct weir_daemon *daemon, uint16_t backend) {
	// Discard the announced states, so that the next report applies even if it repeats a state.
	weir_health_clear_words(daemon->health, backend);
	weir_states_set_word(
		daemon->states, backend, WEIR_HEALTH_WORD_NONE, "operator", "made ready");
	weir_outliers_readmit(daemon->outliers, backend);
	weir_tables_set_admin(daemon->tables, backend, WEIR_ADMIN_READY);
}

static void answer(struct weir_daemon *daemon, struct weir_api_call *call, uint16_t backend) {
	weir_api_publish_now(daemon, call);
	weir_api_answer(call, json_admin(daemon, backend));
}

// Lists a backend, and then the removed backends of the same service that have the same name but
// another address. *found: number of removed backends in the list. The caller frees the list.
// Returns NULL if out of memory.
static uint16_t *with_former(const struct weir_daemon *daemon, uint16_t id, uint32_t *found) {
	const uint16_t service = weir_tables_backend_service(daemon->tables, id);
	const char *name = weir_tables_backend_name(daemon->tables, id);
	uint16_t *ids;

	*found = weir_tables_backends_removed(daemon->tables, service, name, NULL, 0);
	ids = malloc((*found + 1) * sizeof(*ids));
	if (ids != NULL) {
		ids[0] = id;
		weir_tables_backends_removed(daemon->tables, service, name, &ids[1], *found);
	}
	return ids;
}

// Drains a backend. Also drains removed backends that have the same name but another address, if
// they have flows or no dataplane is attached. Returns 0, -ENOENT or -ENOMEM.
static int begin_drain(struct weir_daemon *daemon, uint16_t id, uint64_t until_ns) {
	uint32_t found, n = 1;
	uint16_t *ids = with_former(daemon, id, &found);
	int r;

	if (ids == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 1; i <= found; i++) {
		if (daemon->segment == NULL ||
			weir_sum_backend(daemon->segment, ids[i]).active_flows > 0) {
			ids[n++] = ids[i];
		}
	}
	r = weir_drains_begin(&daemon->drains, daemon->tables, ids, n, until_ns);
	free(ids);
	return r;
}

// Ends the drains of the removed backends that with_former lists. Returns 0 or -ENOMEM.
static int end_former_drains(struct weir_daemon *daemon, uint16_t id) {
	struct weir_backend_state state;
	uint32_t found;
	uint16_t *ids = with_former(daemon, id, &found);

	if (ids == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 1; i <= found; i++) {
		if (weir_tables_backend(daemon->tables, ids[i], &state) == 0 &&
			state.admin == WEIR_ADMIN_DRAIN) {
			weir_tables_set_admin(daemon->tables, ids[i], WEIR_ADMIN_READY);
		}
	}
	free(ids);
	return 0;
}

// Handler of backend.drain. The drain continues even if the client disconnects.
void weir_api_backend_drain(struct weir_daemon *daemon, struct weir_api_call *call) {
	int id = find_backend(daemon, call);
	uint64_t until_ns;

	if (id < 0 || !weir_api_deadline(call, &until_ns)) {
		return;
	}
	if (begin_drain(daemon, (uint16_t)id, until_ns) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	answer(daemon, call, (uint16_t)id);
}

void weir_api_backend_ready(struct weir_daemon *daemon, struct weir_api_call *call) {
	int id = find_backend(daemon, call);
	struct weir_backend_state state;
	json_t *result, *warning = NULL;

	if (id < 0) {
		return;
	}
	if (end_former_drains(daemon, (uint16_t)id) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) == 0 &&
		state.health == WEIR_HEALTH_LAME_DUCK) {
		warning = json_announced_lame_duck(daemon, (uint16_t)id, &state);
	}
	weir_api_make_ready(daemon, (uint16_t)id);
	weir_api_publish_now(daemon, call);
	result = json_admin(daemon, (uint16_t)id);
	if (warning != NULL) {
		json_array_append_new(json_object_get(result, "warnings"), warning);
	}
	weir_api_answer(call, result);
}

void weir_api_backend_maintenance(struct weir_daemon *daemon, struct weir_api_call *call) {
	int id = find_backend(daemon, call);

	if (id >= 0) {
		weir_tables_set_admin(daemon->tables, (uint16_t)id, WEIR_ADMIN_MAINTENANCE);
		answer(daemon, call, (uint16_t)id);
	}
}

static enum weir_policy policy_of(const struct weir_daemon *daemon, const char *service) {
	int id = weir_tables_service_find(daemon->tables, service);
	struct weir_service_state state = {0};

	if (id >= 0) {
		weir_tables_service(daemon->tables, (uint16_t)id, &state);
	}
	return (enum weir_policy)state.policy;
}

void weir_api_weight_set(struct weir_daemon *daemon, struct weir_api_call *call) {
	json_int_t weight = weir_api_integer(call, "weight", -1);
	struct weir_backend_state state;
	int id = find_backend(daemon, call);
	enum weir_policy policy;

	if (id < 0) {
		return;
	}
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	if (!weir_canaries_let_go(daemon->canaries, state.service, state.name)) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"the running canary of backend %s/%s sets the weight of the backend; to "
			"end the canary, run \"weirctl canary stop %s\"",
			state.service, state.name, state.service);
		return;
	}
	weir_tables_set_weight(
		daemon->tables, (uint16_t)id, weight < 0 ? WEIR_WEIGHT_UNSET : (uint32_t)weight);
	weir_api_publish_now(daemon, call);
	weir_tables_backend(daemon->tables, (uint16_t)id, &state);
	policy = policy_of(daemon, state.service);
	weir_api_answer(call,
		json_pack("{s:s, s:s, s:o, s:I, s:s, s:b, s:o}", "service", state.service,
			"backend", state.name, "weight",
			weight < 0 ? json_null() : json_integer(weight), "effective_weight",
			(json_int_t)state.effective_weight, "policy", weir_policy_name(policy),
			"policy_uses_weights", weir_policy_uses_weights(policy), "warnings",
			weir_json_warnings(daemon, &state, weight == 0)));
}
