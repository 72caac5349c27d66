// SPDX-License-Identifier: BSD-3-Clause
#include <time.h>
#include <unistd.h>

#include "show_lab.h"
#include "stats.h"

#define STATS(time, packets, flows, drops, services) \
	"{\"time_ms\": " #time ", \"workers\": {\"rx_packets\": " #packets ", \"flows\": " #flows \
	"}, \"drops\": {\"tcp_flags\": " #drops "}, \"services\": [" services \
	"], \"backends\": [], \"segment\": {\"heap_bytes\": 4096}}"
#define SERVICE(name, packets, active) \
	"{\"name\": \"" name "\", \"packets\": " #packets ", \"active_flows\": " #active \
	", \"binds\": []}"

static json_int_t number(const json_t *rates, const char *part, const char *key) {
	const json_t *value = json_object_get(json_object_get(rates, part), key);

	assert_true(json_is_integer(value));
	return json_integer_value(value);
}

TEST(rates_are_per_second) {
	json_t *before = json_loads(
		STATS(1000, 500, 9, 7, SERVICE("web", 100, 3) "," SERVICE("dns", 5, 1)), 0, NULL);
	json_t *after = json_loads(
		STATS(3000, 2500, 4, 8, SERVICE("new", 77, 0) "," SERVICE("web", 700, 2)), 0, NULL);
	json_t *rates = weir_stats_rates(before, after);
	const json_t *services = json_object_get(rates, "services");

	assert_int_equal(json_integer_value(json_object_get(rates, "interval_ms")), 2000);
	assert_int_equal(number(rates, "workers", "rx_packets"), 1000);
	assert_int_equal(number(rates, "workers", "flows"), 4);
	assert_int_equal(number(rates, "drops", "tcp_flags"), 1); // rate 0.5, rounded
	assert_int_equal(json_array_size(services), 2);
	// A new row has no rate yet.
	assert_true(json_is_null(json_object_get(json_array_get(services, 0), "packets")));
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(services, 1), "packets")), 300);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(services, 1), "active_flows")),
		2);
	json_decref(rates);
	json_decref(before);
	json_decref(after);
}

// Events with a rate below 0.5 per second must be shown.
TEST(rates_below_a_half_are_not_0) {
	json_t *before = json_loads(STATS(1000, 500, 9, 7, ""), 0, NULL);
	json_t *after = json_loads(STATS(3500, 500, 9, 8, ""), 0, NULL);
	json_t *rates = weir_stats_rates(before, after);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_int_equal(number(rates, "workers", "rx_packets"), 0);
	weir_stats_print_rates(out, rates);
	fclose(out);
	expect_contains(text, "\ntcp_flags          0.4\n");
	assert_null(strstr(text, "no drops"));
	free(text);
	json_decref(rates);
	json_decref(before);
	json_decref(after);
}

static json_t *backends_look(json_int_t time_ms, int first, int count) {
	json_t *rows = json_array();
	char name[32];

	for (int i = first; i < first + count; i++) {
		snprintf(name, sizeof(name), "b-%d", i);
		json_array_append_new(rows, json_pack("{s:s, s:s, s:i, s:I}", "service", "web",
						    "name", name, "id", i, "packets", time_ms + i));
	}
	return json_pack("{s:I, s:{}, s:{}, s:[], s:o}", "time_ms", time_ms, "workers", "drops",
		"services", "backends", rows);
}

// Returns the CPU time for computing the rates between two samples. Between the samples, the first
// of n backends was removed, and another backend was added.
static double rates_after_a_change_s(int n) {
	json_t *before = backends_look(1000, 0, n), *after = backends_look(3000, 1, n), *rates;
	const json_t *rows, *last;
	clock_t began = clock();
	double took;

	rates = weir_stats_rates(before, after);
	took = (double)(clock() - began) / CLOCKS_PER_SEC;
	rows = json_object_get(rates, "backends");
	last = json_object_get(json_array_get(rows, (size_t)n - 1), "packets");
	assert_int_equal(json_array_size(rows), n);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(rows, 0), "packets")), 1000);
	assert_true(json_is_null(last));
	json_decref(rates);
	json_decref(after);
	json_decref(before);
	return took;
}

TEST(rates_take_linear_time) {
	double few = rates_after_a_change_s(2000);
	double many = rates_after_a_change_s(16000);

	assert_true(many < 32 * few); // factor 8 if linear, 64 if quadratic
}

TEST(rates_of_duplicate_names_are_separate) {
#define TWICE(id, packets) \
	"{\"service\": \"web\", \"name\": \"b\", \"id\": " #id ", \"packets\": " #packets "}"
	json_t *before = json_loads("{\"time_ms\": 1000, \"workers\": {}, \"drops\": {}, "
				    "\"services\": [], \"backends\": [" TWICE(0, 1) "," TWICE(
					    3, 900) "," TWICE(7, 5) "]}",
		0, NULL);
	json_t *after =
		json_loads("{\"time_ms\": 2000, \"workers\": {}, \"drops\": {}, "
			   "\"services\": [], \"backends\": [" TWICE(3, 910) "," TWICE(7, 25) "]}",
			0, NULL);
	json_t *rates = weir_stats_rates(before, after);
	const json_t *rows = json_object_get(rates, "backends");

	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(rows, 0), "packets")), 10);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(rows, 1), "packets")), 20);
	json_decref(rates);
	json_decref(after);
	json_decref(before);
}

TEST(rates_do_not_depend_on_steps_of_the_wall_clock) {
	json_t *before = json_loads(STATS(1000, 500, 9, 7, ""), 0, NULL);
	json_t *after = json_loads(STATS(3601000, 600, 9, 7, ""), 0, NULL);
	json_t *rates;

	json_object_set_new(before, "monotonic_ms", json_integer(70000));
	json_object_set_new(after, "monotonic_ms", json_integer(71000));
	rates = weir_stats_rates(before, after);
	assert_int_equal(json_integer_value(json_object_get(rates, "interval_ms")), 1000);
	assert_int_equal(number(rates, "workers", "rx_packets"), 100);
	json_decref(rates);
	json_decref(after);
	json_decref(before);
}

TEST(decreased_counters_have_no_rate) {
	json_t *before = json_loads(STATS(1000, 500, 9, 7, ""), 0, NULL);
	json_t *after = json_loads(STATS(2000, 3, 1, 7, ""), 0, NULL);
	json_t *rates = weir_stats_rates(before, after);
	json_t *same = weir_stats_rates(after, after);

	assert_true(json_is_null(json_object_get(json_object_get(rates, "workers"), "rx_packets")));
	assert_int_equal(number(rates, "drops", "tcp_flags"), 0);
	assert_true(json_is_null(json_object_get(json_object_get(same, "workers"), "rx_packets")));
	json_decref(same);
	json_decref(rates);
	json_decref(before);
	json_decref(after);
}

static const struct server_answer growing[] = {
	{"stats.show", "{\"ok\": true, \"result\": " STATS(1000, 0, 1, 0,
			       SERVICE("web", 0,
				       1)) "}\n"
					   "{\"ok\": true, \"result\": " STATS(2000, 100, 2, 5,
						   SERVICE("web", 90,
							   1)) "}\n"
							       "{\"ok\": true, \"result\": " STATS(
								       3000, 300, 3, 5,
								       SERVICE("web", 95, 1)) "}"},
	{0}};

TEST(watch_prints_each_sample) {
	struct server *server = server_start(SERVER_ANSWER, growing);
	struct outcome outcome = RUN(server_folder(server), "stats", "show", "--watch",
		"--interval", "0.1", "--count", "2");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "RX-PACKETS/S");
	expect_contains(outcome.out, "HANDED-OVER/S");
	expect_contains(outcome.out, "\n         100 ");
	expect_contains(outcome.out, "tcp_flags            5");
	expect_contains(outcome.out, "\n         200 ");
	expect_contains(outcome.out, "no drops");
	assert_null(strchr(outcome.out, '\x1b'));
	assert_null(strstr(outcome.out, " \n"));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(watch_as_json) {
	struct server *server = server_start(SERVER_ANSWER, growing);
	struct outcome outcome = RUN(server_folder(server), "stats", "show", "--watch", "--json",
		"--interval=0.1", "--count=1");
	json_t *rates = json_loads(outcome.out, 0, NULL);

	assert_int_equal(outcome.status, 0);
	assert_int_equal(number(rates, "workers", "rx_packets"), 100);
	json_decref(rates);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(watch_ends_with_the_daemon) {
	struct server *server = server_start(SERVER_CLOSE, NULL);
	struct outcome outcome =
		RUN(server_folder(server), "stats", "show", "--watch", "--interval", "0.1");

	assert_int_equal(outcome.status, 3);
	expect_contains(outcome.err, "closed the connection");
	free_outcome(&outcome);
	server_stop(server);
}

// On a terminal, each sample replaces the previous sample, and is truncated to the size of the
// terminal.
TEST(watch_redraws_on_a_terminal) {
	struct server *server = server_start(SERVER_ANSWER, growing);
	char *const words[] = {"stats", "show", "--watch", "--interval=0.1", "--count=2", NULL};
	char text[8192];

	run_on_terminal(server_folder(server), 4, 20, words, text, sizeof(text));
	assert_memory_equal(text, "\033[2J\033[H", 7);
	expect_contains(text + 7, "\033[J\033[H");
	expect_contains(text, " more lines: see w\033[K\033[J"); // a line as wide as the terminal
	for (char *line = strtok(text, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
		char *visible =
			strrchr(line, 'H') != NULL && line[0] == '\033' ? strrchr(line, 'H') : line;

		assert_true(strcspn(visible, "\033") <= 21);
	}
	server_stop(server);
}

TEST(show_prints_all_parts) {
	struct server *server = server_start(SERVER_ANSWER, growing);
	struct outcome outcome = RUN(server_folder(server), "stats", "show");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "WORKERS\nrx_packets  0\n");
	expect_contains(outcome.out, "\nno drops\n");
	expect_contains(outcome.out, "\nSERVICE  POLICY");
	expect_contains(outcome.out, "\nno backends\n");
	expect_contains(outcome.out, "\nSEGMENT\nheap_bytes  4096\n");
	free_outcome(&outcome);
	server_stop(server);
}

#define WITH_AGENTS(agents) \
	"{\"workers\": {}, \"drops\": {}, \"ports\": [], \"services\": [], \"backends\": " \
	"[], " agents "\"segment\": {\"heap_bytes\": 4096}}"
#define BEFORE_AGENTS "WORKERS\n\nno drops\n\nno ports\n\nno services\n\nno backends\n"
#define BEHIND_AGENTS "\nSEGMENT\nheap_bytes  4096\n"

TEST(agents_are_shown_if_there_are_any) {
	expect_shown(weir_stats_show, NULL, WITH_AGENTS(""), BEFORE_AGENTS BEHIND_AGENTS);
	expect_shown(weir_stats_show, NULL,
		WITH_AGENTS("\"agents\": {\"configured\": 0, \"probes\": 7},"),
		BEFORE_AGENTS BEHIND_AGENTS);
	expect_shown(weir_stats_show, NULL,
		WITH_AGENTS("\"agents\": {\"configured\": 4, \"probes\": 1200, \"dropped_fields\": "
			    "0, \"refused\": {\"length\": 0, \"mac\": 3, \"challenge\": 12}},"),
		BEFORE_AGENTS "\nAGENTS\n"
			      "configured         4\n"
			      "probes             1200\n"
			      "dropped_fields     0\n"
			      "refused.mac        3\n"
			      "refused.challenge  12\n" BEHIND_AGENTS);
}
