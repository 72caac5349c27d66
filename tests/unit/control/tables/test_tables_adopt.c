// SPDX-License-Identifier: BSD-3-Clause
//
// Tests adopt.c: a control process continues where another process has stopped (guarantee S3).
#include "tables_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TEST(s3_restart_with_the_same_configuration_publishes_nothing) {
	struct weir_config *config = lab_config(3, 4);
	struct weir_next_hop hop = lab_hop(5);
	struct lab_published before;
	struct lab lab;

	config->services[1].health_check.type = WEIR_CHECK_TCP;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_health(lab.tables, 4, WEIR_HEALTH_HEALTHY);
	weir_tables_set_health(lab.tables, 5, WEIR_HEALTH_HEALTHY);
	weir_tables_set_health(lab.tables, 6, WEIR_HEALTH_HEALTHY);
	weir_tables_set_health(lab.tables, 7, WEIR_HEALTH_REFUSING);
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_DRAIN);
	weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_MAINTENANCE);
	weir_tables_set_weight(lab.tables, 9, 250);
	weir_tables_set_next_hop(lab.tables, 2, &hop);
	assert_true(lab_publish(&lab) > 0);
	lab_published(&lab, &before);

	for (int i = 0; i < 3; i++) {
		lab_restart(&lab);
		lab_apply(&lab, config);
		assert_int_equal(lab_publish(&lab), 0);
		lab_assert_published(&lab, &before);
		assert_int_equal(lab_state(&lab, 0).admin, WEIR_ADMIN_DRAIN);
		assert_int_equal(lab_state(&lab, 1).admin, WEIR_ADMIN_MAINTENANCE);
		assert_int_equal(lab_state(&lab, 6).health, WEIR_HEALTH_HEALTHY);
		assert_int_equal(lab_state(&lab, 7).health, WEIR_HEALTH_REFUSING);
		assert_int_equal(lab_state(&lab, 9).runtime_weight, 250);
		assert_true(lab_state(&lab, 2).resolved);
		assert_false(lab_state(&lab, 3).resolved);
		assert_true(lab_state(&lab, 6).in_selection);
		assert_int_equal(weir_tables_backend_parts(lab.tables, 6), lab_slots(&lab, 1, 6));
	}
	lab_close(&lab);
	lab_config_free(config);
}

TEST(s3_restart_with_another_configuration_keeps_ids) {
	struct weir_config *config = lab_config(2, 3), *next = lab_config(2, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_remove_backend(next, 0, 0);
	lab_restart(&lab);
	lab_apply(&lab, next);
	assert_int_equal(lab_id(&lab, "s0", "b1"), 1);
	assert_int_equal(lab_id(&lab, "s1", "b2"), 5);
	assert_int_equal(lab_id(&lab, "s0", "b3"), 6);
	assert_int_equal(lab_id(&lab, "s1", "b3"), 7);
	assert_true(lab_state(&lab, 0).leaving);
	assert_int_equal(lab_slots(&lab, 0, 0), 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

TEST(s3_restart_keeps_ids_of_leaving_backends_reserved) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config_copy(config);
	struct lab lab;

	lab_remove_backend(less, 0, 2);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 1, 2, 1);
	lab_apply(&lab, less);
	lab_settle(&lab);
	lab_restart(&lab);
	assert_true(lab_state(&lab, 2).leaving);
	lab_apply(&lab, less);
	lab_settle(&lab);
	assert_true(lab_state(&lab, 2).leaving);
	// guarantee S6: the backend has a flow, so its row stays
	assert_true(lab_row(&lab, 2).flags & WEIR_BACKEND_PRESENT);
	lab_set_flows(&lab, 1, 2, 0);
	lab_settle(&lab);
	assert_int_equal(
		weir_tables_backend(lab.tables, 2, &(struct weir_backend_state){0}), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// The rows of all modes are adopted, also of a removed backend that still has flows.
TEST(s3_restart_keeps_forwarding_modes) {
	struct weir_config *config = lab_config(1, 8), *less = lab_config_copy(config);
	struct weir_next_hop hop = lab_hop(3);
	struct weir_backend_row rows[8], row;
	uint64_t publications;
	struct lab lab;

	for (struct weir_config *each = config; each != NULL; each = each == config ? less : NULL) {
		each->services[0].forwarding.gue_port = 7000;
		each->services[0].forwarding.gre_key = 0xdeadbeef;
		for (int i = 0; i < 8; i++) {
			each->services[0].backends[i].forwarding_mode = (uint8_t)(1 + i % 4);
		}
	}
	for (int i = 7; i >= 4; i--) {
		lab_remove_backend(less, 0, (uint32_t)i);
	}
	hop.on_link = true;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint16_t i = 0; i < 8; i++) {
		weir_tables_set_next_hop(lab.tables, i, &hop);
		lab_set_flows(&lab, 1, i, 1);
	}
	lab_publish(&lab);
	lab_apply(&lab, less);
	lab_settle(&lab);
	for (uint16_t i = 0; i < 8; i++) {
		rows[i] = lab_row(&lab, i);
		assert_int_equal(rows[i].forwarding, i % 4);
		assert_true(rows[i].flags & WEIR_BACKEND_RESOLVED);
	}
	publications = lab.segment->notes->publications;
	lab_restart(&lab);
	lab_apply(&lab, less);
	for (uint16_t i = 0; i < 8; i++) {
		row = lab_row(&lab, i);
		assert_memory_equal(&rows[i], &row, sizeof(row));
	}
	assert_int_equal(lab.segment->notes->publications, publications);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

static void random_bytes(uint8_t *bytes, uint64_t n, int density) {
	for (uint64_t i = 0; i < n; i++) {
		if (rand() % density == 0) {
			bytes[i] = (uint8_t)rand();
		}
	}
}

// The segment has random identities and rows. Control must not crash, and must apply its
// configuration.
TEST(broken_identity_is_survived) {
	struct weir_config *config = lab_config(3, 4);

	srand(11);
	for (int turn = 0; turn < 300; turn++) {
		struct lab lab;
		int density = 1 << (turn % 12);

		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		random_bytes((uint8_t *)lab.control->identity_services,
			3 * sizeof(lab.control->identity_services[0]), density);
		random_bytes((uint8_t *)lab.control->identity_backends,
			12 * sizeof(lab.control->identity_backends[0]), density);
		random_bytes(
			(uint8_t *)lab.control->rows, 12 * sizeof(lab.control->rows[0]), density);
		if (turn % 3 == 0) {
			random_bytes((uint8_t *)lab.control->notes, sizeof(*lab.control->notes), 4);
		}
		lab_restart(&lab);
		// Random notes may mark the whole heap as used until the end of this grace period.
		lab_quiescent(&lab);
		lab_apply(&lab, config);
		lab_settle(&lab);
		for (uint32_t s = 0; s < 3; s++) {
			for (uint32_t b = 0; b < 4; b++) {
				uint16_t id = lab_id(&lab, config->services[s].name,
					config->services[s].backends[b].name);

				assert_false(lab_state(&lab, id).leaving);
				assert_true(lab_row(&lab, id).flags & WEIR_BACKEND_PRESENT);
				assert_memory_equal(lab_row(&lab, id).header + 14 + 16,
					config->services[s].backends[b].address.bytes, 4);
			}
		}
		lab_close(&lab);
	}
	lab_config_free(config);
}
