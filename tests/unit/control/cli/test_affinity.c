// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl affinity: requests, and the text of results.
#include "cli_lab.h"

#define TABLE(entries) \
	"\"table\": {\"entries\": " entries ", \"used\": 9, \"proven\": 7, \"unproven\": 2, " \
	"\"free\": 55}, \"incomplete\": false"
#define SERVICE(name, by, policy, timeout, clients, proven) \
	"{\"service\": \"" name "\", \"by\": \"" by "\", \"policy\": \"" policy \
	"\", \"ipv4_prefix\": 32, \"ipv6_prefix\": 64, \"timeout_ms\": " timeout \
	", \"clients\": " clients ", \"proven\": " proven "}"
#define BACKEND(name, leaving, clients) \
	"{\"service\": \"web\", \"backend\": \"" name "\", \"address\": \"10.0.0.1\", " \
	"\"leaving\": " leaving ", \"clients\": " clients ", \"proven\": 1}"

// Runs weirctl with an answer of the server. Checks the request, the output and the exit status.
static void expect(char *const *words, const char *request, const char *answer, const char *out) {
	const struct server_answer answers[] = {{"*", answer}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = run_weirctl(server_folder(server), words);

	assert_string_equal(outcome.err, "");
	assert_string_equal(outcome.out, out);
	assert_int_equal(outcome.status, 0);
	assert_string_equal(server_request(server), request);
	free_outcome(&outcome);
	server_stop(server);
}

#define WORDS(...) ((char *const[]){__VA_ARGS__, NULL})
#define OK(result) "{\"ok\": true, \"result\": {" result "}}"

TEST(affinity_show_lists_services) {
	expect(WORDS("affinity", "show"), "{\"command\":\"affinity.show\"}",
		OK(TABLE("64") ", \"services\": [" SERVICE(
			"web", "table", "round-robin", "300000", "8", "6") ", " SERVICE("dns",
			"hash", "maglev", "null", "null", "null") "], \"backends\": []"),
		"SERVICE  BY     TIMEOUT  CLIENTS  PROVEN\n"
		"web      table    5m00s        8       6\n"
		"dns      hash         -        -       -\n"
		"affinity table: 64 entries, 9 used (2 unproven), 55 free\n");
	expect(WORDS("affinity", "show"), "{\"command\":\"affinity.show\"}",
		OK(TABLE("0") ", \"services\": [], \"backends\": []"),
		"no service has affinity\n"
		"no affinity table: flow_table.affinity_sources is 0\n");
}

TEST(affinity_show_lists_backends_of_a_service) {
	expect(WORDS("affinity", "show", "web"),
		"{\"command\":\"affinity.show\",\"service\":\"web\"}",
		OK(TABLE("64") ", \"services\": [" SERVICE("web", "table", "round-robin", "300000",
			"8", "6") "], \"backends\": [" BACKEND("web-1", "false",
			"7") ", " BACKEND("web-9", "true", "1") "]"),
		"BACKEND          CLIENTS  PROVEN\n"
		"web-1                  7       1\n"
		"web-9 (removed)        1       1\n"
		"affinity table: 64 entries, 9 used (2 unproven), 55 free\n");
}

TEST(affinity_show_says_that_the_hash_selects) {
	expect(WORDS("affinity", "show", "dns"),
		"{\"command\":\"affinity.show\",\"service\":\"dns\"}",
		OK(TABLE("64") ", \"services\": [" SERVICE("dns", "hash", "maglev", "null", "null",
			"null") "], \"backends\": [" BACKEND("web-1", "false", "0") "]"),
		"dns: the hash of a client's address selects its backend (policy maglev); "
		"there are no affinity entries\n");
	expect(WORDS("affinity", "show", "web"),
		"{\"command\":\"affinity.show\",\"service\":\"web\"}",
		OK(TABLE("0") ", \"services\": [" SERVICE(
			"web", "hash", "random", "null", "null", "null") "], \"backends\": []"),
		"web: the hash of a client's address selects its backend "
		"(flow_table.affinity_sources is 0); there are no affinity entries\n");
}

TEST(affinity_show_of_a_client_is_a_record) {
	expect(WORDS("affinity", "show", "web", "192.0.2.7"),
		"{\"command\":\"affinity.lookup\",\"service\":\"web\",\"client\":\"192.0.2.7\"}",
		OK("\"service\": \"web\", \"client\": \"192.0.2.0/24\", \"by\": \"table\", "
		   "\"backend\": \"web-1\", \"address\": \"10.0.0.1\", \"remembered\": "
		   "\"web-1\", \"proven\": true, \"left_ms\": 61000, \"why\": \"remembered\""),
		"service     web\n"
		"client      192.0.2.0/24\n"
		"by          table\n"
		"backend     web-1\n"
		"address     10.0.0.1\n"
		"remembered  web-1\n"
		"proven      yes\n"
		"left        1m01s\n"
		"why         remembered\n");
}

TEST(affinity_clear_prints_what_was_forgotten) {
	expect(WORDS("affinity", "clear", "web"),
		"{\"command\":\"affinity.clear\",\"service\":\"web\"}",
		OK("\"forgotten\": 12, \"incomplete\": false, \"service\": \"web\", "
		   "\"backend\": null, \"client\": null"),
		"12 clients forgotten\n");
	expect(WORDS("affinity", "clear", "web/"),
		"{\"command\":\"affinity.clear\",\"service\":\"web\"}",
		OK("\"forgotten\": 0, \"incomplete\": false, \"service\": \"web\", "
		   "\"backend\": null, \"client\": null"),
		"0 clients forgotten\n");
	expect(WORDS("affinity", "clear", "web/web-1"),
		"{\"command\":\"affinity.clear\",\"service\":\"web\",\"backend\":\"web-1\"}",
		OK("\"forgotten\": 2, \"incomplete\": false, \"service\": \"web\", "
		   "\"backend\": \"web-1\", \"client\": null"),
		"2 clients forgotten, of web/web-1\n");
	expect(WORDS("affinity", "clear", "web", "192.0.2.7"),
		"{\"command\":\"affinity.clear\",\"service\":\"web\",\"client\":\"192.0.2.7\"}",
		OK("\"forgotten\": 1, \"incomplete\": false, \"service\": \"web\", "
		   "\"backend\": \"web-1\", \"client\": \"192.0.2.7\""),
		"1 client forgotten, of web/web-1\n");
}

TEST(affinity_clear_of_a_client_at_a_backend) {
	expect(WORDS("affinity", "clear", "web/web-1", "192.0.2.7"),
		"{\"command\":\"affinity.clear\",\"service\":\"web\",\"backend\":\"web-1\","
		"\"client\":\"192.0.2.7\"}",
		OK("\"forgotten\": 0, \"incomplete\": false, \"service\": \"web\", "
		   "\"backend\": null, \"client\": \"192.0.2.7\""),
		"0 clients forgotten\n");
}

TEST(affinity_arguments_are_checked) {
	static const struct {
		const char *words[2], *err;
	} cases[] = {
		{{"/web-1", NULL},
			"expected a service as SERVICE, or a backend as SERVICE/BACKEND"},
		{{"web/b/c", NULL},
			"expected a service as SERVICE, or a backend as SERVICE/BACKEND"},
		{{"", NULL}, "expected a service as SERVICE, or a backend as SERVICE/BACKEND"},
		{{NULL, NULL}, "an argument is missing"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome outcome = RUN("/nonexistent", "affinity", "clear",
			(char *)cases[i].words[0], (char *)cases[i].words[1]);

		assert_int_equal(outcome.status, 2);
		expect_contains(outcome.err, cases[i].err);
		free_outcome(&outcome);
	}
}

// A walk over the affinity table can outlast --timeout. Only affinity.clear has an entry in the
// audit.
TEST(affinity_walk_that_outlasts_the_timeout_is_not_a_hung_daemon) {
	static const struct server_answer answers[] = {{"affinity.clear", NULL},
		{"affinity.show", NULL}, {"version", "{\"ok\": true, \"result\": {}}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome =
		RUN(server_folder(server), "--timeout=150", "affinity", "clear", "web");

	assert_int_equal(outcome.status, 3);
	assert_string_equal(outcome.err,
		"weirctl: weir-control is still deleting affinity entries after 150 ms; the result "
		"will be in \"weirctl audit show\"; use --timeout MS to wait longer\n");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "--timeout=150", "affinity", "show");
	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "no reply from weir-control within 150 ms");
	assert_null(strstr(outcome.err, "may still take effect"));
	free_outcome(&outcome);
	server_stop(server);
}
