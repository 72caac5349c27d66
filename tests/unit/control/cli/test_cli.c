// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>
#include <time.h>

#include "cli_lab.h"

#define OK "{\"ok\": true, \"result\": {}}"
#define LIST "{\"ok\": true, \"result\": []}"

TEST(commands_send_the_documented_requests) {
	static const struct server_answer answers[] = {{"service.show", LIST},
		{"backend.show", LIST}, {"flow.count", LIST}, {"worker.show", LIST},
		{"port.show", LIST}, {"health.show", LIST}, {"*", OK}, {0}};
	static const struct {
		char *words[9];
		const char *request;
	} cases[] = {
		{{"service", "show"}, "{\"command\":\"service.show\"}"},
		{{"service", "show", "web"}, "{\"command\":\"service.show\",\"service\":\"web\"}"},
		{{"backend", "show"}, "{\"command\":\"backend.show\"}"},
		{{"backend", "show", "b"}, "{\"command\":\"backend.show\",\"backend\":\"b\"}"},
		{{"backend", "show", "s/"}, "{\"command\":\"backend.show\",\"service\":\"s\"}"},
		{{"backend", "show", "s/b"},
			"{\"command\":\"backend.show\",\"service\":\"s\",\"backend\":\"b\"}"},
		{{"backend", "drain", "b"}, "{\"command\":\"backend.drain\",\"backend\":\"b\"}"},
		{{"backend", "ready", "s/b"},
			"{\"command\":\"backend.ready\",\"service\":\"s\",\"backend\":\"b\"}"},
		{{"backend", "maintenance", "b"},
			"{\"command\":\"backend.maintenance\",\"backend\":\"b\"}"},
		{{"service", "set", "web", "policy=power-of-two"},
			"{\"command\":\"service.set\",\"policy\":\"power-of-two\",\"service\":"
			"\"web\"}"},
		{{"service", "set", "web", "policy=configured"},
			"{\"command\":\"service.set\",\"policy\":null,\"service\":\"web\"}"},
		{{"backend", "report", "s/b", "service-time-ms=12.5", "busy-time-ms=0",
			 "requests-per-second=100", "errors-per-second=1e2", "utilization=0.5"},
			"{\"command\":\"backend.report\",\"service_time_ms\":12.5,"
			"\"busy_time_ms\":0.0,\"requests_per_second\":100.0,"
			"\"errors_per_second\":100.0,\"utilization\":0.5,\"service\":\"s\","
			"\"backend\":\"b\"}"},
		{{"backend", "shed", "--to-mean", "--rate=50/s", "--idle=2", "--duration=1m",
			 "s/b"},
			"{\"command\":\"shed.start\",\"rate\":50.0,\"idle_ms\":2000.0,"
			"\"for_ms\":60000.0,\"service\":\"s\",\"backend\":\"b\"}"},
		{{"backend", "shed", "--to-mean", "--dry-run", "--rate", "0.5", "b"},
			"{\"command\":\"shed.plan\",\"rate\":0.5,\"backend\":\"b\"}"},
		{{"backend", "shed", "--stop", "s/b"},
			"{\"command\":\"shed.stop\",\"service\":\"s\",\"backend\":\"b\"}"},
		{{"weight", "set", "b", "0"},
			"{\"command\":\"weight.set\",\"weight\":0,\"backend\":\"b\"}"},
		{{"weight", "set", "s/b", "65535"},
			"{\"command\":\"weight.set\",\"weight\":65535,\"service\":\"s\","
			"\"backend\":\"b\"}"},
		{{"weight", "set", "b", "configured"},
			"{\"command\":\"weight.set\",\"weight\":null,\"backend\":\"b\"}"},
		{{"flow", "count"}, "{\"command\":\"flow.count\"}"},
		{{"flow", "count", "--service=web"},
			"{\"command\":\"flow.count\",\"service\":\"web\"}"},
		{{"flow", "lookup", "tcp", "[::ffff:192.0.2.7]:1234", "198.51.100.10:80"},
			"{\"command\":\"flow.lookup\",\"protocol\":\"tcp\",\"source\":\"::ffff:"
			"192.0.2.7\",\"source_port\":1234,\"destination\":\"198.51.100.10\","
			"\"destination_port\":80}"},
		{{"flow", "lookup", "tcp", "192.0.2.7:1234", "198.51.100.10:80"},
			"{\"command\":\"flow.lookup\",\"protocol\":\"tcp\",\"source\":\"192.0.2."
			"7\","
			"\"source_port\":1234,\"destination\":\"198.51.100.10\","
			"\"destination_port\":80}"},
		{{"flow", "lookup", "udp", "[2001:db8::7]:1", "[2001:db8::8]:2"},
			"{\"command\":\"flow.lookup\",\"protocol\":\"udp\",\"source\":\"2001:db8::"
			"7\","
			"\"source_port\":1,\"destination\":\"2001:db8::8\",\"destination_port\":"
			"2}"},
		{{"worker", "show"}, "{\"command\":\"worker.show\"}"},
		{{"worker", "steal", "on"}, "{\"command\":\"worker.steal\",\"stealing\":\"on\"}"},
		{{"worker", "steal", "off"}, "{\"command\":\"worker.steal\",\"stealing\":\"off\"}"},
		{{"worker", "steal", "configured"},
			"{\"command\":\"worker.steal\",\"stealing\":null}"},
		{{"port", "show"}, "{\"command\":\"port.show\"}"},
		{{"stats", "show"}, "{\"command\":\"stats.show\"}"},
		{{"config", "diff"}, "{\"command\":\"config.diff\"}"},
		{{"config", "reload", "/dev/../dev/null"},
			"{\"command\":\"config.reload\",\"path\":\"/dev/null\"}"},
		{{"health", "show"}, "{\"command\":\"health.show\"}"},
		{{"health", "show", "web"}, "{\"command\":\"health.show\",\"service\":\"web\"}"},
		{{"version"}, "{\"command\":\"version\"}"},
	};
	struct server *server = server_start(SERVER_ANSWER, answers);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome outcome = run_weirctl(server_folder(server), cases[i].words);

		if (outcome.status != 0) {
			fail_msg("case %zu: %s", i, outcome.err);
		}
		assert_string_equal(server_request(server), cases[i].request);
		assert_string_equal(outcome.err, "");
		free_outcome(&outcome);
	}
	server_stop(server);
}

TEST(invalid_usage_exits_2_without_a_request) {
	static const struct {
		char *words[8];
		const char *err;
	} cases[] = {
		{{"show"}, "\"show\" needs an object before it: service show, vip show, "},
		{{"service", "set", "web", "policy=leastconn"},
			"unknown policy \"leastconn\"; did you mean \"least-loaded\"? available: "
			"maglev, round-robin, least-loaded, "},
		{{"service", "set", "web", "policy=wlc"}, "did you mean \"least-loaded\"?"},
		{{"service", "set", "web", "policy=ring_hash"}, "did you mean \"maglev\"?"},
		{{"service", "set", "web", "policy=LEAST_REQUEST"},
			"did you mean \"least-loaded\"?"},
		{{"service", "set", "web", "policy=source"}, "did you mean \"maglev\"?"},
		{{"service", "set", "web", "policy=MAGLEV"}, "did you mean \"maglev\"?"},
		{{"service", "set", "web", "policy=best"}, "unknown policy \"best\"; available: "},
		{{"service", "set", "web", "policy=interleaved"},
			"did you mean \"interleaved-weighted-round-robin\"? available: maglev, "},
		{{"show", "backend"},
			"unknown command \"show backend\"; did you mean \"backend show\"?\n"},
		{{"backend", "shed", "b"}, "give either --to-mean, to start a shed, or --stop"},
		{{"backend", "shed", "--stop", "--to-mean", "b"}, "give either --to-mean"},
		{{"backend", "shed", "--stop", "--dry-run", "b"}, "--stop cannot be used with"},
		{{"backend", "shed", "--to-mean", "s/"}, "expected one backend as NAME"},
		{{"backend", "shed", "--to-mean", "--rate=5/m", "b"}, "is not a rate"},
		{{"backend", "shed", "--to-mean", "--rate=0.1", "b"},
			"weirctl: --rate: use 0.2 to 1000 connections per second"},
		{{"backend", "shed", "--to-mean", "--rate=0/s", "b"}, "--rate: use 0.2 to 1000"},
		{{"backend", "shed", "--to-mean", "--rate=1001", "b"}, "--rate: use 0.2 to 1000"},
		{{"drain", "web/web-1"}, "needs an object before it: service drain, vip drain, "},
		{{"backend"}, "\"backend\" needs a verb: show, drain, ready, maintenance, report, "
			      "shed\n"},
		{{"servise", "show"}, "unknown object \"servise\"; did you mean \"service\"? "
				      "available: service, vip, backend, "},
		{{"xyzzy"}, "unknown object \"xyzzy\"; available: service, vip, backend, host, "
			    "weight, canary, subset, policy, flow"},
		{{"xyzzy"}, "health, status, doctor, version\n"},
		{{"backend", "drian", "b"}, "unknown backend verb \"drian\"; did you mean "
					    "\"drain\"? available: show, "},
		{{"backend", "undrain", "b"}, "unknown backend verb \"undrain\"; did you mean "
					      "\"ready\"? available: show, "},
		{{"service", "disable", "s"}, "unknown service verb \"disable\"; available: "},
		{{"vip", "drain", "192.0.2.1:80"},
			"\"192.0.2.1:80\" is not an IPv4 or IPv6 address: give the address alone"},
		{{"host", "drain", "web-1"}, "\"web-1\" is not an IPv4 or IPv6 address"},
		{{"trace", "tcp", "192.0.2.7:0", "192.0.2.1:80"},
			"invalid endpoint \"192.0.2.7:0\": the port must be 1 to 65535"},
		{{"backend", "explode", "b"}, "unknown backend verb \"explode\"; available: show, "
					      "drain, ready, maintenance, report, shed"},
		{{"service", "set", "web"}, "an argument is missing"},
		{{"service", "set", "web", "weight=5"}, "invalid setting \"weight=5\""},
		{{"worker", "steal", "no"},
			"invalid setting \"no\": expected on, off or configured"},
		{{"service", "set", "web", "policy"}, "invalid setting \"policy\""},
		{{"service", "set", "web", "policy="}, "unknown policy \"\""},
		{{"service", "set", "web", "policy=round-robbin"},
			"unknown policy \"round-robbin\"; did you mean \"round-robin\"?"},
		{{"service", "set", "\xff", "policy=random"}, "UTF-8"},
		{{"backend", "report", "web/web-1"}, "an argument is missing"},
		{{"backend", "report", "web/", "utilization=1"}, "expected one backend"},
		{{"backend", "report", "web/web-1", "load=1"},
			"invalid value \"load=1\": expected service-time-ms="},
		{{"backend", "report", "web/web-1", "utilization"},
			"invalid value \"utilization\": expected service-time-ms="},
		{{"backend", "report", "web/web-1", "utilization="},
			"expected a number of at least 0"},
		{{"backend", "report", "web/web-1", "utilization=0.5x"},
			"expected a number of at least 0"},
		{{"backend", "report", "web/web-1", "utilization=-1"},
			"expected a number of at least 0"},
		{{"backend", "report", "web/web-1", "utilization=nan"},
			"expected a number of at least 0"},
		{{"backend", "report", "web/web-1", "utilization=inf"},
			"expected a number of at least 0"},
		{{"backend"}, "\"backend\" needs a verb"},
		{{"backend", "drain"}, "Usage: weirctl [OPTION]... backend drain [--interval "
				       "DURATION] [--wait] [SERVICE/]NAME"},
		{{"backend", "drain"}, "See \"weirctl backend drain --help\"."},
		{{"backend", "drain", "--interval", "5x", "b"},
			"See \"weirctl backend drain --help\"."},
		{{"top", "--sort", "x"}, "See \"weirctl top --help\"."},
		{{"flow", "list", "--limit", "0"}, "See \"weirctl flow list --help\"."},
		{{"flow", "list", "--lmit", "5"}, "See \"weirctl flow list --help\"."},
		{{"--interval", "5x", "backend", "drain"}, "See \"weirctl --help\"."},
		{{"backend", "drain", "a", "b"}, "too many arguments"},
		{{"backend", "drain", ""}, "expected a backend as NAME or SERVICE/NAME"},
		{{"backend", "drain", "s/"}, "expected one backend"},
		{{"backend", "drain", "/b"}, "expected a backend as NAME or SERVICE/NAME"},
		{{"backend", "drain", "a/b/c"}, "expected a backend as NAME or SERVICE/NAME"},
		{{"backend", "drain", "\xff"}, "expected a backend as NAME or SERVICE/NAME"},
		{{"service", "show", "\xff"}, "UTF-8"},
		{{"weight", "set", "b"}, "an argument is missing"},
		{{"weight", "set", "b", "65536"}, "invalid weight \"65536\": expected 0 to 65535"},
		{{"weight", "set", "b", "1.5"}, "weight \"1.5\""},
		{{"weight", "set", "b", ""}, "weight \"\""},
		{{"weight", "set", "b", "--", "-1"}, "weight \"-1\""},
		{{"flow", "lookup", "icmp", "192.0.2.1:1", "192.0.2.2:2"}, "expected tcp or udp"},
		{{"flow", "lookup", "tcp", "192.0.2.1", "192.0.2.2:2"},
			"invalid endpoint \"192.0.2.1\": expected ADDRESS:PORT"},
		{{"flow", "count", "web"}, "too many arguments"},
		{{"worker", "show", "--service", "web"},
			"--service is not an option of worker show"},
		{{"worker", "show", "--watch"}, "--watch is not an option of worker show"},
		{{"config", "check"}, "an argument is missing"},
		{{"--frob", "version"}, "unknown option --frob"},
		{{"weight", "set", "b", "-3"},
			"unknown option -3; write -- before a negative number"},
		{{NULL}, "Usage: weirctl [OPTION]... OBJECT VERB"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		// The run directory does not exist, so a command that connects to the daemon would
		// exit with 3.
		struct outcome outcome = run_weirctl("/nonexistent", cases[i].words);

		if (outcome.status != 2) {
			fail_msg("case %zu: %d %s", i, outcome.status, outcome.err);
		}
		expect_contains(outcome.err, cases[i].err);
		assert_string_equal(outcome.out, "");
		free_outcome(&outcome);
	}
}

// As for config check, the exit status is 1 for a missing file and 2 for a wrong command line, so
// that scripts can distinguish them.
TEST(missing_file_exits_1) {
	for (int i = 0; i < 2; i++) {
		struct outcome outcome = RUN("/nonexistent", "config", i == 0 ? "reload" : "diff",
			"/nonexistent/weir.json");

		assert_int_equal(outcome.status, 1);
		assert_string_equal(outcome.err,
			"weirctl: cannot read /nonexistent/weir.json: No such file or directory\n");
		free_outcome(&outcome);
	}
}

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TEST(dead_daemon_exits_3_at_once) {
	int64_t start = now_ms();
	struct outcome outcome;

	use_own_network();
	outcome = RUN("/nonexistent", "--timeout", "3600000", "backend", "drain", "web-1");
	assert_int_equal(outcome.status, 3);
	assert_true(now_ms() - start < 5000);
	assert_string_equal(outcome.out, "");
	assert_string_equal(outcome.err,
		"weirctl: weir-control is not running (no /nonexistent/control/control.sock): "
		"start it "
		"with \"weir-control --config FILE --data-path-checks --run-dir /nonexistent\"\n");
	free_outcome(&outcome);
}

TEST(change_without_a_reply_may_take_effect) {
	static const struct {
		char *words[9];
		bool is_change;
	} cases[] = {
		{{"--timeout=50", "service", "drain", "web"}, true},
		{{"--timeout=50", "vip", "drain", "192.0.2.1"}, true},
		{{"--timeout=50", "backend", "drain", "web-1", "--wait"}, true},
		{{"--timeout=50", "host", "drain", "10.0.0.11"}, true},
		{{"--timeout=50", "canary", "start", "web", "web-1"}, true},
		{{"--timeout=50", "canary", "start", "web", "web-1", "--dry-run"}, false},
		{{"--timeout=50", "backend", "shed", "web-1", "--to-mean"}, true},
		{{"--timeout=50", "backend", "shed", "web-1", "--to-mean", "--dry-run"}, false},
		{{"--timeout=50", "backend", "shed", "web-1", "--stop"}, true},
		{{"--timeout=50", "config", "diff"}, false},
	};
	struct server *server = server_start(SERVER_HANG, NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome outcome = run_weirctl(server_folder(server), cases[i].words);

		assert_int_equal(outcome.status, 3);
		assert_int_equal(
			strstr(outcome.err, "the change may still take effect; see") != NULL,
			cases[i].is_change);
		free_outcome(&outcome);
	}
	server_stop(server);
}

TEST(hanging_daemon_exits_3_after_the_timeout) {
	struct server *server = server_start(SERVER_HANG, NULL);
	struct outcome outcome = RUN("/nonexistent", "--run-dir", (char *)server_folder(server),
		"--timeout=150", "version");

	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "no reply from weir-control within 150 ms");
	assert_null(strstr(outcome.err, "may still take effect"));
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "--run-dir", (char *)server_folder(server), "--timeout=150",
		"weight", "set", "web-1", "7");
	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err,
		"weirctl: the change may still take effect; see \"weirctl audit show\"\n");
	free_outcome(&outcome);
	server_stop(server);
}

// A walk over the flow tables can outlast --timeout although weir-control works.
TEST(flow_clear_that_outlasts_the_timeout_is_not_a_hung_daemon) {
	static const struct server_answer answers[] = {
		{"flow.clear", NULL}, {"version", "{\"ok\": true, \"result\": {}}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome =
		RUN(server_folder(server), "--timeout=150", "flow", "clear", "web/web-1");

	assert_int_equal(outcome.status, 3);
	assert_string_equal(outcome.err,
		"weirctl: weir-control is still deleting flows after 150 ms; the result will be in "
		"\"weirctl audit show\"; use --timeout MS to wait longer\n");
	free_outcome(&outcome);
	server_set_mode(server, SERVER_HANG);
	outcome = RUN(server_folder(server), "--timeout=150", "flow", "clear", "web/web-1");
	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "no reply from weir-control within 150 ms: it is hung");
	expect_contains(outcome.err, "the change may still take effect");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(refusal_exits_1_with_the_reason) {
	static const struct server_answer answers[] = {
		{"*", "{\"ok\": false, \"code\": \"not-found\", \"error\": \"service \\\"web\\\" "
		      "has "
		      "no backend \\\"web-9\\\"\\u001b[2J\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "backend", "drain", "web/web-9");

	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err,
		"weirctl: refused: service \"web\" has no backend \"web-9\"\\x1b[2J\n");
	assert_string_equal(outcome.out, "");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "backend", "drain", "web/web-9", "--json");
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.out, "\"code\": \"not-found\"");
	assert_null(strchr(outcome.out, '\x1b'));
	assert_string_equal(outcome.err, "");
	free_outcome(&outcome);
	server_stop(server);
}

// The exit status is 2, as for arguments that weirctl itself refuses.
TEST(argument_that_weir_control_rejects_exits_2) {
	static const struct server_answer answers[] = {
		{"*", "{\"ok\": false, \"code\": \"bad-request\", \"error\": \"argument "
		      "\\\"address\\\" must be a unicast address\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "host", "drain", "224.0.0.1");

	assert_int_equal(outcome.status, 2);
	assert_string_equal(
		outcome.err, "weirctl: argument \"address\" must be a unicast address\n");
	free_outcome(&outcome);
	server_stop(server);
}

// The command has no file argument, but the message contains the name of the file that weir-control
// has read.
TEST(refusal_names_the_file) {
	static const struct server_answer answers[] = {
		{"config.reload",
			"{\"ok\": false, \"error\": \"/etc/w.json has 1 error, in line 7\", "
			"\"file\": \"/etc/w.json\", \"errors\": [{\"line\": 7, \"column\": 4, "
			"\"path\": \"a.b\", \"reason\": \"bad\"}]}"},
		{"config.diff", "{\"ok\": false, \"error\": \"/etc/w.json: cannot read: no\", "
				"\"file\": \"/etc/w.json\", \"errors\": [{\"reason\": \"cannot "
				"read: no\"}]}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "config", "reload");

	assert_string_equal(outcome.err, "weirctl: refused: /etc/w.json has 1 error, in line 7\n"
					 "/etc/w.json:7:4: a.b: bad\n");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "config", "diff");
	assert_string_equal(outcome.err, "weirctl: refused: /etc/w.json: cannot read: no\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(refused_reload_lists_every_error) {
	static const struct server_answer answers[] = {
		{"config.reload", "{\"ok\": false, \"code\": \"refused\", \"error\": \"2 errors\", "
				  "\"errors\": "
				  "[{\"line\": 7, \"column\": 4, \"path\": \"ports[0].mtu\", "
				  "\"reason\": \"too "
				  "big\"}, {\"line\": 0, \"column\": 0, \"path\": \"\", "
				  "\"reason\": \"bad\"}]}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "config", "reload", "/dev/null");

	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err, "weirctl: refused: 2 errors\n"
					 "/dev/null:7:4: ports[0].mtu: too big\n"
					 "/dev/null: bad\n");
	free_outcome(&outcome);
	server_stop(server);
}

#define WHY "\"not_published\": \"the heap is\\u001b full\""

// If a change could not be published, the command exits with an error status. A command that only
// shows values succeeds.
TEST(unpublished_changes_are_reported) {
	static const struct server_answer answers[] = {
		{"backend.drain", "{\"ok\": true, \"result\": {\"service\": \"web\", \"backend\": "
				  "\"b\", \"admin\": \"drain\", \"active_flows\": 3}, " WHY
				  ", \"published\": false}"},
		{"service.show", "{\"ok\": true, \"result\": [], " WHY "}"},
		{"stats.show", "{\"ok\": true, \"result\": {}, " WHY "}"}, {0}};
	static const struct {
		char *words[4];
		int status;
		const char *out; // a part of the output
	} cases[] = {
		{{"backend", "drain", "b"}, 1, "web/b: drain, 3 active flows\n"},
		{{"backend", "drain", "b", "--json"}, 1,
			"\"not_published\": \"the heap is\\u001B full\""},
		{{"service", "show"}, 0, ""},
		{{"service", "show", "--json"}, 0, "[]"},
		{{"stats", "show"}, 0, ""},
		{{"stats", "show", "--json"}, 0, "\"not_published\": \"the heap is\\u001B full\""},
	};
	struct server *server = server_start(SERVER_ANSWER, answers);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *words[5] = {0};
		struct outcome outcome;

		memcpy(words, cases[i].words, sizeof(cases[i].words));
		outcome = run_weirctl(server_folder(server), words);
		assert_int_equal(outcome.status, cases[i].status);
		expect_contains(outcome.out, cases[i].out);
		assert_string_equal(outcome.err,
			"weirctl: changes are not published yet: the heap is\\x1b full\n");
		free_outcome(&outcome);
	}
	server_stop(server);
}

// If the result is incomplete, there may be more flows. The exit status must not be 0, because a
// script would continue as if there were no flows.
TEST(incomplete_result_is_no_success) {
	static const struct server_answer answers[] = {
		{"flow.delete",
			"{\"ok\": true, \"result\": {\"deleted\": 0, \"incomplete\": true}}"},
		{"flow.clear",
			"{\"ok\": true, \"result\": {\"deleted\": 7, \"incomplete\": true}}"},
		{"flow.lookup",
			"{\"ok\": true, \"result\": {\"found\": false, \"incomplete\": true}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcomes[] = {
		RUN(server_folder(server), "flow", "delete", "tcp", "192.0.2.1:2", "192.0.2.3:4"),
		RUN(server_folder(server), "flow", "clear", "web/b"),
		RUN(server_folder(server), "flow", "clear", "web/b", "--json"),
		RUN(server_folder(server), "flow", "lookup", "tcp", "192.0.2.1:2", "192.0.2.3:4"),
	};
	const char *const expected[] = {
		"0 flows deleted\n", "7 flows deleted\n", "\"incomplete\": true", "found  no\n"};

	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		assert_int_equal(outcomes[i].status, 1);
		expect_contains(outcomes[i].out, expected[i]);
		assert_string_equal(outcomes[i].err,
			"weirctl: the output is incomplete: a worker did not answer in time\n");
		free_outcome(&outcomes[i]);
	}
	server_stop(server);
}

// Without an answer it is unknown whether there are flows.
TEST(list_without_an_answer_is_not_empty) {
	static const struct server_answer answers[] = {
		{"flow.list", "{\"ok\": true, \"result\": {\"flows\": [], \"next\": null, "
			      "\"incomplete\": true}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "flow", "list");

	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.out, "");
	assert_string_equal(outcome.err,
		"weirctl: the output is incomplete: a worker did not answer in time\n");
	free_outcome(&outcome);
	server_stop(server);
}

// A stalled worker loses the packets in its queues. Scripts can detect this by the exit status.
TEST(stalled_worker_gives_exit_status_1) {
	static const struct server_answer answers[] = {
		{"worker.show", "{\"ok\": true, \"result\": [{\"worker\": 0, \"alive\": true}, "
				"{\"worker\": 1, \"alive\": false}]}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcomes[] = {RUN(server_folder(server), "worker", "show"),
		RUN(server_folder(server), "worker", "show", "--json")};

	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
		assert_int_equal(outcomes[i].status, 1);
		expect_contains(outcomes[i].out, i == 0 ? "1     -  no" : "\"alive\": false");
		assert_string_equal(
			outcomes[i].err, "weirctl: 1 of 2 workers stalled: see weirctl status\n");
		free_outcome(&outcomes[i]);
	}
	server_stop(server);
}

TEST(json_prints_the_raw_result) {
	static const struct server_answer answers[] = {
		{"*", "{\"ok\": true, \"result\": [{\"name\": \"caf\\u00e9\", \"extra\": null}]}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "--json", "backend", "show");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.out, "[\n  {\n    \"name\": \"caf\\u00E9\",\n    \"extra\": "
					 "null\n  }\n]\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(version_needs_no_daemon_as_option) {
	struct outcome outcome = RUN("/nonexistent", "--version");

	assert_int_equal(outcome.status, 0);
	assert_memory_equal(outcome.out, "weirctl ", 8);
	free_outcome(&outcome);
}

TEST(full_disk_is_no_success) {
	char *argv[] = {"weirctl", "--help"};
	FILE *full = fopen("/dev/full", "w");

	assert_non_null(full);
	assert_int_equal(weir_cli_main(2, argv, NULL, full, stderr), 1);
	fclose(full);
}

// A row of backend.show.
#define NO_RESULT(name, why) \
	"{\"service\": \"web\", \"name\": \"" name "\", \"address\": \"10.0.0.11\", " \
	"\"admin\": \"ready\", \"health\": \"healthy\", \"verdict\": \"passing\", " \
	"\"unchecked_ms\": 45000, \"unchecked_why\": \"" why "\"}"

TEST(doctor_finds_checks_without_a_result) {
	static const struct server_answer answers[] = {
		{"version", "{\"ok\": true, \"result\": {\"config\": \"/nonexistent\"}}"},
		{"backend.show", "{\"ok\": true, \"result\": [" NO_RESULT(
					 "a", "permission denied") ", " NO_RESULT("b",
					 "this host drops replies from 198.51.100.10 on eth1: see "
					 "rp_filter") ", " NO_RESULT("c",
					 "address not available") ", " NO_RESULT("d",
					 "permission denied") "]}"},
		{"*", "{\"ok\": true, \"result\": null}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "doctor");

	expect_contains(outcome.out, "warning  checks ");
	expect_contains(outcome.out, "web/a ");
	expect_contains(outcome.out, "its health checks have had no result for 45.0s, so its state "
				     "stays healthy: permission denied; also: web/d\n");
	expect_contains(outcome.out, "$ ip route get 10.0.0.11; nft list ruleset");
	expect_contains(outcome.out,
		"$ sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.eth1.rp_filter=0\n");
	expect_contains(outcome.out, "$ weirctl health show web\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(doctor_finds_programs_that_do_not_run) {
	static const struct server_answer answers[] = {
		{"version", "{\"ok\": true, \"result\": {\"config\": \"/nonexistent\"}}"},
		{"status", "{\"ok\": true, \"result\": {\"level\": \"warning\", \"programs\": "
			   "\"programs do not run; restart weir-control\"}}"},
		{"*", "{\"ok\": true, \"result\": null}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "doctor");

	expect_contains(outcome.out, "programs do not run; restart weir-control\n");
	expect_contains(outcome.out, "$ systemctl restart weir-control\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(doctor_shows_why_weir_control_refuses) {
	static const struct server_answer answers[] = {{"*",
		JSON({"ok": false, "code": "refused", "error": "too many open connections"})}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "doctor");

	expect_contains(outcome.out, "warning  control ");
	expect_contains(outcome.out, " too many open connections\n");
	assert_null(strstr(outcome.out, "restart weir-control"));
	free_outcome(&outcome);
	server_stop(server);
}

// Runs doctor on this machine, with the backends from a simulated daemon.
TEST(doctor_has_the_usual_durations) {
	static const struct server_answer answers[] = {
		{"version", "{\"ok\": true, \"result\": {\"config\": \"/nonexistent\"}}"},
		{"backend.show",
			"{\"ok\": true, \"result\": [{\"service\": \"web\", \"name\": \"d\", "
			"\"admin\": \"drain\", \"admin_since_ms\": 61000}, {\"service\": "
			"\"web\", \"name\": \"m\", \"admin\": \"maintenance\", "
			"\"admin_since_ms\": null}, {\"service\": \"web\", \"name\": \"b\", "
			"\"health\": "
			"\"refusing\", \"since_ms\": 912300, \"why\": \"timeout\", \"agent\": "
			"\"silent\", \"agent_age_ms\": 4100, \"address\": \"10.0.0.11\"}, "
			"{\"service\": \"web\", \"name\": \"k\", \"agent\": \"no-keys\"}]}"},
		{"*", "{\"ok\": true, \"result\": null}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "doctor");

	expect_contains(outcome.out, "has been in health state refusing for 15m12s: timeout\n");
	expect_contains(outcome.out, "its weir-agent has not answered for 4.1s\n");
	expect_contains(outcome.out, "has no keys: the agents of 1 backend are not");
	expect_contains(outcome.out, "the backend has been drained for 1m01s\n");
	expect_contains(outcome.out,
		"the backend has been in maintenance since before the start of weir-control");
	free_outcome(&outcome);
	server_stop(server);
}
