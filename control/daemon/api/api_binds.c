// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of drained binds: bind.show, bind.drain, bind.ready. The argument `service` selects
// all binds of a service, and the argument `address` all binds of a VIP, in all services. With both
// arguments, the binds of this service with this VIP are selected.
#include "api_binds.h"

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
#include "daemon.h"
#include "duration.h"
#include "plural.h"
#include "totals.h"

#define NAMES_MOST 8u // maximum number of services named in a reply

struct selected {
	int only; // id of the only service; negative = all services
	bool by_address;
	struct weir_address address;
};

struct summary {
	uint32_t services, binds;
	uint32_t drained; // drained binds among the selected binds
	// Binds of the selected services that are not selected and not drained.
	uint32_t others;
	// Drained binds that are not selected. They share the deadline of their service.
	uint32_t others_drained;
	uint32_t others_removed; // removed binds that still drain; their flows are counted in
				 // active_flows and open_flows
	bool lost; // a reload took binds away from some of the selected services
	struct weir_drain_sum drains; // the drains of the services that have drained binds
	uint64_t until_ns; // the latest deadline in `drains`, even if it has passed
	bool endless; // at least one drain in `drains` has no deadline
	uint64_t active_flows, open_flows; // 0 if no dataplane is attached
	// number of services that a reload removed from the VIP and that have open flows, or may
	// have open flows because no dataplane is attached
	uint32_t removed;
	json_t *names; // names of the first NAMES_MOST of the `removed` services, or NULL
};

static const struct weir_address *address_of(const struct selected *selected) {
	return selected->by_address ? &selected->address : NULL;
}

static int parse(
	const struct weir_daemon *daemon, const struct weir_api_call *call, struct selected *ret) {
	const char *address = weir_api_text(call, "address");
	const char *service = weir_api_text(call, "service");

	*ret = (struct selected){.only = -1, .by_address = address != NULL};
	if ((address == NULL && service == NULL) ||
		(address != NULL && !weir_api_parse_address(address, &ret->address))) {
		return -EINVAL;
	}
	if (service != NULL) {
		ret->only = weir_tables_service_find(daemon->tables, service);
	}
	return service != NULL && ret->only < 0 ? -ENOENT : 0;
}

// Returns the lowest id, at least `from`, of a service with selected binds, or -ENOENT.
static int next_service(
	const struct weir_daemon *daemon, const struct selected *selected, uint32_t from) {
	uint32_t ids = weir_tables_service_ids(daemon->tables);

	for (uint32_t id = from; id < ids; id++) {
		if ((selected->only < 0 || (uint32_t)selected->only == id) &&
			weir_tables_select_binds(
				daemon->tables, (uint16_t)id, address_of(selected)) > 0) {
			return (int)id;
		}
	}
	return -ENOENT;
}

const char *weir_removal_text(
	const struct weir_service_state *state, char buffer[WEIR_REMOVAL_TEXT_BYTES]) {
	const uint64_t now_ns = weir_daemon_now_ns(), until_ns = state->removal_until_ns;
	char left[WEIR_DURATION_BYTES];

	snprintf(buffer, WEIR_REMOVAL_TEXT_BYTES,
		"new flows are refused for another %s, open connections %s",
		weir_duration_text(until_ns > now_ns ? (until_ns - now_ns) / 1000000 : 0, left),
		state->removal == WEIR_DRAIN_DROPPED ? "are reset"
		: state->down_flags == WEIR_BACKEND_RESET
			? "continue for this time, and are then reset"
			: "continue");
	return buffer;
}

// Returns a text for the end of the error message about an unknown VIP: ": removed from service
// web; ..." if connections to the VIP continue after a reload removed it, otherwise "".
static const char *removed_text(const struct weir_daemon *daemon, const struct selected *selected,
	char *text, size_t bytes) {
	struct weir_service_state state;
	char then[WEIR_REMOVAL_TEXT_BYTES];
	int id = -1;

	text[0] = '\0';
	while (selected->by_address &&
		(id = weir_tables_next_removal(daemon->tables, (uint32_t)(id + 1))) >= 0) {
		if (weir_tables_has_lost(daemon->tables, (uint16_t)id, &selected->address) &&
			weir_tables_service(daemon->tables, (uint16_t)id, &state) == 0) {
			snprintf(text, bytes, ": removed from service %.64s; %s",
				weir_tables_service_name(daemon->tables, (uint16_t)id),
				weir_removal_text(&state, then));
			break;
		}
	}
	return text;
}

// Find the binds that a call selects. On an error, fails the call and returns false.
static bool find_named(
	struct weir_daemon *daemon, struct weir_api_call *call, struct selected *ret) {
	char removed[256];
	int r;

	if (!weir_api_has_tables(daemon, call)) {
		return false;
	}
	r = parse(daemon, call, ret);
	if (r == -ENOENT) {
		weir_api_find_service(daemon, call);
		return false;
	}
	if (r < 0) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"the request needs the argument \"service\", or the argument "
			"\"address\" with an IPv4 or IPv6 address");
		return false;
	}
	if (next_service(daemon, ret, 0) < 0) {
		weir_api_fail(call, WEIR_API_NOT_FOUND, "no %s has the VIP %.100s%s",
			ret->only >= 0 ? "bind of the service" : "service",
			weir_api_text(call, "address"),
			removed_text(daemon, ret, removed, sizeof(removed)));
		return false;
	}
	return true;
}

static void add(const struct weir_daemon *daemon, const struct selected *selected, uint16_t id,
	struct summary *sum) {
	struct weir_share_counters counters = weir_sum_service(daemon->segment, id);
	uint32_t selects = weir_tables_select_binds(daemon->tables, id, address_of(selected));
	uint32_t drained = weir_tables_select_drained(daemon->tables, id, address_of(selected));
	uint32_t unselected = weir_tables_select_binds(daemon->tables, id, NULL) - selects;
	uint32_t others_drained = weir_tables_drained_binds(daemon->tables, id) - drained;
	struct weir_service_state state;

	if (weir_tables_service(daemon->tables, id, &state) < 0) {
		return;
	}
	sum->services++;
	sum->binds += selects;
	sum->drained += drained;
	sum->others += unselected - others_drained;
	sum->others_drained += others_drained;
	sum->others_removed += state.removed_binds;
	sum->lost |= state.lost_binds;
	sum->active_flows += counters.active_flows;
	sum->open_flows += counters.open_flows;
	if (drained > 0) {
		weir_drain_sum_add(&sum->drains,
			weir_drains_at_deadline(
				daemon->tables, weir_tables_service_name(daemon->tables, id)),
			state.drain, state.drain_until_ns, state.drain_left);
		sum->endless |= state.drain_until_ns == 0;
		sum->until_ns =
			state.drain_until_ns > sum->until_ns ? state.drain_until_ns : sum->until_ns;
	}
}

// Adds the flows of a service that a reload removed from the VIP to the summary. These flows count
// as draining until the deadline of the VIP's drain, even if the removal has another deadline, and
// as kept after that deadline.
static void add_removed(const struct weir_daemon *daemon, const struct weir_service_state *state,
	struct summary *sum) {
	const uint64_t moves = weir_tables_moves(daemon->tables);
	struct weir_share_counters counters = weir_sum_service(daemon->segment, state->id);
	const uint64_t until_ns = sum->endless ? 0 : sum->until_ns;
	const bool over = until_ns != 0 && weir_daemon_now_ns() >= until_ns;
	const bool has_flows = daemon->segment == NULL || counters.open_flows > 0;

	// A worker that still uses the tables from before the removal can begin a flow, even if
	// there are no open flows now.
	if (daemon->segment != NULL && counters.open_flows == 0 &&
		weir_tables_counts_drains(daemon->tables, moves)) {
		return;
	}
	sum->removed += has_flows;
	sum->active_flows += counters.active_flows;
	sum->open_flows += counters.open_flows;
	if (has_flows && sum->names != NULL && json_array_size(sum->names) < NAMES_MOST) {
		json_array_append_new(sum->names,
			json_string(weir_tables_service_name(daemon->tables, state->id)));
	}
	if (sum->drained == 0) {
		return;
	}
	weir_drain_sum_add(&sum->drains, WEIR_AT_DEADLINE_KEEP,
		over ? WEIR_DRAIN_KEPT : WEIR_DRAIN_DRAINING, until_ns,
		weir_drains_left(daemon->tables, counters.open_flows));
}

// Adds the services that a reload removed from the VIP to the summary. Leaves out services that
// still have a bind of the VIP, because their flows are already counted, and services whose clients
// already get RSTs.
static void add_all_removed(
	const struct weir_daemon *daemon, const struct selected *selected, struct summary *sum) {
	const uint32_t ids = weir_tables_service_ids(daemon->tables);
	struct weir_service_state state;

	for (uint32_t id = 0; id < ids && selected->by_address && selected->only < 0; id++) {
		if (weir_tables_service(daemon->tables, (uint16_t)id, &state) == 0 &&
			(state.removal == WEIR_DRAIN_DRAINING ||
				(state.leaving && state.removal == WEIR_DRAIN_NONE)) &&
			weir_tables_select_binds(
				daemon->tables, (uint16_t)id, &selected->address) == 0 &&
			weir_tables_has_lost(daemon->tables, (uint16_t)id, &selected->address)) {
			add_removed(daemon, &state, sum);
		}
	}
}

// Computes the summary of the selected binds. names: array for sum->names, or NULL.
static void sum_up(const struct weir_daemon *daemon, const struct selected *selected, json_t *names,
	struct summary *sum) {
	int id = -1;

	*sum = (struct summary){.names = names};
	while ((id = next_service(daemon, selected, (uint32_t)(id + 1))) >= 0) {
		add(daemon, selected, (uint16_t)id, sum);
	}
	add_all_removed(daemon, selected, sum);
}

static json_t *json_binds(struct weir_daemon *daemon, const struct weir_api_call *call,
	const struct selected *selected) {
	const char *service = weir_api_text(call, "service");
	char text[INET6_ADDRSTRLEN];
	json_t *names = json_array();
	struct summary sum;

	sum_up(daemon, selected, names, &sum);
	return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:o, s:o, s:o, s:o}",
		"service", service != NULL ? json_string(service) : json_null(), "address",
		selected->by_address
			? json_string(weir_address_format(&selected->address, text, sizeof(text)))
			: json_null(),
		"services", (json_int_t)sum.services, "binds", (json_int_t)sum.binds,
		"drained_binds", (json_int_t)sum.drained, "other_binds", (json_int_t)sum.others,
		"other_drained_binds", (json_int_t)sum.others_drained, "other_removed_binds",
		(json_int_t)sum.others_removed, "lost_binds", sum.lost, "removed_services",
		(json_int_t)sum.removed, "removed_from", names, "active_flows",
		weir_json_count(daemon, sum.active_flows), "open_flows",
		weir_json_count(daemon, sum.open_flows), "drain",
		weir_json_drains(&sum.drains, daemon->tables));
}

void weir_api_binds_describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value) {
	const char *address = weir_api_text(call, "address");
	const char *service = weir_api_text(call, "service");
	struct selected selected;
	struct summary sum;

	snprintf(object, WEIR_AUDIT_OBJECT_BYTES, "%s%s%s", service != NULL ? service : "",
		service != NULL && address != NULL ? " " : "", address != NULL ? address : "");
	if (daemon->tables == NULL || parse(daemon, call, &selected) < 0) {
		return;
	}
	sum_up(daemon, &selected, NULL, &sum);
	snprintf(value, WEIR_AUDIT_VALUE_BYTES, "%u of %u bind%s drained", sum.drained, sum.binds,
		weir_plural(sum.binds));
	weir_api_append_deadline(weir_drain_sum_deadline(&sum.drains), value);
}

json_t *weir_json_drained_binds(
	const struct weir_daemon *daemon, const struct weir_config_service *service, uint16_t id) {
	char text[WEIR_BIND_TEXT_BYTES];
	json_t *binds = json_array();

	for (uint32_t i = 0; i < service->bind_count; i++) {
		if (weir_tables_bind_is_drained(daemon->tables, id, i)) {
			json_array_append_new(binds,
				json_string(
					weir_bind_format(&service->binds[i], text, sizeof(text))));
		}
	}
	return binds;
}

json_t *weir_json_removed_binds(const struct weir_daemon *daemon, uint16_t id, uint32_t count) {
	struct weir_config_bind *removed = count > 0 ? calloc(count, sizeof(*removed)) : NULL;
	char text[WEIR_BIND_TEXT_BYTES];
	json_t *binds = json_array();

	count = removed != NULL ? weir_tables_removed_binds(daemon->tables, id, removed, count) : 0;
	for (uint32_t i = 0; i < count; i++) {
		json_array_append_new(
			binds, json_string(weir_bind_format(&removed[i], text, sizeof(text))));
	}
	free(removed);
	return binds;
}

// --- handlers -------------------------------------------------------------------------------

void weir_api_bind_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct selected selected;

	if (find_named(daemon, call, &selected)) {
		weir_api_answer(call, json_binds(daemon, call, &selected));
	}
}

// Drain all selected binds, or make them ready, in one publication of the service table.
static void set(
	struct weir_daemon *daemon, struct weir_api_call *call, bool drained, uint64_t until_ns) {
	struct selected selected;
	int id = -1;

	if (!find_named(daemon, call, &selected)) {
		return;
	}
	while ((id = next_service(daemon, &selected, (uint32_t)(id + 1))) >= 0) {
		weir_tables_drain_binds(
			daemon->tables, (uint16_t)id, address_of(&selected), drained, until_ns);
	}
	weir_api_publish_now(daemon, call);
	weir_api_answer(call, json_binds(daemon, call, &selected));
}

void weir_api_bind_drain(struct weir_daemon *daemon, struct weir_api_call *call) {
	uint64_t until_ns;

	if (weir_api_deadline(call, &until_ns)) {
		set(daemon, call, true, until_ns);
	}
}

void weir_api_bind_ready(struct weir_daemon *daemon, struct weir_api_call *call) {
	set(daemon, call, false, 0);
}
