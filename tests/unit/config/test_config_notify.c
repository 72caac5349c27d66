// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of `notify`, its command, of the program of a health check, and of the quorum of a service.
#include "config_lab.h"

#define NOTIFY(keys) CONFIG("\"notify\": {" keys "},", SERVICE("", BIND, BACKEND))
#define QUORUM(keys) CONFIG("", SERVICE(keys, BIND, BACKEND))

TEST(command_is_a_list_of_words) {
	struct weir_config *config = parse_good(NOTIFY(
		"\"command\": [\"/etc/weir/notify\", \"a b\", \"-c\"], \"timeout_ms\": 500"));
	const char *words[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];

	assert_int_equal(weir_config_command_words(&config->notify.command, words), 3);
	assert_string_equal(words[0], "/etc/weir/notify");
	assert_string_equal(words[1], "a b");
	assert_string_equal(words[2], "-c");
	assert_null(words[3]);
	assert_int_equal(config->notify.timeout_ms, 500);
	assert_true(config->notify.backends);
	weir_config_free(config);
}

TEST(without_a_command_nothing_runs) {
	static const char *const texts[] = {
		QUORUM(""), NOTIFY(""), NOTIFY("\"command\": []"), NOTIFY("\"backends\": false")};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct weir_config *config = parse_good(texts[i]);

		assert_int_equal(config->notify.command.words, 0);
		assert_int_equal(config->notify.timeout_ms, 10000);
		assert_int_equal(config->services[0].quorum, 1);
		assert_int_equal(config->services[0].hysteresis, 0);
		weir_config_free(config);
	}
}

TEST(wrong_commands_are_errors) {
	expect_one_error(NOTIFY("\"command\": \"/etc/weir/notify\""), "notify.command",
		"must be an array of the path of a program and its arguments, not a string");
	expect_one_error(NOTIFY("\"command\": [\"notify\"]"), "notify.command[0]",
		"is not an absolute path; begin it with \"/\"");
	expect_one_error(
		NOTIFY("\"command\": [\"/bin/a\", 5]"), "notify.command[1]", "must be a string");
	expect_one_error(
		NOTIFY("\"command\": [\"/bin/a\", \"b\\u0001\"]"), "notify.command[1]", "");
	expect_one_error(NOTIFY("\"command\": [\"\"]"), "notify.command[0]", "");
	expect_one_error(NOTIFY("\"command\": "
				"[\"/a\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\","
				"\"11\",\"12\",\"13\",\"14\",\"15\",\"16\",\"17\",\"18\",\"19\","
				"\"20\",\"21\","
				"\"22\",\"23\",\"24\",\"25\",\"26\",\"27\",\"28\",\"29\",\"30\","
				"\"31\",\"32\","
				"\"33\"]"),
		"notify.command", "has 33 elements");
}

// Five words of 255 bytes do not fit into the command.
TEST(long_commands_are_errors) {
	char text[4096], word[256];

	memset(word, 'x', 255);
	word[0] = '/';
	word[255] = '\0';
	snprintf(text, sizeof(text), NOTIFY("\"command\": [\"%s\", \"%s\", \"%s\", \"%s\"]"), word,
		word, word, word);
	weir_config_free(parse_good(text));
	snprintf(text, sizeof(text), NOTIFY("\"command\": [\"%s\", \"%s\", \"%s\", \"%s\", \"y\"]"),
		word, word, word, word);
	expect_one_error(text, "notify.command[4]", "the command is too long; use at most 1024");
	snprintf(text, sizeof(text), NOTIFY("\"command\": [\"%sx\"]"), word);
	expect_one_error(text, "notify.command[0]", "");
}

TEST(program_of_a_check_is_a_command) {
	struct weir_config *config = parse_good(
		QUORUM("\"health_check\": {\"type\": \"exec\", \"command\": [\"/bin/check\", "
		       "\"{address}\"], \"weight_from_exit\": true},"));
	const struct weir_config_health_check *check = &config->services[0].health_check;
	const char *words[WEIR_CONFIG_COMMAND_WORDS_MAX + 1];

	assert_int_equal(check->type, WEIR_CHECK_EXEC);
	assert_string_equal(weir_config_check_name(check->type), "exec");
	assert_int_equal(weir_config_command_words(&check->command, words), 2);
	assert_string_equal(words[1], "{address}");
	assert_true(check->weight_from_exit);
	assert_int_equal(check->timeout_ms, 500);
	weir_config_free(config);
}

// A program needs no port: one that covers every port is no error.
TEST(program_needs_no_port) {
	weir_config_free(parse_good(CONFIG("",
		SERVICE("\"health_check\": {\"type\": \"exec\", \"command\": [\"/bin/true\"]},",
			JSON({"address": "198.51.100.10", "protocol": "udp", "port": 0}), BACKEND))));
}

TEST(hysteresis_is_less_than_the_quorum) {
	struct weir_config *config = parse_good(QUORUM("\"quorum\": 3, \"hysteresis\": 2,"));

	assert_int_equal(config->services[0].quorum, 3);
	assert_int_equal(config->services[0].hysteresis, 2);
	weir_config_free(config);
	expect_one_error(QUORUM("\"quorum\": 3, \"hysteresis\": 3,"), "services[0].hysteresis",
		"must be less than \"quorum\" (3)");
	expect_one_error(QUORUM("\"hysteresis\": 1,"), "services[0].hysteresis",
		"must be less than \"quorum\" (1)");
	expect_one_error(QUORUM("\"quorum\": 0,"), "services[0].quorum", "0 is out of range");
}
