// SPDX-License-Identifier: BSD-3-Clause
//
// Tests bind_drains.c: binds that take no new flows.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "service_table.h"

#define NOW 1000000000ull

// Returns the value that workers read for the first bind of service s0 or s1.
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
	assert_true(bind_of(&lab, config, 0) >= WEIR_SERVICES_MAX); // the bind has no service
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
	assert_int_equal(weir_tables_end_bind_drain(lab.tables, 0, WEIR_DRAIN_DROPPED, 1),
		WEIR_DRAIN_DROPPED);
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

// A drain of a VIP must not examine backends, because a VIP may have 1,000 services. The selections
// of these services stay unchanged.
TEST(drain_examines_no_backend_until_flows_are_dropped) {
	struct weir_config *config = lab_config(1, 3);
	uint64_t examined;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	examined = weir_tables_work(lab.tables).backends;
	drain(&lab, 0, true);
	drain(&lab, 0, false);
	drain(&lab, 0, true);
	assert_int_equal(weir_tables_work(lab.tables).backends, examined);
	weir_tables_end_bind_drain(lab.tables, 0, WEIR_DRAIN_DROPPED, 1);
	lab_publish(&lab);
	assert_int_equal(weir_tables_work(lab.tables).backends, examined + 3);
	drain(&lab, 0, true); // drained again: existing flows continue
	assert_int_equal(lab_row(&lab, 0).flags & WEIR_BACKEND_DOWN, 0);
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

static void add_bind(struct weir_config *config, uint32_t service, uint8_t last, uint16_t first,
	uint16_t port_last) {
	struct weir_config_service *of = &config->services[service];
	struct weir_config_bind *bind;

	of->binds = realloc(of->binds, (of->bind_count + 1) * sizeof(*of->binds));
	assert_non_null(of->binds);
	bind = &of->binds[of->bind_count++];
	*bind = of->binds[0];
	bind->address.bytes[3] = last;
	bind->port_first = first;
	bind->port_last = port_last;
}

// The bind is a range of ports. Its first ports belong to a narrower bind of another service.
TEST(drain_of_an_overlapped_range_survives_a_restart) {
	struct weir_config *config = lab_config(2, 3);
	const uint8_t *vip = config->services[0].binds[0].address.bytes;
	struct lab lab;

	config->services[0].binds[0].port_last = 90; // the range starts at 80
	config->services[1].binds[0].address = config->services[0].binds[0].address;
	config->services[1].binds[0].port_last = 81;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	assert_true(weir_bind_is_drained(
		weir_service_lookup(lab_services(&lab), vip, 4, IPPROTO_TCP, 85)));
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_true(weir_bind_is_drained(
		weir_service_lookup(lab_services(&lab), vip, 4, IPPROTO_TCP, 85)));
	assert_int_equal(weir_service_lookup(lab_services(&lab), vip, 4, IPPROTO_TCP, 80), 1);
	lab_close(&lab);
	lab_config_free(config);
}

// While no control process runs, the file gets a new bind for a drained service.
TEST(bind_added_to_a_drained_service_during_a_restart_is_drained) {
	struct weir_config *config = lab_config(2, 3), *next = lab_config(2, 3);
	struct lab lab;

	add_bind(next, 0, 77, 80, 80);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	drain(&lab, 0, true);
	assert_int_equal(weir_tables_end_bind_drain(lab.tables, 0, WEIR_DRAIN_DROPPED, 1),
		WEIR_DRAIN_DROPPED);
	lab_publish(&lab);
	lab_restart(&lab);
	lab_apply(&lab, next);
	assert_int_equal(weir_bind_existing(bind_of(&lab, next, 0)), WEIR_SERVICE_NONE);
	assert_true(weir_bind_is_drained(weir_service_lookup(
		lab_services(&lab), next->services[0].binds[1].address.bytes, 4, IPPROTO_TCP, 80)));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}
