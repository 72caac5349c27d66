// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers that show the current state: version, backend.show, flow.count, health.show,
// port.show.
#include "api_show.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api_backend.h"
#include "api_commands.h"
#include "api_counters.h"
#include "api_drain_sum.h"
#include "api_order.h"
#include "daemon.h"
#include "flow_state.h"
#include "port_link.h"
#include "totals.h"
#include "weir_version.h"

static const char *const admin_names[] = {
#define X(name, key) [WEIR_ADMIN_##name] = key,
	WEIR_ADMIN_STATES(X)
#undef X
};

static const char *const flow_state_names[] = {
#define X(name, key) [WEIR_FLOW_##name] = key,
	WEIR_FLOW_STATES(X)
#undef X
};

// Returns the name of a state, or "unknown". States are bytes of shared memory, so any value can
// occur.
static const char *name_of(const char *const *names, size_t count, uint8_t state) {
	return state < count ? names[state] : "unknown";
}

const char *weir_api_admin_name(uint8_t state) {
	return name_of(admin_names, sizeof(admin_names) / sizeof(admin_names[0]), state);
}

const char *weir_api_flow_state_name(uint8_t state) {
	return name_of(
		flow_state_names, sizeof(flow_state_names) / sizeof(flow_state_names[0]), state);
}

const char *weir_api_health_name(uint8_t state) {
	return state <= WEIR_HEALTH_REFUSING ? weir_health_state_name((enum weir_health_state)state)
					     : "unknown";
}

void weir_api_version(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_segment *segment = daemon->segment;
	json_t *dataplane = json_pack("{s:b}", "attached", segment != NULL);

	if (segment != NULL) {
		char epoch[17];

		snprintf(epoch, sizeof(epoch), "%016llx", (unsigned long long)segment->epoch);
		json_object_set_new(dataplane, "pid", json_integer(segment->header->dataplane_pid));
		json_object_set_new(dataplane, "epoch", json_string(epoch));
		json_object_set_new(dataplane, "workers", json_integer(segment->workers));
		json_object_set_new(dataplane, "ports", json_integer(segment->ports));
	}
	weir_api_answer(call,
		json_pack("{s:s, s:i, s:s, s:s?, s:o}", "version", WEIR_VERSION, "pid",
			(int)getpid(), "config", weir_reload_file_in_use(daemon->reload),
			"config_unused", daemon->file_why[0] != '\0' ? daemon->file_why : NULL,
			"dataplane", dataplane));
}

// --- lists of backends, row by row --------------------------------------------------------

struct backend_list;
typedef json_t *(*row_of)(const struct backend_list *list, const struct weir_backend_state *state);

struct backend_list {
	struct weir_daemon *daemon;
	const struct weir_segment *segment; // segment when the list began
	uint64_t epoch;
	row_of row;
	const char *service; // service named in the request; NULL = all services
	bool leaving; // include removed backends that are still in the tables
	struct weir_shares *shares; // or NULL
	struct weir_api_order *order;
	uint32_t next; // index in the order
};

// Returns whether the list contains a backend; if it does, copies the state of the backend to
// *ret_state. The state is copied last to save time: even a list for one service visits the
// backends of all services.
static bool is_in(
	const struct backend_list *list, uint16_t id, struct weir_backend_state *ret_state) {
	const struct weir_tables *tables = list->daemon->tables;
	uint16_t service = weir_tables_backend_service(tables, id);
	const char *name =
		service != WEIR_SERVICE_NONE ? weir_tables_service_name(tables, service) : NULL;

	return name != NULL && (list->service == NULL || strcmp(list->service, name) == 0) &&
	       weir_tables_backend(tables, id, ret_state) == 0 &&
	       (list->leaving || !ret_state->leaving);
}

static int next_backend(void *context, json_t **ret) {
	struct backend_list *list = context;
	const struct weir_daemon *daemon = list->daemon;

	if (daemon->segment != list->segment || daemon->epoch != list->epoch) {
		return -ECANCELED; // ids and counters have changed
	}
	while (list->next < list->order->count) {
		struct weir_backend_state state;

		if (is_in(list, list->order->ids[list->next++], &state)) {
			*ret = list->row(list, &state);
			return 1;
		}
	}
	return 0;
}

static void free_list(void *context) {
	struct backend_list *list = context;

	weir_shares_free(list->shares);
	free(list->order);
	free(list);
}

// Prepares a list of backends. Returns 0 or -ENOMEM.
static int list_backends(struct weir_daemon *daemon, const char *service, row_of row, bool leaving,
	struct weir_api_rows *ret) {
	struct backend_list *list = calloc(1, sizeof(*list));

	struct weir_api_order *order = weir_api_order(daemon);

	if (list == NULL || order == NULL) {
		free(order);
		free(list);
		return -ENOMEM;
	}
	*list = (struct backend_list){.order = order,
		.daemon = daemon,
		.segment = daemon->segment,
		.epoch = daemon->epoch,
		.row = row,
		.service = service,
		.leaving = leaving};
	*ret = (struct weir_api_rows){.next = next_backend, .free = free_list, .context = list};
	return 0;
}

static void answer_list(
	struct weir_daemon *daemon, struct weir_api_call *call, row_of row, bool leaving) {
	struct weir_api_rows rows;

	if (list_backends(daemon, weir_api_text(call, "service"), row, leaving, &rows) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	weir_api_answer_rows(call, NULL, NULL, &rows);
}

// --- backends -----------------------------------------------------------------------------

json_t *weir_json_percent(double value) {
	double scale = 100;

	while (value > 0 && value * scale < 100 && scale < 1e9) {
		scale *= 10;
	}
	return json_real(round(value * scale) / scale);
}

json_t *weir_json_percent_or_null(double value) {
	return value < 0 ? json_null() : weir_json_percent(value);
}

json_t *weir_json_drain(const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	enum weir_config_at_deadline then = weir_drains_backend_at_deadline(daemon->tables, state);
	struct weir_drain_sum sum = {.endless = false};
	uint64_t until_ns = state->drain_until_ns;
	struct weir_service_state service;
	uint8_t drain = state->drain;
	json_t *object;

	if (state->leaving &&
		weir_tables_service(daemon->tables, state->service_id, &service) == 0 &&
		service.leaving &&
		service.removal == WEIR_DRAIN_DRAINING) { // the backend drains with its service
		drain = WEIR_DRAIN_DRAINING;
		until_ns = service.removal_until_ns;
		then = service.down_flags == WEIR_BACKEND_RESET ? WEIR_AT_DEADLINE_DROP
								: WEIR_AT_DEADLINE_KEEP;
	}
	weir_drain_sum_add(&sum, then, drain, until_ns, state->drain_left);
	object = weir_json_drains(&sum, daemon->tables);
	if (json_is_object(object)) { // set at_deadline even after the end of the drain
		json_object_set_new(
			object, "at_deadline", json_string(weir_config_at_deadline_name(then)));
	}
	return object;
}

json_t *weir_json_binds_refuse(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	const uint64_t now_ns = weir_daemon_now_ns();
	struct weir_service_state service;

	if (!state->leaving ||
		weir_tables_service(daemon->tables, state->service_id, &service) < 0 ||
		!service.leaving || service.removal != WEIR_DRAIN_DROPPED) {
		return json_null();
	}
	return json_integer(service.removal_until_ns > now_ns
				    ? (json_int_t)((service.removal_until_ns - now_ns) / 1000000)
				    : 0);
}

// Returns the state of the canary that has set the weight of a backend, or null.
static json_t *json_canary(
	const struct weir_daemon *daemon, const struct weir_backend_state *state) {
	const char *canary = NULL;

	if (state->runtime_weight != WEIR_WEIGHT_UNSET && !state->leaving) {
		canary = weir_canaries_keeping(daemon->canaries, state->service, state->name);
	}
	return canary != NULL ? json_string(canary) : json_null();
}

static json_t *json_backend(struct weir_daemon *daemon, const struct weir_backend_state *state,
	const struct weir_shares *shares) {
	struct weir_share_counters counters = weir_sum_backend(daemon->segment, state->id);
	char address[INET6_ADDRSTRLEN];
	json_t *object;

	object = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:b, s:b, s:b, s:I, s:o, s:I, s:o, s:o}",
		"service", state->service, "name", state->name, "id", (int)state->id, "address",
		weir_address_format(&state->address, address, sizeof(address)), "admin",
		weir_api_admin_name(state->admin), "health", weir_api_health_name(state->health),
		"leaving", (int)state->leaving, "resolved", (int)state->resolved, "in_selection",
		(int)state->in_selection, "weight", (json_int_t)state->configured_weight,
		"runtime_weight",
		state->runtime_weight == WEIR_WEIGHT_UNSET
			? json_null()
			: json_integer((json_int_t)state->runtime_weight),
		"effective_weight", (json_int_t)state->effective_weight, "share_percent",
		weir_json_percent(weir_shares_effective(shares, state)), "achieved_percent",
		weir_json_percent_or_null(weir_shares_achieved(shares, state)));
	if (object != NULL) {
		json_object_set_new(
			object, "binds_refuse_ms", weir_json_binds_refuse(daemon, state));
		json_object_set_new(object, "backup", json_boolean(state->backup));
		json_object_set_new(object, "ejected", json_boolean(state->ejected));
		json_object_set_new(object, "path_mtu",
			state->path_mtu == 0 ? json_null() : json_integer(state->path_mtu));
		json_object_set_new(object, "forwarding",
			json_string(weir_forwarding_name(
				(enum weir_forwarding_mode)state->forwarding.mode)));
		json_object_set_new(object, "gue_port",
			state->forwarding.mode == WEIR_FORWARDING_GUE
				? json_integer(state->forwarding.gue_port)
				: json_null());
		json_object_set_new(object, "gre_key",
			state->forwarding.mode == WEIR_FORWARDING_GRE
				? json_integer(state->forwarding.gre_key)
				: json_null());
		json_object_set_new(object, "drain", weir_json_drain(daemon, state));
		json_object_set_new(object, "slow_start_percent",
			state->share.part == 0 ? json_null()
					       : weir_json_percent(100.0 * state->share.part /
								   WEIR_POLICY_PART_ONE));
		json_object_set_new(object, "canary", json_canary(daemon, state));
		weir_json_condition(object, daemon, state);
		weir_json_share(object, daemon->segment != NULL ? &counters : NULL);
	}
	return object;
}

int weir_api_shares(const struct weir_daemon *daemon, uint32_t service, struct weir_shares **ret) {
	struct weir_shares_of of = {
		.tables = daemon->tables, .segment = daemon->segment, .recent = &daemon->recent};

	return weir_shares_create(&of, service, ret);
}

static json_t *backend_row(
	const struct backend_list *list, const struct weir_backend_state *state) {
	return json_backend(list->daemon, state, list->shares);
}

int weir_api_backend_rows(
	struct weir_daemon *daemon, const char *service, struct weir_api_rows *ret) {
	struct weir_shares_of of = {.tables = daemon->tables, .segment = daemon->segment};
	int only = service != NULL ? weir_tables_service_find(daemon->tables, service) : -1;
	struct weir_shares *shares;
	int r = weir_shares_create(&of, only >= 0 ? (uint32_t)only : WEIR_SHARES_ALL, &shares);

	if (r < 0) {
		return r;
	}
	r = list_backends(daemon, service, backend_row, true, ret);
	if (r < 0) {
		weir_shares_free(shares);
		return r;
	}
	((struct backend_list *)ret->context)->shares = shares;
	return 0;
}

// Lists the backends with this name, and frees the context of rows. Several services can have a
// backend of this name, and removed backends can have it, too.
static json_t *json_named(
	struct weir_daemon *daemon, struct weir_api_rows *rows, const char *name) {
	struct backend_list *list = rows->context;
	json_t *named = json_array();

	for (uint32_t i = 0; i < list->order->count; i++) {
		struct weir_backend_state state;
		uint16_t id = list->order->ids[i];
		const char *known = weir_tables_backend_name(daemon->tables, id);

		if (known != NULL && strcmp(name, known) == 0 && is_in(list, id, &state)) {
			json_array_append_new(named, list->row(list, &state));
		}
	}
	rows->free(list);
	return named;
}

void weir_api_backend_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");
	const char *backend = weir_api_text(call, "backend");
	struct weir_api_rows rows;
	json_t *list;

	if (!weir_api_has_tables(daemon, call) ||
		(service != NULL && weir_api_find_service(daemon, call) < 0)) {
		return;
	}
	if (weir_api_backend_rows(daemon, service, &rows) < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	if (backend == NULL) {
		weir_api_answer_rows(call, NULL, NULL, &rows);
		return;
	}
	list = json_named(daemon, &rows, backend);
	if (json_array_size(list) == 0) {
		json_decref(list);
		if (service == NULL) {
			weir_api_no_backend(daemon, call, backend, true);
		} else {
			weir_api_fail(call, WEIR_API_NOT_FOUND,
				"no such backend: \"%.100s\" in service %.100s", backend, service);
		}
		return;
	}
	weir_api_answer(call, list);
}

static json_t *flow_row(const struct backend_list *list, const struct weir_backend_state *state) {
	char address[INET6_ADDRSTRLEN];

	return json_pack("{s:s, s:s, s:s, s:I}", "service", state->service, "backend", state->name,
		"address", weir_address_format(&state->address, address, sizeof(address)),
		"active_flows",
		(json_int_t)weir_tables_backend_flows(list->daemon->tables, state->id));
}

void weir_api_flow_count(struct weir_daemon *daemon, struct weir_api_call *call) {
	if (weir_api_has_tables(daemon, call) && weir_api_has_dataplane(daemon, call) &&
		(weir_api_text(call, "service") == NULL ||
			weir_api_find_service(daemon, call) >= 0)) {
		answer_list(daemon, call, flow_row, true);
	}
}

// --- health -------------------------------------------------------------------------------

// Returns the last result of a health check as JSON; null if no check has ended yet.
static json_t *json_last(const struct weir_health_status *status) {
	if (!status->checked) {
		return json_null();
	}
	return json_pack("{s:o, s:s, s:I, s:I}", "ok",
		status->without_result ? json_null() : json_boolean(status->passed), "detail",
		status->detail, "duration_ms", (json_int_t)status->duration_ms, "age_ms",
		(json_int_t)status->age_ms);
}

// Returns the state of the agent-check that runs alongside the health check of a backend; null if
// there is no agent-check.
static json_t *json_agent_check(const struct weir_daemon *daemon, uint16_t backend) {
	struct weir_health_status status;

	if (weir_health_status(daemon->health, backend, true, &status) < 0) {
		return json_null();
	}
	return json_pack("{s:o, s:I, s:I}", "last", json_last(&status), "passes",
		(json_int_t)status.passes, "fails", (json_int_t)status.fails);
}

// Adds the ejection of a backend to its row. `ejections` is null for a backend that cannot be
// ejected. `ejected_ms` is null unless the backend is ejected now.
static void add_ejection(const struct weir_daemon *daemon, uint16_t id, json_t *row) {
	struct weir_outliers_status status = {0};
	bool can = weir_outliers_status(
			   daemon->outliers, id, weir_daemon_now_ns() / 1000000, &status) == 0;

	json_object_set_new(row, "ejected_ms",
		status.left_ms > 0 ? json_integer((json_int_t)status.left_ms) : json_null());
	json_object_set_new(
		row, "ejections", can ? json_integer((json_int_t)status.ejections) : json_null());
}

static json_t *health_row(const struct backend_list *list, const struct weir_backend_state *state) {
	const struct weir_daemon *daemon = list->daemon;
	struct weir_states_status known = {.why = ""};
	struct weir_health_status status;
	json_t *row = json_pack("{s:s, s:s, s:s}", "service", state->service, "backend",
		state->name, "health", weir_api_health_name(state->health));
	bool checked = weir_health_status(daemon->health, state->id, false, &status) == 0;

	if (weir_states_status(daemon->states, state->id, &known) == 0) {
		json_object_set_new(row, "since_ms", json_integer((json_int_t)known.since_ms));
		json_object_set_new(row, "word",
			json_string(
				weir_health_word_name((enum weir_health_word)known.facts.word)));
	}
	json_object_set_new(row, "why", json_string(known.why));
	weir_json_unchecked(row, daemon, state->id);
	add_ejection(daemon, state->id, row);
	if (!checked) {
		status = (struct weir_health_status){.type = WEIR_CHECK_NONE};
	}
	json_object_set_new(row, "check", json_string(weir_config_check_name(status.type)));
	json_object_set_new(
		row, "via", checked ? json_string(weir_config_via_name(status.via)) : json_null());
	json_object_set_new(row, "interval_ms",
		checked ? json_integer((json_int_t)status.interval_ms) : json_null());
	json_object_set_new(row, "last", json_last(&status));
	json_object_set_new(row, "passes", json_integer((json_int_t)status.passes));
	json_object_set_new(row, "fails", json_integer((json_int_t)status.fails));
	json_object_set_new(row, "agent_check", json_agent_check(daemon, state->id));
	return row;
}

void weir_api_health_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	if (weir_api_has_tables(daemon, call) &&
		(weir_api_text(call, "service") == NULL ||
			weir_api_find_service(daemon, call) >= 0)) {
		answer_list(daemon, call, health_row, false);
	}
}

// --- ports --------------------------------------------------------------------------------

static json_t *json_xstats(const struct weir_port_counters *counters) {
	uint64_t n = weir_counter_read(&counters->xstats);
	json_t *xstats = json_object();

	for (uint64_t i = 0; i < n && i < WEIR_PORT_XSTATS; i++) {
		const struct weir_port_xstat *xstat = &counters->xstat[i];
		uint64_t value = weir_counter_read(&xstat->value);
		char name[sizeof(xstat->name)];

		memcpy(name, xstat->name, sizeof(name));
		name[sizeof(name) - 1] = '\0';
		if (value != 0) {
			json_object_set_new(xstats, name, json_integer((json_int_t)value));
		}
	}
	return xstats;
}

static json_t *json_port(const struct weir_daemon *daemon, uint32_t number) {
	const enum weir_link_state link =
		weir_port_link(daemon->segment, weir_reload_config(daemon->reload), number);
	const struct weir_segment *segment = daemon->segment;
	struct weir_port_info port = segment->header->port[number];
	char mac[18];
	json_t *object;

	port.name[sizeof(port.name) - 1] = '\0';
	port.kernel_interface[sizeof(port.kernel_interface) - 1] = '\0';
	snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", port.mac[0], port.mac[1],
		port.mac[2], port.mac[3], port.mac[4], port.mac[5]);
	object = json_pack("{s:I, s:s, s:s, s:i, s:o, s:o, s:s?, s:b}", "port", (json_int_t)number,
		"name", port.name, "mac", mac, "mtu", (int)port.mtu, "vlan",
		port.vlan != 0 ? json_integer(port.vlan) : json_null(), "kernel_interface",
		port.kernel_interface[0] != '\0' ? json_string(port.kernel_interface) : json_null(),
		"link", link != WEIR_LINK_UNKNOWN ? weir_link_state_name(link) : NULL, "steered",
		(int)port.steered);
	if (object != NULL) {
		weir_json_port(object, &segment->port_counters[number]);
		json_object_set_new(object, "xstats", json_xstats(&segment->port_counters[number]));
	}
	return object;
}

json_t *weir_api_ports(const struct weir_daemon *daemon, const char *name) {
	const struct weir_segment *segment = daemon->segment;
	json_t *list = json_array();

	for (uint32_t i = 0; i < segment->ports; i++) {
		if (name == NULL ||
			strncmp(name, segment->header->port[i].name, WEIR_NAME_BYTES) == 0) {
			json_array_append_new(list, json_port(daemon, i));
		}
	}
	return list;
}

void weir_api_port_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *name = weir_api_text(call, "port");
	json_t *list;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	list = weir_api_ports(daemon, name);
	if (name != NULL && json_array_size(list) == 0) {
		json_decref(list);
		weir_api_fail(call, WEIR_API_NOT_FOUND, "no such port: \"%.100s\"", name);
		return;
	}
	weir_api_answer(call, list);
}

json_t *weir_json_up(const struct weir_daemon *daemon, uint16_t service) {
	const int up = weir_quorums_is_up(&daemon->quorums, daemon->tables, service);

	return up < 0 ? json_null() : json_boolean(up);
}
