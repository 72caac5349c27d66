// SPDX-License-Identifier: BSD-3-Clause
//
// bind_drains.c: binds that take no new flows.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "service_table.h"

#define NOW 1000000000ull

// The bind of service s0 or s1, as workers see it.
static uint16_t bind_of(struct lab *lab, const struct weir_config *config, uint32_t service) {
	return weir_service_lookup(lab_services(lab),
		config->services[service].binds[0].address.bytes, 4, IPPROTO_TCP, 80);
}

static void drain(struct lab *lab, uint16_t service, bool drained) {
	assert_int_equal(weir_tables_drain_binds(lab->tables, service, NULL, drained, NOW), 0);
	lab_publish(lab);
}

TEST(drained_bind_refuses_only_new_flows) {
	struct weir_config *config = lab_config(2, 3);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	assert_true(bind_of(&lab, config, 0) >= WEIR_SERVICES_MAX); // no service
	assert_true(weir_bind_is_drained(bind_of(&lab, config, 0)));
	assert_int_equal(weir_bind_existing(bind_of(&lab, config, 0)), 0);
	assert_int_equal(bind_of(&lab, config, 1), 1);
	assert_int_equal(lab_row(&lab, 0).flags & WEIR_BACKEND_CLOSED, 0);
	drain(&lab, 0, false);
	assert_int_equal(bind_of(&lab, config, 0), 0);
	assert_int_equal(weir_tables_next_draining(lab.tables, 0), -ENOENT);
	assert_false(weir_bind_is_drained(WEIR_SERVICE_NONE));
	assert_int_equal(weir_bind_existing(WEIR_SERVICE_NONE), WEIR_SERVICE_NONE);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(drain_survives_a_reload_and_a_restart) {
	struct weir_config *config = lab_config(2, 3), *next = lab_config_copy(config);
	struct weir_service_state service;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	next->services[0].table_size = 509;
	lab_apply(&lab, next);
	assert_true(weir_bind_is_drained(bind_of(&lab, config, 0)));
	lab_restart(&lab);
	lab_apply(&lab, next);
	assert_true(weir_bind_is_drained(bind_of(&lab, config, 0)));
	assert_false(weir_bind_is_drained(bind_of(&lab, config, 1)));
	assert_int_equal(weir_tables_next_draining(lab.tables, 0), 0);
	assert_int_equal(weir_tables_service(lab.tables, 0, &service), 0);
	assert_int_equal(service.drain, WEIR_DRAIN_DRAINING);
	assert_int_equal(service.drain_until_ns, NOW);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

TEST(dropped_service_is_down_for_its_flows_until_it_is_ready) {
	const uint8_t down = WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET;
	struct weir_config *config = lab_config(2, 3);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	assert_int_equal(
		weir_tables_end_bind_drain(lab.tables, 0, WEIR_DRAIN_DROPPED), WEIR_DRAIN_DROPPED);
	lab_publish(&lab);
	assert_int_equal(weir_bind_existing(bind_of(&lab, config, 0)), WEIR_SERVICE_NONE);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b1")).flags & down, down);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s1", "b1")).flags & down, 0);
	drain(&lab, 0, false);
	assert_int_equal(lab_row(&lab, lab_id(&lab, "s0", "b1")).flags & down, 0);
	assert_int_equal(bind_of(&lab, config, 0), 0);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(removed_service_is_not_drained_when_it_returns) {
	struct weir_config *config = lab_config(2, 3), *without = lab_config_copy(config);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	lab_remove_service(without, 0);
	lab_apply(&lab, without);
	lab_apply(&lab, config);
	assert_int_equal(bind_of(&lab, config, 0), 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(without);
}
