// SPDX-License-Identifier: BSD-3-Clause
//
// Tests tables.c and show.c: tables are opened, changed and shown, and a worker reads the result.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "service_table.h"

TEST(apply_publishes_every_table) {
	struct weir_config *config = lab_config(2, 3);
	const struct weir_services_view *services;
	uint8_t vip[16] = {198, 51, 0, 1};
	struct weir_service_state service;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	services = lab_services(&lab);
	assert_int_equal(weir_service_lookup(services, vip, 4, IPPROTO_TCP, 80),
		weir_tables_service_find(lab.tables, "s1"));
	assert_int_equal(weir_service_lookup(services, vip, 4, IPPROTO_TCP, 81), WEIR_SERVICE_NONE);
	for (uint16_t id = 0; id < 6; id++) {
		struct weir_backend_state found = lab_state(&lab, id);
		struct weir_backend_row row = lab_row(&lab, id);

		assert_int_equal(row.flags, WEIR_BACKEND_PRESENT);
		assert_int_equal(row.service, found.service_id);
		assert_int_equal(found.health, WEIR_HEALTH_HEALTHY);
		assert_true(found.in_selection);
		assert_in_range(lab_slots(&lab, found.service_id, id), 80, 87);
		assert_int_equal(lab_slots(&lab, found.service_id, id),
			weir_tables_backend_parts(lab.tables, id));
	}
	assert_int_equal(weir_tables_service(lab.tables, 1, &service), 0);
	assert_int_equal(service.backends, 3);
	assert_int_equal(service.eligible, 3);
	assert_int_equal(service.slots, LAB_TABLE_SIZE);
	assert_false(service.panic);
	assert_string_equal(weir_tables_service_name(lab.tables, 1), "s1");
	assert_null(weir_tables_service_name(lab.tables, 2));
	assert_int_equal(weir_tables_service(lab.tables, 2, &service), -ENOENT);
	assert_ptr_equal(weir_tables_config(lab.tables), config);
	assert_ptr_equal(weir_tables_segment(lab.tables), lab.control);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(next_hop_fills_the_row_and_publishes_one_table) {
	struct weir_config *config = lab_config(1, 2);
	struct weir_next_hop hop = lab_hop(9);
	struct weir_backend_row row;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_false(lab_row(&lab, 1).flags & WEIR_BACKEND_RESOLVED);
	lab_resolve(&lab);
	assert_int_equal(weir_tables_set_next_hop(lab.tables, 1, &hop), 0);
	assert_int_equal(lab_publish(&lab), 1);
	row = lab_row(&lab, 1);
	assert_true(row.flags & WEIR_BACKEND_RESOLVED);
	assert_memory_equal(row.header, hop.mac, 6);
	assert_memory_equal(row.header + 6, lab.segment->header->port[0].mac, 6);
	assert_memory_equal(row.header + 14 + 12, hop.source.bytes, 4);
	assert_memory_equal(row.header + 14 + 16, config->services[0].backends[1].address.bytes, 4);
	assert_true(lab_state(&lab, 1).resolved);

	assert_int_equal(weir_tables_set_next_hop(lab.tables, 1, &hop), 0);
	assert_int_equal(lab_publish(&lab), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// The kernel has no source address of the right family. Then the address that is configured for the
// port is used.
TEST(source_address_of_the_port_is_the_fallback) {
	struct weir_config *config = lab_config(1, 1);
	struct weir_config_port port = {
		.source_ipv4 = {.family = 4, .bytes = {203, 0, 113, 5}},
	};
	struct weir_next_hop hop = lab_hop(1);
	struct lab lab;

	config->ports = &port;
	config->port_count = 1;
	hop.source.family = 6;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_next_hop(lab.tables, 0, &hop), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_memory_equal(lab_row(&lab, 0).header + 14 + 12, port.source_ipv4.bytes, 4);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(weight_change_is_stored_and_publishes_one_selection) {
	struct weir_config *config = lab_config(3, 2);
	struct weir_backend_state found;
	struct lab lab;
	uint16_t id;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	id = lab_id(&lab, "s1", "b0");
	assert_int_equal(weir_tables_set_weight(lab.tables, id, 300), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_in_range(lab_slots(&lab, 1, id), 251 * 3 / 4 - 2, 251 * 3 / 4 + 2);
	assert_int_equal(lab.segment->identity_backends[id].runtime_weight, 300);
	found = lab_state(&lab, id);
	assert_int_equal(found.effective_weight, 300);
	assert_int_equal(found.runtime_weight, 300);
	assert_int_equal(found.configured_weight, 100);

	assert_int_equal(weir_tables_set_weight(lab.tables, id, 300), 0);
	assert_int_equal(lab_publish(&lab), 0);
	assert_int_equal(weir_tables_set_weight(lab.tables, id, WEIR_WEIGHT_UNSET), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_in_range(lab_slots(&lab, 1, id), 124, 127);
	lab_close(&lab);
	lab_config_free(config);
}

// In each case a different state excludes a backend from new flows. The row of the backend stays
// for its existing flows.
TEST(s6_backends_without_new_flows_keep_their_row) {
	static const struct {
		int admin, health;
		uint32_t weight;
		uint8_t flags; // expected flags of the row, in addition to CLOSED
	} cases[] = {
		{WEIR_ADMIN_DRAIN, WEIR_HEALTH_HEALTHY, 100, 0},
		{WEIR_ADMIN_DRAIN, WEIR_HEALTH_REFUSING, 100, WEIR_BACKEND_DOWN},
		{WEIR_ADMIN_MAINTENANCE, WEIR_HEALTH_HEALTHY, 100, WEIR_BACKEND_DOWN},
		{WEIR_ADMIN_READY, WEIR_HEALTH_LAME_DUCK, 100, 0},
		{WEIR_ADMIN_READY, WEIR_HEALTH_REFUSING, 100, WEIR_BACKEND_DOWN},
		{WEIR_ADMIN_READY, WEIR_HEALTH_STARTING, 100, 0},
		{WEIR_ADMIN_READY, WEIR_HEALTH_HEALTHY, 0, 0},
	};
	struct weir_config *config = lab_config(1, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		weir_tables_set_admin(lab.tables, 2, cases[i].admin);
		weir_tables_set_health(lab.tables, 2, cases[i].health);
		weir_tables_set_weight(lab.tables, 2, cases[i].weight);
		// publishes the selection and the row's flags
		assert_int_equal(lab_publish(&lab), 2);
		lab_settle(&lab);
		assert_int_equal(lab_slots(&lab, 0, 2), 0);
		assert_false(lab_state(&lab, 2).in_selection);
		assert_int_equal(
			lab_row(&lab, 2).flags, WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED |
							WEIR_BACKEND_CLOSED | cases[i].flags);

		weir_tables_set_admin(lab.tables, 2, WEIR_ADMIN_READY);
		weir_tables_set_health(lab.tables, 2, WEIR_HEALTH_HEALTHY);
		weir_tables_set_weight(lab.tables, 2, WEIR_WEIGHT_UNSET);
		assert_true(lab_publish(&lab) > 0);
		assert_in_range(lab_slots(&lab, 0, 2), 62, 63);
		assert_true(lab_state(&lab, 2).in_selection);
	}
	lab_close(&lab);
	lab_config_free(config);
}

TEST(changes_of_unknown_ids_are_refused) {
	struct weir_config *config = lab_config(1, 1);
	struct weir_next_hop hop = lab_hop(1);
	struct weir_backend_state found;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_DRAIN), -ENOENT);
	assert_int_equal(weir_tables_set_health(lab.tables, 1, WEIR_HEALTH_HEALTHY), -ENOENT);
	assert_int_equal(weir_tables_set_weight(lab.tables, WEIR_BACKEND_NONE, 1), -ENOENT);
	assert_int_equal(weir_tables_set_next_hop(lab.tables, 1, &hop), -ENOENT);
	assert_int_equal(weir_tables_backend(lab.tables, 1, &found), -ENOENT);
	assert_int_equal(weir_tables_backend_find(lab.tables, "s0", "b1"), -ENOENT);
	assert_int_equal(weir_tables_backend_find(lab.tables, "s1", "b0"), -ENOENT);
	assert_int_equal(weir_tables_service_find(lab.tables, "s1"), -ENOENT);
	assert_int_equal(weir_tables_backend_parts(lab.tables, 9), 0);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(s4_rebind_publishes_everything_into_a_new_segment) {
	struct weir_config *config = lab_config(2, 3);
	struct lab lab, old;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 4, WEIR_ADMIN_DRAIN);
	weir_tables_set_weight(lab.tables, 2, 7);
	lab_resolve(&lab);

	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	assert_null(weir_tables_writer(lab.tables));
	weir_tables_set_health(lab.tables, 5, WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(weir_tables_publish(lab.tables), 0);

	lab_worker_stop(&lab);
	old = lab;
	lab.segment = lab_segment(NULL);
	lab.control = lab_attach(lab.segment);
	lab_worker_start(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	weir_segment_free(old.control);
	weir_segment_free(old.segment);
	assert_int_equal(lab_state(&lab, 4).admin, WEIR_ADMIN_DRAIN);
	assert_int_equal(lab_state(&lab, 2).runtime_weight, 7);
	assert_int_equal(lab_state(&lab, 5).health, WEIR_HEALTH_LAME_DUCK);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_RESOLVED);
	assert_int_equal(lab_slots(&lab, 1, 4), 0);
	assert_int_equal(lab_slots(&lab, 1, 5), 0);
	assert_int_equal(lab_slots(&lab, 1, 3), LAB_TABLE_SIZE);
	assert_in_range(lab_slots(&lab, 0, 2), 7, 10);
	lab_close(&lab);
	lab_config_free(config);
}

// The dataplane is lost, and then the same dataplane returns. It may still have flows of removed
// backends, so the ids of these backends are not reused.
TEST(rebind_to_the_same_dataplane_keeps_ids_reserved) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config(1, 3);
	struct lab lab;

	lab_remove_backend(less, 0, 1);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 1, 1, 5);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	lab_apply(&lab, less);
	weir_tables_tick(lab.tables);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	assert_int_equal(lab_slots(&lab, 0, 1), 0);
	lab_settle(&lab);
	assert_true(lab_state(&lab, 1).leaving);
	lab_set_flows(&lab, 1, 1, 0);
	lab_settle(&lab);
	assert_int_equal(
		weir_tables_backend(lab.tables, 1, &(struct weir_backend_state){0}), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// Control has read its configuration, and then attaches to a dataplane that another control process
// has used. The ids in the segment take precedence over the ids of this process. But a weight that
// was set in this process before it attached takes precedence over the weight in the segment.
TEST(late_binding_adopts_the_ids_of_a_running_dataplane) {
	struct weir_config *config = lab_config(2, 3), *other = lab_config(2, 3);
	weir_ref before;
	struct lab lab;

	lab_remove_backend(other, 0, 0);
	lab_open(&lab, NULL);
	lab_apply(&lab, other);
	assert_int_equal(lab_id(&lab, "s1", "b0"), 2);
	weir_tables_set_admin(lab.tables, lab_id(&lab, "s1", "b0"), WEIR_ADMIN_DRAIN);
	weir_tables_set_weight(lab.tables, lab_id(&lab, "s1", "b1"), 33);
	weir_tables_publish(lab.tables);
	before = lab.segment->roots->selection[1];
	weir_tables_free(lab.tables);

	assert_int_equal(weir_tables_open(NULL, &lab.tables), 0);
	lab_apply(&lab, config);
	assert_int_equal(lab_id(&lab, "s1", "b0"), 3);
	weir_tables_set_weight(lab.tables, lab_id(&lab, "s0", "b1"), 55);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	assert_int_equal(lab_id(&lab, "s1", "b0"), 2);
	assert_int_equal(lab_id(&lab, "s0", "b0"), 5);
	assert_int_equal(lab_state(&lab, 2).admin, WEIR_ADMIN_DRAIN);
	assert_int_equal(lab_state(&lab, lab_id(&lab, "s1", "b1")).runtime_weight, 33);
	assert_int_equal(lab_state(&lab, lab_id(&lab, "s0", "b1")).runtime_weight, 55);
	assert_int_equal(lab.segment->roots->selection[1], before);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(other);
}

// The dataplane has exited, so nothing refers to its ids. The new segment is smaller, so ids above
// its limit are replaced.
TEST(rebind_to_a_smaller_segment_renumbers) {
	struct weir_config *config = lab_config(1, 8), *less = lab_config(1, 8);
	struct lab_room small = {.max_backends = 4};
	struct lab lab, old;

	for (int i = 0; i < 5; i++) {
		lab_remove_backend(less, 0, 0);
	}
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_apply(&lab, less);
	assert_true(lab_id(&lab, "s0", "b7") >= 4);
	weir_tables_set_weight(lab.tables, lab_id(&lab, "s0", "b7"), 9);
	lab_worker_stop(&lab);
	old = lab;
	lab.segment = lab_segment(&small);
	lab.control = lab_attach(lab.segment);
	lab_worker_start(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	weir_segment_free(old.control);
	weir_segment_free(old.segment);
	assert_true(lab_id(&lab, "s0", "b7") < 3);
	assert_int_equal(lab_state(&lab, lab_id(&lab, "s0", "b7")).effective_weight, 9);

	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	lab_apply(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// The same with a configuration that has too many backends for the new segment. A configuration
// that has not can then be applied, even if all its backends are new.
TEST(apply_after_a_segment_was_too_small) {
	struct weir_config *config = lab_config(1, 8), *few = lab_config(1, 8);
	struct lab_room small = {.max_backends = 4};
	struct lab lab, old;
	char why[256];

	config->segment.max_backends = few->segment.max_backends = 4;
	for (int i = 0; i < 4; i++) {
		lab_remove_backend(config, 0, 4);
		lab_remove_backend(few, 0, 0);
	}
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_worker_stop(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	// The dataplane may still run.
	assert_int_equal(weir_tables_apply(lab.tables, few, why, sizeof(why)), -ENOSPC);
	old = lab;
	small.max_backends = 3;
	lab.segment = lab_segment(&small);
	lab.control = lab_attach(lab.segment);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), -ENOSPC);
	weir_segment_free(lab.control);
	weir_segment_free(lab.segment);
	assert_int_equal(weir_tables_apply(lab.tables, few, why, sizeof(why)), 0);
	small.max_backends = 4;
	lab.segment = lab_segment(&small);
	lab.control = lab_attach(lab.segment);
	lab_worker_start(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	weir_segment_free(old.control);
	weir_segment_free(old.segment);
	assert_true(lab_id(&lab, "s0", "b7") < 4);
	lab_apply(&lab, few);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(few);
}
