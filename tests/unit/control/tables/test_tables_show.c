// SPDX-License-Identifier: BSD-3-Clause
//
// show.c: what the tables tell about themselves.
#include "tables_lab.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void active_flows_are_the_sum_over_workers(void **unused) {
	struct weir_config *config = lab_config(1, 2);
	struct lab lab;

	(void)unused;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 0, 1, 3);
	lab_set_flows(&lab, 1, 1, 4);
	assert_int_equal(weir_tables_backend_flows(lab.tables, 0), 0);
	assert_int_equal(weir_tables_backend_flows(lab.tables, 1), 7);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	assert_int_equal(weir_tables_backend_flows(lab.tables, 1), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// With 65,534 backends and 64 workers to read them all takes a third of a second.
static void counters_are_left_alone_by_look_ups(void **unused) {
	struct weir_config *config = lab_config(4, 100);
	struct weir_backend_state state;
	struct lab lab;
	uintptr_t from, to, page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)unused;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	from = (uintptr_t)weir_segment_backend_counters(lab.segment, 0, 0);
	to = (uintptr_t)weir_segment_backend_counters(
		lab.segment, 0, lab.segment->max_backends - 1);
	from = (from + page - 1) / page * page;
	to = to / page * page;
	assert_true(to > from + 2 * page);
	assert_int_equal(mprotect((void *)from, to - from, PROT_NONE), 0);
	for (uint32_t id = 0; id < weir_tables_backend_ids(lab.tables); id++) {
		assert_int_equal(weir_tables_backend(lab.tables, (uint16_t)id, &state), 0);
	}
	assert_int_equal(mprotect((void *)from, to - from, PROT_READ | PROT_WRITE), 0);
	lab_close(&lab);
	lab_config_free(config);
}

static void every_field_of_a_backend(void **unused) {
	struct weir_config *config = lab_config(2, 2);
	struct weir_backend_state state;
	struct lab lab;

	(void)unused;
	config->services[1].backends[1].weight = 70;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 3, WEIR_ADMIN_MAINTENANCE);
	weir_tables_set_health(lab.tables, 3, WEIR_HEALTH_LAME_DUCK);
	weir_tables_set_weight(lab.tables, 3, 9);
	weir_tables_publish(lab.tables);
	state = lab_state(&lab, 3);
	assert_string_equal(state.service, "s1");
	assert_string_equal(state.name, "b1");
	assert_int_equal(state.id, 3);
	assert_int_equal(state.service_id, 1);
	assert_int_equal(state.admin, WEIR_ADMIN_MAINTENANCE);
	assert_int_equal(state.health, WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(state.configured_weight, 70);
	assert_int_equal(state.runtime_weight, 9);
	assert_int_equal(state.effective_weight, 9);
	assert_false(state.leaving);
	assert_false(state.resolved);
	assert_false(state.in_selection);
	assert_int_equal(state.address.family, 4);
	assert_memory_equal(state.address.bytes, config->services[1].backends[1].address.bytes, 16);
	assert_int_equal(weir_tables_backend_ids(lab.tables), 4);
	assert_string_equal(weir_tables_backend_name(lab.tables, 3), "b1");
	assert_null(weir_tables_backend_name(lab.tables, 4));
	assert_null(weir_tables_backend_name(lab.tables, WEIR_BACKEND_NONE));
	lab_close(&lab);
	lab_config_free(config);
}

static void service_state_follows_panic(void **unused) {
	struct weir_config *config = lab_config(1, 4);
	struct weir_service_state before, after;
	struct lab lab;

	(void)unused;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_service(lab.tables, 0, &before), 0);
	for (uint16_t id = 0; id < 3; id++) {
		weir_tables_set_health(lab.tables, id, WEIR_HEALTH_REFUSING);
	}
	weir_tables_publish(lab.tables);
	assert_int_equal(weir_tables_service(lab.tables, 0, &after), 0);
	assert_false(before.panic);
	assert_true(after.panic);
	assert_int_equal(after.eligible, 1);
	assert_int_equal(after.backends, 4);
	assert_true(lab_state(&lab, 0).in_selection);
	// In panic the members are those of before: the very same selection stays.
	assert_int_equal(after.generation, before.generation);
	lab_close(&lab);
	lab_config_free(config);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(active_flows_are_the_sum_over_workers),
		cmocka_unit_test(counters_are_left_alone_by_look_ups),
		cmocka_unit_test(every_field_of_a_backend),
		cmocka_unit_test(service_state_follows_panic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
