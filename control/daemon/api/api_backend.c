// SPDX-License-Identifier: BSD-3-Clause
//
// The state of a backend for backend.show: its health with the reason, and its last report. Also
// the handler of service.waste, which computes from the reports how unevenly the backends of a
// service are used.
#include "api_backend.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_commands.h"
#include "api_shed.h"
#include "api_tcp.h"
#include "daemon.h"

// Lists the states that the agent announced for ports of its host. The list includes ports that the
// service does not use.
static json_t *json_port_words(const struct weir_report *report) {
	json_t *list = json_array();

	for (uint8_t i = 0; i < report->port_word_count; i++) {
		const struct weir_port_word *port = &report->port_words[i];

		json_array_append_new(list,
			json_pack("{s:s, s:i, s:s, s:s}", "protocol",
				port->protocol == IPPROTO_UDP ? "udp" : "tcp", "port", port->port,
				"word", weir_health_word_name((enum weir_health_word)port->word),
				"reason", weir_port_reason_text(port->reason)));
	}
	return list;
}

static json_t *json_report(const struct weir_reports_status *status) {
	const struct weir_report *report = status->report;
	json_t *object = json_pack(
		"{s:s, s:I}", "source", status->source, "age_ms", (json_int_t)status->age_ms);

	for (uint32_t i = 0; i < WEIR_REPORT_FIELD_COUNT; i++) {
		enum weir_report_field field = (enum weir_report_field)i;

		if ((report->given >> i & 1) != 0) {
			json_object_set_new(object, weir_report_field_name(field),
				json_real(weir_report_value(report, field)));
		}
	}
	if (report->word != WEIR_HEALTH_WORD_NONE) {
		json_object_set_new(object, "word",
			json_string(weir_health_word_name((enum weir_health_word)report->word)));
	}
	if (report->port_word_count > 0) {
		json_object_set_new(object, "port_words", json_port_words(report));
	}
	return object;
}

static const char *const agent_states[] = {
#define X(name, key) [WEIR_AGENT_##name] = key,
	WEIR_AGENT_STATES(X)
#undef X
};

// Adds the members "agent" and "agent_age_ms" to an object: the state of the backend's agent, or
// null if the backend has no agent, and the age of the agent's last answer, or null.
static void add_agent(json_t *object, const struct weir_daemon *daemon, uint16_t id) {
	uint64_t age_ms;
	enum weir_agent_state state = weir_probed_agents_state(daemon->probed_agents, id, &age_ms);

	json_object_set_new(object, "agent",
		state == WEIR_AGENT_NONE ? json_null() : json_string(agent_states[state]));
	json_object_set_new(object, "agent_age_ms",
		age_ms == UINT64_MAX ? json_null() : json_integer((json_int_t)age_ms));
}

// Returns the capacity of a backend, {"gcu", "cpus", "gcu_per_cpu", "source", "cpu"}; "gcu" is the
// sum over all CPUs. Returns null if weir_reports_capacity has no capacity.
static json_t *make_capacity(const struct weir_daemon *daemon, uint16_t id) {
	struct weir_capacity capacity;

	if (weir_reports_capacity(daemon->reports, id, &capacity) < 0) {
		return json_null();
	}
	return json_pack("{s:f, s:f, s:f, s:s, s:s*}", "gcu", capacity.cpus * capacity.gcu, "cpus",
		capacity.cpus, "gcu_per_cpu", capacity.gcu, "source",
		weir_capacity_source_name(capacity.source), "cpu",
		capacity.cpu[0] != '\0' ? capacity.cpu : NULL);
}

const char *weir_backend_unusable_reason(const struct weir_backend_state *state) {
	const bool refusing = state->health == WEIR_HEALTH_REFUSING;

	return state->leaving                     ? "removed"
	       : state->admin == WEIR_ADMIN_DRAIN ? refusing ? "drained and refusing" : "drained"
	       : state->admin == WEIR_ADMIN_MAINTENANCE ? "in maintenance"
	       : refusing                               ? "refusing"
	       : state->health == WEIR_HEALTH_LAME_DUCK ? "is a lame duck"
							: NULL;
}

void weir_json_unchecked(json_t *object, const struct weir_daemon *daemon, uint16_t backend) {
	char why[WEIR_HEALTH_DETAIL_BYTES];
	const uint64_t ms = weir_checks_unchecked_ms(daemon->health, backend, why);

	json_object_set_new(
		object, "unchecked_ms", ms > 0 ? json_integer((json_int_t)ms) : json_null());
	json_object_set_new(object, "unchecked_why", ms > 0 ? json_string(why) : json_null());
}

json_t *weir_json_counted_flows(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	const struct weir_segment *segment = daemon->segment;

	if (state->limit == 0 || segment == NULL || state->id >= segment->max_backends) {
		return json_null();
	}
	return json_integer((json_int_t)__atomic_load_n(
		&segment->limit_words[state->id].held, __ATOMIC_RELAXED));
}

void weir_json_condition(
	json_t *object, const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	struct weir_states_status known = {.why = ""};
	struct weir_reports_status report;
	bool reports = weir_reports_status(daemon->reports, state->id, &report) == 0;

	if (weir_states_status(daemon->states, state->id, &known) == 0) {
		json_object_set_new(object, "since_ms", json_integer((json_int_t)known.since_ms));
		json_object_set_new(object, "verdict",
			json_string(weir_health_verdict_name(
				(enum weir_health_verdict)known.facts.verdict)));
		json_object_set_new(object, "word",
			json_string(
				weir_health_word_name((enum weir_health_word)known.facts.word)));
		json_object_set_new(object, "why", json_string(known.why));
	}
	weir_json_unchecked(object, daemon, state->id);
	json_object_set_new(object, "admin_since_ms",
		state->admin_ms == 0 ? json_null()
				     : json_integer((json_int_t)(weir_daemon_now_ns() / 1000000 -
								 state->admin_ms)));
	json_object_set_new(object, "reported_weight",
		state->reported_weight == 0 ? json_null()
					    : json_integer((json_int_t)state->reported_weight));
	json_object_set_new(object, "auto_weight",
		state->weight_auto ? json_integer((json_int_t)state->auto_weight) : json_null());
	json_object_set_new(object, "capacity", make_capacity(daemon, state->id));
	json_object_set_new(object, "own_weight",
		state->own_weight == WEIR_WEIGHT_UNSET
			? json_null()
			: json_integer((json_int_t)state->own_weight));
	json_object_set_new(object, "accept_queue_full", json_boolean(state->at_limit));
	json_object_set_new(object, "at_limit", json_boolean(state->at_limit));
	json_object_set_new(object, "max_active_flows",
		state->limit == 0 ? json_null() : json_integer((json_int_t)state->limit));
	json_object_set_new(object, "counted_flows", weir_json_counted_flows(daemon, state));
	add_agent(object, daemon, state->id);
	json_object_set_new(object, "tcp", weir_json_tcp(daemon, state->id));
	json_object_set_new(object, "shed", weir_json_shed(daemon, state));
	json_object_set_new(object, "report", reports ? json_report(&report) : json_null());
}

// --- service.waste --------------------------------------------------------------------------

struct used { // the utilization of one backend
	char name[WEIR_NAME_BYTES];
	bool known; // the backend has reported its utilization
	double utilization;
	uint64_t age_ms;
};

struct waste {
	struct used *backends;
	uint32_t count, known;
	uint32_t next; // next row
	double most, sum;
};

static struct used used_of(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	struct weir_reports_status status;
	struct used used = {.known = false};

	memcpy(used.name, state->name, sizeof(used.name));
	if (weir_reports_status(daemon->reports, state->id, &status) == 0 &&
		(status.report->given & WEIR_REPORT(UTILIZATION)) != 0) {
		used.known = true;
		used.utilization = status.report->utilization;
		used.age_ms = status.age_ms;
	}
	return used;
}

static int collect(const struct weir_daemon *daemon, uint16_t service, struct waste *waste) {
	uint32_t ids = weir_tables_backend_ids(daemon->tables);

	waste->backends = calloc(ids + 1, sizeof(*waste->backends));
	if (waste->backends == NULL) {
		return -1;
	}
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_backend_state state;
		struct used used;

		if (weir_tables_backend(daemon->tables, (uint16_t)id, &state) < 0 ||
			state.leaving || state.service_id != service) {
			continue;
		}
		used = used_of(daemon, &state);
		waste->backends[waste->count++] = used;
		waste->known += used.known;
		waste->sum += used.known ? used.utilization : 0;
		waste->most = used.known && used.utilization > waste->most ? used.utilization
									   : waste->most;
	}
	return 0;
}

static int next_used(void *context, json_t **ret) {
	struct waste *waste = context;
	const struct used *used = &waste->backends[waste->next];

	if (waste->next == waste->count) {
		return 0;
	}
	waste->next++;
	*ret = json_pack("{s:s, s:o, s:o, s:o}", "backend", used->name, "utilization",
		used->known ? json_real(used->utilization) : json_null(), "wasted",
		used->known ? json_real(waste->most - used->utilization) : json_null(), "age_ms",
		used->known ? json_integer((json_int_t)used->age_ms) : json_null());
	return 1;
}

static void free_waste(void *context) {
	struct waste *waste = context;

	free(waste->backends);
	free(waste);
}

void weir_api_service_waste(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_api_rows rows = {.next = next_used, .free = free_waste};
	struct waste *waste;
	uint32_t again_ms;
	bool any;
	int service;

	if (!weir_api_has_tables(daemon, call)) {
		return;
	}
	service = weir_api_find_service(daemon, call);
	if (service < 0) {
		return;
	}
	again_ms = weir_probed_agents_request_utilization(daemon->probed_agents, (uint16_t)service);
	waste = calloc(1, sizeof(*waste));
	if (waste == NULL || collect(daemon, (uint16_t)service, waste) < 0) {
		free(waste);
		weir_api_answer(call, NULL);
		return;
	}
	rows.context = waste;
	any = waste->known > 0;
	weir_api_answer_rows(call,
		json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "service",
			weir_tables_service_name(daemon->tables, (uint16_t)service), "count",
			(json_int_t)waste->count, "reporting", (json_int_t)waste->known, "most",
			any ? json_real(waste->most) : json_null(), "mean",
			any ? json_real(waste->sum / waste->known) : json_null(), "wasted",
			any ? json_real(waste->most * waste->known - waste->sum) : json_null(),
			"again_ms", again_ms > 0 ? json_integer(again_ms) : json_null()),
		"backends", &rows);
}
