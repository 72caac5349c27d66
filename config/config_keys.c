// SPDX-License-Identifier: BSD-3-Clause
#include "config_keys.h"

#include <netinet/in.h>

// clang-format off
#define FIELD(of, field) .offset = offsetof(struct of, field), \
	.bytes = sizeof(((struct of *)0)->field)
#define INTEGER(name, of, field, least, most, preset) \
	{.key = name, .type = &weir_json_type_integer, FIELD(of, field), .min = least, \
	 .max = most, .fallback = preset}
#define COMMENT {.key = "comment", .type = &weir_json_type_ignored}
#define COUNT(keys) (sizeof(keys) / sizeof((keys)[0]))

static const struct weir_json_choice idle_choices[] = {
	{"poll", WEIR_IDLE_POLL}, {"yield", WEIR_IDLE_YIELD}, {0}};
static const struct weir_json_choice protocol_choices[] = {
	{"tcp", IPPROTO_TCP}, {"udp", IPPROTO_UDP}, {0}};
static const struct weir_json_choice forwarding_choices[] = {{"ipip", WEIR_CONFIG_IPIP}, {0}};
static const struct weir_json_choice check_choices[] = {
	{"none", WEIR_CHECK_NONE}, {"tcp", WEIR_CHECK_TCP}, {"http", WEIR_CHECK_HTTP}, {0}};

static const struct weir_json_key instance_keys[] = {
	{.key = "name", .type = &weir_config_type_name, FIELD(weir_config_instance, name),
	 .fallback = "\"weir\""},
	INTEGER("client_id", weir_config_instance, client_id, 0, 65535, "0"),
	INTEGER("clients", weir_config_instance, clients, 1, 65536, "1"),
	INTEGER("member", weir_config_instance, member, 0, WEIR_CONFIG_MEMBERS_MAX - 1, "0"),
	INTEGER("members", weir_config_instance, members, 1, WEIR_CONFIG_MEMBERS_MAX, "1"),
	{.key = "hash_seed", .type = &weir_config_type_seed, FIELD(weir_config_instance, hash_seed),
	 .fallback = "\"0x5765697253656564\""},
	COMMENT,
};

static const struct weir_json_key port_keys[] = {
	{.key = "name", .type = &weir_config_type_name, FIELD(weir_config_port, name), .required = true},
	{.key = "device", .type = &weir_json_type_text, FIELD(weir_config_port, device), .required = true,
	 .min = 1, .max = WEIR_CONFIG_DEVICE_BYTES - 1},
	{.key = "exception", .type = &weir_json_type_text, FIELD(weir_config_port, exception),
	 .nullable = true, .min = 1, .max = WEIR_CONFIG_DEVICE_BYTES - 1, .fallback = "null"},
	INTEGER("mtu", weir_config_port, mtu, 1280, 9216, "1500"),
	{.key = "vlan", .type = &weir_json_type_integer, FIELD(weir_config_port, vlan), .nullable = true,
	 .min = 1, .max = 4094, .fallback = "null"},
	{.key = "gateway_mac", .type = &weir_config_type_mac, FIELD(weir_config_port, gateway_mac),
	 .offset2 = offsetof(struct weir_config_port, has_gateway_mac), .nullable = true,
	 .fallback = "null"},
	{.key = "source_ipv4", .type = &weir_config_type_ipv4, FIELD(weir_config_port, source_ipv4),
	 .nullable = true, .fallback = "null"},
	{.key = "source_ipv6", .type = &weir_config_type_ipv6, FIELD(weir_config_port, source_ipv6),
	 .nullable = true, .fallback = "null"},
	INTEGER("queues", weir_config_port, queues, 0, WEIR_CONFIG_CORES_MAX, "0"),
	COMMENT,
};

static const struct weir_json_key worker_keys[] = {
	{.key = "cores", .type = &weir_config_type_cores, FIELD(weir_config_workers, cores),
	 .offset2 = offsetof(struct weir_config_workers, count), .min = 1,
	 .max = WEIR_CONFIG_CORES_MAX, .fallback = "[0]"},
	{.key = "idle", .type = &weir_json_type_choice, FIELD(weir_config_workers, idle),
	 .choices = idle_choices, .fallback = "\"yield\""},
	COMMENT,
};

#define DAY_MS 86400000
static const struct weir_json_key flow_timeout_keys[] = {
	INTEGER("syn_seen", weir_config_flow_table, syn_seen_ms, 100, DAY_MS, "5000"),
	INTEGER("established", weir_config_flow_table, established_ms, 100, DAY_MS, "900000"),
	INTEGER("closing", weir_config_flow_table, closing_ms, 100, DAY_MS, "10000"),
	INTEGER("udp", weir_config_flow_table, udp_ms, 100, DAY_MS, "30000"),
	COMMENT,
};
static const struct weir_json_object flow_timeout_object = {
	.name = "flow_timeout", .key = flow_timeout_keys, .count = COUNT(flow_timeout_keys)};

static const struct weir_json_key flow_table_keys[] = {
	INTEGER("flows_per_worker", weir_config_flow_table, flows_per_worker, 1024, 1 << 28,
		"1048576"),
	INTEGER("half_open_percent", weir_config_flow_table, half_open_percent, 1, 100, "25"),
	{.key = "timeout_ms", .type = &weir_json_type_struct, .object = &flow_timeout_object},
	COMMENT,
};

static const struct weir_json_key segment_keys[] = {
	INTEGER("max_services", weir_config_segment, max_services, 1, WEIR_CONFIG_SERVICES_MAX,
		"1024"),
	INTEGER("max_backends", weir_config_segment, max_backends, 1, WEIR_CONFIG_BACKENDS_MAX,
		"16384"),
	INTEGER("heap_bytes", weir_config_segment, heap_bytes, 1 << 20, 1ull << 36, "4294967296"),
	{.key = "huge_pages", .type = &weir_json_type_boolean, FIELD(weir_config_segment, huge_pages),
	 .fallback = "false"},
	COMMENT,
};

// "port" fills port_first; weir_config_check_bind makes a range of it.
static const struct weir_json_key bind_keys[] = {
	{.key = "address", .type = &weir_config_type_address, FIELD(weir_config_bind, address),
	 .required = true},
	{.key = "protocol", .type = &weir_json_type_choice, FIELD(weir_config_bind, protocol),
	 .required = true, .choices = protocol_choices},
	INTEGER("port", weir_config_bind, port_first, 0, 65535, NULL),
	INTEGER("port_first", weir_config_bind, port_first, 1, 65535, NULL),
	INTEGER("port_last", weir_config_bind, port_last, 1, 65535, NULL),
	COMMENT,
};
static const struct weir_json_object bind_object = {
	.name = "bind", .key = bind_keys, .count = COUNT(bind_keys),
	.bytes = sizeof(struct weir_config_bind), .check = weir_config_check_bind};

#define CHOICE(name, of, field, list, preset) \
	{.key = name, .type = &weir_json_type_choice, FIELD(of, field), .choices = list, \
	 .fallback = "\"" preset "\""}
static const struct weir_json_key policy_keys[] = {
	CHOICE("name", weir_config_policy, name, weir_config_policies, "maglev"),
	CHOICE("weights", weir_config_policy, weights, weir_config_weights, "configured"),
	CHOICE("statistic", weir_config_policy, statistic, weir_config_statistics, "average"),
	INTEGER("window", weir_config_policy, window, 1, 65535, "386"),
	CHOICE("measurement", weir_config_policy, measurement, weir_config_measurements,
		"execution"),
	CHOICE("service_time", weir_config_policy, service_time, weir_config_service_times, "flow"),
	INTEGER("stale_ms", weir_config_policy, stale_ms, 1000, DAY_MS, "180000"),
	CHOICE("rounds", weir_config_policy, rounds, weir_config_rounds, "incremental"),
	INTEGER("error_window_ms", weir_config_policy, error_window_ms, 0, 3600000, "0"),
	COMMENT,
};
static const struct weir_json_object policy_object = {.name = "policy", .key = policy_keys,
	.count = COUNT(policy_keys), .check = weir_config_check_policy};

// max_active_flows has its default from "workload": weir_config_check_service.
static const struct weir_json_key flow_control_keys[] = {
	INTEGER("max_active_flows", weir_config_flow_control, max_active_flows, 0, 1 << 28, NULL),
	CHOICE("when_exhausted", weir_config_flow_control, when_exhausted,
		weir_config_when_exhausted, "spill"),
	COMMENT,
};
static const struct weir_json_object flow_control_object = {.name = "flow_control",
	.key = flow_control_keys, .count = COUNT(flow_control_keys),
	.check = weir_config_check_flow_control};

// "size" has no default: a good one depends on the fleet.
static const struct weir_json_key subset_keys[] = {
	{.key = "algorithm", .type = &weir_json_type_choice, FIELD(weir_config_subset, algorithm),
	 .required = true, .choices = weir_config_subset_algorithms},
	INTEGER("size", weir_config_subset, size, 1, WEIR_CONFIG_BACKENDS_MAX, NULL),
	CHOICE("mode", weir_config_subset, mode, weir_config_subset_modes, "spread"),
	CHOICE("client", weir_config_subset, client, weir_config_subset_clients, "group"),
	INTEGER("salt", weir_config_subset, salt, 0, UINT32_MAX, "0"),
	COMMENT,
};
static const struct weir_json_object subset_object = {.name = "subset", .key = subset_keys,
	.count = COUNT(subset_keys), .check = weir_config_check_subset};

#define CHECK weir_config_health_check
static const struct weir_json_key health_check_keys[] = {
	{.key = "type", .type = &weir_json_type_choice, FIELD(CHECK, type), .required = true,
	 .choices = check_choices, .versioned = true},
	{.key = "path", .type = &weir_json_type_text, FIELD(CHECK, path), .min = 1, .max = 255,
	 .fallback = "\"/\""},
	{.key = "host", .type = &weir_json_type_text, FIELD(CHECK, host), .nullable = true, .min = 1,
	 .max = 255, .fallback = "null"},
	INTEGER("port", CHECK, port, 0, 65535, "0"),
	INTEGER("status_first", CHECK, status_first, 100, 599, "200"),
	INTEGER("status_last", CHECK, status_last, 100, 599, "399"),
	INTEGER("interval_ms", CHECK, interval_ms, 10, 3600000, "1000"),
	INTEGER("timeout_ms", CHECK, timeout_ms, 10, 3600000, "500"),
	INTEGER("rise", CHECK, rise, 1, 255, "2"),
	INTEGER("fall", CHECK, fall, 1, 255, "3"),
	COMMENT,
};
static const struct weir_json_object health_check_object = {.name = "health_check",
	.key = health_check_keys, .count = COUNT(health_check_keys),
	.check = weir_config_check_health};

static const struct weir_json_key backend_keys[] = {
	{.key = "name", .type = &weir_config_type_name, FIELD(weir_config_backend, name), .required = true},
	{.key = "address", .type = &weir_config_type_address, FIELD(weir_config_backend, address),
	 .required = true},
	INTEGER("weight", weir_config_backend, weight, 0, 65535, "100"),
	COMMENT,
};
static const struct weir_json_object backend_object = {.name = "backend", .key = backend_keys,
	.count = COUNT(backend_keys), .bytes = sizeof(struct weir_config_backend),
	.has_line = true, .line_offset = offsetof(struct weir_config_backend, line),
	.check = weir_config_check_backend};

static const struct weir_json_key service_keys[] = {
	{.key = "name", .type = &weir_config_type_name, FIELD(weir_config_service, name), .required = true},
	{.key = "binds", .type = &weir_json_type_list, FIELD(weir_config_service, binds),
	 .offset2 = offsetof(struct weir_config_service, bind_count), .required = true, .min = 1,
	 .max = WEIR_CONFIG_BINDS_MAX, .object = &bind_object},
	{.key = "policy", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config_service, policy), .object = &policy_object},
	CHOICE("workload", weir_config_service, workload, weir_config_workloads, "connections"),
	{.key = "flow_control", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config_service, flow_control),
	 .object = &flow_control_object},
	{.key = "subset", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config_service, subset), .object = &subset_object},
	{.key = "forwarding", .type = &weir_json_type_choice, FIELD(weir_config_service, forwarding),
	 .choices = forwarding_choices, .versioned = true, .fallback = "\"ipip\""},
	INTEGER("table_size", weir_config_service, table_size, 2, WEIR_CONFIG_TABLE_SIZE_MAX,
		"65537"),
	{.key = "health_check", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config_service, health_check),
	 .object = &health_check_object},
	INTEGER("panic_threshold_percent", weir_config_service, panic_threshold_percent, 0, 100,
		"50"),
	{.key = "backends", .type = &weir_json_type_list, FIELD(weir_config_service, backends),
	 .offset2 = offsetof(struct weir_config_service, backend_count), .required = true,
	 .min = 1, .max = WEIR_CONFIG_BACKENDS_MAX, .object = &backend_object},
	COMMENT,
};
static const char *const service_later[] = {"slow_start", NULL};

static const struct weir_json_object instance_object = {.name = "instance", .key = instance_keys,
	.count = COUNT(instance_keys), .check = weir_config_check_instance};
static const struct weir_json_object port_object = {.name = "port", .key = port_keys,
	.count = COUNT(port_keys), .bytes = sizeof(struct weir_config_port),
	.check = weir_config_check_port};
static const struct weir_json_object workers_object = {
	.name = "workers", .key = worker_keys, .count = COUNT(worker_keys)};
static const struct weir_json_object flow_table_object = {
	.name = "flow_table", .key = flow_table_keys, .count = COUNT(flow_table_keys)};
static const struct weir_json_object segment_object = {.name = "segment", .key = segment_keys,
	.count = COUNT(segment_keys), .check = weir_config_check_segment};
static const struct weir_json_object service_object = {.name = "service", .key = service_keys,
	.count = COUNT(service_keys), .bytes = sizeof(struct weir_config_service),
	.later = service_later, .has_line = true,
	.line_offset = offsetof(struct weir_config_service, line),
	.check = weir_config_check_service};

static const struct weir_json_key root_keys[] = {
	{.key = "$schema", .type = &weir_json_type_ignored},
	COMMENT,
	{.key = "instance", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config, instance), .object = &instance_object},
	{.key = "ports", .type = &weir_json_type_list, FIELD(weir_config, ports),
	 .offset2 = offsetof(struct weir_config, port_count), .required = true, .min = 1,
	 .max = WEIR_CONFIG_PORTS_MAX, .object = &port_object},
	{.key = "workers", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config, workers), .object = &workers_object},
	{.key = "flow_table", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config, flow_table), .object = &flow_table_object},
	{.key = "segment", .type = &weir_json_type_struct,
	 .offset = offsetof(struct weir_config, segment), .object = &segment_object},
	{.key = "services", .type = &weir_json_type_list, FIELD(weir_config, services),
	 .offset2 = offsetof(struct weir_config, service_count), .required = true,
	 .max = WEIR_CONFIG_SERVICES_MAX, .object = &service_object},
};

const struct weir_json_object weir_config_keys = {.name = "root", .key = root_keys,
	.count = COUNT(root_keys), .bytes = sizeof(struct weir_config),
	.check = weir_config_check_root};
