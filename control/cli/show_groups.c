// SPDX-License-Identifier: BSD-3-Clause
//
// Rows of backends, grouped by their services.
#include <string.h>

#include "show.h"

static const char *service_of(const json_t *row) {
	const char *service = json_string_value(json_object_get(row, "service"));

	return service != NULL ? service : "";
}

json_t *weir_show_by_service(const json_t *rows) {
	json_t *groups = json_object(), *grouped = json_array(), *row, *group;
	const char *service;
	size_t i;

	json_array_foreach (rows, i, row) {
		group = json_object_get(groups, service_of(row));
		if (group == NULL) {
			group = json_array();
			json_object_set_new(groups, service_of(row), group);
		}
		json_array_append(group, row);
	}
	json_object_foreach (groups, service, group) { // in the order of insertion
		json_array_extend(grouped, group);
	}
	json_decref(groups);
	return grouped;
}

void weir_show_service_once(const json_t *rows) {
	json_t *row, *last = json_null();
	size_t i;

	json_array_foreach (rows, i, row) {
		json_t *service = json_incref(json_object_get(row, "service"));

		if (json_equal(service, last)) {
			json_object_set_new(row, "service", json_string(""));
		}
		json_decref(last);
		last = service != NULL ? service : json_null();
	}
	json_decref(last);
}
