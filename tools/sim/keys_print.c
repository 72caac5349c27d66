// SPDX-License-Identifier: BSD-3-Clause
#include "keys_print.h"

#include <string.h>

#include "scenario_reader.h"

#define PATH_BYTES 160

static void print_range(FILE *stream, const struct weir_sim_key *key) {
	switch (key->kind) {
	case WEIR_SIM_KEY_INTEGER:
	case WEIR_SIM_KEY_NUMBER:
	case WEIR_SIM_KEY_MS:
		fprintf(stream, "%.10g to %.10g", key->min, key->max);
		break;
	case WEIR_SIM_KEY_BOOLEAN:
		fputs("true, false", stream);
		break;
	case WEIR_SIM_KEY_NAME:
		fputs("name", stream);
		break;
	case WEIR_SIM_KEY_TEXT:
		fputs("text", stream);
		break;
	case WEIR_SIM_KEY_CHOICE:
		for (const struct weir_sim_choice *c = key->choices; c->name != NULL; c++) {
			fprintf(stream, "%s%s", c == key->choices ? "" : ", ", c->name);
		}
		break;
	case WEIR_SIM_KEY_NUMBERS:
		fprintf(stream, "1 to %u numbers, %.10g to %.10g", WEIR_SIM_NUMBERS_MAX, key->min,
			key->max);
		break;
	case WEIR_SIM_KEY_LIST:
		fprintf(stream, "at most %g objects", key->max);
		break;
	case WEIR_SIM_KEY_OBJECT:
		fputs("object", stream);
		break;
	case WEIR_SIM_KEY_ELSEWHERE:
		fprintf(stream, "at most %u objects", WEIR_SIM_VARIANTS_MAX);
		break;
	}
}

static void print_keys(FILE *stream, const struct weir_sim_keys *keys, const char *path) {
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_sim_key *key = &keys->key[i];
		bool list = key->kind == WEIR_SIM_KEY_LIST;
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
