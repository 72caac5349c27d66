// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maglev.h"
#include "scenario_reader.h"

#define FILE_MAX (16u << 20)
#define CAPACITY_NS 1e9 // of a core in a second

double weir_sim_request_rate(const struct weir_sim_scenario *scenario) {
	double capacity = CAPACITY_NS * scenario->backends.count * scenario->backends.cores;

	if (scenario->clients.requests_per_second > 0) {
		return scenario->clients.requests_per_second;
	}
	return capacity * scenario->clients.load_percent / 100.0 /
	       weir_sim_distribution_mean(&scenario->cost);
}

const char *weir_sim_plot_name(enum weir_sim_plot plot) {
	static const char *const names[] = {
#define X(name, key, what) [WEIR_SIM_PLOT_##name] = (key),
		WEIR_SIM_PLOTS(X)
#undef X
	};

	return (unsigned int)plot < WEIR_SIM_PLOT_COUNT ? names[plot] : "unknown";
}

void weir_sim_problems_fini(struct weir_sim_problems *problems) {
	free(problems->problem);
	*problems = (struct weir_sim_problems){0};
}

void weir_sim_file_free(struct weir_sim_file *file) {
	if (file == NULL) {
		return;
	}
	for (uint32_t i = 0; file->variant != NULL && i < file->variant_count; i++) {
		weir_sim_keys_free(&weir_sim_scenario_keys, &file->variant[i]);
	}
	weir_sim_keys_free(&weir_sim_file_keys, file);
	free(file->variant);
	free(file);
}

static bool fill_in(struct weir_sim_scenario *scenario) {
	// A series of fewer than two samples shows nothing.
	if (scenario->sample_ns > scenario->duration_ns / 2) {
		scenario->sample_ns = (scenario->duration_ns + 1) / 2;
	}
	if (scenario->window_count > 0) {
		return true;
	}
	free(scenario->window); // an empty list
	scenario->window = calloc(1, sizeof(*scenario->window));
	if (scenario->window == NULL) {
		return false;
	}
	scenario->window_count = 1;
	snprintf(scenario->window->name, sizeof(scenario->window->name), "measured");
	scenario->window->from_ns = scenario->warmup_ns;
	scenario->window->to_ns = scenario->duration_ns;
	return true;
}

static bool read_variant_name(
	struct weir_sim_reader *reader, const json_t *variant, char name[WEIR_SIM_NAME_BYTES]) {
	struct weir_sim_at root = {0};
	const char *text = json_string_value(json_object_get(variant, "name"));

	if (text == NULL || text[0] == '\0' || strlen(text) >= WEIR_SIM_NAME_BYTES ||
		strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(text)) {
		weir_sim_problem_add(reader, &root, NULL,
			"a variant needs a \"name\" of at most %d small letters, digits, '-', '_' "
			"and '.'",
			WEIR_SIM_NAME_BYTES - 1);
		return false;
	}
	snprintf(name, WEIR_SIM_NAME_BYTES, "%s", text);
	return true;
}

// Keys that a variant cannot have values of its own for.
static bool check_variant_keys(struct weir_sim_reader *reader, const json_t *variant) {
	static const char *const of_file[] = {"seeds", "plots", "variants"};
	struct weir_sim_at root = {0};
	bool good = true;

	for (size_t i = 0; i < sizeof(of_file) / sizeof(of_file[0]); i++) {
		if (json_object_get(variant, of_file[i]) != NULL) {
			weir_sim_problem_add(reader, &root, of_file[i],
				"is for all variants; write it outside of them");
			good = false;
		}
	}
	return good;
}

static void check_variant(
	struct weir_sim_reader *reader, const struct weir_sim_file *file, uint32_t index) {
	const struct weir_sim_scenario *scenario = &file->variant[index];
	struct weir_sim_at root = {0};

	for (uint32_t i = 0; i < index; i++) {
		if (strcmp(file->variant[i].name, scenario->name) == 0) {
			weir_sim_problem_add(
				reader, &root, "name", "\"%s\" is there already", scenario->name);
		}
	}
	if (!weir_is_prime(scenario->table_size)) {
		weir_sim_problem_add(reader, &root, "table_size", "%u is not prime; 4093 is",
			scenario->table_size);
	}
}

// The scenario with the values of one variant put over it. variant NULL: as it stands.
static bool read_variant(struct weir_sim_reader *reader, json_t *root, json_t *variant,
	uint32_t index, struct weir_sim_file *file) {
	struct weir_sim_scenario *scenario = &file->variant[index];
	struct weir_sim_at at = {0};
	json_t *merged;
	bool good = true;

	reader->variant = variant != NULL ? (int)index : -1;
	if (variant != NULL && !json_is_object(variant)) {
		weir_sim_problem_add(reader, &at, NULL, "must be an object");
		return false;
	}
	snprintf(scenario->name, sizeof(scenario->name), "%s", file->name);
	if (variant != NULL) {
		good = read_variant_name(reader, variant, scenario->name);
		good &= check_variant_keys(reader, variant);
	}
	merged = json_deep_copy(root);
	if (merged == NULL ||
		(variant != NULL && json_object_update_recursive(merged, variant) != 0)) {
		reader->out_of_memory = true;
		json_decref(merged);
		return false;
	}
	good &= weir_sim_read_object(
		reader, &at, &weir_sim_scenario_keys, &weir_sim_file_keys, merged, scenario);
	json_decref(merged);
	if (good && !fill_in(scenario)) {
		reader->out_of_memory = true;
		good = false;
	}
	if (good) {
		check_variant(reader, file, index);
	}
	return good;
}

static void read_variants(
	struct weir_sim_reader *reader, json_t *root, struct weir_sim_file *file) {
	json_t *variants = json_object_get(root, "variants");
	size_t count = json_array_size(variants);
	struct weir_sim_at at = {0};

	if (variants != NULL && (!json_is_array(variants) || count > WEIR_SIM_VARIANTS_MAX)) {
		weir_sim_problem_add(reader, &at, "variants", "must be an array of at most %u",
			WEIR_SIM_VARIANTS_MAX);
		return;
	}
	file->variant_count = count > 0 ? (uint32_t)count : 1;
	file->variant = calloc(file->variant_count, sizeof(*file->variant));
	if (file->variant == NULL) {
		reader->out_of_memory = true;
		return;
	}
	for (uint32_t i = 0; i < file->variant_count; i++) {
		read_variant(reader, root, count > 0 ? json_array_get(variants, i) : NULL, i, file);
	}
}

static int read_root(struct weir_sim_reader *reader, json_t *root, struct weir_sim_file *file) {
	struct weir_sim_at at = {0};

	if (!json_is_object(root)) {
		weir_sim_problem_add_file(reader, 1, 1, "must be an object");
		return -EINVAL;
	}
	reader->variant = -1;
	weir_sim_read_object(reader, &at, &weir_sim_file_keys, &weir_sim_scenario_keys, root, file);
	read_variants(reader, root, file);
	if (reader->out_of_memory) {
		return -ENOMEM;
	}
	return reader->problems->count > 0 ? -EINVAL : 0;
}

int weir_sim_file_parse(
	const char *text, struct weir_sim_file **ret, struct weir_sim_problems *problems) {
	struct weir_json_index positions = {0};
	struct weir_sim_reader reader = {.positions = &positions, .problems = problems};
	struct weir_sim_file *file;
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	int status;

	if (root == NULL) {
		weir_sim_problem_add_file(&reader, error.line > 0 ? error.line : 1, error.column,
			"is not JSON: %s", error.text);
		return -EINVAL;
	}
	file = calloc(1, sizeof(*file));
	status = file == NULL ? -ENOMEM : weir_json_index_init(&positions, text, strlen(text));
	if (status == 0) {
		status = read_root(&reader, root, file);
	}
	weir_json_index_fini(&positions);
	json_decref(root);
	if (status == 0) {
		*ret = file;
	} else {
		weir_sim_file_free(file);
	}
	return status;
}

static char *read_text(FILE *stream) {
	char *text = malloc(FILE_MAX + 1);
	size_t bytes;

	if (text == NULL) {
		return NULL;
	}
	bytes = fread(text, 1, FILE_MAX + 1, stream);
	if (ferror(stream) || bytes > FILE_MAX || memchr(text, '\0', bytes) != NULL) {
		errno = ferror(stream) ? errno : EFBIG;
		free(text);
		return NULL;
	}
	text[bytes] = '\0';
	return text;
}

int weir_sim_file_read(
	const char *path, struct weir_sim_file **ret, struct weir_sim_problems *problems) {
	struct weir_sim_reader reader = {.problems = problems, .variant = -1};
	FILE *stream = fopen(path, "r");
	char *text = stream != NULL ? read_text(stream) : NULL;
	int error = text != NULL ? 0 : -errno;

	if (stream != NULL) {
		fclose(stream);
	}
	if (text == NULL) {
		weir_sim_problem_add_file(&reader, 0, 0, "%s",
			error == -EFBIG ? "is not text, or above 16 MiB" : strerror(-error));
		return error;
	}
	error = weir_sim_file_parse(text, ret, problems);
	free(text);
	return error;
}
