// SPDX-License-Identifier: BSD-3-Clause
//
// A scenario: the description of a simulation, read from a JSON file. scenario_keys.c has one row
// per key, with type, range, default and meaning. A test compares these rows with
// docs/design/simulator.md.
//
// A file describes one or more variants. Variants run with the same seeds, and their results are
// compared. A variant is the scenario with some values replaced.
//
// Threads: immutable once read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capability.h"
#include "config.h"
#include "draw.h"
#include "policy.h"

#define WEIR_SIM_NAME_BYTES 64
#define WEIR_SIM_TEXT_BYTES 256
#define WEIR_SIM_NUMBERS_MAX 16u
#define WEIR_SIM_WINDOWS_MAX 8u
#define WEIR_SIM_VARIANTS_MAX 32u
#define WEIR_SIM_CLIENTS_MAX 100000u
#define WEIR_SIM_BACKENDS_MAX 65535u
#define WEIR_SIM_WORKERS_MAX 64u
#define WEIR_SIM_BUCKETS_MAX 16384u
// Maximum number of pairs: clients * backends per client. Each pair needs 64 bytes or more.
#define WEIR_SIM_PAIRS_MAX 20000000u

// The values of the keys arrivals, scheduling, statistics, planner, hot_place and delivery.
// X(NAME, "name")
#define WEIR_SIM_ARRIVALS(X) X(EVEN, "even") X(POISSON, "poisson") X(BURSTY, "bursty")
#define WEIR_SIM_SCHEDULINGS(X) X(FIFO, "fifo") X(SHARING, "sharing")
#define WEIR_SIM_SCOPES(X) X(CLIENT, "client") X(FLEET, "fleet")
#define WEIR_SIM_PLANNERS(X) X(PLAN, "plan") X(CONTROL, "control")
#define WEIR_SIM_HOT_PLACES(X) X(ONE, "one") X(ANY, "any")
#define WEIR_SIM_DELIVERIES(X) X(AT_ONCE, "at-once") X(RETRANSMISSION, "retransmission")

// The kinds of plots. X(NAME, "name", "what the plot shows")
#define WEIR_SIM_PLOTS(X) \
	X(SPREAD, "spread", \
		"CPU of the most loaded backend divided by the CPU of the least loaded, for each " \
		"variant") \
	X(WASTED, "wasted", "wasted capacity of each variant, in percent") \
	X(BACKENDS, "backends", "CPU of every backend, sorted") \
	X(USED, "used", \
		"CPU of every backend, sorted, and CPU that is unused when the most loaded " \
		"backend is saturated") \
	X(CONNECTIONS, "connections", "number of clients of every backend, sorted") \
	X(CHURN, "churn", \
		"members of subsets replaced in each window, and the minimum for evenly " \
		"distributed subsets") \
	X(SHARE, "share", "the watched backend's share of the requests over time") \
	X(SHARES, "shares", "the watched backend's share of the requests in each variant") \
	X(CPU, "cpu", \
		"CPU of backends over time: minimum, median, maximum, 5th and 95th percentile") \
	X(LATENCY, "latency", "99th percentile of latency over time") \
	X(LATENCIES, "latencies", "99th percentile of latency of each variant") \
	X(ERRORS, "errors", "failed, timed out and rejected requests over time") \
	X(BUSIEST, "busiest", \
		"CPU of the most loaded backend or worker, divided by the mean, over time") \
	X(MOVES, "moves", "stolen requests or buckets over time")

// The kinds of events during a run. X(NAME, "name")
#define WEIR_SIM_HAPPENINGS(X) \
	X(FAIL_FAST, "fail-fast") \
	X(SLOW, "slow") \
	X(LAME_DUCK, "lame-duck") \
	X(RESTART, "restart") \
	X(ADD, "add-backends") \
	X(REMOVE, "remove-backends") \
	X(POLICY, "policy")

#define X(name, key) WEIR_SIM_ARRIVALS_##name,
enum weir_sim_arrivals { WEIR_SIM_ARRIVALS(X) };
#undef X
#define X(name, key) WEIR_SIM_SCHEDULING_##name,
enum weir_sim_scheduling { WEIR_SIM_SCHEDULINGS(X) };
#undef X
#define X(name, key) WEIR_SIM_SCOPE_##name,
enum weir_sim_scope { WEIR_SIM_SCOPES(X) };
#undef X
#define X(name, key) WEIR_SIM_PLANNER_##name,
enum weir_sim_planner { WEIR_SIM_PLANNERS(X) };
#undef X
#define X(name, key) WEIR_SIM_HOT_##name,
enum weir_sim_hot_place { WEIR_SIM_HOT_PLACES(X) };
#undef X
#define X(name, key) WEIR_SIM_DELIVERY_##name,
enum weir_sim_delivery_kind { WEIR_SIM_DELIVERIES(X) };
#undef X
#define X(name, key, what) WEIR_SIM_PLOT_##name,
enum weir_sim_plot { WEIR_SIM_PLOTS(X) WEIR_SIM_PLOT_COUNT };
#undef X
#define X(name, key) WEIR_SIM_HAPPENING_##name,
enum weir_sim_happening_kind { WEIR_SIM_HAPPENINGS(X) };
#undef X

struct weir_sim_numbers { // a list of numbers, used round-robin
	double value[WEIR_SIM_NUMBERS_MAX];
	uint32_t count;
};

struct weir_sim_policy { // like services[].policy of the configuration
	uint32_t name; // enum weir_policy
	uint32_t weights; // enum weir_config_weights
	uint32_t statistic; // enum weir_config_statistic
	uint32_t measurement; // enum weir_config_measurement
	uint32_t window; // number of samples
	uint64_t stale_ns;
	uint32_t rounds; // enum weir_rounds
	uint64_t error_window_ns; // how long an error counts as an active request; 0 = automatic
	bool errors_as_active;
	struct weir_capability_settings capability; // settings of the weights "reported"
};

struct weir_sim_happening {
	uint32_t kind; // enum weir_sim_happening_kind
	// start and duration of the event; for_ns 0 = until the end of the run
	uint64_t at_ns, for_ns;
	uint32_t backend, count; // backends [backend, backend + count)
	uint64_t every_ns; // time from one backend to the next
	// percent: for fail-fast; speed: for slow, and for the warm-up after restart and add
	double percent, speed;
	uint64_t latency_ns; // fail-fast: response time of an error
	bool established; // fail-fast: connections succeed, but requests within them fail
	uint64_t drain_ns, down_ns; // restart: time as a lame duck before the stop, and downtime
	uint64_t warm_ns; // restart, add: duration of the warm-up
	bool silent; // restart: no answer while down, instead of a refusal
	struct weir_sim_policy policy;
};

struct weir_sim_steal_settings { // stealing (policy/steal_plan.h), if `on` is set
	bool on;
	// The plan excludes requests that are already being processed.
	bool excludes_running;
	bool costs; // the planner considers the costs of requests and of moves
	bool by_backend; // the duration of requests is estimated separately for each backend
	// With workers: a bucket is requested only after the previous bucket was handed over.
	bool one_by_one;
	uint64_t interval_ns; // time between plans
	uint32_t requests; // maximum number of requests of one plan
	uint64_t latency_ns; // latency of a message, each way
	double loss_percent; // share of lost answers
	uint64_t answer_limit_ns; // a steal request without an answer is cancelled after this time
	uint32_t delivery; // enum weir_sim_delivery_kind
	// Time until a client retransmits its first packet; doubles with each retransmission.
	uint64_t retransmit_ns;
	uint64_t unknown_ns, victim_floor_ns, pending_floor_ns;
	double pending_ratio, idle_ratio, share;
	uint64_t backoff_ns, backoff_max_ns, rest_ns;
};

struct weir_sim_window {
	char name[WEIR_SIM_NAME_BYTES];
	uint64_t from_ns, to_ns;
};

struct weir_sim_scenario {
	char name[WEIR_SIM_NAME_BYTES]; // name of the variant
	uint64_t duration_ns, warmup_ns, sample_ns;
	struct {
		uint32_t count;
		// Load of all clients, as a percentage of the capacity or as requests per second.
		double load_percent, requests_per_second;
		uint32_t arrivals; // enum weir_sim_arrivals
		uint64_t on_ns, off_ns;
		double rate_sigma;
		// Clients send from from_ns to until_ns; until_ns 0 = until the end of the run.
		uint64_t from_ns, until_ns;
		uint64_t timeout_ns, connect_timeout_ns; // timeout_ns 0 = none
	} clients;
	struct {
		uint32_t count, cores, queue;
		uint32_t scheduling; // enum weir_sim_scheduling
		struct weir_sim_numbers speeds, weights;
		uint64_t refuse_ns; // response time of a refusal
	} backends;
	struct weir_sim_distribution cost, wait;
	struct {
		uint64_t interval_ns; // 0 = none
		double probability, slowdown;
	} antagonists;
	struct {
		uint32_t algorithm, mode; // enum weir_subset_algorithm, enum weir_subset_mode
		uint32_t size, salt;
		bool salt_of_seed; // the seed of the run is the salt
	} subset;
	struct weir_sim_policy policy;
	struct {
		uint32_t max_active_flows, when_exhausted;
	} flow_control;
	struct {
		uint64_t window_ns; // 0 = none
		double aggression, min_weight_percent;
	} slow_start;
	uint32_t table_size;
	struct {
		uint64_t interval_ns, delay_ns;
		double loss_percent;
		bool errors; // policies use the errors that backends report
		// Policies that count active requests use the counts that backends report.
		bool active;
	} reports;
	struct {
		uint64_t update_ns, detection_ns, recovery_ns, announce_ns;
		uint32_t panic_threshold_percent;
		uint32_t statistics; // enum weir_sim_scope
	} control;
	struct weir_sim_steal_settings steal;
	// The workers of one balancer. The workers are simulated instead of clients and backends,
	// and the results show each worker as a backend.
	struct {
		uint32_t count, buckets; // count 0 = no workers
		double load_percent, packets_per_second;
		uint32_t hot_buckets, hot_place; // enum weir_sim_hot_place
		double hot_percent;
		uint64_t hot_every_ns; // time until other buckets become hot; 0 = never
		uint32_t ring_packets, hold_packets;
		uint64_t handover_ns;
		uint32_t planner; // enum weir_sim_planner
	} workers;
	struct weir_sim_happening *happening;
	uint32_t happening_count;
	struct weir_sim_window *window;
	uint32_t window_count;
	uint32_t watch; // the watched backend, whose share of requests is shown
};

struct weir_sim_plot_request {
	uint32_t kind; // enum weir_sim_plot
	char title[WEIR_SIM_TEXT_BYTES];
};

struct weir_sim_file {
	char name[WEIR_SIM_NAME_BYTES];
	char title[WEIR_SIM_TEXT_BYTES];
	uint32_t seeds;
	struct weir_sim_scenario *variant;
	uint32_t variant_count;
	struct weir_sim_plot_request *plot;
	uint32_t plot_count;
};

// Read a file, or text in memory (NUL-terminated). Returns 0, or negative errno with at least one
// error in `errors` (with -ENOMEM, there may be none). Release `errors` with
// weir_config_errors_fini in any case.
int weir_sim_file_read(
	const char *path, struct weir_sim_file **ret, struct weir_config_errors *errors);
int weir_sim_file_parse(
	const char *text, struct weir_sim_file **ret, struct weir_config_errors *errors);
void weir_sim_file_free(struct weir_sim_file *file); // NULL is allowed

const char *weir_sim_plot_name(enum weir_sim_plot plot);

// Returns the requests per second of all clients together, from load_percent or
// requests_per_second.
double weir_sim_request_rate(const struct weir_sim_scenario *scenario);
