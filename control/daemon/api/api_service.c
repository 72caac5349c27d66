// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of services: service.show, service.set.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_binds.h"
#include "api_commands.h"
#include "api_counters.h"
#include "api_order.h"
#include "api_show.h"
#include "append.h"
#include "daemon.h"
#include "duration.h"
#include "plural.h"
#include "totals.h"

json_t *weir_json_binds(const struct weir_config_service *service) {
	char text[WEIR_BIND_TEXT_BYTES];
	json_t *binds = json_array();

	for (uint32_t i = 0; i < service->bind_count; i++) {
		json_array_append_new(binds,
			json_string(weir_bind_format(&service->binds[i], text, sizeof(text))));
	}
	return binds;
}

static json_t *policy_or_null(uint8_t policy) {
	return policy == WEIR_POLICY_UNSET
		       ? json_null()
		       : json_string(weir_policy_name((enum weir_policy)policy));
}

static void warn_of_removal(const struct weir_service_state *state, json_t *warnings) {
	uint64_t now_ns = weir_daemon_now_ns(), until_ns = state->removal_until_ns;
	const char *plural = state->removed_binds == 1 ? "" : "s";
	const char *then = state->down_flags != WEIR_BACKEND_RESET ? ""
			   : state->removed_binds == 1 ? ", then its TCP flows are reset"
						       : ", then their TCP flows are reset";
	char text[160], left[WEIR_DURATION_BYTES];

	weir_duration_text(until_ns > now_ns ? (until_ns - now_ns) / 1000000 : 0, left);
	if (state->removal == WEIR_DRAIN_DRAINING) {
		snprintf(text, sizeof(text), "removed: %u bind%s drain%s for another %s%s",
			state->removed_binds, plural, state->removed_binds == 1 ? "s" : "", left,
			then);
		json_array_append_new(warnings, json_string(text));
	} else if (state->removal == WEIR_DRAIN_DROPPED) {
		snprintf(text, sizeof(text),
			"removed: TCP flows of %u bind%s are reset for another %s",
			state->removed_binds, plural, left);
		json_array_append_new(warnings, json_string(text));
	}
}

const char *weir_api_limited_text(const struct weir_daemon *daemon,
	const struct weir_service_state *service, char text[WEIR_API_LIMITED_BYTES]) {
	const struct weir_recent_limited recent =
		weir_recent_limited(&daemon->recent, daemon->segment, service->id);
	const uint64_t flows = recent.rejected + recent.spilled;

	text[0] = '\0';
	if (flows == 0) {
		return text;
	}
	weir_append(text, WEIR_API_LIMITED_BYTES,
		"every backend was at max_active_flows for %llu new flow%s in the last minute: ",
		(unsigned long long)flows, weir_plural(flows));
	if (recent.rejected > 0) {
		weir_append(text, WEIR_API_LIMITED_BYTES, "%llu rejected%s",
			(unsigned long long)recent.rejected, recent.spilled > 0 ? ", " : "");
	}
	if (recent.spilled > 0) {
		weir_append(text, WEIR_API_LIMITED_BYTES, "%llu spilled",
			(unsigned long long)recent.spilled);
	}
	weir_append(text, WEIR_API_LIMITED_BYTES, "; when_exhausted is %s",
		service->settings.when_exhausted == WEIR_EXHAUSTED_REJECT
			? "reject: such flows are dropped"
			: "spill");
	return text;
}

static json_t *json_warnings(
	struct weir_daemon *daemon, const struct weir_service_state *state, uint16_t id) {
	uint32_t drained = weir_tables_drained_binds(daemon->tables, id);
	json_t *warnings = json_array();
	char text[160], limited[WEIR_API_LIMITED_BYTES];

	if (drained > 0) {
		snprintf(text, sizeof(text),
			"drained: %u bind%s of the service accept%s no new flows", drained,
			weir_plural(drained), drained == 1 ? "s" : "");
		json_array_append_new(warnings, json_string(text));
	}
	if (state->on_backups) {
		snprintf(text, sizeof(text),
			"runs on its backups: %u of %u primary backend%s eligible",
			state->eligible - state->backups_eligible, state->backends - state->backups,
			weir_plural(state->backends - state->backups));
		json_array_append_new(warnings, json_string(text));
	}
	warn_of_removal(state, warnings);
	if (weir_api_limited_text(daemon, state, limited)[0] != '\0') {
		json_array_append_new(warnings, json_sprintf("connection limit: %s", limited));
	}
	return warnings;
}

static json_t *json_service(
	struct weir_daemon *daemon, const struct weir_config_service *service, uint16_t id) {
	struct weir_share_counters counters = weir_sum_service(daemon->segment, id);
	struct weir_service_state state = {0};

	weir_tables_service(daemon->tables, id, &state);
	return json_pack(
		"{s:s, s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, "
		"s:b, s:I, s:b, s:I, "
		"s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"name", service->name, "id", (int)id, "policy",
		weir_policy_name((enum weir_policy)state.policy), "runtime_policy",
		policy_or_null(state.runtime_policy), "forwarding",
		weir_forwarding_name(service->forwarding.mode), "binds", weir_json_binds(service),
		"drained_binds", weir_json_drained_binds(daemon, service, id), "removed_binds",
		weir_json_removed_binds(daemon, id, state.removed_binds), "table_size",
		(json_int_t)service->table_size, "slots", (json_int_t)state.slots, "backends",
		(json_int_t)state.backends, "eligible", (json_int_t)state.eligible,
		"quorum_eligible", (json_int_t)weir_quorum_eligible(&state), "quorum",
		(json_int_t)service->quorum, "up", weir_json_up(daemon, id), "panic",
		(int)state.panic, "backups", (json_int_t)state.backups, "on_backups",
		(int)state.on_backups, "generation", (json_int_t)state.generation, "active_flows",
		weir_json_count(daemon, counters.active_flows), "new_flows",
		weir_json_count(daemon, counters.new_flows), "packets",
		weir_json_count(daemon, counters.packets), "bytes",
		weir_json_count(daemon, counters.bytes), "dropped",
		weir_json_count(daemon, counters.dropped), "spilled",
		weir_json_count(daemon, counters.spilled), "rejected",
		weir_json_count(daemon, counters.rejected), "rehashed",
		weir_json_count(daemon, counters.rehashed), "reset",
		weir_json_count(daemon, counters.reset), "warnings",
		json_warnings(daemon, &state, id));
}

// --- all services -------------------------------------------------------------------------

struct service_list { // the rows of a reply
	struct weir_daemon *daemon;
	// Segment to which the ids and counters in the rows belong.
	const struct weir_segment *segment;
	uint64_t epoch;
	struct weir_api_order *order; // order when the list began
	uint32_t next; // next index in the order
};

// Finds the configuration of a service by name. Tries the index `place` first, which the service
// had when the list began. A reload can have changed the index since then.
static const struct weir_config_service *config_of(
	const struct service_list *list, uint32_t place, const char *name) {
	const struct weir_config *config = weir_reload_config(list->daemon->reload);

	if (place < config->service_count && strcmp(config->services[place].name, name) == 0) {
		return &config->services[place];
	}
	return weir_config_find_service(config, name);
}

static int next_service(void *context, json_t **ret) {
	struct service_list *list = context;
	struct weir_daemon *daemon = list->daemon;

	if (daemon->segment != list->segment || daemon->epoch != list->epoch) {
		return -ECANCELED;
	}
	while (list->next < list->order->count) {
		const uint32_t place = list->next++;
		const uint16_t id = list->order->ids[place];
		const char *name = weir_tables_service_name(daemon->tables, id);
		const struct weir_config_service *config =
			name != NULL ? config_of(list, place, name) : NULL;

		if (config != NULL) { // NULL: no id yet, or removed since the list began
			*ret = json_service(daemon, config, id);
			return 1;
		}
	}
	return 0;
}

static void free_services(void *context) {
	struct service_list *list = context;

	free(list->order);
	free(list);
}

int weir_api_service_rows(struct weir_daemon *daemon, struct weir_api_rows *ret) {
	struct service_list *list = malloc(sizeof(*list));
	struct weir_api_order *order = weir_api_service_order(daemon);

	if (list == NULL || order == NULL) {
		free(order);
		free(list);
		return -ENOMEM;
	}
	*list = (struct service_list){.daemon = daemon,
		.segment = daemon->segment,
		.epoch = daemon->epoch,
		.order = order};
	*ret = (struct weir_api_rows){.next = next_service, .free = free_services, .context = list};
	return 0;
}

// --- details of one service ---------------------------------------------------------------

static void set(json_t *object, const char *key, const char *value) {
	json_object_set_new(object, key, json_string(value));
}

// Returns the settings that the active policy of a service uses, as JSON.
static json_t *json_settings(struct weir_daemon *daemon, uint16_t id,
	const struct weir_config_policy *config, const struct weir_service_state *state) {
	uint8_t needs = weir_policy_needs((enum weir_policy)state->policy);
	json_t *settings = json_object();
	const char *unused;

	if (state->policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		set(settings, "weights", weir_config_weights_name(config->weights));
	}
	if (state->policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN &&
		config->weights == WEIR_WEIGHTS_REPORTED) {
		set(settings, "requests", weir_config_requests_name(config->requests));
		json_object_set_new(settings, "error_penalty", json_real(config->error_penalty));
		json_object_set_new(settings, "blackout_ms", json_integer(config->blackout_ms));
		json_object_set_new(settings, "expiration_ms", json_integer(config->expiration_ms));
		json_object_set_new(settings, "smoothing_ms", json_integer(config->smoothing_ms));
		json_object_set_new(settings, "update_ms", json_integer(config->update_ms));
	}
	if ((needs & WEIR_NEEDS_COST) != 0 &&
		weir_policy_rounds(&state->settings) != WEIR_ROUNDS_TASKS) {
		set(settings, "statistic", weir_config_statistic_name(config->statistic));
		json_object_set_new(settings, "window", json_integer(config->window));
		set(settings, "measurement", weir_config_measurement_name(config->measurement));
		set(settings, "service_time", weir_config_service_time_name(config->service_time));
		json_object_set_new(settings, "stale_ms", json_integer(config->stale_ms));
	}
	if ((needs & WEIR_NEEDS_ROUNDS) != 0) {
		set(settings, "rounds", weir_config_rounds_name(config->rounds));
	}
	if ((needs & WEIR_NEEDS_ERRORS) != 0) {
		json_object_set_new(
			settings, "error_window_ms", json_integer(state->settings.error_window_ms));
		json_object_set_new(settings, "error_window_automatic",
			json_boolean(config->error_window_ms == 0));
	}
	if ((needs & WEIR_NEEDS_ERRORS) != 0 ||
		weir_policy_charges((enum weir_policy)state->policy)) {
		unused =
			weir_estimates_requests_unused(daemon->estimates, id, weir_daemon_now_ns());
		set(settings, "reported_requests", unused != NULL ? unused : "used");
	}
	return settings;
}

static json_t *json_flow_control(
	struct weir_daemon *daemon, const struct weir_config_flow_control *config, uint16_t id) {
	const struct weir_recent_limited recent =
		weir_recent_limited(&daemon->recent, daemon->segment, id);
	uint64_t dropped = 0;

	for (uint32_t i = 0; daemon->segment != NULL && i < daemon->segment->workers; i++) {
		dropped += weir_counter_read(
			&daemon->segment->worker_counters[i].drops[WEIR_DROP_FLOW_CONTROL]);
	}
	return json_pack("{s:I, s:s, s:o, s:o, s:o}", "max_active_flows",
		(json_int_t)config->max_active_flows, "when_exhausted",
		weir_config_when_exhausted_name(config->when_exhausted), "last_minute",
		weir_json_count(daemon, recent.spilled + recent.rejected), "rejected_last_minute",
		weir_json_count(daemon, recent.rejected), "drops_of_all_services",
		weir_json_count(daemon, dropped));
}

static json_t *json_subset(const struct weir_config_subset *config) {
	if (config->algorithm == WEIR_SUBSET_NONE) {
		return json_pack("{s:s}", "algorithm", weir_subset_name(config->algorithm));
	}
	return json_pack("{s:s, s:I, s:s}", "algorithm", weir_subset_name(config->algorithm),
		"size", (json_int_t)config->size, "client",
		weir_subset_client_name(config->client));
}

static json_t *json_share(struct weir_daemon *daemon, const struct weir_shares *shares,
	const struct weir_backend_state *state) {
	struct weir_share_counters counters = weir_sum_backend(daemon->segment, state->id);
	struct weir_estimate estimate =
		weir_estimates_backend(daemon->estimates, state->id, weir_daemon_now_ns());

	return json_pack("{s:s, s:b, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "backend", state->name,
		"in_selection", (int)state->in_selection, "weight",
		(json_int_t)state->effective_weight, "effective_share_percent",
		weir_json_percent_or_null(weir_shares_effective(shares, state)),
		"achieved_share_percent",
		weir_json_percent_or_null(weir_shares_recent(shares, state)), "open_flows",
		weir_json_count(daemon, counters.open_flows), "errors",
		weir_json_count(daemon, counters.errors), "service_time_ms",
		estimate.service_ns > 0 ? json_real(round((double)estimate.service_ns / 1e3) / 1e3)
					: json_null(),
		"samples",
		estimate.collected ? json_integer((json_int_t)estimate.samples) : json_null());
}

static json_t *json_shares(struct weir_daemon *daemon, uint16_t service) {
	struct weir_api_order *order = weir_api_order(daemon);
	struct weir_backend_state state;
	struct weir_shares *shares;
	json_t *list;

	if (order == NULL || weir_api_shares(daemon, service, &shares) < 0) {
		free(order);
		return NULL;
	}
	list = json_array();
	for (uint32_t i = 0; i < order->count; i++) {
		const uint16_t id = order->ids[i];

		if (weir_tables_backend_service(daemon->tables, id) == service &&
			weir_tables_backend(daemon->tables, id, &state) == 0 && !state.leaving) {
			json_array_append_new(list, json_share(daemon, shares, &state));
		}
	}
	weir_shares_free(shares);
	free(order);
	return list;
}

static void add_details(struct weir_daemon *daemon, json_t *object, uint16_t id,
	const struct weir_config_service *config) {
	struct weir_service_state state = {0};

	weir_tables_service(daemon->tables, id, &state);
	set(object, "configured_policy",
		weir_policy_name((enum weir_policy)state.configured_policy));
	json_object_set_new(object, "settings", json_settings(daemon, id, &config->policy, &state));
	set(object, "workload", weir_config_workload_name(config->workload));
	set(object, "udp", weir_config_udp_name(config->udp));
	set(object, "on_backend_down", weir_config_on_backend_down_name(config->on_backend_down));
	json_object_set_new(
		object, "flow_control", json_flow_control(daemon, &config->flow_control, id));
	json_object_set_new(object, "subset", json_subset(&config->subset));
	json_object_set_new(object, "shares", json_shares(daemon, id));
}

static void show_one(struct weir_daemon *daemon, struct weir_api_call *call, const char *service) {
	const struct weir_config_service *config =
		weir_config_find_service(weir_reload_config(daemon->reload), service);
	int id = weir_api_find_service(daemon, call);
	json_t *list;

	if (id < 0) {
		return;
	}
	list = json_array();
	if (config != NULL) {
		json_array_append_new(list, json_service(daemon, config, (uint16_t)id));
		add_details(daemon, json_array_get(list, 0), (uint16_t)id, config);
	}
	weir_api_answer(call, list);
}

void weir_api_service_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	struct weir_api_rows rows;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	if (service != NULL) {
		show_one(daemon, call, service);
	} else if (weir_api_service_rows(daemon, &rows) < 0) {
		weir_api_answer(call, NULL);
	} else {
		weir_api_answer_rows(call, NULL, NULL, &rows);
	}
}

// --- changes ------------------------------------------------------------------------------

// Returns the policy that a request names; WEIR_POLICY_UNSET = the argument is null. On an error,
// fails the call and returns a negative number.
static int wanted_policy(struct weir_api_call *call, const struct weir_config_service *config) {
	const char *name = weir_api_text(call, "policy");
	const char *misfit;
	int policy;

	if (name == NULL) {
		return WEIR_POLICY_UNSET;
	}
	policy = weir_policy_parse(name);
	if (policy < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "no such policy: \"%.100s\"", name);
		return policy;
	}
	misfit = weir_config_policy_misfit(config, (enum weir_policy)policy);
	if (misfit != NULL) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"policy \"%s\" does not support \"%s\", which is configured for service "
			"\"%s\": change the policy in the configuration, and reload",
			name, misfit, config->name);
		return -EINVAL;
	}
	return policy;
}

// Returns whether the policy of a service may be changed. While a canary of the service runs, fails
// the call and returns false.
static bool allows_canary(const struct weir_daemon *daemon, struct weir_api_call *call,
	const struct weir_config_service *config) {
	const struct weir_canary *canary = weir_canaries_find(daemon->canaries, config->name);

	if (canary == NULL || !weir_canary_is_running(canary)) {
		return true;
	}
	weir_api_fail(call, WEIR_API_REFUSED,
		"the policy cannot change while the canary of backend %s/%s runs; to end the "
		"canary, run \"weirctl canary stop %s\"",
		config->name, canary->record.backend, config->name);
	return false;
}

void weir_api_service_set(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_config_service *config;
	struct weir_service_state state;
	int id, policy;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	id = weir_api_find_service(daemon, call);
	if (id < 0) {
		return;
	}
	config = weir_config_find_service(
		weir_reload_config(daemon->reload), weir_api_text(call, "service"));
	if (config == NULL) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "service \"%.100s\" is not configured",
			weir_api_text(call, "service"));
		return;
	}
	policy = wanted_policy(call, config);
	if (policy < 0 || !allows_canary(daemon, call, config)) {
		return;
	}
	if (weir_tables_set_policy(daemon->tables, (uint16_t)id, (uint8_t)policy) < 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "service \"%.100s\" is being removed",
			config->name);
		return;
	}
	weir_daemon_update_estimates(daemon);
	weir_api_publish_now(daemon, call);
	weir_tables_service(daemon->tables, (uint16_t)id, &state);
	weir_api_answer(call, json_pack("{s:s, s:o, s:s}", "service", config->name, "policy",
				      policy_or_null((uint8_t)policy), "effective_policy",
				      weir_policy_name((enum weir_policy)state.policy)));
}
