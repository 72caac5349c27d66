// SPDX-License-Identifier: BSD-3-Clause
//
// Quorums with real tables: when a service becomes up and down, what is reported, and services that
// come and go.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorums.h"
#include "tables_lab.h"

#define EVENTS 16

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	struct weir_quorums quorums;
	unsigned int events;
	char event[EVENTS][128];
};

static void on_changed(void *context) {
	(void)context;
}

static void on_quorum(void *context, const struct weir_quorum_change *change) {
	struct own *own = context;

	assert_true(own->events < EVENTS);
	snprintf(own->event[own->events++], sizeof(own->event[0]), "%s %s%s: %s", change->service,
		change->known ? "" : "first ", change->up ? "up" : "down", change->why);
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	own->config->services[0].quorum = 2;
	own->config->services[0].hysteresis = 1;
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	own->quorums = (struct weir_quorums){
		.log = &own->log, .states = own->states, .changed = on_quorum, .context = own};
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_quorums_fini(&own->quorums);
	weir_states_free(own->states);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

TEST_EACH(setup, teardown);

// Makes the first n backends of a service healthy and the others refusing. Returns the last event,
// or "" if there was no event.
static const char *with_healthy_of(struct own *own, const char *service, unsigned int n) {
	unsigned int before = own->events;
	char name[8];

	for (unsigned int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "b%u", i);
		weir_tables_set_health(own->lab.tables, lab_id(&own->lab, service, name),
			i < n ? WEIR_HEALTH_HEALTHY : WEIR_HEALTH_REFUSING);
	}
	assert_true(weir_tables_publish(own->lab.tables) >= 0);
	weir_quorums_tick(&own->quorums, own->lab.tables);
	assert_true(own->events - before <= 1);
	return own->events > before ? own->event[before] : "";
}

static const char *with_healthy(struct own *own, unsigned int n) {
	return with_healthy_of(own, "s0", n);
}

static int is_up(struct own *own) {
	return weir_quorums_is_up(&own->quorums, own->lab.tables,
		(uint16_t)weir_tables_service_find(own->lab.tables, "s0"));
}

TEST(service_stays_as_it_is_within_the_hysteresis) {
	struct own *own = *state;
	struct weir_states_change change;

	assert_int_equal(is_up(own), -1);
	assert_string_equal(
		with_healthy(own, 2), "s0 first up: 2 of 4 backends eligible, quorum 2");
	assert_false(weir_states_history(own->states, 0, &change)); // the first state is no change
	assert_string_equal(with_healthy(own, 1), "");
	assert_int_equal(is_up(own), 1);
	assert_string_equal(with_healthy(own, 0), "s0 down: 0 of 4 backends eligible, quorum 2");
	assert_int_equal(is_up(own), 0);
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.service, "s0");
	assert_string_equal(change.source, "down");
	assert_string_equal(with_healthy(own, 2), "");
	assert_string_equal(with_healthy(own, 3), "s0 up: 3 of 4 backends eligible, quorum 2");
	assert_string_equal(with_healthy(own, 4), "");
	assert_string_equal(with_healthy(own, 1), "");
	assert_int_equal(own->events, 3);
}

TEST(first_state_needs_the_quorum_alone) {
	struct own *own = *state;

	assert_string_equal(
		with_healthy(own, 1), "s0 first down: 1 of 4 backends eligible, quorum 2");
	assert_string_equal(with_healthy(own, 2), "");
	assert_int_equal(is_up(own), 0);
}

// A reload with another quorum applies at the next tick.
TEST(new_quorum_applies_to_a_known_service) {
	struct own *own = *state;

	with_healthy(own, 3);
	own->config->services[0].quorum = 5;
	lab_apply(&own->lab, own->config);
	assert_string_equal(with_healthy(own, 3), "s0 down: 3 of 4 backends eligible, quorum 5");
	own->config->services[0].quorum = 1;
	own->config->services[0].hysteresis = 0;
	lab_apply(&own->lab, own->config);
	assert_string_equal(with_healthy(own, 3), "s0 up: 3 of 4 backends eligible, quorum 1");
}

// Backups count only while the service runs on them.
TEST(backups_count_only_while_they_get_new_flows) {
	struct own *own = *state;
	struct weir_config *with_backups = lab_config(1, 4);
	struct weir_states_change change;

	with_backups->services[0].quorum = 2;
	with_backups->services[0].backends[2].backup = true;
	with_backups->services[0].backends[3].backup = true;
	lab_apply(&own->lab, with_backups);
	with_healthy(own, 4);
	assert_string_equal(own->event[own->events - 1],
		"s0 first up: 2 of 2 primary backends eligible, quorum 2");
	weir_tables_set_health(
		own->lab.tables, lab_id(&own->lab, "s0", "b0"), WEIR_HEALTH_REFUSING);
	assert_true(weir_tables_publish(own->lab.tables) >= 0);
	assert_int_equal(is_up(own), 0);
	weir_quorums_tick(&own->quorums, own->lab.tables);
	assert_string_equal(
		own->event[own->events - 1], "s0 down: 1 of 2 primary backends eligible, quorum 2");
	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.why, "1 of 2 primary backends eligible, quorum 2");
	weir_tables_set_health(
		own->lab.tables, lab_id(&own->lab, "s0", "b1"), WEIR_HEALTH_REFUSING);
	assert_true(weir_tables_publish(own->lab.tables) >= 0);
	weir_quorums_tick(&own->quorums, own->lab.tables);
	assert_string_equal(
		own->event[own->events - 1], "s0 up: 2 of 4 backends eligible, quorum 2");
	lab_apply(&own->lab, own->config);
	lab_config_free(with_backups);
}

// Two reloads between two ticks: the id of a removed service belongs to another one.
TEST(new_service_does_not_get_the_state_of_an_earlier_id) {
	struct own *own = *state;
	struct weir_config *first = own->config, *second = lab_config(1, 4),
			   *third = lab_config(1, 4);
	const int id = weir_tables_service_find(own->lab.tables, "s0");

	with_healthy(own, 1); // down; 2 are within the hysteresis
	strcpy(second->services[0].name, "s1");
	lab_apply(&own->lab, second);
	lab_settle(&own->lab);
	third->services[0].quorum = 2;
	third->services[0].hysteresis = 1;
	strcpy(third->services[0].name, "s2");
	lab_apply(&own->lab, third);
	assert_int_equal(weir_tables_service_find(own->lab.tables, "s2"), id);
	assert_int_equal(weir_quorums_is_up(&own->quorums, own->lab.tables, (uint16_t)id), -1);
	assert_string_equal(
		with_healthy_of(own, "s2", 2), "s2 first up: 2 of 4 backends eligible, quorum 2");
	lab_apply(&own->lab, first);
	lab_config_free(second);
	lab_config_free(third);
}

TEST(removed_service_has_no_state_and_no_event) {
	struct own *own = *state;
	const int id = weir_tables_service_find(own->lab.tables, "s0");

	with_healthy(own, 4);
	own->config->service_count = 0;
	lab_apply(&own->lab, own->config);
	weir_quorums_tick(&own->quorums, own->lab.tables);
	assert_int_equal(weir_quorums_is_up(&own->quorums, own->lab.tables, (uint16_t)id), -1);
	assert_int_equal(own->events, 1);
	own->config->service_count = 1;
	lab_apply(&own->lab, own->config);
	assert_non_null(strstr(with_healthy(own, 4), "first up"));
}
