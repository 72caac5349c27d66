// SPDX-License-Identifier: BSD-3-Clause
//
// worker.show and stats.show.
#include "daemon_web.h"

static json_int_t number_of(const json_t *object, const char *name) {
	const json_t *value = json_object_get(object, name);

	if (json_is_boolean(value)) {
		return json_is_true(value);
	}
	if (!json_is_integer(value)) {
		fail_msg("%s is no integer", name);
	}
	return json_integer_value(value);
}

static json_int_t alive(struct web *web, size_t worker) {
	json_t *list = lab_result(&web->lab, "{\"command\": \"worker.show\"}");
	json_int_t value = number_of(json_array_get(list, worker), "alive");

	json_decref(list);
	return value;
}

static double busy_percent(struct web *web, size_t worker) {
	json_t *list = lab_result(&web->lab, "{\"command\": \"worker.show\"}");
	double value =
		json_real_value(json_object_get(json_array_get(list, worker), "busy_percent"));

	json_decref(list);
	return value;
}

// The lab's workers count 30 busy cycles of 100 in a turn. Control reads busy and idle cycles one
// after the other, so a turn may end in between: the more turns, the less that counts.
static bool is_busy_as_the_lab(double percent) {
	return percent > 29 && percent < 31;
}

static void worker_show_tells_busy_share_and_every_counter(void **state) {
	struct web *web = *state;
	json_t *list = lab_result(&web->lab, "{\"command\": \"worker.show\"}");

	assert_int_equal(json_array_size(list), 2);
	for (size_t i = 0; i < 2; i++) {
		json_t *one = json_array_get(list, i);

		assert_int_equal(number_of(one, "worker"), i);
		assert_int_equal(number_of(one, "core"), i); // as configured
		assert_int_equal(number_of(one, "alive"), 1);
#define X(field, unit, metric, text) (void)number_of(one, #field);
		WEIR_WORKER_FIGURES(X)
#undef X
	}
	json_decref(list);
	LAB_UNTIL(is_busy_as_the_lab(busy_percent(web, 0)) &&
		  is_busy_as_the_lab(busy_percent(web, 1)));
}

static void worker_that_hangs_is_not_alive(void **state) {
	struct web *web = *state;

	lab_dataplane_hang(web->dataplane, true);
	LAB_UNTIL(alive(web, 0) == 0 && alive(web, 1) == 0);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(alive(web, 0) == 1 && alive(web, 1) == 1);
}

static void stats_show_sums_and_tells_of_the_segment(void **state) {
	struct web *web = *state;
	struct weir_segment *segment = lab_dataplane_segment(web->dataplane);
	json_t *before = lab_result(&web->lab, "{\"command\": \"stats.show\"}"), *after, *part;

	weir_counter_add(&segment->worker_counters[0].rx_packets, 5);
	weir_counter_add(&segment->worker_counters[1].rx_packets, 6);
	weir_counter_add(&segment->worker_counters[1].drops[WEIR_DROP_FRAGMENT], 4);
	json_decref(
		lab_result(&web->lab, "{\"command\": \"backend.drain\", \"backend\": \"w-2\"}"));
	after = lab_result(&web->lab, "{\"command\": \"stats.show\"}");
	assert_int_equal(number_of(json_object_get(after, "workers"), "rx_packets") -
				 number_of(json_object_get(before, "workers"), "rx_packets"),
		11);
	assert_int_equal(number_of(json_object_get(after, "drops"), "fragment"), 4);
	assert_int_equal(json_array_size(json_object_get(after, "services")), 2);
	assert_int_equal(json_array_size(json_object_get(after, "backends")), 3);
	assert_true(number_of(after, "time_ms") >= number_of(before, "time_ms"));
	part = json_object_get(after, "segment");
	assert_true(number_of(part, "publications") >
		    number_of(json_object_get(before, "segment"), "publications"));
	assert_int_equal(number_of(part, "heap_bytes"), segment->heap_bytes);
	assert_true(number_of(part, "used_bytes") > 0);
	assert_true(number_of(part, "backed_bytes") >= number_of(part, "used_bytes"));
	assert_true(number_of(part, "last_publish_us") >= 0);
	assert_true(number_of(part, "last_publish_us") < 1000000);
	json_decref(before);
	json_decref(after);
	json_decref(
		lab_result(&web->lab, "{\"command\": \"backend.ready\", \"backend\": \"w-2\"}"));
}

static json_int_t grace_us(struct web *web) {
	json_t *stats = lab_result(&web->lab, "{\"command\": \"stats.show\"}");
	json_int_t us = number_of(json_object_get(stats, "segment"), "last_grace_us");

	json_decref(stats);
	return us;
}

// The grace period is measured: it ends when the workers report again, and not before.
static void grace_period_lasts_as_long_as_a_worker_is_silent(void **state) {
	struct web *web = *state;
	uint64_t began;

	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	lab_dataplane_hang(web->dataplane, true);
	began = lab_now_ms();
	json_decref(
		lab_result(&web->lab, "{\"command\": \"backend.drain\", \"backend\": \"w-2\"}"));
	assert_true(lab_retired_bytes(&web->lab) > 0); // still in use, as far as anyone knows
	while (lab_now_ms() - began < 150) { // the length of the silence is what is measured
		lab_pause();
	}
	assert_true(lab_retired_bytes(&web->lab) > 0);
	lab_dataplane_hang(web->dataplane, false);
	LAB_UNTIL(lab_retired_bytes(&web->lab) == 0);
	LAB_UNTIL(grace_us(web) >= 140000);
	json_decref(
		lab_result(&web->lab, "{\"command\": \"backend.ready\", \"backend\": \"w-2\"}"));
	LAB_UNTIL(grace_us(web) < 140000);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worker_show_tells_busy_share_and_every_counter),
		cmocka_unit_test(worker_that_hangs_is_not_alive),
		cmocka_unit_test(stats_show_sums_and_tells_of_the_segment),
		cmocka_unit_test(grace_period_lasts_as_long_as_a_worker_is_silent),
	};

	return lab_own_network(NULL) == 0 ? cmocka_run_group_tests(tests, web_start, web_stop) : 1;
}
