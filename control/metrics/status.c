// SPDX-License-Identifier: BSD-3-Clause
#include "status.h"

static json_t *last_of(const json_t *list) {
	size_t count = json_array_size(list);
	json_t *last = json_array();

	for (size_t i = count > WEIR_STATUS_EVENTS ? count - WEIR_STATUS_EVENTS : 0; i < count;
		i++) {
		json_array_append(last, json_array_get(list, i));
	}
	return last;
}

// A new reference to it, or null.
static json_t *or_null(const json_t *value) {
	return value != NULL ? json_incref((json_t *)value) : json_null();
}

static int append(const char *bytes, size_t count, void *text) {
	weir_text_add(text, bytes, count);
	return 0;
}

void weir_status_write(struct weir_text *text, const struct weir_status *status) {
	json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "metrics",
		or_null(status->figures.own), "control", or_null(status->figures.control),
		"history", weir_history_json(status->history), "events", last_of(status->events),
		"steals", last_of(json_object_get(status->steals, "recent")), "why", status->why);

	if (object == NULL || json_dump_callback(object, append, text,
				      JSON_COMPACT | JSON_REAL_PRECISION(10)) < 0) {
		text->failed = true;
	}
	json_decref(object);
}
