// SPDX-License-Identifier: BSD-3-Clause
//
// The values that configuration keys accept as words, such as "poll" for "idle", and functions that
// return the word of a value.
#include <netinet/in.h>

#include "config_keys.h"

// clang-format off
const struct weir_json_choice weir_config_idles[] = {
	{"poll", WEIR_IDLE_POLL}, {"yield", WEIR_IDLE_YIELD}, {"sleep", WEIR_IDLE_SLEEP}, {0}};
const struct weir_json_choice weir_config_protocols[] = {
	{"tcp", IPPROTO_TCP}, {"udp", IPPROTO_UDP}, {0}};
const struct weir_json_choice weir_config_closed_ports[] = {
	{"kernel", WEIR_CONFIG_CLOSED_KERNEL}, {"drop", WEIR_CONFIG_CLOSED_DROP},
	{"reject", WEIR_CONFIG_CLOSED_REJECT}, {0}};
const struct weir_json_choice weir_config_forwardings[] = {
#define X(name, member, key, text) {key, WEIR_FORWARDING_##name},
	WEIR_FORWARDING_MODES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_backend_forwardings[] = {
#define X(name, member, key, text) {key, 1 + WEIR_FORWARDING_##name},
	WEIR_FORWARDING_MODES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_hash_fields[] = {
#define X(name, key) {key, WEIR_HASH_FIELDS_##name},
	WEIR_HASH_FIELDS(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_affinities[] = {
	{"none", WEIR_AFFINITY_NONE}, {"source", WEIR_AFFINITY_SOURCE}, {0}};
const struct weir_json_choice weir_config_udps[] = {
	{"flow", WEIR_CONFIG_UDP_FLOW}, {"datagram", WEIR_CONFIG_UDP_DATAGRAM}, {0}};
const struct weir_json_choice weir_config_checks[] = {
	{"none", WEIR_CHECK_NONE}, {"tcp", WEIR_CHECK_TCP}, {"http", WEIR_CHECK_HTTP},
	{"https", WEIR_CHECK_HTTPS}, {"grpc", WEIR_CHECK_GRPC}, {"udp", WEIR_CHECK_UDP},
	{"dns", WEIR_CHECK_DNS}, {"ping", WEIR_CHECK_PING}, {"exec", WEIR_CHECK_EXEC},
	{"agent", WEIR_CHECK_AGENT}, {"agent-check", WEIR_CHECK_AGENT_CHECK}, {0}};
const struct weir_json_choice weir_config_vias[] = {
	{"direct", WEIR_VIA_DIRECT}, {"data-path", WEIR_VIA_DATA_PATH}, {0}};
const struct weir_json_choice weir_config_matches[] = {
	{"prefix", WEIR_MATCH_PREFIX}, {"substring", WEIR_MATCH_SUBSTRING}, {0}};
// Record types and response codes have the same numbers as in DNS messages.
const struct weir_json_choice weir_config_records[] = {
	{"A", 1}, {"AAAA", 28}, {"CNAME", 5}, {"DNSKEY", 48}, {"MX", 15}, {"NS", 2}, {"PTR", 12},
	{"RRSIG", 46}, {"SOA", 6}, {"SRV", 33}, {"TXT", 16}, {0}};
const struct weir_json_choice weir_config_rcodes[] = {
	{"NOERROR", 0}, {"FORMERR", 1}, {"SERVFAIL", 2}, {"NXDOMAIN", 3}, {"NOTIMP", 4},
	{"REFUSED", 5}, {0}};
const struct weir_json_choice weir_config_methods[] = {
	{"GET", WEIR_METHOD_GET}, {"HEAD", WEIR_METHOD_HEAD}, {"OPTIONS", WEIR_METHOD_OPTIONS}, {0}};
const struct weir_json_choice weir_config_policies[] = {
#define X(name, key, needs) {key, WEIR_POLICY_##name},
	WEIR_POLICIES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_weights[] = {
	{"configured", WEIR_WEIGHTS_CONFIGURED}, {"reported", WEIR_WEIGHTS_REPORTED},
	{"balanced", WEIR_WEIGHTS_BALANCED}, {0}};
const struct weir_json_choice weir_config_statistics[] = {
	{"average", WEIR_STATISTIC_AVERAGE}, {"median", WEIR_STATISTIC_MEDIAN}, {0}};
const struct weir_json_choice weir_config_measurements[] = {
	{"execution", WEIR_MEASUREMENT_EXECUTION}, {"busy", WEIR_MEASUREMENT_BUSY}, {0}};
const struct weir_json_choice weir_config_service_times[] = {
	{"flow", WEIR_SERVICE_TIME_FLOW}, {"reported", WEIR_SERVICE_TIME_REPORTED}, {0}};
const struct weir_json_choice weir_config_requests[] = {
	{"all", WEIR_REQUESTS_ALL}, {"successful", WEIR_REQUESTS_SUCCESSFUL}, {0}};
const struct weir_json_choice weir_config_rounds[] = {
	{"incremental", WEIR_ROUNDS_INCREMENTAL}, {"documented", WEIR_ROUNDS_DOCUMENTED},
	{"tasks", WEIR_ROUNDS_TASKS}, {0}};
const struct weir_json_choice weir_config_workloads[] = {
	{"connections", WEIR_WORKLOAD_CONNECTIONS}, {"requests", WEIR_WORKLOAD_REQUESTS}, {0}};
const struct weir_json_choice weir_config_on_backend_down[] = {
	{"keep", WEIR_ON_BACKEND_DOWN_KEEP}, {"rehash", WEIR_ON_BACKEND_DOWN_REHASH},
	{"reset", WEIR_ON_BACKEND_DOWN_RESET}, {0}};
const struct weir_json_choice weir_config_at_deadline[] = {
	{"keep", WEIR_AT_DEADLINE_KEEP}, {"drop", WEIR_AT_DEADLINE_DROP}, {0}};
const struct weir_json_choice weir_config_when_exhausted[] = {
#define X(name, key) {key, WEIR_EXHAUSTED_##name},
	WEIR_WHEN_EXHAUSTED(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_subset_algorithms[] = {
#define X(name, key) {key, WEIR_SUBSET_##name},
	WEIR_SUBSET_ALGORITHMS(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_subset_modes[] = {
#define X(name, key) {key, WEIR_SUBSET_MODE_##name},
	WEIR_SUBSET_MODES(X)
#undef X
	{0}};
const struct weir_json_choice weir_config_subset_clients[] = {
#define X(name, key) {key, WEIR_SUBSET_CLIENT_##name},
	WEIR_SUBSET_CLIENTS(X)
#undef X
	{0}};
// clang-format on

const char *weir_config_weights_name(enum weir_config_weights weights) {
	return weir_json_choice_name(weir_config_weights, weights);
}

const char *weir_config_statistic_name(enum weir_config_statistic statistic) {
	return weir_json_choice_name(weir_config_statistics, statistic);
}

const char *weir_config_measurement_name(enum weir_config_measurement measurement) {
	return weir_json_choice_name(weir_config_measurements, measurement);
}

const char *weir_config_service_time_name(enum weir_config_service_time service_time) {
	return weir_json_choice_name(weir_config_service_times, service_time);
}

const char *weir_config_requests_name(enum weir_config_requests requests) {
	return weir_json_choice_name(weir_config_requests, requests);
}

const char *weir_config_rounds_name(enum weir_rounds rounds) {
	return weir_json_choice_name(weir_config_rounds, rounds);
}

const char *weir_config_workload_name(enum weir_config_workload workload) {
	return weir_json_choice_name(weir_config_workloads, workload);
}

const char *weir_config_closed_ports_name(enum weir_config_closed_ports closed_ports) {
	return weir_json_choice_name(weir_config_closed_ports, closed_ports);
}

const char *weir_config_when_exhausted_name(enum weir_when_exhausted when_exhausted) {
	return weir_json_choice_name(weir_config_when_exhausted, when_exhausted);
}

const char *weir_config_udp_name(enum weir_config_udp udp) {
	return weir_json_choice_name(weir_config_udps, udp);
}

const char *weir_config_on_backend_down_name(enum weir_config_on_backend_down what) {
	return weir_json_choice_name(weir_config_on_backend_down, what);
}

const char *weir_config_method_name(enum weir_config_method method) {
	return weir_json_choice_name(weir_config_methods, method);
}

const char *weir_config_at_deadline_name(enum weir_config_at_deadline at_deadline) {
	return weir_json_choice_name(weir_config_at_deadline, at_deadline);
}

const char *weir_config_check_name(enum weir_config_check check) {
	return weir_json_choice_name(weir_config_checks, check);
}

const char *weir_config_via_name(enum weir_config_via via) {
	return weir_json_choice_name(weir_config_vias, via);
}
