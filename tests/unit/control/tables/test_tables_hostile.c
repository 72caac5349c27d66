// SPDX-License-Identifier: BSD-3-Clause
//
// A compromised control process has left tables and identities that are valid, but fill the
// segment. The next process must work nevertheless. Invalid tables are tested in
// test_tables_adopt.c.
#include "tables_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blob.h"

#define UNKNOWN 60 // id of a service that is in no configuration

// Make a valid blob of this size at the offset `at` of the heap.
static weir_ref claim_heap(
	const struct lab *lab, const struct weir_blob *like, uint64_t at, uint64_t bytes) {
	uint64_t offset = lab->control->heap_off + at;
	struct weir_blob *blob = (struct weir_blob *)(void *)(lab->control->tables + offset);

	memcpy(blob, like, 64);
	blob->lines = (uint32_t)(bytes / 64);
	blob->generation = 77;
	return weir_ref_make(77, offset);
}

static struct weir_selection selection_of(uint16_t service) {
	return (struct weir_selection){.blob = {.kind = WEIR_BLOB_SELECTION},
		.service = service,
		.subsets = 1,
		.others_off = 64,
		.settings = {.policy = WEIR_POLICY_MAGLEV,
			.needs = weir_policy_needs(WEIR_POLICY_MAGLEV),
			.error_window_ms = 1000},
		.first = {.candidates_off = 64, .slots_off = 64, .rounds_off = 64}};
}

static uint64_t used_bytes(const struct lab *lab) {
	struct weir_writer_usage usage;

	weir_writer_usage(weir_tables_writer(lab->tables), &usage);
	return usage.used_bytes;
}

// Apply a configuration as the daemon does. If it must be applied again, first wait until the
// worker has released the replaced tables.
static void apply_patiently(struct lab *lab, const struct weir_config *config) {
	char why[256] = "";
	int r = weir_tables_apply(lab->tables, config, why, sizeof(why));

	if (r == -EBUSY) {
		lab_quiescent(lab);
		assert_false(weir_tables_wait(lab->tables));
		r = weir_tables_apply(lab->tables, config, why, sizeof(why));
	}
	if (r < 0) {
		fail_msg("%d: %s", r, why);
	}
}

// Check that the next control process publishes its configuration as it would in an empty segment.
static void assert_next_works(struct lab *lab, const struct weir_config *config) {
	bool retry;

	lab_restart(lab);
	lab_quiescent(lab);
	apply_patiently(lab, config);
	for (int i = 0; i < 4 && weir_tables_waiting(lab->tables, &retry) > 0; i++) {
		lab_settle(lab);
		(void)weir_tables_waiting(lab->tables, &retry);
		assert_true(retry);
		lab_apply(lab, config);
	}
	assert_int_equal(weir_tables_waiting(lab->tables, &retry), 0);
	lab_settle(lab);
	for (uint32_t s = 0; s < config->service_count; s++) {
		int service = weir_tables_service_find(lab->tables, config->services[s].name);

		assert_true(service >= 0);
		for (uint32_t b = 0; b < config->services[s].backend_count; b++) {
			uint16_t id = lab_id(lab, config->services[s].name,
				config->services[s].backends[b].name);

			assert_true(lab_slots(lab, (uint16_t)service, id) > 0);
		}
	}
	lab_settle(lab);
	assert_int_equal(lab->reader.refusals.refused, 0);
	assert_false(weir_tables_wait(lab->tables));
	assert_true(used_bytes(lab) < 1 << 20);
}

// --- the heap -----------------------------------------------------------------------------

TEST(unknown_service_does_not_occupy_the_heap) {
	struct weir_config *config = lab_config(3, 4);
	const struct weir_selection empty = selection_of(UNKNOWN);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab.control->roots->selection[UNKNOWN] =
		claim_heap(&lab, &empty.blob, 1 << 20, lab.control->heap_bytes - (1 << 20));
	assert_next_works(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(known_service_does_not_occupy_the_heap) {
	struct weir_config *config = lab_config(3, 4);
	const struct weir_selection empty = selection_of(1);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	memset(lab.control->roots->selection, 0, 3 * sizeof(weir_ref));
	lab.control->roots->services = 0;
	lab.control->roots->selection[1] =
		claim_heap(&lab, &empty.blob, 0, lab.control->heap_bytes);
	assert_next_works(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(service_table_does_not_occupy_the_heap) {
	struct weir_config *config = lab_config(3, 4);
	const struct weir_service_table empty = {.blob = {.kind = WEIR_BLOB_SERVICES},
		.buckets = 2,
		.buckets_off = 64,
		.ranges_off = 128};
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	memset(lab.control->roots->selection, 0, 3 * sizeof(weir_ref));
	lab.control->roots->services = claim_heap(&lab, &empty.blob, 0, lab.control->heap_bytes);
	assert_next_works(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

// A worker would refuse this table again and again, and no grace period would end. So control
// withdraws it.
TEST(broken_table_of_an_unknown_service_is_withdrawn) {
	const weir_ref broken = weir_ref_make(5, 64);
	struct weir_config *config = lab_config(3, 4);
	struct weir_tables_refusal refusal;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab.control->roots->selection[UNKNOWN] = broken;
	assert_next_works(&lab, config);
	// The broken table appears while the process runs.
	lab.control->roots->selection[UNKNOWN] = broken;
	lab.control->updates->update[lab.control->news->updates % WEIR_UPDATES] =
		weir_update(WEIR_UPDATE_SELECTION, UNKNOWN);
	lab.control->news->updates++;
	lab_quiescent(&lab);
	assert_int_equal(lab.reader.refusals.refused, 1);
	assert_true(weir_tables_refused(lab.tables, &refusal));
	lab_settle(&lab);
	assert_int_equal(lab.reader.refusals.refused, 0);
	lab_close(&lab);
	lab_config_free(config);
}

// A table is broken, and the heap is full. Memory does not become free while workers refuse a
// table.
TEST(broken_table_and_full_heap_are_survived) {
	struct weir_config *config = lab_config(3, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab.control->roots->services = weir_ref_make(5, 64);
	lab.control->roots->selection[0] = weir_ref_make(5, 64);
	lab.control->roots->selection[1] = weir_ref_make(6, 64);
	lab.control->roots->selection[2] = 0;
	// the whole heap is in use, so no memory is free before the end of a grace period
	lab.control->notes->heap_used = lab.control->heap_bytes;
	lab_restart(&lab);
	lab_quiescent(&lab);
	assert_int_equal(lab.reader.refusals.refused, 3);
	apply_patiently(&lab, config);
	lab_settle(&lab);
	assert_int_equal(lab.reader.refusals.refused, 0);
	assert_false(weir_tables_wait(lab.tables));
	lab_close(&lab);
	lab_config_free(config);
}

// --- ids ----------------------------------------------------------------------------------

static void all_backend_ids_are_given(uint32_t state) {
	struct weir_config *config = lab_config(3, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint32_t id = 0; id < lab.control->max_backends; id++) {
		struct weir_identity_backend *to = &lab.control->identity_backends[id];

		memset(to, 0, sizeof(*to));
		snprintf(to->name, sizeof(to->name), "other-%u", id);
		to->family = 4;
		to->address[0] = 10;
		to->state = state;
	}
	lab.control->notes->backend_ids = lab.control->max_backends;
	assert_next_works(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(given_backend_ids_become_free) {
	all_backend_ids_are_given(WEIR_IDENTITY_USED);
	all_backend_ids_are_given(WEIR_IDENTITY_USED | 1u << 24); // the ids are being removed
}

TEST(given_service_ids_become_free) {
	struct weir_config *config = lab_config(3, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint32_t id = 0; id < lab.control->max_services; id++) {
		struct weir_identity_service *to = &lab.control->identity_services[id];

		memset(to, 0, sizeof(*to));
		snprintf(to->name, sizeof(to->name), "other-%u", id);
		to->state = WEIR_IDENTITY_USED;
	}
	lab.control->notes->service_ids = lab.control->max_services;
	assert_next_works(&lab, config);
	lab_close(&lab);
	lab_config_free(config);
}

// Not all backends can get an id, because ids are in use by flows. Backends with an id are
// published at once. The other backends are published when ids become free.
TEST(backends_without_ids_wait_for_flows) {
	const struct lab_room room = {.max_backends = 6};
	struct weir_config *config = lab_config(1, 4), *next = lab_config(1, 6);
	struct lab lab;
	bool retry;

	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 0, 0, 1);
	// b1 to b5 need five ids, and b0 still has an id because of its flow
	lab_remove_backend(next, 0, 0);
	lab_restart(&lab);
	next->services[0].backends[4].address.bytes[0] = 11;
	// the new address is another server, which needs another id
	next->services[0].backends[0].address.bytes[0] = 11;
	lab_apply(&lab, next);
	assert_int_equal(weir_tables_waiting(lab.tables, &retry), 1);
	assert_false(retry);
	lab_settle(&lab);
	assert_int_equal(weir_tables_waiting(lab.tables, &retry), 1);
	assert_true(retry); // the id of b1's former address is free
	lab_apply(&lab, next);
	assert_int_equal(weir_tables_waiting(lab.tables, &retry), 0);
	assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_PRESENT); // guarantee S6
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}
