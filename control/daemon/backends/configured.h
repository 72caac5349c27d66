// SPDX-License-Identifier: BSD-3-Clause
//
// Iterates over the backends of a configuration that have an id in the tables, in file order. The
// configuration and the tables are borrowed:
//
//   struct weir_configured of = weir_configured_begin(tables, config);
//   while (weir_configured_next(&of)) { ... of.service, of.config, of.backend ... }
//
// Also grows arrays indexed by backend id.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tables.h"

struct weir_configured {
	const struct weir_tables *tables;
	const struct weir_config_service *services;
	uint32_t service_count;
	uint32_t at_service, at_backend; // indexes of the next service and backend
	// Current service and backend.
	const struct weir_config_service *service;
	const struct weir_config_backend *config;
	struct weir_backend_state backend;
};

static inline struct weir_configured weir_configured_begin(
	const struct weir_tables *tables, const struct weir_config *config) {
	return (struct weir_configured){.tables = tables,
		.services = config->services,
		.service_count = config->service_count};
}

// Iterates over the backends of one service.
static inline struct weir_configured weir_configured_of(
	const struct weir_tables *tables, const struct weir_config_service *service) {
	return (struct weir_configured){.tables = tables, .services = service, .service_count = 1};
}

static inline bool weir_configured_next(struct weir_configured *of) {
	for (; of->at_service < of->service_count; of->at_service++, of->at_backend = 0) {
		of->service = &of->services[of->at_service];
		while (of->at_backend < of->service->backend_count) {
			int id;

			of->config = &of->service->backends[of->at_backend++];
			id = weir_tables_backend_find(
				of->tables, of->service->name, of->config->name);
			if (id >= 0 &&
				weir_tables_backend(of->tables, (uint16_t)id, &of->backend) == 0) {
				return true;
			}
		}
	}
	return false;
}

// Enlarges *array to one element per backend id of the tables. *ids: current number of elements;
// bytes: size of an element. New elements are zeroed. Returns 0 or -ENOMEM (nothing changed).
static inline int weir_configured_grow(
	const struct weir_tables *tables, void *array, uint32_t *ids, size_t bytes) {
	const uint32_t want = weir_tables_backend_ids(tables);
	char *old, *grown;

	if (want <= *ids) {
		return 0;
	}
	memcpy(&old, array, sizeof(old));
	grown = realloc(old, want * bytes);
	if (grown == NULL) {
		return -ENOMEM;
	}
	memset(grown + *ids * bytes, 0, (want - *ids) * bytes);
	memcpy(array, &grown, sizeof(grown));
	*ids = want;
	return 0; // cppcheck-suppress memleak // owned by the caller
}
