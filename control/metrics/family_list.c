// SPDX-License-Identifier: BSD-3-Clause
#include "family_list.h"

#include "counters.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const health_states[] = {"starting", "healthy", "lame-duck", "refusing", NULL};
static const char *const admin_states[] = {"ready", "drain", "maintenance", NULL};
static const char *const canary_states[] = {
	"running", "paused", "promoted", "rolled-back", "stopped", NULL};
static const char *const switch_states[] = {"on", "off", NULL};

// Units in the counter lists of counters.h, as suffixes of metric names.
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
	GAUGE(METRICS, "weir_build_info", "", "version",
		"Always 1; the label is the version of weir-metrics.", INFO),
	GAUGE(METRICS, "weir_control_up", "", "control_up",
		"1 if weir-control answered the last query; if 0, the families of other processes "
		"are absent.",
		PLAIN),
	GAUGE(METRICS, "weir_dataplane_up", "", "dataplane_up",
		"1 if weir-control is attached to weir-dataplane; if 0, the counters of workers "
		"and devices are absent.",
		PLAIN),
	GAUGE(METRICS, "weir_metrics_timestamp_seconds", "seconds", "timestamp_seconds",
		"Unix time of the last query to weir-control. A reply is reused for a second, or "
		"for ten times the duration of its query if that is longer.",
		PLAIN),
	GAUGE(METRICS, "weir_metrics_reply_seconds", "seconds", "reply_seconds",
		"Time from the last query to weir-control until its reply.", PLAIN),
	COUNTER(METRICS, "weir_metrics_cpu_seconds", "seconds", "cpu_seconds",
		"CPU time used by weir-metrics.", PLAIN),
	GAUGE(METRICS, "weir_metrics_resident_memory_bytes", "bytes", "resident_bytes",
		"Resident memory of weir-metrics.", PLAIN),

	GAUGE(METRICS, "weir_metrics_start_time_seconds", "seconds", "started_seconds",
		"Unix time of the start of weir-metrics.", PLAIN),

	// weir-control
	GAUGE(CONTROL, "weir_control_info", "", "version",
		"Always 1; the label is the version of weir-control.", INFO),
	GAUGE(CONTROL, "weir_serving", "", "serving",
		"1 if this instance should get traffic, 0 if weirctl status is critical: "
		"weir-dataplane is down, a worker is stalled, no service has an eligible backend "
		"with a next hop, or all services are drained and their drains have ended.",
		PLAIN),
	GAUGE(CONTROL, "weir_control_start_time_seconds", "seconds", "started_ms",
		"Unix time of the start of weir-control.", MS),
	GAUGE(DATAPLANE, "weir_dataplane_start_time_seconds", "seconds", "started_ms",
		"Unix time of the start of weir-dataplane.", MS),
	GAUGE(CONTROL, "weir_config_last_reload_successful", "", "reload_ok",
		"1 if the last reload was accepted, or if there was no reload; 0 if the last "
		"reload, or the file at the start of weir-control, was refused, so that the "
		"previous configuration is in use.",
		PLAIN),
	GAUGE(CONTROL, "weir_config_last_reload_success_timestamp_seconds", "seconds",
		"reloaded_ms",
		"Unix time of the last accepted reload, or of the start of weir-control.", MS),
	COUNTER(CONTROL, "weir_control_cpu_seconds", "seconds", "cpu_us",
		"CPU time used by weir-control.", US),
	GAUGE(CONTROL, "weir_control_published", "", "published",
		"1 if all tables are published to weir-dataplane.", PLAIN),
	COUNTER(CONTROL, "weir_control_publication_seconds", "seconds", "publish_us",
		"Time spent publishing tables to weir-dataplane.", US),
	COUNTER(CONTROL, "weir_control_grace_periods", "", "grace_periods",
		"Grace periods measured after publications of tables.", PLAIN),
	COUNTER(CONTROL, "weir_control_grace_seconds", "seconds", "grace_us",
		"Total duration of grace periods after publications of tables. A grace period ends "
		"when no worker uses the replaced tables.",
		US),
	COUNTER(SEGMENT, "weir_segment_publications", "", "publications",
		"Publications of tables to the running weir-dataplane process.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_heap_bytes", "bytes", "heap_bytes",
		"Size of the heap for tables in the memory shared with weir-dataplane.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_used_bytes", "bytes", "used_bytes",
		"Part of the heap used by tables.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_retired_bytes", "bytes", "retired_bytes",
		"Part of the heap used by replaced tables that a worker may still read.", PLAIN),
	GAUGE(SEGMENT, "weir_segment_backed_bytes", "bytes", "backed_bytes",
		"Part of the heap backed by physical memory.", PLAIN),
	GAUGE(AGENTS, "weir_agents", "", "configured", "weir-agents in the configuration.", PLAIN),
	COUNTER(AGENTS, "weir_agent_probes", "", "probes", "Probes sent to weir-agents.", PLAIN),
	COUNTER(AGENTS, "weir_agent_answers", "", "answers", "Answers from weir-agents.", PLAIN),
	COUNTER(AGENTS, "weir_agent_silent_probes", "", "silent",
		"Probes that weir-agents did not answer in time.", PLAIN),
	COUNTER(AGENTS, "weir_agent_refused_messages", "", "refused",
		"Messages from weir-agents that were refused, by reason.", MAP_OF("reason")),
	COUNTER(AGENTS, "weir_agent_steal_requests", "", "steals",
		"Steal requests to weir-agents, each to release a connection that is not "
		"established.",
		PLAIN),
	COUNTER(AGENTS, "weir_agent_steal_answers", "", "steal_results",
		"Answers to steal requests, by result.", MAP_OF("result")),

	// workers
	GAUGE(WORKER, "weir_worker_up", "", "alive",
		"1 if the last heartbeat of the worker is at most a second old.", PLAIN),
	GAUGE(WORKER, "weir_worker_busy_ratio", "ratio", "busy_percent",
		"Share of the last one or two seconds that the worker spent in iterations with "
		"packets.",
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
		"1 for the current state of stealing: whether idle workers take over buckets of "
		"flows from busy workers.",
		STATE_OF(switch_states)),
	GAUGE(WORKER, "weir_worker_buckets", "buckets", "buckets",
		"Buckets of flows owned by the worker.", PLAIN),
#define X(field, unit, metric, text) \
	LISTED("weir_worker_", WEIR_FAMILY_COUNTER, WORKER, field, unit, metric, text)
	WEIR_STEAL_COUNTERS(X)
#undef X
		COUNTER(WORKER, "weir_worker_refused_steals", "", "refused",
			"Requests for buckets that the worker refused, by reason.",
			MAP_OF("reason")),
	GAUGE(WORKER, "weir_worker_hottest_bucket_ratio", "ratio", "hottest_percent",
		"Share of the worker's time used by its bucket with the most packets.", PERCENT),
	GAUGE(WORKER, "weir_worker_elephant_buckets", "buckets", "elephants",
		"Buckets that use, or recently used, more than half of a worker's time.", PLAIN),

// ports
#define X(field, unit, metric, text) \
	LISTED("weir_", WEIR_FAMILY_COUNTER, PORT, field, unit, metric, text)
	WEIR_PORT_COUNTERS(X)
#undef X
		COUNTER(PORT, "weir_port_lost_packets", "packets", "lost",
			"Packets that the device received, but dropped before a worker received "
			"them.",
			PLAIN),
	GAUGE(PORT, "weir_port_mtu_bytes", "bytes", "mtu", "MTU of the port.", PLAIN),
	{.name = "weir_port_device_statistic",
		.type = WEIR_FAMILY_UNKNOWN,
		.kind = WEIR_FAMILY_MAP,
		.scope = WEIR_SCOPE_PORT,
		.unit = "",
		.key = "xstats",
		.label = "statistic",
		.help = "Extended statistics (xstats) of the device that are not 0; the label is "
			"the driver's name of the statistic."},

	// services
	GAUGE(SERVICE, "weir_service_info", "", "policy forwarding",
		"Always 1; the labels are the selection policy and the forwarding method of the "
		"service.",
		INFO),
	GAUGE(SERVICE, "weir_service_backends", "", "backends", "Backends of the service.", PLAIN),
	GAUGE(SERVICE, "weir_service_eligible_backends", "", "eligible",
		"Eligible backends: ready, healthy, and with a weight above 0.", PLAIN),
	GAUGE(SERVICE, "weir_service_unchecked_backends", "", "unchecked",
		"Backends whose health state does not change, because the last three health checks "
		"could not run on this host, or this host drops the answers.",
		PLAIN),
	GAUGE(SERVICE, "weir_service_quorum_eligible_backends", "", "quorum_eligible",
		"Eligible backends that count towards the quorum: backups only while they get new "
		"flows.",
		PLAIN),
	GAUGE(SERVICE, "weir_service_quorum_backends", "", "quorum",
		"Eligible backends that the service needs, without its hysteresis.", PLAIN),
	GAUGE(SERVICE, "weir_service_up", "", "up",
		"1 if enough backends are eligible for the quorum of the service.", PLAIN),
	GAUGE(SERVICE, "weir_service_panic", "", "panic",
		"1 in panic mode: too few backends are healthy, so unhealthy backends are used, "
		"too.",
		PLAIN),
	GAUGE(SERVICE, "weir_service_on_backups", "", "on_backups",
		"1 if the backups of the service get new flows, because too few of the other "
		"backends are eligible.",
		PLAIN),
	GAUGE(SERVICE, "weir_canary_state", "", "canary",
		"1 for the state of the service's last canary; absent without a canary.",
		STATE_OF(canary_states)),
	{.name = "weir_service_check_duration_seconds",
		.type = WEIR_FAMILY_HISTOGRAM,
		.kind = WEIR_FAMILY_BUCKETS,
		.scope = WEIR_SCOPE_SERVICE,
		.unit = "seconds",
		.key = "check_seconds",
		.label = "le",
		.help = "Durations of passed and failed health checks of the service's backends; "
			"agent-checks are not included."},
#define X(field, unit, metric, text) \
	LISTED("weir_service_", WEIR_FAMILY_COUNTER, SERVICE, field, unit, metric, text)
	WEIR_SHARE_COUNTERS(X)
#undef X
#define X(field, unit, metric, text) \
	LISTED("weir_service_", WEIR_FAMILY_GAUGE, SERVICE, field, unit, metric, text)
		WEIR_SHARE_GAUGES(X)
#undef X
			GAUGE(STEAL, "weir_service_steal_saturated", "", "saturated",
				"1 if the last steal round found a busy backend.", PLAIN),
	COUNTER(STEAL, "weir_service_steal_requests", "", "asked",
		"Requests to move a connection away from a busy backend.", PLAIN),
	COUNTER(STEAL, "weir_service_stolen_flows", "flows", "moved",
		"Flows moved by steal requests.", PLAIN),
	COUNTER(STEAL, "weir_service_silent_steals", "", "silent",
		"Steal requests that the agent did not answer in time.", PLAIN),
	COUNTER(STEAL, "weir_service_refused_steals", "", "refused",
		"Steal requests that moved no flow, by reason, except requests that the agent did "
		"not answer.",
		MAP_OF("reason")),

	// backends
	GAUGE(BACKEND, "weir_backend_info", "", "address",
		"Always 1; the label is the address of the backend.", INFO),
	GAUGE(BACKEND, "weir_backend_health", "", "health", "Health state.",
		STATE_OF(health_states)),
	GAUGE(BACKEND, "weir_backend_health_age_seconds", "seconds", "since_ms",
		"Time since the last change of the health state.", MS),
	GAUGE(BACKEND, "weir_backend_admin", "", "admin", "Administrative state.",
		STATE_OF(admin_states)),
	GAUGE(BACKEND, "weir_backend_in_selection", "", "in_selection",
		"1 if the backend gets new flows.", PLAIN),
	GAUGE(BACKEND, "weir_backend_backup", "", "backup", "1 if the backend is a backup.", PLAIN),
	GAUGE(BACKEND, "weir_backend_leaving", "", "leaving",
		"1 if the backend is removed from the configuration but still has flows, or if its "
		"service is removed but still refuses new flows.",
		PLAIN),
	GAUGE(BACKEND, "weir_backend_next_hop_known", "", "resolved",
		"1 if the next hop to the backend is resolved.", PLAIN),
	GAUGE(BACKEND, "weir_backend_accept_queue_full", "", "accept_queue_full",
		"1 if the backend reports a full accept queue.", PLAIN),
	GAUGE(BACKEND, "weir_backend_max_active_flows", "", "max_active_flows",
		"Maximum number of active flows of the backend through this instance.", PLAIN),
	GAUGE(BACKEND, "weir_backend_counted_flows", "", "counted_flows",
		"Flows that count towards weir_backend_max_active_flows.", PLAIN),
	GAUGE(BACKEND, "weir_backend_agent_silent", "", "agent_silent",
		"1 if the backend's weir-agent does not answer, so that load and state of its host "
		"are unknown. Absent without an agent, or without keys to probe the agent.",
		PLAIN),
	GAUGE(BACKEND, "weir_backend_ejected", "", "ejected",
		"1 if the backend is ejected: its connections fail, or its host rejects packets.",
		PLAIN),
	COUNTER(BACKEND, "weir_backend_ejections", "", "ejections",
		"Ejections since the start of weir-control.", PLAIN),
	GAUGE(BACKEND, "weir_backend_configured_weight", "", "weight", "Configured weight.", PLAIN),
	GAUGE(BACKEND, "weir_backend_reported_weight", "", "reported_weight",
		"Weight derived from load reports.", PLAIN),
	GAUGE(BACKEND, "weir_backend_effective_weight", "", "effective_weight", "Weight in use.",
		PLAIN),
	GAUGE(BACKEND, "weir_backend_target_share_ratio", "ratio", "share_percent",
		"Target share of the service's new flows.", PERCENT),
	GAUGE(BACKEND, "weir_backend_report_age_seconds", "seconds", "report_age_ms",
		"Time since the backend's last report.", MS),
	GAUGE(BACKEND, "weir_backend_utilization_ratio", "ratio", "utilization",
		"Utilization reported by the backend.", PLAIN),
	COUNTER(BACKEND, "weir_backend_passed_checks", "", "passes", "Health checks passed.",
		PLAIN),
	COUNTER(BACKEND, "weir_backend_failed_checks", "", "fails", "Health checks failed.", PLAIN),
	GAUGE(BACKEND, "weir_backend_check_duration_seconds", "seconds", "check_ms",
		"Duration of the last health check.", MS),
#define X(field, unit, metric, text) \
	LISTED("weir_backend_", WEIR_FAMILY_COUNTER, BACKEND, field, unit, metric, text)
	WEIR_SHARE_COUNTERS(X)
#undef X
#define X(field, unit, metric, text) \
	LISTED("weir_backend_", WEIR_FAMILY_GAUGE, BACKEND, field, unit, metric, text)
		WEIR_SHARE_GAUGES(X)
#undef X
			GAUGE(TCP, "weir_backend_tcp_connections", "", "connections",
				"Open connections of the backend's host, by address family of the "
				"clients. Only for services with agent.tcp, like all "
				"weir_backend_tcp families.",
				PLAIN),
	GAUGE(TCP, "weir_backend_tcp_rtt_seconds", "seconds", "rtt_us",
		"Quantiles of the smoothed round-trip times of the open connections of the "
		"backend's host.",
		MAP_OF("quantile"), US),
	COUNTER(TCP, "weir_backend_tcp_segments", "", "segments",
		"Data segments sent to clients since the start of the agent.", PLAIN),
	COUNTER(TCP, "weir_backend_tcp_retransmitted_segments", "", "retransmitted",
		"Data segments retransmitted to clients since the start of the agent.", PLAIN),
	COUNTER(TCP, "weir_backend_tcp_sent_bytes", "bytes", "sent_bytes",
		"Bytes of data segments sent to clients since the start of the agent.", PLAIN),
	GAUGE(TCP, "weir_backend_tcp_delivery_rate_bytes_per_second", "bytes_per_second",
		"delivery_rate",
		"Median delivery rate of connections that are not application-limited.", PLAIN),
};
const size_t weir_family_count = COUNT(weir_families);

// Families with the names and labels of node_exporter. In this list, scope METRICS means the sum of
// `key` over all workers, and scope PORT the sum over all ports.
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
		"Flows with FIN or RST that have not expired yet.", PLAIN),
	GAUGE(BACKEND, "node_ipvs_backend_weight", "", "effective_weight",
		"Weight in use; 0 if the backend gets no new flows.", PLAIN),
};
const size_t weir_ipvs_family_count = COUNT(weir_ipvs_families);

const char *weir_family_type_name(enum weir_family_type type) {
	static const char *const names[] = {[WEIR_FAMILY_COUNTER] = "counter",
		[WEIR_FAMILY_GAUGE] = "gauge",
		[WEIR_FAMILY_HISTOGRAM] = "histogram",
		[WEIR_FAMILY_UNKNOWN] = "unknown"};

	return names[type];
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
