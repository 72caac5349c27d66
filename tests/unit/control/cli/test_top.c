// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>
#include <sys/ioctl.h>

#include <jansson.h>

#include "cli_lab.h"
#include "terminal_lab.h"

#define WORKER "{\"worker\": 0, \"core\": 1, \"alive\": true, \"busy_percent\": 12.5, \"flows\": 9}"
#define SERVICES(n) \
	"\"services\": [{\"name\": \"web\", \"id\": 0, \"backends\": 3, \"eligible\": 2, " \
	"\"panic\": false, \"new_flows\": " #n ", \"packets\": 0}]"
#define BACKEND(name, id, health, flows, packets, weight) \
	"{\"service\": \"web\", \"name\": \"" name "\", \"id\": " #id \
	", \"admin\": \"ready\", \"health\": \"" health "\", \"new_flows\": " #flows \
	", \"packets\": " #packets ", \"effective_weight\": " #weight "}"
#define STATS(time, drops, backends) \
	"{\"ok\": true, \"result\": {\"time_ms\": " #time \
	", \"workers\": {}, \"drops\": {\"tcp_flags\": " #drops \
	", \"fragment\": 0}, " SERVICES(time) ", \"backends\": [" backends "]}}"
#define FIRST \
	STATS(1000, 5, \
		BACKEND("b-few", 0, "healthy", 10, 100, 1) "," BACKEND("b-many", 1, "healthy", 10, \
			100, 2) "," BACKEND("b-none", 2, "refusing", 7, 100, 3))
#define SECOND \
	STATS(3000, 25, \
		BACKEND("b-few", 0, "healthy", 14, 900, 1) "," BACKEND("b-many", 1, "healthy", 90, \
			100, 2) "," BACKEND("b-none", 2, "refusing", 7, 100, 3))
// A sample without services and backends. time: time of the sample; drops: number of drops;
// started: start time of the dataplane.
#define SAMPLE(time, drops, started) \
	"{\"ok\": true, \"result\": {\"time_ms\": " #time ", \"dataplane_started_ms\": " started \
	", \"workers\": {}, \"drops\": {\"tcp_flags\": " #drops \
	"}, \"services\": [], \"backends\": []}}"

#define EVENT \
	"{\"time_ms\": 1795382264092, \"service\": \"web\", \"backend\": \"b-none\", \"from\": " \
	"\"healthy\", \"to\": \"refusing\", \"source\": \"check\", \"why\": \"timeout\"}"

#define EVENT_OF_SERVICE \
	"{\"time_ms\": 1795382264093, \"service\": \"web\", \"backend\": null, \"from\": " \
	"null, \"to\": null, \"source\": \"down\", \"why\": \"0 of 3 backends eligible\"}"

#define EVENT_OF_SHED \
	"{\"time_ms\": 1795382264094, \"service\": \"web\", \"backend\": \"b-few\", \"from\": " \
	"\"healthy\", \"to\": \"healthy\", \"source\": \"shed\", \"why\": \"done, 13 connections " \
	"ended\"}"

#define STATUS_OK {"status", "{\"ok\": true, \"result\": {\"level\": \"ok\", \"reasons\": []}}"}

static const struct server_answer answers[] = {{"stats.show", FIRST "\n" SECOND},
	{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
	{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"}, STATUS_OK, {0}};

// --- without a terminal -------------------------------------------------------------------------

static const char *line_of(const char *text, const char *word) {
	const char *found = strstr(text, word);

	if (found == NULL) {
		fail_msg("\"%s\" is not in:\n%s", word, text);
	}
	return found;
}

TEST(once_prints_everything) {
	static const struct server_answer two_events[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT ", " EVENT_OF_SERVICE
				   ", " EVENT_OF_SHED "]}"},
		STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, two_events);
	struct outcome outcome =
		RUN(server_folder(server), "top", "--once", "--interval=0.1", "--sort=new-flows");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "     0     1  yes      12.5      9");
	expect_contains(outcome.out, "tcp_flags           10\n");
	assert_null(strstr(outcome.out, "fragment"));
	expect_contains(outcome.out, "web             3         2  no");
	expect_contains(outcome.out, "web      b-none   healthy  refusing  timeout");
	expect_contains(outcome.out, "web      -        -        down      0 of 3");
	expect_contains(outcome.out, "  healthy   shed: done, 13 connections ended\n");
	// Rows are sorted by new flows: 40, 2 and 0 per second.
	assert_true(line_of(outcome.out, "b-many") < line_of(outcome.out, "b-few"));
	assert_true(line_of(outcome.out, "b-few") < line_of(outcome.out, "b-none"));
	assert_null(strchr(outcome.out, '\033'));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(removed_backends_are_marked) {
	static const char removed[] = STATS(1000, 5,
		"{\"service\": \"old\", \"name\": \"o-1\", \"id\": 3, \"admin\": \"ready\", "
		"\"health\": \"healthy\", \"leaving\": true, \"new_flows\": 1, \"packets\": 1, "
		"\"effective_weight\": 100}");
	static const struct server_answer removing[] = {{"stats.show", removed},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": []}"}, STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, removing);
	struct outcome outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "old      o-1      leaving     100");
	assert_null(strstr(outcome.out, "healthy"));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(backends_are_sorted_as_requested) {
	static const struct {
		const char *sort;
		const char *order[3];
	} cases[] = {{"packets", {"b-few", "b-many", "b-none"}},
		{"weight", {"b-none", "b-many", "b-few"}},
		{"service", {"b-few", "b-many", "b-none"}},
		{"name", {"b-few", "b-many", "b-none"}}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = server_start(SERVER_ANSWER, answers);
		struct outcome outcome = RUN(server_folder(server), "top", "--once",
			"--interval=0.1", "--sort", (char *)cases[i].sort);

		assert_int_equal(outcome.status, 0);
		assert_true(line_of(outcome.out, cases[i].order[0]) <
			    line_of(outcome.out, cases[i].order[1]));
		assert_true(line_of(outcome.out, cases[i].order[1]) <
			    line_of(outcome.out, cases[i].order[2]));
		free_outcome(&outcome);
		server_stop(server);
	}
}

TEST(json_is_one_object) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome =
		RUN(server_folder(server), "top", "--json", "--interval=0.1", "--sort=new-flows");
	json_t *view = json_loads(outcome.out, 0, NULL);

	assert_int_equal(json_integer_value(json_object_get(view, "interval_ms")), 2000);
	assert_int_equal(json_array_size(json_object_get(view, "worker_rows")), 1);
	assert_int_equal(json_array_size(json_object_get(view, "events")), 1);
	assert_int_equal(
		json_integer_value(json_object_get(
			json_array_get(json_object_get(view, "backends"), 0), "new_flows")),
		40);
	json_decref(view);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(without_a_terminal_it_names_the_remedy) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "top");

	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "use --once or --json");
	assert_string_equal(outcome.out, "");
	free_outcome(&outcome);
	server_stop(server);
}

// --- on a terminal ------------------------------------------------------------------------------

static void check_size(const char *screen, unsigned int rows, unsigned int columns) {
	unsigned int lines = 0;

	for (const char *line = screen; *line != '\0'; lines++) {
		size_t length = strcspn(line, "\n");

		assert_true(length <= columns);
		line += length + (line[length] == '\n');
	}
	assert_true(lines < rows);
}

static struct terminal terminal;

// Run weirctl top on a terminal of this size until it has drawn a screen, and stop it. Returns the
// screen.
static const char *first_screen(
	struct server *server, unsigned short rows, unsigned short columns) {
	open_terminal(&terminal, server_folder(server), rows, columns);
	expect_drawn(&terminal, 0, "\033[J");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	return last_screen(&terminal);
}

TEST(screens_of_any_size_are_not_exceeded) {
	static const unsigned short sizes[][2] = {
		{24, 80}, {50, 200}, {10, 40}, {6, 20}, {3, 10}, {1, 1}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct server *server = server_start(SERVER_ANSWER, answers);

		check_size(
			first_screen(server, sizes[i][0], sizes[i][1]), sizes[i][0], sizes[i][1]);
		server_stop(server);
	}
}

TEST(backends_keep_three_lines_of_a_small_terminal) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	const char *screen;

	screen = first_screen(server, 6, 80);
	expect_contains(screen, "b-many");
	expect_contains(screen, "b-none");
	server_stop(server);
}

TEST(a_truncated_section_is_marked) {
	static const struct server_answer many[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show",
			"{\"ok\": true, \"result\": [" WORKER "," WORKER "," WORKER "," WORKER
			"," WORKER "," WORKER "," WORKER "," WORKER "," WORKER "," WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"}, STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, many);
	const char *screen;

	screen = first_screen(server, 50, 80);
	expect_contains(screen, "\n... 3 more\nDROP-REASON");
	server_stop(server);
}

// Values that do not fit are omitted completely, because a part of "no backends" or of a number
// would be misleading.
TEST(values_without_room_are_omitted) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	const char *screen;

	screen = first_screen(server, 3, 9);
	expect_contains(screen, "top >\n");
	expect_contains(screen, "too >\n");
	assert_null(strstr(screen, "no back"));
	server_stop(server);
}

// Faults are in colour, except with NO_COLOR or on a dumb terminal.
TEST(colours_are_for_terminals_that_have_them) {
	static const struct {
		const char *term, *no_color;
		bool colours;
	} cases[] = {{"xterm", NULL, true}, {"xterm", "", true}, {"xterm", "1", false},
		{"dumb", NULL, false}, {NULL, NULL, false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = server_start(SERVER_ANSWER, answers);

		cases[i].term != NULL ? setenv("TERM", cases[i].term, 1) : unsetenv("TERM");
		cases[i].no_color != NULL ? setenv("NO_COLOR", cases[i].no_color, 1)
					  : unsetenv("NO_COLOR");
		open_terminal(&terminal, server_folder(server), 24, 80);
		expect_drawn(&terminal, 0, "\033[J");
		type(&terminal, "q");
		expect_restored(&terminal, 0);
		assert_int_equal(strstr(terminal.text, "\033[1;31m         b-none") != NULL,
			cases[i].colours);
		assert_int_equal(strstr(terminal.text, "\033[33mweb ") != NULL, cases[i].colours);
		assert_int_equal(strstr(terminal.text, "\033[1mSERVICE") != NULL, cases[i].colours);
		server_stop(server);
	}
	setenv("TERM", "xterm", 1);
}

TEST(a_fault_is_below_the_title) {
	static const struct server_answer stalled[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"},
		{"status", "{\"ok\": true, \"result\": {\"level\": \"critical\", \"reasons\": "
			   "[{\"text\": \"stalled for 4.1s\"}, {\"text\": \"b\"}]}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, stalled);
	const char *screen = first_screen(server, 24, 80);

	expect_contains(screen, "keys: ?  quit: q\nCRITICAL: stalled for 4.1s; b\nWORKER");
	server_stop(server);
}

TEST(the_keys_are_shown) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	size_t from;

	open_terminal(&terminal, server_folder(server), 24, 80);
	expect_drawn(&terminal, 0, "\033[J");
	expect_contains(terminal.text, "keys: ?");
	from = type(&terminal, "?");
	expect_drawn(&terminal, from, "  p  most packets per second first");
	expect_drawn(&terminal, from, "  q  quit");
	from = type(&terminal, "?");
	expect_drawn(&terminal, from, "by service");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

TEST(once_begins_with_the_reasons_of_the_status) {
	static const struct server_answer stalled[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": []}"},
		{"status", "{\"ok\": true, \"result\": {\"level\": \"critical\", \"reasons\": "
			   "[{\"level\": \"critical\", \"text\": \"workers are stalled\"}]}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, stalled);
	struct outcome outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1");

	assert_int_equal(strncmp(outcome.out, "CRITICAL: ", strlen("CRITICAL: ")), 0);
	expect_contains(outcome.out, "stalled\n\n");
	free_outcome(&outcome);
	server_stop(server);
}

TEST(the_newest_event_is_the_first) {
	static const struct server_answer two[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT
				   ", {\"time_ms\": 1795382265000, \"backend\": \"newest\"}]}"},
		STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, two);
	struct outcome outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1");

	assert_true(line_of(outcome.out, "newest") < line_of(outcome.out, "timeout"));
	free_outcome(&outcome);
	server_stop(server);
}

// With more than a thousand services, each change can follow an entry that the history of its
// service begins there.
TEST(begins_of_histories_displace_no_event) {
#define BEGIN "{\"time_ms\": 1, \"service\": \"web\", \"source\": \"history\", \"why\": \"begin\"}"
	static const struct server_answer begins[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT ", " BEGIN ", " BEGIN
				   ", " BEGIN ", " BEGIN ", " BEGIN "]}"},
		STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, begins);
	struct outcome outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1");

	expect_contains(outcome.out, "timeout");
	assert_null(strstr(outcome.out, "begin"));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(a_new_size_is_drawn_at_once) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct winsize size = {.ws_row = 30, .ws_col = 120};
	size_t from;

	open_terminal(&terminal, server_folder(server), 6, 80);
	expect_drawn(&terminal, 0, "\033[J");
	assert_null(strstr(terminal.text, "EVENT"));
	from = terminal.bytes;
	assert_int_equal(ioctl(terminal.fd, TIOCSWINSZ, &size), 0);
	expect_drawn(&terminal, from, "EVENT");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

TEST(an_interrupt_restores_the_terminal) {
	struct server *server = server_start(SERVER_ANSWER, answers);

	open_terminal(&terminal, server_folder(server), 24, 80);
	expect_drawn(&terminal, 0, "\033[J");
	type(&terminal, "\003");
	expect_restored(&terminal, 0);
	server_stop(server);
}

// --- outages ------------------------------------------------------------------------------------

// Sets a symbolic link to the folder of a daemon. The tests stop the daemon, and start it again in
// another folder.
static void link_to(const char *link, const struct server *server) {
	unlink(link);
	assert_int_equal(symlink(server_folder(server), link), 0);
}

TEST(it_stays_while_the_daemon_is_down) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	char link[64];
	size_t from;

	use_own_network();
	snprintf(link, sizeof(link), "/tmp/weir-top-%d", (int)getpid());
	link_to(link, server);
	open_terminal(&terminal, link, 24, 200);
	expect_drawn(&terminal, 0, "b-many");
	from = terminal.bytes;
	server_stop(server);
	expect_drawn(&terminal, from, "CRITICAL: weir-control has been down since ");
	expect_drawn(&terminal, from, "; weir-dataplane is not running: no packet is forwarded; ");
	expect_drawn(&terminal, from, "; values shown are from ");
	expect_drawn(&terminal, from, "\033[90m         b-many"); // drawn in grey
	from = terminal.bytes;
	server = server_start(SERVER_ANSWER, answers);
	link_to(link, server);
	expect_drawn(&terminal, from, "\033[1;31m         b-none"); // drawn as before the outage
	from = terminal.bytes;
	expect_drawn(&terminal, from, "\033[J");
	assert_null(strstr(terminal.text + from, "CRITICAL"));
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
	unlink(link);
}

TEST(it_stays_while_the_daemon_hangs) {
	static const struct server_answer none[] = {{0}};
	struct server *server = server_start(SERVER_HANG, none);
	size_t from;

	open_terminal(&terminal, server_folder(server), 24, 200);
	expect_drawn(&terminal, 0, "CRITICAL: weir-control has not answered since ");
	from = type(&terminal, "?");
	expect_drawn(&terminal, from, "Keys of weirctl top");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

#define NO_DATAPLANE \
	"{\"ok\": false, \"code\": \"no-dataplane\", \"error\": \"weir-dataplane is not " \
	"attached\"}"

// weirctl top also waits for a dataplane if there is none when it starts.
TEST(it_waits_for_a_dataplane) {
	static const struct server_answer list[] = {
		{"stats.show", NO_DATAPLANE "\n" NO_DATAPLANE "\n" FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"},
		{"status", "{\"ok\": true, \"result\": {\"level\": \"critical\", \"reasons\": [], "
			   "\"dataplane\": {\"attached\": false}}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, list);

	use_own_network();
	open_terminal(&terminal, server_folder(server), 24, 200);
	expect_drawn(&terminal, 0, "CRITICAL: no new values since ");
	expect_drawn(&terminal, 0,
		": weir-dataplane is not running: no packet is forwarded; trying again");
	expect_drawn(&terminal, 0, "b-many");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

// The values of the first view are from a sample after the last error. Each request gets the next
// line, also "status" at the begin of the outage and before each new connection.
TEST(no_rate_covers_an_outage) {
	static const char samples[] =
		NO_DATAPLANE "\n\n\n" SAMPLE(1000, 0, "1000") "\n" NO_DATAPLANE "\n\n" SAMPLE(
			101000, 1000, "1000") "\n" SAMPLE(102000, 1004, "1000");
	const struct server_answer list[] = {
		{"stats.show", samples}, answers[1], answers[2], STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, list);

	open_terminal(&terminal, server_folder(server), 24, 80);
	expect_drawn(&terminal, 0, "tcp_flags            4");
	assert_ptr_equal(strstr(terminal.text, "tcp_flags"),
		strstr(terminal.text, "tcp_flags            4"));
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

// --- width --------------------------------------------------------------------------------------

static bool has_word(const char *screen, const char *word) {
	size_t bytes = strlen(word);

	for (const char *p = screen; (p = strstr(p, word)) != NULL; p += bytes) {
		if ((p == screen || p[-1] == ' ' || p[-1] == '\n') &&
			(p[bytes] == ' ' || p[bytes] == '\n')) {
			return true;
		}
	}
	return false;
}

// On a narrow terminal the most important columns remain, and no column is truncated.
TEST(columns_fit_the_width) {
	static const struct {
		unsigned short columns;
		const char *shown, *hidden; // columns of the backends
	} cases[] = {{80, "SHARE-%", "xyz"}, {76, "WEIGHT", "SHARE-%"}, {60, "ERRORS/S", "WEIGHT"},
		{50, "NEW/S", "PACKETS/S"}, {30, "HEALTH", "ERRORS/S"}, {17, "BACKEND", "NEW/S"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server *server = server_start(SERVER_ANSWER, answers);
		const char *screen = first_screen(server, 24, cases[i].columns);
		const char *backends = line_of(screen, "BACKEND ");

		if (!has_word(backends, cases[i].shown) ||
			(strstr(backends, cases[i].hidden) != NULL &&
				strstr(backends, cases[i].hidden) < strchr(backends, '\n'))) {
			fail_msg("%d columns:\n%s", cases[i].columns, screen);
		}
		assert_true(has_word(backends, "b-many") && has_word(backends, "refusing"));
		server_stop(server);
	}
}

TEST(too_narrow_a_terminal_says_so) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	const char *screen = first_screen(server, 24, 16);

	expect_contains(screen, "too narrow: top\nneeds 17 columns\nfor these\nbackends\n");
	assert_null(strstr(screen, "b-many"));
	server_stop(server);
}

// A drained service is not a fault, but is shown, because it explains why there are no new flows.
TEST(a_drained_service_is_mentioned) {
	static const struct server_answer drained[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"},
		{"status",
			"{\"ok\": true, \"result\": {\"level\": \"ok\", \"reasons\": [{\"level\": "
			"\"ok\", \"text\": \"1 of 3 services drained: old\"}]}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, drained);

	expect_contains(first_screen(server, 24, 80), "\nOK: 1 of 3 services drained: old\nWORKER");
	server_stop(server);
}

TEST(a_long_banner_is_broken_between_words) {
	static const struct server_answer faults[] = {{"stats.show", FIRST "\n" SECOND},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"},
		{"status", "{\"ok\": true, \"result\": {\"level\": \"warning\", \"reasons\": "
			   "[{\"level\": \"ok\", \"text\": \"1 of 3 services drained: old\"}, "
			   "{\"level\": \"warning\", \"text\": \"panic mode in 1 of 3 services: "
			   "web\"}]}}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, faults);

	expect_contains(first_screen(server, 24, 40),
		"WARNING: panic mode in 1 of 3 services:\nweb; 1 of 3 services drained: old\n");
	server_stop(server);
}

// --- two backends with the same name and different addresses -----------------------------------

#define MOVED(id, address) \
	"{\"service\": \"web\", \"name\": \"b\", \"id\": " id ", \"health\": \"healthy\", " \
	"\"address\": \"" address "\"}"
#define BOTH MOVED("0", "10.0.0.1") ", " MOVED("1", "10.0.0.2")

TEST(two_of_one_name_are_shown_with_their_addresses) {
	static const struct server_answer moved[] = {
		{"stats.show", STATS(1000, 5, BOTH) "\n" STATS(3000, 5, BOTH)},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": [" EVENT "]}"}, STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, moved);
	struct outcome outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "\nweb      b (10.0.0.1) ");
	expect_contains(outcome.out, "\nweb      b (10.0.0.2) ");
	free_outcome(&outcome);
	outcome = RUN(server_folder(server), "top", "--once", "--interval=0.1", "--json");
	assert_null(strstr(outcome.out, "b (10.0.0.1)"));
	free_outcome(&outcome);
	expect_contains(first_screen(server, 24, 80), "b (10.0.0.2)");
	server_stop(server);
}

// --- drops --------------------------------------------------------------------------------------

TEST(no_drops_says_for_how_long) {
	static const struct {
		const char *samples, *text;
	} cases[] = {{SAMPLE(9000000, 0, "1000") "\n" SAMPLE(9001000, 0, "1000"),
			     "no drops since weir-dataplane started, 2h30m ago\n"},
		{SAMPLE(9000000, 0, "null") "\n" SAMPLE(9001000, 0, "null"),
			"no drops since weir-dataplane started\n"},
		{SAMPLE(9000000, 5, "1000") "\n" SAMPLE(9002000, 5, "1000"),
			"no drops since top started, 2.0s ago (5 before)\n"}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct server_answer list[] = {
			{"stats.show", cases[i].samples}, answers[1], answers[2], answers[3], {0}};
		struct server *server = server_start(SERVER_ANSWER, list);
		struct outcome outcome =
			RUN(server_folder(server), "top", "--once", "--interval=0.1");

		expect_contains(outcome.out, cases[i].text);
		free_outcome(&outcome);
		server_stop(server);
	}
}

TEST(no_drops_after_drops_counts_from_the_last) {
	static const struct server_answer list[] = {
		{"stats.show",
			SAMPLE(9000000, 5, "1000") "\n" SAMPLE(9001000, 7, "1000") "\n" SAMPLE(
				9002000, 7, "1000") "\n" SAMPLE(9005000, 7, "1000")},
		{"worker.show", "{\"ok\": true, \"result\": [" WORKER "]}"},
		{"health.history", "{\"ok\": true, \"result\": []}"}, STATUS_OK, {0}};
	struct server *server = server_start(SERVER_ANSWER, list);

	open_terminal(&terminal, server_folder(server), 24, 80);
	expect_drawn(&terminal, 0, "tcp_flags            2");
	expect_drawn(&terminal, 0, "no drops for 4.0s\033[K");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
}

// --- many backends ------------------------------------------------------------------------------

static char *many(int time_ms) {
	size_t bytes;
	char *text = NULL;
	FILE *out = open_memstream(&text, &bytes);

	fprintf(out,
		"{\"ok\": true, \"result\": {\"time_ms\": %d, \"workers\": {}, \"drops\": {}, "
		"\"services\": [], \"backends\": [",
		time_ms);
	for (int i = 0; i < 1000; i++) {
		fprintf(out,
			"%s{\"service\": \"web\", \"name\": \"b-%03d\", \"id\": %d, \"new_flows\": "
			"%d}",
			i > 0 ? "," : "", i, i, time_ms * (1000 - i));
	}
	fprintf(out, "]}}");
	fclose(out);
	return text;
}

TEST(a_thousand_backends_are_scrolled) {
	char *first = many(1000), *second = many(2000);
	char *both = malloc(strlen(first) + strlen(second) + 2);
	struct server_answer list[] = {
		{"stats.show", both}, answers[1], answers[2], answers[3], {0}};
	struct server *server;
	size_t from;

	sprintf(both, "%s\n%s", first, second);
	server = server_start(SERVER_ANSWER, list);
	open_terminal(&terminal, server_folder(server), 12, 80);
	expect_drawn(&terminal, 0, "\033[J");
	expect_contains(terminal.text, "b-000");
	assert_null(strstr(terminal.text, "b-010"));
	from = type(&terminal, " ");
	expect_drawn(&terminal, from, "b-010");
	expect_drawn(&terminal, from, "... 10 more above (k), 988 more below (j)");
	expect_contains(terminal.text, "... 998 more below (j)");
	from = type(&terminal, "j");
	expect_drawn(&terminal, from, "... 11 more above (k), 9");
	from = type(&terminal, "g");
	expect_drawn(&terminal, from, "b-000");
	type(&terminal, "q");
	expect_restored(&terminal, 0);
	server_stop(server);
	free(both);
	free(second);
	free(first);
}
