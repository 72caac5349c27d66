// SPDX-License-Identifier: BSD-3-Clause
#include "asked_agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "configured.h"
#include "segment.h"

#define SETTLED_LEAST WEIR_AGENT_SILENT_PROBES
#define LOOK_MS 300000 // how long utilization is asked for after an operator looked
#define MEASURE_MS 600 // from a request to measure until an agent has a result

struct backend { // one backend id
	bool asked; // it has an agent
	uint64_t identity; // whose flows these are
	uint64_t new_flows; // when looked at last
	uint64_t flows_ms; // when it had flows last, 0 = never
	uint32_t interval_ms, inactive_interval_ms;
	uint32_t wants; // fields in use, without an operator who looks
	uint64_t looked_until_ms; // its utilization is asked for as well until then; 0 = it is not
	uint64_t known_ms; // and is known by then, if the agent answers
};

struct weir_asked_agents {
	struct weir_log *log;
	struct weir_health *health;
	struct weir_reports *reports;
	struct weir_agents *agents;
	struct weir_tables *tables; // NULL until the first configure
	struct backend *backends; // by id
	uint32_t ids;
	bool has_keys;
};

// --- callbacks ----------------------------------------------------------------------------

static const char source[] = "agent";

static void on_report(void *context, uint16_t backend, const struct weir_report *report) {
	struct weir_asked_agents *asked = context;

	weir_reports_take(asked->reports, backend, report, source);
}

static void on_probed(void *context, uint16_t backend, enum weir_agents_outcome outcome,
	const char *detail, uint32_t duration_ms) {
	struct weir_asked_agents *asked = context;
	enum weir_probe_outcome probe = outcome == WEIR_AGENTS_ANSWERED ? WEIR_PROBE_PASSED
					: outcome == WEIR_AGENTS_SILENT ? WEIR_PROBE_FAILED
									: WEIR_PROBE_UNKNOWN;

	if (outcome != WEIR_AGENTS_ANSWERED) {
		weir_health_set_idle(asked->health, backend, 0);
	}
	weir_health_agent_result(asked->health, backend, probe, detail, duration_ms);
}

static void on_lost(void *context, uint16_t backend) {
	struct weir_asked_agents *asked = context;

	weir_reports_gone(asked->reports, backend, source);
}

// --- configuring --------------------------------------------------------------------------

static void read_keys(struct weir_asked_agents *asked, const char *file) {
	struct weir_agent_keys keys;
	char why[256];
	int r = weir_agent_keys_read(file, getuid(), &keys, why, sizeof(why));

	if (r < 0) {
		weir_log_write(asked->log, WEIR_LOG_ERROR, "keys of agents: %s; %s", why,
			asked->has_keys ? "the former ones stay in use" : "no agent is asked");
		return;
	}
	weir_agents_set_keys(asked->agents, &keys);
	weir_agent_keys_wipe(&keys);
	asked->has_keys = true;
}

static uint32_t settled_after(const struct weir_config_service *service) {
	const struct weir_config_health_check *check = &service->health_check;
	uint32_t settled = SETTLED_LEAST;

	if (check->type == WEIR_CHECK_AGENT) {
		settled = check->rise > settled ? check->rise : settled;
		settled = check->fall > settled ? check->fall : settled;
	}
	return settled;
}

static uint32_t wants_of(const struct backend *backend) {
	return backend->wants | (backend->looked_until_ms > 0 ? WEIR_REPORT(UTILIZATION) : 0);
}

static void add_target(struct weir_asked_agents *asked, const struct weir_config_service *service,
	const struct weir_backend_state *state, struct weir_agents_target *ret) {
	struct backend *backend = &asked->backends[state->id];

	if (backend->identity != state->identity) {
		*backend = (struct backend){.identity = state->identity};
	}
	backend->asked = true;
	backend->interval_ms = service->agent.interval_ms;
	backend->inactive_interval_ms = service->agent.inactive_interval_ms;
	backend->wants = weir_reports_wants(asked->reports, state->id);
	*ret = (struct weir_agents_target){.backend = state->id,
		.port = service->agent.port,
		.address = state->address,
		.interval_ms = service->agent.interval_ms,
		.inactive_interval_ms = service->agent.inactive_interval_ms,
		.timeout_ms = service->agent.timeout_ms,
		.settled = settled_after(service),
		.wants = wants_of(backend)};
}

static uint32_t list_targets(struct weir_asked_agents *asked, const struct weir_config *config,
	struct weir_agents_target *targets) {
	struct weir_configured of = weir_configured_begin(asked->tables, config);
	uint32_t n = 0;

	for (uint32_t id = 0; id < asked->ids; id++) {
		asked->backends[id].asked = false;
	}
	while (weir_configured_next(&of)) {
		if (of.service->agent.port != 0) {
			add_target(asked, of.service, &of.backend, &targets[n++]);
		}
	}
	return n;
}

int weir_asked_agents_configure(struct weir_asked_agents *asked, struct weir_tables *tables,
	const struct weir_config *config) {
	struct weir_agents_target *targets;
	uint32_t room = 0;
	int r = weir_configured_grow(
		tables, &asked->backends, &asked->ids, sizeof(*asked->backends));

	for (uint32_t i = 0; i < config->service_count; i++) {
		room += config->services[i].agent.port != 0 ? config->services[i].backend_count : 0;
	}
	if (r < 0) {
		return r;
	}
	targets = calloc(room + 1, sizeof(*targets));
	if (targets == NULL) {
		return -ENOMEM;
	}
	asked->tables = tables;
	if (room > 0) {
		read_keys(asked, config->agents.key_file);
	}
	r = weir_agents_configure(asked->agents, targets, list_targets(asked, config, targets));
	free(targets);
	return r;
}

void weir_asked_agents_forget(struct weir_asked_agents *asked) {
	weir_agents_configure(asked->agents, NULL, 0);
	for (uint32_t id = 0; id < asked->ids; id++) {
		asked->backends[id].asked = false;
	}
}

void weir_asked_agents_follow(struct weir_asked_agents *asked) {
	for (uint32_t id = 0; id < asked->ids; id++) {
		struct backend *backend = &asked->backends[id];
		uint32_t wants = backend->asked ? weir_reports_wants(asked->reports, (uint16_t)id)
						: backend->wants;

		if (wants != backend->wants) {
			backend->wants = wants;
			weir_agents_set_wants(asked->agents, (uint16_t)id, wants_of(backend));
		}
	}
}

// --- who looks ---

uint32_t weir_asked_agents_look(struct weir_asked_agents *asked, uint16_t service) {
	uint64_t now_ms = uv_hrtime() / 1000000, known_ms = now_ms;

	for (uint32_t id = 0; asked->tables != NULL && id < asked->ids; id++) {
		struct backend *backend = &asked->backends[id];
		struct weir_backend_state state;
		bool began = backend->looked_until_ms > 0;

		if (!backend->asked || (backend->wants & WEIR_REPORT(UTILIZATION)) != 0 ||
			weir_tables_backend(asked->tables, (uint16_t)id, &state) < 0 ||
			state.service_id != service) {
			continue;
		}
		backend->looked_until_ms = now_ms + LOOK_MS;
		if (!began) {
			backend->known_ms =
				now_ms + 2 * (uint64_t)backend->interval_ms + MEASURE_MS;
			weir_agents_set_wants(asked->agents, (uint16_t)id, wants_of(backend));
		}
		known_ms = backend->known_ms > known_ms ? backend->known_ms : known_ms;
	}
	return (uint32_t)(known_ms - now_ms);
}

static void look_away(struct weir_asked_agents *asked, uint16_t id, uint64_t now_ms) {
	struct backend *backend = &asked->backends[id];

	if (backend->looked_until_ms > 0 && now_ms >= backend->looked_until_ms) {
		backend->looked_until_ms = 0;
		weir_agents_set_wants(asked->agents, id, wants_of(backend));
	}
}

// --- who has flows ------------------------------------------------------------------------

// Flows that it has, or has had since the last look.
static bool has_flows(const struct weir_asked_agents *asked, uint16_t id) {
	const struct weir_segment *segment = weir_tables_segment(asked->tables);
	struct backend *backend = &asked->backends[id];
	uint64_t active = 0, new = 0;

	for (uint32_t worker = 0; segment != NULL && worker < segment->workers; worker++) {
		const struct weir_share_counters *counters =
			weir_segment_backend_counters(segment, worker, id);

		active += weir_counter_read(&counters->active_flows);
		new += weir_counter_read(&counters->new_flows);
	}
	if (new != backend->new_flows) {
		backend->new_flows = new;
		return true;
	}
	return active > 0;
}

void weir_asked_agents_second(struct weir_asked_agents *asked) {
	uint64_t now_ms = uv_hrtime() / 1000000;

	for (uint32_t i = 0; asked->tables != NULL && i < asked->ids; i++) {
		struct backend *backend = &asked->backends[i];
		struct weir_agents_status status;
		uint16_t id = (uint16_t)i;
		bool active;

		if (!backend->asked) {
			continue;
		}
		look_away(asked, id, now_ms);
		if (has_flows(asked, id)) {
			backend->flows_ms = now_ms;
		}
		active = backend->flows_ms != 0 &&
			 now_ms - backend->flows_ms < backend->inactive_interval_ms;
		weir_agents_set_active(asked->agents, id, active);
		if (weir_agents_status(asked->agents, id, &status) == 0) {
			bool idle = !active && status.answers && status.streak >= SETTLED_LEAST;

			weir_health_set_idle(
				asked->health, id, idle ? backend->inactive_interval_ms : 0);
		}
	}
}

// --- the rest -----------------------------------------------------------------------------

struct weir_agents *weir_asked_agents_of(const struct weir_asked_agents *asked) {
	return asked->agents;
}

int weir_asked_agents_create(uv_loop_t *loop, struct weir_log *log, struct weir_health *health,
	struct weir_reports *reports, struct weir_asked_agents **ret) {
	struct weir_asked_agents *asked = calloc(1, sizeof(*asked));
	struct weir_agents_events events = {
		.report = on_report, .probed = on_probed, .lost = on_lost, .context = asked};
	int r;

	if (asked == NULL) {
		return -ENOMEM;
	}
	asked->log = log;
	asked->health = health;
	asked->reports = reports;
	r = weir_agents_create(loop, &events, &asked->agents);
	if (r < 0) {
		free(asked);
		return r;
	}
	*ret = asked;
	return 0;
}

void weir_asked_agents_free(struct weir_asked_agents *asked) {
	if (asked == NULL) {
		return;
	}
	weir_agents_free(asked->agents);
	free(asked->backends);
	free(asked);
}
