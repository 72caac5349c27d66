// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers that list or delete many flows: flow.list and flow.clear.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_audit.h"
#include "api_commands.h"
#include "api_show.h"
#include "daemon.h"
#include "flow_state.h"

struct request { // a request in progress
	struct weir_daemon *daemon;
	struct weir_api_call *call;
};

struct rows { // the rows of one answer
	struct weir_daemon *daemon;
	uint64_t epoch; // epoch of the dataplane that has the flows
	struct weir_flow_found *flows;
	uint32_t count, at;
};

// --- rows ---------------------------------------------------------------------------------

static const char *address_of(uint8_t family, const uint8_t *bytes, char *text) {
	return inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes, text, INET6_ADDRSTRLEN);
}

static json_t *json_flow(struct weir_tables *tables, const struct weir_flow_found *found) {
	const struct weir_listed_flow *flow = &found->flow;
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN];
	struct weir_backend_state backend;
	bool known = weir_tables_backend(tables, flow->backend, &backend) == 0;

	return json_pack("{s:s, s:s, s:i, s:s, s:i, s:o, s:o, s:s, s:I, s:I}", "protocol",
		flow->protocol == IPPROTO_TCP ? "tcp" : "udp", "source",
		address_of(flow->family, flow->source, source), "source_port",
		(int)ntohs(flow->source_port), "destination",
		address_of(flow->family, flow->destination, destination), "destination_port",
		(int)ntohs(flow->destination_port), "service",
		known ? json_string(backend.service) : json_null(), "backend",
		known ? json_string(backend.name) : json_null(), "state",
		weir_api_flow_state_name(flow->state), "idle_ms", (json_int_t)flow->idle_ms,
		"worker", (json_int_t)found->worker);
}

static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;

	if (rows->at == rows->count) {
		return 0;
	}
	if (rows->daemon->segment == NULL || rows->daemon->epoch != rows->epoch) {
		return -ECANCELED; // no dataplane, or ids of backends have changed
	}
	*ret = json_flow(rows->daemon->tables, &rows->flows[rows->at++]);
	return 1;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	free(rows->flows);
	free(rows);
}

// --- answers ------------------------------------------------------------------------------

static void answer_list(const struct request *request, struct weir_flow_list_result *result) {
	struct rows *rows = calloc(1, sizeof(*rows));
	const struct weir_api_rows list = {next_row, free_rows, rows};

	if (rows == NULL) {
		weir_api_fail(request->call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	*rows = (struct rows){.daemon = request->daemon,
		.epoch = request->daemon->epoch,
		.flows = result->flows,
		.count = result->count};
	result->flows = NULL;
	weir_api_answer_rows(request->call,
		json_pack("{s:o, s:b}", "next",
			result->more ? json_integer(result->next) : json_null(), "incomplete",
			(int)result->incomplete),
		"flows", &list);
}

static void on_listed(void *context, int error, struct weir_flow_list_result *result) {
	struct request *request = context;

	if (error == 0) {
		answer_list(request, result);
	} else {
		weir_api_fail_list(request->call, error);
	}
	free(request);
}

static void on_cleared(void *context, int error, struct weir_flow_list_result *result) {
	struct request *request = context;

	if (error == 0) {
		weir_api_audit_removed(request->call, result->ended, "flow", "deleted");
		weir_api_answer(
			request->call, json_pack("{s:I, s:b}", "deleted", (json_int_t)result->ended,
					       "incomplete", (int)result->incomplete));
	} else {
		weir_api_fail_list(request->call, error);
	}
	free(request);
}

// --- requests -----------------------------------------------------------------------------

static void send_query(struct weir_daemon *daemon, struct weir_api_call *call,
	const struct weir_message *query, uint32_t first, uint32_t worker,
	weir_flow_list_done done) {
	struct request *request = calloc(1, sizeof(*request));
	int r = -ENOMEM;

	if (request != NULL) {
		*request = (struct request){.daemon = daemon, .call = call};
		r = weir_flow_lists_start(daemon->flow_lists, query, first, worker, done, request);
	}
	if (r < 0) {
		free(request);
		weir_api_fail_list(call, r);
	}
}

// Reads the argument `state`: the state of the flows to list. Without this argument, flows in all
// states are listed. *ret_states: bit set. On an error, fails the call and returns false.
static bool read_state(struct weir_api_call *call, uint8_t *ret_states) {
	const char *text = weir_api_text(call, "state");

	*ret_states = (1u << WEIR_FLOW_STATE_COUNT) - 1;
	for (uint8_t state = 0; text != NULL && state < WEIR_FLOW_STATE_COUNT; state++) {
		if (strcmp(text, weir_api_flow_state_name(state)) == 0) {
			*ret_states = (uint8_t)(1u << state);
			return true;
		}
	}
	if (text != NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"\"state\" must be syn-seen, young, established, closing, udp-seen or udp");
	}
	return text == NULL;
}

// Reads the argument `client`: the prefix of the clients whose flows are listed. On an error, fails
// the call and returns false.
static bool read_client(struct weir_api_call *call, struct weir_message *query) {
	const char *text = weir_api_text(call, "client");
	struct weir_address address;
	uint8_t bits;

	if (text == NULL) {
		return true;
	}
	if (!weir_api_parse_prefix(text, &address, &bits)) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST,
			"\"client\" must be an address, or a prefix like 192.0.2.0/24");
		return false;
	}
	query->list.family = address.family;
	query->list.client_bits = bits;
	memcpy(query->list.client, address.bytes, sizeof(address.bytes));
	return true;
}

// Reads the backend or service whose flows are listed. On an error, fails the call and returns
// false.
static bool read_owner(
	struct weir_daemon *daemon, struct weir_api_call *call, struct weir_message *query) {
	int id = 0;

	query->list.backend = WEIR_BACKEND_NONE;
	query->list.service = WEIR_SERVICE_NONE;
	if (weir_api_text(call, "backend") != NULL) {
		id = weir_api_find_any_backend(daemon, call);
		query->list.backend = (uint16_t)id;
	} else if (weir_api_text(call, "service") != NULL) {
		id = weir_api_find_service(daemon, call);
		query->list.service = (uint16_t)id;
	}
	return id >= 0;
}

// Reads the worker whose flows are listed. On an error, fails the call and returns false.
static bool read_worker(
	const struct weir_daemon *daemon, struct weir_api_call *call, uint32_t *ret_worker) {
	json_int_t worker = weir_api_integer(call, "worker", -1);

	*ret_worker = worker >= 0 ? (uint32_t)worker : WEIR_FLOW_LISTS_ALL;
	if (worker >= (json_int_t)daemon->segment->workers) {
		weir_api_fail(call, WEIR_API_NOT_FOUND,
			"no such worker: %lld; weir-dataplane has %u worker%s", (long long)worker,
			daemon->segment->workers, daemon->segment->workers == 1 ? "" : "s");
		return false;
	}
	return true;
}

void weir_api_flow_list(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_message query = {.kind = WEIR_MESSAGE_FLOW_LIST};
	json_int_t first = weir_api_integer(call, "next", 0);
	uint32_t worker;

	if (!weir_api_has_dataplane(daemon, call) || !read_owner(daemon, call, &query) ||
		!read_state(call, &query.list.states) || !read_client(call, &query) ||
		!read_worker(daemon, call, &worker)) {
		return;
	}
	first = first < UINT32_MAX ? first : UINT32_MAX;
	send_query(daemon, call, &query, (uint32_t)first, worker, on_listed);
}

void weir_api_flow_clear(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_message query = {.kind = WEIR_MESSAGE_FLOW_LIST, .list = {.end = 1}};

	if (weir_api_has_dataplane(daemon, call) && read_owner(daemon, call, &query) &&
		read_state(call, &query.list.states)) {
		send_query(daemon, call, &query, 0, WEIR_FLOW_LISTS_ALL, on_cleared);
	}
}
