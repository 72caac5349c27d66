// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "families_ipvs.h"
#include "family_text.h"

// The rows of a scope. A row is an object, or an array of values; the columns of an array are
// listed separately in the reply.
struct rows {
	const json_t **row;
	struct weir_text *labels; // labels of each row, written before the labels of the family
	size_t count;
	const char *kind; // name of the list of columns; NULL = the rows are objects
};

struct output {
	struct weir_text *text;
	const struct weir_figures *figures;
	struct rows rows[WEIR_SCOPE_COUNT];
	double tsc_hz; // 0 = unknown
	bool openmetrics;
};

// --- lines ----------------------------------------------------------------------------------

// Write the labels of a series: the labels of its row, then `label` with its value.
static void write_labels(struct weir_text *text, const struct weir_text *labels, const char *label,
	const char *value) {
	if (labels->bytes > 0 || label != NULL) {
		weir_text_add(text, "{", 1);
		weir_text_add(text, labels->data, labels->bytes);
		if (label != NULL) {
			weir_family_label(text, label, value, labels->bytes == 0);
		}
		weir_text_add(text, "}", 1);
	}
	weir_text_add(text, " ", 1);
}

// Writes the name and the labels of a series.
static void begin_series(struct output *output, const struct weir_family *family,
	const struct weir_text *labels, const char *label, const char *value) {
	weir_family_name(output->text, family);
	write_labels(output->text, labels, label, value);
}

static void write_number(struct output *output, const struct weir_family *family,
	const struct weir_text *labels, const json_t *value) {
	double scale = family->scale;

	if (family->kind == WEIR_FAMILY_SECONDS_OF_CYCLES) {
		if (output->tsc_hz <= 0) {
			return;
		}
		scale = 1 / output->tsc_hz;
	}
	if (json_is_number(value) || json_is_boolean(value)) {
		begin_series(output, family, labels, NULL, NULL);
		weir_family_number(output->text, value, scale);
		weir_text_add(output->text, "\n", 1);
	}
}

static void write_states(struct output *output, const struct weir_family *family,
	const struct weir_text *labels, const json_t *value) {
	const char *is = json_string_value(value);

	for (size_t i = 0; is != NULL && family->states[i] != NULL; i++) {
		begin_series(output, family, labels, family->label, family->states[i]);
		weir_text_string(output->text, strcmp(is, family->states[i]) == 0 ? "1\n" : "0\n");
	}
}

static void write_map(struct output *output, const struct weir_family *family,
	const struct weir_text *labels, const json_t *value) {
	const char *key;
	json_t *number;

	json_object_foreach ((json_t *)value, key, number) {
		begin_series(output, family, labels, family->label, key);
		weir_family_number(output->text, number, family->scale);
		weir_text_add(output->text, "\n", 1);
	}
}

static void write_part(struct output *output, const struct weir_family *family, const char *part,
	const struct weir_text *labels, const char *bound, const json_t *number) {
	weir_text_string(output->text, family->name);
	weir_text_string(output->text, part);
	write_labels(output->text, labels, bound != NULL ? family->label : NULL, bound);
	weir_family_number(output->text, number, 0);
	weir_text_add(output->text, "\n", 1);
}

static void write_buckets(struct output *output, const struct weir_family *family,
	const struct weir_text *labels, const json_t *value) {
	const json_t *buckets = json_object_get(value, "buckets"), *count = NULL;
	const char *bound;
	json_t *number;

	json_object_foreach ((json_t *)buckets, bound, number) {
		write_part(output, family, "_bucket", labels, bound, number);
		count = number;
	}
	if (count != NULL) {
		write_part(output, family, "_sum", labels, NULL, json_object_get(value, "sum"));
		write_part(output, family, "_count", labels, NULL, count);
	}
}

// --- families -------------------------------------------------------------------------------

static const json_t *member(
	const struct rows *rows, const json_t *row, const char *key, int column) {
	return rows->kind == NULL ? json_object_get(row, key)
	       : column >= 0      ? json_array_get(row, (size_t)column)
				  : NULL;
}

static void write_info(struct output *output, const struct weir_family *family,
	const struct rows *rows, size_t number) {
	struct weir_text *labels = &rows->labels[number];
	size_t own = labels->bytes;
	char keys[64], *left = NULL;

	strncpy(keys, family->key, sizeof(keys) - 1);
	keys[sizeof(keys) - 1] = '\0';
	for (char *key = strtok_r(keys, " ", &left); key != NULL;
		key = strtok_r(NULL, " ", &left)) {
		int column = rows->kind == NULL
				     ? -1
				     : weir_column(output->figures->control, rows->kind, key);
		const char *value = json_string_value(member(rows, rows->row[number], key, column));

		if (value != NULL) {
			weir_family_label(labels, key, value, labels->bytes == 0);
		}
	}
	begin_series(output, family, labels, NULL, NULL);
	weir_text_string(output->text, "1\n");
	labels->bytes = own;
}

static void write_row(struct output *output, const struct weir_family *family,
	const struct rows *rows, size_t number, int column) {
	const struct weir_text *labels = &rows->labels[number];
	const json_t *value = member(rows, rows->row[number], family->key, column);

	switch (family->kind) {
	case WEIR_FAMILY_VALUE:
	case WEIR_FAMILY_SECONDS_OF_CYCLES:
		write_number(output, family, labels, value);
		break;
	case WEIR_FAMILY_STATE:
		write_states(output, family, labels, value);
		break;
	case WEIR_FAMILY_MAP:
		write_map(output, family, labels, value);
		break;
	case WEIR_FAMILY_INFO:
		write_info(output, family, rows, number);
		break;
	case WEIR_FAMILY_BUCKETS:
		write_buckets(output, family, labels, value);
		break;
	}
}

static void write_family(struct output *output, const struct weir_family *family) {
	const struct rows *rows = &output->rows[family->scope];
	struct weir_text *text = output->text;
	size_t before = text->bytes, begun;
	int column = rows->kind == NULL
			     ? -1
			     : weir_column(output->figures->control, rows->kind, family->key);

	weir_family_head(text, family, output->openmetrics);
	begun = text->bytes;
	for (size_t i = 0; i < rows->count; i++) {
		write_row(output, family, rows, i, column);
	}
	if (text->bytes == begun) {
		// the family has no series: remove its header lines
		text->bytes = before;
	}
}

// --- rows -----------------------------------------------------------------------------------

static int make_room(struct rows *rows, size_t count) {
	rows->row = calloc(count + 1, sizeof(*rows->row));
	rows->labels = calloc(count + 1, sizeof(*rows->labels));
	return rows->row == NULL || rows->labels == NULL ? -1 : 0;
}

static void add_row(struct rows *rows, const json_t *row) {
	rows->row[rows->count++] = row;
}

static int add_object(struct output *output, enum weir_family_scope scope, const json_t *object) {
	if (make_room(&output->rows[scope], 1) < 0) {
		return -1;
	}
	if (json_is_object(object)) {
		add_row(&output->rows[scope], object);
	}
	return 0;
}

// Adds the objects of a list as rows. Each row gets a label: its name is `label`, and its value is
// the member `key` of the object.
static int add_objects(struct output *output, enum weir_family_scope scope, const json_t *list,
	const char *label, const char *key) {
	struct rows *rows = &output->rows[scope];

	if (make_room(rows, json_array_size(list)) < 0) {
		return -1;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i), *value = json_object_get(row, key);
		struct weir_text *labels = &rows->labels[rows->count], number = {0};

		if (json_is_integer(value)) {
			weir_text_integer(&number, json_integer_value(value));
			weir_text_add(&number, "", 1);
		}
		if (!number.failed && (json_is_string(value) || json_is_integer(value))) {
			weir_family_label(labels, label,
				json_is_string(value) ? json_string_value(value) : number.data,
				true);
			add_row(rows, row);
		}
		free(number.data);
	}
	return 0;
}

// Returns whether this is the first row with these labels, and adds the labels to `seen`, the
// labels of all rows so far. A duplicate series would make the whole scrape invalid. Duplicates
// occur if a name moves to another id while a list is fetched in several parts, or if a new backend
// has the name of a removed backend that still has open flows.
static bool is_new(json_t *seen, const struct weir_text *labels) {
	bool new = json_object_getn(seen, labels->data, labels->bytes) == NULL;

	return new && json_object_setn_new(seen, labels->data, labels->bytes, json_true()) == 0;
}

// Adds the rows of the kind rows->kind. leave: true adds only rows whose member `leaving` is true;
// false adds all other rows.
static void add_listed(struct output *output, struct rows *rows, bool leave, json_t *seen) {
	const json_t *control = output->figures->control, *list = json_object_get(control, "rows");
	int service = weir_column(control, rows->kind, "service");
	int backend = weir_column(control, rows->kind, "backend");
	int leaving = weir_column(control, rows->kind, "leaving");
	int clients = weir_column(control, rows->kind, "clients");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i);
		const char *of = json_string_value(json_array_get(row, (size_t)service));
		const char *name = json_string_value(json_array_get(row, (size_t)backend));
		struct weir_text *labels = &rows->labels[rows->count];

		if (!weir_row_is(row, rows->kind) || of == NULL || (backend >= 0 && name == NULL) ||
			json_is_true(json_array_get(row, (size_t)leaving)) != leave) {
			continue;
		}
		labels->bytes = 0;
		weir_family_label(labels, "service", of, true);
		if (backend >= 0) {
			weir_family_label(labels, "backend", name, false);
		}
		if (json_is_string(json_array_get(row, (size_t)clients))) {
			weir_family_label(labels, "clients",
				json_string_value(json_array_get(row, (size_t)clients)), false);
		}
		if (is_new(seen, labels)) {
			add_row(rows, row);
		}
	}
}

static int add_list(struct output *output, enum weir_family_scope scope, const char *kind) {
	struct rows *rows = &output->rows[scope];
	json_t *seen = json_object();

	rows->kind = kind;
	if (seen == NULL || make_room(rows, json_array_size(json_object_get(
						    output->figures->control, "rows"))) < 0) {
		json_decref(seen);
		return -1;
	}
	add_listed(output, rows, false, seen);
	add_listed(output, rows, true, seen);
	json_decref(seen);
	return 0;
}

static int find_rows(struct output *output) {
	const json_t *control = output->figures->control;
	const json_t *steals = json_object_get(control, "flow_steals");

	return add_object(output, WEIR_SCOPE_METRICS, output->figures->own) < 0 ||
			       add_object(output, WEIR_SCOPE_CONTROL,
				       json_object_get(control, "control")) < 0 ||
			       add_object(output, WEIR_SCOPE_DATAPLANE,
				       json_object_get(control, "dataplane")) < 0 ||
			       add_object(output, WEIR_SCOPE_SEGMENT,
				       json_object_get(control, "segment")) < 0 ||
			       add_object(output, WEIR_SCOPE_AGENTS,
				       json_object_get(control, "agents")) < 0 ||
			       add_objects(output, WEIR_SCOPE_WORKER,
				       json_object_get(control, "workers"), "worker",
				       "worker") < 0 ||
			       add_objects(output, WEIR_SCOPE_PORT,
				       json_object_get(control, "ports"), "port", "name") < 0 ||
			       add_list(output, WEIR_SCOPE_SERVICE, "service") < 0 ||
			       add_list(output, WEIR_SCOPE_BACKEND, "backend") < 0 ||
			       add_list(output, WEIR_SCOPE_TCP, "tcp") < 0 ||
			       add_objects(output, WEIR_SCOPE_STEAL, steals, "service", "service") <
				       0
		       ? -1
		       : 0;
}

static void free_rows(struct output *output) {
	for (int scope = 0; scope < WEIR_SCOPE_COUNT; scope++) {
		struct rows *rows = &output->rows[scope];

		for (size_t i = 0; rows->labels != NULL && i <= rows->count; i++) {
			output->text->failed = output->text->failed || rows->labels[i].failed;
			free(rows->labels[i].data);
		}
		free(rows->row);
		free(rows->labels);
	}
}

void weir_families_write(struct weir_text *text, const struct weir_figures *figures,
	bool ipvs_names, bool openmetrics) {
	const json_t *dataplane = json_object_get(figures->control, "dataplane");
	struct output output = {.text = text,
		.figures = figures,
		.tsc_hz = json_number_value(json_object_get(dataplane, "tsc_hz")),
		.openmetrics = openmetrics};

	if (find_rows(&output) < 0) {
		text->failed = true;
	}
	for (size_t i = 0; i < weir_family_count && !text->failed; i++) {
		write_family(&output, &weir_families[i]);
	}
	free_rows(&output);
	if (ipvs_names) {
		weir_ipvs_write(text, figures->control, openmetrics);
	}
	if (openmetrics) {
		weir_text_string(text, "# EOF\n");
	}
}
