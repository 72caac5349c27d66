// SPDX-License-Identifier: BSD-3-Clause
#include <math.h>

#include "config_keys.h"
#include "layout.h"
#include "plural.h"
#include "scenario.h"
#include "scenario_keys.h"

#define ROWS(rows) .key = (rows), .count = sizeof(rows) / sizeof((rows)[0])
#define DAY_MS 86400000.0
#define HOUR_MS 3600000.0

// clang-format off
static const struct weir_json_choice distributions[] = {
#define X(name, key) {key, WEIR_SIM_##name},
	WEIR_SIM_DISTRIBUTIONS(X)
#undef X
	{0}};
static const struct weir_json_choice arrivals[] = {
#define X(name, key) {key, WEIR_SIM_ARRIVALS_##name},
	WEIR_SIM_ARRIVALS(X)
#undef X
	{0}};
static const struct weir_json_choice schedulings[] = {
#define X(name, key) {key, WEIR_SIM_SCHEDULING_##name},
	WEIR_SIM_SCHEDULINGS(X)
#undef X
	{0}};
static const struct weir_json_choice scopes[] = {
#define X(name, key) {key, WEIR_SIM_SCOPE_##name},
	WEIR_SIM_SCOPES(X)
#undef X
	{0}};
static const struct weir_json_choice planners[] = {
#define X(name, key) {key, WEIR_SIM_PLANNER_##name},
	WEIR_SIM_PLANNERS(X)
#undef X
	{0}};
static const struct weir_json_choice hot_places[] = {
#define X(name, key) {key, WEIR_SIM_HOT_##name},
	WEIR_SIM_HOT_PLACES(X)
#undef X
	{0}};
static const struct weir_json_choice deliveries[] = {
#define X(name, key) {key, WEIR_SIM_DELIVERY_##name},
	WEIR_SIM_DELIVERIES(X)
#undef X
	{0}};
static const struct weir_json_choice plots[] = {
#define X(name, key, what) {key, WEIR_SIM_PLOT_##name},
	WEIR_SIM_PLOTS(X)
#undef X
	{0}};
static const struct weir_json_choice happenings[] = {
#define X(name, key) {key, WEIR_SIM_HAPPENING_##name},
	WEIR_SIM_HAPPENINGS(X)
#undef X
	{0}};

#define REQUIRED .required = true
#define PRESET(json) .fallback = json
#define FIELD(of, member) .offset = offsetof(of, member), .bytes = sizeof(((of *)NULL)->member)
#define INTEGER(of, k, field, least, most, preset, text) \
	{.key = k, .type = &weir_sim_type_whole, FIELD(of, field), .min = least, .max = most, \
		preset, .meaning = text}
#define NUMBER(of, k, field, least, most, preset, text) \
	{.key = k, .type = &weir_sim_type_number, FIELD(of, field), .min = least, .max = most, \
		preset, .meaning = text}
#define MS(of, k, field, least, most, preset, text) \
	{.key = k, .type = &weir_sim_type_ms, FIELD(of, field), .min = least, .max = most, \
		preset, .meaning = text}
#define BOOLEAN(of, k, field, preset, text) \
	{.key = k, .type = &weir_json_type_boolean, FIELD(of, field), preset, .meaning = text}
#define NAME(of, k, field, text) \
	{.key = k, .type = &weir_sim_type_name, FIELD(of, field), .required = true, \
		.meaning = text}
#define TEXT(of, k, field, preset, text) \
	{.key = k, .type = &weir_json_type_text, FIELD(of, field), \
		.max = WEIR_SIM_TEXT_BYTES - 1, preset, .meaning = text}
#define CHOICE(of, k, field, list, preset, text) \
	{.key = k, .type = &weir_json_type_choice, FIELD(of, field), .choices = list, preset, \
		.meaning = text}
#define NUMBERS(of, k, field, least, most, preset, text) \
	{.key = k, .type = &weir_sim_type_numbers, FIELD(of, field), .min = least, .max = most, \
		preset, .meaning = text}
#define OBJECT(of, k, field, keys, preset, text) \
	{.key = k, .type = &weir_json_type_struct, FIELD(of, field), .object = keys, preset, \
		.meaning = text}
#define LIST(of, k, field, length, keys, least, most, preset, text) \
	{.key = k, .type = &weir_json_type_list, FIELD(of, field), \
		.offset2 = offsetof(of, length), .object = keys, .min = least, .max = most, \
		preset, .meaning = text}

#define PART struct weir_sim_part
static const struct weir_json_key part_rows[] = {
	NUMBER(PART, "percent", percent, 0, 100, REQUIRED, "Share of requests."),
	MS(PART, "mean_ms", mean_ns, 0, DAY_MS, REQUIRED, "Service time of each request."),
};
static const struct weir_json_object part_keys = {
	.name = "a part of a mix", ROWS(part_rows), .bytes = sizeof(PART)};

#define DISTRIBUTION struct weir_sim_distribution
static const struct weir_json_key distribution_rows[] = {
	CHOICE(DISTRIBUTION, "distribution", kind, distributions, PRESET("\"constant\""),
		"Name of the distribution. The description of each key below begins with the names of the distributions that use the key."),
	MS(DISTRIBUTION, "mean_ms", mean_ns, 0, DAY_MS, PRESET("0"),
		"Mean of `constant`, `exponential`, `lognormal`."),
	NUMBER(DISTRIBUTION, "sigma", sigma, 0, 10, PRESET("1"),
		"`lognormal`: standard deviation of the logarithm."),
	NUMBER(DISTRIBUTION, "alpha", alpha, 0.01, 100, PRESET("1.5"), "`bounded-pareto`: shape."),
	MS(DISTRIBUTION, "min_ms", min_ns, 0, DAY_MS, PRESET("0"),
		"`uniform`, `bounded-pareto`: minimum."),
	MS(DISTRIBUTION, "max_ms", max_ns, 0, DAY_MS, PRESET("0"),
		"`uniform`, `bounded-pareto`: maximum."),
	LIST(DISTRIBUTION, "parts", part, part_count, &part_keys, 0, 64, PRESET("[]"),
		"`mix`: constant values, each with its share of requests."),
};

static void check_distribution(struct weir_json_reader *reader, const struct weir_json_place *at,
	void *object, const struct weir_json_keys_read *read) {
	const DISTRIBUTION *d = object;
	double percent = 0;

	if (!read->good) {
		return;
	}
	for (uint32_t i = 0; i < d->part_count; i++) {
		percent += d->part[i].percent;
	}
	if (d->kind == WEIR_SIM_MIX && fabs(percent - 100.0) > 1e-6) {
		weir_json_error_at(reader, at, "parts", "the percentages add up to %g, not 100",
			percent);
	}
	if (d->kind == WEIR_SIM_BOUNDED_PARETO && d->min_ns == 0) {
		weir_json_error_at(reader, at, "min_ms", "must be above 0 for bounded-pareto");
	}
	if ((d->kind == WEIR_SIM_BOUNDED_PARETO || d->kind == WEIR_SIM_UNIFORM) &&
		d->max_ns <= d->min_ns) {
		weir_json_error_at(reader, at, "max_ms", "must be above min_ms");
	}
	if ((d->kind == WEIR_SIM_EXPONENTIAL || d->kind == WEIR_SIM_LOGNORMAL) &&
		d->mean_ns == 0) {
		weir_json_error_at(reader, at, "mean_ms", "is missing or 0; give a mean");
	}
}

static const struct weir_json_object distribution_keys = {.name = "a distribution",
	ROWS(distribution_rows), .bytes = sizeof(DISTRIBUTION), .check = check_distribution};

#define POLICY struct weir_sim_policy
static const struct weir_json_key policy_rows[] = {
	CHOICE(POLICY, "name", name, weir_config_policies, PRESET("\"round-robin\""),
		"Selection policy of the clients."),
	CHOICE(POLICY, "weights", weights, weir_config_weights, PRESET("\"configured\""),
		"`reported`: capacity from load reports. `balanced`: the configured weights, corrected until reported utilizations are equal. For `weighted-round-robin`."),
	CHOICE(POLICY, "requests", capability.successful, weir_config_requests, PRESET("\"all\""),
		"Weights `reported`: whether the rate of `all` requests or of `successful` requests is divided by the utilization."),
	NUMBER(POLICY, "error_penalty", capability.penalty, 0, 1000, PRESET("1"),
		"Weights `reported`: the share of failed requests times this factor is added to the utilization."),
	MS(POLICY, "blackout_ms", capability.blackout_ns, 0, HOUR_MS, PRESET("10000"),
		"Weights `reported`: delay after the first report before reports are used."),
	MS(POLICY, "expiration_ms", capability.expiration_ns, 1000, DAY_MS, PRESET("180000"),
		"Weights `reported`: lifetime of a report."),
	MS(POLICY, "smoothing_ms", capability.smoothing_ns, 0, HOUR_MS, PRESET("10000"),
		"Weights `reported`: time constant of the moving averages of reported values."),
	CHOICE(POLICY, "statistic", statistic, weir_config_statistics, PRESET("\"average\""),
		"Estimate of the service time, for policies that need one."),
	CHOICE(POLICY, "measurement", measurement, weir_config_measurements,
		PRESET("\"execution\""),
		"Time that is estimated: `execution`, the time from request to response; `busy`, the CPU time used."),
	INTEGER(POLICY, "window", window, 1, 65535, PRESET("386"), "Number of samples in an estimate."),
	MS(POLICY, "stale_ms", stale_ns, 1, DAY_MS, PRESET("180000"),
		"An estimate is unknown if its last sample is older than this."),
	CHOICE(POLICY, "rounds", rounds, weir_config_rounds, PRESET("\"incremental\""),
		"How `interleaved-weighted-round-robin` computes its quotas."),
	MS(POLICY, "error_window_ms", error_window_ns, 0, 3600000, PRESET("0"),
		"How long an error counts as an active request; 0 = 10 times the average latency, "
		"but at least 1 s and at most 30 s."),
	BOOLEAN(POLICY, "errors_as_active", errors_as_active, PRESET("true"),
		"Whether errors count as active requests."),
};

static void check_policy(struct weir_json_reader *reader, const struct weir_json_place *at,
	void *object, const struct weir_json_keys_read *read) {
	const POLICY *policy = object;

	if (read->good && policy->weights != WEIR_WEIGHTS_CONFIGURED &&
		policy->name != WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_json_error_at(reader, at, "weights",
			"\"%s\" is not supported by %s; use weighted-round-robin",
			weir_config_weights_name((enum weir_config_weights)policy->weights),
			weir_policy_name((enum weir_policy)policy->name));
	}
}

static const struct weir_json_object policy_keys = {
	.name = "policy", ROWS(policy_rows), .bytes = sizeof(POLICY), .check = check_policy};

#define HAPPENING struct weir_sim_happening
static const struct weir_json_key happening_rows[] = {
	CHOICE(HAPPENING, "event", kind, happenings, REQUIRED,
		"`fail-fast`: the backend returns errors immediately. `slow`: the backend changes its speed. `lame-duck`: the backend announces the state lame-duck. `restart`: the backend drains, stops and starts again. `add-backends`, `remove-backends`: a reload changes the list of backends; added backends do not exist before their first `add-backends`. `policy`: all clients change to another policy."),
	MS(HAPPENING, "at_ms", at_ns, 0, DAY_MS, REQUIRED, "Start of the event."),
	MS(HAPPENING, "for_ms", for_ns, 0, DAY_MS, PRESET("0"),
		"Duration of `fail-fast`, `slow`, `lame-duck`; 0 = until the end of the run."),
	INTEGER(HAPPENING, "backend", backend, 0, 65534, PRESET("0"),
		"First backend affected."),
	INTEGER(HAPPENING, "count", count, 1, 65535, PRESET("1"), "Number of backends."),
	MS(HAPPENING, "every_ms", every_ns, 0, DAY_MS, PRESET("0"),
		"Delay between backends; 0 = no delay."),
	NUMBER(HAPPENING, "percent", percent, 0, 100, PRESET("100"),
		"`fail-fast`: share of requests that fail."),
	MS(HAPPENING, "latency_ms", latency_ns, 0, DAY_MS, PRESET("0.5"),
		"`fail-fast`: response time of an error."),
	BOOLEAN(HAPPENING, "established", established, PRESET("false"),
		"`fail-fast`: whether the backend accepts connections and then sends the error, so that the request counts as a short, successful flow. Otherwise the backend refuses connections."),
	NUMBER(HAPPENING, "speed", speed, 0.001, 1000, PRESET("0.5"),
		"Factor by which the speed is multiplied during `slow`, and during the warm-up after `restart` and `add-backends`."),
	MS(HAPPENING, "drain_ms", drain_ns, 0, DAY_MS, PRESET("0"),
		"`restart`: time as a lame duck before the backend stops."),
	MS(HAPPENING, "down_ms", down_ns, 1, DAY_MS, PRESET("5000"),
		"`restart`: downtime."),
	MS(HAPPENING, "warm_ms", warm_ns, 0, DAY_MS, PRESET("0"),
		"`restart`, `add-backends`: warm-up time after the start of the backend."),
	BOOLEAN(HAPPENING, "silent", silent, PRESET("false"),
		"`restart`: whether the backend does not respond at all while it is down. Otherwise the backend refuses connections."),
	OBJECT(HAPPENING, "policy", policy, &policy_keys, PRESET("{}"), "`policy`: the new policy."),
};
static const struct weir_json_object happening_keys = {
	.name = "an event", ROWS(happening_rows), .bytes = sizeof(HAPPENING)};

#define WINDOW struct weir_sim_window
static const struct weir_json_key window_rows[] = {
	NAME(WINDOW, "name", name, "Name in the results."),
	MS(WINDOW, "from_ms", from_ns, 0, DAY_MS, REQUIRED, "Beginning of the window."),
	MS(WINDOW, "to_ms", to_ns, 0, DAY_MS, REQUIRED, "End of the window."),
};
static const struct weir_json_object window_keys = {
	.name = "a window", ROWS(window_rows), .bytes = sizeof(WINDOW)};

#define S struct weir_sim_scenario
#define WITHIN(member, keys) {.name = #member, ROWS(keys), .bytes = sizeof(((S *)NULL)->member)}
#define MEMBER(member) __typeof__(((S *)NULL)->member)

static const struct weir_json_key clients_rows[] = {
	INTEGER(MEMBER(clients), "count", count, 1, WEIR_SIM_CLIENTS_MAX, REQUIRED,
		"Number of clients. Each client acts as one worker."),
	NUMBER(MEMBER(clients), "load_percent", load_percent, 0, 10000, PRESET("0"),
		"CPU demand of all clients, relative to the CPU of all backends at speed 1."),
	NUMBER(MEMBER(clients), "requests_per_second", requests_per_second, 0, 1e9, PRESET("0"),
		"Request rate of all clients, instead of `load_percent`."),
	CHOICE(MEMBER(clients), "arrivals", arrivals, arrivals, PRESET("\"poisson\""),
		"`even`: equally spaced. `poisson`: a Poisson process. `bursty`: a Poisson process while on, no arrivals while off."),
	MS(MEMBER(clients), "on_ms", on_ns, 0.001, DAY_MS, PRESET("1000"),
		"`bursty`: mean on time (exponential). The rate while on is increased, so that the mean rate stays the same."),
	MS(MEMBER(clients), "off_ms", off_ns, 0, DAY_MS, PRESET("1000"),
		"`bursty`: mean off time."),
	NUMBER(MEMBER(clients), "rate_sigma", rate_sigma, 0, 5, PRESET("0"),
		"Skew of the clients' rates: standard deviation of their logarithms."),
	MS(MEMBER(clients), "from_ms", from_ns, 0, DAY_MS, PRESET("0"), "When clients begin to send."),
	MS(MEMBER(clients), "until_ms", until_ns, 0, DAY_MS, PRESET("0"),
		"When clients stop sending; 0 = at the end of the run."),
	MS(MEMBER(clients), "timeout_ms", timeout_ns, 0, DAY_MS, PRESET("0"),
		"Client timeout of a request; the backend continues to process the request. 0 = none."),
	MS(MEMBER(clients), "connect_timeout_ms", connect_timeout_ns, 0.001, DAY_MS, PRESET("3000"),
		"Client timeout when the backend does not respond."),
};
static const struct weir_json_object clients_keys = WITHIN(clients, clients_rows);

static const struct weir_json_key backends_rows[] = {
	INTEGER(MEMBER(backends), "count", count, 1, WEIR_SIM_BACKENDS_MAX, REQUIRED,
		"Number of backends."),
	INTEGER(MEMBER(backends), "cores", cores, 1, 1024, PRESET("4"), "Cores per backend."),
	CHOICE(MEMBER(backends), "scheduling", scheduling, schedulings, PRESET("\"fifo\""),
		"`fifo`: a core serves one request at a time. `sharing`: all requests share the cores."),
	INTEGER(MEMBER(backends), "queue", queue, 0, 100000000, PRESET("100000000"),
		"Maximum number of requests that wait for a core at a backend; further requests are refused."),
	NUMBERS(MEMBER(backends), "speeds", speeds, 0.001, 1000, PRESET("[1]"),
		"Speeds of the cores, assigned to the backends round-robin."),
	NUMBERS(MEMBER(backends), "weights", weights, 1, 65535, PRESET("[100]"),
		"Configured weights, assigned to the backends round-robin."),
	MS(MEMBER(backends), "refuse_ms", refuse_ns, 0, DAY_MS, PRESET("0.5"),
		"Time until a client receives a refusal."),
};
static const struct weir_json_object backends_keys = WITHIN(backends, backends_rows);

static const struct weir_json_key antagonists_rows[] = {
	MS(MEMBER(antagonists), "interval_ms", interval_ns, 0, DAY_MS, PRESET("0"),
		"Interval at which the affected backends are selected again at random; 0 = no antagonists."),
	NUMBER(MEMBER(antagonists), "probability", probability, 0, 1, PRESET("0.2"),
		"Share of backends affected."),
	NUMBER(MEMBER(antagonists), "slowdown", slowdown, 0, 0.99, PRESET("0.2"),
		"Share of its speed that an affected backend loses."),
};
static const struct weir_json_object antagonists_keys = WITHIN(antagonists, antagonists_rows);

static const struct weir_json_key subset_rows[] = {
	CHOICE(MEMBER(subset), "algorithm", algorithm, weir_config_subset_algorithms,
		PRESET("\"none\""),
		"Algorithm that selects the backends of a client."),
	CHOICE(MEMBER(subset), "mode", mode, weir_config_subset_modes, PRESET("\"spread\""),
		"How `deterministic` handles a number of backends that is not a multiple of `size`."),
	INTEGER(MEMBER(subset), "size", size, 0, 65535, PRESET("0"),
		"Backends per client; 0 = all."),
	INTEGER(MEMBER(subset), "salt", salt, 0, 4294967295.0, PRESET("0"),
		"Salt of the shuffle; a different salt results in different subsets."),
	BOOLEAN(MEMBER(subset), "salt_of_seed", salt_of_seed, PRESET("false"),
		"Use the seed of the run as salt."),
};
static const struct weir_json_object subset_keys = WITHIN(subset, subset_rows);

static const struct weir_json_key flow_control_rows[] = {
	INTEGER(MEMBER(flow_control), "max_active_flows", max_active_flows, 0, 268435456,
		PRESET("0"),
		"Limit of requests in progress from one client to one backend; 0 = no limit."),
	CHOICE(MEMBER(flow_control), "when_exhausted", when_exhausted, weir_config_when_exhausted,
		PRESET("\"spill\""),
		"When all of a client's backends are at the limit: `spill` sends the request to the "
		"least loaded backend, `reject` rejects it."),
};
static const struct weir_json_object flow_control_keys = WITHIN(flow_control, flow_control_rows);

static const struct weir_json_key slow_start_rows[] = {
	MS(MEMBER(slow_start), "window_ms", window_ns, 0, 3600000, PRESET("0"),
		"Time after which a backend that has become usable gets its full share of requests; 0 = immediately. Not used by `maglev`."),
	NUMBER(MEMBER(slow_start), "aggression", aggression, 0.1, 10, PRESET("1"),
		"The share is (time / window) to the power of 1 / aggression."),
	NUMBER(MEMBER(slow_start), "min_weight_percent", min_weight_percent, 1, 100, PRESET("10"),
		"Share at the start, in percent of the full share."),
};
static const struct weir_json_object slow_start_keys = WITHIN(slow_start, slow_start_rows);

static const struct weir_json_key reports_rows[] = {
	MS(MEMBER(reports), "interval_ms", interval_ns, 1, DAY_MS, PRESET("1000"),
		"Interval between load reports of a backend."),
	MS(MEMBER(reports), "delay_ms", delay_ns, 0, DAY_MS, PRESET("0"),
		"Age of a report on arrival."),
	NUMBER(MEMBER(reports), "loss_percent", loss_percent, 0, 100, PRESET("0"),
		"Share of reports that are lost."),
	BOOLEAN(MEMBER(reports), "active", active, PRESET("false"),
		"Whether `least-loaded` and `power-of-two` also use the requests in progress that backends report. Otherwise each client counts only its own requests."),
	BOOLEAN(MEMBER(reports), "errors", errors, PRESET("false"),
		"Whether policies use the reported errors: as active requests, or to raise the "
		"estimates of service times."),
};
static const struct weir_json_object reports_keys = WITHIN(reports, reports_rows);

static const struct weir_json_key control_rows[] = {
	MS(MEMBER(control), "update_ms", update_ns, 1, DAY_MS, PRESET("1000"),
		"Interval at which weights and estimates reach the workers."),
	MS(MEMBER(control), "detection_ms", detection_ns, 0, DAY_MS, PRESET("3000"),
		"Delay until weir-control detects that a backend is down (`fall` * `interval_ms`)."),
	MS(MEMBER(control), "recovery_ms", recovery_ns, 0, DAY_MS, PRESET("2000"),
		"Delay until weir-control detects the recovery of a backend (`rise` * `interval_ms`)."),
	MS(MEMBER(control), "announce_ms", announce_ns, 0, DAY_MS, PRESET("500"),
		"Delay until weir-control detects that a backend announces lame-duck."),
	INTEGER(MEMBER(control), "panic_threshold_percent", panic_threshold_percent, 0, 100,
		PRESET("50"),
		"Panic mode: if the percentage of healthy backends is lower, failed backends are used as well. Lame ducks are used only if no backend is healthy."),
	CHOICE(MEMBER(control), "statistics", statistics, scopes, PRESET("\"client\""),
		"Which service times an estimate contains: the service times that the `client` itself measured, or that all clients measured (`fleet`)."),
};
static const struct weir_json_object control_keys = WITHIN(control, control_rows);

static const struct weir_json_key steal_rows[] = {
	BOOLEAN(MEMBER(steal), "on", on, PRESET("false"), "Enables stealing."),
	MS(MEMBER(steal), "interval_ms", interval_ns, 1, DAY_MS, PRESET("100"), "Interval between plans."),
	INTEGER(MEMBER(steal), "requests", requests, 1, 65536, PRESET("1000"),
		"Maximum number of requests in a plan."),
	BOOLEAN(MEMBER(steal), "knows_begun", excludes_running, PRESET("true"),
		"Whether the plan excludes requests that are already being processed. Otherwise the plan also selects such requests, and the backend refuses to move them."),
	BOOLEAN(MEMBER(steal), "costs", costs, PRESET("true"),
		"Whether the plan compares the time of requests with the cost of moves. Otherwise the plan only balances the number of requests."),
	BOOLEAN(MEMBER(steal), "by_backend", by_backend, PRESET("false"),
		"Whether the CPU time of a request is estimated separately for each backend. Otherwise there is one estimate for all backends."),
	BOOLEAN(MEMBER(steal), "one_by_one", one_by_one, PRESET("true"),
		"With `workers`: whether a request waits while its victim or its thief takes part in a hand-over, and the later requests of the plan with it. Otherwise all requests of a plan are sent at the same time, and workers that take part in a hand-over refuse."),
	MS(MEMBER(steal), "latency_ms", latency_ns, 0, 60000, PRESET("1"),
		"Delay of a message between weir-control and a backend's agent, in each direction."),
	NUMBER(MEMBER(steal), "loss_percent", loss_percent, 0, 100, PRESET("0"),
		"Share of answers that are lost."),
	MS(MEMBER(steal), "answer_limit_ms", answer_limit_ns, 1, DAY_MS, PRESET("1000"),
		"Timeout of a steal request. After the timeout, the request counts as refused."),
	CHOICE(MEMBER(steal), "delivery", delivery, deliveries, PRESET("\"at-once\""),
		"When the new backend receives a moved request: `at-once`, or at the client's next `retransmission`, as with TCP."),
	MS(MEMBER(steal), "retransmit_ms", retransmit_ns, 1, DAY_MS, PRESET("1000"),
		"Time until a client retransmits its first packet; doubles with each retransmission. If the answer to a steal request was lost, the client's request returns to its previous backend with the next retransmission."),
	MS(MEMBER(steal), "unknown_ms", unknown_ns, 0.001, DAY_MS, PRESET("500"),
		"Assumed CPU time of a request until the first request has ended."),
	MS(MEMBER(steal), "victim_floor_ms", victim_floor_ns, 0, DAY_MS, PRESET("200"),
		"No requests are stolen from a backend with at most this much work, unless it is saturated."),
	MS(MEMBER(steal), "pending_floor_ms", pending_floor_ns, 0, DAY_MS, PRESET("400"),
		"A backend with at most this much work waiting for a core is not saturated."),
	NUMBER(MEMBER(steal), "pending_ratio", pending_ratio, 0, 1000, PRESET("1.9"),
		"A backend is saturated if its waiting work per core exceeds this multiple of the mean work per core."),
	NUMBER(MEMBER(steal), "idle_ratio", idle_ratio, 0, 1, PRESET("0.5"),
		"A backend is idle if its work per core is below this multiple of the mean work per core."),
	NUMBER(MEMBER(steal), "share", share, 0, 1, PRESET("1"),
		"Fraction of the backends that may steal simultaneously."),
	MS(MEMBER(steal), "backoff_ms", backoff_ns, 0, DAY_MS, PRESET("0"),
		"Pause after a refusal, doubled with each further refusal. Workers with the planner `plan`: a request that was not sent before the next plan is treated as refused."),
	MS(MEMBER(steal), "backoff_max_ms", backoff_max_ns, 0, DAY_MS, PRESET("10000"),
		"Maximum pause after a refusal."),
	MS(MEMBER(steal), "rest_ms", rest_ns, 0, DAY_MS, PRESET("0"),
		"Time for which a moved request or bucket is not moved again."),
};
static const struct weir_json_object steal_keys = WITHIN(steal, steal_rows);

static const struct weir_json_key workers_rows[] = {
	INTEGER(MEMBER(workers), "count", count, 0, WEIR_SIM_WORKERS_MAX, PRESET("0"),
		"Number of workers; 0 = clients and backends are simulated instead."),
	INTEGER(MEMBER(workers), "buckets", buckets, 1, WEIR_SIM_BUCKETS_MAX, PRESET("1024"),
		"Number of buckets of flows. At the start, worker i owns the buckets i, i + count, i + 2 * count and so on."),
	NUMBER(MEMBER(workers), "load_percent", load_percent, 0.1, 1000, PRESET("50"),
		"CPU time of all packets, in percent of the capacity of all workers."),
	NUMBER(MEMBER(workers), "packets_per_second", packets_per_second, 1000, 1e9,
		PRESET("4000000"), "Packets per second in all buckets together."),
	INTEGER(MEMBER(workers), "hot_buckets", hot_buckets, 0, WEIR_SIM_BUCKETS_MAX, PRESET("0"),
		"Number of hot buckets, which share `hot_percent` of the packets evenly; the other buckets share the remaining packets."),
	NUMBER(MEMBER(workers), "hot_percent", hot_percent, 0, 100, PRESET("0"),
		"Share of the packets that belong to the hot buckets."),
	CHOICE(MEMBER(workers), "hot_place", hot_place, hot_places, PRESET("\"one\""),
		"Which buckets are hot: random buckets of `one` worker that is selected at random, or `any` random buckets."),
	MS(MEMBER(workers), "hot_every_ms", hot_every_ns, 0, DAY_MS, PRESET("0"),
		"Interval at which other buckets become hot; 0 = never."),
	INTEGER(MEMBER(workers), "ring_packets", ring_packets, 1, 1048576, PRESET("4096"),
		"Capacity of a worker's ring, in packets; further packets are dropped."),
	INTEGER(MEMBER(workers), "hold_packets", hold_packets, 1, 1048576, PRESET("8192"),
		"Maximum number of packets of a moving bucket that the thief queues while the victim empties its ring; further packets are dropped."),
	MS(MEMBER(workers), "handover_ms", handover_ns, 0, 1000, PRESET("0.1"),
		"CPU time that the hand-over of a bucket costs each of the two workers."),
	CHOICE(MEMBER(workers), "planner", planner, planners, PRESET("\"plan\""),
		"`plan`: the planner that `steal` configures. `control`: the planner of weir-control, with its constants; needs 1024 buckets."),
};
static const struct weir_json_object workers_keys = WITHIN(workers, workers_rows);

static const struct weir_json_key scenario_rows[] = {
	MS(S, "duration_ms", duration_ns, 1, DAY_MS, REQUIRED, "Simulated time."),
	MS(S, "warmup_ms", warmup_ns, 0, DAY_MS, PRESET("0"),
		"Warm-up time, which is not measured. Without `windows`, there is one window with the name `measured`: the time after the warm-up."),
	MS(S, "sample_ms", sample_ns, 1, DAY_MS, PRESET("5000"),
		"Interval between samples of the time series; at most half of `duration_ms`."),
	OBJECT(S, "clients", clients, &clients_keys, REQUIRED, "Clients, which send requests."),
	OBJECT(S, "backends", backends, &backends_keys, REQUIRED, "Backends, which serve requests."),
	OBJECT(S, "cost", cost, &distribution_keys, REQUIRED,
		"CPU time of a request on a core of speed 1."),
	OBJECT(S, "wait", wait, &distribution_keys, PRESET("{}"),
		"Time that a request waits at the backend before it uses the CPU."),
	OBJECT(S, "antagonists", antagonists, &antagonists_keys, PRESET("{}"),
		"Noisy neighbours that slow backends down."),
	OBJECT(S, "subset", subset, &subset_keys, PRESET("{}"), "Subset of backends that a client uses."),
	OBJECT(S, "policy", policy, &policy_keys, PRESET("{}"), "Policy that selects a backend from the subset."),
	OBJECT(S, "flow_control", flow_control, &flow_control_keys, PRESET("{}"),
		"Limit on active requests."),
	OBJECT(S, "slow_start", slow_start, &slow_start_keys, PRESET("{}"),
		"Slow start of backends that have become usable."),
	INTEGER(S, "table_size", table_size, 3, 16777213, PRESET("4093"),
		"Number of slots of the `maglev` table, a prime number."),
	OBJECT(S, "reports", reports, &reports_keys, PRESET("{}"),
		"Load reports and how they are used."),
	OBJECT(S, "control", control, &control_keys, PRESET("{}"),
		"Delays of weir-control, and panic mode."),
	OBJECT(S, "steal", steal, &steal_keys, PRESET("{}"),
		"Stealing: requests that wait at a busy backend move to an idle backend."),
	OBJECT(S, "workers", workers, &workers_keys, PRESET("{}"),
		"Workers of one balancer, instead of clients and backends."),
	LIST(S, "events", happening, happening_count, &happening_keys, 0, 1000, PRESET("[]"),
		"Events during the run."),
	LIST(S, "windows", window, window_count, &window_keys, 0, WEIR_SIM_WINDOWS_MAX,
		PRESET("[]"),
		"Time windows with separate results."),
	INTEGER(S, "watch", watch, 0, 65534, PRESET("0"), "Number of the watched backend, from 0. The results show its share of the requests."),
};

#define FILE_ struct weir_sim_file
#define WISH struct weir_sim_plot_request
static const struct weir_json_key request_rows[] = {
	CHOICE(WISH, "plot", kind, plots, REQUIRED, "Kind of the plot."),
	TEXT(WISH, "title", title, PRESET("\"\""), "Title of the plot."),
};
static const struct weir_json_object request_keys = {
	.name = "a plot", ROWS(request_rows), .bytes = sizeof(WISH)};

static const struct weir_json_key file_rows[] = {
	NAME(FILE_, "name", name, "Name of the scenario."),
	TEXT(FILE_, "title", title, REQUIRED, "One-line description."),
	INTEGER(FILE_, "seeds", seeds, 1, 1000, PRESET("1"),
		"Number of runs per variant: seeds 1, 2 ..."),
	LIST(FILE_, "plots", plot, plot_count, &request_keys, 0, 32, PRESET("[]"),
		"Plots written with --out."),
	{.key = "variants", .type = &weir_sim_type_elsewhere, .fallback = "[]",
		.meaning = "Variants of the scenario: objects with a `name`, and with the keys whose values differ from the root of the file."},
};
// clang-format on

static bool uses_maglev(const S *s) {
	bool uses = s->policy.name == WEIR_POLICY_MAGLEV;

	for (uint32_t i = 0; i < s->happening_count; i++) {
		uses |= s->happening[i].kind == WEIR_SIM_HAPPENING_POLICY &&
			s->happening[i].policy.name == WEIR_POLICY_MAGLEV;
	}
	return uses;
}

// Checks combinations of the values of a scenario, and reports an error for each combination that
// is not possible.
static void check_scenario(struct weir_json_reader *reader, const struct weir_json_place *at,
	void *object, const struct weir_json_keys_read *read) {
	const S *s = object;
	double of_client = s->subset.algorithm == WEIR_SUBSET_NONE || s->subset.size == 0
				   ? s->backends.count
				   : fmin(s->subset.size * 2.0, s->backends.count);

	if (!read->good) {
		return;
	}
	if ((s->clients.load_percent > 0) == (s->clients.requests_per_second > 0)) {
		weir_json_error_at(reader, at, "clients",
			"set either load_percent or requests_per_second to a value above 0");
	}
	if (weir_sim_distribution_mean(&s->cost) <= 0) {
		weir_json_error_at(
			reader, at, "cost", "the mean is 0; give requests a mean CPU time above 0");
	}
	if (of_client * s->clients.count > WEIR_SIM_PAIRS_MAX) {
		weir_json_error_at(reader, at, "subset",
			"%u clients with %.0f backends each need too much memory; use smaller "
			"subsets (at most %u pairs of a client and a backend)",
			s->clients.count, of_client, WEIR_SIM_PAIRS_MAX);
	}
	if (uses_maglev(s) && of_client > s->table_size) {
		weir_json_error_at(reader, at, "table_size",
			"%u slots are too few for %.0f backends", s->table_size, of_client);
	}
	if (s->subset.algorithm != WEIR_SUBSET_NONE && s->subset.size == 0) {
		weir_json_error_at(
			reader, at, "subset", "size is missing or 0; give a size above 0");
	}
	if (s->window_count == 0 && s->warmup_ns >= s->duration_ns) {
		weir_json_error_at(reader, at, "warmup_ms", "must be below duration_ms");
	}
	if (s->watch >= s->backends.count) {
		weir_json_error_at(reader, at, "watch",
			"there %s only %u backend%s, numbered from 0",
			s->backends.count == 1 ? "is" : "are", s->backends.count,
			weir_plural(s->backends.count));
	}
	if (s->clients.until_ns > 0 && s->clients.until_ns <= s->clients.from_ns) {
		weir_json_error_at(reader, at, "clients", "until_ms must be above from_ms");
	}
	if (s->workers.planner == WEIR_SIM_PLANNER_CONTROL && s->workers.buckets != WEIR_BUCKETS) {
		weir_json_error_at(reader, at, "workers",
			"the planner \"control\" needs %u buckets, but buckets is %u", WEIR_BUCKETS,
			s->workers.buckets);
	}
	if (s->workers.hot_buckets >
		s->workers.buckets / (s->workers.count > 0 ? s->workers.count : 1)) {
		weir_json_error_at(reader, at, "workers",
			"hot_buckets must not exceed buckets / count (the number of buckets per "
			"worker; count is %u)",
			s->workers.count);
	}
	for (uint32_t i = 0; i < s->window_count; i++) {
		struct weir_json_place windows = weir_json_place_member(at, "windows");
		struct weir_json_place element = weir_json_place_element(&windows, i);

		if (s->window[i].to_ns > s->duration_ns ||
			s->window[i].from_ns >= s->window[i].to_ns) {
			weir_json_error(reader, &element,
				"from_ms must be below to_ms, and to_ms must not exceed "
				"duration_ms");
		}
	}
	for (uint32_t i = 0; i < s->happening_count; i++) {
		struct weir_json_place events = weir_json_place_member(at, "events");
		struct weir_json_place element = weir_json_place_element(&events, i);

		if (s->happening[i].backend + s->happening[i].count > s->backends.count) {
			weir_json_error(reader, &element,
				"there %s only %u backend%s, numbered from 0",
				s->backends.count == 1 ? "is" : "are", s->backends.count,
				weir_plural(s->backends.count));
		}
	}
}

const struct weir_json_object weir_sim_scenario_keys = {.name = "the scenario",
	ROWS(scenario_rows),
	.bytes = sizeof(S),
	.beside = &weir_sim_file_keys,
	.check = check_scenario};
const struct weir_json_object weir_sim_file_keys = {
	.name = "the file", ROWS(file_rows), .bytes = sizeof(FILE_), .open = true};
