// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the checks of a request before its handler is called.
#include "api.h"
#include "daemon_web.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct row {
	const char *request, *code, *error;
};

static const struct row rows[] = {
	{"{}", "bad-request", "missing \"command\""},
	{"{\"command\": 7}", "bad-request", "missing \"command\""},
	{"{\"command\": \"\"}", "bad-request", "unknown command \"\""},
	{"{\"command\": \"backend.explode\"}", "bad-request",
		"unknown command \"backend.explode\""},
	{"{\"command\": \"version\", \"verbose\": true}", "bad-request",
		"version has no argument \"verbose\""},
	{"{\"command\": \"backend.drain\"}", "bad-request",
		"backend.drain needs the argument \"backend\""},
	{"{\"command\": \"backend.drain\", \"backend\": 1}", "bad-request",
		"argument \"backend\" must be a string"},
	{"{\"command\": \"backend.drain\", \"backend\": null}", "bad-request",
		"argument \"backend\" must be a string"},
	{"{\"command\": \"backend.show\", \"service\": []}", "bad-request",
		"argument \"service\" must be a string"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\"}", "bad-request",
		"weight.set needs the argument \"weight\""},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": -1}", "bad-request",
		"argument \"weight\" must be a number from 0 to 65535, or null"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": 65536}", "bad-request",
		"argument \"weight\" must be a number from 0 to 65535, or null"},
	{"{\"command\": \"weight.set\", \"backend\": \"w-2\", \"weight\": 1.5}", "bad-request",
		"argument \"weight\" must be a number from 0 to 65535, or null"},
	{"{\"command\": \"flow.lookup\", \"protocol\": \"tcp\", \"source\": \"192.0.2.1\", "
	 "\"source_port\": 65536, \"destination\": \"192.0.2.2\", \"destination_port\": 1}",
		"bad-request", "argument \"source_port\" must be a number from 0 to 65535"},
	{"{\"command\": \"flow.list\", \"worker\": 0.5}", "bad-request",
		"argument \"worker\" must be a whole number of at least 0"},
	{"{\"command\": \"flow.list\", \"next\": 1e9}", "bad-request",
		"argument \"next\" must be a whole number of at least 0"},
	{"{\"command\": \"service.show\", \"service\": \"\\n\\u001b[2J\"}", "not-found", ""},
	{"{\"command\": \"backend.drain\", \"backend\": \"web\"}", "not-found",
		"no such backend: \"web\"; a service has this name: specify SERVICE/NAME"},
	{"{\"command\": \"backend.show\", \"backend\": \"web\"}", "not-found",
		"no such backend: \"web\"; a service has this name: specify SERVICE/NAME, or web/ "
		"for all its backends"},
	{"{\"command\": \"health.history\", \"backend\": \"web\"}", "not-found",
		"no such backend: \"web\"; a service has this name: specify SERVICE/NAME, or web/ "
		"for all its backends"},
	{"{\"command\": \"health.history\", \"backend\": \"wbe\"}", "not-found",
		"no such backend: \"wbe\""},
	{"{\"command\": \"health.show\", \"service\": \"web/\"}", "not-found",
		"no such service: \"web/\": write the name without \"/\""},
	{"{\"command\": \"service.show\", \"service\": \"wbe/\"}", "not-found",
		"no such service: \"wbe/\""},
	{"{\"command\": \"backend.show\", \"backend\": \"wbe\"}", "not-found",
		"no such backend: \"wbe\""},
	{"{\"command\": \"service.show\", \"service\": null}", "ok", ""},
};

TEST_GROUP(lab_own_network);
TEST_GROUP(web_start, web_stop);

TEST(commands_invalid_requests_get_a_specific_error) {
	struct web *web = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *answer = lab_ask(&web->lab, "%s", rows[i].request);
		const char *code = json_string_value(json_object_get(answer, "code"));
		const char *error = json_string_value(json_object_get(answer, "error"));

		if (strcmp(code != NULL ? code : "ok", rows[i].code) != 0 ||
			(rows[i].error[0] != '\0' && strcmp(error, rows[i].error) != 0)) {
			fail_msg("%s: %s: %s", rows[i].request, code, error);
		}
		json_decref(answer);
	}
}

// The error for an unknown command quotes the beginning of its name.
TEST(commands_longest_name_is_answered) {
	struct web *web = *state;
	size_t bytes = WEIR_API_LINE_BYTES - 64;
	char *line = malloc(bytes + 64);
	int fd = lab_connect(&web->lab);
	int prefix = sprintf(line, "{\"command\": \"service.show\", \"service\": \"");
	json_t *answer;

	for (size_t i = 0; i < bytes; i += 2) {
		// Characters of two bytes, so that a quote of fixed length may end inside a
		// character
		memcpy(line + prefix + i, "\xc3\xa9", 2);
	}
	memcpy(line + (size_t)prefix + bytes, "\"}\n", 3);
	lab_send(fd, line, (size_t)prefix + bytes + 3);
	answer = lab_read_answer(fd);
	assert_string_equal(json_string_value(json_object_get(answer, "code")), "not-found");
	json_decref(answer);
	close(fd);
	free(line);
}

// Sends well-formed requests with wrong contents to all handlers. The requests are the same in each
// run.
TEST(commands_survive_random_requests) {
	static const char *const names[] = {"version", "service.show", "backend.show",
		"backend.drain", "backend.ready", "backend.maintenance", "weight.set", "flow.count",
		"flow.lookup", "worker.show", "port.show", "stats.show", "metrics.show",
		"health.show", "config.diff", "config.waiting", "capture.start", "capture.read",
		"capture.stop", "nonsense"};
	static const char *const arguments[] = {"service", "backend", "weight", "protocol",
		"source", "source_port", "destination", "destination_port", "path", "command"};
	static const char *const values[] = {"\"web\"", "\"dns\"", "\"w-1\"", "\"w-2\"", "null",
		"0", "80", "65535", "-1", "1e3", "\"\"", "[]", "{}", "true", "\"tcp\"", "\"udp\"",
		"\"192.0.2.1\"", "\"198.51.100.10\"", "\"2001:db8::1\"", "\"/etc/passwd\"",
		"\"/dev/zero\"", "\"/\"", "\"/proc/self/mem\"", "99999999999999999999"};
	struct web *web = *state;
	unsigned int seed = 20260103;
	int fd = lab_connect(&web->lab);

	for (int i = 0; i < 3000; i++) {
		char line[1024];
		int used = sprintf(line, "{\"command\": \"%s\"",
			names[(size_t)rand_r(&seed) % (sizeof(names) / sizeof(names[0]))]);
		unsigned int first = (unsigned int)rand_r(&seed) % 10;
		int count = rand_r(&seed) % 6;
		json_t *answer;

		for (int j = 0; j < count; j++) {
			used += sprintf(line + used, ", \"%s\": %s",
				arguments[(first + (unsigned int)j) % 9],
				values[(size_t)rand_r(&seed) %
					(sizeof(values) / sizeof(values[0]))]);
		}
		used += sprintf(line + used, "}\n");
		lab_send(fd, line, (size_t)used);
		answer = lab_read_answer(fd);
		assert_non_null(answer);
		assert_true(json_is_boolean(json_object_get(answer, "ok")));
		if (json_is_false(json_object_get(answer, "ok"))) {
			assert_string_not_equal(
				json_string_value(json_object_get(answer, "code")), "internal");
		}
		json_decref(answer);
	}
	close(fd);
	assert_string_equal(lab_code(&web->lab, JSON({"command": "version"})), "ok");
}
