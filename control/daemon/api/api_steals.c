// SPDX-License-Identifier: BSD-3-Clause
//
// API handler flow.steals, which lists connections that weir-control moved away from busy backends.
#include <string.h>

#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"

static json_t *refusals(const struct weir_flow_steals_service *service) {
	json_t *object = json_object();

	for (unsigned int i = 0; i < WEIR_FLOW_STEAL_OUTCOME_COUNT; i++) {
		if (i != WEIR_FLOW_STEAL_MOVED && i != WEIR_FLOW_STEAL_SILENT) {
			json_object_set_new(object,
				weir_flow_steal_outcome_name((enum weir_flow_steal_outcome)i),
				json_integer((json_int_t)service->outcomes[i]));
		}
	}
	return object;
}

static json_t *relieved(const struct weir_flow_steals *steals, uint32_t n) {
	struct weir_flow_steals_relieved backend;
	json_t *list = json_array();
	uint32_t place = 0;

	while (weir_flow_steals_relieved(steals, n, &place, &backend)) {
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I}", "backend", backend.name, "reason",
				      weir_flow_steal_reason_name(backend.reason), "half_open",
				      (json_int_t)backend.half_open));
	}
	return list;
}

static json_t *service_row(const struct weir_flow_steals *steals, uint32_t n,
	const struct weir_flow_steals_service *service) {
	return json_pack("{s:s, s:b, s:b, s:o, s:I, s:I, s:I, s:I, s:o}", "service", service->name,
		"enabled", (int)service->enabled, "saturated", (int)service->saturated, "relieved",
		relieved(steals, n), "asked", (json_int_t)service->requests, "moved",
		(json_int_t)service->outcomes[WEIR_FLOW_STEAL_MOVED], "silent",
		(json_int_t)service->outcomes[WEIR_FLOW_STEAL_SILENT], "incomplete",
		(json_int_t)service->incomplete, "refused", refusals(service));
}

static json_t *event_row(const struct weir_flow_steals_event *event) {
	char client[INET6_ADDRSTRLEN], vip[INET6_ADDRSTRLEN];

	weir_address_format(&event->client, client, sizeof(client));
	weir_address_format(&event->vip, vip, sizeof(vip));
	return json_pack("{s:I, s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:s, s:I}", "time_ms",
		(json_int_t)event->time_ms, "service", event->service, "client", client,
		"client_port", (json_int_t)event->client_port, "vip", vip, "vip_port",
		(json_int_t)event->vip_port, "from", event->from, "to", event->to, "reason",
		weir_flow_steal_reason_name(event->reason), "outcome",
		weir_flow_steal_outcome_name(event->outcome), "took_ms",
		(json_int_t)event->took_ms);
}

static bool is_wanted(const char *wanted, const char *name) {
	return wanted == NULL || strcmp(wanted, name) == 0;
}

json_t *weir_json_flow_steals(const struct weir_flow_steals *steals, const char *wanted) {
	struct weir_flow_steals_service service;
	json_t *list = json_array();

	for (uint32_t n = 0; weir_flow_steals_service(steals, n, &service); n++) {
		if (is_wanted(wanted, service.name)) {
			json_array_append_new(list, service_row(steals, n, &service));
		}
	}
	return list;
}

// Lists the recent moves and refused moves of connections, the oldest first. wanted: name of the
// service; NULL = all.
static json_t *list_recent(const struct weir_flow_steals *steals, const char *wanted) {
	const struct weir_flow_steals_event *event;
	json_t *list = json_array();

	for (uint32_t n = WEIR_FLOW_STEALS_RECENT; n-- > 0;) {
		if (weir_flow_steals_recent(steals, n, &event) &&
			is_wanted(wanted, event->service)) {
			json_array_append_new(list, event_row(event));
		}
	}
	return list;
}

void weir_api_flow_steals(struct weir_daemon *daemon, struct weir_api_call *call) {
	const char *service = weir_api_text(call, "service");

	if (!weir_api_has_tables(daemon, call) ||
		(service != NULL && weir_api_find_service(daemon, call) < 0)) {
		return;
	}
	weir_api_answer(
		call, json_pack("{s:b, s:o, s:o}", "supported",
			      (int)!weir_flow_steals_unsupported(daemon->flow_steals), "services",
			      weir_json_flow_steals(daemon->flow_steals, service), "recent",
			      list_recent(daemon->flow_steals, service)));
}
