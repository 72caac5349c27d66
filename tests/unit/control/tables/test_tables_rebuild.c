// SPDX-License-Identifier: BSD-3-Clause
//
// Backends are added or removed, and selections are built in steps. Tests the cost of a change, and
// the tables that workers use until the new selection is published. The final table must equal the
// table of an instance that got all changes at once.
#include "tables_lab.h"

#include <stdlib.h>
#include <string.h>

#define MANY 3000u
#define SLOTS 65537u

static void open_many(struct lab *lab, struct weir_config **ret_config, uint8_t policy) {
	struct lab_room room = {.max_services = 4, .max_backends = 4096, .heap_bytes = 256u << 20};
	struct weir_config *config = lab_config(1, MANY);

	config->services[0].table_size = SLOTS;
	config->services[0].policy.name = policy;
	for (uint32_t i = 0; i < MANY; i++) {
		config->services[0].backends[i].weight = 100 + i % 3;
	}
	lab_open(lab, &room);
	lab_apply(lab, config);
	lab_resolve(lab);
	lab_quiescent(lab);
	assert_false(weir_tables_is_stale(lab->tables));
	*ret_config = config;
}

static void close_many(struct lab *lab, struct weir_config *config) {
	lab_close(lab);
	lab_config_free(config);
}

static void set_health(struct lab *lab, uint16_t id, enum weir_health_state health) {
	assert_int_equal(weir_tables_set_health(lab->tables, id, health), 0);
}

static void build_all(struct lab *lab) {
	int r;

	do {
		r = weir_tables_build(lab->tables);
		assert_true(r >= 0);
	} while (r > 0);
	lab_quiescent(lab);
}

// Check that the arrays from which workers choose backends are equal byte by byte.
static void assert_same_table(struct lab *a, struct lab *b) {
	const struct weir_policy_table *x = &lab_selection(a, 0)->table;
	const struct weir_policy_table *y = &lab_selection(b, 0)->table;

	assert_int_equal(x->count, y->count);
	assert_int_equal(x->slot_count, y->slot_count);
	assert_int_equal(x->round_count, y->round_count);
	assert_memory_equal(x->candidates, y->candidates, x->count * sizeof(x->candidates[0]));
	assert_memory_equal(x->slots, y->slots, x->slot_count * sizeof(x->slots[0]));
	assert_memory_equal(x->rounds, y->rounds, x->round_count * sizeof(x->rounds[0]));
}

static bool is_closed(struct lab *lab, uint16_t id) {
	return (lab_row(lab, id).flags & WEIR_BACKEND_CLOSED) != 0;
}

TEST(change_of_a_backend_costs_one_backend) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_config *config;
		struct lab lab;

		open_many(&lab, &config, (uint8_t)policy);
		for (uint16_t id = 0; id < 200; id++) {
			struct weir_tables_work before = weir_tables_work(lab.tables), after;
			uint64_t generation = lab_selection(&lab, 0)->generation;
			uint64_t publications = lab.control->notes->publications;

			set_health(&lab, id / 2,
				id % 2 == 0 ? WEIR_HEALTH_REFUSING : WEIR_HEALTH_HEALTHY);
			assert_true(weir_tables_publish(lab.tables) > 0);
			after = weir_tables_work(lab.tables);
			assert_int_equal(after.backends - before.backends, 1);
			assert_int_equal(after.slots, before.slots);
			assert_int_equal(
				// only the row of the backend is published
				lab.control->notes->publications - publications, 1);
			assert_int_equal(lab_selection(&lab, 0)->generation, generation);
			assert_int_equal(is_closed(&lab, id / 2), id % 2 == 0);
			assert_int_equal(lab_state(&lab, id / 2).in_selection, id % 2 != 0);
		}
		// All backends are healthy again, so no selection has to be built.
		build_all(&lab);
		assert_false(weir_tables_is_stale(lab.tables));
		close_many(&lab, config);
	}
}

TEST(steps_are_small) {
	struct weir_config *config;
	uint32_t steps = 0;
	struct lab lab;
	int r;

	open_many(&lab, &config, WEIR_POLICY_MAGLEV);
	set_health(&lab, 7, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	do {
		struct weir_tables_work before = weir_tables_work(lab.tables), after;

		r = weir_tables_build(lab.tables);
		after = weir_tables_work(lab.tables);
		assert_true(after.backends - before.backends <= 8192);
		assert_true(after.slots - before.slots <= SLOTS);
		steps++;
	} while (r > 0);
	assert_int_equal(r, 0);
	assert_in_range(steps, SLOTS / 4096, SLOTS / 4096 + 12);
	close_many(&lab, config);
}

// One host serves a hundred services with small tables. A publication builds a few of the tables.
// The other tables are built in steps.
TEST(one_publication_builds_few_of_many_small_tables) {
	struct lab_room room = {.max_services = 128, .max_backends = 512, .heap_bytes = 64u << 20};
	struct weir_config *config = lab_config(100, 4);
	struct weir_tables_work before, after;
	struct lab lab;

	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	lab_quiescent(&lab);
	before = weir_tables_work(lab.tables);
	for (uint16_t id = 0; id < 400; id += 4) {
		weir_tables_set_drain(lab.tables, id, WEIR_DRAIN_DRAINING, 0);
	}
	assert_true(weir_tables_publish(lab.tables) > 0);
	after = weir_tables_work(lab.tables);
	assert_in_range(after.slots - before.slots, 1, 8 * LAB_TABLE_SIZE);
	for (uint16_t id = 0; id < 400; id++) {
		assert_int_equal(is_closed(&lab, id), id % 4 == 0);
	}
	build_all(&lab);
	assert_false(weir_tables_is_stale(lab.tables));
	for (uint16_t id = 0; id < 400; id += 4) {
		assert_int_equal(lab_slots(&lab, id / 4, id), 0);
	}
	close_many(&lab, config);
}

TEST(table_equals_the_one_built_at_once) {
	uint64_t random = 1;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_config *config, *other_config;
		struct lab lab, other;

		open_many(&lab, &config, (uint8_t)policy);
		open_many(&other, &other_config, (uint8_t)policy);
		for (uint32_t i = 0; i < 500; i++) {
			uint16_t id =
				(uint16_t)((random = random * 6364136223846793005ull + 1) >> 33) %
				300;
			enum weir_health_state health =
				random >> 62 != 0 ? WEIR_HEALTH_REFUSING : WEIR_HEALTH_HEALTHY;

			set_health(&lab, id, health);
			set_health(&other, id, health);
			weir_tables_publish(lab.tables);
			if (i % 7 == 0) { // while a table is being built
				assert_true(weir_tables_build(lab.tables) >= 0);
			}
		}
		build_all(&lab);
		// A new configuration is published completely, at once.
		lab_apply(&other, other_config);
		lab_quiescent(&other);
		assert_true(lab_selection(&lab, 0)->table.count < MANY);
		assert_same_table(&lab, &other);
		assert_int_equal(weir_tables_backend_parts(lab.tables, 299),
			weir_tables_backend_parts(other.tables, 299));
		close_many(&lab, config);
		close_many(&other, other_config);
	}
}

// Guarantee S3: a control process exits after it has published the row, and before it has published
// the selection. The next process builds the selection.
TEST(s3_next_control_process_builds_the_rest) {
	struct weir_config *config;
	struct lab lab;

	open_many(&lab, &config, WEIR_POLICY_MAGLEV);
	set_health(&lab, 7, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	weir_tables_build(lab.tables);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY);
	lab_restart(&lab);
	lab_apply(&lab, config);
	lab_quiescent(&lab);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY - 1);
	assert_int_equal(lab_slots(&lab, 0, 7), 0);
	assert_false(weir_tables_is_stale(lab.tables));
	close_many(&lab, config);
}

// After each change, control determines at once whether panic mode applies. A table whose
// candidates are mostly closed is replaced at once. So even while many backends fail, at least half
// of the candidates of the published table are open.
TEST(panic_and_mass_failures_do_not_wait) {
	struct weir_config *config;
	struct lab lab;

	open_many(&lab, &config, WEIR_POLICY_MAGLEV);
	config->services[0].panic_threshold_percent = 10;
	for (uint16_t id = 0; id < MANY; id++) {
		const struct weir_policy_table *table;
		uint32_t open = 0;

		set_health(&lab, id, WEIR_HEALTH_REFUSING);
		if (id % 50 != 0) {
			continue;
		}
		weir_tables_publish(lab.tables);
		table = &lab_selection(&lab, 0)->table;
		for (uint32_t i = 0; i < table->count; i++) {
			open += !is_closed(&lab, table->candidates[i].id);
		}
		assert_true(2 * open >= table->count);
		assert_true(open > 0);
		lab_quiescent(&lab);
	}
	weir_tables_publish(lab.tables);
	// in panic mode all backends are used
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY);
	assert_false(is_closed(&lab, 5));
	close_many(&lab, config);
}

static uint32_t count_open(struct lab *lab) {
	const struct weir_policy_table *table = &lab_selection(lab, 0)->table;
	uint32_t open = 0;

	for (uint32_t i = 0; i < table->count; i++) {
		open += !is_closed(lab, table->candidates[i].id);
	}
	return open;
}

// A table is being built. Meanwhile all of its backends fail, and the other half of the backends
// becomes healthy. The new table is not published, because all of its candidates would be closed.
TEST(table_of_closed_backends_is_not_published) {
	struct weir_config *config;
	struct lab lab;
	int r;

	open_many(&lab, &config, WEIR_POLICY_ROUND_ROBIN);
	config->services[0].panic_threshold_percent = 10;
	for (uint16_t id = 0; id < MANY / 2; id++) {
		set_health(&lab, id, WEIR_HEALTH_REFUSING);
	}
	weir_tables_publish(lab.tables);
	for (uint32_t i = 0; i < 3; i++) { // the members of the service are collected
		assert_int_equal(weir_tables_build(lab.tables), 1);
	}
	for (uint16_t id = 0; id < MANY / 2; id++) {
		set_health(&lab, id, WEIR_HEALTH_HEALTHY);
		set_health(&lab, (uint16_t)(id + MANY / 2), WEIR_HEALTH_REFUSING);
		weir_tables_publish(lab.tables);
		assert_int_equal(count_open(&lab), MANY / 2);
	}
	do {
		r = weir_tables_build(lab.tables);
		assert_int_equal(count_open(&lab), MANY / 2);
	} while (r > 0);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY / 2);
	assert_false(weir_tables_is_stale(lab.tables));
	close_many(&lab, config);
}

// One backend has most of the slots, and closes. Workers would not find an open backend in the
// slots that follow, so the table is replaced at once.
TEST(table_with_mostly_closed_slots_is_replaced_at_once) {
	struct weir_config *config;
	struct lab lab;

	open_many(&lab, &config, WEIR_POLICY_MAGLEV);
	assert_int_equal(weir_tables_set_weight(lab.tables, 7, 400000), 0);
	weir_tables_publish(lab.tables);
	lab_quiescent(&lab);
	assert_true(2 * lab_slots(&lab, 0, 7) > SLOTS);
	set_health(&lab, 8, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	assert_true(weir_tables_is_stale(lab.tables));
	set_health(&lab, 7, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_slots(&lab, 0, 7), 0);
	assert_int_equal(weir_tables_build(lab.tables), 0);
	close_many(&lab, config);
}

// For one flow, workers examine at most WEIR_POLICY_SEARCH candidates. With weights, closed
// candidates may follow one another. So a table with WEIR_POLICY_SEARCH closed candidates is
// replaced at once.
TEST(table_with_too_many_closed_backends_is_replaced_at_once) {
	struct lab_room room = {.max_services = 4, .max_backends = 16384, .heap_bytes = 256u << 20};
	struct weir_config *config = lab_config(1, 3 * WEIR_POLICY_SEARCH);
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	lab_quiescent(&lab);
	for (uint16_t id = 0; id < WEIR_POLICY_SEARCH - 1; id++) {
		set_health(&lab, id, WEIR_HEALTH_REFUSING);
	}
	weir_tables_publish(lab.tables);
	assert_true(weir_tables_is_stale(lab.tables));
	set_health(&lab, WEIR_POLICY_SEARCH, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_selection(&lab, 0)->table.count, 2 * WEIR_POLICY_SEARCH);
	assert_int_equal(weir_tables_build(lab.tables), 0);
	close_many(&lab, config);
}

// A worker is stalled, so the heap fills up and a selection cannot be published. Control tries to
// publish it again after the next change. Until then, control does not build the selection in
// steps, because the result could not be published either.
TEST(selection_that_waits_for_memory_is_not_built_in_steps) {
	struct lab_room room = {.max_services = 4, .max_backends = 4096, .heap_bytes = 4u << 20};
	struct weir_config *config = lab_config(1, MANY);
	uint32_t weight = 100;
	struct lab lab;

	config->services[0].table_size = SLOTS;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	lab_quiescent(&lab);
	do {
		assert_true(weight < 1000);
		set_health(&lab, (uint16_t)++weight, WEIR_HEALTH_REFUSING);
		assert_true(weir_tables_publish(lab.tables) > 0);
		assert_true(weir_tables_is_stale(lab.tables));
		assert_int_equal(weir_tables_set_weight(lab.tables, 9, weight), 0);
	} while (weir_tables_publish(lab.tables) >= 0);
	for (uint32_t i = 0; i < 3 && weir_tables_build(lab.tables) > 0; i++) {
		;
	}
	assert_int_equal(weir_tables_build(lab.tables), 0);
	lab_quiescent(&lab);
	lab_settle(&lab);
	assert_false(weir_tables_is_stale(lab.tables));
	close_many(&lab, config);
}

// During a build, a weight changes, a new configuration is applied, or a backend is removed. The
// publication of such a change replaces the build.
TEST(other_changes_replace_a_build_in_progress) {
	struct weir_config *config, *fewer;
	uint64_t generation;
	struct lab lab;

	open_many(&lab, &config, WEIR_POLICY_MAGLEV);
	set_health(&lab, 7, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	weir_tables_build(lab.tables);
	weir_tables_build(lab.tables);
	assert_int_equal(weir_tables_set_weight(lab.tables, 9, 250), 0);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY - 1);
	generation = lab_selection(&lab, 0)->generation;
	build_all(&lab);
	assert_int_equal(lab_selection(&lab, 0)->generation, generation);
	set_health(&lab, 8, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	weir_tables_build(lab.tables);
	weir_tables_build(lab.tables);
	fewer = lab_config_copy(config);
	lab_remove_backend(fewer, 0, 11);
	lab_apply(&lab, fewer);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY - 3);
	build_all(&lab);
	lab_settle(&lab);
	assert_int_equal(lab_selection(&lab, 0)->table.count, MANY - 3);
	lab_close(&lab);
	lab_config_free(fewer);
	lab_config_free(config);
}
