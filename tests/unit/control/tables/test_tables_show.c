// SPDX-License-Identifier: BSD-3-Clause
//
// show.c: reading the state of the tables.
#include "tables_lab.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TEST(active_flows_are_the_sum_over_workers) {
	struct weir_config *config = lab_config(1, 2);
	struct lab lab;

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

// Reading all counters takes a third of a second with 65,534 backends and 64 workers. Therefore a
// lookup of a backend must not read them.
TEST(counters_are_not_read_by_lookups) {
	struct weir_config *config = lab_config(4, 100);
	struct weir_backend_state found;
	struct lab lab;
	uintptr_t from, to, page = (uintptr_t)sysconf(_SC_PAGESIZE);

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
		assert_int_equal(weir_tables_backend(lab.tables, (uint16_t)id, &found), 0);
	}
	assert_int_equal(mprotect((void *)from, to - from, PROT_READ | PROT_WRITE), 0);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(every_field_of_a_backend) {
	struct weir_config *config = lab_config(2, 2);
	struct weir_backend_state found;
	struct lab lab;

	config->services[1].backends[1].weight = 70;
	config->services[1].forwarding =
		(struct weir_forwarding){.mode = WEIR_FORWARDING_GUE, .gre_key = 7};
	config->services[1].backends[1].forwarding_mode = 1 + WEIR_FORWARDING_GRE;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 3, WEIR_ADMIN_MAINTENANCE);
	weir_tables_set_health(lab.tables, 3, WEIR_HEALTH_LAME_DUCK);
	weir_tables_set_weight(lab.tables, 3, 9);
	weir_tables_publish(lab.tables);
	found = lab_state(&lab, 3);
	assert_string_equal(found.service, "s1");
	assert_string_equal(found.name, "b1");
	assert_int_equal(found.id, 3);
	assert_int_equal(found.service_id, 1);
	assert_int_equal(found.admin, WEIR_ADMIN_MAINTENANCE);
	assert_int_equal(found.health, WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(found.configured_weight, 70);
	assert_int_equal(found.runtime_weight, 9);
	assert_int_equal(found.effective_weight, 9);
	assert_int_equal(found.forwarding.mode, WEIR_FORWARDING_GRE);
	assert_int_equal(found.forwarding.gre_key, 7);
	assert_int_equal(lab_state(&lab, 2).forwarding.mode, WEIR_FORWARDING_GUE);
	assert_false(found.leaving);
	assert_false(found.resolved);
	assert_false(found.in_selection);
	assert_int_equal(found.address.family, 4);
	assert_memory_equal(found.address.bytes, config->services[1].backends[1].address.bytes, 16);
	assert_int_equal(weir_tables_backend_ids(lab.tables), 4);
	assert_string_equal(weir_tables_backend_name(lab.tables, 3), "b1");
	assert_null(weir_tables_backend_name(lab.tables, 4));
	assert_null(weir_tables_backend_name(lab.tables, WEIR_BACKEND_NONE));
	lab_close(&lab);
	lab_config_free(config);
}

// Routers report the path MTU of tunnel packets. It is not that of a backend with l2, for which
// only the MTU of the route counts.
TEST(path_mtu_depends_on_the_forwarding_mode) {
	struct weir_config *config = lab_config(1, 3);
	struct weir_next_hop hop = lab_hop(1);
	struct lab lab;

	config->services[0].backends[1].forwarding_mode = 1 + WEIR_FORWARDING_L2;
	config->services[0].backends[2].forwarding_mode = 1 + WEIR_FORWARDING_GUE;
	hop.on_link = true;
	hop.mtu = 1300;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint16_t id = 0; id < 3; id++) {
		weir_tables_set_next_hop(lab.tables, id, &hop);
		lab_publish(&lab);
		assert_int_equal(lab_state(&lab, id).path_mtu, id == 1 ? 0 : 1300);
		assert_int_equal(lab_row(&lab, id).mtu, id == 1 ? 1500 : 1300);
	}
	hop.route_mtu = 1400;
	weir_tables_set_next_hop(lab.tables, 1, &hop);
	lab_publish(&lab);
	assert_int_equal(lab_state(&lab, 1).path_mtu, 1400);
	assert_int_equal(lab_row(&lab, 1).mtu, 1400);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(service_state_follows_panic) {
	struct weir_config *config = lab_config(1, 4);
	struct weir_service_state before, after;
	struct lab lab;

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
	// in panic mode the members are the same as before, so the selection is not published again
	assert_int_equal(after.generation, before.generation);
	lab_close(&lab);
	lab_config_free(config);
}
