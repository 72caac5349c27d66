// SPDX-License-Identifier: BSD-3-Clause
//
// API handler metrics.show, for weir-metrics: returns the data of several other commands in one
// reply. Each service and each backend is a row of values without keys. Such rows take only about a
// third of the CPU time of backend.show and health.show.
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api_backend.h"
#include "api_binds.h"
#include "api_canary.h"
#include "api_commands.h"
#include "api_drain_sum.h"
#include "api_order.h"
#include "api_show.h"
#include "api_status.h"
#include "api_tcp.h"
#include "daemon.h"
#include "totals.h"
#include "weir_version.h"

// Position in the list of rows: services, then backends, then TCP statistics of backends.
struct figures {
	struct weir_daemon *daemon;
	const struct weir_segment *segment; // segment when the list began, NULL = none
	uint64_t epoch;
	struct weir_shares *shares; // NULL if there are no tables
	// Orders of services and backends when the list began; NULL if there are no tables.
	struct weir_api_order *services, *backends;
	uint32_t service, backend; // next indexes in `services` and `backends`
	uint32_t tcp; // next row of TCP statistics: 2 * index of the backend, + 1 for IPv6
	uint32_t unchecked[WEIR_SERVICES_MAX]; // number of unchecked backends, by service id, when
					       // the list began
};

// Returns a count as JSON; null if the count is not known.
static json_t *count_or_null(bool known, uint64_t count) {
	return known ? json_integer((json_int_t)count) : json_null();
}

// --- services -------------------------------------------------------------------------------

static bool has_checks(const struct weir_config_service *config) {
	struct weir_config_checks at = {.service = config};
	bool found = false;

	while (!found && weir_config_next_check(&at)) {
		found = at.check->type != WEIR_CHECK_NONE;
	}
	return found;
}

// Returns the durations of health checks as a Prometheus histogram: each bucket counts the checks
// that took at most its upper bound. Returns null if the service has no health check.
static json_t *check_durations(
	const struct weir_daemon *daemon, const struct weir_config_service *config, uint16_t id) {
	static const char *const bounds[] = {
#define X(us, text) text,
		WEIR_HEALTH_DURATION_BOUNDS(X)
#undef X
			"+Inf"};
	const struct weir_health_histogram *histogram =
		weir_health_durations_of(weir_health_durations(daemon->health), id);
	json_t *buckets;
	uint64_t sum = 0;

	if (histogram == NULL || !has_checks(config)) {
		return json_null();
	}
	buckets = json_object();
	for (unsigned int i = 0; i < WEIR_HEALTH_DURATIONS; i++) {
		sum += histogram->checks[i];
		json_object_set_new(buckets, bounds[i], json_integer((json_int_t)sum));
	}
	return json_pack("{s:o, s:f}", "buckets", buckets, "sum", (double)histogram->sum_us / 1e6);
}

static json_t *service_drain(const struct weir_daemon *daemon,
	const struct weir_config_service *config, const struct weir_service_state *state) {
	struct weir_drain_sum sum = {.endless = false};

	weir_drain_sum_add(&sum, config->drain.at_deadline, state->drain, state->drain_until_ns,
		state->drain_left);
	return weir_json_drains(&sum, daemon->tables);
}

// Returns the number of unchecked backends of a service, or null if the service has no health
// check.
static json_t *unchecked(const struct figures *figures, const struct weir_config_service *config,
	const struct weir_service_state *state) {
	return count_or_null(has_checks(config), figures->unchecked[state->id]);
}

#define SERVICE_COLUMNS(X) \
	X("service", json_string(config->name)) \
	X("policy", json_string(weir_policy_name((enum weir_policy)state->policy))) \
	X("forwarding", json_string(weir_forwarding_name(config->forwarding.mode))) \
	X("binds", weir_json_binds(config)) \
	X("backends", json_integer(state->backends)) \
	X("eligible", json_integer(state->eligible)) \
	X("unchecked", unchecked(figures, config, state)) \
	X("quorum_eligible", json_integer(weir_quorum_eligible(state))) \
	X("quorum", json_integer(config->quorum)) \
	X("up", weir_json_up(figures->daemon, state->id)) \
	X("panic", json_boolean(state->panic)) \
	X("on_backups", json_boolean(state->on_backups)) \
	X("drained_binds", weir_json_drained_binds(figures->daemon, config, state->id)) \
	X("drain", service_drain(figures->daemon, config, state)) \
	X("canary", weir_json_canary_state(figures->daemon, config->name)) \
	X("check_seconds", check_durations(figures->daemon, config, state->id))

static json_t *service_row(const struct figures *figures, const struct weir_config_service *config,
	const struct weir_service_state *state) {
	struct weir_share_counters counters = weir_sum_service(figures->segment, state->id);
	bool counted = figures->segment != NULL;
	json_t *row = json_array();

	json_array_append_new(row, json_string("service"));
#define X(name, value) json_array_append_new(row, value);
	SERVICE_COLUMNS(X)
#undef X
#define X(field, unit, metric, text) \
	json_array_append_new(row, count_or_null(counted, counters.field));
	WEIR_SHARE_FIGURES(X)
#undef X
	return row;
}

static const char *const service_columns[] = {"kind",
#define X(name, value) name,
	SERVICE_COLUMNS(X)
#undef X
#define X(field, unit, metric, text) #field,
		WEIR_SHARE_FIGURES(X)
#undef X
};

// --- backends -------------------------------------------------------------------------------

struct condition { // state of a backend that the tables do not contain
	struct weir_states_status states;
	struct weir_reports_status reports;
	struct weir_health_status check;
	struct weir_outliers_status outliers;
	bool known, reported, checked, ejectable;
};

static void read_condition(const struct weir_daemon *daemon, uint16_t id, struct condition *ret) {
	uint64_t now_ms = weir_daemon_now_ns() / 1000000;

	ret->known = weir_states_status(daemon->states, id, &ret->states) == 0;
	ret->reported = weir_reports_status(daemon->reports, id, &ret->reports) == 0;
	ret->checked = weir_health_status(daemon->health, id, false, &ret->check) == 0;
	ret->ejectable = weir_outliers_status(daemon->outliers, id, now_ms, &ret->outliers) == 0;
}

static json_t *utilization(const struct condition *is) {
	return is->reported && (is->reports.report->given & WEIR_REPORT(UTILIZATION)) != 0
		       ? json_real(is->reports.report->utilization)
		       : json_null();
}

#define BACKEND_COLUMNS(X) \
	X("service", json_string(state->service)) \
	X("backend", json_string(state->name)) \
	X("address", json_string(address)) \
	X("admin", json_string(weir_api_admin_name(state->admin))) \
	X("health", json_string(weir_api_health_name(state->health))) \
	X("drain", weir_json_drain(figures->daemon, state)) \
	X("leaving", json_boolean(state->leaving)) \
	X("binds_refuse_ms", weir_json_binds_refuse(figures->daemon, state)) \
	X("resolved", json_boolean(state->resolved)) \
	X("ejected", json_boolean(state->ejected)) \
	X("accept_queue_full", json_boolean(state->at_limit)) \
	X("max_active_flows", count_or_null(state->limit != 0, state->limit)) \
	X("counted_flows", weir_json_counted_flows(figures->daemon, state)) \
	X("in_selection", json_boolean(state->in_selection)) \
	X("backup", json_boolean(state->backup)) \
	X("agent_silent", agent_silent(figures->daemon, state->id)) \
	X("weight", json_integer(state->configured_weight)) \
	X("reported_weight", count_or_null(state->reported_weight != 0, state->reported_weight)) \
	X("effective_weight", json_integer(state->effective_weight)) \
	X("share_percent", weir_json_percent(weir_shares_effective(figures->shares, state))) \
	X("since_ms", count_or_null(is.known, is.states.since_ms)) \
	X("report_age_ms", count_or_null(is.reported, is.reports.age_ms)) \
	X("utilization", utilization(&is)) \
	X("ejections", count_or_null(is.ejectable, is.outliers.ejections)) \
	X("passes", count_or_null(is.checked, is.check.passes)) \
	X("fails", count_or_null(is.checked, is.check.fails)) \
	X("check_ms", count_or_null(is.checked &&is.check.checked, is.check.duration_ms))

// Returns whether the agent of a backend is silent. Returns null if the backend has no agent, or if
// the agent is not probed because there are no keys.
static json_t *agent_silent(const struct weir_daemon *daemon, uint16_t id) {
	uint64_t age_ms;
	enum weir_agent_state state = weir_probed_agents_state(daemon->probed_agents, id, &age_ms);

	return state == WEIR_AGENT_NONE || state == WEIR_AGENT_NO_KEYS
		       ? json_null()
		       : json_boolean(state == WEIR_AGENT_SILENT);
}

static json_t *backend_row(const struct figures *figures, const struct weir_backend_state *state) {
	struct weir_share_counters counters = weir_sum_backend(figures->segment, state->id);
	bool counted = figures->segment != NULL;
	char address[INET6_ADDRSTRLEN];
	struct condition is;
	json_t *row = json_array();

	read_condition(figures->daemon, state->id, &is);
	weir_address_format(&state->address, address, sizeof(address));
	json_array_append_new(row, json_string("backend"));
#define X(name, value) json_array_append_new(row, value);
	BACKEND_COLUMNS(X)
#undef X
#define X(field, unit, metric, text) \
	json_array_append_new(row, count_or_null(counted, counters.field));
	WEIR_SHARE_FIGURES(X)
#undef X
	return row;
}

static const char *const backend_columns[] = {"kind",
#define X(name, value) name,
	BACKEND_COLUMNS(X)
#undef X
#define X(field, unit, metric, text) #field,
		WEIR_SHARE_FIGURES(X)
#undef X
};

// --- rows -----------------------------------------------------------------------------------

static bool next_service(struct figures *figures, json_t **ret) {
	const struct weir_tables *tables = figures->daemon->tables;

	while (figures->service < figures->services->count) {
		const uint16_t id = figures->services->ids[figures->service++];
		const struct weir_config_service *config;
		struct weir_service_state state;

		if (weir_tables_service(tables, id, &state) < 0) {
			continue;
		}
		config = weir_config_find_service(weir_reload_config(figures->daemon->reload),
			weir_tables_service_name(tables, id));
		if (config != NULL) {
			*ret = service_row(figures, config, &state);
			return true;
		}
	}
	return false;
}

static bool next_backend(struct figures *figures, json_t **ret) {
	const struct weir_tables *tables = figures->daemon->tables;

	while (figures->backend < figures->backends->count) {
		const uint16_t id = figures->backends->ids[figures->backend++];
		struct weir_backend_state state;

		if (weir_tables_backend(tables, id, &state) == 0) {
			*ret = backend_row(figures, &state);
			return true;
		}
	}
	return false;
}

static bool next_tcp(struct figures *figures, json_t **ret) {
	while (figures->tcp / 2 < figures->backends->count) {
		const uint32_t at = figures->tcp++;

		*ret = weir_json_tcp_row(
			figures->daemon, figures->backends->ids[at / 2], at % 2 != 0);
		if (*ret != NULL) {
			return true;
		}
	}
	return false;
}

static int next_row(void *context, json_t **ret) {
	struct figures *figures = context;
	const struct weir_daemon *daemon = figures->daemon;

	if (daemon->segment != figures->segment || daemon->epoch != figures->epoch) {
		return -ECANCELED; // ids and counters have changed
	}
	return figures->shares != NULL &&
	       (next_service(figures, ret) || next_backend(figures, ret) || next_tcp(figures, ret));
}

static void free_figures(void *context) {
	struct figures *figures = context;

	free(figures->services);
	free(figures->backends);
	weir_shares_free(figures->shares);
	free(figures);
}

// --- single values --------------------------------------------------------------------------

static json_t *json_columns(const char *const *names, size_t count) {
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++) {
		json_array_append_new(list, json_string(names[i]));
	}
	return list;
}

static json_int_t cpu_us(void) {
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (json_int_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
	       used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

// Returns the values of the member "control". status: the result of the command `status`.
static json_t *json_control(const struct weir_daemon *daemon, const json_t *status) {
	const char *level = json_string_value(json_object_get(status, "level"));
	bool serving = level != NULL && strcmp(level, "critical") != 0;

	return json_pack("{s:s, s:s, s:i, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:b}", "version",
		WEIR_VERSION, "instance", weir_reload_config(daemon->reload)->instance.name, "pid",
		(int)getpid(), "started_ms", (json_int_t)daemon->started_ms, "reload_ok",
		(int)!daemon->reload_refused, "reloaded_ms", (json_int_t)daemon->reloaded_ms,
		"cpu_us", cpu_us(), "publish_us", (json_int_t)daemon->publish_us, "grace_periods",
		(json_int_t)daemon->graces, "grace_us", (json_int_t)daemon->grace_us, "serving",
		(int)serving);
}

static json_t *json_dataplane(const struct weir_daemon *daemon) {
	const struct weir_segment *segment = daemon->segment;
	uint64_t started_ms = daemon->dataplane_started_ms;

	return segment == NULL
		       ? json_null()
		       : json_pack("{s:i, s:o, s:I, s:I, s:I}", "pid",
				 (int)segment->header->dataplane_pid, "started_ms",
				 count_or_null(started_ms != 0, started_ms), "tsc_hz",
				 (json_int_t)segment->header->tsc_hz, "workers",
				 (json_int_t)segment->workers, "ports", (json_int_t)segment->ports);
}

static json_t *json_workers(const struct weir_daemon *daemon) {
	json_t *list = json_array();

	for (uint32_t worker = 0; worker < daemon->segment->workers; worker++) {
		json_array_append_new(list, weir_json_worker_row(daemon, worker, true));
	}
	return list;
}

static json_t *json_head(struct weir_daemon *daemon) {
	json_t *status = weir_json_status(daemon, -1);
	bool attached = daemon->segment != NULL;

	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}}",
		"time_ms", (json_int_t)weir_daemon_wall_ms(), "control",
		json_control(daemon, status), "status", status, "dataplane", json_dataplane(daemon),
		"workers", attached ? json_workers(daemon) : json_null(), "ports",
		attached ? weir_api_ports(daemon, NULL) : json_null(), "segment",
		attached ? weir_json_segment(daemon) : json_null(), "agents",
		weir_json_agents(daemon), "flow_steals",
		weir_json_flow_steals(daemon->flow_steals, NULL), "columns", "service",
		json_columns(service_columns, sizeof(service_columns) / sizeof(*service_columns)),
		"backend",
		json_columns(backend_columns, sizeof(backend_columns) / sizeof(*backend_columns)),
		"tcp", json_columns(weir_api_tcp_columns, weir_api_tcp_column_count));
}

void weir_api_metrics_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_api_rows rows = {.next = next_row, .free = free_figures};
	struct figures *figures = calloc(1, sizeof(*figures));

	if (figures == NULL) {
		weir_api_answer(call, NULL);
		return;
	}
	*figures = (struct figures){
		.daemon = daemon, .segment = daemon->segment, .epoch = daemon->epoch};
	if (daemon->tables != NULL) {
		figures->services = weir_api_service_order(daemon);
		figures->backends = weir_api_order(daemon);
		if (figures->services == NULL || figures->backends == NULL ||
			weir_api_shares(daemon, WEIR_SHARES_ALL, &figures->shares) < 0) {
			free_figures(figures);
			weir_api_answer(call, NULL);
			return;
		}
		weir_checks_count(daemon->health, daemon->tables, figures->unchecked);
	}
	rows.context = figures;
	weir_api_answer_rows(call, json_head(daemon), "rows", &rows);
}
