// SPDX-License-Identifier: BSD-3-Clause
//
// The configuration: one JSON file, read by weir-dataplane, weir-control, weirctl and weir-pcap.
// docs/reference/configuration.md documents it; the build generates weir.schema.json from the
// documentation and from config_keys.c.
//
// A file with an error is refused as a whole. Errors are reported with line, JSON path, reason and
// remedy: all errors up to WEIR_JSON_ERRORS_MAX, but only the first syntax error. Unknown keys and
// repeated keys are errors. A file without errors may have warnings. Warnings are reported in the
// same form.
//
// Threads: any. Functions that get a const configuration do not change it. No globals, no logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config_error.h"
#include "forwarding_mode.h"
#include "policy.h"
#include "subset.h"

#define WEIR_CONFIG_FILE_BYTES_MAX (64u << 20) // much more than the largest configuration
#define WEIR_CONFIG_NAME_BYTES 64 // with the final NUL; names match [A-Za-z0-9][A-Za-z0-9._-]*
#define WEIR_CONFIG_DEVICE_BYTES 256
#define WEIR_CONFIG_BINDS_MAX 256 // maximum binds of a service
#define WEIR_CONFIG_CORES_MAX 64
// Maximum number of bits of source_ipv4 that vary: the prefix length is at least 16.
#define WEIR_CONFIG_SOURCE_BITS_MAX 16

struct weir_address {
	uint8_t bytes[16]; // IPv4: in the first 4 bytes; the remaining bytes are 0
	uint8_t family; // 4, 6; 0 = not set
};

struct weir_config_instance {
	char name[WEIR_CONFIG_NAME_BYTES];
	uint32_t client_id; // index of this instance's group; the instances of a group share VIPs
	uint32_t clients; // number of groups
	uint32_t member; // index of this instance in its group
	uint32_t members; // instances of each group
	uint64_t hash_seed; // must be equal on all instances that share VIPs
};

// Maximum MTU of a port with AF_XDP, in bytes. The memory of an AF_XDP socket has one page (4,096
// bytes) for each packet. The page also holds the headers of DPDK's buffer, the headroom of DPDK,
// the headroom of the kernel, and the Ethernet header with VLAN tags. dataplane/plan.c computes the
// same number.
#define WEIR_CONFIG_AF_XDP_MTU_MOST 3430u

struct weir_config_port {
	char name[WEIR_CONFIG_NAME_BYTES];
	char device[WEIR_CONFIG_DEVICE_BYTES]; // DPDK devargs: "net_af_xdp0,iface=lb0",
					       // "0000:01:00.0"
	// devargs of the port that passes packets to the kernel, "" = none
	char exception[WEIR_CONFIG_DEVICE_BYTES];
	uint16_t mtu; // bytes of IP packet, 1280..9216, default 1500; with AF_XDP at most
		      // WEIR_CONFIG_AF_XDP_MTU_MOST
	uint16_t vlan; // 1..4094, 0 = untagged (null)
	bool has_gateway_mac;
	// Next hop of every backend behind this port; not set = according to the kernel's routes.
	uint8_t gateway_mac[6];
	struct weir_address source_ipv4; // outer source; not set = chosen by the kernel
	// Number of low bits of source_ipv4 that vary from flow to flow; 0 = one address.
	uint8_t source_ipv4_bits;
	struct weir_address source_ipv6;
	// Receive queues; 0 = one per worker (PCI devices), all queues of the interface (AF_XDP),
	// or 1 (other devices).
	uint16_t queues;
	int line; // line in the file
};

enum weir_config_idle { WEIR_IDLE_POLL, WEIR_IDLE_YIELD, WEIR_IDLE_SLEEP };

struct weir_config_workers {
	uint16_t cores[WEIR_CONFIG_CORES_MAX]; // CPU numbers, default [0]; duplicates are allowed
					       // for tests
	uint32_t count;
	enum weir_config_idle idle; // default yield
	bool steal; // idle workers take buckets of flows from busy workers; default true
};

struct weir_config_flow_table {
	uint32_t flows_per_worker; // 1024 .. 2^28, default 1048576
	uint32_t half_open_percent; // 1..100, default 25: maximum share of half-open flows
	// 1..100, default 25: additional room for IPv6 flows, in percent of flows_per_worker
	uint32_t ipv6_percent;
	// 0..2^26, default 65536: maximum number of entries in the affinity table of all workers
	uint32_t affinity_sources;
	uint32_t syn_seen_ms, established_ms, closing_ms, udp_ms, young_ms, udp_seen_ms;
};

// Maximum rate of each kind of reply, per worker; 0 = no replies.
struct weir_config_icmp {
	uint32_t echo_per_second; // 0..1000000, default 1000, like all fields of this struct
	uint32_t too_big_per_second;
	uint32_t unreachable_per_second; // port unreachable, and RST to closed ports
};

struct weir_config_fragments {
	uint32_t entries; // 0..1048576, default 4096, per worker; 0 = fragments are dropped
	uint32_t timeout_ms; // default 5000
};

struct weir_config_segment {
	uint32_t max_services; // default 1024
	uint32_t max_backends; // default 16384
	uint64_t heap_bytes; // address space for tables, default 4 GiB
	bool huge_pages; // default false
};

struct weir_config_bind {
	struct weir_address address;
	uint8_t protocol; // IPPROTO_TCP, IPPROTO_UDP
	uint16_t port_first, port_last; // 0..65535 = every port ("port": 0)
};

// Settings of a policy. Settings that the policy does not use keep their default.
enum weir_config_weights { WEIR_WEIGHTS_CONFIGURED, WEIR_WEIGHTS_REPORTED, WEIR_WEIGHTS_BALANCED };
enum weir_config_statistic { WEIR_STATISTIC_AVERAGE, WEIR_STATISTIC_MEDIAN };
enum weir_config_measurement { WEIR_MEASUREMENT_EXECUTION, WEIR_MEASUREMENT_BUSY };
enum weir_config_service_time { WEIR_SERVICE_TIME_FLOW, WEIR_SERVICE_TIME_REPORTED };
enum weir_config_requests { WEIR_REQUESTS_ALL, WEIR_REQUESTS_SUCCESSFUL };

struct weir_config_policy {
	enum weir_policy name; // default maglev
	enum weir_config_weights weights; // setting of weighted-round-robin
	// The fields from here to update_ms are for weights "reported".
	enum weir_config_requests requests;
	double error_penalty; // 0..1000, default 1
	uint32_t blackout_ms, expiration_ms, smoothing_ms; // see capability.h
	uint32_t update_ms; // time between changes of the weights
	// The fields from here to stale_ms are for policies that need costs.
	enum weir_config_statistic statistic;
	enum weir_config_measurement measurement;
	enum weir_config_service_time service_time;
	uint32_t window; // number of samples, 1..65535, default 386
	uint32_t stale_ms; // an estimate without a newer sample expires after this time
	enum weir_rounds rounds; // setting of interleaved-weighted-round-robin
	uint32_t error_window_ms; // for policies that need errors; 0 = automatic
	// Bit i is set if the i-th key of weir_config_policy_keys is in the file.
	uint32_t given;
};

// The kind of traffic. With WEIR_WORKLOAD_REQUESTS, each connection or session is one short
// request.
enum weir_config_workload { WEIR_WORKLOAD_CONNECTIONS, WEIR_WORKLOAD_REQUESTS };

struct weir_config_flow_control {
	uint32_t max_active_flows; // per backend, sum of all workers; 0 = off; default depends
				   // on the workload
	enum weir_when_exhausted when_exhausted;
	bool has_max; // max_active_flows is set in the file
	// A backend is treated as being at its limit of active flows when its accept queue is
	// filled to at least this percentage, until the queue is filled to less than half of this
	// percentage. 0 = ignore the queue; default 75
	uint32_t accept_queue_percent;
};
#define WEIR_CONFIG_MAX_ACTIVE_REQUESTS 100u // default of max_active_flows for workload requests

// Settings for the subset of the backends that an instance or worker uses (subset.h).
struct weir_config_subset {
	enum weir_subset_algorithm algorithm; // default none: all backends
	enum weir_subset_mode mode;
	enum weir_subset_client client;
	uint32_t size; // 0 = not given
	uint32_t salt;
};

// The action for packets to a VIP if no bind contains the destination port.
enum weir_config_closed_ports {
	WEIR_CONFIG_CLOSED_KERNEL,
	WEIR_CONFIG_CLOSED_DROP,
	WEIR_CONFIG_CLOSED_REJECT,
};

enum weir_config_check {
	WEIR_CHECK_NONE,
	WEIR_CHECK_TCP,
	WEIR_CHECK_HTTP,
	WEIR_CHECK_HTTPS,
	WEIR_CHECK_GRPC,
	WEIR_CHECK_AGENT,
	WEIR_CHECK_AGENT_CHECK,
	WEIR_CHECK_UDP,
	WEIR_CHECK_DNS,
	WEIR_CHECK_PING,
	WEIR_CHECK_EXEC,
};
// How the packets of a check reach the backend. Direct: they are sent to the backend's address.
// Data path: they are sent to the service's VIP in the backend's forwarding mode, like packets from
// the dataplane.
enum weir_config_via { WEIR_VIA_DIRECT, WEIR_VIA_DATA_PATH };
// Where the expected bytes must be in an answer: at its start, or anywhere.
enum weir_config_match { WEIR_MATCH_PREFIX, WEIR_MATCH_SUBSTRING };
enum weir_config_method { WEIR_METHOD_GET, WEIR_METHOD_HEAD, WEIR_METHOD_OPTIONS };

struct weir_config_bytes {
	uint8_t count; // 0 = none
	uint8_t byte[255];
};

// The command line of a program.
#define WEIR_CONFIG_COMMAND_WORDS_MAX 32
struct weir_config_command {
	char text[1024]; // the words, each with its NUL; the first is the path of the program
	uint32_t words; // 0 = no program
};

// A URL of a check of type http or https, and the conditions for its response.
#define WEIR_CONFIG_URLS_MAX 15
struct weir_config_url {
	char path[256]; // default "/"
	uint16_t status_first, status_last; // default 200..399
	// at most one condition for the body of the response: a text that it contains, a regular
	// expression that matches a part of it (pattern.h), or its digest; if none is set, any body
	// is accepted
	char body[256], body_regex[256];
	struct weir_config_bytes body_sha256, body_md5;
};

struct weir_config_health_check {
	enum weir_config_check type; // default none: all backends are considered healthy
	enum weir_config_via via; // for the types tcp, udp, dns, http, https and grpc
	struct weir_config_url url; // http, https: the first URL
	char host[256]; // Host header; default server_name, otherwise the backend's address
	// http, https: URLs that the check requests after `url`, in this order, until a response is
	// bad; timeout_ms applies to each request; owned
	struct weir_config_url *urls;
	uint32_t url_count; // 0..WEIR_CONFIG_URLS_MAX
	char ca_file[256]; // https, grpc with tls: file of trusted CAs, "" = CAs of the system
	// https, grpc with tls: SNI, and the name to verify; "" = host, otherwise the address
	char server_name[256];
	char grpc_service[256]; // grpc: "" = the server as a whole
	char send[256]; // agent-check: the line to send; tcp, udp: the bytes to send; "" = none
	char expect[256]; // tcp, udp: the bytes to expect, "" = none
	struct weir_config_bytes send_hex, expect_hex; // instead of `send` and `expect`
	enum weir_config_match match;
	char name[256]; // dns: name to query
	uint16_t record; // dns: number of the record type in DNS messages
	uint8_t rcode; // dns: number of the expected response code in DNS messages
	struct weir_address address; // dns: address that a record must have; family 0 = none
	// exec: the program; its arguments can contain {address}, {port}, {service} and {backend}
	struct weir_config_command command;
	bool weight_from_exit; // exec: the exit status n means the weight n - 2, for n >= 2
	enum weir_config_method method; // http, https
	bool tls; // grpc: use TLS
	bool verify; // https, grpc with tls: verify the certificate
	bool orca; // http, https, grpc: request and use load reports in the headers
	uint16_t port; // 0 = the port of weir_config_checked_bind
	uint32_t interval_ms, timeout_ms; // default 1000, 500; of agent_check 2000, 1000
	// interval after a failed check, until `fall` checks have failed; 0 = interval_ms
	uint32_t retry_interval_ms;
	uint32_t rise, fall; // default 2, 3; of agent_check always 1, 1
	// bit i: the file sets the i-th key of a health check, in this check, or in the check of
	// the service if a backend's own check inherits the value
	uint64_t given;
};

// Slow start of backends that became healthy (slow_start.h).
struct weir_config_slow_start {
	uint32_t window_ms; // default 0: none
	double aggression; // 0.1..10, default 1
	uint32_t min_weight_percent; // 1..100, default 10
};

// Settings for the weir-agent on each backend of a service.
struct weir_config_agent {
	uint16_t port; // default 4777; 0 = the service has no agents
	uint32_t interval_ms, inactive_interval_ms, timeout_ms; // default 500, 10000, 400
	bool tcp; // request TCP statistics; default false
};

struct weir_config_backend {
	char name[WEIR_CONFIG_NAME_BYTES];
	struct weir_address address;
	uint32_t weight; // 0..65535, default 100; 100 also if weight_auto
	bool weight_auto; // "auto": derived from the CPUs that the backend reports
	bool backup; // gets new flows only while too few other backends are eligible; default false
	uint8_t forwarding_mode; // 0 = the mode of the service, otherwise 1 + enum
				 // weir_forwarding_mode
	// the backend's own check; NULL = the check of the service (weir_config_check_of)
	struct weir_config_health_check *health_check;
	int line; // line in the file
};
#define WEIR_CONFIG_WEIGHT_DEFAULT 100u

// Outlier ejection: a backend whose connections fail gets no new flows for a limited time
// (ejection.h).
struct weir_config_outlier_ejection {
	bool enabled; // default: true if the file has this object
	uint32_t interval_ms, base_ejection_ms, max_ejection_ms; // default 10000, 30000, 300000
	// 0..100, default 10: maximum share of the backends that are ejected at the same time. One
	// backend can be ejected regardless of the share, if another backend still gets new flows.
	uint32_t max_ejection_percent;
	uint32_t failure_percent; // 0..100, default 85
	uint32_t minimum_flows; // default 50
	uint32_t consecutive_failures; // default 5; 0 = ignore consecutive failures
	uint32_t unreachable_flows; // 0..8, default 3; 0 = ignore unreachable flows
};

// Maximum age of the last report of a backend to which connections are moved.
#define WEIR_CONFIG_STEAL_REPORT_MOST_MS 60000u

// Stealing: if a backend accepts no connections, connections to it that are not established yet
// move to another backend.
struct weir_config_steal {
	bool enabled; // default: true if the file has this object
	// A connection whose client has sent only SYNs can be moved when this time has passed since
	// the last SYN; 100..60000, default 500
	uint32_t after_ms;
	uint32_t per_second; // maximum rate of requests to agents, 1..10000, default 200
};

// The action for TCP flows of a backend that is refusing, in maintenance or removed.
enum weir_config_on_backend_down {
	WEIR_ON_BACKEND_DOWN_KEEP,
	WEIR_ON_BACKEND_DOWN_REHASH,
	WEIR_ON_BACKEND_DOWN_RESET,
};

// The action for the remaining flows at the deadline of a drain.
enum weir_config_at_deadline { WEIR_AT_DEADLINE_KEEP, WEIR_AT_DEADLINE_DROP };

struct weir_config_drain {
	enum weir_config_at_deadline at_deadline; // default keep
	// Time until on_backend_down applies to the open TCP connections of a removed bind or
	// service; default 60000. With 0, on_backend_down applies immediately to the connections of
	// a removed service, and never to the connections of a removed bind.
	uint32_t removed_ms;
};

// Whether a backend is chosen for each UDP flow or for each datagram.
enum weir_config_udp { WEIR_CONFIG_UDP_FLOW, WEIR_CONFIG_UDP_DATAGRAM };

enum weir_config_affinity_name { WEIR_AFFINITY_NONE, WEIR_AFFINITY_SOURCE };

// New flows of a client go to the backend of its earlier flows.
struct weir_config_affinity {
	enum weir_config_affinity_name name; // default none
	uint32_t ipv4_prefix, ipv6_prefix; // sources with equal prefixes count as one client
	// The entry of a client expires this long after a flow of the client last started or ended.
	// Not used with maglev.
	uint32_t timeout_ms;
};

struct weir_config_service {
	char name[WEIR_CONFIG_NAME_BYTES];
	struct weir_config_bind *binds;
	uint32_t bind_count;
	struct weir_config_policy policy;
	enum weir_config_workload workload;
	struct weir_config_flow_control flow_control;
	struct weir_config_subset subset;
	enum weir_config_closed_ports closed_ports;
	bool has_closed_ports; // present in the file
	struct weir_forwarding forwarding; // default ipip; a backend can have another mode
	uint32_t table_size; // prime, default 65537
	enum weir_hash_fields hash_fields; // for maglev, default 5-tuple
	struct weir_config_affinity affinity;
	enum weir_config_udp udp; // default flow
	struct weir_config_agent agent;
	struct weir_config_health_check
		agent_check; // in addition to health_check; type none = no agent-check
	struct weir_config_health_check health_check;
	bool has_health_check; // health_check is in the file, even if its type is none
	struct weir_config_outlier_ejection outlier_ejection;
	struct weir_config_slow_start slow_start;
	struct weir_config_steal steal;
	uint32_t panic_threshold_percent; // 0..100, default 50
	// The service becomes up if at least quorum + hysteresis backends are eligible, and down if
	// fewer than quorum - hysteresis backends are eligible.
	uint32_t quorum, hysteresis;
	// 0..100, default 0: the backups get new flows while less than this share of the primary
	// backends (without `backup`) is eligible, or no primary backend is eligible
	uint32_t backup_below_percent;
	enum weir_config_on_backend_down on_backend_down; // default keep
	struct weir_config_drain drain;
	struct weir_config_backend *backends;
	uint32_t backend_count;
	int line;
};

struct weir_config_notify {
	struct weir_config_command command;
	uint32_t timeout_ms;
	bool backends; // also run the command for changes of backends, not only of services
};

struct weir_config_agents {
	char key_file[256]; // default /etc/weir/agent.keys
};

// The configured speed of a CPU model, which is used instead of the measured speed.
#define WEIR_CONFIG_GCU_MAX 256
struct weir_config_gcu {
	char cpu[48]; // name of the CPU model
	double gcu; // speed of one CPU, in GCU (control/agent/capacity.h)
};

struct weir_config {
	struct weir_config_instance instance;
	struct weir_config_port *ports;
	uint32_t port_count;
	struct weir_config_workers workers;
	struct weir_config_flow_table flow_table;
	struct weir_config_icmp icmp;
	struct weir_config_fragments fragments;
	struct weir_config_segment segment;
	struct weir_config_agents agents;
	struct weir_config_notify notify;
	struct weir_config_gcu *gcu;
	uint32_t gcu_count;
	struct weir_config_service *services;
	uint32_t service_count;
};

// Read a configuration: weir_config_read from a file or pipe, weir_config_parse from a
// NUL-terminated text of `bytes` bytes. Return 0, -EINVAL (errors has at least one error), -ENOMEM,
// or the negative errno of reading the file (errors also describes this error). A valid
// configuration may have warnings. Release errors with weir_config_errors_fini after each call,
// even after a successful call.
int weir_config_read(const char *file, struct weir_config **ret, struct weir_config_errors *errors);
int weir_config_parse(const char *text, size_t bytes, struct weir_config **ret,
	struct weir_config_errors *errors);
// Like weir_config_read. On success, also returns the text of the file, NUL-terminated, in
// *ret_text; the caller frees the text. ret_text may be NULL.
int weir_config_read_text(const char *file, struct weir_config **ret, char **ret_text,
	struct weir_config_errors *errors);
// Like weir_config_read_text, but returns -EINVAL without waiting if the file is not a regular
// file.
int weir_config_read_regular(const char *file, struct weir_config **ret, char **ret_text,
	struct weir_config_errors *errors);
void weir_config_free(struct weir_config *config); // NULL is allowed

// Writes pointers to the words of a command, and NULL after the last word. Returns the number of
// words.
static inline uint32_t weir_config_command_words(const struct weir_config_command *command,
	const char *words[WEIR_CONFIG_COMMAND_WORDS_MAX + 1]) {
	const char *word = command->text;

	for (uint32_t i = 0; i < command->words; i++) {
		words[i] = word;
		word += strlen(word) + 1;
	}
	words[command->words] = NULL;
	return command->words;
}

static inline bool weir_config_command_equal(
	const struct weir_config_command *a, const struct weir_config_command *b) {
	const char *words_a[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];
	const char *words_b[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];
	const uint32_t count = weir_config_command_words(a, words_a);
	bool equal = weir_config_command_words(b, words_b) == count;

	for (uint32_t i = 0; equal && i < count; i++) {
		equal = strcmp(words_a[i], words_b[i]) == 0;
	}
	return equal;
}

// Returns the service with this name, or NULL if there is no such service or if config is NULL.
const struct weir_config_service *weir_config_find_service(
	const struct weir_config *config, const char *name);

// Returns the protocol of the bind that a check prefers (weir_config_checked_bind): IPPROTO_UDP for
// the types udp and dns, IPPROTO_TCP for all other types, even for ping and exec.
uint8_t weir_config_check_protocol(enum weir_config_check check);
// Returns the health check of a backend of the service: its own check, or the check of the service.
const struct weir_config_health_check *weir_config_check_of(
	const struct weir_config_service *service, const struct weir_config_backend *backend);
// Iterates over the checks of a service: its own check, which can have the type none, and the own
// checks of its backends.
//
//   struct weir_config_checks at = {.service = service};
//   while (weir_config_next_check(&at)) { ... at.check, at.backend ... }
struct weir_config_checks {
	const struct weir_config_service *service;
	const struct weir_config_health_check *check; // the current check
	const struct weir_config_backend *backend; // that has this check; NULL = the service
	uint32_t next; // index of the next backend
};
bool weir_config_next_check(struct weir_config_checks *at);
// Writes the path of the current check in the configuration, such as "services[0].health_check", or
// of one of its keys. key: "" or a key with a dot, such as ".port". Returns the line of its service
// or backend.
int weir_config_check_path(const struct weir_config *config, const struct weir_config_checks *at,
	const char *key, char *path, size_t bytes);
// Returns the bind that a check of a service uses: the first bind of the protocol of the check, if
// the service has one and the check is over UDP or uses the data path; otherwise the first bind.
// The first port of this bind is the default port of a check. Checks via the data path use the
// address of this bind as the VIP.
const struct weir_config_bind *weir_config_checked_bind(
	const struct weir_config_service *service, const struct weir_config_health_check *check);
// Return the number of bytes that a check sends, or that an answer must contain; 0 = none. *ret:
// the bytes, borrowed.
size_t weir_config_bytes_to_send(const struct weir_config_health_check *check, const uint8_t **ret);
size_t weir_config_bytes_to_expect(
	const struct weir_config_health_check *check, const uint8_t **ret);
// Returns whether an answer must contain certain bytes.
bool weir_config_expects(const struct weir_config_health_check *check);
// Returns whether the body of the answer is tested.
bool weir_config_tests_body(const struct weir_config_url *url);

// Lists the VIPs that a check via the data path connects to, each once: the VIP of
// weir_config_checked_bind, and the VIPs of other binds with the same protocol and the checked
// port. ret: room for one address per bind. Returns the number of VIPs.
uint32_t weir_config_checked_vips(const struct weir_config_service *service,
	const struct weir_config_health_check *check, struct weir_address *ret);

// Convert addresses to and from text. A buffer of INET6_ADDRSTRLEN is large enough. An address that
// is not set becomes "-".
const char *weir_address_format(const struct weir_address *address, char *buffer, size_t bytes);
int weir_address_parse(const char *text, struct weir_address *ret); // 0, -EINVAL
bool weir_address_equal(const struct weir_address *a, const struct weir_address *b);
bool weir_address_is_link_local(const struct weir_address *address); // fe80::/10
// Make an address from the bytes in a packet. family: 4 or 6. bytes: 4 or 16 bytes.
struct weir_address weir_address_of(uint8_t family, const uint8_t *bytes);
// Writes a bind as "tcp 198.51.100.10:80", "udp [2001:db8::1]:1000-2000", or
// "tcp 198.51.100.10:*" (every port).
#define WEIR_BIND_TEXT_BYTES 96
const char *weir_bind_format(const struct weir_config_bind *bind, char *buffer, size_t bytes);

// Names of settings, as in the configuration file.
const char *weir_config_check_name(enum weir_config_check check);
const char *weir_config_via_name(enum weir_config_via via);
const char *weir_config_method_name(enum weir_config_method method);
// Returns how the packets of a backend are forwarded.
struct weir_forwarding weir_config_forwarding_of(
	const struct weir_config_service *service, const struct weir_config_backend *backend);
const char *weir_config_weights_name(enum weir_config_weights weights);
const char *weir_config_statistic_name(enum weir_config_statistic statistic);
const char *weir_config_measurement_name(enum weir_config_measurement measurement);
const char *weir_config_service_time_name(enum weir_config_service_time service_time);
const char *weir_config_requests_name(enum weir_config_requests requests);
const char *weir_config_rounds_name(enum weir_rounds rounds);
const char *weir_config_workload_name(enum weir_config_workload workload);
const char *weir_config_closed_ports_name(enum weir_config_closed_ports closed_ports);
const char *weir_config_udp_name(enum weir_config_udp udp);
const char *weir_config_on_backend_down_name(enum weir_config_on_backend_down what);
const char *weir_config_at_deadline_name(enum weir_config_at_deadline at_deadline);
const char *weir_config_when_exhausted_name(enum weir_when_exhausted when_exhausted);

// Returns a key of the service or of its policy that the file sets, but that the policy `name` does
// not use. Returns NULL if there is no such key: then the settings are valid for the policy `name`.
const char *weir_config_policy_misfit(
	const struct weir_config_service *service, enum weir_policy name);
