// SPDX-License-Identifier: BSD-3-Clause
#include "api_order.h"

#include <stdlib.h>

#include "daemon.h"

// Compute the index of the first row of each service, by service id: configured services in the
// order of the file, then removed services.
static void place_services(const struct weir_daemon *daemon, uint32_t *begin) {
	const struct weir_tables *tables = daemon->tables;
	const struct weir_config *config = weir_reload_config(daemon->reload);
	uint32_t services = weir_tables_service_ids(tables), sum = 0;
	bool placed[WEIR_SERVICES_MAX] = {false};
	uint32_t of[WEIR_SERVICES_MAX] = {0};

	for (uint32_t id = 0; id < weir_tables_backend_ids(tables); id++) {
		uint16_t service = weir_tables_backend_service(tables, (uint16_t)id);

		of[service < services ? service : 0] += service < services;
	}
	for (uint32_t i = 0; i < config->service_count + services; i++) {
		int id = i >= config->service_count
				 ? (int)(i - config->service_count)
				 : weir_tables_service_find(tables, config->services[i].name);

		if (id >= 0 && !placed[id]) {
			begin[id] = sum;
			sum += of[id];
			placed[id] = true;
		}
	}
}

static void put(struct weir_api_order *order, uint32_t *next, bool *listed,
	const struct weir_tables *tables, uint16_t id) {
	uint16_t service = weir_tables_backend_service(tables, id);

	if (service < weir_tables_service_ids(tables) && !listed[id]) {
		order->ids[next[service]++] = id;
		order->count++;
		listed[id] = true;
	}
}

struct weir_api_order *weir_api_order(const struct weir_daemon *daemon) {
	const struct weir_tables *tables = daemon->tables;
	const struct weir_config *config = weir_reload_config(daemon->reload);
	const uint32_t ids = weir_tables_backend_ids(tables);
	struct weir_api_order *order = calloc(1, sizeof(*order) + ids * sizeof(order->ids[0]));
	uint32_t *next = calloc(weir_tables_service_ids(tables) + 1u, sizeof(*next));
	bool *listed = calloc(ids + 1u, sizeof(*listed));

	if (order == NULL || next == NULL || listed == NULL) {
		free(order);
		order = NULL;
		goto free_rest;
	}
	place_services(daemon, next);
	for (uint32_t s = 0; s < config->service_count; s++) {
		const struct weir_config_service *service = &config->services[s];

		for (uint32_t b = 0; b < service->backend_count; b++) {
			int id = weir_tables_backend_find(
				tables, service->name, service->backends[b].name);

			if (id >= 0) {
				put(order, next, listed, tables, (uint16_t)id);
			}
		}
	}
	for (uint32_t id = 0; id < ids; id++) {
		put(order, next, listed, tables, (uint16_t)id);
	}
free_rest:
	free(listed);
	free(next);
	return order;
}

struct weir_api_order *weir_api_service_order(const struct weir_daemon *daemon) {
	const struct weir_config *config = weir_reload_config(daemon->reload);
	struct weir_api_order *order =
		calloc(1, sizeof(*order) + config->service_count * sizeof(order->ids[0]));

	for (uint32_t i = 0; order != NULL && i < config->service_count; i++) {
		int id = weir_tables_service_find(daemon->tables, config->services[i].name);

		order->ids[order->count++] = id >= 0 ? (uint16_t)id : WEIR_SERVICE_NONE;
	}
	return order;
}
