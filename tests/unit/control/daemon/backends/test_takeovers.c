// SPDX-License-Identifier: BSD-3-Clause
//
// Tests takeovers with real tables: one log line and one event when backups begin to get new flows,
// and when they cease to.
#include <stdlib.h>
#include <string.h>

#include "tables_lab.h"
#include "takeovers.h"

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3; b3 is a backup
	struct weir_log log;
	struct weir_states *states;
};

static void on_changed(void *context) {
	(void)context;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	own->config->services[0].backup_below_percent = 50;
	own->config->services[0].backends[3].backup = true;
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_create(&own->log, on_changed, NULL, &own->states), 0);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_states_free(own->states);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

TEST_EACH(setup, teardown);

static void set_admin(struct own *own, const char *backend, enum weir_admin_state admin) {
	weir_tables_set_admin(own->lab.tables, lab_id(&own->lab, "s0", backend), admin);
	lab_publish(&own->lab);
	weir_takeovers_note(&own->log, own->states, own->lab.tables);
}

static void assert_event(struct own *own, uint32_t n, const char *why) {
	struct weir_states_change change;

	assert_true(weir_states_history(own->states, n, &change));
	assert_string_equal(change.service, "s0");
	assert_string_equal(change.backend, "");
	assert_string_equal(change.source, "backups");
	assert_string_equal(change.why, why);
}

static uint32_t count_events(const struct own *own) {
	struct weir_states_change change;
	uint32_t n = 0;

	while (weir_states_history(own->states, n, &change)) {
		n++;
	}
	return n;
}

TEST(begin_and_end_are_one_event_each) {
	struct own *own = *state;

	set_admin(own, "b0", WEIR_ADMIN_DRAIN);
	assert_int_equal(count_events(own), 0);
	set_admin(own, "b1", WEIR_ADMIN_DRAIN);
	assert_event(own, 0, "runs on its backups: 1 of 3 primary backends is eligible");
	set_admin(own, "b2", WEIR_ADMIN_DRAIN);
	assert_int_equal(count_events(own), 1);
	set_admin(own, "b2", WEIR_ADMIN_READY);
	set_admin(own, "b1", WEIR_ADMIN_READY);
	assert_event(own, 0, "no longer runs on its backups: 2 of 3 primary backends are eligible");
	assert_int_equal(count_events(own), 2);
}

TEST(end_without_eligible_backups) {
	struct own *own = *state;

	set_admin(own, "b0", WEIR_ADMIN_DRAIN);
	set_admin(own, "b1", WEIR_ADMIN_DRAIN);
	set_admin(own, "b2", WEIR_ADMIN_DRAIN);
	set_admin(own, "b3", WEIR_ADMIN_DRAIN);
	assert_event(own, 0, "no longer runs on its backups: 0 of 1 backup is eligible");
}

TEST(without_tables_nothing_happens) {
	struct own *own = *state;

	weir_takeovers_note(&own->log, own->states, NULL);
	assert_int_equal(count_events(own), 0);
}

TEST(a_service_that_lost_its_primaries) {
	struct own *own = *state;
	struct weir_config *less = lab_config_copy(own->config);

	for (int i = 0; i < 3; i++) {
		lab_remove_backend(less, 0, 0);
	}
	lab_apply(&own->lab, less);
	weir_takeovers_note(&own->log, own->states, own->lab.tables);
	assert_event(own, 0, "runs on its backups: the service has no primary backends");
	lab_config_free(own->config);
	own->config = less;
}
