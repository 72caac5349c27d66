// SPDX-License-Identifier: BSD-3-Clause
//
// Checks an import: the result must be a configuration that Weir accepts, or an error with a
// reason. All texts must be printable.
#pragma once

#include "config.h"
#include "fuzz.h"
#include "import.h"

#define SOURCE "source"

static inline void check_printable(const json_t *row, const char *key) {
	const char *text = json_string_value(json_object_get(row, key));

	REQUIRE(text != NULL);
	for (; *text != '\0'; text++) {
		REQUIRE(*text >= ' ' && *text <= '~');
	}
}

static inline void check_rows(const json_t *rows, const char *const *keys) {
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		REQUIRE(json_integer_value(json_object_get(row, "line")) >= 0);
		for (size_t k = 0; keys[k] != NULL; k++) {
			check_printable(row, keys[k]);
		}
	}
}

static inline void check_import(struct weir_import *import) {
	const struct weir_import_place source = {.file = SOURCE};
	char *text = weir_import_finish(import, &source);
	struct weir_config_errors errors;
	struct weir_config *config;

	REQUIRE(!import->failed);
	REQUIRE((text != NULL) == (json_array_size(import->errors) == 0));
	check_rows(import->notes, (const char *const[]){"kind", "file", "what", "why", NULL});
	check_rows(import->errors, (const char *const[]){"file", "reason", NULL});
	if (text != NULL) {
		REQUIRE(weir_config_parse(text, strlen(text), &config, &errors) == 0);
		REQUIRE(config->service_count == json_array_size(import->services));
		weir_config_errors_fini(&errors);
		weir_config_free(config);
	}
	free(text);
	weir_import_fini(import);
}
