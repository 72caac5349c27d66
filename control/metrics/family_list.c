// SPDX-License-Identifier: BSD-3-Clause
#include "family_list.h"

#include "counters.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const health_states[] = {"starting", "healthy", "lame-duck", "refusing", NULL};
static const char *const admin_states[] = {"ready", "drain", "maintenance", NULL};
static const char *const switch_states[] = {"on", "off", NULL};

// Units of counters.h.
#define UNIT_PACKETS "packets"
#define UNIT_BYTES "bytes"
#define UNIT_FLOWS "flows"
#define UNIT_BUCKETS "buckets"
#define UNIT_ITERATIONS "iterations"
#define UNIT_CYCLES "seconds"
#define KIND_PACKETS WEIR_FAMILY_VALUE
#define KIND_BYTES WEIR_FAMILY_VALUE
#define KIND_FLOWS WEIR_FAMILY_VALUE
#define KIND_BUCKETS WEIR_FAMILY_VALUE
#define KIND_ITERATIONS WEIR_FAMILY_VALUE
#define KIND_CYCLES WEIR_FAMILY_SECONDS_OF_CYCLES

#define LISTED(prefix, family_type, family_scope, field, family_unit, metric, text) \
	{.name = prefix metric, \
		.type = family_type, \
		.kind = KIND_##family_unit, \
		.scope = WEIR_SCOPE_##family_scope, \
		.unit = UNIT_##family_unit, \
		.key = #field, \
		.help = text},

#define COUNTER(family_scope, family_name, family_unit, family_key, text, ...) \
	{.name = family_name, \
		.type = WEIR_FAMILY_COUNTER, \
		.scope = WEIR_SCOPE_##family_scope, \
		.unit = family_unit, \
		.key = family_key, \
		.help = text, \
		__VA_ARGS__}
#define GAUGE(family_scope, family_name, family_unit, family_key, text, ...) \
	{.name = family_name, \
		.type = WEIR_FAMILY_GAUGE, \
		.scope = WEIR_SCOPE_##family_scope, \
		.unit = family_unit, \
		.key = family_key, \
		.help = text, \
		__VA_ARGS__}
#define MAP_OF(family_label) .kind = WEIR_FAMILY_MAP, .label = family_label
#define STATE_OF(family_states) .kind = WEIR_FAMILY_STATE, .label = "state", .states = family_states
#define INFO .kind = WEIR_FAMILY_INFO
#define MS .scale = 1e-3
#define US .scale = 1e-6
#define PERCENT .scale = 1e-2
#define PLAIN .scale = 0

const struct weir_family weir_families[] = {
	// weir-metrics
	GAUGE(METRICS, "weir_build_info", "", "version", "1; the version of weir-metrics.", INFO),
	GAUGE(METRICS, "weir_control_up", "", "control_up",
		"Whether weir-control answered. 0: the families of all others are left out.",
		PLAIN),
	GAUGE(METRICS, "weir_dataplane_up", "", "dataplane_up",
		"Whether weir-control is attached to weir-dataplane. 0: what workers and devices "
		"count is left out.",
		PLAIN),
	GAUGE(METRICS, "weir_metrics_timestamp_seconds", "seconds", "timestamp_seconds",
		"When weir-control was asked: at most once a second, and not for more than a "
		"tenth of the time.",
		PLAIN),
	GAUGE(METRICS, "weir_metrics_reply_seconds", "seconds", "reply_seconds",
		"Time until its reply was there.", PLAIN),
	COUNTER(METRICS, "weir_metrics_cpu_seconds", "seconds", "cpu_seconds",
		"CPU time of weir-metrics.", PLAIN),
	GAUGE(METRICS, "weir_metrics_resident_memory_bytes", "bytes", "resident_bytes",
		"Memory of weir-metrics.", PLAIN),

	// weir-control
	GAUGE(CONTROL, "weir_control_info", "", "version", "1; the version of weir-control.", INFO),
	COUNTER(CONTROL, "weir_control_cpu_seconds", "seconds", "cpu_us",
		"CPU time of weir-control.", US),
	GAUGE(CONTROL, "weir_control_published", "", "published",
		"Whether all is published that should be.", PLAIN),
	COUNTER(CONTROL, "weir_control_publication_seconds", "seconds", "publish_us",
		"Time that publications took.", US),
	COUNTER(CONTROL, "weir_control_grace_periods", "", "grace_periods",
		"Grace periods measured after a publication.", PLAIN),
	COUNTER(CONTROL, "weir_control_grace_seconds", "seconds", "grace_us",
		"Time until every worker had seen these publications.", US),
	COUNTER(SEGMENT, "weir_segment_publications", "", "publications",
		"Publications to this weir-dataplane.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_heap_bytes", "bytes", "heap_bytes",
		"Room for tables in the segment.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_used_bytes", "bytes", "used_bytes", "Of it, used by tables.",
		PLAIN),
	GAUGE(SEGMENT, "weir_segment_retired_bytes", "bytes", "retired_bytes",
		"Of it, used by replaced tables that a worker may still read.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_backed_bytes", "bytes", "backed_bytes",
		"Of it, with memory behind it.", PLAIN),
	GAUGE(AGENTS, "weir_agents", "", "configured", "weir-agents that are asked.", PLAIN),
	COUNTER(AGENTS, "weir_agent_probes", "", "probes", "Probes sent to weir-agents.", PLAIN),
	COUNTER(AGENTS, "weir_agent_answers", "", "answers", "Answers of weir-agents.", PLAIN),
	COUNTER(AGENTS, "weir_agent_silent_probes", "", "silent",
		"Probes without an answer in time.", PLAIN),
	COUNTER(AGENTS, "weir_agent_refused_messages", "", "refused",
		"Messages that were not taken, by reason.", MAP_OF("reason")),
	COUNTER(AGENTS, "weir_agent_steal_requests", "", "steals",
		"Requests to weir-agents to let a connection go.", PLAIN),
	COUNTER(AGENTS, "weir_agent_steal_answers", "", "steal_results",
		"Answers to these requests, by result.", MAP_OF("result")),

	// workers
	GAUGE(WORKER, "weir_worker_up", "", "alive", "Whether the worker is alive.", PLAIN),
	GAUGE(WORKER, "weir_worker_busy_ratio", "ratio", "busy_percent",
		"Share of the last one or two seconds that it spent in iterations with packets.",
		PERCENT),
#define X(field, unit, metric, text) \
	LISTED("weir_worker_", WEIR_FAMILY_COUNTER, WORKER, field, unit, metric, text)
	WEIR_WORKER_COUNTERS(X)
#undef X
#define X(field, unit, metric, text) \
	LISTED("weir_worker_", WEIR_FAMILY_GAUGE, WORKER, field, unit, metric, text)
		WEIR_WORKER_GAUGES(X)
#undef X
			COUNTER(WORKER, "weir_worker_drops", "", "drops",
				"Packets dropped, by reason; the sum is "
				"weir_worker_dropped_packets_total.",
				MAP_OF("reason")),
	GAUGE(WORKER, "weir_worker_stealing", "", "stealing",
		"Whether workers take buckets of flows from each other.", STATE_OF(switch_states)),
	GAUGE(WORKER, "weir_worker_buckets", "buckets", "buckets",
		"Buckets of flows that the worker has.", PLAIN),
#define X(field, unit, metric, text) \
	LISTED("weir_worker_", WEIR_FAMILY_COUNTER, WORKER, field, unit, metric, text)
	WEIR_STEAL_COUNTERS(X)
#undef X
		COUNTER(WORKER, "weir_worker_refused_steals", "", "refused",
			"Requests for buckets that the worker refused, by reason.",
			MAP_OF("reason")),
	GAUGE(WORKER, "weir_worker_hottest_bucket_ratio", "ratio", "hottest_percent",
		"Share of its time that its bucket with most packets takes.", PERCENT),
	GAUGE(WORKER, "weir_worker_elephant_buckets", "buckets", "elephants",
		"Buckets that take, or lately took, more than half of a worker's time.", PLAIN),

// ports
#define X(field, unit, metric, text) \
	LISTED("weir_", WEIR_FAMILY_COUNTER, PORT, field, unit, metric, text)
	WEIR_PORT_COUNTERS(X)
#undef X
		COUNTER(PORT, "weir_port_lost_packets", "packets", "lost",
			"Packets that the device received and no worker saw.", PLAIN),
	GAUGE(PORT, "weir_port_mtu_bytes", "bytes", "mtu", "MTU of the port.", PLAIN),
	{.name = "weir_port_device_statistic",
		.type = WEIR_FAMILY_UNKNOWN,
		.kind = WEIR_FAMILY_MAP,
		.scope = WEIR_SCOPE_PORT,
		.unit = "",
		.key = "xstats",
		.label = "statistic",
		.help = "Extended statistics of the device above 0, by the names of its driver."},

	// services
	GAUGE(SERVICE, "weir_service_info", "", "policy forwarding",
		"1; how the service chooses backends and reaches them.", INFO),
	GAUGE(SERVICE, "weir_service_backends", "", "backends", "Backends of the service.", PLAIN),
	GAUGE(SERVICE, "weir_service_eligible_backends", "", "eligible",
		"Backends that are ready, healthy, and have a weight above 0.", PLAIN),
	GAUGE(SERVICE, "weir_service_panic", "", "panic",
		"Whether backends are used regardless of their health, because too few are "
		"healthy.",
		PLAIN),
#define X(field, unit, metric, text) \
	LISTED("weir_service_", WEIR_FAMILY_COUNTER, SERVICE, field, unit, metric, text)
	WEIR_SHARE_COUNTERS(X)
#undef X
#define X(field, unit, metric, text) \
	LISTED("weir_service_", WEIR_FAMILY_GAUGE, SERVICE, field, unit, metric, text)
		WEIR_SHARE_GAUGES(X)
#undef X
			GAUGE(STEAL, "weir_service_steal_saturated", "", "saturated",
				"Whether any backend was to be relieved in the last round.", PLAIN),
	COUNTER(STEAL, "weir_service_steal_requests", "", "asked",
		"Requests to move a connection away from a busy backend.", PLAIN),
	COUNTER(STEAL, "weir_service_stolen_flows", "flows", "moved", "Flows that were moved so.",
		PLAIN),
	COUNTER(STEAL, "weir_service_silent_steals", "", "silent",
		"Such requests that the agent did not answer in time.", PLAIN),
	COUNTER(STEAL, "weir_service_refused_steals", "", "refused",
		"Such requests that ended otherwise, by reason.", MAP_OF("reason")),

	// backends
	GAUGE(BACKEND, "weir_backend_info", "", "address", "1; the address of the backend.", INFO),
	GAUGE(BACKEND, "weir_backend_health", "", "health", "Health state.",
		STATE_OF(health_states)),
	GAUGE(BACKEND, "weir_backend_health_age_seconds", "seconds", "since_ms",
		"Time since this state began.", MS),
	GAUGE(BACKEND, "weir_backend_admin", "", "admin", "Administrative state.",
		STATE_OF(admin_states)),
	GAUGE(BACKEND, "weir_backend_in_selection", "", "in_selection",
		"Whether the backend gets new flows.", PLAIN),
	GAUGE(BACKEND, "weir_backend_leaving", "", "leaving",
		"Whether the backend is removed from the configuration, and still has flows.",
		PLAIN),
	GAUGE(BACKEND, "weir_backend_next_hop_known", "", "resolved",
		"Whether the next hop to the backend is known.", PLAIN),
	GAUGE(BACKEND, "weir_backend_at_limit", "", "at_limit",
		"Whether the backend has told that its accept queue is full.", PLAIN),
	GAUGE(BACKEND, "weir_backend_ejected", "", "ejected",
		"Whether the backend is ejected because its connections fail.", PLAIN),
	COUNTER(BACKEND, "weir_backend_ejections", "", "ejections",
		"Ejections since weir-control was started.", PLAIN),
	GAUGE(BACKEND, "weir_backend_configured_weight", "", "weight", "Configured weight.", PLAIN),
	GAUGE(BACKEND, "weir_backend_reported_weight", "", "reported_weight",
		"Weight that follows from load reports.", PLAIN),
	GAUGE(BACKEND, "weir_backend_effective_weight", "", "effective_weight", "Weight in use.",
		PLAIN),
	GAUGE(BACKEND, "weir_backend_target_share_ratio", "ratio", "share_percent",
		"Target share of the new flows of the service.", PERCENT),
	GAUGE(BACKEND, "weir_backend_report_age_seconds", "seconds", "report_age_ms",
		"Time since the last report of the backend.", MS),
	GAUGE(BACKEND, "weir_backend_utilization_ratio", "ratio", "utilization",
		"Utilization that the backend has reported.", PLAIN),
	COUNTER(BACKEND, "weir_backend_passed_checks", "", "passes", "Health checks passed.",
		PLAIN),
	COUNTER(BACKEND, "weir_backend_failed_checks", "", "fails", "Health checks failed.", PLAIN),
	GAUGE(BACKEND, "weir_backend_check_duration_seconds", "seconds", "check_ms",
		"How long the last health check took.", MS),
#define X(field, unit, metric, text) \
	LISTED("weir_backend_", WEIR_FAMILY_COUNTER, BACKEND, field, unit, metric, text)
	WEIR_SHARE_COUNTERS(X)
#undef X
#define X(field, unit, metric, text) \
	LISTED("weir_backend_", WEIR_FAMILY_GAUGE, BACKEND, field, unit, metric, text)
		WEIR_SHARE_GAUGES(X)
#undef X
};
const size_t weir_family_count = COUNT(weir_families);

// Names and labels as node_exporter has them. scope: METRICS is a sum over all workers of `key`,
// PORT one over all ports.
const struct weir_family weir_ipvs_families[] = {
	COUNTER(METRICS, "node_ipvs_connections", "", "flow_new",
		"New flows (weir_worker_new_flows_total).", PLAIN),
	COUNTER(METRICS, "node_ipvs_incoming_packets", "packets", "forwarded",
		"Packets to backends (weir_worker_forwarded_packets_total).", PLAIN),
	COUNTER(PORT, "node_ipvs_incoming_bytes", "bytes", "ibytes",
		"Bytes received, with the Ethernet header (weir_port_receive_bytes_total).", PLAIN),
	GAUGE(BACKEND, "node_ipvs_backend_connections_active", "", "open_flows",
		"Flows without FIN or RST.", PLAIN),
	GAUGE(BACKEND, "node_ipvs_backend_connections_inactive", "", "active_flows",
		"Flows with FIN or RST that are not ended yet.", PLAIN),
	GAUGE(BACKEND, "node_ipvs_backend_weight", "", "effective_weight",
		"Weight in use; 0 without new flows.", PLAIN),
};
const size_t weir_ipvs_family_count = COUNT(weir_ipvs_families);

const char *weir_family_type_name(enum weir_family_type type) {
	return type == WEIR_FAMILY_COUNTER ? "counter"
	       : type == WEIR_FAMILY_GAUGE ? "gauge"
					   : "unknown";
}

void weir_family_labels(const struct weir_family *family, struct weir_text *text) {
	static const char *const labels[] = {
#define X(name, text) text,
		WEIR_FAMILY_SCOPES(X)
#undef X
	};
	const char *first = labels[family->scope];
	const char *own = family->kind == WEIR_FAMILY_INFO ? family->key : family->label;

	weir_text_string(text, first);
	for (const char *at = own; at != NULL && *at != '\0'; at++) {
		if (at == own && first[0] != '\0') {
			weir_text_string(text, ", ");
		}
		weir_text_add(text, *at == ' ' ? ", " : at, *at == ' ' ? 2 : 1);
	}
}

static void add_table(
	struct weir_text *text, const struct weir_family *families, size_t count, bool ipvs) {
	weir_text_string(text, "| family | type | labels | |\n| --- | --- | --- | --- |\n");
	for (size_t i = 0; i < count; i++) {
		const struct weir_family *family = &families[i];

		weir_text_string(text, "| `");
		weir_text_string(text, family->name);
		weir_text_string(text, family->type == WEIR_FAMILY_COUNTER ? "_total` | " : "` | ");
		weir_text_string(text, weir_family_type_name(family->type));
		weir_text_string(text, " | ");
		if (ipvs) {
			weir_text_string(text, family->scope == WEIR_SCOPE_BACKEND
						       ? WEIR_IPVS_BACKEND_LABELS
						       : "");
		} else {
			weir_family_labels(family, text);
		}
		weir_text_string(text, " | ");
		weir_text_string(text, family->help);
		weir_text_string(text, " |\n");
	}
}

void weir_families_markdown(struct weir_text *text) {
	add_table(text, weir_families, weir_family_count, false);
	weir_text_string(text, "\nWith `--ipvs-names`:\n\n");
	add_table(text, weir_ipvs_families, weir_ipvs_family_count, true);
}
