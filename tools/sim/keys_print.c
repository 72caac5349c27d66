// SPDX-License-Identifier: BSD-3-Clause
#include "keys_print.h"

#include <string.h>

#include "scenario.h"
#include "scenario_keys.h"

#define PATH_BYTES 160

static void print_range(FILE *stream, const struct weir_json_key *key) {
	if (key->type == &weir_json_type_boolean) {
		fputs("true, false", stream);
	} else if (key->type == &weir_json_type_choice) {
		for (const struct weir_json_choice *c = key->choices; c->name != NULL; c++) {
			fprintf(stream, "%s%s", c == key->choices ? "" : ", ", c->name);
		}
	} else if (key->type == &weir_sim_type_numbers) {
		fprintf(stream, "1 to %u numbers, %.10g to %.10g", WEIR_SIM_NUMBERS_MAX, key->min,
			key->max);
	} else if (key->type == &weir_json_type_list) {
		fprintf(stream, "at most %g objects", key->max);
	} else if (key->type == &weir_sim_type_elsewhere) {
		fprintf(stream, "at most %u objects", WEIR_SIM_VARIANTS_MAX);
	} else if (key->type == &weir_sim_type_whole || key->type == &weir_sim_type_number ||
		   key->type == &weir_sim_type_ms) {
		fprintf(stream, "%.10g to %.10g", key->min, key->max);
	} else {
		fputs(key->type->name, stream); // the name of the type: name, text, object
	}
}

static void print_keys(FILE *stream, const struct weir_json_object *keys, const char *path) {
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_json_key *key = &keys->key[i];
		bool list = key->type == &weir_json_type_list;
		char inside[PATH_BYTES];

		snprintf(inside, sizeof(inside), "%s%s%s%s", path, path[0] != '\0' ? "." : "",
			key->key, list ? "[]" : "");
		fprintf(stream, "%s\t", inside);
		print_range(stream, key);
		fprintf(stream, "\t%s\t%s\n", key->fallback != NULL ? key->fallback : "required",
			key->meaning);
		if (key->object != NULL) {
			print_keys(stream, key->object, inside);
		}
	}
}

void weir_sim_keys_print(FILE *stream) {
	print_keys(stream, &weir_sim_file_keys, "");
	print_keys(stream, &weir_sim_scenario_keys, "");
}
