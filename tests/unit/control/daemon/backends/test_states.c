// SPDX-License-Identifier: BSD-3-Clause
//
// Tests states with real tables: reports of backends, reloads, and restarts of either process.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"
#include "states.h"
#include "tables_lab.h"

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	unsigned int changes; // number of changes reported by callback
	unsigned int rechecks;
	uint16_t rechecked; // id of the backend in the last recheck
};

static void on_changed(void *context) {
	struct own *own = context;

	own->changes++;
}

static void on_recheck(void *context, uint16_t backend) {
	struct own *own = context;

	own->rechecks++;
	own->rechecked = backend;
}

static void begin_states(struct own *own) {
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	weir_states_on_recheck(own->states, on_recheck);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	own->config->services[0].health_check.type = WEIR_CHECK_TCP;
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	begin_states(own);
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

static enum weir_health_state health(struct own *own, const char *backend) {
	uint16_t id = lab_id(&own->lab, "s0", backend);
	struct weir_states_status status;

	assert_int_equal(weir_states_status(own->states, id, &status), 0);
	assert_int_equal(lab_state(&own->lab, id).health, status.state);
	return status.state;
}

static void judge(struct own *own, const char *backend, enum weir_health_verdict verdict) {
	weir_states_set_verdict(own->states, lab_id(&own->lab, "s0", backend), verdict, "a check");
}

static void say(struct own *own, const char *backend, enum weir_health_word word) {
	weir_states_set_word(
		own->states, lab_id(&own->lab, "s0", backend), word, "agent", "a word");
}

static void reload(struct own *own, struct weir_config *config) {
	lab_apply(&own->lab, config);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, config), 0);
	lab_config_free(own->config);
	own->config = config;
}

// Start another control process. It finds only what is stored in the tables.
static void restart(struct own *own) {
	weir_states_free(own->states);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->config);
	begin_states(own);
}

TEST_EACH(setup, teardown);

TEST(checks_and_words_become_one_state) {
	struct own *own = *state;

	assert_int_equal(health(own, "b0"), WEIR_HEALTH_STARTING);
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(own->changes, 1);
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b0", WEIR_HEALTH_WORD_READY);
	assert_int_equal(own->changes, 1);
	say(own, "b0", WEIR_HEALTH_WORD_LAME_DUCK);
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_LAME_DUCK);
	judge(own, "b0", WEIR_HEALTH_VERDICT_FAILING);
	say(own, "b0", WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_REFUSING);
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_LAME_DUCK);
	say(own, "b0", WEIR_HEALTH_WORD_READY);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(own->changes, 5);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_STARTING);
	// No backend has the ids 4 and 65535.
	weir_states_set_verdict(own->states, 4, WEIR_HEALTH_VERDICT_PASSING, "");
	weir_states_set_word(own->states, 65535, WEIR_HEALTH_WORD_DOWN, "agent", "");
	weir_states_expire(own->states, 65535, "agent");
	assert_int_equal(own->changes, 5);
}

// When the state DOWN ends, for whatever reason, checks begin again. The server may have been
// restarted between two checks.
TEST(end_of_down_begins_the_checks_again) {
	struct own *own = *state;
	uint16_t id = lab_id(&own->lab, "s0", "b1");

	judge(own, "b1", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	say(own, "b1", WEIR_HEALTH_WORD_LAME_DUCK);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	say(own, "b1", WEIR_HEALTH_WORD_DOWN);
	say(own, "b1", WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(own->rechecks, 0);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	assert_int_equal(own->rechecks, 1);
	assert_int_equal(own->rechecked, id);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_STARTING);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	assert_int_equal(own->rechecks, 1);
	// Failing checks discard the announced state. The agent may announce it again.
	say(own, "b1", WEIR_HEALTH_WORD_DOWN);
	judge(own, "b1", WEIR_HEALTH_VERDICT_FAILING);
	judge(own, "b1", WEIR_HEALTH_VERDICT_FAILING);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	assert_int_equal(own->rechecks, 2);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_REFUSING);
	// Checks that fail and then pass again do not discard the announced state.
	say(own, "b1", WEIR_HEALTH_WORD_DOWN);
	judge(own, "b1", WEIR_HEALTH_VERDICT_PASSING);
	judge(own, "b1", WEIR_HEALTH_VERDICT_FAILING);
	judge(own, "b1", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b1", WEIR_HEALTH_WORD_READY);
	assert_int_equal(own->rechecks, 2);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_HEALTHY);
	say(own, "b1", WEIR_HEALTH_WORD_DOWN);
	weir_states_expire(own->states, id, "agent");
	assert_int_equal(own->rechecks, 3);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_STARTING);
}

TEST(down_without_a_check_ends_at_once) {
	struct own *own = *state;
	struct weir_config *unchecked = lab_config_copy(own->config);

	unchecked->services[0].health_check.type = WEIR_CHECK_NONE;
	reload(own, unchecked);
	say(own, "b0", WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_REFUSING);
	say(own, "b0", WEIR_HEALTH_WORD_READY);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(own->rechecks, 0);
}

TEST(lame_duck_survives_reload_restart_and_missing_reports) {
	struct own *own = *state;
	uint16_t id = lab_id(&own->lab, "s0", "b1");

	judge(own, "b1", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b1", WEIR_HEALTH_WORD_LAME_DUCK);
	reload(own, lab_config_copy(own->config));
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_LAME_DUCK);
	lab_publish(&own->lab);
	restart(own);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_LAME_DUCK);
	judge(own, "b1", WEIR_HEALTH_VERDICT_PASSING);
	weir_states_expire(own->states, id, "agent");
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_LAME_DUCK);
	// An operator can discard a state.
	weir_states_set_word(own->states, id, WEIR_HEALTH_WORD_NONE, "operator", "");
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_HEALTHY);
}

TEST(checks_that_are_added_and_removed) {
	struct own *own = *state;
	struct weir_config *unchecked = lab_config_copy(own->config);

	unchecked->services[0].health_check.type = WEIR_CHECK_NONE;
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	judge(own, "b1", WEIR_HEALTH_VERDICT_FAILING);
	judge(own, "b2", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b2", WEIR_HEALTH_WORD_LAME_DUCK);
	// Without a check the recovery of b1 could never be detected.
	reload(own, unchecked);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(health(own, "b1"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(health(own, "b2"), WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(health(own, "b3"), WEIR_HEALTH_HEALTHY);
	restart(own);
	assert_int_equal(health(own, "b2"), WEIR_HEALTH_LAME_DUCK);
	// A check is added to the service. All backends keep their states until the check has a
	// result.
	unchecked = lab_config_copy(own->config);
	unchecked->services[0].health_check.type = WEIR_CHECK_TCP;
	reload(own, unchecked);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(health(own, "b2"), WEIR_HEALTH_LAME_DUCK);
	judge(own, "b0", WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(health(own, "b0"), WEIR_HEALTH_REFUSING);
}

TEST(removed_backend_loses_its_state) {
	struct own *own = *state;
	struct weir_config *less = lab_config_copy(own->config);
	struct weir_config *moved = lab_config_copy(own->config);
	struct weir_states_status status;
	uint16_t id = lab_id(&own->lab, "s0", "b3");

	judge(own, "b3", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b3", WEIR_HEALTH_WORD_LAME_DUCK);
	lab_remove_backend(less, 0, 3);
	reload(own, less);
	assert_int_equal(weir_states_status(own->states, id, &status), -ENOENT);
	say(own, "b2", WEIR_HEALTH_WORD_DOWN);
	// A backend with another address is another machine, so no state is kept.
	moved->services[0].backends[2].address.bytes[3] ^= 0x40;
	reload(own, moved);
	assert_int_equal(health(own, "b2"), WEIR_HEALTH_STARTING);
}

// Starts another dataplane with this many ids of backends.
static void replace_dataplane(struct own *own, uint32_t max_backends) {
	const struct lab old = own->lab;

	lab_worker_stop(&own->lab);
	own->lab.segment = lab_segment(&(struct lab_room){.max_backends = max_backends});
	own->lab.control = lab_attach(own->lab.segment);
	lab_worker_start(&own->lab);
	assert_int_equal(weir_tables_rebind(own->lab.tables, own->lab.control), 0);
	weir_segment_free(old.control);
	weir_segment_free(old.segment);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
}

// A dataplane with fewer ids gives backends other ids, also those that another one had before.
TEST(age_of_a_state_survives_another_id) {
	struct own *own = *state;
	struct weir_config *less = lab_config_copy(own->config);
	struct weir_states_status status;
	uint16_t b2 = lab_id(&own->lab, "s0", "b2"), b3 = lab_id(&own->lab, "s0", "b3");
	uint64_t begin_ms, until_ms;

	judge(own, "b2", WEIR_HEALTH_VERDICT_PASSING);
	judge(own, "b3", WEIR_HEALTH_VERDICT_FAILING);
	begin_ms = weir_monotonic_ms();
	lab_remove_backend(less, 0, 1);
	lab_remove_backend(less, 0, 0);
	reload(own, less);
	for (until_ms = begin_ms + 60; weir_monotonic_ms() < until_ms;) {
		usleep(5000);
	}
	replace_dataplane(own, 2);
	assert_int_not_equal(lab_id(&own->lab, "s0", "b2"), b2);
	assert_int_not_equal(lab_id(&own->lab, "s0", "b3"), b3);
	assert_int_equal(health(own, "b2"), WEIR_HEALTH_HEALTHY);
	assert_int_equal(health(own, "b3"), WEIR_HEALTH_REFUSING);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(weir_states_status(own->states,
					 lab_id(&own->lab, "s0", i == 0 ? "b2" : "b3"), &status),
			0);
		assert_true(status.since_ms >= 60);
		assert_string_equal(status.why, "a check");
	}
}

TEST(history_records_the_source_of_changes) {
	struct own *own = *state;
	struct weir_states_change change;
	struct weir_states_status status;

	assert_false(weir_states_history(own->states, 0, &change));
	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	say(own, "b0", WEIR_HEALTH_WORD_LAME_DUCK);
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.service, "s0");
	assert_string_equal(change.backend, "b0");
	assert_int_equal(change.from, WEIR_HEALTH_HEALTHY);
	assert_int_equal(change.to, WEIR_HEALTH_LAME_DUCK);
	assert_string_equal(change.source, "agent");
	assert_string_equal(change.why, "a word");
	assert_true(weir_states_history(own->states, 1, &change));
	assert_string_equal(change.source, "check");
	assert_int_equal(change.from, WEIR_HEALTH_STARTING);
	assert_false(weir_states_history(own->states, 2, &change));
	assert_int_equal(
		weir_states_status(own->states, lab_id(&own->lab, "s0", "b0"), &status), 0);
	assert_string_equal(status.why, "a word");
	assert_true(status.since_ms < 60000);
	for (unsigned int i = 0; i < 2 * WEIR_STATES_HISTORY; i++) {
		say(own, "b1", i % 2 ? WEIR_HEALTH_WORD_READY : WEIR_HEALTH_WORD_LAME_DUCK);
	}
	assert_true(weir_states_history(own->states, WEIR_STATES_HISTORY - 1, &change));
	assert_string_equal(change.backend, "b1");
	assert_int_equal(change.older, WEIR_STATES_HISTORY + 2);
	assert_false(weir_states_history(own->states, WEIR_STATES_HISTORY, &change));
	assert_true(weir_states_history(own->states, 0, &change));
	assert_int_equal(change.older, 0);
}

// With more services than places, the services with the last changes keep one each.
TEST(history_of_more_services_than_places) {
	struct own *own = *state;
	struct weir_states_change change;
	char name[16];

	for (unsigned int i = 0; i < 3 * WEIR_STATES_HISTORY; i++) {
		snprintf(name, sizeof(name), "n%u", i / 2);
		weir_states_record_service(own->states, name, "down", "no backend");
	}
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.service, "n1535");
	assert_true(weir_states_history(own->states, WEIR_STATES_HISTORY - 1, &change));
	assert_string_equal(change.service, "n513");
	assert_int_equal(change.older, 1);
	assert_false(weir_states_history(own->states, WEIR_STATES_HISTORY, &change));
	assert_int_equal(weir_states_history_lost(own->states, "n0"), 2);
	assert_int_equal(weir_states_history_lost(own->states, "n513"), 0); // one is kept
	assert_int_equal(weir_states_history_lost(own->states, "s0"), 0); // had none
	weir_states_record_service(own->states, "n0", "up", "a backend");
	assert_true(weir_states_history(own->states, 0, &change));
	assert_int_equal(change.older, 2);
	assert_int_equal(weir_states_history_lost(own->states, "n0"), 0);
	for (unsigned int i = 1; i <= WEIR_STATES_HISTORY; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		weir_states_record_service(own->states, name, "up", "a backend");
	}
	assert_int_equal(weir_states_history_lost(own->states, "n0"), 3);
}

TEST(next_hops_are_in_the_history_when_they_change) {
	struct own *own = *state;
	uint16_t id = lab_id(&own->lab, "s0", "b0");
	struct weir_states_change change;

	judge(own, "b0", WEIR_HEALTH_VERDICT_PASSING);
	own->changes = 0;
	// the next hop was already resolved, so nothing changes
	weir_states_next_hop(own->states, id, true, "");
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.source, "check");
	weir_states_next_hop(own->states, id, false, "no ARP/ND reply");
	weir_states_next_hop(own->states, id, false, "no route");
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.source, "next-hop");
	assert_string_equal(change.why, "next hop unresolved: no ARP/ND reply");
	assert_int_equal(change.from, WEIR_HEALTH_HEALTHY);
	assert_int_equal(change.to, WEIR_HEALTH_HEALTHY);
	assert_true(weir_states_history(own->states, 1, &change));
	assert_string_equal(change.source, "check");
	weir_states_next_hop(own->states, id, true, "");
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.why, "next hop resolved");
	weir_states_next_hop(own->states, 999, false, "who?");
	assert_false(weir_states_history(own->states, 3, &change));
	assert_int_equal(own->changes, 0);
}
