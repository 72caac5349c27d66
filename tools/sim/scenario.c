// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "maglev.h"
#include "scenario_keys.h"
#include "text_file.h"

#define KEYS_HELP "weir-sim keys lists the keys of"
#define FILE_BYTES_MAX (16u << 20)
#define CAPACITY_NS 1e9 // CPU time of a core of speed 1 in a second
#define OVERLAY_BYTES 32 // enough for "variants[31]"

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

void weir_sim_file_free(struct weir_sim_file *file) {
	if (file == NULL) {
		return;
	}
	for (uint32_t i = 0; file->variant != NULL && i < file->variant_count; i++) {
		weir_json_free(&weir_sim_scenario_keys, &file->variant[i]);
	}
	weir_json_free(&weir_sim_file_keys, file);
	free(file->variant);
	free(file);
}

static bool fill_in(struct weir_sim_scenario *scenario) {
	// A series needs at least two samples.
	if (scenario->sample_ns > scenario->duration_ns / 2) {
		scenario->sample_ns = scenario->duration_ns / 2;
	}
	if (scenario->window_count > 0) {
		return true;
	}
	free(scenario->window); // an empty list may be allocated
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
	struct weir_json_reader *reader, const json_t *variant, char name[WEIR_SIM_NAME_BYTES]) {
	struct weir_json_place root = {0};
	const char *text = json_string_value(json_object_get(variant, "name"));

	if (text == NULL || text[0] == '\0' || strlen(text) >= WEIR_SIM_NAME_BYTES ||
		strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != strlen(text)) {
		weir_json_error(reader, &root,
			"a variant needs a \"name\" of at most %d lowercase letters, digits, "
			"'-', '_' and '.'",
			WEIR_SIM_NAME_BYTES - 1);
		return false;
	}
	snprintf(name, WEIR_SIM_NAME_BYTES, "%s", text);
	return true;
}

// Reports an error for each key that a variant must not contain. Returns true if there is no such
// key.
static bool check_variant_keys(struct weir_json_reader *reader, const json_t *variant) {
	static const char *const of_file[] = {"seeds", "plots", "variants"};
	struct weir_json_place root = {0};
	bool good = true;

	for (size_t i = 0; i < sizeof(of_file) / sizeof(of_file[0]); i++) {
		if (json_object_get(variant, of_file[i]) != NULL) {
			weir_json_error_at(reader, &root, of_file[i],
				"applies to all variants; move it from the variant to the root of "
				"the file");
			good = false;
		}
	}
	return good;
}

static void check_variant(
	struct weir_json_reader *reader, const struct weir_sim_file *file, uint32_t index) {
	const struct weir_sim_scenario *scenario = &file->variant[index];
	struct weir_json_place root = {0};

	for (uint32_t i = 0; i < index; i++) {
		if (strcmp(file->variant[i].name, scenario->name) == 0) {
			weir_json_error_at(reader, &root, "name",
				"another variant has the name \"%s\"; use a different name",
				scenario->name);
		}
	}
	if (!weir_is_prime(scenario->table_size)) {
		weir_json_error_at(reader, &root, "table_size",
			"%u is not a prime; use a prime such as 4093", scenario->table_size);
	}
}

// Prepares a scenario with workers. Such a scenario has no clients and backends, so this function
// rejects their keys, and sets the values that the other functions of the reader require.
static bool stand_in_workers(struct weir_json_reader *reader, json_t *merged) {
	static const char *const others[] = {"clients", "backends", "cost", "wait", "antagonists",
		"subset", "policy", "flow_control", "slow_start", "events"};
	json_t *count = json_object_get(json_object_get(merged, "workers"), "count");
	struct weir_json_place root = {0};
	bool good = true;

	if (json_integer_value(count) <= 0) {
		return true;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (json_object_get(merged, others[i]) != NULL) {
			weir_json_error_at(reader, &root, others[i],
				"cannot be combined with \"workers\"; remove one of the two keys");
			good = false;
		}
	}
	json_object_set_new(
		merged, "clients", json_pack("{si si}", "count", 1, "requests_per_second", 1));
	json_object_set_new(merged, "backends", json_pack("{sO si}", "count", count, "cores", 1));
	json_object_set_new(merged, "cost", json_pack("{si}", "mean_ms", 1));
	return good;
}

// Reads the scenario with the changes of one variant. variant NULL: no changes.
static bool read_variant(struct weir_json_reader *reader, json_t *root, json_t *variant,
	uint32_t index, struct weir_sim_file *file) {
	struct weir_sim_scenario *scenario = &file->variant[index];
	struct weir_json_place at = {0};
	json_t *merged;
	bool good = true;

	if (variant != NULL && !json_is_object(variant)) {
		weir_json_error(reader, &at, "must be an object");
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
	good &= stand_in_workers(reader, merged);
	good &= weir_json_read(reader, &at, &weir_sim_scenario_keys, merged, scenario);
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
	struct weir_json_reader *reader, json_t *root, struct weir_sim_file *file) {
	json_t *variants = json_object_get(root, "variants");
	size_t count = json_array_size(variants);
	struct weir_json_place at = {0};

	if (variants != NULL && (!json_is_array(variants) || count > WEIR_SIM_VARIANTS_MAX)) {
		weir_json_error_at(reader, &at, "variants",
			"must be an array of at most %u elements", WEIR_SIM_VARIANTS_MAX);
		return;
	}
	file->variant_count = count > 0 ? (uint32_t)count : 1;
	file->variant = calloc(file->variant_count, sizeof(*file->variant));
	if (file->variant == NULL) {
		reader->out_of_memory = true;
		return;
	}
	if (count == 0) {
		read_variant(reader, root, NULL, 0, file);
	}
	for (uint32_t i = 0; i < count; i++) {
		char path[OVERLAY_BYTES];

		snprintf(path, sizeof(path), "variants[%u]", i);
		reader->overlay_path = path;
		reader->overlay = weir_json_find(reader->positions, path);
		read_variant(reader, root, json_array_get(variants, i), i, file);
		reader->overlay_path = NULL;
	}
}

static bool have_equal_windows(const struct weir_sim_file *file) {
	for (uint32_t v = 1; v < file->variant_count; v++) {
		if (file->variant[v].window_count != file->variant[0].window_count) {
			return false;
		}
	}
	return true;
}

// Checks the plots of a file. Call only if all variants were read without an error.
static void check_plots(struct weir_json_reader *reader, const struct weir_sim_file *file) {
	const struct weir_json_place root = {0}, plots = weir_json_place_member(&root, "plots");

	for (uint32_t i = 0; i < file->plot_count; i++) {
		const struct weir_json_place at = weir_json_place_element(&plots, i);

		for (uint32_t k = 0; k < i; k++) {
			if (file->plot[k].kind == file->plot[i].kind) {
				weir_json_error_at(reader, &at, "plot",
					"another plot has this kind, so both would have the same "
					"file name");
			}
		}
		if (file->plot[i].kind == WEIR_SIM_PLOT_CHURN && !have_equal_windows(file)) {
			weir_json_error(
				reader, &at, "needs the same number of windows in each variant");
		}
	}
}

static int read_root(struct weir_json_reader *reader, json_t *root, struct weir_sim_file *file) {
	struct weir_json_place at = {0};

	if (!json_is_object(root)) {
		weir_json_error_file(reader, 1, 1, "the file must contain one JSON object");
		return -EINVAL;
	}
	weir_json_read(reader, &at, &weir_sim_file_keys, root, file);
	read_variants(reader, root, file);
	if (reader->out_of_memory) {
		return -ENOMEM;
	}
	if (reader->errors->count == 0) {
		check_plots(reader, file);
	}
	return reader->errors->count > 0 ? -EINVAL : 0;
}

int weir_sim_file_parse(
	const char *text, struct weir_sim_file **ret, struct weir_config_errors *errors) {
	struct weir_json_index positions = {0};
	struct weir_json_reader reader = {
		.positions = &positions, .errors = errors, .at_keys = true, .help = KEYS_HELP};
	struct weir_sim_file *file;
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	int status;

	if (root == NULL) {
		weir_json_error_file(&reader, error.line > 0 ? error.line : 1, error.column,
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
	weir_json_finish(&reader);
	if (status == 0) {
		*ret = file;
	} else {
		weir_sim_file_free(file);
	}
	return status;
}

int weir_sim_file_read(
	const char *path, struct weir_sim_file **ret, struct weir_config_errors *errors) {
	struct weir_json_reader reader = {.errors = errors};
	char *text = NULL;
	size_t bytes = 0;
	int r = weir_text_file_read(path, FILE_BYTES_MAX, &text, &bytes);

	if (r == 0 && strlen(text) != bytes) {
		free(text);
		r = -EFBIG;
	}
	if (r < 0) {
		weir_json_error_file(&reader, 0, 0, "%s",
			r == -EFBIG ? "is not a text file, or is larger than 16 MiB"
				    : strerror(-r));
		return r;
	}
	r = weir_sim_file_parse(text, ret, errors);
	free(text);
	return r;
}
