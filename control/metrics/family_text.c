// SPDX-License-Identifier: BSD-3-Clause
#include "family_text.h"

#include <stdlib.h>
#include <string.h>

int weir_column(const json_t *control, const char *kind, const char *name) {
	const json_t *columns = json_object_get(json_object_get(control, "columns"), kind);

	for (size_t i = 0; i < json_array_size(columns); i++) {
		const char *column = json_string_value(json_array_get(columns, i));

		if (column != NULL && strcmp(column, name) == 0) {
			return (int)i;
		}
	}
	return -1;
}

bool weir_row_is(const json_t *row, const char *kind) {
	const char *is = json_string_value(json_array_get(row, 0));

	return is != NULL && strcmp(is, kind) == 0;
}

void weir_family_name(struct weir_text *text, const struct weir_family *family) {
	weir_text_string(text, family->name);
	if (family->type == WEIR_FAMILY_COUNTER) {
		weir_text_string(text, "_total");
	}
}

void weir_family_head(struct weir_text *text, const struct weir_family *family, bool openmetrics) {
	const char *type = weir_family_type_name(family->type);
	struct weir_text name = {0};

	// In OpenMetrics, the header lines contain the name of the family. In the Prometheus text
	// format, they contain the name of the series.
	weir_text_string(&name, family->name);
	if (family->type == WEIR_FAMILY_COUNTER && !openmetrics) {
		weir_text_string(&name, "_total");
	}
	weir_text_string(text, "# HELP ");
	weir_text_add(text, name.data, name.bytes);
	weir_text_add(text, " ", 1);
	weir_text_escaped(text, family->help, openmetrics);
	weir_text_string(text, "\n# TYPE ");
	weir_text_add(text, name.data, name.bytes);
	weir_text_add(text, " ", 1);
	weir_text_string(
		text, family->type == WEIR_FAMILY_UNKNOWN && !openmetrics ? "untyped" : type);
	if (openmetrics && family->unit[0] != '\0') {
		weir_text_string(text, "\n# UNIT ");
		weir_text_add(text, name.data, name.bytes);
		weir_text_add(text, " ", 1);
		weir_text_string(text, family->unit);
	}
	weir_text_add(text, "\n", 1);
	text->failed = text->failed || name.failed;
	free(name.data);
}

void weir_family_label(struct weir_text *text, const char *name, const char *value, bool first) {
	if (!first) {
		weir_text_add(text, ",", 1);
	}
	weir_text_string(text, name);
	weir_text_add(text, "=\"", 2);
	weir_text_escaped(text, value, true);
	weir_text_add(text, "\"", 1);
}

void weir_family_number(struct weir_text *text, const json_t *value, double scale) {
	if (json_is_boolean(value)) {
		weir_text_integer(text, json_is_true(value));
	} else if (json_is_integer(value) && scale == 0) {
		weir_text_integer(text, json_integer_value(value));
	} else {
		weir_text_real(text, json_number_value(value) * (scale == 0 ? 1 : scale));
	}
}
