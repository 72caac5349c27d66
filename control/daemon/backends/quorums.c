// SPDX-License-Identifier: BSD-3-Clause
#include "quorums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plural.h"

uint32_t weir_quorum_eligible(const struct weir_service_state *service) {
	return service->eligible - (service->on_backups ? 0 : service->backups_eligible);
}

// Returns the number of backends that count towards the quorum while they are eligible.
static uint32_t counted(const struct weir_service_state *service) {
	return service->backends - (service->on_backups ? 0 : service->backups);
}

void weir_quorums_fini(struct weir_quorums *quorums) {
	free(quorums->state);
	quorums->state = NULL;
	quorums->ids = 0;
}

static bool grow(struct weir_quorums *quorums, uint32_t ids) {
	struct weir_quorum_state *state;

	if (ids <= quorums->ids) {
		return true;
	}
	state = realloc(quorums->state, ids * sizeof(*state));
	if (state == NULL) {
		return false; // the next tick tries again
	}
	memset(state + quorums->ids, 0, (ids - quorums->ids) * sizeof(*state));
	quorums->state = state;
	quorums->ids = ids;
	return true;
}

static bool decide(const struct weir_quorum_state *state, const struct weir_config_service *config,
	uint32_t eligible) {
	if (!state->known) {
		return eligible >= config->quorum;
	}
	return state->up ? eligible + config->hysteresis >= config->quorum
			 : eligible >= config->quorum + config->hysteresis;
}

// without_backups: the service has backups, but does not run on them.
static void report(const struct weir_quorums *quorums, bool without_backups,
	struct weir_quorum_change *change) {
	char *why = change->why;

	snprintf(why, sizeof(change->why), "%u of %u %sbackend%s eligible, quorum %u",
		change->eligible, change->backends, without_backups ? "primary " : "",
		weir_plural(change->backends), change->quorum);
	if (change->known) {
		weir_log_event(quorums->log, change->up ? WEIR_LOG_INFO : WEIR_LOG_WARN,
			&(struct weir_log_fields){.service = change->service,
				.state = change->up ? "up" : "down",
				.reason = why},
			"service %s: %s (%s)", change->service, change->up ? "up" : "down", why);
		weir_states_record_service(
			quorums->states, change->service, change->up ? "up" : "down", why);
	}
	if (quorums->changed != NULL) {
		quorums->changed(quorums->context, change);
	}
}

// Returns the configuration of a service with its state, or NULL if the id has no service, or if
// the service was removed.
static const struct weir_config_service *find(
	const struct weir_tables *tables, uint16_t id, struct weir_service_state *ret) {
	const char *name = weir_tables_service_name(tables, id);

	if (name == NULL || weir_tables_service(tables, id, ret) < 0 || ret->leaving) {
		return NULL;
	}
	return weir_tables_service_config(tables, name);
}

static void look(struct weir_quorums *quorums, const struct weir_tables *tables, uint16_t id) {
	struct weir_quorum_state *state = &quorums->state[id];
	struct weir_service_state service;
	const struct weir_config_service *config = find(tables, id, &service);
	bool up;

	if (config == NULL) {
		state->known = false;
		return;
	}
	if (strcmp(state->service, config->name) != 0) {
		memcpy(state->service, config->name, sizeof(state->service));
		state->known = false;
	}
	up = decide(state, config, weir_quorum_eligible(&service));
	if (!state->known || up != state->up) {
		report(quorums, service.backups > 0 && !service.on_backups,
			&(struct weir_quorum_change){.id = id,
				.service = config->name,
				.known = state->known,
				.up = up,
				.eligible = weir_quorum_eligible(&service),
				.backends = counted(&service),
				.quorum = config->quorum});
	}
	state->known = true;
	state->up = up;
}

void weir_quorums_tick(struct weir_quorums *quorums, const struct weir_tables *tables) {
	const uint32_t ids = weir_tables_service_ids(tables);

	if (!grow(quorums, ids)) {
		return;
	}
	for (uint32_t id = 0; id < ids; id++) {
		look(quorums, tables, (uint16_t)id);
	}
}

int weir_quorums_is_up(
	const struct weir_quorums *quorums, const struct weir_tables *tables, uint16_t id) {
	struct weir_service_state service;
	const struct weir_config_service *config;

	if (id >= quorums->ids || !quorums->state[id].known) {
		return -1;
	}
	config = find(tables, id, &service);
	return config != NULL && strcmp(quorums->state[id].service, config->name) == 0
		       ? decide(&quorums->state[id], config, weir_quorum_eligible(&service))
		       : -1;
}
