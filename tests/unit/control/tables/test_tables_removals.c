// SPDX-License-Identifier: BSD-3-Clause
//
// removals.c: binds and services that a new configuration no longer contains drain until their
// deadline.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "service_table.h"
#include "starved.h"

#define NOW_MS 5000u
#define REMOVED_MS 60000u
#define DEADLINE_NS ((NOW_MS + REMOVED_MS) * 1000000ull)
#define ESTABLISHED_MS 900000u
#define DOWN (WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET)

struct own {
	struct lab lab;
	// services s0 and s1; their TCP flows are reset when a drain ends
	struct weir_config *config;
	struct weir_config *next; // the configuration without the removed objects
};

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->config = lab_config(2, 3);
	own->config->flow_table.established_ms = ESTABLISHED_MS;
	for (uint32_t i = 0; i < 2; i++) {
		own->config->services[i].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
		own->config->services[i].drain.removed_ms = REMOVED_MS;
	}
	own->next = lab_config_copy(own->config);
	lab_open(&own->lab, NULL);
	weir_tables_clock(own->lab.tables, NOW_MS);
	lab_apply(&own->lab, own->config);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	lab_close(&own->lab);
	lab_config_free(own->config);
	lab_config_free(own->next);
	free(own);
	return 0;
}

TEST_EACH(setup, teardown);

static void set_ports(struct weir_config *config, uint16_t first, uint16_t last) {
	config->services[0].binds[0].port_first = first;
	config->services[0].binds[0].port_last = last;
}

// Adds a bind of this port at s0's address.
static void add_port(struct weir_config *config, uint32_t to, uint16_t port) {
	struct weir_config_service *service = &config->services[to];
	const struct weir_config_bind first = config->services[0].binds[0];

	service->binds = realloc(service->binds, (service->bind_count + 1) * sizeof(first));
	assert_non_null(service->binds);
	service->binds[service->bind_count] = first;
	service->binds[service->bind_count].port_first = port;
	service->binds[service->bind_count++].port_last = port;
}

// Returns the result of a worker's lookup of this port at s0's address.
static uint16_t bind_at(struct own *own, uint16_t port) {
	return weir_service_lookup(lab_services(&own->lab),
		own->config->services[0].binds[0].address.bytes, 4, IPPROTO_TCP, port);
}

static bool is_removed(struct own *own, uint16_t port) {
	uint16_t bind = bind_at(own, port);

	return weir_bind_is_drained(bind) && (bind & WEIR_BIND_REMOVED) != 0;
}

static struct weir_service_state service(struct own *own, uint16_t id) {
	struct weir_service_state state;

	assert_int_equal(weir_tables_service(own->lab.tables, id, &state), 0);
	return state;
}

static uint8_t row_flags(struct own *own, const char *backend) {
	for (uint32_t id = 0; id < weir_tables_backend_ids(own->lab.tables); id++) {
		struct weir_backend_state state;

		if (weir_tables_backend(own->lab.tables, (uint16_t)id, &state) == 0 &&
			strcmp(state.service, "s0") == 0 && strcmp(state.name, backend) == 0) {
			return lab_row(&own->lab, (uint16_t)id).flags & DOWN;
		}
	}
	fail_msg("no backend %s", backend);
	return 0;
}

static void end(struct own *own, bool drained, enum weir_drain_phase expected) {
	assert_int_equal(weir_tables_end_removal(own->lab.tables, 0, drained), expected);
	lab_publish(&own->lab);
}

static void remove_bind(struct own *own) {
	set_ports(own->next, 8080, 8080);
	lab_apply(&own->lab, own->next);
}

TEST(removed_bind_drains_then_ends_its_flows) {
	struct own *own = *state;
	struct weir_config_bind binds[2];

	remove_bind(own);
	assert_true(is_removed(own, 80));
	assert_int_equal(weir_bind_existing(bind_at(own, 80)), 0);
	assert_int_equal(bind_at(own, 8080), 0);
	assert_int_equal(weir_tables_next_removal(own->lab.tables, 0), 0);
	assert_int_equal(weir_tables_next_removal(own->lab.tables, 1), -ENOENT);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_DRAINING);
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS);
	assert_int_equal(
		weir_tables_removed_binds(own->lab.tables, WEIR_SERVICE_NONE, binds, 2), 1);
	assert_int_equal(binds[0].port_first, 80);
	assert_int_equal(weir_tables_removed_binds(own->lab.tables, 1, binds, 2), 0);
	assert_false(lab_services(&own->lab)->ended);
	weir_tables_clock(own->lab.tables, NOW_MS + REMOVED_MS);
	end(own, false, WEIR_DRAIN_DROPPED);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	// weir_bind_is_over applies only to flows of the service that had the bind
	assert_false(weir_bind_is_over(bind_at(own, 80), 1));
	assert_false(weir_bind_is_over(bind_at(own, 8080), 0));
	assert_false(weir_bind_is_over(WEIR_SERVICE_NONE, 0));
	assert_true(lab_services(&own->lab)->ended);
	assert_int_equal(
		service(own, 0).removal_until_ns, DEADLINE_NS + ESTABLISHED_MS * 1000000ull);
	assert_int_equal(row_flags(own, "b0"), 0); // the backends also have flows of the other bind
	end(own, false, WEIR_DRAIN_KEPT);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	assert_false(lab_services(&own->lab)->ended);
	assert_int_equal(weir_tables_next_removal(own->lab.tables, 0), -ENOENT);
}

TEST(removed_bind_is_withdrawn_if_its_flows_stay_or_are_gone) {
	struct own *own = *state;

	remove_bind(own);
	end(own, true, WEIR_DRAIN_DRAINED);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	lab_apply(&own->lab, own->config);
	own->next->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_KEEP;
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	end(own, false, WEIR_DRAIN_KEPT);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
}

TEST(removed_bind_is_a_bind_again_when_it_returns) {
	struct own *own = *state;

	remove_bind(own);
	lab_apply(&own->lab, own->config);
	assert_int_equal(bind_at(own, 80), 0);
	assert_true(is_removed(own, 8080));
	weir_tables_clock(own->lab.tables, NOW_MS + 1000);
	own->config->services[0].drain.removed_ms = 0; // 8080 keeps its deadline
	lab_apply(&own->lab, own->config);
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS);
	end(own, true, WEIR_DRAIN_DRAINED);
	assert_int_equal(bind_at(own, 8080), WEIR_SERVICE_NONE);
}

TEST(removed_bind_that_moves_belongs_to_its_new_service) {
	struct own *own = *state;

	set_ports(own->next, 8080, 8080);
	own->next->services[1].binds[0] = own->config->services[0].binds[0];
	lab_apply(&own->lab, own->next);
	assert_int_equal(bind_at(own, 80), 1);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_NONE);
	assert_int_equal(service(own, 1).removal, WEIR_DRAIN_DRAINING); // the former bind of s1
}

// A removed range of ports drains only at the ports that have no bind in the new configuration.
TEST(removed_range_gives_way_to_the_configuration) {
	struct own *own = *state;

	set_ports(own->next, 1000, 2000);
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	set_ports(own->next, 1500, 2500);
	own->next->services[1].binds[0].address = own->next->services[0].binds[0].address;
	own->next->services[1].binds[0].port_first = 1200;
	own->next->services[1].binds[0].port_last = 1200;
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	assert_true(is_removed(own, 1000));
	assert_int_equal(bind_at(own, 1200), 1);
	assert_true(is_removed(own, 1499));
	assert_int_equal(bind_at(own, 1500), 0);
	assert_int_equal(bind_at(own, 2500), 0);
	set_ports(own->next, 0, 65535);
	lab_apply(&own->lab, own->next);
	assert_int_equal(bind_at(own, 80), 0);
	assert_int_equal(bind_at(own, 1000), 0);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_NONE);
}

TEST(removed_bind_of_udp_or_without_an_interval_is_gone_at_once) {
	struct own *own = *state;

	own->next->services[0].drain.removed_ms = 0;
	remove_bind(own);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	own->config->services[0].binds[0].protocol = IPPROTO_UDP;
	lab_apply(&own->lab, own->config);
	own->next->services[0].drain.removed_ms = REMOVED_MS;
	lab_apply(&own->lab, own->next);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_NONE);
}

TEST(removed_service_drains_then_its_backends_are_down) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	assert_true(is_removed(own, 80));
	assert_int_equal(row_flags(own, "b0"), WEIR_BACKEND_CLOSED);
	assert_true(service(own, 0).leaving);
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS);
	end(own, false, WEIR_DRAIN_DROPPED);
	lab_set_flows(&own->lab, 0, 0, 0);
	lab_settle(&own->lab);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	assert_int_equal(row_flags(own, "b0"), DOWN);
	end(own, false, WEIR_DRAIN_KEPT);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	lab_settle(&own->lab);
	assert_null(weir_tables_service_name(own->lab.tables, 0));
}

// Removes s0, whose backend b1 is down. restart: s0 is removed while no control process runs.
static void remove_with_a_backend_down(struct own *own, bool restart) {
	const uint16_t down = lab_id(&own->lab, "s0", "b1");

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_set_flows(&own->lab, 0, down, 1);
	weir_tables_set_admin(own->lab.tables, down, WEIR_ADMIN_MAINTENANCE);
	lab_publish(&own->lab);
	if (restart) {
		lab_restart(&own->lab);
	}
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_DRAINING);
	assert_int_equal(row_flags(own, "b0"), WEIR_BACKEND_CLOSED);
	assert_int_equal(row_flags(own, "b1"), DOWN);
}

TEST(backend_of_a_removed_service_stays_down) {
	remove_with_a_backend_down(*state, false);
}

TEST(backend_of_a_service_that_a_restart_removes_stays_down) {
	remove_with_a_backend_down(*state, true);
}

// A service is removed, and all its binds have moved to another service, for example because the
// service was renamed. The removed service has no bind left at which packets could be refused.
TEST(removed_service_whose_binds_have_moved_is_gone_after_its_deadline) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	own->next->services[0].binds[0] = own->config->services[0].binds[0];
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	assert_int_equal(bind_at(own, 80), 1);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_DRAINING);
	end(own, false, WEIR_DRAIN_DROPPED);
	assert_int_equal(row_flags(own, "b0"), DOWN);
	lab_set_flows(&own->lab, 0, 0, 0);
	lab_settle(&own->lab);
	assert_null(weir_tables_service_name(own->lab.tables, 0));
}

static void expect_in_use(const struct own *own, uint16_t backend, bool in_use) {
	struct weir_subset_part parts[3];

	assert_int_equal(lab_state(&own->lab, backend).in_selection, in_use);
	assert_int_equal(weir_tables_backend_parts(own->lab.tables, backend) > 0, in_use);
	assert_int_equal(weir_tables_subset_parts(own->lab.tables, 0, 0, parts, 3), 3);
	assert_int_equal(parts[backend].parts > 0, in_use);
}

// The selection of a removed service stays published for its existing flows, until they end.
TEST(backends_of_a_removed_service_get_no_new_flows) {
	struct own *own = *state;
	uint16_t id = lab_id(&own->lab, "s0", "b0");

	lab_set_flows(&own->lab, 0, id, 1);
	expect_in_use(own, id, true);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	expect_in_use(own, id, false);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->next);
	expect_in_use(own, id, false);
}

TEST(removed_service_that_returns_serves_again) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	lab_apply(&own->lab, own->config);
	expect_in_use(own, lab_id(&own->lab, "s0", "b0"), true);
	assert_int_equal(bind_at(own, 80), 0);
	assert_int_equal(row_flags(own, "b0"), 0);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_NONE);
	assert_int_equal(weir_tables_next_removal(own->lab.tables, 0), -ENOENT);
}

// The flows of the removed binds still count for the service.
TEST(service_that_returns_with_other_binds_has_lost_its_binds) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	set_ports(own->config, 8080, 8080);
	lab_apply(&own->lab, own->config);
	assert_true(service(own, 0).lost_binds);
	assert_false(service(own, 1).lost_binds);
}

TEST(removal_survives_a_restart) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	set_ports(own->next, 8080, 8080);
	lab_apply(&own->lab, own->next);
	lab_restart(&own->lab);
	weir_tables_clock(own->lab.tables, NOW_MS + 2000);
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS);
	end(own, false, WEIR_DRAIN_DROPPED);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->next);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
}

TEST(removal_of_a_service_survives_a_restart) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	lab_restart(&own->lab);
	weir_tables_clock(own->lab.tables, NOW_MS + 2000);
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	assert_true(is_removed(own, 80));
	assert_int_equal(row_flags(own, "b0"), WEIR_BACKEND_CLOSED);
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS);
	end(own, false, WEIR_DRAIN_DROPPED);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->next);
	assert_int_equal(row_flags(own, "b0"), DOWN);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0)); // the restart starts no second drain
	end(own, false, WEIR_DRAIN_KEPT);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->next);
	assert_int_equal(row_flags(own, "b0"), DOWN);
	assert_int_equal(weir_tables_next_removal(own->lab.tables, 0), -ENOENT);
}

// The service was removed from the file while no control process ran.
TEST(removal_by_a_restart_is_a_removal) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_restart(&own->lab);
	weir_tables_clock(own->lab.tables, NOW_MS + 2000);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	assert_int_equal(row_flags(own, "b0"), WEIR_BACKEND_CLOSED);
	assert_int_equal(service(own, 0).removal_until_ns, DEADLINE_NS + 2000 * 1000000ull);
}

// All backends of the service had left before.
TEST(removal_by_a_restart_of_a_service_without_backends_is_a_removal) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	own->next->services[0].backend_count = 0;
	lab_apply(&own->lab, own->next);
	own->next->services[0].backend_count = 3;
	lab_restart(&own->lab);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	assert_true(is_removed(own, 80));
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_DRAINING);
}

TEST(removed_service_that_returns_without_a_backend_ends_its_flows) {
	struct own *own = *state;

	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	lab_remove_service(own->next, 0);
	lab_apply(&own->lab, own->next);
	lab_settle(&own->lab);
	lab_remove_backend(own->config, 0, 0);
	lab_apply(&own->lab, own->config);
	assert_int_equal(row_flags(own, "b0"), DOWN);
}

// The range is replaced by one bind for each of its ports. So nothing is removed, and nothing
// drains.
TEST(range_that_is_divided_into_ports_is_not_removed) {
	struct own *own = *state;

	set_ports(own->config, 80, 82);
	lab_apply(&own->lab, own->config);
	add_port(own->next, 1, 80);
	add_port(own->next, 1, 82);
	set_ports(own->next, 81, 81);
	lab_apply(&own->lab, own->next);
	assert_int_equal(bind_at(own, 80), 1);
	assert_int_equal(bind_at(own, 81), 0);
	assert_int_equal(bind_at(own, 82), 1);
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_NONE);
	set_ports(own->next, 1081, 1081);
	lab_apply(&own->lab, own->config);
	lab_apply(&own->lab, own->next);
	assert_int_equal(bind_at(own, 80), 1);
	assert_true(is_removed(own, 81));
	assert_int_equal(bind_at(own, 82), 1);
}

// s0 has a range, and a bind of one port of it; s1 has the other port and keeps it.
TEST(range_is_removed_with_the_bind_of_one_of_its_ports) {
	struct own *own = *state;

	set_ports(own->config, 80, 81);
	add_port(own->config, 0, 81);
	add_port(own->config, 1, 80);
	lab_apply(&own->lab, own->config);
	add_port(own->next, 1, 80);
	set_ports(own->next, 8080, 8080);
	lab_apply(&own->lab, own->next);
	assert_int_equal(bind_at(own, 80), 1);
	assert_true(is_removed(own, 81));
	assert_int_equal(weir_tables_removed_count(own->lab.tables), 1);
}

// Remove port 80, and end its drain. Its flows are reset.
static void remove_and_end(struct own *own) {
	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	remove_bind(own);
	end(own, false, WEIR_DRAIN_DROPPED);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	weir_tables_clock(own->lab.tables, NOW_MS + 3000);
}

TEST(ended_bind_stays_ended_when_another_one_is_removed) {
	struct own *own = *state;
	struct weir_config *third = lab_config_copy(own->next);

	remove_and_end(own);
	third->services[0].binds[0].port_first = third->services[0].binds[0].port_last = 9090;
	lab_apply(&own->lab, third);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	assert_true(is_removed(own, 8080));
	assert_false(weir_bind_is_over(bind_at(own, 8080), 0));
	lab_restart(&own->lab);
	weir_tables_clock(own->lab.tables, NOW_MS + 4000);
	lab_apply(&own->lab, third);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	assert_false(weir_bind_is_over(bind_at(own, 8080), 0));
	// No flow is left. But idle clients may still send packets to port 80, and must get an RST.
	end(own, true, WEIR_DRAIN_DRAINED);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	assert_int_equal(
		service(own, 0).removal_until_ns, (NOW_MS + 4000 + ESTABLISHED_MS) * 1000000ull);
	end(own, false, WEIR_DRAIN_KEPT);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	assert_int_equal(bind_at(own, 8080), WEIR_SERVICE_NONE);
	lab_config_free(third);
}

TEST(ended_bind_stays_ended_when_its_service_is_removed) {
	struct own *own = *state;
	struct weir_config *third = lab_config_copy(own->next);

	remove_and_end(own);
	third->services[0].binds[0].port_first = third->services[0].binds[0].port_last = 8080;
	lab_remove_service(third, 0);
	lab_apply(&own->lab, third);
	assert_true(is_removed(own, 8080));
	assert_false(weir_bind_is_over(bind_at(own, 8080), 0));
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	lab_config_free(third);
}

// End a drain whose at_deadline is "drop". This ends all flows of s0.
static void drop(struct own *own) {
	lab_set_flows(&own->lab, 0, lab_id(&own->lab, "s0", "b0"), 1);
	assert_int_equal(weir_tables_drain_binds(own->lab.tables, 0, NULL, true, 1), 0);
	lab_publish(&own->lab);
	assert_int_equal(weir_tables_end_bind_drain(own->lab.tables, 0, WEIR_DRAIN_DROPPED, 1),
		WEIR_DRAIN_DROPPED);
	lab_publish(&own->lab);
	assert_int_equal(row_flags(own, "b0"), DOWN);
	lab_remove_service(own->next, 0);
}

static void assert_dropped(struct own *own) {
	assert_int_equal(row_flags(own, "b0"), DOWN);
	assert_true(weir_bind_is_over(bind_at(own, 80), 0));
	assert_int_equal(service(own, 0).removal, WEIR_DRAIN_DROPPED);
	assert_int_equal(service(own, 0).removal_until_ns, (NOW_MS + ESTABLISHED_MS) * 1000000ull);
	end(own, false, WEIR_DRAIN_KEPT);
	assert_int_equal(bind_at(own, 80), WEIR_SERVICE_NONE);
	assert_int_equal(row_flags(own, "b0"), DOWN);
}

TEST(dropped_flows_of_a_service_stay_dropped_when_it_is_removed) {
	struct own *own = *state;

	drop(own);
	own->config->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_KEEP;
	lab_apply(&own->lab, own->config);
	lab_apply(&own->lab, own->next);
	assert_dropped(own);
}

TEST(dropped_flows_of_a_service_stay_dropped_when_a_restart_removes_it) {
	struct own *own = *state;

	drop(own);
	lab_restart(&own->lab);
	weir_tables_clock(own->lab.tables, NOW_MS);
	lab_apply(&own->lab, own->next);
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->next);
	assert_dropped(own);
}

// No control process ran at the deadline or for a long time after it. The next process still
// refuses clients for the usual time, which begins now.
TEST(late_end_of_a_drain_refuses_clients_as_long) {
	struct own *own = *state;
	const uint64_t late_ms = NOW_MS + REMOVED_MS + 2 * ESTABLISHED_MS;

	remove_bind(own);
	weir_tables_clock(own->lab.tables, late_ms);
	end(own, false, WEIR_DRAIN_DROPPED);
	assert_int_equal(service(own, 0).removal_until_ns, (late_ms + ESTABLISHED_MS) * 1000000ull);
}

// Each allocation of a reload fails in turn. The reload that succeeds has the removed bind.
TEST(removed_bind_is_not_lost_without_memory) {
	struct own *own = *state;
	char why[256];
	int r = -1;

	set_ports(own->next, 8080, 8080);
	for (long n = 0; r < 0; n++) {
		starved_after(n);
		r = weir_tables_apply(own->lab.tables, own->next, why, sizeof(why));
		starved_after(-1);
	}
	assert_true(is_removed(own, 80));
}

// --- room in the segment ------------------------------------------------------------------

#define SERVICES 3 // several services, because one service cannot have so many binds
#define MANY 600

// Returns a configuration in which the services have `many` binds of one port each, in addition to
// their usual binds. Removed binds drain.
static struct weir_config *config_with(uint32_t many) {
	struct weir_config *config = lab_config(SERVICES, 1);

	for (uint32_t s = 0; s < SERVICES; s++) {
		struct weir_config_service *service = &config->services[s];
		uint32_t more = many / SERVICES;

		service->drain.removed_ms = REMOVED_MS;
		service->binds = realloc(service->binds, (more + 1) * sizeof(service->binds[0]));
		assert_non_null(service->binds);
		for (uint32_t i = 1; i <= more; i++) {
			service->binds[i] = service->binds[0];
			service->binds[i].port_first = service->binds[i].port_last =
				(uint16_t)(1000 + i);
		}
		service->bind_count += more;
	}
	return config;
}

// A worker reports late, so replaced tables fill the heap, and removed binds have to wait for
// memory.
TEST(removed_binds_wait_for_the_room_of_replaced_tables) {
	struct weir_config *many = config_with(MANY), *one = config_with(0);
	struct lab lab;

	for (uint64_t heap = 256 << 10; heap < 512 << 10; heap += 16 << 10) {
		const struct lab_room room = {.heap_bytes = heap};
		int r = 0;

		lab_open(&lab, &room);
		lab_apply(&lab, many);
		lab_apply(&lab, one);
		lab_settle(&lab);
		for (uint32_t i = 0; r >= 0; i++) {
			assert_int_equal(weir_tables_removed_count(lab.tables), MANY);
			weir_tables_drain_binds(lab.tables, 0, NULL, i % 2 == 0, 0);
			r = weir_tables_publish(lab.tables);
			lab_services(&lab);
		}
		assert_int_equal(r, -EBUSY);
		lab_settle(&lab);
		assert_int_equal(weir_tables_publish(lab.tables), 0);
		assert_int_equal(weir_tables_removed_count(lab.tables), MANY);
		lab_close(&lab);
	}
	lab_config_free(many);
	lab_config_free(one);
}
