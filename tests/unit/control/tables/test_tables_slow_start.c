// SPDX-License-Identifier: BSD-3-Clause
//
// slow_start.c: which backends are in slow start and since when, and the values that workers use
// and users see.
#include "tables_lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MS 30000u
#define START_MS 1000000u // an arbitrary time

static struct weir_config *config_of(enum weir_policy policy, uint32_t backends) {
	struct weir_config *config = lab_config(1, backends);

	config->services[0].policy.name = policy;
	config->services[0].health_check.type = WEIR_CHECK_TCP;
	config->services[0].slow_start = (struct weir_config_slow_start){
		.window_ms = WINDOW_MS, .aggression = 1, .min_weight_percent = 10};
	return config;
}

static void set_health(struct lab *lab, uint16_t id, enum weir_health_state health) {
	assert_int_equal(weir_tables_set_health(lab->tables, id, health), 0);
	assert_true(weir_tables_publish(lab->tables) >= 0);
}

// Set the clock to this time. Returns the number of publications.
static uint32_t at(struct lab *lab, uint64_t ms) {
	weir_tables_clock(lab->tables, START_MS + ms);
	return lab_publish(lab);
}

static double part(struct lab *lab, uint16_t id) {
	struct weir_policy_share share = weir_reader_share(lab->segment, id);

	assert_int_equal(share.part, lab_state(lab, id).share.part);
	assert_int_equal(share.part != 0, share.turns != 0);
	return share.part != 0 ? (double)share.part / WEIR_POLICY_PART_ONE : 1;
}

// Opens a service with four backends that have been in service for a long time. A fifth backend is
// not in service yet.
static void open_with(struct lab *lab, struct weir_config *config) {
	lab_open(lab, NULL);
	weir_tables_clock(lab->tables, START_MS - 10 * WINDOW_MS);
	lab_apply(lab, config);
	for (uint16_t id = 0; id < 4; id++) {
		set_health(lab, id, WEIR_HEALTH_HEALTHY);
	}
	at(lab, 0);
}

// For each policy, the share of the backend grows during the window. The values for workers and the
// shown values are compared.
TEST(share_grows_within_the_window) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_config *config = config_of((enum weir_policy)policy, 5);
		bool slots = policy == WEIR_POLICY_MAGLEV;
		struct lab lab;

		config->services[0].table_size = 4093;
		open_with(&lab, config);
		set_health(&lab, 4, WEIR_HEALTH_HEALTHY);
		for (uint64_t ms = 0; ms < WINDOW_MS + 2000; ms += 500) {
			double wanted = fmin(fmax((double)ms / WINDOW_MS, 0.1), 1), got;
			uint64_t parts = weir_tables_backend_parts(lab.tables, 4);
			uint64_t others = weir_tables_backend_parts(lab.tables, 0);

			at(&lab, ms);
			got = part(&lab, 4);
			if (got < 0.85 * wanted || got > 1.15 * wanted) {
				fail_msg("%s: part %.3f after %u ms",
					weir_policy_name((enum weir_policy)policy), got,
					(unsigned int)ms);
			}
			for (uint16_t id = 0; id < 4; id++) {
				assert_true(part(&lab, id) == 1);
			}
			parts = weir_tables_backend_parts(lab.tables, 4);
			others = weir_tables_backend_parts(lab.tables, 0);
			got = (double)parts / (double)others;
			if (got < 0.8 * wanted || got > 1.2 * wanted) {
				fail_msg("%s: shown share %.3f after %u ms",
					weir_policy_name((enum weir_policy)policy), got,
					(unsigned int)ms);
			}
			if (slots) {
				got = (double)lab_slots(&lab, 0, 4) / lab_slots(&lab, 0, 0);
				assert_true(got > 0.8 * wanted && got < 1.2 * wanted);
			}
		}
		assert_true(part(&lab, 4) == 1);
		assert_int_equal(lab.control->identity_backends[4].slow_start_ms, 0);
		assert_int_equal(at(&lab, 4 * WINDOW_MS), 0);
		lab_close(&lab);
		lab_config_free(config);
	}
}

// In each step only the rows of backends in slow start are published. The selection is rebuilt only
// if the policy uses a table of slots.
TEST(steps_need_rows) {
	struct weir_config *config = config_of(WEIR_POLICY_LEAST_LOADED, 5);
	uint32_t published = 0, steps = 0;
	struct lab lab;

	open_with(&lab, config);
	set_health(&lab, 4, WEIR_HEALTH_HEALTHY);
	for (uint64_t ms = 0; ms < WINDOW_MS + 2000; ms += 100) {
		uint32_t n = at(&lab, ms);

		assert_true(n <= 2); // n counts the row, and sometimes its stored identity
		published += n;
		steps += n > 0;
	}
	assert_in_range(steps, 45, 61); // in the first steps the share stays at its minimum
	assert_in_range(published, steps, steps + 2);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(if_all_are_new_each_has_its_full_share) {
	struct weir_config *config = config_of(WEIR_POLICY_FAIR_SHARE, 5);
	struct lab lab;

	lab_open(&lab, NULL);
	weir_tables_clock(lab.tables, START_MS);
	lab_apply(&lab, config);
	for (uint16_t id = 0; id < 4; id++) {
		set_health(&lab, id, WEIR_HEALTH_HEALTHY);
		at(&lab, 100 * (id + 1));
	}
	for (uint64_t ms = 0; ms < 15000; ms += 1000) {
		at(&lab, ms);
		for (uint16_t id = 0; id < 4; id++) {
			assert_true(part(&lab, id) > 0.85);
		}
	}
	// Another backend starts half a window later. Its factor is 0.1, a fifth of the factor 0.5
	// of the other backends.
	set_health(&lab, 4, WEIR_HEALTH_HEALTHY);
	assert_true(fabs(part(&lab, 4) - 0.2) < 0.02);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(returning_backends_start_again) {
	struct weir_config *config = config_of(WEIR_POLICY_ROUND_ROBIN, 5), *off;
	struct lab lab;

	off = lab_config_copy(config);
	off->services[0].slow_start.window_ms = 0;
	open_with(&lab, config);
	assert_true(part(&lab, 1) == 1);
	set_health(&lab, 1, WEIR_HEALTH_REFUSING);
	at(&lab, 5000);
	set_health(&lab, 1, WEIR_HEALTH_HEALTHY);
	assert_true(fabs(part(&lab, 1) - 0.1) < 0.01);
	set_health(&lab, 2, WEIR_HEALTH_LAME_DUCK);
	weir_tables_set_admin(lab.tables, 3, WEIR_ADMIN_DRAIN);
	at(&lab, 20000);
	assert_true(fabs(part(&lab, 1) - 0.5) < 0.05);
	set_health(&lab, 2, WEIR_HEALTH_HEALTHY);
	weir_tables_set_admin(lab.tables, 3, WEIR_ADMIN_READY);
	lab_publish(&lab);
	assert_true(fabs(part(&lab, 2) - 0.1) < 0.01);
	assert_true(fabs(part(&lab, 3) - 0.1) < 0.01);
	// The backend fails again during its slow start.
	set_health(&lab, 1, WEIR_HEALTH_REFUSING);
	assert_true(part(&lab, 1) == 1);
	at(&lab, 30000);
	set_health(&lab, 1, WEIR_HEALTH_HEALTHY);
	assert_true(fabs(part(&lab, 1) - 0.1) < 0.01);
	// If slow start is disabled, no backend is in slow start.
	lab_apply(&lab, off);
	for (uint16_t id = 0; id < 4; id++) {
		assert_true(part(&lab, id) == 1);
	}
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(off);
}

// After a restart of control, backends that have been in service for a long time do not begin a
// slow start. Slow starts that had begun continue.
TEST(restart_of_control_starts_nothing_again) {
	struct weir_config *config = config_of(WEIR_POLICY_MAGLEV, 5);
	struct lab_published before;
	struct lab lab;

	open_with(&lab, config);
	set_health(&lab, 4, WEIR_HEALTH_HEALTHY);
	at(&lab, 15000);
	lab_published(&lab, &before);
	lab_restart(&lab);
	weir_tables_clock(lab.tables, START_MS + 15100);
	lab_apply(&lab, config);
	lab_publish(&lab);
	for (uint16_t id = 0; id < 4; id++) {
		assert_true(part(&lab, id) == 1);
	}
	assert_true(fabs(part(&lab, 4) - 0.5) < 0.05);
	assert_true(before.selection[0] == lab.control->roots->selection[0]);
	at(&lab, 24000);
	assert_true(fabs(part(&lab, 4) - 0.8) < 0.05);
	at(&lab, 31000);
	assert_true(part(&lab, 4) == 1);
	// With another dataplane, no slow start begins again.
	set_health(&lab, 4, WEIR_HEALTH_REFUSING);
	set_health(&lab, 4, WEIR_HEALTH_HEALTHY);
	at(&lab, 46000);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	lab_worker_stop(&lab);
	weir_segment_free(lab.control);
	weir_segment_free(lab.segment);
	lab.segment = lab_segment(NULL);
	lab.control = lab_attach(lab.segment);
	lab_worker_start(&lab);
	assert_int_equal(weir_tables_rebind(lab.tables, lab.control), 0);
	for (uint16_t id = 0; id < 4; id++) {
		assert_true(part(&lab, id) == 1);
	}
	assert_true(fabs(part(&lab, 4) - 0.5) < 0.05);
	lab_close(&lab);
	lab_config_free(config);
}
