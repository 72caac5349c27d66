// SPDX-License-Identifier: BSD-3-Clause
#include "change_renames.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config_host.h"

// Maximum number of removed backends with the same name in a service that are looked at. Their
// addresses differ, so each of them is of another reload.
#define REMOVED_MOST 16u

struct place { // a backend of the new configuration, found by its address
	const struct weir_config_service *service;
	const struct weir_config_backend *backend;
};

struct search {
	const struct weir_change_costs_of *of;
	struct weir_config_errors *errors;
	struct place *places; // sorted by address; NULL until the first search
	uint32_t count;
	uint32_t warned;
};

static int compare_addresses(const struct weir_address *a, const struct weir_address *b) {
	return a->family != b->family ? a->family - b->family
				      : memcmp(a->bytes, b->bytes, a->family == 4 ? 4 : 16);
}

static int compare_places(const void *a, const void *b) {
	return compare_addresses(&((const struct place *)a)->backend->address,
		&((const struct place *)b)->backend->address);
}

static int sort_places(struct search *search) {
	const struct weir_config *to = search->of->to;
	uint32_t count = 0;

	for (uint32_t i = 0; i < to->service_count; i++) {
		count += to->services[i].backend_count;
	}
	search->places = calloc(count + 1u, sizeof(*search->places));
	if (search->places == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < to->service_count; i++) {
		for (uint32_t j = 0; j < to->services[i].backend_count; j++) {
			search->places[search->count++] =
				(struct place){&to->services[i], &to->services[i].backends[j]};
		}
	}
	qsort(search->places, search->count, sizeof(*search->places), compare_places);
	return 0;
}

// Returns the index of the first place whose address is equal to or greater than this address.
static uint32_t first_place(const struct search *search, const struct weir_address *address) {
	uint32_t low = 0, high = search->count;

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (compare_addresses(&search->places[middle].backend->address, address) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

// Returns whether the change adds this backend, or changes its address, and the backend will get
// new flows. Returns false for a backend that already has this address, because it keeps its state.
static bool begins(const struct search *search, const struct place *place) {
	const struct weir_config_backend *backend = place->backend;
	int id = weir_tables_backend_find(search->of->tables, place->service->name, backend->name);
	struct weir_backend_state state;

	return (backend->weight > 0 || backend->weight_auto) &&
	       (id < 0 || weir_tables_backend(search->of->tables, (uint16_t)id, &state) < 0 ||
		       !weir_address_equal(&state.address, &backend->address));
}

// Adds a warning about a backend that will get new flows. former: its previous backend, which got
// none. returns: the previous backend has the same name, was removed, and still has flows.
static int warn(struct search *search, const struct place *place,
	const struct weir_backend_state *former, bool returns) {
	const bool drained = former->admin == WEIR_ADMIN_DRAIN;
	const bool ready = former->admin == WEIR_ADMIN_READY;
	struct weir_config_error warning = {.line = place->backend->line};
	const char *what = drained ? "drain" : ready ? "weight 0" : "maintenance";
	char text[480];
	size_t used;

	if (search->warned++ >= WEIR_CHANGE_RENAMES_MOST) {
		return 0;
	}
	snprintf(warning.path, sizeof(warning.path), "services[%u].backends[%u]",
		(unsigned int)(place->service - search->of->to->services),
		(unsigned int)(place->backend - place->service->backends));
	if (returns) {
		used = (size_t)snprintf(text, sizeof(text),
			"gets new flows, because its %s ends when it returns to the configuration",
			what);
	} else {
		used = (size_t)snprintf(text, sizeof(text),
			"gets new flows, because the %s of %s/%s, which has the same address, ends",
			what, former->service, former->name);
	}
	snprintf(text + used, sizeof(text) - used,
		"; to prevent this, set \"weight\": 0 here, or run weirctl %s %s/%s%s%s",
		drained ? "backend drain"
		: ready ? "weight set"
			: "backend maintenance",
		place->service->name, place->backend->name, ready ? " 0" : "",
		returns ? " after the reload" : "");
	// With names of the maximum length, the text can be too long. It is then truncated.
	snprintf(warning.reason, sizeof(warning.reason), "%.319s", text);
	return weir_config_add_warning(search->errors, &warning);
}

static bool got_no_flows(const struct weir_backend_state *state) {
	return state->admin != WEIR_ADMIN_READY || state->runtime_weight == 0;
}

// Adds warnings about new backends with the address of this backend, which is removed or gets
// another address. Returns 0 or -ENOMEM.
static int look(struct search *search, const char *service, const char *name) {
	const struct weir_tables *tables = search->of->tables;
	int id = weir_tables_backend_find(tables, service, name);
	struct weir_backend_state state;
	int r;

	if (id < 0 || weir_tables_backend(tables, (uint16_t)id, &state) < 0 ||
		!got_no_flows(&state)) {
		return 0;
	}
	r = search->places == NULL ? sort_places(search) : 0;
	for (uint32_t i = r == 0 ? first_place(search, &state.address) : 0;
		r == 0 && i < search->count &&
		weir_address_equal(&search->places[i].backend->address, &state.address);
		i++) {
		if (begins(search, &search->places[i])) {
			r = warn(search, &search->places[i], &state, false);
		}
	}
	return r;
}

// Adds a warning about a backend of this name that an earlier reload removed from the service, if
// the new configuration has it again. Returns 0 or -ENOMEM.
static int look_at_removed(
	struct search *search, uint16_t of, const char *service, const char *name) {
	const struct weir_tables *tables = search->of->tables;
	uint16_t ids[REMOVED_MOST];
	uint32_t count = weir_tables_backends_removed(tables, of, name, ids, REMOVED_MOST);
	struct weir_backend_state state;
	int r = 0;

	count = count < REMOVED_MOST ? count : REMOVED_MOST;
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		if (weir_tables_backend(tables, ids[i], &state) < 0 || !got_no_flows(&state)) {
			continue;
		}
		r = search->places == NULL ? sort_places(search) : 0;
		for (uint32_t k = r == 0 ? first_place(search, &state.address) : 0;
			r == 0 && k < search->count &&
			weir_address_equal(&search->places[k].backend->address, &state.address);
			k++) {
			const struct place *place = &search->places[k];

			if (strcmp(place->backend->name, name) == 0 &&
				strcmp(place->service->name, service) == 0 &&
				begins(search, place)) {
				r = warn(search, place, &state, true);
			}
		}
	}
	return r;
}

// Adds such warnings about backends of this service. name: only this backend; NULL = all. Returns 0
// or -ENOMEM.
static int look_at_returning(struct search *search, const char *service, const char *name) {
	const struct weir_tables *tables = search->of->tables;
	const struct weir_config_service *to;
	int of = weir_tables_service_find(tables, service), r = 0;

	of = of >= 0 ? of : weir_tables_service_find_removed(tables, service);
	if (of < 0) {
		return 0;
	}
	if (name != NULL) {
		return look_at_removed(search, (uint16_t)of, service, name);
	}
	to = weir_config_find_service(search->of->to, service);
	for (uint32_t i = 0; r == 0 && to != NULL && i < to->backend_count; i++) {
		r = look_at_removed(search, (uint16_t)of, service, to->backends[i].name);
	}
	return r;
}

static int look_at_change(struct search *search, const struct weir_change *change) {
	char name[WEIR_CONFIG_NAME_BYTES] = "", backend[WEIR_CONFIG_NAME_BYTES] = "";
	char key[16] = ""; // of the backend, not of its health check
	const bool removed = change->kind == WEIR_CHANGE_REMOVE;
	const struct weir_config_service *service;
	int r = 0;

	if (sscanf(change->what, "service %63s backend %63s %15s", name, backend, key) < 1) {
		return 0;
	}
	if (change->kind == WEIR_CHANGE_ADD) {
		return strcmp(change->key, "backends") == 0
			       ? look_at_returning(search, name, backend)
		       : strcmp(change->key, "services") == 0
			       ? look_at_returning(search, name, NULL)
			       : 0;
	}
	if (strcmp(key, "address") == 0) {
		r = look_at_returning(search, name, backend);
	}
	if (r < 0) {
		return r;
	}
	if ((removed && strcmp(change->key, "backends") == 0) || strcmp(key, "address") == 0) {
		return look(search, name, backend);
	}
	service = removed && strcmp(change->key, "services") == 0
			  ? weir_config_find_service(search->of->from, name)
			  : NULL;
	for (uint32_t i = 0; r == 0 && service != NULL && i < service->backend_count; i++) {
		r = look(search, name, service->backends[i].name);
	}
	return r;
}

int weir_change_renames_warn(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_config_errors *errors) {
	struct search search = {.of = of, .errors = errors};
	struct weir_config_error more = {.path = "services"};
	int r = 0;

	for (uint32_t i = 0; of->tables != NULL && r == 0 && i < difference->count; i++) {
		r = look_at_change(&search, &difference->change[i]);
	}
	if (r == 0 && search.warned > WEIR_CHANGE_RENAMES_MOST) {
		const uint32_t hidden = search.warned - WEIR_CHANGE_RENAMES_MOST;

		snprintf(more.reason, sizeof(more.reason),
			"%u more backend%s new flows, although %s", hidden,
			hidden == 1 ? " gets" : "s get",
			hidden == 1 ? "it got none before" : "they got none before");
		r = weir_config_add_warning(errors, &more);
	}
	free(search.places);
	return r;
}
