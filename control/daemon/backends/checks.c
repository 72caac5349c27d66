// SPDX-License-Identifier: BSD-3-Clause
#include "checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "duration.h"

#define NAMES_MOST 3 // maximum number of services named in a log line

static uint32_t count_backends(const struct weir_config *config) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		count += config->services[i].backend_count;
	}
	return count;
}

// The agent-check runs alongside the health check and does not depend on its result.
static void add_agent_check(const struct weir_config_service *service,
	const struct weir_backend_state *backend, struct weir_health_target *targets, uint32_t *n) {
	const struct weir_config_health_check *check = &service->agent_check;

	if (check->type != WEIR_CHECK_NONE) {
		targets[(*n)++] = (struct weir_health_target){
			.backend = backend->id,
			.service = backend->service_id,
			.port = check->port,
			.address = backend->address,
			.check = check,
			.alongside = true,
			.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
		};
	}
}

// Returns the state that the backend has announced. A passed health check whose response has no
// X-Weir-State header withdraws this state. Returns NONE if agents or agent-checks report the
// state, because then responses must not withdraw it.
static enum weir_health_word word_in_answers(
	const struct weir_config_service *service, struct weir_health_facts facts) {
	return service->agent.port == 0 && service->agent_check.type == WEIR_CHECK_NONE
		       ? (enum weir_health_word)facts.word
		       : WEIR_HEALTH_WORD_NONE;
}

struct plan { // how backends are checked
	struct weir_config_health_check check;
	uint16_t port;
	struct weir_address *vips; // to connect to, for checks via the data path; allocated
	uint32_t vip_count;
};

// The plans of the services, in their order, then the plans of backends that have their own check.
struct plans {
	struct plan *list;
	uint32_t count;
};

// Adds the check of a backend. A new check starts with the backend's verdict in `states`.
static void add_target(const struct weir_states *states, const struct weir_configured *of,
	const struct plan *plan, struct weir_health_target *targets, uint32_t *n) {
	const struct weir_backend_state *backend = &of->backend;
	struct weir_states_status status;

	if (plan->check.type == WEIR_CHECK_NONE ||
		weir_states_status(states, backend->id, &status) < 0) {
		return;
	}
	targets[(*n)++] = (struct weir_health_target){
		.backend = backend->id,
		.service = backend->service_id,
		.port = plan->port,
		.address = backend->address,
		.forwarding = backend->forwarding,
		.vips = plan->vips,
		.vip_count = plan->vip_count,
		.check = &plan->check,
		.initial = (enum weir_health_verdict)status.facts.verdict,
		.word = word_in_answers(of->service, status.facts),
	};
}

// Returns a check with its final settings: a check of type agent gets the port, the interval and
// the timeout of the agent.
static struct weir_config_health_check complete(
	const struct weir_config_service *service, const struct weir_config_health_check *config) {
	struct weir_config_health_check check = *config;

	if (check.type == WEIR_CHECK_AGENT) {
		check.port = service->agent.port;
		check.interval_ms = service->agent.interval_ms;
		check.timeout_ms = service->agent.timeout_ms;
	}
	return check;
}

// Returns -ENOMEM if out of memory.
static int add_plan(struct plans *plans, const struct weir_config_service *service,
	const struct weir_config_health_check *config) {
	struct plan *plan = &plans->list[plans->count];

	plan->check = complete(service, config);
	plan->port = plan->check.port != 0 ? plan->check.port
					   : weir_config_checked_bind(service, config)->port_first;
	if (plan->check.via == WEIR_VIA_DATA_PATH) {
		plan->vips = calloc(service->bind_count, sizeof(*plan->vips));
		if (plan->vips == NULL) {
			return -ENOMEM;
		}
		plan->vip_count = weir_config_checked_vips(service, config, plan->vips);
	}
	plans->count++;
	return 0;
}

static uint32_t count_own_checks(const struct weir_config *config) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		for (uint32_t k = 0; k < config->services[i].backend_count; k++) {
			count += config->services[i].backends[k].health_check != NULL;
		}
	}
	return count;
}

// Determines how each service is checked. Leaves room for the plans of backends that have their own
// check. Returns 0 or -ENOMEM. Call free_plans in every case.
static int make_plans(const struct weir_config *config, struct plans *ret) {
	int r = 0;

	*ret = (struct plans){.list = calloc(config->service_count + count_own_checks(config) + 1,
				      sizeof(*ret->list))};
	if (ret->list == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; r == 0 && i < config->service_count; i++) {
		r = add_plan(ret, &config->services[i], &config->services[i].health_check);
	}
	return r;
}

static void free_plans(struct plans *plans) {
	for (uint32_t i = 0; i < plans->count; i++) {
		free(plans->list[i].vips);
	}
	free(plans->list);
}

static int name_durations(
	struct weir_health_durations *durations, const struct weir_tables *tables) {
	uint32_t ids = weir_tables_service_ids(tables);
	int r = 0;

	for (uint32_t id = 0; id < ids && r == 0; id++) {
		const char *name = weir_tables_service_name(tables, (uint16_t)id);

		r = name != NULL ? weir_health_durations_name(durations, (uint16_t)id, name) : 0;
	}
	return r;
}

int weir_checks_configure(struct weir_health *health, const struct weir_states *states,
	const struct weir_tables *tables, const struct weir_config *config) {
	struct weir_configured of = weir_configured_begin(tables, config);
	struct weir_health_target *targets =
		calloc(2 * count_backends(config) + 1, sizeof(targets[0]));
	struct plans plans;
	uint32_t n = 0;
	int r = make_plans(config, &plans);

	if (targets == NULL) {
		r = -ENOMEM;
	}
	while (r == 0 && weir_configured_next(&of)) {
		const struct plan *plan = &plans.list[of.service - config->services];

		if (of.config->health_check != NULL) {
			plan = &plans.list[plans.count];
			r = add_plan(&plans, of.service, of.config->health_check);
		}
		if (r == 0) {
			add_target(states, &of, plan, targets, &n);
			add_agent_check(of.service, &of.backend, targets, &n);
		}
	}
	if (r == 0) {
		r = name_durations(weir_health_durations(health), tables);
	}
	if (r == 0) {
		r = weir_health_configure(health, targets, n);
	}
	free_plans(&plans);
	free(targets);
	return r;
}

void weir_checks_pace(struct weir_health *health, const struct weir_tables *tables) {
	uint32_t ids = tables != NULL ? weir_tables_backend_ids(tables) : 0;

	for (uint32_t id = 0; id < ids; id++) {
		weir_health_set_far(
			health, (uint16_t)id, weir_tables_backend_is_far(tables, (uint16_t)id));
	}
}

// --- unchecked backends -------------------------------------------------------------------

struct services { // services with unchecked backends
	uint32_t count;
	size_t used;
	char names[NAMES_MOST * (WEIR_NAME_BYTES + 2)]; // names of the first NAMES_MOST services
	bool seen[WEIR_SERVICES_MAX];
};

static void note_service(struct services *services, const struct weir_backend_state *state) {
	if (services->seen[state->service_id]) {
		return;
	}
	services->seen[state->service_id] = true;
	if (services->count++ < NAMES_MOST) {
		services->used += (size_t)snprintf(services->names + services->used,
			sizeof(services->names) - services->used, "%s%s",
			services->used > 0 ? ", " : "", state->service);
	}
}

uint64_t weir_checks_unchecked_ms(const struct weir_health *health, uint16_t backend,
	char ret_why[WEIR_HEALTH_DETAIL_BYTES]) {
	static const char prefix[] = "no result: ";
	const uint64_t ms = weir_health_unchecked_ms(health, backend);
	struct weir_health_status status;
	const char *why = status.detail;

	if (ms == 0) {
		return 0;
	}
	if (weir_health_status(health, backend, false, &status) < 0 || !status.checked) {
		why = "the health check was changed";
	} else if (strncmp(why, prefix, strlen(prefix)) == 0) {
		why += strlen(prefix);
	}
	snprintf(ret_why, WEIR_HEALTH_DETAIL_BYTES, "%.*s", WEIR_HEALTH_DETAIL_BYTES - 1, why);
	return ms;
}

// Returns whether a backend is unchecked, and not removed. *ret_state: state of an unchecked
// backend.
static bool is_unchecked(const struct weir_health *health, const struct weir_tables *tables,
	uint16_t id, struct weir_backend_state *ret_state) {
	return weir_health_unchecked_ms(health, id) > 0 &&
	       weir_tables_backend(tables, id, ret_state) == 0 && !ret_state->leaving;
}

void weir_checks_count(const struct weir_health *health, const struct weir_tables *tables,
	uint32_t counts[WEIR_SERVICES_MAX]) {
	uint32_t ids = weir_tables_backend_ids(tables);
	struct weir_backend_state state;

	for (uint32_t id = 0; id < ids; id++) {
		if (is_unchecked(health, tables, (uint16_t)id, &state)) {
			counts[state.service_id]++;
		}
	}
}

void weir_checks_unchecked(const struct weir_health *health, const struct weir_tables *tables,
	int service, struct weir_unchecked *ret) {
	uint32_t ids = tables != NULL ? weir_tables_backend_ids(tables) : 0;
	struct services services = {.count = 0};
	struct weir_backend_state state, first = {.id = 0};
	char more[32] = "", why[WEIR_HEALTH_DETAIL_BYTES] = "";

	*ret = (struct weir_unchecked){.backends = 0};
	for (uint32_t id = 0; id < ids; id++) {
		if (!is_unchecked(health, tables, (uint16_t)id, &state) ||
			(service >= 0 && state.service_id != service)) {
			continue;
		}
		first = ret->backends++ == 0 ? state : first;
		note_service(&services, &state);
	}
	if (ret->backends == 0) {
		return;
	}
	if (services.count > NAMES_MOST) {
		snprintf(more, sizeof(more), " and %u more", services.count - NAMES_MOST);
	}
	weir_checks_unchecked_ms(health, first.id, why);
	snprintf(ret->text, sizeof(ret->text),
		"health checks of %u backend%s (%s%s) have no result, so health states do not "
		"change; %s/%s: %s",
		ret->backends, ret->backends == 1 ? "" : "s", services.names, more, first.service,
		first.name, why);
}

void weir_checks_second(struct weir_checks_log *logged, const struct weir_log *log,
	const struct weir_health *health, const struct weir_tables *tables, uint64_t now_ms) {
	struct weir_unchecked unchecked;
	char since[WEIR_DURATION_BYTES];

	weir_checks_unchecked(health, tables, -1, &unchecked);
	if (unchecked.backends == logged->backends ||
		(logged->logged_ms != 0 && now_ms - logged->logged_ms < WEIR_CHECKS_LOG_MS)) {
		return;
	}
	if (unchecked.backends > 0) {
		weir_log_write(log, WEIR_LOG_WARN, "%s", unchecked.text);
	} else {
		weir_log_write(log, WEIR_LOG_INFO,
			"health checks of all backends have results again, after %s without "
			"results",
			weir_duration_text(now_ms - logged->since_ms, since));
	}
	logged->since_ms = logged->backends == 0 ? now_ms : logged->since_ms;
	logged->backends = unchecked.backends;
	logged->logged_ms = now_ms;
}
