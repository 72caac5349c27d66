// SPDX-License-Identifier: BSD-3-Clause
//
// adopt.c: a control process goes on where another one stopped (S3).
#include "tables_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void copy_selection(struct lab *lab, uint16_t service, uint16_t ids[LAB_TABLE_SIZE]) {
	const struct weir_selection_view *view = weir_reader_selection(&lab->reader, service);

	assert_int_equal(view->table.slot_count, LAB_TABLE_SIZE);
	for (uint32_t i = 0; i < LAB_TABLE_SIZE; i++) {
		ids[i] = view->table.candidates[view->table.slots[i]].id;
	}
}

static void s3_restart_with_the_same_configuration_publishes_nothing(void **unused) {
	struct weir_config *config = lab_config(3, 4);
	struct weir_next_hop hop = lab_hop(5);
	weir_ref selections[3];
	struct weir_roots before;
	struct lab lab;

	(void)unused;
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
	assert_true(weir_tables_publish(lab.tables) > 0);
	before = *lab.segment->roots;
	memcpy(selections, lab.segment->roots->selection, sizeof(selections));

	for (int i = 0; i < 3; i++) {
		lab_restart(&lab);
		lab_apply(&lab, config);
		assert_int_equal(weir_tables_publish(lab.tables), 0);
		assert_int_equal(lab.segment->roots->identity, before.identity);
		assert_int_equal(lab.segment->roots->backends, before.backends);
		assert_int_equal(lab.segment->roots->services, before.services);
		assert_int_equal(lab.segment->roots->publications, before.publications);
		assert_memory_equal(lab.segment->roots->selection, selections, sizeof(selections));
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

static void s3_restart_with_another_configuration_keeps_ids(void **unused) {
	struct weir_config *config = lab_config(2, 3), *next = lab_config(2, 4);
	struct lab lab;

	(void)unused;
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

static void s3_restart_keeps_ids_of_leaving_backends_reserved(void **unused) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config_copy(config);
	struct lab lab;

	(void)unused;
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
	assert_true(lab_row(&lab, 2).flags & WEIR_BACKEND_PRESENT); // S6: it has a flow
	lab_set_flows(&lab, 1, 2, 0);
	lab_settle(&lab);
	assert_int_equal(
		weir_tables_backend(lab.tables, 2, &(struct weir_backend_state){0}), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// The former process died after the first k stores of a publication.
static void s3_death_between_two_stores_of_a_publication(void **unused) {
	(void)unused;
	for (int k = 0; k <= 4; k++) {
		struct weir_config *config = lab_config(2, 3), *next = lab_config(3, 4);
		uint16_t ids[LAB_TABLE_SIZE], expected[LAB_TABLE_SIZE];
		struct weir_roots *roots, before;
		weir_ref selection0, selection1;
		struct lab lab;

		lab_remove_backend(next, 0, 0);
		next->services[1].backends[1].address.bytes[3] = 99;
		lab_open(&lab, NULL);
		roots = lab.segment->roots;
		lab_apply(&lab, config);
		before = *roots;
		selection0 = roots->selection[0];
		selection1 = roots->selection[1];
		lab_apply(&lab, next);
		copy_selection(&lab, 1, expected);
		// The worker has not reported: everything of before is still there.
		if (k < 4) {
			roots->services = before.services;
		}
		if (k < 3) {
			roots->selection[0] = selection0;
			roots->selection[1] = selection1;
			roots->selection[2] = 0;
		}
		if (k < 2) {
			roots->backends = before.backends;
		}
		if (k < 1) {
			roots->identity = before.identity;
		}
		lab_restart(&lab);
		lab_apply(&lab, next);
		copy_selection(&lab, 1, ids);
		if (k > 0) {
			assert_memory_equal(ids, expected, sizeof(ids));
		}
		lab_settle(&lab);
		assert_int_equal(lab_row(&lab, 0).flags, 0);
		assert_int_equal(lab_id(&lab, "s0", "b1"), 1);
		assert_int_equal(weir_tables_publish(lab.tables), 0);
		for (uint16_t id = 0; id < weir_tables_backend_ids(lab.tables); id++) {
			struct weir_backend_state state;

			if (weir_tables_backend(lab.tables, id, &state) == 0) {
				assert_false(state.leaving);
				assert_true(lab_row(&lab, id).flags & WEIR_BACKEND_PRESENT);
				assert_true(lab_slots(&lab, state.service_id, id) > 0);
			}
		}
		lab_close(&lab);
		lab_config_free(config);
		lab_config_free(next);
	}
}

static void random_bytes(uint8_t *bytes, uint64_t n, int density) {
	for (uint64_t i = 0; i < n; i++) {
		if (rand() % density == 0) {
			bytes[i] = (uint8_t)rand();
		}
	}
}

// Whatever the identity and the rows say: nothing crashes, and the configuration comes true.
static void broken_identity_is_survived(void **unused) {
	struct weir_config *config = lab_config(3, 4);

	(void)unused;
	srand(11);
	for (int turn = 0; turn < 300; turn++) {
		struct weir_identity *identity;
		struct weir_backend_table *rows;
		struct weir_writer *writer;
		struct lab lab;
		int density = 1 << (turn % 12);

		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		writer = weir_tables_writer(lab.tables);
		identity = (void *)(uintptr_t)weir_writer_current(
			writer, (struct weir_root){.kind = WEIR_BLOB_IDENTITY});
		rows = (void *)(uintptr_t)weir_writer_current(
			writer, (struct weir_root){.kind = WEIR_BLOB_BACKENDS});
		random_bytes((uint8_t *)(&identity->blob + 1),
			identity->blob.bytes - sizeof(identity->blob), density);
		random_bytes((uint8_t *)(&rows->blob + 1), rows->blob.bytes - sizeof(rows->blob),
			density);
		lab_restart(&lab);
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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(s3_restart_with_the_same_configuration_publishes_nothing),
		cmocka_unit_test(s3_restart_with_another_configuration_keeps_ids),
		cmocka_unit_test(s3_restart_keeps_ids_of_leaving_backends_reserved),
		cmocka_unit_test(s3_death_between_two_stores_of_a_publication),
		cmocka_unit_test(broken_identity_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
