// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of hosts: host.show, host.drain, host.maintenance, host.ready. A host is the set of
// all backends with the same address, in all services. A backend that a reload has removed belongs
// to the host while it has flows or is drained, so that the drain of a host does not end before
// these flows have ended.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_audit.h"
#include "api_change.h"
#include "api_commands.h"
#include "api_counters.h"
#include "api_drain_sum.h"
#include "api_host.h"
#include "api_show.h"
#include "daemon.h"
#include "totals.h"

#define NAMES_MOST 8u // maximum number of backends named in each list of a reply

struct host {
	char address[INET6_ADDRSTRLEN];
	uint16_t *ids; // ids of its backends
	uint32_t count;
};

// Sums over the backends of a host.
struct summary {
	// Counts of configured services and backends. maintenance: backends that an operator has
	// put into maintenance, so a drain of the host does not change them.
	uint32_t services, backends, ready, maintenance;
	uint32_t removed; // removed backends with open flows
	struct weir_drain_sum drains;
	// Flows, 0 if no dataplane is attached. open_flows: only of drained and removed backends.
	uint64_t active_flows, open_flows;
	// Names of drained and removed backends. open: backends with open flows; dropped: backends
	// with dropped flows; in_use: backends that still get new flows.
	json_t *open, *dropped, *in_use;
};

static int parse(const struct weir_api_call *call, struct weir_address *ret) {
	const char *text = weir_api_text(call, "address");

	return text != NULL && weir_api_parse_address(text, ret) ? 0 : -EINVAL;
}

// Returns whether a host includes a backend: the backend is configured, has flows, or is drained.
// If no dataplane is attached, the flows are unknown, so removed backends are included.
static bool is_in_use(const struct weir_daemon *daemon, uint16_t id) {
	struct weir_backend_state state;

	return weir_tables_backend(daemon->tables, id, &state) == 0 &&
	       (!state.leaving || state.drain != WEIR_DRAIN_NONE || daemon->segment == NULL ||
		       weir_sum_backend(daemon->segment, id).active_flows > 0);
}

// Find the backends with this address. Returns 0, -ENOENT (no such backend), or -ENOMEM.
static int find(
	const struct weir_daemon *daemon, const struct weir_address *address, struct host *ret) {
	uint32_t count = weir_tables_backends_at(daemon->tables, address, NULL, 0);
	uint16_t *ids = malloc((count + 1) * sizeof(*ids));

	if (ids == NULL) {
		return -ENOMEM;
	}
	weir_address_format(address, ret->address, sizeof(ret->address));
	weir_tables_backends_at(daemon->tables, address, ids, count);
	ret->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (is_in_use(daemon, ids[i])) {
			ids[ret->count++] = ids[i];
		}
	}
	if (ret->count == 0) {
		free(ids);
		return -ENOENT;
	}
	ret->ids = ids;
	return 0;
}

// Finds the host that a call names. On an error, fails the call and returns false.
static bool find_named(struct weir_daemon *daemon, struct weir_api_call *call, struct host *ret) {
	struct weir_address address;
	int r;

	if (!weir_api_has_tables(daemon, call)) {
		return false;
	}
	if (parse(call, &address) < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"argument \"address\" must be an IPv4 or IPv6 address");
		return false;
	}
	r = find(daemon, &address, ret);
	if (r == -ENOENT) {
		weir_api_fail(
			call, WEIR_API_NOT_FOUND, "no backend has the address %s", ret->address);
	} else if (r < 0) {
		weir_api_answer(call, NULL);
	}
	return r == 0;
}

static void add_name(json_t *names, const struct weir_backend_state *state) {
	char name[2 * WEIR_NAME_BYTES];

	if (names != NULL && json_array_size(names) < NAMES_MOST) {
		snprintf(name, sizeof(name), "%s/%s", state->service, state->name);
		json_array_append_new(names, json_string(name));
	}
}

static void add_drain(const struct weir_daemon *daemon, const struct weir_backend_state *state,
	struct summary *sum) {
	struct weir_share_counters counters = weir_sum_backend(daemon->segment, state->id);

	sum->active_flows += counters.active_flows;
	sum->removed += state->leaving && counters.open_flows > 0;
	if (state->drain == WEIR_DRAIN_NONE && !state->leaving) {
		return;
	}
	weir_drain_sum_add(&sum->drains, weir_drains_backend_at_deadline(daemon->tables, state),
		state->drain, state->drain_until_ns, state->drain_left);
	sum->open_flows += counters.open_flows;
	if (state->drain == WEIR_DRAIN_DROPPED) { // for a moment, the backend's counters still
						  // include the dropped flows
		add_name(state->drain_left > 0 ? sum->dropped : NULL, state);
	} else if (counters.open_flows > 0) {
		add_name(sum->open, state);
	}
	if (state->in_selection) {
		add_name(sum->in_use, state);
	}
}

static void sum_up(const struct weir_daemon *daemon, const struct host *host, struct summary *sum) {
	uint64_t seen[WEIR_SERVICES_MAX / 64] = {0};

	for (uint32_t i = 0; i < host->count; i++) {
		struct weir_backend_state state;
		uint64_t bit;

		if (weir_tables_backend(daemon->tables, host->ids[i], &state) < 0) {
			continue;
		}
		add_drain(daemon, &state, sum);
		if (state.leaving) {
			continue;
		}
		sum->backends++;
		bit = 1ull << state.service_id % 64;
		sum->services += (seen[state.service_id / 64] & bit) == 0;
		seen[state.service_id / 64] |= bit;
		sum->ready += state.admin == WEIR_ADMIN_READY;
		sum->maintenance +=
			state.admin == WEIR_ADMIN_MAINTENANCE && state.drain == WEIR_DRAIN_NONE;
	}
}

static json_t *json_host(const struct weir_daemon *daemon, const struct host *host) {
	struct summary sum = {.open = daemon->segment != NULL ? json_array() : NULL,
		.dropped = json_array(),
		.in_use = json_array()};

	sum_up(daemon, host, &sum);
	return json_pack(
		"{s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o?, s:o, s:o}",
		"address", host->address, "services", (json_int_t)sum.services, "backends",
		(json_int_t)sum.backends, "ready", (json_int_t)sum.ready, "maintenance",
		(json_int_t)sum.maintenance, "removed", weir_json_count(daemon, sum.removed),
		"draining", (json_int_t)sum.drains.phases[WEIR_DRAIN_DRAINING], "drained",
		(json_int_t)sum.drains.phases[WEIR_DRAIN_DRAINED], "kept",
		(json_int_t)sum.drains.phases[WEIR_DRAIN_KEPT], "dropped",
		(json_int_t)sum.drains.phases[WEIR_DRAIN_DROPPED], "active_flows",
		weir_json_count(daemon, sum.active_flows), "open_flows",
		weir_json_count(daemon, sum.open_flows), "drain",
		weir_json_drains(&sum.drains, daemon->tables), "open", sum.open, "dropped_from",
		sum.dropped, "in_use", sum.in_use);
}

void weir_api_host_describe(
	const struct weir_daemon *daemon, const struct weir_api_call *call, char *value) {
	struct summary sum = {0};
	struct weir_address address;
	struct host host;
	uint32_t drained;

	if (daemon->tables == NULL || parse(call, &address) < 0 ||
		find(daemon, &address, &host) < 0) {
		return;
	}
	sum_up(daemon, &host, &sum);
	drained = sum.backends - sum.ready - sum.maintenance;
	snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%u ready, %u drain, %u maintenance", sum.ready,
		drained, sum.maintenance);
	weir_api_append_deadline(weir_drain_sum_deadline(&sum.drains), value);
	free(host.ids);
}

// --- handlers -------------------------------------------------------------------------------

void weir_api_host_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct host host;

	if (find_named(daemon, call, &host)) {
		weir_api_answer(call, json_host(daemon, &host));
		free(host.ids);
	}
}

// Keeps in `host` only the backends that a drain of the host changes.
static void select_backends(const struct weir_daemon *daemon, struct host *host) {
	uint32_t n = 0;

	for (uint32_t i = 0; i < host->count; i++) {
		struct weir_backend_state state;

		if (weir_tables_backend(daemon->tables, host->ids[i], &state) == 0 &&
			(state.leaving || state.admin != WEIR_ADMIN_MAINTENANCE ||
				state.drain == WEIR_DRAIN_DROPPED)) {
			host->ids[n++] = host->ids[i];
		}
	}
	host->count = n;
}

// Returns the warnings about the services of a host, at most one for each service, and one about
// connections of the host that move.
static json_t *json_drain_warnings(const struct weir_daemon *daemon, const struct host *host) {
	uint64_t seen[WEIR_SERVICES_MAX / 64] = {0};
	json_t *warnings = json_array();
	bool moves = false;

	for (uint32_t i = 0; i < host->count; i++) {
		struct weir_backend_state state;
		json_t *more;
		uint64_t bit;

		if (weir_tables_backend(daemon->tables, host->ids[i], &state) < 0 ||
			state.leaving) {
			continue;
		}
		moves |= weir_api_moves_flows(daemon, &state);
		bit = 1ull << state.service_id % 64;
		if ((seen[state.service_id / 64] & bit) != 0) {
			continue;
		}
		seen[state.service_id / 64] |= bit;
		more = weir_json_service_warnings(daemon, &state);
		json_array_extend(warnings, more);
		json_decref(more);
	}
	if (moves) {
		json_array_append_new(warnings, weir_json_moves_flows(host->address));
	}
	return warnings;
}

// Publishes a change of the backends of a host, and answers the call with the state of the host.
static void answer_changed(struct weir_daemon *daemon, struct weir_api_call *call) {
	json_t *result;
	struct host host;

	weir_api_publish_now(daemon, call);
	if (find_named(daemon, call, &host)) { // also the backends in maintenance
		result = json_host(daemon, &host);
		json_object_set_new(result, "warnings", json_drain_warnings(daemon, &host));
		weir_api_answer(call, result);
		free(host.ids);
	}
}

void weir_api_host_drain(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct host host;
	uint64_t until_ns;
	int r;

	if (!weir_api_deadline(call, &until_ns) || !find_named(daemon, call, &host)) {
		return;
	}
	select_backends(daemon, &host);
	r = weir_drains_begin(&daemon->drains, daemon->tables, host.ids, host.count, until_ns);
	free(host.ids);
	if (r < 0) {
		weir_api_answer(call, NULL);
		return;
	}
	answer_changed(daemon, call);
}

void weir_api_host_maintenance(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_backend_state state;
	struct host host;

	if (!find_named(daemon, call, &host)) {
		return;
	}
	for (uint32_t i = 0; i < host.count; i++) {
		if (weir_tables_backend(daemon->tables, host.ids[i], &state) == 0 &&
			!state.leaving) {
			weir_tables_set_admin(daemon->tables, host.ids[i], WEIR_ADMIN_MAINTENANCE);
		}
	}
	free(host.ids);
	answer_changed(daemon, call);
}

static bool is_in_maintenance(const struct weir_daemon *daemon, const struct host *host) {
	struct summary sum = {0};

	sum_up(daemon, host, &sum);
	return sum.backends > 0 && sum.maintenance == sum.backends;
}

void weir_api_host_ready(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_backend_state state;
	struct host host;
	bool all;

	if (!find_named(daemon, call, &host)) {
		return;
	}
	all = is_in_maintenance(daemon, &host);
	for (uint32_t i = 0; i < host.count; i++) {
		if (weir_tables_backend(daemon->tables, host.ids[i], &state) < 0 ||
			(!all && state.drain == WEIR_DRAIN_NONE)) {
			continue;
		}
		// A removed backend gets no new flows, even after its drain is ended.
		if (state.leaving) {
			weir_tables_set_admin(daemon->tables, host.ids[i], WEIR_ADMIN_READY);
		} else {
			weir_api_make_ready(daemon, host.ids[i]);
		}
	}
	weir_api_publish_now(daemon, call);
	weir_api_answer(call, json_host(daemon, &host));
	free(host.ids);
}
