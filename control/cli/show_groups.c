// SPDX-License-Identifier: BSD-3-Clause
//
// Groups rows of backends by service.
#include <stdio.h>
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
	json_object_foreach (groups, service, group) { // iterates in the order of insertion
		json_array_extend(grouped, group);
	}
	json_decref(groups);
	return grouped;
}

// Write the name of a backend as "SERVICE/NAME". key: key of the name in the row. Returns text.
static const char *full_name(const json_t *row, const char *key, char *text, size_t bytes) {
	const char *service = json_string_value(json_object_get(row, "service"));
	const char *name = json_string_value(json_object_get(row, key));

	snprintf(text, bytes, "%s/%s", service != NULL ? service : "", name != NULL ? name : "");
	return text;
}

void weir_show_add_labels(const json_t *backends, const char *key) {
	json_t *several = json_object(), *row; // {full name: whether it occurs more than once}
	char full[256];
	size_t i;

	json_array_foreach (backends, i, row) {
		full_name(row, key, full, sizeof(full));
		json_object_set_new(
			several, full, json_boolean(json_object_get(several, full) != NULL));
	}
	json_array_foreach (backends, i, row) {
		json_t *name = json_object_get(row, key);
		const char *address = json_string_value(json_object_get(row, "address"));

		full_name(row, key, full, sizeof(full));
		if (json_is_true(json_object_get(several, full)) && address != NULL) {
			json_object_set_new(row, "label",
				json_sprintf("%s (%s)", json_string_value(name), address));
		} else {
			json_object_set(row, "label", name);
		}
	}
	json_decref(several);
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
