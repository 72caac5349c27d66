// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers about the affinity of one client: affinity.lookup, and affinity.clear with a client.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_affinity.h"
#include "api_backend.h"
#include "api_commands.h"
#include "append.h"

#define PREFIX_BYTES (INET6_ADDRSTRLEN + 4)

struct request { // a request in progress
	struct weir_daemon *daemon;
	struct weir_api_call *call;
	uint16_t service;
	bool deletes;
	char prefix[PREFIX_BYTES]; // the client, or the prefix that counts as one client
};

// --- texts ----------------------------------------------------------------------------------

static void explain_hash(const struct weir_lookup_result *result,
	const struct weir_service_state *service, enum weir_api_affinity affinity, bool by_worker,
	char *why) {
	if (affinity == WEIR_API_AFFINITY_TABLE) {
		weir_append(why, WEIR_API_WHY_BYTES,
			"nothing is remembered, because flow_table.affinity_sources is 0: ");
	} else {
		weir_append(why, WEIR_API_WHY_BYTES, "nothing is remembered with policy maglev: ");
	}
	if (by_worker) {
		weir_append(why, WEIR_API_WHY_BYTES,
			"the hash of the address selects a backend of the worker's subset, and the "
			"worker of the next flow is not known");
		return;
	}
	weir_append(why, WEIR_API_WHY_BYTES, "the hash of the address selects ");
	if (service->slots > 0) {
		weir_append(why, WEIR_API_WHY_BYTES, "slot %u of %u", result->response.source.slot,
			service->table_slots);
	} else {
		weir_append(why, WEIR_API_WHY_BYTES, "the backend");
	}
}

// Returns why a backend gets no new flows, or NULL.
static const char *reason_of(const struct weir_backend_state *backend) {
	const char *reason = weir_backend_unusable_reason(backend);

	return reason != NULL                            ? reason
	       : backend->effective_weight == 0          ? "weight 0"
	       : backend->ejected                        ? "ejected"
	       : backend->health == WEIR_HEALTH_STARTING ? "starting"
	       : backend->backup && !backend->in_selection
		       ? "a backup, and enough other backends are eligible"
		       : NULL;
}

static void explain_entry(const struct weir_tables *tables, const struct weir_message *response,
	const struct weir_service_state *service, char *why) {
	struct weir_backend_state backend;
	const bool exists = weir_tables_backend(tables, response->source.backend, &backend) == 0;
	const char *reason = exists ? reason_of(&backend) : NULL;

	if (response->source.found && response->source.entry == WEIR_SOURCE_ENTRY_KNOWN) {
		weir_append(why, WEIR_API_WHY_BYTES, "remembered");
		if (exists && backend.limit > 0 &&
			weir_tables_backend_flows(tables, backend.id) >= backend.limit) {
			weir_append(why, WEIR_API_WHY_BYTES,
				"; the backend is at max_active_flows: a new flow gets another "
				"backend, and the client stays remembered");
		}
		return;
	}
	if (response->source.found) {
		weir_append(why, WEIR_API_WHY_BYTES,
			"the remembered backend takes no new flows%s%s; ",
			reason != NULL ? ": " : "", reason != NULL ? reason : "");
	} else {
		weir_append(why, WEIR_API_WHY_BYTES, "nothing is remembered; ");
	}
	weir_append(why, WEIR_API_WHY_BYTES,
		"policy %s selects a backend when the client's next flow begins",
		weir_policy_name((enum weir_policy)service->policy));
}

// --- answers --------------------------------------------------------------------------------

static json_t *address_or_null(const struct weir_tables *tables, uint16_t backend) {
	struct weir_backend_state state;
	char address[INET6_ADDRSTRLEN];

	return weir_tables_backend(tables, backend, &state) == 0
		       ? json_string(weir_address_format(&state.address, address, sizeof(address)))
		       : json_null();
}

static void answer(const struct request *request, const struct weir_lookup_result *result) {
	const struct weir_tables *tables = request->daemon->tables;
	const struct weir_message *response = &result->response;
	struct weir_service_state service;
	const enum weir_api_affinity affinity =
		weir_api_affinity_of(tables, request->service, &service);
	const bool by_table = affinity == WEIR_API_AFFINITY_TABLE &&
			      response->source.entry != WEIR_SOURCE_ENTRY_NO_TABLE;
	const uint16_t remembered =
		by_table && response->source.found ? response->source.backend : WEIR_BACKEND_NONE;
	const bool found = remembered != WEIR_BACKEND_NONE;
	const bool by_worker = service.subsets > 1 && !weir_lookup_agrees(result);
	uint16_t goes_to = WEIR_BACKEND_NONE;
	char why[WEIR_API_WHY_BYTES] = "";

	if (by_table) {
		explain_entry(tables, response, &service, why);
		if (found && response->source.entry == WEIR_SOURCE_ENTRY_KNOWN) {
			goes_to = remembered;
		}
	} else {
		explain_hash(result, &service, affinity, by_worker, why);
		goes_to = by_worker ? WEIR_BACKEND_NONE : response->source.chosen;
	}
	weir_api_answer(request->call,
		json_pack("{s:s, s:s, s:s, s:s?, s:o, s:s?, s:o, s:o, s:s}", "service",
			weir_api_text(request->call, "service"), "client", request->prefix, "by",
			by_table ? "table" : "hash", "backend",
			weir_tables_backend_name(tables, goes_to), "address",
			address_or_null(tables, goes_to), "remembered",
			weir_tables_backend_name(tables, remembered), "proven",
			found ? json_boolean(response->source.proven) : json_null(), "left_ms",
			found ? json_integer(response->source.left_ms) : json_null(), "why", why));
}

static void answer_deleted(const struct request *request, const struct weir_lookup_result *result) {
	const bool found = result->response.source.found != 0;
	const uint16_t backend = found ? result->response.source.backend : WEIR_BACKEND_NONE;

	weir_api_answer_forgotten(request->call, found, false,
		weir_tables_backend_name(request->daemon->tables, backend), request->prefix);
}

static void on_done(void *context, int error, const struct weir_lookup_result *result) {
	struct request *request = context;

	if (error < 0) {
		weir_api_fail_lookup(request->call, error);
	} else if (request->deletes &&
		   result->response.source.entry == WEIR_SOURCE_ENTRY_NO_TABLE) {
		weir_api_affinity_by_hash(request->daemon, request->call, request->service);
	} else if (request->deletes) {
		answer_deleted(request, result);
	} else {
		answer(request, result);
	}
	free(request);
}

// --- requests -------------------------------------------------------------------------------

// Returns the number of leading bits of an address that define a client.
static unsigned int client_bits(const struct weir_policy_settings *settings, uint8_t family) {
	return family == 4 ? settings->hash4 & WEIR_HASH_BITS : settings->hash6;
}

// Writes the prefix of all addresses that are the same client with these settings.
static void write_prefix(const struct weir_policy_settings *settings,
	const struct weir_address *client, char text[PREFIX_BYTES]) {
	const unsigned int most = client->family == 4 ? 32 : 128;
	const unsigned int bits = client_bits(settings, client->family);
	struct weir_address prefix = *client;

	for (unsigned int i = bits; i < most; i++) {
		prefix.bytes[i / 8] &= (uint8_t)~(0x80u >> i % 8);
	}
	weir_address_format(&prefix, text, PREFIX_BYTES);
	if (bits < most) {
		weir_append(text, PREFIX_BYTES, "/%u", bits);
	}
}

// Reads the argument `client`. On an error, fails the call and returns false.
static bool read_client(struct weir_api_call *call, const struct weir_policy_settings *settings,
	struct weir_address *ret_client) {
	const char *text = weir_api_text(call, "client");
	unsigned int wanted;
	uint8_t bits;

	if (!weir_api_parse_prefix(text, ret_client, &bits)) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"\"client\" must be an address, or a prefix like 192.0.2.0/24");
		return false;
	}
	wanted = client_bits(settings, ret_client->family);
	if (bits < wanted) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"%.100s is more than one client: in service \"%.100s\", the first %u bits "
			"of an IPv%u address define a client",
			text, weir_api_text(call, "service"), wanted,
			(unsigned int)ret_client->family);
		return false;
	}
	return true;
}

static void send_query(struct weir_daemon *daemon, struct weir_api_call *call,
	const struct weir_message *query, const char prefix[PREFIX_BYTES]) {
	struct request *request = malloc(sizeof(*request));
	int r = -ENOMEM;

	if (request != NULL) {
		*request = (struct request){.daemon = daemon,
			.call = call,
			.service = query->source.service,
			.deletes = query->kind == WEIR_MESSAGE_SOURCE_DELETE};
		memcpy(request->prefix, prefix, PREFIX_BYTES);
		r = weir_lookups_start(daemon->lookups, query, on_done, request);
	}
	if (r < 0) {
		weir_api_fail_lookup(call, r);
		free(request);
	}
}

static void query_client(
	struct weir_daemon *daemon, struct weir_api_call *call, enum weir_message_kind kind) {
	struct weir_message query = {.kind = kind};
	struct weir_service_state service;
	struct weir_address client;
	char prefix[PREFIX_BYTES] = "";
	int id, backend = WEIR_BACKEND_NONE;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	id = weir_api_find_affinity(daemon, call, kind == WEIR_MESSAGE_SOURCE_DELETE, &service);
	if (id >= 0 && weir_api_text(call, "backend") != NULL) {
		backend = weir_api_find_backend(daemon, call);
	}
	if (id >= 0 && backend >= 0 && read_client(call, &service.settings, &client)) {
		query.source.service = (uint16_t)id;
		query.source.backend = (uint16_t)backend;
		query.source.family = client.family;
		memcpy(query.source.address, client.bytes, sizeof(query.source.address));
		write_prefix(&service.settings, &client, prefix);
		send_query(daemon, call, &query, prefix);
	}
}

void weir_api_affinity_lookup(struct weir_daemon *daemon, struct weir_api_call *call) {
	query_client(daemon, call, WEIR_MESSAGE_SOURCE_LOOKUP);
}

void weir_api_affinity_clear_client(struct weir_daemon *daemon, struct weir_api_call *call) {
	query_client(daemon, call, WEIR_MESSAGE_SOURCE_DELETE);
}
