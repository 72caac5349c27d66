// SPDX-License-Identifier: BSD-3-Clause
//
// Tests outlier ejection with real tables: counters cause ejections, and ejections end.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "outliers.h"
#include "tables_lab.h"

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	struct weir_outliers *outliers;
	uint64_t now_ms;
};

static void on_changed(void *context) {
	(void)context;
}

static void turn_on(struct weir_config *config) {
	config->services[0].panic_threshold_percent = 50;
	config->services[0].outlier_ejection =
		(struct weir_config_outlier_ejection){.enabled = true,
			.interval_ms = 10000,
			.base_ejection_ms = 30000,
			.max_ejection_ms = 300000,
			.max_ejection_percent = 50,
			.failure_percent = 85,
			.minimum_flows = 50,
			.consecutive_failures = 5};
}

static void reload(struct own *own, struct weir_config *config) {
	lab_apply(&own->lab, config);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, config), 0);
	assert_int_equal(weir_outliers_follow(own->outliers, own->lab.tables, config), 0);
	lab_publish(&own->lab);
	if (own->config != config) {
		lab_config_free(own->config);
	}
	own->config = config;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->now_ms = 1000000;
	own->config = lab_config(1, 4);
	turn_on(own->config);
	lab_open(&own->lab, NULL);
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	assert_int_equal(weir_outliers_create(&own->log, own->states, &own->outliers), 0);
	// no backend has ejection configured
	assert_false(weir_outliers_second(own->outliers, own->now_ms));
	reload(own, own->config);
	assert_false(weir_outliers_second(own->outliers, own->now_ms));
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_outliers_free(own->outliers);
	weir_states_free(own->states);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

static uint16_t id_of(const struct own *own, uint32_t backend) {
	char name[] = "b0";

	name[1] = (char)('0' + backend);
	return lab_id(&own->lab, "s0", name);
}

// Simulate one second. The `failing` backends (a bitmap) fail 10 connections each, and the other
// backends establish 10 connections each. Each of two workers counts half of the connections.
// Publishes changes. Returns whether anything changed.
static bool second(struct own *own, uint32_t failing) {
	bool changed;

	for (uint32_t b = 0; b < own->config->services[0].backend_count; b++) {
		for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
			struct weir_share_counters *counters = weir_segment_backend_counters(
				own->lab.segment, worker, id_of(own, b));

			weir_counter_add(
				failing >> b & 1 ? &counters->errors : &counters->established, 5);
		}
	}
	own->now_ms += 1000;
	changed = weir_outliers_second(own->outliers, own->now_ms);
	assert_int_equal(lab_publish(&own->lab) > 0, changed);
	return changed;
}

// Returns the ejected backends as a bitmap.
static uint32_t ejected(const struct own *own) {
	uint32_t bits = 0;

	for (uint32_t b = 0; b < own->config->services[0].backend_count; b++) {
		struct weir_backend_state state = lab_state(&own->lab, id_of(own, b));
		struct weir_outliers_status status = {0};

		weir_outliers_status(own->outliers, id_of(own, b), own->now_ms, &status);
		assert_int_equal(state.ejected, status.left_ms > 0);
		assert_false(state.ejected && state.in_selection);
		bits |= (uint32_t)state.ejected << b;
	}
	return bits;
}

TEST_EACH(setup, teardown);

TEST(failing_backend_is_ejected_and_readmitted) {
	struct own *own = *state;
	struct weir_outliers_status status;
	struct weir_states_change change;

	assert_false(second(own, 0));
	assert_true(second(own, 1));
	assert_int_equal(ejected(own), 1);
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.backend, "b0");
	assert_string_equal(change.source, "outliers");
	assert_string_equal(
		change.why, "ejected for 30.0s: consecutive failures, 10 of 10 connections failed");
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 0), own->now_ms, &status), 0);
	assert_int_equal(status.ejections, 1);
	assert_int_equal(status.left_ms, 30000);
	for (uint32_t i = 1; i < 30; i++) {
		assert_false(second(own, 1)); // late failures of an ejected backend
	}
	assert_true(second(own, 0));
	assert_int_equal(ejected(own), 0);
	assert_true(second(own, 1));
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 0), own->now_ms, &status), 0);
	assert_int_equal(status.ejections, 2);
	assert_int_equal(status.left_ms, 60000);
	weir_outliers_readmit(own->outliers, id_of(own, 1));
	weir_outliers_readmit(own->outliers, 9999);
	assert_int_equal(ejected(own), 1);
	weir_outliers_readmit(own->outliers, id_of(own, 0));
	lab_publish(&own->lab);
	assert_int_equal(ejected(own), 0);
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.why, "ejection was ended by an operator");
}

TEST(panic_and_share_limit_ejections) {
	struct own *own = *state;

	// Two of the four backends fail. Both can be ejected, because panic mode does not start
	// while half of the backends remain. After one second, each of the two has failed 10 of 10
	// connections, but the other three backends together have failed 10 of 30 connections. The
	// difference may be random, so no backend is ejected yet.
	second(own, 3);
	assert_int_equal(ejected(own), 0);
	second(own, 3);
	assert_int_equal(ejected(own), 3);
	second(own, 7);
	assert_int_equal(ejected(own), 3);
	for (uint32_t i = 0; i < 40; i++) {
		second(own, 0);
	}
	assert_int_equal(ejected(own), 0);
	weir_tables_set_health(own->lab.tables, id_of(own, 3), WEIR_HEALTH_REFUSING);
	weir_tables_publish(own->lab.tables);
	for (uint32_t i = 0; i < 3; i++) {
		// one backend refuses, so a second ejection would leave only one of four backends
		second(own, 3);
	}
	assert_int_equal(__builtin_popcount(ejected(own) & 3), 1);
}

TEST(ejections_survive_a_reload) {
	struct own *own = *state;
	struct weir_config *less = lab_config(1, 4), *off = lab_config(1, 4);
	struct weir_outliers_status status;

	second(own, 4);
	assert_int_equal(ejected(own), 4);
	turn_on(less);
	lab_remove_backend(less, 0, 0);
	reload(own, less);
	assert_int_equal(lab_state(&own->lab, id_of(own, 2)).ejected, true);
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 2), own->now_ms, &status), 0);
	assert_int_equal(status.ejections, 1);
	assert_int_equal(status.left_ms, 30000);
	reload(own, off);
	assert_int_equal(ejected(own), 0);
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 2), own->now_ms, &status), -ENOENT);
	for (uint32_t i = 0; i < 12; i++) {
		assert_false(second(own, 1));
	}
}

// A new server at another address replaces the failed server, so its backend is not ejected.
TEST(another_address_is_not_ejected) {
	struct own *own = *state;
	struct weir_config *other = lab_config(1, 4);
	struct weir_outliers_status status;

	second(own, 4);
	assert_int_equal(ejected(own), 4);
	turn_on(other);
	other->services[0].backends[2].address.bytes[3] ^= 0x80;
	reload(own, other);
	assert_int_equal(ejected(own), 0);
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 2), own->now_ms, &status), 0);
	assert_int_equal(status.ejections, 0);
}

TEST(single_backend_is_not_ejected) {
	struct own *own = *state;
	struct weir_config *one = lab_config(1, 1);
	struct weir_outliers_status status;

	turn_on(one);
	reload(own, one);
	assert_int_equal(
		weir_outliers_status(own->outliers, id_of(own, 0), own->now_ms, &status), -ENOENT);
	for (uint32_t i = 0; i < 12; i++) {
		assert_false(second(own, 1));
	}
}
