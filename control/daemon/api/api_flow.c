// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers of one flow: flow.lookup and flow.delete.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_affinity.h"
#include "api_audit.h"
#include "api_backend.h"
#include "api_binds.h"
#include "api_commands.h"
#include "api_show.h"
#include "append.h"
#include "daemon.h"
#include "duration.h"
#include "flow_state.h"
#include "plural.h"
#include "service_table.h"

struct lookup { // a request in progress
	struct weir_daemon *daemon;
	struct weir_api_call *call;
	void (*answer)(struct lookup *lookup, const struct weir_lookup_result *result);
};

struct verdict { // the combined answers of the workers
	bool has_backend, has_chosen;
	struct weir_backend_state backend; // backend of the flow
	// backend that a new flow would get (`response` of struct weir_lookup_result)
	struct weir_backend_state chosen;
	bool subsets; // the flow is not in a flow table, and each worker has its own subset
	bool by_worker; // the backend for a new flow depends on the worker (only with subsets)
	uint16_t service; // the service that owns the destination, or WEIR_SERVICE_NONE
	bool drained; // the bind of the destination is drained or removed: new flows are refused
	bool removed; // the bind of the destination is no longer configured, but still draining
	bool by_datagram; // no flow is kept: a backend is selected for each datagram
	enum weir_api_affinity affinity; // of the service
	// The backend of a new flow is known before the flow begins: the service uses slots, or has
	// affinity by table and the table has the client or does not exist (then a hash decides).
	bool decided;
};

// --- texts --------------------------------------------------------------------------------

// Returns what happens to a flow whose backend gets no new flows. state: enum weir_flow_state of
// the flow. others: true if another backend can be chosen.
static const char *flow_outcome(
	const struct weir_backend_state *backend, uint8_t state, bool others) {
	const bool udp = state == WEIR_FLOW_UDP || state == WEIR_FLOW_UDP_SEEN;

	if ((backend->flags & WEIR_BACKEND_DOWN) == 0) {
		return "only existing flows continue";
	}
	if (!udp && (backend->flags & WEIR_BACKEND_RESET) != 0) {
		return "the next packet is answered with an RST";
	}
	if (!udp && (backend->flags & WEIR_BACKEND_REHASH) == 0) {
		return "only existing TCP flows continue";
	}
	return others ? "the next packet moves the flow"
		      : "the flow stays, because no other backend is usable";
}

static void explain_backend(
	const struct weir_backend_state *backend, uint8_t state, bool others, char *why) {
	const char *what = weir_backend_unusable_reason(backend);

	if (what != NULL) {
		weir_append(why, WEIR_API_WHY_BYTES, "; backend %s: %s", what,
			backend->in_selection && !backend->leaving
				? "gets new flows only because of panic mode"
				: flow_outcome(backend, state, others));
	} else if (!backend->in_selection) {
		weir_append(why, WEIR_API_WHY_BYTES,
			backend->backup
				? "; backend is a backup: only existing flows continue while "
				  "enough other backends are eligible"
				: "; backend gets no new flows");
	}
}

static void explain_missing(const struct weir_lookup_result *result, char *why) {
	for (uint32_t worker = 0; worker < result->workers; worker++) {
		if (!weir_lookup_responded(result, worker)) {
			weir_append(
				why, WEIR_API_WHY_BYTES, "; no response from worker %u", worker);
		}
	}
}

static void explain_found(
	const struct weir_lookup_result *result, const struct verdict *verdict, char *why) {
	const struct weir_message *response = &result->response;

	weir_append(why, WEIR_API_WHY_BYTES, "flow table of worker %u", result->worker);
	if (verdict->has_backend) {
		explain_backend(&verdict->backend, response->flow.state, verdict->has_chosen, why);
	}
	if (verdict->decided && response->flow.chosen != response->flow.backend) {
		weir_append(why, WEIR_API_WHY_BYTES, "; a new flow would go to %s",
			verdict->chosen.name);
	}
}

// Appends to `why` how the backend of a new flow, or of a datagram, is selected.
static void explain_selection(const struct weir_lookup_result *result,
	const struct verdict *verdict, const struct weir_service_state *service, char *why) {
	const uint8_t entry = result->response.flow.entry;

	if (service->slots > 0) {
		weir_append(why, WEIR_API_WHY_BYTES, "%sslot %u of %u%s",
			verdict->affinity != WEIR_API_AFFINITY_NONE ? "affinity: " : "",
			result->response.flow.slot, service->table_slots,
			verdict->affinity != WEIR_API_AFFINITY_NONE ? " by the client's address"
								    : "");
		return;
	}
	if (verdict->affinity == WEIR_API_AFFINITY_TABLE) {
		weir_append(why, WEIR_API_WHY_BYTES, "affinity: ");
		if (entry == WEIR_SOURCE_ENTRY_KNOWN) {
			weir_append(
				why, WEIR_API_WHY_BYTES, "the remembered backend of the client");
			return;
		}
		if (entry == WEIR_SOURCE_ENTRY_NO_TABLE) {
			weir_append(why, WEIR_API_WHY_BYTES,
				"the hash of the client's address, because "
				"flow_table.affinity_sources is 0");
			return;
		}
		weir_append(why, WEIR_API_WHY_BYTES, "%s, so ",
			entry == WEIR_SOURCE_ENTRY_STALE
				? "the remembered backend of the client takes no new flows"
				: "no backend of the client is remembered");
	}
	weir_append(why, WEIR_API_WHY_BYTES, "policy %s selects a backend %s",
		weir_policy_name((enum weir_policy)service->policy),
		!verdict->by_datagram                          ? "when the flow begins"
		: verdict->affinity == WEIR_API_AFFINITY_TABLE ? "for the client's next datagram"
							       : "for each datagram");
}

// Appends to `why` how the backend of a new flow, or of a datagram, is selected, with its weight if
// the service uses slots, and whether panic mode applies.
static void explain_choice(const struct weir_lookup_result *result, const struct verdict *verdict,
	const struct weir_service_state *service, char *why) {
	const struct weir_backend_state *chosen = &verdict->chosen;
	bool panic = service->panic, last_resort = false;

	explain_selection(result, verdict, service, why);
	if (verdict->by_worker) {
		weir_append(why, WEIR_API_WHY_BYTES,
			"; each worker has its own subset, and the worker of this flow is not "
			"known%s",
			verdict->decided ? ""
			: verdict->by_datagram
				? "; chosen_by_worker shows the Maglev fallback of ICMP errors"
				: "; chosen_by_worker shows the Maglev fallback of untracked "
				  "flows");
	} else {
		if (service->slots > 0) {
			weir_append(
				why, WEIR_API_WHY_BYTES, ", weight %u", chosen->effective_weight);
		} else if (!verdict->decided) {
			weir_append(why, WEIR_API_WHY_BYTES, "; Maglev fallback of %s: %s",
				verdict->by_datagram ? "ICMP errors" : "an untracked flow",
				chosen->name);
		}
		last_resort = chosen->admin == WEIR_ADMIN_DRAIN ||
			      chosen->health == WEIR_HEALTH_LAME_DUCK;
		panic = last_resort || chosen->health != WEIR_HEALTH_HEALTHY;
	}
	if (panic) {
		weir_append(why, WEIR_API_WHY_BYTES, "; panic mode: %s",
			last_resort ? "no backend is ready, so drained backends are used"
				    : "too few healthy backends, so health is ignored");
	}
}

// --- answers ------------------------------------------------------------------------------

static json_t *string_or_null(const char *text) {
	return text != NULL ? json_string(text) : json_null();
}

// Returns whether the flow was not found, and a worker that could have the flow has not answered.
static bool is_incomplete(const struct weir_lookup_result *result) {
	bool silent = false;

	for (uint32_t worker = 0; !result->response.flow.found && worker < result->workers;
		worker++) {
		silent |= !weir_lookup_responded(result, worker);
	}
	return silent;
}

static json_t *json_by_worker(
	const struct weir_tables *tables, const struct weir_lookup_result *result) {
	json_t *list = json_array();

	for (uint32_t worker = 0; worker < result->workers; worker++) {
		const char *name = weir_tables_backend_name(tables, result->chosen[worker]);

		if (weir_lookup_responded(result, worker)) {
			json_array_append_new(
				list, json_pack("{s:I, s:o}", "worker", (json_int_t)worker,
					      "chosen", string_or_null(name)));
		}
	}
	return list;
}

static void explain_drain(
	const struct weir_tables *tables, const struct weir_service_state *service, char *why) {
	const uint64_t now_ns = weir_daemon_now_ns(), begun_ns = service->drain_begun_ms * 1000000;
	const uint64_t until_ns = service->drain_until_ns;
	const uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	const char *name = weir_tables_service_name(tables, service->id);
	char text[WEIR_DURATION_BYTES];

	weir_append(why, WEIR_API_WHY_BYTES, "%s%s drained", why[0] != '\0' ? "; " : "",
		weir_tables_drained_binds(tables, service->id) ==
				weir_tables_select_binds(tables, service->id, NULL)
			? "service"
			: "bind");
	if (begun_ns > 0 && begun_ns <= now_ns) {
		weir_append(why, WEIR_API_WHY_BYTES, " %s ago",
			weir_duration_text((now_ns - begun_ns) / 1000000, text));
	}
	weir_append(why, WEIR_API_WHY_BYTES, ": new flows are refused");
	if (service->drain == WEIR_DRAIN_DRAINING && until_ns > 0) {
		weir_append(why, WEIR_API_WHY_BYTES, "; deadline in %s (%s)",
			weir_duration_text(left_ns / 1000000, text),
			weir_config_at_deadline_name(weir_drains_at_deadline(tables, name)));
	} else if (service->drain == WEIR_DRAIN_DRAINING) {
		weir_append(why, WEIR_API_WHY_BYTES, "; no deadline");
	} else if (service->drain == WEIR_DRAIN_DRAINED) {
		weir_append(why, WEIR_API_WHY_BYTES, "; the drain is over: no open flows");
	} else {
		weir_append(why, WEIR_API_WHY_BYTES,
			"; the deadline has passed: existing flows are %s",
			weir_drain_phase_name(service->drain));
	}
}

static void explain_removal(const struct weir_service_state *service, char *why) {
	char then[WEIR_REMOVAL_TEXT_BYTES];

	weir_append(why, WEIR_API_WHY_BYTES, "%s%s removed from the configuration: %s",
		why[0] != '\0' ? "; " : "", service->leaving ? "service" : "bind",
		weir_removal_text(service, then));
}

// If new flows arrived in the last minute while every backend was at max_active_flows, appends to
// `why` what happened to these flows, and what happens to such flows now.
static void explain_limit(
	const struct weir_daemon *daemon, const struct weir_service_state *service, char *why) {
	char text[WEIR_API_LIMITED_BYTES];

	if (weir_api_limited_text(daemon, service, text)[0] != '\0') {
		weir_append(why, WEIR_API_WHY_BYTES, "; %s", text);
	}
}

static void explain(const struct weir_tables *tables, const struct weir_lookup_result *result,
	const struct verdict *verdict, const struct weir_service_state *service, char *why) {
	const struct weir_message *response = &result->response;

	why[0] = '\0';
	if (response->flow.found) {
		explain_found(result, verdict, why);
	}
	if (verdict->removed) {
		explain_removal(service, why);
	} else if (verdict->drained) {
		explain_drain(tables, service, why);
	} else if (response->flow.found) {
		return;
	} else if (response->flow.service == WEIR_SERVICE_NONE) {
		weir_append(
			why, WEIR_API_WHY_BYTES, "no service is bound to this address and port");
	} else if (!verdict->has_chosen) {
		weir_append(why, WEIR_API_WHY_BYTES, "service has no usable backend");
	} else {
		explain_choice(result, verdict, service, why);
		if (verdict->by_datagram) {
			weir_append(why, WEIR_API_WHY_BYTES,
				"; the service has no UDP flows (udp datagram)");
		}
	}
	if (!response->flow.found) {
		explain_missing(result, why);
	}
}

static void judge(const struct weir_tables *tables, const struct weir_lookup_result *result,
	struct weir_service_state *service, struct verdict *ret) {
	const struct weir_message *response = &result->response;
	const uint16_t bind = weir_tables_bind_at(tables, response->flow.destination,
		response->flow.family, response->flow.protocol, response->flow.destination_port);

	ret->drained = weir_bind_is_drained(bind);
	ret->removed = ret->drained && (bind & WEIR_BIND_REMOVED) != 0;
	ret->service = ret->drained ? (uint16_t)(bind & ~WEIR_BIND_FLAGS) : response->flow.service;
	ret->affinity = weir_api_affinity_of(tables, ret->service, service);
	ret->has_backend = weir_tables_backend(tables, response->flow.backend, &ret->backend) == 0;
	ret->has_chosen = !ret->drained &&
			  weir_tables_backend(tables, response->flow.chosen, &ret->chosen) == 0;
	ret->by_datagram = response->flow.protocol == IPPROTO_UDP &&
			   weir_policy_by_datagram(&service->settings);
	ret->subsets = !ret->drained && !response->flow.found && service->subsets > 1;
	ret->by_worker = ret->subsets && !weir_lookup_agrees(result);
	ret->decided =
		ret->has_chosen &&
		(service->slots > 0 ||
			(ret->affinity == WEIR_API_AFFINITY_TABLE &&
				(response->flow.entry == WEIR_SOURCE_ENTRY_KNOWN ||
					response->flow.entry == WEIR_SOURCE_ENTRY_NO_TABLE)));
}

// Returns the name of the service that has the destination. If no service has the destination,
// returns the service of the flow that was found, or NULL if no flow was found.
static const char *service_name(const struct weir_tables *tables,
	const struct weir_lookup_result *result, const struct verdict *verdict) {
	const char *name = weir_tables_service_name(tables, verdict->service);

	return name == NULL && result->response.flow.found && verdict->has_backend
		       ? weir_tables_service_name(tables, verdict->backend.service_id)
		       : name;
}

static void answer(struct lookup *lookup, const struct weir_lookup_result *result) {
	struct weir_tables *tables = lookup->daemon->tables;
	const struct weir_message *response = &result->response;
	bool found = response->flow.found != 0;
	struct weir_service_state service = {0};
	const struct weir_backend_state *goes_to, *chosen;
	struct verdict verdict;
	bool has_slot; // the slot determines the backend of a new flow
	char why[WEIR_API_WHY_BYTES], hash[20], address[INET6_ADDRSTRLEN];

	judge(tables, result, &service, &verdict);
	has_slot = verdict.has_chosen && service.slots > 0;
	chosen = verdict.decided && !verdict.by_worker ? &verdict.chosen : NULL;
	goes_to = found ? (verdict.has_backend ? &verdict.backend : NULL) : chosen;
	explain(tables, result, &verdict, &service, why);
	if (!found && verdict.has_chosen) {
		explain_limit(lookup->daemon, &service, why);
	}
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)response->flow.hash);
	weir_api_answer(lookup->call,
		json_pack("{s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:b}",
			"service", string_or_null(service_name(tables, result, &verdict)), "hash",
			hash, "found", (int)found, "worker",
			found ? json_integer(result->worker) : json_null(), "state",
			string_or_null(
				found ? weir_api_flow_state_name(response->flow.state) : NULL),
			"idle_ms", found ? json_integer(response->flow.idle_ms) : json_null(),
			"backend", string_or_null(goes_to != NULL ? goes_to->name : NULL),
			"address",
			string_or_null(goes_to != NULL ? weir_address_format(&goes_to->address,
								 address, sizeof(address))
						       : NULL),
			"why", why, "slot",
			has_slot ? json_integer(response->flow.slot) : json_null(), "chosen",
			string_or_null(chosen != NULL ? chosen->name : NULL), "chosen_by_worker",
			verdict.subsets ? json_by_worker(tables, result) : json_null(),
			"incomplete", (int)is_incomplete(result)));
}

static void on_done(void *context, int error, const struct weir_lookup_result *result) {
	struct lookup *lookup = context;

	if (error == 0) {
		lookup->answer(lookup, result);
	} else {
		weir_api_fail_lookup(lookup->call, error);
	}
	free(lookup);
}

// --- requests -----------------------------------------------------------------------------

// Reads the flow from a request. Returns the error of the request, or NULL.
static const char *read_query(const struct weir_api_call *call, struct weir_message *query) {
	const char *protocol = weir_api_text(call, "protocol");
	struct weir_address source, destination;

	if (strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0) {
		return "\"protocol\" must be \"tcp\" or \"udp\"";
	}
	if (!weir_api_parse_address(weir_api_text(call, "source"), &source)) {
		return "\"source\" must be an IPv4 or IPv6 address";
	}
	if (!weir_api_parse_address(weir_api_text(call, "destination"), &destination)) {
		return "\"destination\" must be an IPv4 or IPv6 address";
	}
	if (source.family != destination.family) {
		return "\"source\" and \"destination\" must be of the same family";
	}
	*query = (struct weir_message){.kind = WEIR_MESSAGE_FLOW_LOOKUP};
	memcpy(query->flow.source, source.bytes, sizeof(query->flow.source));
	memcpy(query->flow.destination, destination.bytes, sizeof(query->flow.destination));
	query->flow.family = source.family;
	query->flow.protocol = strcmp(protocol, "tcp") == 0 ? IPPROTO_TCP : IPPROTO_UDP;
	query->flow.source_port = (uint16_t)weir_api_integer(call, "source_port", 0);
	query->flow.destination_port = (uint16_t)weir_api_integer(call, "destination_port", 0);
	query->flow.backend = WEIR_BACKEND_NONE;
	query->flow.chosen = WEIR_BACKEND_NONE;
	query->flow.service = WEIR_SERVICE_NONE;
	return NULL;
}

static void send_query(struct weir_daemon *daemon, struct weir_api_call *call,
	const struct weir_message *query,
	void (*answered)(struct lookup *lookup, const struct weir_lookup_result *result)) {
	struct lookup *lookup = malloc(sizeof(*lookup));
	int r = -ENOMEM;

	if (lookup != NULL) {
		*lookup = (struct lookup){.daemon = daemon, .call = call, .answer = answered};
		r = weir_lookups_start(daemon->lookups, query, on_done, lookup);
	}
	if (r < 0) {
		weir_api_fail_lookup(call, r);
		free(lookup);
	}
}

void weir_api_flow_lookup(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_message query;
	const char *wrong = read_query(call, &query);

	if (wrong != NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s", wrong);
	} else if (weir_api_has_dataplane(daemon, call)) {
		send_query(daemon, call, &query, answer);
	}
}

// --- deletion -----------------------------------------------------------------------------

static void answer_deleted(struct lookup *lookup, const struct weir_lookup_result *result) {
	const struct weir_message *response = &result->response;
	const struct weir_tables *tables = lookup->daemon->tables;
	const bool found = response->flow.found != 0;
	const uint16_t backend = found ? response->flow.backend : WEIR_BACKEND_NONE;

	weir_api_audit_removed(lookup->call, found, "flow", "deleted");
	weir_api_answer(lookup->call,
		json_pack("{s:i, s:b, s:o, s:o, s:o, s:o}", "deleted", (int)found, "incomplete",
			(int)is_incomplete(result), "worker",
			found ? json_integer(result->worker) : json_null(), "state",
			string_or_null(
				found ? weir_api_flow_state_name(response->flow.state) : NULL),
			"service",
			string_or_null(weir_tables_service_name(tables, response->flow.service)),
			"backend", string_or_null(weir_tables_backend_name(tables, backend))));
}

void weir_api_flow_delete(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_message query;
	const char *wrong = read_query(call, &query);

	if (wrong != NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "%s", wrong);
	} else if (weir_api_has_dataplane(daemon, call)) {
		query.kind = WEIR_MESSAGE_FLOW_DELETE;
		send_query(daemon, call, &query, answer_deleted);
	}
}
