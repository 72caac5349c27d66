// SPDX-License-Identifier: BSD-3-Clause
#include "import_refused.h"

#include <stdio.h>
#include <string.h>

#include "config_keys.h"

// A bind, backend or service that is left out is first replaced by null, and removed only after the
// last error. Errors identify these parts by index, and a removal changes the indexes of later
// parts.

static struct weir_import_place place_of(const json_t *json) {
	const char *file = json_string_value(json_object_get(json, "file"));

	return (struct weir_import_place){.file = file != NULL ? file : "-",
		.line = (int)json_integer_value(json_object_get(json, "line"))};
}

// The leave_out functions return whether a part was left out.

static bool leave_out_element(struct weir_import *import, json_t *list, const json_t *places,
	size_t n, const char *reason) {
	json_t *element = json_array_get(list, n);
	const struct weir_import_place place = place_of(json_array_get(places, n));
	const char *address = json_string_value(json_object_get(element, "address"));

	if (!json_is_object(element)) {
		return false;
	}
	weir_import_note(import, &place, WEIR_IMPORT_MISSING, address, "%s", reason);
	json_array_set_new(list, n, json_null());
	return true;
}

// Returns whether a health check remains useful without this key.
static bool is_detail(const char *key) {
	return strcmp(key, "host") == 0 || strncmp(key, "body", 4) == 0 ||
	       strcmp(key, "path") == 0 || strcmp(key, "urls") == 0;
}

int weir_import_clear(json_t *check, const json_t *service, const char *key) {
	const struct weir_json_key *row = weir_json_find_key(&weir_config_health_keys, key);

	if (service == NULL ||
		!json_equal(json_object_get(check, "type"), json_object_get(service, "type"))) {
		(void)json_object_del(check, key);
		return 0;
	}
	return json_object_set_new(check, key,
		row != NULL && row->fallback != NULL
			? json_loads(row->fallback, JSON_DECODE_ANY, NULL)
			: json_array()); // the other keys are lists
}

// owner: the service or backend that has the check. service: NULL = the owner is the service.
static bool leave_out_check(struct weir_import *import, json_t *owner, const json_t *service,
	const struct weir_import_place *place, const char *key, const char *reason) {
	json_t *check = json_object_get(owner, "health_check");
	const bool is_of_url = strncmp(key, "urls[", 5) == 0;

	key = is_of_url ? "urls" : key;
	if (is_of_url && json_array_size(json_object_get(check, key)) == 0) {
		return true; // an earlier error has removed the list
	}
	if (key[0] != '\0' && is_detail(key) && json_object_get(check, key) != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, key, "%s", reason);
		import->failed |=
			weir_import_clear(check, json_object_get(service, "health_check"), key) < 0;
	} else if (check != NULL) {
		weir_import_note(import, place, WEIR_IMPORT_LEFT_OUT, "health check", "%s", reason);
		json_object_del(owner, "health_check");
		if (json_object_get(service, "health_check") != NULL) {
			weir_import_note(import, place, WEIR_IMPORT_DIFFERS, "health check",
				"the check of the service also applies to this server");
		} else {
			weir_import_note_unchecked(import, place);
		}
	}
	return check != NULL;
}

static bool leave_out(struct weir_import *import, const struct weir_config_error *error) {
	unsigned int number, n;
	int used = 0;
	const char *rest;
	json_t *service, *places;
	struct weir_import_place place;

	if (sscanf(error->path, "services[%u]%n", &number, &used) != 1 || used == 0 ||
		number >= json_array_size(import->services)) {
		return false;
	}
	service = json_array_get(import->services, number);
	places = json_array_get(import->places, number);
	place = place_of(json_object_get(places, "place"));
	rest = error->path + used;
	if (!json_is_object(service)) {
		return false;
	}
	if (sscanf(rest, ".binds[%u]", &n) == 1) {
		return leave_out_element(import, json_object_get(service, "binds"),
			json_object_get(places, "binds"), n, error->reason);
	}
	used = 0;
	if (sscanf(rest, ".backends[%u].health_check%n", &n, &used) == 1 && used > 0) {
		place = place_of(json_array_get(json_object_get(places, "backends"), n));
		return leave_out_check(import,
			json_array_get(json_object_get(service, "backends"), n), service, &place,
			rest + used + (rest[used] == '.'), error->reason);
	}
	if (sscanf(rest, ".backends[%u]", &n) == 1) {
		return leave_out_element(import, json_object_get(service, "backends"),
			json_object_get(places, "backends"), n, error->reason);
	}
	if (strncmp(rest, ".health_check", strlen(".health_check")) == 0) {
		rest += strlen(".health_check");
		return leave_out_check(
			import, service, NULL, &place, rest + (rest[0] == '.'), error->reason);
	}
	if (strcmp(rest, ".gue_port") == 0) { // the backends with GUE were left out
		return json_object_del(service, "gue_port") == 0;
	}
	weir_import_note(import, &place, WEIR_IMPORT_MISSING,
		json_string_value(json_object_get(service, "name")),
		"the service is not imported: %s", error->reason);
	json_array_set_new(import->services, number, json_null());
	return true;
}

// Remove nulls from a list, and the elements with the same indexes from a parallel list. Returns
// the number of remaining elements.
static size_t sweep(json_t *list, json_t *parallel) {
	for (size_t i = json_array_size(list); i-- > 0;) {
		if (json_is_null(json_array_get(list, i))) {
			json_array_remove(list, i);
			json_array_remove(parallel, i);
		}
	}
	return json_array_size(list);
}

static void sweep_service(struct weir_import *import, size_t number) {
	json_t *service = json_array_get(import->services, number);
	json_t *places = json_array_get(import->places, number);
	const struct weir_import_place place = place_of(json_object_get(places, "place"));
	size_t binds, backends;

	if (!json_is_object(service)) {
		return;
	}
	binds = sweep(json_object_get(service, "binds"), json_object_get(places, "binds"));
	backends = sweep(json_object_get(service, "backends"), json_object_get(places, "backends"));
	if (binds == 0 || backends == 0) {
		weir_import_note(import, &place, WEIR_IMPORT_MISSING,
			json_string_value(json_object_get(service, "name")),
			"the service is not imported: it has no %s",
			binds == 0 ? "usable address" : "real server that Weir supports");
		json_array_set_new(import->services, number, json_null());
	}
}

bool weir_import_leave_out_refused(
	struct weir_import *import, const struct weir_config_errors *errors) {
	bool any = false;

	for (uint32_t i = 0; i < errors->count; i++) {
		any |= leave_out(import, &errors->error[i]);
	}
	for (size_t i = 0; i < json_array_size(import->services); i++) {
		sweep_service(import, i);
	}
	(void)sweep(import->services, import->places);
	return any;
}
