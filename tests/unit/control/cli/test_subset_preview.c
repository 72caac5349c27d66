// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl subset preview: examples from the literature, options, and errors.
#include <errno.h>
#include <jansson.h>

#include "cli_lab.h"
#include "subset.h"
#include "subset_preview.h"

TEST(preview_needs_no_daemon) {
	struct outcome outcome = RUN("/nonexistent", "subset", "preview", "--clients", "10",
		"--backends", "12", "--size", "3");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.err, "");
	assert_string_equal(outcome.out,
		"deterministic (spread), salt 0: 10 clients, 12 backends, size 3\n"
		"\n"
		"clients per backend: min 2, mean 2.5, max 3\n"
		"backends per client: 3\n"
		"\n"
		"      CLIENTS  BACKENDS\n"
		"            2         6  ########################################\n"
		"            3         6  ########################################\n");
	free_outcome(&outcome);
}

// The example of figure 20-4 in the SRE book. Each row of the histogram is for two
// numbers of clients, such as 15-16.
TEST(preview_of_random_subsets) {
	struct outcome outcome = RUN(NULL, "subset", "preview", "--clients=300", "--backends=300",
		"--size=30", "--algorithm=random", "--salt=58");
	unsigned backends = 0;
	const char *line;

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "random, salt 58: 300 clients, 300 backends, size 30\n");
	expect_contains(outcome.out, "min 15, mean 30.0, max 45\n");
	expect_contains(outcome.out, "        15-16");
	line = strstr(outcome.out, "BACKENDS\n") + strlen("BACKENDS\n");
	for (; *line; line = strchr(line, '\n') + 1) {
		unsigned in_row;

		assert_int_equal(sscanf(line, "%*s %u", &in_row), 1);
		backends += in_row;
	}
	assert_int_equal(backends, 300);
	free_outcome(&outcome);
}

TEST(preview_of_sizes_that_do_not_divide) {
	struct outcome outcome = RUN(
		NULL, "subset", "preview", "--clients", "500", "--backends", "307", "--size", "20");

	expect_contains(outcome.out, "min 33, mean 33.3, max 34\n");
	expect_contains(outcome.out, "backends per client: 20 to 21\n");
	free_outcome(&outcome);
	outcome = RUN(NULL, "subset", "preview", "--clients", "500", "--backends", "307", "--size",
		"20", "--mode", "exact");
	expect_contains(outcome.out, "deterministic (exact)");
	expect_contains(outcome.out, "min 32, mean 32.6, max 34\n");
	free_outcome(&outcome);
}

TEST(preview_as_json) {
	struct outcome outcome = RUN(NULL, "subset", "preview", "--clients", "203", "--backends",
		"305", "--size", "20", "--algorithm", "rocksteadier", "--json");
	json_t *json = json_loads(outcome.out, 0, NULL);
	json_t *histogram = json_object_get(json, "histogram");
	json_int_t backends = 0, connections = 0;
	const char *algorithm;
	int least, most, smallest;
	json_t *row;
	size_t i;

	assert_int_equal(outcome.status, 0);
	assert_int_equal(json_unpack(json, "{s:s, s:{s:i, s:i}, s:{s:i}}", "algorithm", &algorithm,
				 "clients_of_a_backend", "least", &least, "most", &most,
				 "backends_of_a_client", "least", &smallest),
		0);
	assert_string_equal(algorithm, "rocksteadier");
	assert_int_equal(least, 12);
	assert_int_equal(most, 15);
	assert_int_equal(smallest, 20);
	json_array_foreach (histogram, i, row) {
		json_int_t in_row = json_integer_value(json_object_get(row, "backends"));

		backends += in_row;
		connections += in_row * json_integer_value(json_object_get(row, "clients"));
	}
	assert_int_equal(backends, 305);
	assert_int_equal(connections, 203 * 20);
	json_decref(json);
	free_outcome(&outcome);
}

TEST(preview_reports_errors) {
	static const struct {
		char *const words[12];
		const char *why;
	} mistakes[] = {
		{{"subset", "preview", "--backends", "3", "--size", "1"},
			"--clients is missing; use --clients N"},
		{{"subset", "preview", "--clients", "3", "--size", "1"},
			"--backends is missing; use --backends M"},
		{{"subset", "preview", "--clients", "3", "--backends", "1"},
			"--size is missing; use --size K"},
		{{"subset", "preview", "--clients", "0"}, "is out of range; use 1 to 65536"},
		{{"subset", "preview", "--size", "-1"}, "is not a whole number; use 1 to 65535"},
		{{"subset", "preview", "--backends", "3x"},
			"is not a whole number; use 1 to 65535"},
		{{"subset", "preview", "--salt", "4294967296"}, "use 0 to 4294967295"},
		{{"subset", "preview", "--algorithm", "x\x1b"},
			"--algorithm: \"x\\x1b\" is not known; use none, random,"},
		{{"subset", "preview", "--mode", ""},
			"--mode: \"\" is not known; use spread or exact"},
		{{"subset", "preview", "--clients", "65536", "--backends", "65535", "--size", "9"},
			"must not exceed 1000000000"},
		{{"service", "show", "--clients", "3"},
			"--clients is not an option of service show; leave it out"},
	};

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct outcome outcome = run_weirctl(NULL, mistakes[i].words);

		assert_int_equal(outcome.status, 2);
		assert_string_equal(outcome.out, "");
		expect_contains(outcome.err, mistakes[i].why);
		free_outcome(&outcome);
	}
}
