// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weirctl service waste: the chart for many, few or no backends, and on narrow terminals.
#include "waste.h"

#include "show_lab.h"

static char *chart(json_t *result, int width, bool colour) {
	char *text;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	weir_waste_print(out, result, width, colour);
	fclose(out);
	json_decref(result);
	return text;
}

static json_t *result_of(uint32_t count, double (*used)(uint32_t i)) {
	json_t *backends = json_array();
	double most = 0, sum = 0;
	char name[16];

	for (uint32_t i = 0; i < count; i++) {
		most = used(i) > most ? used(i) : most;
		sum += used(i);
	}
	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "b%u", i);
		json_array_append_new(
			backends, json_pack("{s:s, s:f, s:f, s:i}", "backend", name, "utilization",
					  used(i), "wasted", most - used(i), "age_ms", 5));
	}
	return json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:o}", "service", "web", "count",
		(int)count, "reporting", (int)count, "most", most, "mean",
		count > 0 ? sum / count : 0, "wasted", most * count - sum, "backends", backends);
}

static double quarters(uint32_t i) {
	return 0.2 * (i + 1);
}

static double tiny(uint32_t i) {
	return (double)i / 10000;
}

static double idle(uint32_t i) {
	(void)i;
	return 0;
}

TEST(used_and_wasted_fill_the_width) {
	char *text = chart(result_of(4, quarters), 46, false);

	assert_string_equal(text,
		"web: 4 of 4 backends report utilization: mean 50.0 %, maximum 80.0 %\n"
		"wasted: 120.0 % of the capacity of one backend; this is 37.5 % of the total usage "
		"if every backend uses 80.0 %\n"
		"\n"
		"BACKEND  USED-%  WASTE%\n"
		"b3         80.0     0.0  ####################\n"
		"b2         60.0    20.0  ###############.....\n"
		"b1         40.0    40.0  ##########..........\n"
		"b0         20.0    60.0  #####...............\n");
	free(text);
}

TEST(many_backends_are_reduced) {
	char *text = chart(result_of(10000, tiny), 80, false), *line = text;
	int lines = 0;

	expect_contains(text, "... 9976 more: utilization 0.1 to 99.9 %, wasted ");
	expect_contains(text, "\nb9999 ");
	expect_contains(text, "\nb0 ");
	for (; *line != '\0'; line += strcspn(line, "\n") + 1, lines++) {
		assert_true(lines < 2 || strcspn(line, "\n") < 80);
	}
	assert_int_equal(lines, 4 + 12 + 1 + 12);
	free(text);
}

TEST(colours_and_narrow_terminals) {
	char *text = chart(result_of(2, quarters), 1, true);

	expect_contains(text, "\033[32m#####\033[0m\033[31m.....\033[0m\n");
	free(text);
	text = chart(result_of(2, quarters), 80, false);
	assert_null(strchr(text, '\033'));
	free(text);
	text = chart(result_of(3, idle), 40, false);
	expect_contains(
		text, "maximum 0.0 %\nwasted: 0.0 % of the capacity of one backend; this is 0.0 %");
	free(text);
}

TEST(missing_reports_are_shown) {
	json_t *result = json_pack("{s:s, s:[{s:s, s:n}]}", "service", "web", "backends", "backend",
		"b", "utilization");
	char *text = chart(result, 80, false);

	assert_string_equal(text,
		"web: no utilization reported (0 of 1 backend); report it through weir-agent, "
		"health checks or weirctl backend report\n");
	free(text);
	text = chart(json_pack("{s:s, s:i, s:[{s:s, s:n}, {s:s, s:n}]}", "service", "web",
			     "again_ms", 4001, "backends", "backend", "a", "utilization", "backend",
			     "b", "utilization"),
		80, false);
	assert_string_equal(text,
		"web: no utilization reported (0 of 2 backends); weirctl has just "
		"requested it from the agents: try again in 5.0s\n");
	free(text);
	text = chart(json_pack("[i]", 3), 80, false); // an answer of a daemon of another version
	free(text);
}

#define NONE(again) \
	"{\"ok\": true, \"result\": {\"service\": \"web\", \"again_ms\": " #again \
	", \"backends\": [{\"backend\": \"b\", \"utilization\": null}]}}"

// The first answer contains the time until all agents will have reported. weirctl waits for this
// time, sends a second request, and shows the second answer.
TEST(agents_that_need_a_request_are_waited_for) {
	static const struct server_answer soon[] = {
		{"service.waste", NONE(100) "\n{\"ok\": true, \"result\": {\"service\": \"web\", "
					    "\"again_ms\": null, \"mean\": 0.5, \"most\": 0.5, "
					    "\"wasted\": 0, \"backends\": [{\"backend\": \"b\", "
					    "\"utilization\": 0.5, \"wasted\": 0}]}}"},
		{0}};
	static const struct server_answer late[] = {{"service.waste", NONE(5001)}, {0}};
	struct server *server = server_start(SERVER_ANSWER, soon);
	struct outcome outcome = RUN(server_folder(server), "service", "waste", "web");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "web: 1 of 1 backend reports utilization: mean 50.0 %");
	free_outcome(&outcome);
	server_stop(server);
	server = server_start(SERVER_ANSWER, late);
	outcome = RUN(server_folder(server), "service", "waste", "web");
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "again in 6.0s\n");
	free_outcome(&outcome);
	server_stop(server);
}
