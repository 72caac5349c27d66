// SPDX-License-Identifier: BSD-3-Clause
#include "tables_lab.h"

#include "recent.h"

static void add(struct weir_segment *segment, uint32_t worker, uint16_t backend, uint64_t flows) {
	weir_segment_backend_counters(segment, worker, backend)->new_flows += flows;
}

static void new_flows_of_the_last_looks(void **state) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	(void)state;
	add(segment, 0, 1, 1000); // before we looked
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	weir_recent_take(&recent, segment, 3, 1);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	add(segment, 0, 1, 3);
	add(segment, 1, 1, 4);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 7);
	for (int i = 1; i < WEIR_RECENT_LOOKS; i++) {
		weir_recent_take(&recent, segment, 3, 1);
		assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 7);
	}
	add(segment, 0, 1, 10);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 17);
	weir_recent_take(&recent, segment, 3, 1); // the first look is forgotten, and so are the 7
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 10);
	for (int i = 1; i < WEIR_RECENT_LOOKS; i++) {
		weir_recent_take(&recent, segment, 3, 1);
	}
	assert_int_equal(weir_recent_new_flows(&recent, segment, 1), 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

// A backend that is there only since a later look has no past: what its id counted before was
// another's.
static void later_backends_have_no_past(void **state) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	(void)state;
	weir_recent_take(&recent, segment, 1, 1);
	add(segment, 0, 4, 50);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 0);
	weir_recent_take(&recent, segment, 5, 1);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 0);
	add(segment, 0, 4, 2);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 4), 2);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

static void limited_flows_of_a_service(void **state) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_recent recent = {0};

	(void)state;
	weir_recent_take(&recent, segment, 1, 2);
	weir_segment_service_counters(segment, 0, 1)->spilled = 3;
	weir_segment_service_counters(segment, 1, 1)->rejected = 2;
	assert_int_equal(weir_recent_limited(&recent, segment, 1), 5);
	assert_int_equal(weir_recent_limited(&recent, segment, 0), 0);
	for (int i = 0; i < WEIR_RECENT_LOOKS; i++) {
		weir_recent_take(&recent, segment, 1, 2);
	}
	assert_int_equal(weir_recent_limited(&recent, segment, 1), 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

static void bounds(void **state) {
	const struct lab_room room = {.max_services = 2, .max_backends = 3};
	struct weir_segment *segment = lab_segment(&room);
	struct weir_recent recent = {0};

	(void)state;
	weir_recent_take(&recent, segment, 65535, 65535); // more than there is room for
	assert_int_equal(recent.backends, 3);
	assert_int_equal(recent.services, 2);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 3), 0);
	assert_int_equal(weir_recent_limited(&recent, segment, 2), 0);
	assert_int_equal(weir_recent_new_flows(&recent, NULL, 0), 0);
	assert_int_equal(weir_recent_limited(&recent, NULL, 0), 0);
	weir_recent_fini(&recent);
	assert_int_equal(weir_recent_new_flows(&recent, segment, 0), 0);
	weir_recent_take(&recent, segment, 0, 0);
	weir_recent_fini(&recent);
	weir_segment_free(segment);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_flows_of_the_last_looks),
		cmocka_unit_test(later_backends_have_no_past),
		cmocka_unit_test(limited_flows_of_a_service),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
