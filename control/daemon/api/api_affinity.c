// SPDX-License-Identifier: BSD-3-Clause
//
// API handlers that count or delete affinity entries: affinity.show and affinity.clear.
#include "api_affinity.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "api_commands.h"
#include "api_order.h"
#include "api_show.h"

struct request { // a request in progress
	struct weir_daemon *daemon;
	struct weir_api_call *call;
	uint16_t service; // WEIR_SERVICE_NONE = all services
};

struct rows { // the rows of one answer
	struct weir_daemon *daemon;
	uint64_t epoch; // epoch of the dataplane that has the entries
	struct weir_source_count *counts; // by backend
	uint32_t backends; // number of elements of counts[]
	bool has_table; // the dataplane has an affinity table
	uint16_t service; // the only service of the answer, or WEIR_SERVICE_NONE
	struct weir_source_count *sums; // by service
	struct weir_api_order *services, *order; // the services; the backends of all services
	uint32_t at, next; // next indexes in `services` and in `order`
	bool at_backends; // the list of backends has begun
};

// --- rows -----------------------------------------------------------------------------------

static json_t *count_or_null(bool known, uint32_t count) {
	return known ? json_integer(count) : json_null();
}

// Returns the row of a service; NULL = no row, or out of memory. *ret_omitted: true = no row.
static json_t *json_service(const struct rows *rows, uint16_t id, bool *ret_omitted) {
	const struct weir_tables *tables = rows->daemon->tables;
	struct weir_service_state state;
	const enum weir_api_affinity affinity = weir_api_affinity_of(tables, id, &state);
	const bool known = affinity == WEIR_API_AFFINITY_TABLE && rows->has_table;
	const struct weir_config_affinity *config;
	const struct weir_source_count *sum;

	*ret_omitted = affinity == WEIR_API_AFFINITY_NONE ||
		       (rows->service != WEIR_SERVICE_NONE && rows->service != id);
	if (*ret_omitted) {
		return NULL;
	}
	sum = &rows->sums[id];
	config =
		&weir_tables_service_config(tables, weir_tables_service_name(tables, id))->affinity;
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "service",
		weir_tables_service_name(tables, id), "by", known ? "table" : "hash", "policy",
		weir_policy_name((enum weir_policy)state.policy), "ipv4_prefix",
		(json_int_t)config->ipv4_prefix, "ipv6_prefix", (json_int_t)config->ipv6_prefix,
		"timeout_ms", count_or_null(known, config->timeout_ms), "clients",
		count_or_null(known, sum->proven + sum->others), "proven",
		count_or_null(known, sum->proven));
}

// Returns the row of a backend; NULL = no row, or out of memory. *ret_omitted: true = no row. A
// removed backend has a row if it is still in the tables and has clients.
static json_t *json_backend(const struct rows *rows, uint16_t id, bool *ret_omitted) {
	const struct weir_tables *tables = rows->daemon->tables;
	struct weir_source_count count = {0};
	struct weir_backend_state state;
	char address[INET6_ADDRSTRLEN];

	if (id < rows->backends) {
		count = rows->counts[id];
	}
	*ret_omitted = weir_tables_backend_service(tables, id) != rows->service ||
		       weir_tables_backend(tables, id, &state) < 0 ||
		       (state.leaving && count.proven + count.others == 0);
	if (*ret_omitted) {
		return NULL;
	}
	return json_pack("{s:s, s:s, s:s, s:b, s:I, s:I}", "service", state.service, "backend",
		state.name, "address",
		weir_address_format(&state.address, address, sizeof(address)), "leaving",
		(int)state.leaving, "clients", (json_int_t)count.proven + count.others, "proven",
		(json_int_t)count.proven);
}

// Produces the rows of the services, then the rows of the backends of one service.
static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;

	if (rows->daemon->segment == NULL || rows->daemon->epoch != rows->epoch) {
		return -ECANCELED; // no dataplane, or ids of services and backends have changed
	}
	while (rows->at < rows->services->count) {
		bool omitted;

		*ret = json_service(rows, rows->services->ids[rows->at++], &omitted);
		if (!omitted) {
			return 1;
		}
	}
	if (!rows->at_backends) {
		rows->at_backends = true;
		*ret = json_string("backends");
		return 2;
	}
	while (rows->service != WEIR_SERVICE_NONE && rows->next < rows->order->count) {
		bool omitted;

		*ret = json_backend(rows, rows->order->ids[rows->next++], &omitted);
		if (!omitted) {
			return 1;
		}
	}
	return 0;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	free(rows->counts);
	free(rows->sums);
	free(rows->services);
	free(rows->order);
	free(rows);
}

// --- answers --------------------------------------------------------------------------------

static struct weir_source_count sum_of(const struct weir_flow_list_result *result) {
	struct weir_source_count sum = {0};

	for (uint32_t id = 0; id < result->source_backends; id++) {
		sum.proven += result->sources[id].proven;
		sum.others += result->sources[id].others;
	}
	return sum;
}

// Returns the numbers of clients of each service, indexed by service id; NULL = out of memory.
static struct weir_source_count *sums_of(
	const struct weir_tables *tables, const struct weir_flow_list_result *result) {
	struct weir_source_count *sums = calloc(WEIR_SERVICES_MAX, sizeof(*sums));

	for (uint32_t id = 0; sums != NULL && id < result->source_backends; id++) {
		const struct weir_source_count *count = &result->sources[id];
		uint16_t service;

		if (count->proven == 0 && count->others == 0) {
			continue;
		}
		service = weir_tables_backend_service(tables, (uint16_t)id);
		if (service < WEIR_SERVICES_MAX) {
			sums[service].proven += count->proven;
			sums[service].others += count->others;
		}
	}
	return sums;
}

static json_t *json_table(const struct weir_flow_list_result *result) {
	const struct weir_source_count sum = sum_of(result);
	const uint64_t used = (uint64_t)sum.proven + sum.others;

	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "entries", (json_int_t)result->source_entries,
		"used", (json_int_t)used, "proven", (json_int_t)sum.proven, "unproven",
		(json_int_t)sum.others, "free",
		(json_int_t)(result->source_entries > used ? result->source_entries - used : 0));
}

// Prepares the rows of an answer. Takes ownership of result->sources. Returns NULL if out of
// memory.
static struct rows *create_rows(
	const struct request *request, struct weir_flow_list_result *result) {
	struct rows *rows = calloc(1, sizeof(*rows));

	if (rows == NULL) {
		return NULL;
	}
	*rows = (struct rows){.daemon = request->daemon,
		.epoch = request->daemon->epoch,
		.counts = result->sources,
		.backends = result->source_backends,
		.has_table = result->source_entries > 0,
		.service = request->service,
		.sums = sums_of(request->daemon->tables, result),
		.services = weir_api_service_order(request->daemon),
		.order = weir_api_order(request->daemon)};
	result->sources = NULL;
	if (rows->sums == NULL || rows->services == NULL || rows->order == NULL) {
		free_rows(rows);
		return NULL;
	}
	return rows;
}

static void answer_counts(const struct request *request, struct weir_flow_list_result *result) {
	json_t *head = json_pack(
		"{s:o, s:b}", "table", json_table(result), "incomplete", (int)result->incomplete);
	struct rows *rows = head != NULL ? create_rows(request, result) : NULL;
	const struct weir_api_rows list = {next_row, free_rows, rows};

	if (rows == NULL) {
		json_decref(head);
		weir_api_fail(request->call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	weir_api_answer_rows(request->call, head, "services", &list);
}

static void on_counted(void *context, int error, struct weir_flow_list_result *result) {
	struct request *request = context;

	if (error < 0) {
		weir_api_fail_list(request->call, error);
	} else if (result->incomplete && result->source_entries == 0) {
		weir_api_fail_list(request->call, -ETIMEDOUT);
	} else {
		answer_counts(request, result);
	}
	free(request);
}

static void on_cleared(void *context, int error, struct weir_flow_list_result *result) {
	struct request *request = context;

	if (error < 0) {
		weir_api_fail_list(request->call, error);
	} else if (result->incomplete && result->ended == 0) {
		weir_api_fail_list(request->call, -ETIMEDOUT);
	} else if (!result->incomplete && result->source_entries == 0) {
		weir_api_affinity_by_hash(request->daemon, request->call, request->service);
	} else {
		weir_api_answer_forgotten(request->call, result->ended, result->incomplete,
			weir_api_text(request->call, "backend"), NULL);
	}
	free(request);
}

// --- requests -------------------------------------------------------------------------------

static void send_walk(struct weir_daemon *daemon, struct weir_api_call *call, uint16_t service,
	const struct weir_message *query, weir_flow_list_done done) {
	struct request *request = calloc(1, sizeof(*request));
	int r = -ENOMEM;

	if (request != NULL) {
		*request = (struct request){.daemon = daemon, .call = call, .service = service};
		r = weir_flow_lists_start_sources(daemon->flow_lists, query, done, request);
	}
	if (r < 0) {
		free(request);
		weir_api_fail_list(call, r);
	}
}

void weir_api_affinity_show(struct weir_daemon *daemon, struct weir_api_call *call) {
	const struct weir_message query = {.kind = WEIR_MESSAGE_SOURCE_WALK};
	struct weir_service_state state;
	int service = WEIR_SERVICE_NONE;

	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	if (weir_api_text(call, "service") != NULL) {
		service = weir_api_find_affinity(daemon, call, false, &state);
	}
	if (service >= 0) {
		send_walk(daemon, call, (uint16_t)service, &query, on_counted);
	}
}

void weir_api_affinity_clear(struct weir_daemon *daemon, struct weir_api_call *call) {
	struct weir_message query = {.kind = WEIR_MESSAGE_SOURCE_WALK, .walk = {.remove = 1}};
	struct weir_service_state state;
	int service, backend = WEIR_BACKEND_NONE;

	if (weir_api_text(call, "client") != NULL) {
		weir_api_affinity_clear_client(daemon, call);
		return;
	}
	if (!weir_api_has_dataplane(daemon, call)) {
		return;
	}
	service = weir_api_find_affinity(daemon, call, true, &state);
	if (service >= 0 && weir_api_text(call, "backend") != NULL) {
		backend = weir_api_find_backend(daemon, call);
	}
	if (service >= 0 && backend >= 0) {
		query.walk.service = (uint16_t)service;
		query.walk.backend = (uint16_t)backend;
		send_walk(daemon, call, (uint16_t)service, &query, on_cleared);
	}
}
