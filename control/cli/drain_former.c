// SPDX-License-Identifier: BSD-3-Clause
#include "drain_former.h"

#include <string.h>

#include "plural.h"
#include "show.h"

static json_int_t number(const json_t *object, const char *key) {
	return json_integer_value(json_object_get(object, key));
}

static int rank(const json_t *drain) {
	static const char *const states[] = {"draining", "kept", "dropped", "drained"};
	const char *state = json_string_value(json_object_get(drain, "state"));
	int i = 0;

	while (i < 3 && (state == NULL || strcmp(state, states[i]) != 0)) {
		i++;
	}
	return i;
}

static void add_flows(json_t *drain, const json_t *other, const char *key) {
	const json_t *one = json_object_get(drain, key), *more = json_object_get(other, key);

	json_object_set_new(drain, key,
		json_is_null(one) || json_is_null(more) // unknown
			? json_null()
			: json_integer(json_integer_value(one) + json_integer_value(more)));
}

// Merges `other` into `drain`. The result has the state and the deadline of the drain that has made
// less progress, and the sum of the flows.
static void add_drain(json_t *drain, json_t *other) {
	static const char *const keys[] = {
		"state", "left_ms", "at_deadline", "waits_for", "recount_ms"};
	const bool is_behind = rank(other) < rank(drain);

	for (size_t i = 0; is_behind && i < sizeof(keys) / sizeof(keys[0]); i++) {
		json_object_set(drain, keys[i], json_object_get(other, keys[i]));
	}
	add_flows(drain, other, "kept_flows");
	add_flows(drain, other, "dropped_flows");
}

void weir_drain_add_former(json_t *row, const json_t *rows) {
	json_t *former = json_array(), *other, *drain = json_object_get(row, "drain");
	json_t *flows = json_pack("{s:i}", "open_flows", 0);
	size_t i;

	json_array_foreach (rows, i, other) {
		if (!json_is_true(json_object_get(other, "leaving"))) {
			continue;
		}
		if (number(other, "open_flows") > 0) {
			json_array_append(former, json_object_get(other, "address"));
		}
		add_flows(flows, other, "open_flows");
		if (json_is_object(drain) && json_is_object(json_object_get(other, "drain"))) {
			add_drain(drain, json_object_get(other, "drain"));
		}
	}
	add_flows(row, flows, "open_flows");
	json_object_set(row, "former_open_flows", json_object_get(flows, "open_flows"));
	json_decref(flows);
	json_object_set_new(row, "former_addresses", former);
}

const char *weir_drain_former_text(const json_t *row, char *text, size_t bytes) {
	const json_t *former = json_object_get(row, "former_addresses");
	json_int_t flows = number(row, "former_open_flows");
	char names[200];

	text[0] = '\0';
	if (flows > 0) {
		snprintf(text, bytes,
			"%" JSON_INTEGER_FORMAT " open flow%s of its previous address%s %s", flows,
			weir_plural((uint64_t)flows), json_array_size(former) == 1 ? "" : "es",
			weir_show_value(former, WEIR_SHOW_TEXT, names, sizeof(names)));
	}
	return text;
}
