// SPDX-License-Identifier: BSD-3-Clause
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "subset.h"

#define SMALL \
	"'name': 'small', 'title': 'A small one', 'duration_ms': 1000," \
	"'clients': {'count': 2, 'requests_per_second': 100}," \
	"'backends': {'count': 3}, 'cost': {'mean_ms': 1}"

TEST_ARGUMENT(scenarios); // directories of scenarios
TEST_ARGUMENT(broken);

TEST(scenario_defaults_are_filled_in) {
	struct weir_sim_file *file = lab_parse("{" SMALL "}");
	const struct weir_sim_scenario *s = &file->variant[0];

	assert_string_equal(file->name, "small");
	assert_string_equal(file->title, "A small one");
	assert_int_equal(file->seeds, 1);
	assert_int_equal(file->variant_count, 1);
	assert_string_equal(s->name, "small");
	assert_true(s->duration_ns == 1000000000ull);
	assert_int_equal(s->backends.cores, 4);
	assert_int_equal(s->backends.speeds.count, 1);
	assert_true(s->backends.speeds.value[0] == 1.0);
	assert_int_equal(s->clients.arrivals, WEIR_SIM_ARRIVALS_POISSON);
	assert_int_equal(s->policy.name, WEIR_POLICY_ROUND_ROBIN);
	assert_true(s->policy.errors_as_active);
	assert_int_equal(s->policy.window, 386);
	assert_int_equal(s->subset.algorithm, WEIR_SUBSET_NONE);
	assert_int_equal(s->window_count, 1);
	assert_string_equal(s->window[0].name, "measured");
	assert_true(s->window[0].to_ns == s->duration_ns);
	weir_sim_file_free(file);
}

TEST(scenario_variants_replace_values_deeply) {
	struct weir_sim_file *file = lab_parse("{" SMALL ", 'policy': {'window': 7},"
					       "'variants': [{'name': 'a'},"
					       " {'name': 'b', 'policy': {'name': 'fair-share'},"
					       "  'clients': {'count': 9}}]}");

	assert_int_equal(file->variant_count, 2);
	assert_string_equal(file->variant[1].name, "b");
	assert_int_equal(file->variant[0].clients.count, 2);
	assert_int_equal(file->variant[1].clients.count, 9);
	assert_true(file->variant[1].clients.requests_per_second == 100);
	assert_int_equal(file->variant[0].policy.name, WEIR_POLICY_ROUND_ROBIN);
	assert_int_equal(file->variant[1].policy.name, WEIR_POLICY_FAIR_SHARE);
	assert_int_equal(file->variant[1].policy.window, 7);
	weir_sim_file_free(file);
}

TEST(scenario_load_is_of_nominal_capacity) {
	struct weir_sim_file *file =
		lab_parse("{'name': 'x', 'title': '', 'duration_ms': 1, 'clients': {'count': 1,"
			  "'load_percent': 50}, 'backends': {'count': 10, 'cores': 4},"
			  "'cost': {'distribution': 'exponential', 'mean_ms': 20}}");

	lab_near(weir_sim_request_rate(&file->variant[0]), 10 * 4 * 0.5 / 0.020, 1e-9);
	weir_sim_file_free(file);
}

TEST(scenario_fractions_of_milliseconds_are_kept) {
	struct weir_sim_file *file = lab_parse("{" SMALL ", 'wait': {'mean_ms': 0.0015}}");

	assert_int_equal(file->variant[0].wait.mean_ns, 1500);
	weir_sim_file_free(file);
}

TEST(scenario_missing_file_is_reported) {
	struct weir_config_errors errors = {0};
	struct weir_sim_file *file = NULL;

	assert_int_equal(weir_sim_file_read("no-such-file.json", &file, &errors), -ENOENT);
	assert_int_equal(errors.count, 1);
	assert_null(file);
	weir_config_errors_fini(&errors);
	weir_sim_file_free(NULL);
}

typedef void visitor(const char *directory, const char *name);

static uint32_t visit(const char *directory, const char *suffix, visitor *visit_one) {
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		const char *end = strstr(entry->d_name, suffix);

		if (end != NULL && strcmp(end, suffix) == 0) {
			visit_one(directory, entry->d_name);
			count++;
		}
	}
	closedir(dir);
	return count;
}

static void check_shipped(const char *directory, const char *name) {
	struct weir_config_errors errors = {0};
	struct weir_sim_file *file = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (weir_sim_file_read(path, &file, &errors) < 0) {
		fail_msg("%s: %s: %s", path, errors.error[0].path, errors.error[0].reason);
	}
	// The file is named after its scenario, because `weir-sim run NAME` reads NAME.json.
	assert_int_equal(strncmp(name, file->name, strlen(file->name)), 0);
	assert_int_equal(strlen(name), strlen(file->name) + strlen(".json"));
	assert_true(file->plot_count > 0 && file->title[0] != '\0');
	weir_sim_file_free(file);
	weir_config_errors_fini(&errors);
}

TEST(scenario_shipped_ones_are_valid) {
	assert_true(visit(scenarios, ".json", check_shipped) >= 15);
}

// Reads NAME.json, and compares the errors with NAME.expected, which has one error per line as
// "line:column: path: reason". Both files are generated from broken.txt.
static void check_broken(const char *directory, const char *name) {
	struct weir_config_errors errors = {0};
	struct weir_sim_file *file = NULL;
	char path[512], expected[4096], found[4096] = "";
	size_t bytes, used = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	assert_int_equal(weir_sim_file_read(path, &file, &errors), -EINVAL);
	assert_null(file);
	for (uint32_t i = 0; i < errors.count; i++) {
		const struct weir_config_error *p = &errors.error[i];

		used += (size_t)snprintf(found + used, sizeof(found) - used, "%d:%d: %s%s%s\n",
			p->line, p->column, p->path, p->path[0] != '\0' ? ": " : "", p->reason);
	}
	weir_config_errors_fini(&errors);
	snprintf(path + strlen(path) - strlen("json"), 16, "expected");
	stream = fopen(path, "r");
	if (stream == NULL) {
		fail_msg("%s is missing; found:\n%s", path, found);
		return;
	}
	bytes = fread(expected, 1, sizeof(expected) - 1, stream);
	fclose(stream);
	expected[bytes] = '\0';
	if (strcmp(found, expected) != 0) {
		fail_msg("%s: expected\n%sfound\n%s", name, expected, found);
	}
}

TEST(scenario_broken_ones_are_refused_with_line_path_and_reason) {
	assert_true(visit(broken, ".json", check_broken) >= 30);
}
