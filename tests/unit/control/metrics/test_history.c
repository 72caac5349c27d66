// SPDX-License-Identifier: BSD-3-Clause
#include "history.h"
#include "test.h"

static json_t *workers(int first, int second) {
	return json_pack("[{s:i, s:i, s:i}, {s:i, s:i}]", "rx_packets", first, "flows", 1,
		"handed_over", 4, "rx_packets", second, "flows", 2);
}

static json_int_t value(const json_t *json, size_t sample, size_t column) {
	return json_integer_value(
		json_array_get(json_array_get(json_object_get(json, "samples"), sample), column));
}

TEST(history_sums_workers_and_keeps_gaps) {
	struct weir_history history = {.count = 0};
	json_t *two = workers(10, 20), *json;

	weir_history_add(&history, 1000, two);
	weir_history_add(&history, 2000, NULL);
	json = weir_history_json(&history);
	assert_string_equal(json_string_value(json_array_get(json_object_get(json, "columns"), 1)),
		"rx_packets");
	assert_int_equal(value(json, 0, 0), 1000);
	assert_int_equal(value(json, 0, 1), 26); // the second worker had 4 of the first one
	assert_int_equal(value(json, 0, 5), 3);
	assert_int_equal(value(json, 1, 0), 2000);
	assert_int_equal(json_array_size(json_array_get(json_object_get(json, "samples"), 1)), 1);
	json_decref(json);
	json_decref(two);
}

TEST(history_drops_the_oldest) {
	struct weir_history history = {.count = 0};
	json_t *json;

	for (unsigned int i = 0; i < WEIR_HISTORY_SAMPLES + 7; i++) {
		weir_history_add(&history, i, NULL);
	}
	json = weir_history_json(&history);
	assert_int_equal(json_array_size(json_object_get(json, "samples")), WEIR_HISTORY_SAMPLES);
	assert_int_equal(value(json, 0, 0), 7);
	assert_int_equal(value(json, WEIR_HISTORY_SAMPLES - 1, 0), WEIR_HISTORY_SAMPLES + 6);
	json_decref(json);
}

static void note(struct weir_history *history, int control, int dataplane) {
	json_t *figures = json_pack("{s:{s:i}, s:{s:i}}", "control", "started_ms", control,
		"dataplane", "started_ms", dataplane);

	weir_history_note_starts(history, figures);
	json_decref(figures);
}

TEST(history_notes_each_start_once) {
	struct weir_history history = {.count = 0};
	const json_t *last;
	json_t *starts;

	weir_history_note_starts(&history, NULL);
	note(&history, 10, 0); // 0: no dataplane, or an unknown time
	note(&history, 10, 20);
	note(&history, 30, 20);
	starts = weir_history_starts_json(&history);
	assert_int_equal(json_array_size(starts), 3);
	last = json_array_get(starts, 2);
	assert_int_equal(json_integer_value(json_object_get(last, "time_ms")), 30);
	assert_string_equal(json_string_value(json_object_get(last, "process")), "weir-control");
	json_decref(starts);
	for (int i = 0; i < 2 * WEIR_HISTORY_STARTS; i++) {
		note(&history, 100 + i, 20);
	}
	starts = weir_history_starts_json(&history);
	assert_int_equal(json_array_size(starts), WEIR_HISTORY_STARTS);
	last = json_array_get(starts, WEIR_HISTORY_STARTS - 1);
	assert_int_equal(
		json_integer_value(json_object_get(last, "time_ms")), 99 + 2 * WEIR_HISTORY_STARTS);
	json_decref(starts);
}
