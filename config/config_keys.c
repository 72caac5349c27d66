// SPDX-License-Identifier: BSD-3-Clause
#include "config_keys.h"

#include "ejection.h"
#include "policy_names.h"

// clang-format off
#define FIELD(of, field) .offset = offsetof(struct of, field), \
	.bytes = sizeof(((struct of *)0)->field)
// Fields of a row: the programs that read the key, and whether a changed value needs a reload or a
// restart. The dataplane reads its keys only at its start.
#define DATAPLANE .read_by = WEIR_CONFIG_DATAPLANE, .needs = WEIR_JSON_NEEDS_RESTART
#define BOTH .read_by = WEIR_CONFIG_DATAPLANE | WEIR_CONFIG_CONTROL, \
	.needs = WEIR_JSON_NEEDS_RESTART
#define CONTROL .read_by = WEIR_CONFIG_CONTROL // applied by a reload
#define TABLES .read_by = WEIR_CONFIG_CONTROL, .needs = WEIR_JSON_NEEDS_REBUILD
#define UNIT(of) .unit = of
// A policy uses the key if the policy has one of these needs (WEIR_NEEDS_*).
#define POLICIES(needed) .belongs_to = needed
// Further arguments set other fields of the row.
#define INTEGER(name, of, field, least, most, preset, ...) \
	{.key = name, .type = &weir_json_type_integer, FIELD(of, field), .min = least, \
	 .max = most, .fallback = preset, __VA_ARGS__}
#define CHOICE(name, of, field, list, preset, ...) \
	{.key = name, .type = &weir_json_type_choice, FIELD(of, field), .choices = list, \
	 .fallback = preset, __VA_ARGS__}
#define VALUE(name, kind, of, field, ...) \
	{.key = name, .type = &kind, FIELD(of, field), __VA_ARGS__}
#define OBJECT(name, of, field, keys) \
	{.key = name, .type = &weir_json_type_struct, .offset = offsetof(struct of, field), \
	 .object = &keys}
#define LIST(name, of, field, length, least, most, keys, ...) \
	{.key = name, .type = &weir_json_type_list, FIELD(of, field), \
	 .offset2 = offsetof(struct of, length), .required = true, .min = least, .max = most, \
	 .object = &keys, __VA_ARGS__}
#define COMMAND(of) \
	{.key = "command", .type = &weir_config_type_command, FIELD(of, command.text), \
	 .offset2 = offsetof(struct of, command.words), .max = WEIR_CONFIG_COMMAND_WORDS_MAX, \
	 .fallback = "[]", CONTROL}
#define OR_NULL .nullable = true, .fallback = "null"
#define COMMENT {.key = "comment", .type = &weir_json_type_ignored}
#define ROWS(keys) .key = (keys), .count = sizeof(keys) / sizeof((keys)[0])
#define DAY_MS 86400000
#define HOUR_MS 3600000

#define INSTANCE weir_config_instance
static const struct weir_json_key instance_keys[] = {
	VALUE("name", weir_config_type_name, INSTANCE, name, .fallback = "\"weir\"", DATAPLANE),
	INTEGER("client_id", INSTANCE, client_id, 0, 65535, "0", TABLES),
	INTEGER("clients", INSTANCE, clients, 1, 65536, "1", TABLES),
	INTEGER("member", INSTANCE, member, 0, WEIR_CONFIG_MEMBERS_MAX - 1, "0", TABLES),
	INTEGER("members", INSTANCE, members, 1, WEIR_CONFIG_MEMBERS_MAX, "1", TABLES),
	VALUE("hash_seed", weir_config_type_seed, INSTANCE, hash_seed,
		.fallback = "\"" WEIR_CONFIG_HASH_SEED "\"", .secret = true, DATAPLANE),
	COMMENT,
};
static const struct weir_json_object instance_object = {.name = "instance", ROWS(instance_keys),
	.check = weir_config_check_instance};

#define PORT weir_config_port
#define DEVICE_MAX (WEIR_CONFIG_DEVICE_BYTES - 1)
static const struct weir_json_key port_keys[] = {
	VALUE("name", weir_config_type_name, PORT, name, .required = true, BOTH),
	VALUE("device", weir_json_type_text, PORT, device, .required = true, .min = 1,
		.max = DEVICE_MAX, DATAPLANE),
	VALUE("exception", weir_json_type_text, PORT, exception, OR_NULL, .min = 1,
		.max = DEVICE_MAX, DATAPLANE),
	INTEGER("mtu", PORT, mtu, 1280, 9216, "1500", UNIT("bytes"), DATAPLANE),
	INTEGER("vlan", PORT, vlan, 1, 4094, "null", .nullable = true, DATAPLANE),
	VALUE("gateway_mac", weir_config_type_mac, PORT, gateway_mac,
		.offset2 = offsetof(struct PORT, has_gateway_mac), OR_NULL, CONTROL),
	VALUE("source_ipv4", weir_config_type_prefix4, PORT, source_ipv4,
		.offset2 = offsetof(struct PORT, source_ipv4_bits), OR_NULL, CONTROL),
	VALUE("source_ipv6", weir_config_type_ipv6, PORT, source_ipv6, OR_NULL, CONTROL),
	INTEGER("queues", PORT, queues, 0, WEIR_CONFIG_CORES_MAX, "0", DATAPLANE),
	COMMENT,
};
// The order of ports matters, because the segment identifies a port by its index.
static const struct weir_json_object port_object = {.name = "port", ROWS(port_keys),
	.bytes = sizeof(struct PORT), .has_line = true, .line_offset = offsetof(struct PORT, line),
	.check = weir_config_check_port, .ordered = true,
	.identify = weir_config_identify_port, .describe = weir_config_describe_port};

#define WORKERS weir_config_workers
static const struct weir_json_key worker_keys[] = {
	VALUE("cores", weir_config_type_cores, WORKERS, cores,
		.offset2 = offsetof(struct WORKERS, count), .min = 1, .max = WEIR_CONFIG_CORES_MAX,
		.fallback = "[0]", BOTH),
	CHOICE("idle", WORKERS, idle, weir_config_idles, "\"yield\"", DATAPLANE),
	VALUE("steal", weir_json_type_boolean, WORKERS, steal, .fallback = "true", CONTROL),
	COMMENT,
};
static const struct weir_json_object workers_object = {.name = "workers", ROWS(worker_keys)};

#define FLOWS weir_config_flow_table
#define TIMEOUT(name, field, preset) \
	INTEGER(name, FLOWS, field, 100, DAY_MS, preset, UNIT("ms"), DATAPLANE)
static const struct weir_json_key flow_timeout_keys[] = {
	TIMEOUT("syn_seen", syn_seen_ms, "5000"),
	TIMEOUT("established", established_ms, "900000"),
	TIMEOUT("closing", closing_ms, "60000"),
	TIMEOUT("udp", udp_ms, "30000"),
	TIMEOUT("young", young_ms, "10000"),
	TIMEOUT("udp_seen", udp_seen_ms, "5000"),
	COMMENT,
};
static const struct weir_json_object flow_timeout_object = {
	.name = "flow_timeout", ROWS(flow_timeout_keys)};

static const struct weir_json_key flow_table_keys[] = {
	INTEGER("flows_per_worker", FLOWS, flows_per_worker, 1024, 1 << 28, "1048576", DATAPLANE),
	INTEGER("half_open_percent", FLOWS, half_open_percent, 1, 100, "25", UNIT("percent"),
		DATAPLANE),
	INTEGER("ipv6_percent", FLOWS, ipv6_percent, 1, 100, "25", UNIT("percent"), DATAPLANE),
	INTEGER("affinity_sources", FLOWS, affinity_sources, 0, 1 << 26, "65536", DATAPLANE),
	{.key = "timeout_ms", .type = &weir_json_type_struct, .object = &flow_timeout_object},
	COMMENT,
};
static const struct weir_json_object flow_table_object = {
	.name = "flow_table", ROWS(flow_table_keys)};

#define ICMP weir_config_icmp
#define RATE(name, field) \
	INTEGER(name, ICMP, field, 0, 1000000, "1000", UNIT("packets/s"), DATAPLANE)
static const struct weir_json_key icmp_keys[] = {
	RATE("echo_per_second", echo_per_second),
	RATE("too_big_per_second", too_big_per_second),
	RATE("unreachable_per_second", unreachable_per_second),
	COMMENT,
};
static const struct weir_json_object icmp_object = {.name = "icmp", ROWS(icmp_keys)};

#define FRAGMENTS weir_config_fragments
static const struct weir_json_key fragments_keys[] = {
	INTEGER("entries", FRAGMENTS, entries, 0, 1 << 20, "4096", DATAPLANE),
	INTEGER("timeout_ms", FRAGMENTS, timeout_ms, 100, 60000, "5000", UNIT("ms"), DATAPLANE),
	COMMENT,
};
static const struct weir_json_object fragments_object = {
	.name = "fragments", ROWS(fragments_keys)};

#define SEGMENT weir_config_segment
static const struct weir_json_key segment_keys[] = {
	INTEGER("max_services", SEGMENT, max_services, 1, WEIR_CONFIG_SERVICES_MAX, "1024", BOTH),
	INTEGER("max_backends", SEGMENT, max_backends, 1, WEIR_CONFIG_BACKENDS_MAX, "16384", BOTH),
	INTEGER("heap_bytes", SEGMENT, heap_bytes, 1 << 20, 1ull << 36, "4294967296",
		UNIT("bytes"), DATAPLANE),
	VALUE("huge_pages", weir_json_type_boolean, SEGMENT, huge_pages, .fallback = "false",
		DATAPLANE),
	COMMENT,
};
static const struct weir_json_object segment_object = {.name = "segment", ROWS(segment_keys),
	.check = weir_config_check_segment};

// The key "port" sets port_first. weir_config_check_bind then converts the port to a range.
#define BIND weir_config_bind
static const struct weir_json_key bind_keys[] = {
	VALUE("address", weir_config_type_address, BIND, address, .required = true, TABLES),
	CHOICE("protocol", BIND, protocol, weir_config_protocols, NULL, .required = true, TABLES),
	VALUE("port", weir_config_type_port, BIND, port_first, .min = 0, .max = 65535, TABLES),
	INTEGER("port_first", BIND, port_first, 1, 65535, NULL, TABLES),
	INTEGER("port_last", BIND, port_last, 1, 65535, NULL, TABLES),
	COMMENT,
};
static const struct weir_json_object bind_object = {.name = "bind", ROWS(bind_keys),
	.bytes = sizeof(struct BIND), .check = weir_config_check_bind,
	.identify = weir_config_identify_bind};

#define POLICY weir_config_policy
static const struct weir_json_key policy_keys[] = {
	CHOICE("name", POLICY, name, weir_config_policies, "\"maglev\"",
		.meant = weir_config_policy_meant, .names_object = true, TABLES),
	CHOICE("weights", POLICY, weights, weir_config_weights, "\"configured\"", TABLES),
	CHOICE("requests", POLICY, requests, weir_config_requests, "\"all\"", CONTROL),
	VALUE("error_penalty", weir_config_type_number, POLICY, error_penalty, .max = 1000,
		.fallback = "1.0", CONTROL),
	INTEGER("blackout_ms", POLICY, blackout_ms, 0, HOUR_MS, "10000", UNIT("ms"), CONTROL),
	INTEGER("expiration_ms", POLICY, expiration_ms, 1000, DAY_MS, "180000", UNIT("ms"),
		CONTROL),
	INTEGER("smoothing_ms", POLICY, smoothing_ms, 0, HOUR_MS, "10000", UNIT("ms"), CONTROL),
	INTEGER("update_ms", POLICY, update_ms, 1000, 60000, "1000", UNIT("ms"), CONTROL),
	CHOICE("statistic", POLICY, statistic, weir_config_statistics, "\"average\"",
		POLICIES(WEIR_NEEDS_COST), TABLES),
	INTEGER("window", POLICY, window, 1, 65535, "386", POLICIES(WEIR_NEEDS_COST), TABLES),
	CHOICE("measurement", POLICY, measurement, weir_config_measurements, "\"execution\"",
		POLICIES(WEIR_NEEDS_COST), TABLES),
	CHOICE("service_time", POLICY, service_time, weir_config_service_times, "\"flow\"",
		POLICIES(WEIR_NEEDS_COST), TABLES),
	INTEGER("stale_ms", POLICY, stale_ms, 1000, DAY_MS, "180000", UNIT("ms"),
		POLICIES(WEIR_NEEDS_COST), TABLES),
	CHOICE("rounds", POLICY, rounds, weir_config_rounds, "\"incremental\"",
		POLICIES(WEIR_NEEDS_ROUNDS), TABLES),
	INTEGER("error_window_ms", POLICY, error_window_ms, 0, 3600000, "0", UNIT("ms"),
		POLICIES(WEIR_NEEDS_ERRORS), TABLES),
	COMMENT,
};
const struct weir_json_object weir_config_policy_keys = {.name = "policy", ROWS(policy_keys),
	.check = weir_config_check_policy};

// The default of max_active_flows depends on "workload", so weir_config_check_service sets it.
#define FLOW_CONTROL weir_config_flow_control
static const struct weir_json_key flow_control_keys[] = {
	INTEGER("max_active_flows", FLOW_CONTROL, max_active_flows, 0, 1 << 28, NULL, TABLES),
	CHOICE("when_exhausted", FLOW_CONTROL, when_exhausted, weir_config_when_exhausted,
		"\"spill\"", TABLES),
	INTEGER("accept_queue_percent", FLOW_CONTROL, accept_queue_percent, 0, 100, "75",
		UNIT("percent"), CONTROL),
	COMMENT,
};
static const struct weir_json_object flow_control_object = {.name = "flow_control",
	ROWS(flow_control_keys), .check = weir_config_check_flow_control};

// "size" has no default, because a suitable size depends on the number of backends and clients.
#define SUBSET weir_config_subset
static const struct weir_json_key subset_keys[] = {
	CHOICE("algorithm", SUBSET, algorithm, weir_config_subset_algorithms, NULL,
		.required = true, TABLES),
	INTEGER("size", SUBSET, size, 1, WEIR_CONFIG_BACKENDS_MAX, NULL, TABLES),
	CHOICE("mode", SUBSET, mode, weir_config_subset_modes, "\"spread\"", TABLES),
	CHOICE("client", SUBSET, client, weir_config_subset_clients, "\"group\"", TABLES),
	INTEGER("salt", SUBSET, salt, 0, UINT32_MAX, "0", TABLES),
	COMMENT,
};
static const struct weir_json_object subset_object = {.name = "subset", ROWS(subset_keys),
	.check = weir_config_check_subset};

// The keys for testing a response: rows for a health check, and for each of its further URLs. at:
// prefix of the fields: "url." or nothing.
#define ANSWER(of, at) \
	INTEGER("status_first", of, at status_first, 100, 599, "200", CONTROL), \
		INTEGER("status_last", of, at status_last, 100, 599, "399", CONTROL), \
		VALUE("body", weir_json_type_text, of, at body, .min = 1, .max = 255, OR_NULL, CONTROL), \
		VALUE("body_regex", weir_json_type_text, of, at body_regex, .min = 1, .max = 255, \
			OR_NULL, CONTROL), \
		VALUE("body_sha256", weir_config_type_hex_bytes, of, at body_sha256, OR_NULL, CONTROL), \
		VALUE("body_md5", weir_config_type_hex_bytes, of, at body_md5, OR_NULL, CONTROL)
#define URL weir_config_url
static const struct weir_json_key url_keys[] = {
	VALUE("path", weir_json_type_text, URL, path, .required = true, .min = 1, .max = 255, CONTROL),
	ANSWER(URL, ),
	COMMENT,
};
static const struct weir_json_object url_object = {.name = "url", ROWS(url_keys),
	.bytes = sizeof(struct URL), .check = weir_config_check_url,
	.identify = weir_config_identify_url, .ordered = true};
_Static_assert(sizeof(((struct URL *)NULL)->path) <= WEIR_JSON_IDENTITY_BYTES,
	"a path identifies a URL");

#define CHECK weir_config_health_check
static const struct weir_json_key health_check_keys[] = {
	CHOICE("type", CHECK, type, weir_config_checks, NULL, .required = true, .versioned = true,
		CONTROL),
	CHOICE("via", CHECK, via, weir_config_vias, "\"direct\"", CONTROL),
	VALUE("path", weir_json_type_text, CHECK, url.path, .min = 1, .max = 255, .fallback = "\"/\"",
		CONTROL),
	VALUE("host", weir_json_type_text, CHECK, host, .min = 1, .max = 255, OR_NULL, CONTROL),
	INTEGER("port", CHECK, port, 0, 65535, "0", CONTROL),
	CHOICE("method", CHECK, method, weir_config_methods, "\"GET\"", CONTROL),
	ANSWER(CHECK, url.),
	{.key = "urls", .type = &weir_json_type_list, FIELD(CHECK, urls),
	 .offset2 = offsetof(struct CHECK, url_count), .max = WEIR_CONFIG_URLS_MAX,
	 .object = &url_object, CONTROL},
	VALUE("tls", weir_json_type_boolean, CHECK, tls, .fallback = "false", CONTROL),
	VALUE("verify", weir_json_type_boolean, CHECK, verify, .fallback = "true", CONTROL),
	VALUE("ca_file", weir_json_type_text, CHECK, ca_file, .min = 1, .max = 255, OR_NULL, CONTROL),
	VALUE("server_name", weir_json_type_text, CHECK, server_name, .min = 1, .max = 255, OR_NULL,
		CONTROL),
	VALUE("grpc_service", weir_json_type_text, CHECK, grpc_service, .min = 1, .max = 255, OR_NULL,
		CONTROL),
	VALUE("orca", weir_json_type_boolean, CHECK, orca, .fallback = "false", CONTROL),
	VALUE("send", weir_config_type_payload, CHECK, send, .min = 1, .max = 255, OR_NULL, CONTROL),
	VALUE("send_hex", weir_config_type_hex_bytes, CHECK, send_hex, OR_NULL, CONTROL),
	VALUE("expect", weir_config_type_payload, CHECK, expect, .min = 1, .max = 255, OR_NULL,
		CONTROL),
	VALUE("expect_hex", weir_config_type_hex_bytes, CHECK, expect_hex, OR_NULL, CONTROL),
	CHOICE("match", CHECK, match, weir_config_matches, "\"prefix\"", CONTROL),
	VALUE("name", weir_json_type_text, CHECK, name, .min = 1, .max = 255, OR_NULL, CONTROL),
	CHOICE("record", CHECK, record, weir_config_records, "\"SOA\"", CONTROL),
	CHOICE("rcode", CHECK, rcode, weir_config_rcodes, "\"NOERROR\"", CONTROL),
	VALUE("address", weir_config_type_address, CHECK, address, OR_NULL, CONTROL),
	COMMAND(CHECK),
	VALUE("weight_from_exit", weir_json_type_boolean, CHECK, weight_from_exit,
		.fallback = "false", CONTROL),
	INTEGER("interval_ms", CHECK, interval_ms, 10, 3600000, "1000", UNIT("ms"), CONTROL),
	INTEGER("timeout_ms", CHECK, timeout_ms, 10, 3600000, "500", UNIT("ms"), CONTROL),
	INTEGER("retry_interval_ms", CHECK, retry_interval_ms, 0, 3600000, "0", UNIT("ms"), CONTROL),
	INTEGER("rise", CHECK, rise, 1, 255, "2", CONTROL),
	INTEGER("fall", CHECK, fall, 1, 255, "3", CONTROL),
	COMMENT,
};
const struct weir_json_object weir_config_health_keys = {.name = "health_check",
	ROWS(health_check_keys), .check = weir_config_check_health};
// Writes the keys of a backend's own check with their values, including the keys that it inherits
// from the check of the service.
static void describe_check(const void *check, char *text, size_t bytes) {
	const uint64_t given = ((const struct weir_config_health_check *)check)->given;
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(health_check_keys) / sizeof(health_check_keys[0]) && used < bytes; i++) {
		const struct weir_json_key *key = &health_check_keys[i];

		if ((given & 1ull << i) != 0 && key->type->format != NULL) {
			used += (size_t)snprintf(
				text + used, bytes - used, "%s%s ", used > 0 ? ", " : "", key->key);
		}
		if ((given & 1ull << i) != 0 && key->type->format != NULL && used < bytes) {
			key->type->format(key, check, text + used, bytes - used);
			used += strlen(text + used);
		}
	}
}

// weir_config_check_service_health checks the values later, when the whole service has been read.
static const struct weir_json_object own_health_object = {.name = "health_check",
	ROWS(health_check_keys), .bytes = sizeof(struct CHECK), .check = weir_config_note_health,
	.describe = describe_check};

static const struct weir_json_key agent_check_keys[] = {
	INTEGER("port", CHECK, port, 1, 65535, NULL, .required = true, CONTROL),
	VALUE("send", weir_json_type_text, CHECK, send, .min = 1, .max = 255, OR_NULL, CONTROL),
	INTEGER("interval_ms", CHECK, interval_ms, 10, 3600000, "2000", UNIT("ms"), CONTROL),
	INTEGER("timeout_ms", CHECK, timeout_ms, 10, 3600000, "1000", UNIT("ms"), CONTROL),
	COMMENT,
};
static bool has_no_agent_check(const void *object) {
	return ((const struct CHECK *)object)->type == WEIR_CHECK_NONE;
}

static const struct weir_json_object agent_check_object = {.name = "agent_check",
	ROWS(agent_check_keys), .check = weir_config_check_agent_check,
	.is_absent = has_no_agent_check};

// If a service has no object "agent", it has no agents; weir_config_check_service ensures this.
#define AGENT weir_config_agent
static const struct weir_json_key agent_keys[] = {
	INTEGER("port", AGENT, port, 1, 65535, "4777", CONTROL),
	INTEGER("interval_ms", AGENT, interval_ms, 10, 3600000, "500", UNIT("ms"), CONTROL),
	INTEGER("inactive_interval_ms", AGENT, inactive_interval_ms, 10, 3600000, "10000",
		UNIT("ms"), CONTROL),
	INTEGER("timeout_ms", AGENT, timeout_ms, 10, 3600000, "400", UNIT("ms"), CONTROL),
	VALUE("tcp", weir_json_type_boolean, AGENT, tcp, .fallback = "false", CONTROL),
	COMMENT,
};
static bool has_no_agent(const void *object) {
	return ((const struct AGENT *)object)->port == 0;
}

static const struct weir_json_object agent_object = {.name = "agent", ROWS(agent_keys),
	.check = weir_config_check_agent, .is_absent = has_no_agent};

#define AFFINITY weir_config_affinity
static const struct weir_json_key affinity_keys[] = {
	CHOICE("by", AFFINITY, name, weir_config_affinities, "\"source\"", TABLES),
	INTEGER("ipv4_prefix", AFFINITY, ipv4_prefix, 1, 32, "32", UNIT("bits"), TABLES),
	INTEGER("ipv6_prefix", AFFINITY, ipv6_prefix, 1, 128, "128", UNIT("bits"), TABLES),
	INTEGER("timeout_ms", AFFINITY, timeout_ms, 1000, 5 * DAY_MS, "300000", UNIT("ms"), TABLES),
	COMMENT,
};
static const struct weir_json_object affinity_object = {
	.name = "affinity", ROWS(affinity_keys)};

#define SLOW_START weir_config_slow_start
static const struct weir_json_key slow_start_keys[] = {
	INTEGER("window_ms", SLOW_START, window_ms, 0, 3600000, "0", UNIT("ms"), TABLES),
	VALUE("aggression", weir_config_type_number, SLOW_START, aggression, .min = 0.1,
		.max = 10, .fallback = "1.0",
		TABLES),
	INTEGER("min_weight_percent", SLOW_START, min_weight_percent, 1, 100, "10", UNIT("percent"),
		TABLES),
	COMMENT,
};
static const struct weir_json_object slow_start_object = {
	.name = "slow_start", ROWS(slow_start_keys)};

// If a service has no object "steal", stealing is off; weir_config_check_service ensures this.
#define STEAL weir_config_steal
static const struct weir_json_key steal_keys[] = {
	VALUE("enabled", weir_json_type_boolean, STEAL, enabled, .fallback = "true", CONTROL),
	INTEGER("after_ms", STEAL, after_ms, 100, 60000, "500", UNIT("ms"), CONTROL),
	INTEGER("per_second", STEAL, per_second, 1, 10000, "200", UNIT("flows/s"), CONTROL),
	COMMENT,
};
static const struct weir_json_object steal_object = {.name = "steal", ROWS(steal_keys)};

#define BACKEND weir_config_backend
static const struct weir_json_key backend_keys[] = {
	VALUE("name", weir_config_type_name, BACKEND, name, .required = true, TABLES),
	VALUE("address", weir_config_type_address, BACKEND, address, .required = true, TABLES),
	VALUE("weight", weir_config_type_weight, BACKEND, weight,
		.offset2 = offsetof(struct BACKEND, weight_auto), .min = 0, .max = 65535,
		.fallback = "100", TABLES),
	VALUE("backup", weir_json_type_boolean, BACKEND, backup, .fallback = "false", TABLES),
	CHOICE("forwarding", BACKEND, forwarding_mode, weir_config_backend_forwardings, "null",
		.nullable = true, TABLES),
	{.key = "health_check", .type = &weir_json_type_optional, FIELD(BACKEND, health_check),
	 .object = &own_health_object},
	COMMENT,
};
static const struct weir_json_object backend_object = {.name = "backend", ROWS(backend_keys),
	.bytes = sizeof(struct BACKEND), .has_line = true,
	.line_offset = offsetof(struct BACKEND, line), .check = weir_config_check_backend,
	.identify = weir_config_identify_backend, .describe = weir_config_describe_backend};

#define DRAIN weir_config_drain
static const struct weir_json_key drain_keys[] = {
	CHOICE("at_deadline", DRAIN, at_deadline, weir_config_at_deadline, "\"keep\"", CONTROL),
	INTEGER("removed_ms", DRAIN, removed_ms, 0, 604800000, "60000", UNIT("ms"), CONTROL),
	COMMENT,
};
static const struct weir_json_object drain_object = {.name = "drain", ROWS(drain_keys)};

// If a service has no object "outlier_ejection", ejection is off; weir_config_check_service ensures
// this.
#define EJECTION weir_config_outlier_ejection
static const struct weir_json_key ejection_keys[] = {
	VALUE("enabled", weir_json_type_boolean, EJECTION, enabled, .fallback = "true", TABLES),
	INTEGER("interval_ms", EJECTION, interval_ms, 1000, 3600000, "10000", UNIT("ms"), CONTROL),
	INTEGER("base_ejection_ms", EJECTION, base_ejection_ms, 1000, DAY_MS, "30000", UNIT("ms"),
		CONTROL),
	INTEGER("max_ejection_ms", EJECTION, max_ejection_ms, 1000, DAY_MS, "300000", UNIT("ms"),
		CONTROL),
	INTEGER("max_ejection_percent", EJECTION, max_ejection_percent, 0, 100, "10",
		UNIT("percent"), CONTROL),
	INTEGER("failure_percent", EJECTION, failure_percent, 0, 100, "85", UNIT("percent"),
		CONTROL),
	INTEGER("minimum_flows", EJECTION, minimum_flows, 1, 1000000, "50", CONTROL),
	INTEGER("consecutive_failures", EJECTION, consecutive_failures, 0, 1000000, "5", CONTROL),
	INTEGER("unreachable_flows", EJECTION, unreachable_flows, 0,
		WEIR_EJECTION_UNREACHABLE_FLOWS, "3", CONTROL),
	COMMENT,
};
static const struct weir_json_object ejection_object = {
	.name = "outlier_ejection", ROWS(ejection_keys)};

#define SERVICE weir_config_service
static const struct weir_json_key service_keys[] = {
	VALUE("name", weir_config_type_name, SERVICE, name, .required = true, TABLES),
	LIST("binds", SERVICE, binds, bind_count, 1, WEIR_CONFIG_BINDS_MAX, bind_object, TABLES),
	OBJECT("policy", SERVICE, policy, weir_config_policy_keys),
	CHOICE("workload", SERVICE, workload, weir_config_workloads, "\"connections\"", CONTROL),
	OBJECT("flow_control", SERVICE, flow_control, flow_control_object),
	OBJECT("subset", SERVICE, subset, subset_object),
	CHOICE("closed_ports", SERVICE, closed_ports, weir_config_closed_ports, "\"kernel\"", TABLES),
	CHOICE("forwarding", SERVICE, forwarding.mode, weir_config_forwardings, "\"ipip\"",
		.versioned = true, TABLES),
	INTEGER("gue_port", SERVICE, forwarding.gue_port, 1, 65535, "6080", TABLES),
	INTEGER("gre_key", SERVICE, forwarding.gre_key, 1, UINT32_MAX, "null", .nullable = true,
		TABLES),
	CHOICE("hash_fields", SERVICE, hash_fields, weir_config_hash_fields, "\"5-tuple\"", TABLES),
	OBJECT("affinity", SERVICE, affinity, affinity_object),
	CHOICE("udp", SERVICE, udp, weir_config_udps, "\"flow\"", TABLES),
	INTEGER("table_size", SERVICE, table_size, 2, WEIR_CONFIG_TABLE_SIZE_MAX, "65537", TABLES),
	OBJECT("agent", SERVICE, agent, agent_object),
	OBJECT("agent_check", SERVICE, agent_check, agent_check_object),
	OBJECT("health_check", SERVICE, health_check, weir_config_health_keys),
	OBJECT("outlier_ejection", SERVICE, outlier_ejection, ejection_object),
	OBJECT("slow_start", SERVICE, slow_start, slow_start_object),
	OBJECT("steal", SERVICE, steal, steal_object),
	INTEGER("panic_threshold_percent", SERVICE, panic_threshold_percent, 0, 100, "50",
		UNIT("percent"), TABLES),
	INTEGER("quorum", SERVICE, quorum, 1, WEIR_CONFIG_BACKENDS_MAX, "1", UNIT("backends"),
		CONTROL),
	INTEGER("hysteresis", SERVICE, hysteresis, 0, WEIR_CONFIG_BACKENDS_MAX, "0",
		UNIT("backends"), CONTROL),
	INTEGER("backup_below_percent", SERVICE, backup_below_percent, 0, 100, "0",
		UNIT("percent"), TABLES),
	CHOICE("on_backend_down", SERVICE, on_backend_down, weir_config_on_backend_down,
		"\"keep\"", TABLES),
	OBJECT("drain", SERVICE, drain, drain_object),
	LIST("backends", SERVICE, backends, backend_count, 1, WEIR_CONFIG_BACKENDS_MAX,
		backend_object, TABLES),
	COMMENT,
};
static const struct weir_json_object service_object = {.name = "service", ROWS(service_keys),
	.bytes = sizeof(struct SERVICE), .has_line = true,
	.line_offset = offsetof(struct SERVICE, line), .check = weir_config_check_service,
	.identify = weir_config_identify_service, .describe = weir_config_describe_service};

#define AGENTS weir_config_agents
static const struct weir_json_key agents_keys[] = {
	VALUE("key_file", weir_json_type_text, AGENTS, key_file, .min = 1, .max = 255,
		.fallback = "\"/etc/weir/agent.keys\"", CONTROL),
	COMMENT,
};
static const struct weir_json_object agents_object = {.name = "agents", ROWS(agents_keys),
	.check = weir_config_check_agents};

#define NOTIFY weir_config_notify
static const struct weir_json_key notify_keys[] = {
	COMMAND(NOTIFY),
	INTEGER("timeout_ms", NOTIFY, timeout_ms, 100, 600000, "10000", UNIT("ms"), CONTROL),
	VALUE("backends", weir_json_type_boolean, NOTIFY, backends, .fallback = "true", CONTROL),
	COMMENT,
};
static const struct weir_json_object notify_object = {.name = "notify", ROWS(notify_keys)};

#define GCU weir_config_gcu
static const struct weir_json_key gcu_keys[] = {
	VALUE("cpu", weir_json_type_text, GCU, cpu, .required = true, .min = 1, .max = 47, TABLES),
	VALUE("gcu", weir_config_type_number, GCU, gcu, .required = true, .min = 0.001, .max = 65,
		TABLES),
	COMMENT,
};
static const struct weir_json_object gcu_object = {.name = "gcu", ROWS(gcu_keys),
	.bytes = sizeof(struct GCU), .identify = weir_config_identify_gcu};

static const struct weir_json_key root_keys[] = {
	{.key = "$schema", .type = &weir_json_type_ignored},
	COMMENT,
	OBJECT("instance", weir_config, instance, instance_object),
	LIST("ports", weir_config, ports, port_count, 1, WEIR_CONFIG_PORTS_MAX, port_object, BOTH),
	OBJECT("workers", weir_config, workers, workers_object),
	OBJECT("flow_table", weir_config, flow_table, flow_table_object),
	OBJECT("icmp", weir_config, icmp, icmp_object),
	OBJECT("fragments", weir_config, fragments, fragments_object),
	OBJECT("segment", weir_config, segment, segment_object),
	OBJECT("agents", weir_config, agents, agents_object),
	OBJECT("notify", weir_config, notify, notify_object),
	{.key = "gcu", .type = &weir_json_type_list, FIELD(weir_config, gcu),
	 .offset2 = offsetof(struct weir_config, gcu_count), .max = WEIR_CONFIG_GCU_MAX,
	 .object = &gcu_object, TABLES},
	LIST("services", weir_config, services, service_count, 0, WEIR_CONFIG_SERVICES_MAX,
		service_object, TABLES),
};

const struct weir_json_object weir_config_keys = {.name = "root", ROWS(root_keys),
	.bytes = sizeof(struct weir_config), .check = weir_config_check_root};
// clang-format on
