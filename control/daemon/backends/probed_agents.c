// SPDX-License-Identifier: BSD-3-Clause
#include "probed_agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "configured.h"
#include "duration.h"
#include "plural.h"
#include "segment.h"

#define SETTLED_LEAST WEIR_AGENT_SILENT_PROBES
#define REQUEST_MS 300000 // utilization is requested for this time after an operator's request
#define FIGURES_MS 10000 // values for a canary are requested for this time after a request
#define MEASURE_MS 600 // time from the request of a field until the agent has measured it

struct backend { // data of one backend id
	bool has_agent; // whether the backend's agent is probed
	bool silent; // the silence of the agent was logged
	// While the agent is silent: time of its last answer. If it has never answered: time when
	// the missing answers were detected.
	uint64_t silent_ms;
	uint64_t identity; // identity of the backend whose flows are counted here
	uint64_t new_flows; // number of new flows of the backend at the last check
	uint64_t flows_ms; // when the backend was last seen with flows, 0 = never
	uint32_t interval_ms, inactive_interval_ms;
	uint32_t wants; // fields that Weir itself uses, without an operator's request
	uint64_t requested_until_ms; // end of an operator's request for utilization; 0 = no request
	// time by which the agent, if it answers, will have reported the requested utilization
	uint64_t known_ms;
	uint64_t figures_until_ms; // end of the request for values for a canary; 0 = no request
	struct weir_tcp_report *tcp; // NULL = TCP statistics are not requested
};

struct weir_probed_agents {
	struct weir_log *log;
	struct weir_health *health;
	struct weir_reports *reports;
	weir_health_excuse_fn excuse;
	void *excuse_context;
	struct weir_agents *agents;
	struct weir_tables *tables; // NULL until the first weir_probed_agents_configure
	struct backend *backends; // indexed by backend id
	uint32_t ids;
	bool has_keys;
	struct weir_agent_keys keys; // keys in use
	struct weir_probed_agents_keys reread;
	char keys_why[512]; // why the last read of the keys failed; "" = it succeeded
};

// --- callbacks ----------------------------------------------------------------------------

static const char source[] = "agent";

static void on_report(void *context, uint16_t backend, const struct weir_report *report) {
	struct weir_probed_agents *probed = context;

	weir_reports_take(probed->reports, backend, report, source);
}

static void on_tcp(void *context, uint16_t backend, const struct weir_agent_tcp *tcp) {
	const struct weir_probed_agents *probed = context;

	if (backend < probed->ids && probed->backends[backend].tcp != NULL) {
		weir_tcp_report_take(probed->backends[backend].tcp, tcp, uv_hrtime() / 1000000);
	}
}

static void on_probed(void *context, uint16_t backend, enum weir_agents_outcome outcome,
	const char *detail, uint32_t duration_ms) {
	struct weir_probed_agents *probed = context;
	enum weir_probe_outcome probe = outcome == WEIR_AGENTS_ANSWERED ? WEIR_PROBE_PASSED
					: outcome == WEIR_AGENTS_SILENT ? WEIR_PROBE_FAILED
									: WEIR_PROBE_UNKNOWN;

	if (outcome != WEIR_AGENTS_ANSWERED) {
		weir_health_set_idle(probed->health, backend, 0);
	}
	weir_health_agent_result(probed->health, backend, probe, detail, duration_ms);
}

static bool on_unanswered(void *context, uint16_t backend, uint64_t took_ms, uint32_t timeout_ms,
	char *why, size_t bytes) {
	const struct weir_probed_agents *probed = context;

	return probed->excuse(probed->excuse_context, backend, took_ms, timeout_ms, why, bytes);
}

static void on_lost(void *context, uint16_t backend) {
	struct weir_probed_agents *probed = context;

	weir_reports_source_gone(probed->reports, backend, source);
	if (backend < probed->ids && probed->backends[backend].tcp != NULL) {
		*probed->backends[backend].tcp = (struct weir_tcp_report){0};
	}
}

// --- configuration ------------------------------------------------------------------------

// Returns the number of configured backends that have an agent.
static uint32_t count_agents(const struct weir_config *config) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < config->service_count; i++) {
		count +=
			config->services[i].agent.port != 0 ? config->services[i].backend_count : 0;
	}
	return count;
}

// Returns the number of keys that are not in `others`.
static uint32_t count_other_keys(
	const struct weir_agent_keys *keys, const struct weir_agent_keys *others) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < keys->count; i++) {
		uint32_t j = 0;

		while (j < others->count &&
			(keys->key[i].id != others->key[j].id ||
				memcmp(keys->key[i].secret, others->key[j].secret,
					WEIR_AGENT_KEY_BYTES) != 0)) {
			j++;
		}
		count += j == others->count;
	}
	return count;
}

static void set_keys(struct weir_probed_agents *probed, const struct weir_agent_keys *keys) {
	const struct weir_probed_agents_keys reread = {.read = true,
		.count = keys->count,
		.added = count_other_keys(keys, &probed->keys),
		.removed = count_other_keys(&probed->keys, keys)};

	probed->reread = reread;
	if (reread.added > 0 || reread.removed > 0) {
		weir_log_write(probed->log, WEIR_LOG_INFO,
			"agent keys: %u read (%u new, %u removed)", reread.count, reread.added,
			reread.removed);
	}
	weir_agents_set_keys(probed->agents, keys);
	probed->keys = *keys;
	probed->has_keys = true;
}

void weir_probed_agents_read_keys(
	struct weir_probed_agents *probed, const struct weir_config *config) {
	struct weir_agent_keys keys;
	int r;

	probed->keys_why[0] = '\0';
	probed->reread = (struct weir_probed_agents_keys){0};
	if (count_agents(config) == 0) {
		return;
	}
	r = weir_agent_keys_read(config->agents.key_file, getuid(), &keys, probed->keys_why,
		sizeof(probed->keys_why));
	if (r < 0) {
		weir_log_write(probed->log, WEIR_LOG_ERROR, "agent keys: %s; %s", probed->keys_why,
			probed->has_keys ? "the previous keys stay in use" : "no agent is probed");
		return;
	}
	set_keys(probed, &keys);
	weir_agent_keys_wipe(&keys);
}

struct weir_probed_agents_keys weir_probed_agents_keys(const struct weir_probed_agents *probed) {
	return probed->reread;
}

const char *weir_probed_agents_keys_problem(const struct weir_probed_agents *probed) {
	return probed->keys_why[0] != '\0' ? probed->keys_why : NULL;
}

bool weir_probed_agents_has_keys(const struct weir_probed_agents *probed) {
	return probed->has_keys;
}

static uint32_t settled_after(const struct weir_config_health_check *check) {
	uint32_t settled = SETTLED_LEAST;

	if (check->type == WEIR_CHECK_AGENT) {
		settled = check->rise > settled ? check->rise : settled;
		settled = check->fall > settled ? check->fall : settled;
	}
	return settled;
}

static uint32_t wants_of(const struct backend *backend) {
	const uint32_t figures = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) |
				 WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT);

	return backend->wants | WEIR_AGENT_PORT_WORDS |
	       (backend->tcp != NULL ? WEIR_AGENT_TCP_FIGURES : 0) |
	       (backend->requested_until_ms > 0 ? WEIR_REPORT(UTILIZATION) : 0) |
	       (backend->figures_until_ms > 0 ? figures : 0);
}

// Keeps or allocates the TCP statistics of a backend if they are requested, and frees them
// otherwise. If out of memory, the backend has no TCP statistics.
static void set_tcp(struct backend *backend, bool wanted) {
	if (!wanted) {
		free(backend->tcp);
		backend->tcp = NULL;
	} else if (backend->tcp == NULL) {
		backend->tcp = calloc(1, sizeof(*backend->tcp));
	}
}

static void add_target(struct weir_probed_agents *probed, const struct weir_configured *of,
	struct weir_agents_target *ret) {
	const struct weir_config_service *service = of->service;
	const struct weir_backend_state *state = &of->backend;
	struct backend *backend = &probed->backends[state->id];

	if (backend->identity != state->identity) {
		set_tcp(backend, false);
		*backend = (struct backend){.identity = state->identity};
	}
	backend->has_agent = true;
	set_tcp(backend, service->agent.tcp);
	backend->interval_ms = service->agent.interval_ms;
	backend->inactive_interval_ms = service->agent.inactive_interval_ms;
	backend->wants = weir_reports_fields_used(probed->reports, state->id);
	*ret = (struct weir_agents_target){.backend = state->id,
		.port = service->agent.port,
		.address = state->address,
		.interval_ms = service->agent.interval_ms,
		.inactive_interval_ms = service->agent.inactive_interval_ms,
		.timeout_ms = service->agent.timeout_ms,
		.settled = settled_after(weir_config_check_of(service, of->config)),
		.wants = wants_of(backend)};
}

static uint32_t list_targets(struct weir_probed_agents *probed, const struct weir_config *config,
	struct weir_agents_target *targets) {
	struct weir_configured of = weir_configured_begin(probed->tables, config);
	uint32_t n = 0;

	for (uint32_t id = 0; id < probed->ids; id++) {
		probed->backends[id].has_agent = false;
	}
	while (weir_configured_next(&of)) {
		if (of.service->agent.port != 0) {
			add_target(probed, &of, &targets[n++]);
		}
	}
	for (uint32_t id = 0; id < probed->ids; id++) {
		if (!probed->backends[id].has_agent) {
			set_tcp(&probed->backends[id], false);
		}
	}
	return n;
}

int weir_probed_agents_configure(struct weir_probed_agents *probed, struct weir_tables *tables,
	const struct weir_config *config) {
	struct weir_agents_target *targets;
	int r = weir_configured_grow(
		tables, &probed->backends, &probed->ids, sizeof(*probed->backends));

	if (r < 0) {
		return r;
	}
	targets = calloc(count_agents(config) + 1, sizeof(*targets));
	if (targets == NULL) {
		return -ENOMEM;
	}
	probed->tables = tables;
	weir_probed_agents_read_keys(probed, config);
	r = weir_agents_configure(probed->agents, targets, list_targets(probed, config, targets));
	free(targets);
	return r;
}

void weir_probed_agents_stop(struct weir_probed_agents *probed) {
	weir_agents_configure(probed->agents, NULL, 0);
	for (uint32_t id = 0; id < probed->ids; id++) {
		probed->backends[id].has_agent = false;
		set_tcp(&probed->backends[id], false);
	}
}

void weir_probed_agents_update(struct weir_probed_agents *probed) {
	for (uint32_t id = 0; id < probed->ids; id++) {
		struct backend *backend = &probed->backends[id];
		uint32_t wants = backend->has_agent
					 ? weir_reports_fields_used(probed->reports, (uint16_t)id)
					 : backend->wants;

		if (wants != backend->wants) {
			backend->wants = wants;
			weir_agents_set_wants(probed->agents, (uint16_t)id, wants_of(backend));
		}
	}
}

// --- requests of operators and canaries -----------------------------------------------------

uint32_t weir_probed_agents_request_utilization(
	struct weir_probed_agents *probed, uint16_t service) {
	uint64_t now_ms = uv_hrtime() / 1000000, known_ms = now_ms;

	for (uint32_t id = 0; probed->tables != NULL && id < probed->ids; id++) {
		struct backend *backend = &probed->backends[id];
		struct weir_backend_state state;
		bool began = backend->requested_until_ms > 0;

		if (!backend->has_agent || (backend->wants & WEIR_REPORT(UTILIZATION)) != 0 ||
			weir_tables_backend(probed->tables, (uint16_t)id, &state) < 0 ||
			state.service_id != service) {
			continue;
		}
		backend->requested_until_ms = now_ms + REQUEST_MS;
		if (!began) {
			backend->known_ms =
				now_ms + 2 * (uint64_t)backend->interval_ms + MEASURE_MS;
			weir_agents_set_wants(probed->agents, (uint16_t)id, wants_of(backend));
		}
		known_ms = backend->known_ms > known_ms ? backend->known_ms : known_ms;
	}
	return (uint32_t)(known_ms - now_ms);
}

void weir_probed_agents_request_figures(struct weir_probed_agents *probed, uint16_t id) {
	struct backend *backend = id < probed->ids ? &probed->backends[id] : NULL;
	bool began;

	if (backend == NULL || !backend->has_agent) {
		return;
	}
	began = backend->figures_until_ms > 0;
	backend->figures_until_ms = uv_hrtime() / 1000000 + FIGURES_MS;
	if (!began) {
		weir_agents_set_wants(probed->agents, id, wants_of(backend));
	}
}

static void expire_requests(struct weir_probed_agents *probed, uint16_t id, uint64_t now_ms) {
	struct backend *backend = &probed->backends[id];
	bool utilization = backend->requested_until_ms > 0 && now_ms >= backend->requested_until_ms;
	bool figures = backend->figures_until_ms > 0 && now_ms >= backend->figures_until_ms;

	backend->requested_until_ms = utilization ? 0 : backend->requested_until_ms;
	backend->figures_until_ms = figures ? 0 : backend->figures_until_ms;
	if (utilization || figures) {
		weir_agents_set_wants(probed->agents, id, wants_of(backend));
	}
}

// --- active backends ----------------------------------------------------------------------

// Returns whether the backend has flows, or has got new flows since the last call.
static bool has_flows(const struct weir_probed_agents *probed, uint16_t id) {
	const struct weir_segment *segment = weir_tables_segment(probed->tables);
	struct backend *backend = &probed->backends[id];
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

// --- silent agents ------------------------------------------------------------------------

static void log_silence(const struct weir_probed_agents *probed, uint16_t id,
	const struct weir_agents_status *status, uint64_t now_ms) {
	const struct backend *backend = &probed->backends[id];
	char length[WEIR_DURATION_BYTES];
	struct weir_backend_state state;
	struct weir_log_fields fields = {.state = backend->silent ? "silent" : "answers"};

	if (weir_tables_backend(probed->tables, id, &state) < 0) {
		return;
	}
	fields.service = state.service;
	fields.backend = state.name;
	weir_duration_text(now_ms - backend->silent_ms, length);
	if (!backend->silent) {
		weir_log_event(probed->log, WEIR_LOG_INFO, &fields,
			"weir-agent of %s/%s answers again after %s", state.service, state.name,
			length);
	} else if (status->has_answer) {
		weir_log_event(probed->log, WEIR_LOG_WARN, &fields,
			"weir-agent of %s/%s does not answer: its last answer was %s ago",
			state.service, state.name, length);
	} else {
		weir_log_event(probed->log, WEIR_LOG_WARN, &fields,
			"weir-agent of %s/%s does not answer: no answer to any of %llu probe%s",
			state.service, state.name, (unsigned long long)status->probes,
			weir_plural(status->probes));
	}
}

// Logs that an agent has become silent, or that it answers again. The silence ends with the first
// answer.
static void note_silence(struct weir_probed_agents *probed, uint16_t id,
	const struct weir_agents_status *status, uint64_t now_ms) {
	struct backend *backend = &probed->backends[id];

	if (!backend->silent && !status->answers && status->streak >= WEIR_AGENT_SILENT_PROBES) {
		backend->silent = true;
		backend->silent_ms = status->has_answer ? now_ms - status->age_ms : now_ms;
		log_silence(probed, id, status, now_ms);
	} else if (backend->silent && status->answers) {
		backend->silent = false;
		log_silence(probed, id, status, now_ms);
	}
}

enum weir_agent_state weir_probed_agents_state(
	const struct weir_probed_agents *probed, uint16_t id, uint64_t *ret_age_ms) {
	struct weir_agents_status status;

	*ret_age_ms = UINT64_MAX;
	if (id >= probed->ids || !probed->backends[id].has_agent ||
		weir_agents_status(probed->agents, id, &status) < 0) {
		return WEIR_AGENT_NONE;
	}
	if (!probed->has_keys) {
		return WEIR_AGENT_NO_KEYS;
	}
	if (status.has_answer) {
		*ret_age_ms = status.age_ms;
	}
	return probed->backends[id].silent ? WEIR_AGENT_SILENT
	       : status.has_answer         ? WEIR_AGENT_ANSWERS
					   : WEIR_AGENT_STARTING;
}

int weir_probed_agents_tcp(
	const struct weir_probed_agents *probed, uint16_t id, struct weir_tcp_status *ret) {
	const struct backend *backend = id < probed->ids ? &probed->backends[id] : NULL;

	if (backend == NULL || backend->tcp == NULL) {
		return -ENOENT;
	}
	return weir_tcp_report_status(backend->tcp, uv_hrtime() / 1000000,
		       (uint64_t)WEIR_AGENT_SILENT_PROBES * backend->inactive_interval_ms, ret) == 0
		       ? 0
		       : -EAGAIN;
}

void weir_probed_agents_second(struct weir_probed_agents *probed) {
	uint64_t now_ms = uv_hrtime() / 1000000;

	for (uint32_t i = 0; probed->tables != NULL && i < probed->ids; i++) {
		struct backend *backend = &probed->backends[i];
		struct weir_agents_status status;
		uint16_t id = (uint16_t)i;
		bool active;

		if (!backend->has_agent) {
			backend->silent = false;
			continue;
		}
		expire_requests(probed, id, now_ms);
		if (has_flows(probed, id)) {
			backend->flows_ms = now_ms;
		}
		active = backend->flows_ms != 0 &&
			 now_ms - backend->flows_ms < backend->inactive_interval_ms;
		weir_agents_set_active(probed->agents, id, active);
		if (weir_agents_status(probed->agents, id, &status) == 0) {
			bool idle = !active && status.answers && status.streak >= SETTLED_LEAST;

			weir_health_set_idle(
				probed->health, id, idle ? backend->inactive_interval_ms : 0);
			note_silence(probed, id, &status, now_ms);
		}
	}
}

// --- create and free ----------------------------------------------------------------------

struct weir_agents *weir_probed_agents_of(const struct weir_probed_agents *probed) {
	return probed->agents;
}

int weir_probed_agents_create(uv_loop_t *loop, struct weir_log *log, struct weir_health *health,
	struct weir_reports *reports, weir_health_excuse_fn excuse, void *excuse_context,
	struct weir_probed_agents **ret) {
	struct weir_probed_agents *probed = calloc(1, sizeof(*probed));
	struct weir_agents_events events = {.report = on_report,
		.tcp = on_tcp,
		.probed = on_probed,
		.excuse = on_unanswered,
		.lost = on_lost,
		.context = probed};
	int r;

	if (probed == NULL) {
		return -ENOMEM;
	}
	probed->log = log;
	probed->health = health;
	probed->reports = reports;
	probed->excuse = excuse;
	probed->excuse_context = excuse_context;
	r = weir_agents_create(loop, &events, &probed->agents);
	if (r < 0) {
		free(probed);
		return r;
	}
	*ret = probed;
	return 0;
}

void weir_probed_agents_free(struct weir_probed_agents *probed) {
	if (probed == NULL) {
		return;
	}
	weir_agents_free(probed->agents);
	for (uint32_t id = 0; id < probed->ids; id++) {
		free(probed->backends[id].tcp);
	}
	weir_agent_keys_wipe(&probed->keys);
	free(probed->backends);
	free(probed);
}
