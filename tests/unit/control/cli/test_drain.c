// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl backend drain and weirctl host drain: the request, the output while the command
// waits, and how the wait ends.
#include "cli_lab.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEGUN \
	"{\"ok\": true, \"result\": {\"service\": \"web\", \"backend\": \"web-1\", " \
	"\"admin\": \"drain\", \"active_flows\": 9, \"open_flows\": 7, \"drain\": " \
	"{\"state\": \"draining\", \"left_ms\": 60000, \"at_deadline\": \"keep\"}}}"
#define ROW(admin, open, drain) \
	"{\"ok\": true, \"result\": [{\"service\": \"web\", \"name\": \"web-1\", \"admin\": " \
	"\"" admin "\", \"leaving\": false, \"in_selection\": false, \"open_flows\": " open \
	", \"drain\": " drain "}]}"
#define STATE(state, left) \
	"{\"state\": \"" state "\", \"left_ms\": " left ", \"at_deadline\": \"keep\"}"

#define END(state, kept, dropped) \
	"{\"state\": \"" state "\", \"left_ms\": null, \"at_deadline\": null, " \
	"\"kept_flows\": " kept ", \"dropped_flows\": " dropped "}"

#define WAITS(what, recount) \
	"{\"state\": \"draining\", \"left_ms\": 59400, \"at_deadline\": \"keep\", " \
	"\"waits_for\": \"" what "\", \"recount_ms\": " recount "}"

static struct server *start(const char *shown) {
	static struct server_answer answers[3];
	static char text[2048];

	// The server counts the answers to all commands. The first answer is for backend.drain, so
	// backend.show gets the second and the following lines.
	snprintf(text, sizeof(text), "{}\n%s", shown);
	answers[0] = (struct server_answer){"backend.drain", BEGUN};
	answers[1] = (struct server_answer){"backend.show", text};
	return server_start(SERVER_ANSWER, answers);
}

// Replace the duration of a drain in a text by T, because it varies on a busy machine. Returns the
// duration in seconds, or 0 if the text has none.
static double take_duration(char *text) {
	char *after = strstr(text, " after "), *end;
	double s;

	if (after == NULL) {
		return 0;
	}
	after += strlen(" after ");
	s = strtod(after, &end);
	assert_ptr_not_equal(end, after);
	assert_int_equal(*end, 's');
	*after++ = 'T';
	memmove(after, end + 1, strlen(end + 1) + 1);
	return s;
}

TEST(without_wait_it_returns_at_once) {
	struct server *server = start("");
	struct outcome outcome =
		RUN(server_folder(server), "backend", "drain", "web/web-1", "--interval", "60s");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(
		outcome.out, "web/web-1: drain, 9 active flows, deadline in 1m00s (keep)\n");
	expect_contains(server_request(server), "\"interval_ms\":60000");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "backend", "drain", "web/web-1");
	assert_null(strstr(server_request(server), "interval_ms"));
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "--json", "backend", "drain", "web/web-1");
	expect_contains(outcome.out, "\"state\": \"draining\"");
	free_outcome(&outcome);
	server_stop(server);
}

// Each case has the successive answers of weir-control to backend.show, and the output of weirctl.
TEST(wait_ends_with_the_drain) {
	static const struct {
		const char *shown;
		int status;
		const char *out[3], *err;
		double least_s; // minimum duration; weirctl polls every 500 ms
	} cases[] = {
		{ROW("drain", "5", STATE("draining", "59400")) "\n" ROW(
			 "drain", "0", STATE("drained", "null")),
			0,
			{"web/web-1: draining, 5 of 7 open flows, 59.4s left\n",
				"web/web-1: drained after T\n"},
			"", 0.5},
		{ROW("drain", "0", END("kept", "0", "0")), 0,
			{" deadline after T, 0 open flows kept\n"}, "", 0},
		// One flow was kept at the deadline, but ended before weirctl read the backend.
		{ROW("drain", "0", END("kept", "1", "0")), 4,
			{" deadline after T, 1 open flow kept\n"}, "", 0},
		// Without a dataplane, the number of flows is not known. After a restart of the
		// dataplane, flows may continue.
		{ROW("drain", "0", END("kept", "null", "0")), 4,
			{" deadline after T, an unknown number of open flows kept\n"}, "", 0},
		{ROW("maintenance", "0", END("dropped", "0", "2")), 0,
			{" deadline after T, 2 open flows dropped (maintenance)\n"}, "", 0},
		{ROW("maintenance", "0", END("dropped", "0", "null")), 0,
			{" deadline after T, an unknown number of open flows dropped "
			 "(maintenance)\n"},
			"", 0},
		{ROW("ready", "2", "null"), 1, {NULL},
			"weirctl: web/web-1: drain cancelled, state set to ready\n", 0},
		{"{\"ok\": true, \"result\": []}", 1, {NULL},
			"weirctl: web/web-1 was removed from the configuration\n", 0},
		{"{\"ok\": false, \"code\": \"not-found\", \"error\": \"no such backend\"}", 1,
			{NULL}, "weirctl: refused: no such backend\n", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = start(cases[i].shown);
		struct outcome outcome = RUN(server_folder(server), "backend", "drain", "web/web-1",
			"--interval=1m", "--wait");

		assert_int_equal(outcome.status, cases[i].status);
		assert_true(take_duration(outcome.out) >= cases[i].least_s);
		for (int k = 0; cases[i].out[k] != NULL; k++) {
			expect_contains(outcome.out, cases[i].out[k]);
		}
		assert_string_equal(outcome.err, cases[i].err);
		assert_null(strchr(outcome.out, '\r'));
		free_outcome(&outcome);
		server_stop(server);
	}
}

#define FORMER(open, drain) \
	"{\"service\": \"web\", \"name\": \"web-1\", \"address\": \"10.0.0.11\", \"admin\": " \
	"\"drain\", \"leaving\": true, \"in_selection\": false, \"open_flows\": " open \
	", \"drain\": " drain "}"
#define MOVED(admin, open, drain, former_open, former_drain) \
	"{\"ok\": true, \"result\": [" FORMER(former_open, \
		former_drain) ", {\"service\": \"web\", " \
			      "\"name\": \"web-1\", \"address\": \"10.0.0.21\", \"admin\": " \
			      "\"" admin "\", " \
			      "\"leaving\": false, \"in_selection\": false, \"open_flows\": " open \
			      ", \"drain\": " drain "}]}"

// A reload has changed the address of the backend. Connections to the former address may still be
// open.
TEST(wait_is_for_the_former_address_too) {
	static const struct {
		const char *shown;
		int status;
		const char *out[3], *err;
	} cases[] = {
		{MOVED("drain", "5", STATE("draining", "59400"), "3",
			 STATE("draining", "59400")) "\n" MOVED("drain", "0",
			 STATE("drained", "null"), "1",
			 STATE("draining", "58900")) "\n" MOVED("drain", "0",
			 STATE("drained", "null"), "0", STATE("drained", "null")),
			0,
			{"web/web-1: draining, 8 of 8 open flows, 59.4s left; includes 3 open "
			 "flows of its previous address 10.0.0.11\n",
				"web/web-1: drained after T\n"},
			""},
		{MOVED("drain", "0", STATE("drained", "null"), "2", END("kept", "2", "0")), 4,
			{" deadline after T, 2 open flows kept; includes 2 open flows of its "
			 "previous address 10.0.0.11\n"},
			""},
		{MOVED("maintenance", "0", END("dropped", "0", "1"), "2", END("kept", "2", "0")), 4,
			{" deadline after T, 2 open flows kept, 1 open flow dropped (maintenance); "
			 "includes 2 open flows of its previous address 10.0.0.11\n"},
			""},
		// The reload happens while weirctl waits.
		{MOVED("ready", "0", "null", "1", STATE("draining", "59400")), 1, {NULL},
			"weirctl: web/web-1: drain cancelled, state set to ready; 1 open flow of "
			"its previous address 10.0.0.11\n"},
		{"{\"ok\": true, \"result\": [" FORMER("3", STATE("draining", "400")) "]}", 1,
			{NULL},
			"weirctl: web/web-1 was removed from the configuration; 3 open flows left "
			"at 10.0.0.11\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = start(cases[i].shown);
		struct outcome outcome =
			RUN(server_folder(server), "backend", "drain", "web/web-1", "--wait");

		assert_int_equal(outcome.status, cases[i].status);
		take_duration(outcome.out);
		for (int k = 0; cases[i].out[k] != NULL; k++) {
			expect_contains(outcome.out, cases[i].out[k]);
		}
		assert_string_equal(outcome.err, cases[i].err);
		free_outcome(&outcome);
		server_stop(server);
	}
}

// If no flow is counted, weirctl prints what the drain waits for. It prints a new line when this
// changes.
TEST(wait_names_the_reason_when_no_flow_is_counted) {
	struct server *server = start(ROW("drain", "null", WAITS("dataplane", "null")) "\n" ROW(
		"drain", "null", WAITS("dataplane", "null")) "\n" ROW("drain", "0",
		WAITS("recount", "47300")) "\n" ROW("drain", "0",
		WAITS("recount", "46800")) "\n" ROW("drain", "0", STATE("drained", "null")));
	struct outcome outcome =
		RUN(server_folder(server), "backend", "drain", "web/web-1", "--wait");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out,
		"web/web-1: draining, open flows unknown, 59.4s left; waits for weir-dataplane, "
		"which is not running\n"
		"web/web-1: draining, 0 open flows counted so far, 59.4s left; waits at most 47.3s "
		"for the recount of flows after the restart of weir-dataplane\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(wait_for_the_recount_ends_with_the_deadline) {
	struct server *server = start(ROW("drain", "0", WAITS("recount", "60000")) "\n" ROW(
		"drain", "0", STATE("drained", "null")));
	struct outcome outcome =
		RUN(server_folder(server), "backend", "drain", "web/web-1", "--wait");

	expect_contains(outcome.out, "59.4s left; waits at most 59.4s for the recount");
	free_outcome(&outcome);
	server_stop(server);
}

// weirctl also polls at the deadline. Otherwise it would print the time of its next regular poll,
// which is up to half a second later.
TEST(wait_looks_at_the_deadline) {
	struct server *server = start(ROW("drain", "5", STATE("draining", "100")) "\n" ROW(
		"drain", "0", END("kept", "0", "0")));
	struct outcome outcome =
		RUN(server_folder(server), "backend", "drain", "web/web-1", "--wait");
	double took_s = take_duration(outcome.out);

	assert_true(took_s >= 0.1 && took_s < 0.5);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(end_is_the_only_output_as_json) {
	struct server *server = start(ROW("drain", "5", STATE("draining", "100")) "\n" ROW(
		"drain", "1", STATE("kept", "null")));
	struct outcome outcome = RUN(server_folder(server), "backend", "drain", "web/web-1",
		"--interval=0.1", "--wait", "--json");
	json_t *json = json_loads(outcome.out, 0, NULL);

	assert_int_equal(outcome.status, 4);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(json, "drain"), "state")),
		"kept");
	json_decref(json);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(progress_is_one_line_within_the_width_of_a_terminal) {
	struct server *server = start(ROW("drain", "5", STATE("draining", "900")) "\n" ROW("drain",
		"4", STATE("draining", "400")) "\n" ROW("drain", "0", STATE("drained", "null")));
	char *const words[] = {"backend", "drain", "web/web-1", "--wait", NULL};
	char text[4096];

	run_on_terminal(server_folder(server), 5, 30, words, text, sizeof(text));
	assert_true(take_duration(text) >= 0.9);
	expect_contains(text, "\rweb/web-1: draining, 5 of 7 o\033[K"
			      "\rweb/web-1: draining, 4 of 7 o\033[K\r\033[K"
			      "web/web-1: drained after T");
	server_stop(server);
}

TEST(watched_drain_continues_without_weirctl) {
	struct server *server = start(JSON({"ok": 1}));
	struct outcome outcome =
		RUN(server_folder(server), "backend", "drain", "web/web-1", "--wait");

	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "the drain continues without weirctl");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(options_are_checked) {
	struct outcome outcome =
		RUN("/nonexistent", "backend", "drain", "web-1", "--interval", "60x");

	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "--interval: \"60x\" is not a duration such as 500ms, 30s, 5m "
				     "or 2h; use 0.1 to 604800 seconds");
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "backend", "ready", "web-1", "--interval", "60s");
	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "--interval is not an option of backend ready; leave it out");
	free_outcome(&outcome);
	outcome = RUN("/nonexistent", "stats", "show", "--wait");
	expect_contains(outcome.err, "--wait is not an option of stats show; leave it out");
	free_outcome(&outcome);
}

// --- hosts ---

#define HOST(open, drain, in_use, names) HOST_WITH("0", open, drain, in_use, names)
#define HOST_WITH(ready, open, drain, in_use, names) \
	HOST_ENDED(ready, open, drain, in_use, names, "[]")
#define HOST_ENDED(ready, open, drain, in_use, names, dropped) \
	"{\"ok\": true, \"result\": {\"address\": \"10.0.0.11\", \"services\": 3, " \
	"\"backends\": 4, \"ready\": " ready ", \"maintenance\": 1, \"removed\": 0, " \
	"\"active_flows\": 9, " \
	"\"open_flows\": " open ", \"drain\": " drain ", \"in_use\": " in_use ", \"open\": " names \
	", \"dropped_from\": " dropped "}}"

static struct server *start_host(const char *begun, const char *shown) {
	static struct server_answer answers[3];
	static char text[2048];

	snprintf(text, sizeof(text), "{}\n%s", shown);
	answers[0] = (struct server_answer){"host.drain", begun};
	answers[1] = (struct server_answer){"host.show", text};
	return server_start(SERVER_ANSWER, answers);
}

TEST(host_drain_reports_the_whole_host) {
	struct server *server = start_host(
		HOST("7", STATE("draining", "60000"), "[\"dns/d-1\"]", "[\"web/web-1\"]"), "");
	struct outcome outcome =
		RUN(server_folder(server), "host", "drain", "10.0.0.11", "--interval", "60s");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(outcome.out,
		"10.0.0.11: drain, 4 backends in 3 services, 9 active flows, deadline in 1m00s "
		"(keep); 1 of the backends in maintenance\n"
		"warning: new flows still go to dns/d-1, because no backend of the service is "
		"ready\n");
	expect_contains(server_request(server), "\"address\":\"10.0.0.11\"");
	expect_contains(server_request(server), "\"interval_ms\":60000");
	free_outcome(&outcome);
	server_stop(server);
}

// The warnings also name backends of other hosts, so they replace the list of this host.
TEST(host_drain_prints_the_warnings_of_all_services) {
	struct server *server =
		start_host(HOST_ENDED("0", "7", STATE("draining", "60000"), "[\"dns/d-1\"]", "[]",
				   "[], \"warnings\": [\"no backend of service dns is ready: new "
				   "flows still go "
				   "to d-1 and 2 more\"]"),
			"");
	struct outcome outcome = RUN(server_folder(server), "host", "drain", "10.0.0.11");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "in maintenance\nwarning: no backend of service dns is ready: "
				     "new flows still go to d-1 and 2 more\n");
	assert_null(strstr(outcome.out, "because"));
	free_outcome(&outcome);
	server_stop(server);
}

// Without weir-dataplane the number of flows is not known, and must not be shown as 0.
TEST(unknown_flows_of_a_host_or_vip_are_not_none) {
	static const struct server_answer answers[] = {
		{"host.drain",
			"{\"ok\": true, \"result\": {\"address\": \"10.0.0.11\", \"services\": "
			"3, \"backends\": 4, \"ready\": 0, \"maintenance\": 0, \"removed\": "
			"null, \"active_flows\": null, \"open_flows\": null, \"open\": null, "
			"\"in_use\": [], \"drain\": " STATE("draining", "60000") "}}"},
		{"bind.ready",
			"{\"ok\": true, \"result\": {\"service\": null, \"address\": "
			"\"198.51.100.10\", \"services\": 1, \"binds\": 1, \"drained_binds\": 0, "
			"\"active_flows\": null, \"open_flows\": null, \"drain\": null}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "host", "drain", "10.0.0.11");

	assert_string_equal(outcome.out,
		"10.0.0.11: drain, 4 backends in 3 services, - active flows, deadline in 1m00s "
		"(keep)\n");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "vip", "ready", "198.51.100.10");
	assert_string_equal(outcome.out, "198.51.100.10: ready, 1 bind, - active flows\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(host_drain_waits_for_all_its_backends) {
	static const struct {
		const char *shown;
		int status;
		const char *out, *err;
		double least_s;
	} cases[] = {
		{HOST("5", STATE("draining", "59400"), "[]", "[\"web/web-1\"]") "\n" HOST(
			 "0", STATE("drained", "null"), "[]", "[]"),
			0, "10.0.0.11: drained after T\n", "", 0.5},
		{HOST("2", END("kept", "2", "0"), "[]", "[\"web/web-1\", \"dns/d-1\"]"), 4,
			": deadline after T, 2 open flows kept (web/web-1, dns/d-1)\n", "", 0},
		{HOST_ENDED(
			 "0", "2", END("kept", "2", "1"), "[]", "[\"dns/d-1\"]", "[\"web/web-1\"]"),
			4,
			" deadline after T, 2 open flows kept (dns/d-1), 1 open flow dropped "
			"(maintenance: web/web-1)\n",
			"", 0},
		{HOST("0", END("dropped", "0", "2"), "[]", "[]"), 0,
			" deadline after T, 2 open flows dropped (maintenance)\n", "", 0},
		{HOST("2", "null", "[]", "[]"), 1, "active flows",
			"weirctl: 10.0.0.11: drain cancelled, state set to ready\n", 0},
		// A backend was set to ready, or a reload added a backend.
		{HOST_WITH("1", "0", STATE("drained", "null"), "[]", "[]"), 1, "active flows",
			"weirctl: 10.0.0.11: only partly drained: 1 of 4 backends still accepts "
			"new flows\n",
			0},
		{"{\"ok\": false, \"code\": \"not-found\", \"error\": \"no backend\"}", 1,
			"active flows", "weirctl: refused: no backend\n", 0},
		{JSON({"ok": 1}), 3, "active flows", "see \"weirctl host show 10.0.0.11\"\n", 0},
		};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = start_host(
			HOST("7", STATE("draining", "60000"), "[]", "[]"), cases[i].shown);
		struct outcome outcome =
			RUN(server_folder(server), "host", "drain", "10.0.0.11", "--wait");

		assert_int_equal(outcome.status, cases[i].status);
		assert_true(take_duration(outcome.out) >= cases[i].least_s);
		expect_contains(outcome.out, cases[i].out);
		expect_contains(outcome.err, cases[i].err);
		free_outcome(&outcome);
		server_stop(server);
	}
}

#define REMOVED(backends, open, drain) \
	"{\"ok\": true, \"result\": {\"address\": \"10.0.0.11\", \"services\": " backends ", " \
	"\"backends\": " backends ", \"ready\": 0, \"maintenance\": 0, \"removed\": 1, " \
	"\"active_flows\": 3, \"open_flows\": " open ", \"drain\": " drain ", \"in_use\": [], " \
	"\"open\": [\"old/web-1\"], \"dropped_from\": []}}"
#define GONE "{\"ok\": false, \"code\": \"not-found\", \"error\": \"no backend\"}"

// A reload has removed a backend with connections, before or during the drain.
TEST(host_drain_waits_for_removed_backends) {
	static const struct {
		const char *begun, *shown;
		int status;
		const char *out[3];
	} cases[] = {
		{REMOVED("1", "3", STATE("draining", "60000")),
			REMOVED("1", "2", STATE("draining", "59400")) "\n" REMOVED(
				"1", "0", STATE("drained", "null")),
			0,
			{"10.0.0.11: drain, 1 backend in 1 service, 3 active flows, deadline in "
			 "1m00s (keep); includes the flows of 1 removed backend\n",
				"10.0.0.11: draining, 2 of 3 open flows, 59.4s left; includes the "
				"flows of 1 removed backend\n",
				"10.0.0.11: drained after T\n"}},
		{REMOVED("1", "3", STATE("draining", "60000")),
			REMOVED("1", "1", END("kept", "1", "0")), 4,
			{": deadline after T, 1 open flow kept (old/web-1)\n"}},
		// weir-control deletes a removed backend after its last flow, and then answers
		// "not-found".
		{REMOVED("1", "3", STATE("draining", "60000")),
			REMOVED("0", "1", STATE("draining", "400")) "\n" GONE, 0,
			{": drained after T\n"}},
		{REMOVED("0", "3", STATE("draining", "60000")), GONE, 0, {": drained after T\n"}},
		// Not all flows were counted: some may be open.
		{REMOVED("0", "0", WAITS("recount", "47300")), GONE, 1, {NULL}},
		// The removed backend still had flows at the end. An operator has to check it.
		{REMOVED("1", "3", STATE("draining", "60000")), GONE, 1, {NULL}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = start_host(cases[i].begun, cases[i].shown);
		struct outcome outcome =
			RUN(server_folder(server), "host", "drain", "10.0.0.11", "--wait");

		assert_int_equal(outcome.status, cases[i].status);
		take_duration(outcome.out);
		for (int k = 0; k < 3 && cases[i].out[k] != NULL; k++) {
			expect_contains(outcome.out, cases[i].out[k]);
		}
		free_outcome(&outcome);
		server_stop(server);
	}
}

// If a host is in maintenance, there is no drain to wait for, so a script may continue.
TEST(host_drain_of_a_host_in_maintenance_is_over) {
	static const char row[] =
		"{\"ok\": true, \"result\": {\"address\": \"10.0.0.11\", \"services\": 1, "
		"\"backends\": 1, \"ready\": 0, \"maintenance\": 1, \"active_flows\": 85, "
		"\"open_flows\": 85, \"drain\": null, \"in_use\": [], \"open\": [], "
		"\"dropped_from\": []}}";
	struct server *server = start_host(row, row);
	struct outcome outcome = RUN(server_folder(server), "host", "drain", "10.0.0.11", "--wait");

	assert_int_equal(outcome.status, 0);
	assert_string_equal(
		outcome.out, "10.0.0.11: maintenance, 1 backend in 1 service, 85 active flows\n");
	assert_string_equal(outcome.err, "");
	free_outcome(&outcome);
	server_stop(server);
}

// --- VIPs ---

#define VIP(drained, open, drain) \
	"{\"ok\": true, \"result\": {\"service\": null, \"address\": \"198.51.100.10\", " \
	"\"services\": 2, \"binds\": 3, \"drained_binds\": " drained ", \"other_binds\": 1, " \
	"\"active_flows\": 9, \"open_flows\": " open ", \"drain\": " drain "}}"

TEST(vip_drain_says_which_deadline_it_changes) {
	static const struct server_answer answers[] = {
		{"bind.drain",
			"{\"ok\": true, \"result\": {\"service\": null, \"address\": "
			"\"198.51.100.10\", \"services\": 1, \"binds\": 1, \"drained_binds\": 1, "
			"\"other_binds\": 0, \"other_drained_binds\": 2, "
			"\"other_removed_binds\": 1, \"active_flows\": 9, "
			"\"open_flows\": 9, \"drain\": " STATE("draining", "60000") "}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "vip", "drain", "198.51.100.10");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out,
		"; this deadline also applies to 2 drained binds with another address: a "
		"service has one deadline; includes the flows of 2 other and "
		"1 removed bind\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(vip_drain_says_that_a_reload_took_binds_away) {
	static const struct server_answer answers[] = {
		{"bind.drain",
			"{\"ok\": true, \"result\": {\"service\": null, \"address\": "
			"\"198.51.100.11\", \"services\": 1, \"binds\": 1, \"drained_binds\": 1, "
			"\"other_binds\": 0, \"lost_binds\": true, \"active_flows\": 9, "
			"\"open_flows\": 9, \"drain\": " STATE("draining", "60000") "}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "vip", "drain", "198.51.100.11");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out,
		"; may include flows of binds that a reload took away from the service\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(vip_drain_waits_for_all_its_binds) {
	static const struct {
		const char *shown;
		int status;
		const char *out, *err;
	} cases[] = {
		{VIP("3", "0", STATE("drained", "null")), 0, "198.51.100.10: drained after T\n",
			""},
		{VIP("3", "2", END("kept", "2", "0")), 4, "; includes the flows of 1 other bind\n",
			""},
		{VIP("3", "2", END("kept", "2", "0")), 4,
			", 2 open flows kept, counted together with flows of other binds\n", ""},
		{VIP("3", "0", END("dropped", "0", "4")), 0,
			"198.51.100.10: deadline after T, 4 open flows dropped, counted together "
			"with flows of other binds\n",
			""},
		{VIP("0", "2", "null"), 1, "active flows",
			"weirctl: 198.51.100.10: drain cancelled, state set to ready\n"},
		{VIP("1", "0", STATE("drained", "null")), 1, "active flows",
			"weirctl: 198.51.100.10: only partly drained: 2 of 3 binds still accept "
			"new flows\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct server_answer answers[3];
		static char text[2048];
		struct server *server;
		struct outcome outcome;

		snprintf(text, sizeof(text), "{}\n%s", cases[i].shown);
		answers[0] = (struct server_answer){
			"bind.drain", VIP("3", "7", STATE("draining", "60000"))};
		answers[1] = (struct server_answer){"bind.show", text};
		server = server_start(SERVER_ANSWER, answers);
		outcome = RUN(server_folder(server), "vip", "drain", "198.51.100.10", "--wait");
		assert_int_equal(outcome.status, cases[i].status);
		take_duration(outcome.out);
		expect_contains(outcome.out, cases[i].out);
		assert_string_equal(outcome.err, cases[i].err);
		free_outcome(&outcome);
		server_stop(server);
	}
}
