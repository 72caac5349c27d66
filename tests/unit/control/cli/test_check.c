// SPDX-License-Identifier: BSD-3-Clause
//
// Arguments: a good configuration, a broken one and the folder of both.
#include <jansson.h>
#include <unistd.h>

#include "check.h"
#include "cli_case.h"

static const char *good_file, *broken_file, *expected_file;

static void good_file_is_ok_without_daemon(void **state) {
	struct outcome outcome = RUN("/nonexistent", "config", "check", (char *)good_file);
	char expected[600];

	(void)state;
	assert_int_equal(outcome.status, 0);
	snprintf(expected, sizeof(expected),
		"%s: ok (ports: 1, workers: 1, services: 1, backends: 4)\n", good_file);
	assert_string_equal(outcome.out, expected);
	free_outcome(&outcome);
}

// One line per error, the same errors that the parser's own test expects.
static void broken_file_lists_every_error(void **state) {
	struct outcome outcome = RUN("/nonexistent", "config", "check", (char *)broken_file);
	FILE *expected = fopen(expected_file, "r");
	const char *found = outcome.out;
	char line[700], whole[1400];
	int lines = 0;

	(void)state;
	assert_int_equal(outcome.status, 1);
	assert_non_null(expected);
	while (fgets(line, sizeof(line), expected)) {
		snprintf(whole, sizeof(whole), "%s:%s", broken_file, line);
		assert_memory_equal(found, whole, strlen(whole));
		found += strlen(whole);
		lines++;
	}
	fclose(expected);
	assert_true(lines > 5);
	assert_string_equal(found, "");
	free_outcome(&outcome);
}

static void json_form(void **state) {
	struct outcome outcome = RUN(NULL, "config", "check", (char *)broken_file, "--json");
	json_t *result = json_loads(outcome.out, 0, NULL);

	(void)state;
	assert_int_equal(outcome.status, 1);
	assert_true(json_is_false(json_object_get(result, "ok")));
	assert_true(json_array_size(json_object_get(result, "errors")) > 5);
	json_decref(result);
	free_outcome(&outcome);
	outcome = RUN(NULL, "--json", "config", "check", (char *)good_file);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "\"ok\": true");
	free_outcome(&outcome);
}

static void unreadable_file_is_refused(void **state) {
	struct outcome outcome = RUN(NULL, "config", "check", "/nonexistent/weir.json");

	(void)state;
	assert_int_equal(outcome.status, 1);
	assert_string_equal(
		outcome.out, "/nonexistent/weir.json: cannot read: No such file or directory\n");
	free_outcome(&outcome);
}

static void standard_input_is_read(void **state) {
	int saved = dup(0), fds[2];
	struct outcome outcome;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "{}", 2), 2);
	close(fds[1]);
	dup2(fds[0], 0);
	outcome = RUN(NULL, "config", "check", "-");
	dup2(saved, 0);
	close(saved);
	close(fds[0]);
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.out, "-:1:1: \"ports\" is missing; add it\n");
	free_outcome(&outcome);
}

static void errors_of_a_peer_are_escaped(void **state) {
	json_t *errors = json_loads("[{\"line\": 3, \"column\": 0, \"path\": \"a\\u001bb\", "
				    "\"reason\": \"x\\ny\"}, {}, 7]",
		0, NULL);
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	weir_cli_print_errors(out, "f\x1b", errors);
	weir_cli_print_errors(out, "f", NULL);
	fclose(out);
	assert_string_equal(text, "f\\x1b:3: a\\x1bb: x\\x0ay\nf\\x1b: -\nf\\x1b: -\n");
	free(text);
	json_decref(errors);
}

int main(int argc, char **argv) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_file_is_ok_without_daemon),
		cmocka_unit_test(broken_file_lists_every_error),
		cmocka_unit_test(json_form),
		cmocka_unit_test(unreadable_file_is_refused),
		cmocka_unit_test(standard_input_is_read),
		cmocka_unit_test(errors_of_a_peer_are_escaped),
	};

	if (argc != 4) {
		fprintf(stderr, "usage: %s GOOD BROKEN EXPECTED\n", argv[0]);
		return 2;
	}
	good_file = argv[1];
	broken_file = argv[2];
	expected_file = argv[3];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
