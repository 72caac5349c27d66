// SPDX-License-Identifier: BSD-3-Clause
#include "catalogue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_lab.h"

TEST_ARGUMENT(scenarios); // directories of scenarios
TEST_ARGUMENT(broken);

TEST(catalogue_lists_scenarios_by_name) {
	char *text = NULL, *complaints = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);
	FILE *errors = open_memstream(&complaints, &bytes);
	const char *antagonists, *sre20;

	assert_int_equal(weir_sim_catalogue_print(scenarios, stream, errors), 0);
	fclose(stream);
	fclose(errors);
	antagonists = strstr(text, "antagonists ");
	sre20 = strstr(text, "\nsre20 ");
	assert_true(antagonists == text && sre20 != NULL);
	assert_string_equal(complaints, "");
	free(text);
	free(complaints);
}

TEST(catalogue_reports_broken_scenarios) {
	char *text = NULL, *complaints = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);
	FILE *errors = open_memstream(&complaints, &bytes);

	assert_int_equal(weir_sim_catalogue_print(broken, stream, errors), -EINVAL);
	assert_int_equal(weir_sim_catalogue_print("/no/such/directory", stream, errors), -ENOENT);
	fclose(stream);
	fclose(errors);
	assert_non_null(strstr(complaints, "missing.json is not a valid scenario"));
	assert_non_null(strstr(complaints, "/no/such/directory: No such file"));
	free(text);
	free(complaints);
}

TEST(catalogue_operand_is_a_name_or_a_path) {
	char path[64];

	weir_sim_catalogue_path("/dir", "sre20", path, sizeof(path));
	assert_string_equal(path, "/dir/sre20.json");
	weir_sim_catalogue_path("/dir", "sre20.json", path, sizeof(path));
	assert_string_equal(path, "sre20.json");
	weir_sim_catalogue_path("/dir", "./sre20", path, sizeof(path));
	assert_string_equal(path, "./sre20");
}

TEST(catalogue_directory_falls_back_to_the_source) {
	char directory[] = "/tmp/weir-sim-test-XXXXXX";
	char here[4096];

	assert_string_equal(weir_sim_catalogue_directory("/a", "/b"), "/a");
	assert_string_equal(weir_sim_catalogue_directory(NULL, "/tmp"), "/tmp");
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(scenarios), 0);
	assert_int_equal(chdir("../../.."), 0);
	assert_string_equal(weir_sim_catalogue_directory(NULL, "/no/such"), "tools/sim/scenarios");
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chdir(directory), 0);
	assert_string_equal(weir_sim_catalogue_directory(NULL, "/no/such"), "/no/such");
	assert_int_equal(chdir(here), 0);
	assert_int_equal(rmdir(directory), 0);
}
