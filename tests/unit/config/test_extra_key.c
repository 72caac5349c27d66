// SPDX-License-Identifier: BSD-3-Clause
//
// A new key needs only one row in the table, because the code that uses the table handles it. The
// test config_schema_extra_key checks the output of check_extra_key.py.
#include "config_difference.h"
#include "config_lab.h"
#include "extra_key.h"

#define WITH(instance) CONFIG("\"instance\": {" instance "},", "")

static struct extra_keys keys;

static struct extra_config *parse_extra(const char *text) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	assert_int_equal(
		weir_config_parse_keys(&keys.root, text, strlen(text), &config, &errors), 0);
	weir_config_errors_fini(&errors);
	return (struct extra_config *)config;
}

static void free_extra(struct extra_config *config) {
	weir_config_free(&config->config);
}

static void expect_error(const char *text, const char *path, const char *reason) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;

	assert_int_equal(
		weir_config_parse_keys(&keys.root, text, strlen(text), &config, &errors), -22);
	assert_int_equal(errors.count, 1);
	assert_int_equal(errors.error[0].line, 1);
	assert_string_equal(errors.error[0].path, path);
	assert_string_equal(errors.error[0].reason, reason);
	weir_config_errors_fini(&errors);
}

static int setup(__attribute__((unused)) void **state) {
	extra_keys_init(&keys);
	return 0;
}

TEST_GROUP(setup);

TEST(extra_key_is_read_and_has_its_default) {
	struct extra_config *given = parse_extra(WITH("\"spare_ms\": 5, \"name\": \"a\""));
	struct extra_config *absent = parse_extra(WITH(""));
	struct extra_config *nothing = parse_extra(CONFIG("", ""));

	assert_int_equal(given->spare_ms, 5);
	assert_string_equal(given->config.instance.name, "a");
	assert_int_equal(absent->spare_ms, 3);
	assert_int_equal(nothing->spare_ms, 3);
	free_extra(given);
	free_extra(absent);
	free_extra(nothing);
}

TEST(extra_key_is_in_the_messages) {
	expect_error(
		WITH("\"spare_ms\": 10"), "instance.spare_ms", "10 is out of range; use 1 to 9");
	expect_error(WITH("\"spare_ms\": \"5\""), "instance.spare_ms",
		"must be an integer, not a string; remove the quotes around 5");
	expect_error(WITH("\"spare_m\": 5"), "instance.spare_m",
		"unknown key \"spare_m\"; did you mean \"spare_ms\"?");
	expect_error(WITH("\"bananas\": 5"), "instance.bananas",
		"unknown key \"bananas\"; known keys: name, client_id, clients, member, members, "
		"hash_seed, spare_ms");
	// The unchanged table has no such key.
	expect_one_error(WITH("\"spare_ms\": 5"), "instance.spare_ms", "unknown key \"spare_ms\"");
}

TEST(extra_key_is_in_the_difference) {
	struct extra_config *from = parse_extra(WITH("")),
			    *to = parse_extra(WITH("\"spare_ms\": 5"));
	struct weir_difference difference;
	char line[200];

	assert_int_equal(weir_difference_compute(&keys.root, from, to, &difference), 0);
	assert_int_equal(difference.count, 1);
	assert_string_equal(weir_change_format(&difference.change[0], line, sizeof(line)),
		"change instance spare_ms: 3 -> 5 (needs a restart of weir-dataplane)");
	weir_difference_fini(&difference);
	free_extra(from);
	free_extra(to);
}

TEST(extra_key_waits_for_the_restart) {
	struct extra_config *running = parse_extra(WITH("\"spare_ms\": 5"));
	struct extra_config *read = parse_extra(WITH("\"spare_ms\": 7, \"members\": 4"));

	assert_int_equal(weir_difference_keep_running(&keys.root, read, running), 0);
	assert_int_equal(read->spare_ms, 5);
	assert_int_equal(read->config.instance.members, 4);
	free_extra(running);
	free_extra(read);
}
