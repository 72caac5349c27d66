// SPDX-License-Identifier: BSD-3-Clause
//
// Tests drains with real tables: drains end when no open flow is left, or at the deadline, even
// after a restart of either process.
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drains.h"
#include "tables_lab.h"

#define SECOND 1000000000ull
#define NOW (1000 * SECOND)

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3
	struct weir_log log;
	struct weir_states *states;
	struct weir_drains drains;
	uint16_t id; // id of b0
	char bind[WEIR_BIND_TEXT_BYTES]; // first configured bind of s0
};

static void on_changed(void *context) {
	(void)context;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	weir_bind_format(&own->config->services[0].binds[0], own->bind, sizeof(own->bind));
	lab_open(&own->lab, &(struct lab_room){.bucketing = WEIR_BUCKETING_YES});
	lab_apply(&own->lab, own->config);
	own->id = lab_id(&own->lab, "s0", "b0");
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

static void set_open(struct own *own, uint32_t worker, uint64_t flows) {
	weir_segment_backend_counters(own->lab.segment, worker, own->id)->open_flows = flows;
}

static void begin(struct own *own, uint64_t until_ns) {
	assert_int_equal(
		weir_drains_begin(&own->drains, own->lab.tables, &own->id, 1, until_ns), 0);
	lab_publish(&own->lab);
	lab_quiescent(&own->lab);
}

static bool tick(struct own *own, uint64_t now_ns) {
	const struct weir_drains_of of = {
		.tables = own->lab.tables, .states = own->states, .log = &own->log};
	bool publish = weir_drains_tick(&own->drains, &of, now_ns);

	lab_publish(&own->lab);
	return publish;
}

static enum weir_drain_phase phase(struct own *own) {
	return (enum weir_drain_phase)lab_state(&own->lab, own->id).drain;
}

// Check that the history's last event has this backend and this reason.
static void assert_event(struct own *own, const char *backend, const char *why) {
	struct weir_states_change change;

	assert_true(weir_states_history(own->states, 0, &change));
	assert_string_equal(change.service, "s0");
	assert_string_equal(change.backend, backend);
	assert_string_equal(change.source, "drain");
	assert_string_equal(change.why, why);
	assert_int_equal(change.from, change.to);
}

// Check that the last event names the first configured bind of s0: `before` and `after` are the
// text around the bind.
static void assert_bind_event(struct own *own, const char *before, const char *after) {
	char why[WEIR_STATES_EVENT_BYTES];

	snprintf(why, sizeof(why), "%s%s%s", before, own->bind, after);
	assert_event(own, "", why);
}

static void restart_control(struct own *own) {
	lab_restart(&own->lab);
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
}

TEST_EACH(setup, teardown);

TEST(drain_is_over_when_no_open_flow_is_left) {
	struct own *own = *state;

	set_open(own, 0, 2);
	set_open(own, 1, 1);
	begin(own, 0);
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_DRAIN);
	assert_int_equal(lab_slots(&own->lab, 0, own->id), 0);
	assert_false(tick(own, NOW));
	set_open(own, 0, 0);
	assert_false(tick(own, NOW + 3600 * SECOND)); // the drain has no deadline
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	set_open(own, 1, 0);
	assert_true(tick(own, NOW + 3601 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINED);
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_DRAIN);
	assert_int_equal(own->drains.count, 0);
	assert_event(own, "b0", "drained: no open flows");
}

// A slow worker has not read the new tables yet. It may be in the middle of a burst, and start
// flows at the drained backend.
TEST(drain_is_not_over_before_a_slow_worker_has_adopted_it) {
	struct own *own = *state;
	struct weir_service_state service;

	lab_quiescent(&own->lab);
	assert_int_equal(
		weir_drains_begin(&own->drains, own->lab.tables, &own->id, 1, NOW + 10 * SECOND),
		0);
	assert_int_equal(
		weir_tables_drain_binds(own->lab.tables, 0, NULL, true, NOW + 10 * SECOND), 0);
	lab_publish(&own->lab);
	assert_false(tick(own, NOW));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	lab_quiescent(&own->lab);
	assert_true(tick(own, NOW + SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINED);
	assert_int_equal(weir_tables_service(own->lab.tables, 0, &service), 0);
	assert_int_equal(service.drain, WEIR_DRAIN_DRAINED);
}

TEST(flows_at_the_deadline_are_unknown_before_a_slow_worker_has_adopted_the_drain) {
	struct own *own = *state;

	lab_quiescent(&own->lab);
	assert_int_equal(weir_drains_begin(&own->drains, own->lab.tables, &own->id, 1, NOW), 0);
	lab_publish(&own->lab);
	assert_true(tick(own, NOW));
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
	assert_true(lab_state(&own->lab, own->id).drain_left == WEIR_FLOWS_UNKNOWN);
	assert_event(own, "b0", "drain deadline reached before all flows were counted: flows kept");
}

// While a bucket of flows moves, neither worker may count its flows.
TEST(drain_is_not_over_while_a_bucket_moves) {
	struct own *own = *state;
	struct weir_service_state service;

	assert_int_equal(weir_tables_drain_binds(own->lab.tables, 0, NULL, true, 0), 0);
	begin(own, 0);
	own->lab.segment->steal_counters[1].answers[WEIR_BUCKET_CONFIRMED] = 1;
	assert_false(tick(own, NOW));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	own->lab.segment->steal_counters[1].buckets_given = 1;
	assert_true(tick(own, NOW + SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINED);
	assert_int_equal(weir_tables_service(own->lab.tables, 0, &service), 0);
	assert_int_equal(service.drain, WEIR_DRAIN_DRAINED);
}

TEST(flows_are_kept_at_the_deadline) {
	struct own *own = *state;

	set_open(own, 0, 2);
	begin(own, NOW + 10 * SECOND);
	assert_false(tick(own, NOW + 10 * SECOND - 1));
	assert_true(tick(own, NOW + 10 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
	assert_event(own, "b0", "drain deadline reached: 2 open flows kept");
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_DRAIN);
	lab_quiescent(&own->lab);
	assert_int_equal(lab_row(&own->lab, own->id).flags & WEIR_BACKEND_DOWN, 0);
}

TEST(end_of_the_drain_of_a_service_is_an_event) {
	struct own *own = *state;
	struct weir_service_state service;

	assert_int_equal(weir_tables_drain_binds(own->lab.tables, 0, NULL, true, NOW + SECOND), 0);
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 2;
	assert_false(tick(own, NOW));
	assert_true(tick(own, NOW + SECOND));
	assert_event(own, "", "drain deadline reached: 2 open flows kept");
	assert_int_equal(weir_tables_service(own->lab.tables, 0, &service), 0);
	assert_int_equal(service.drain_left, 2);
}

// Add a second bind at another port.
static void add_bind(struct own *own, uint16_t port) {
	struct weir_config_service *service = &own->config->services[0];
	struct weir_config_bind *binds =
		realloc(service->binds, (service->bind_count + 1) * sizeof(*binds));

	assert_non_null(binds);
	service->binds = binds;
	binds[service->bind_count] = binds[0];
	binds[service->bind_count].port_first = binds[service->bind_count].port_last = port;
	service->bind_count++;
}

// The flows of both VIPs are counted together, because flows are not counted for each bind.
TEST(end_of_the_drain_of_a_vip_names_its_bind) {
	struct own *own = *state;
	struct weir_address address = own->config->services[0].binds[0].address;

	add_bind(own, 8080);
	own->config->services[0].binds[1].address.bytes[3] ^= 1;
	lab_apply(&own->lab, own->config);
	lab_settle(&own->lab);
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 2;
	assert_int_equal(
		weir_tables_drain_binds(own->lab.tables, 0, &address, true, NOW + SECOND), 0);
	assert_true(tick(own, NOW + SECOND));
	assert_bind_event(own, "bind ",
		": drain deadline reached: its open flows kept; the whole service has 2 open "
		"flows");
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 0;
	assert_int_equal(weir_tables_drain_binds(own->lab.tables, 0, &address, true, 0), 0);
	lab_publish(&own->lab);
	lab_settle(&own->lab);
	assert_true(tick(own, NOW + SECOND));
	assert_bind_event(own, "bind ", ": drained: no open flows");
}

// The service keeps flows of backends that are down. But when a drain reaches its deadline, the
// flows of the drained backend are reset.
TEST(flows_are_dropped_at_the_deadline) {
	struct own *own = *state;
	uint8_t flags;

	own->config->services[0].drain.at_deadline = WEIR_AT_DEADLINE_DROP;
	lab_apply(&own->lab, own->config);
	set_open(own, 1, 1);
	begin(own, NOW + SECOND);
	assert_true(tick(own, NOW + 2 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DROPPED);
	assert_event(own, "b0", "drain deadline reached: 1 open flow dropped (maintenance)");
	assert_int_equal(lab_state(&own->lab, own->id).drain_left, 1);
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_MAINTENANCE);
	lab_quiescent(&own->lab);
	flags = lab_row(&own->lab, own->id).flags;
	assert_int_equal(flags & (WEIR_BACKEND_DOWN | WEIR_BACKEND_REHASH | WEIR_BACKEND_RESET),
		WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET);
	// Under maintenance set by an operator, the configured on_backend_down applies.
	assert_int_equal(
		weir_tables_set_admin(own->lab.tables, own->id, WEIR_ADMIN_MAINTENANCE), 0);
	assert_int_equal(phase(own), WEIR_DRAIN_NONE);
}

TEST(reset_of_dropped_flows_ends_with_ready_and_maintenance) {
	struct own *own = *state;

	set_open(own, 0, 1);
	own->config->services[0].drain.at_deadline = WEIR_AT_DEADLINE_DROP;
	lab_apply(&own->lab, own->config);
	begin(own, NOW);
	tick(own, NOW);
	assert_int_equal(
		weir_tables_set_admin(own->lab.tables, own->id, WEIR_ADMIN_MAINTENANCE), 0);
	lab_publish(&own->lab);
	lab_quiescent(&own->lab);
	assert_int_equal(lab_row(&own->lab, own->id).flags & WEIR_BACKEND_RESET, 0);
	assert_int_equal(weir_tables_set_admin(own->lab.tables, own->id, WEIR_ADMIN_READY), 0);
	lab_publish(&own->lab);
	lab_quiescent(&own->lab);
	assert_int_equal(lab_row(&own->lab, own->id).flags & WEIR_BACKEND_DOWN, 0);
}

TEST(ready_ends_a_drain) {
	struct own *own = *state;

	set_open(own, 0, 1);
	begin(own, NOW + SECOND);
	assert_int_equal(weir_tables_set_admin(own->lab.tables, own->id, WEIR_ADMIN_READY), 0);
	assert_int_equal(phase(own), WEIR_DRAIN_NONE);
	tick(own, NOW + 2 * SECOND);
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_READY);
	assert_int_equal(own->drains.count, 0);
}

TEST(another_drain_has_another_deadline) {
	struct own *own = *state;

	set_open(own, 0, 1);
	begin(own, NOW + SECOND);
	begin(own, NOW + 5 * SECOND);
	assert_int_equal(own->drains.count, 1);
	assert_false(tick(own, NOW + 2 * SECOND));
	assert_true(tick(own, NOW + 5 * SECOND));
	begin(own, 0); // drained once more, after its deadline
	assert_false(tick(own, NOW + 9 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
}

TEST(drain_continues_after_a_restart_of_control) {
	struct own *own = *state;

	set_open(own, 0, 1);
	begin(own, NOW + 10 * SECOND);
	memset(&own->drains, 0, sizeof(own->drains));
	restart_control(own);
	weir_drains_follow(&own->drains, own->lab.tables);
	assert_int_equal(own->drains.count, 1);
	assert_int_equal(lab_state(&own->lab, own->id).drain_until_ns, NOW + 10 * SECOND);
	assert_false(tick(own, NOW + 9 * SECOND));
	assert_true(tick(own, NOW + 10 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
	restart_control(own);
	weir_drains_follow(&own->drains, own->lab.tables);
	assert_int_equal(own->drains.count, 0); // the drain was over
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
}

TEST(drain_continues_after_a_restart_of_the_dataplane) {
	struct own *own = *state;
	struct weir_segment *before = own->lab.segment, *before_control = own->lab.control;

	set_open(own, 0, 1);
	begin(own, NOW + 10 * SECOND);
	assert_int_equal(weir_tables_rebind(own->lab.tables, NULL), 0);
	assert_false(tick(own, NOW + 9 * SECOND)); // the number of remaining flows is unknown
	lab_worker_stop(&own->lab);
	own->lab.segment = lab_segment(NULL);
	own->lab.control = lab_attach(own->lab.segment);
	lab_worker_start(&own->lab);
	assert_true(weir_tables_rebind(own->lab.tables, own->lab.control) >= 0);
	own->id = lab_id(&own->lab, "s0", "b0");
	weir_drains_follow(&own->drains, own->lab.tables);
	assert_int_equal(own->drains.count, 1);
	// The new dataplane has not counted the flow yet. A count of 0 must not end the drain, but
	// the deadline ends it.
	lab_publish(&own->lab);
	lab_quiescent(&own->lab);
	assert_false(tick(own, NOW + 9 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	set_open(own, 0, 1); // more flows may be open
	assert_true(tick(own, NOW + 20 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
	assert_true(lab_state(&own->lab, own->id).drain_left == WEIR_FLOWS_UNKNOWN);
	assert_event(own, "b0", "drain deadline reached before all flows were counted: flows kept");
	set_open(own, 0, 0);
	begin(own, 0);
	assert_false(tick(own, NOW + 21 * SECOND));
	weir_tables_clock(own->lab.tables, WEIR_TABLES_RECOUNT_MS);
	assert_true(tick(own, NOW + 22 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINED);
	assert_int_equal(lab_state(&own->lab, own->id).drain_left, 0);
	weir_segment_free(before_control);
	weir_segment_free(before);
}

TEST(deadline_applies_without_a_dataplane) {
	struct own *own = *state;

	own->config->services[0].drain.at_deadline = WEIR_AT_DEADLINE_DROP;
	lab_apply(&own->lab, own->config);
	begin(own, NOW + 10 * SECOND);
	assert_int_equal(weir_tables_rebind(own->lab.tables, NULL), 0);
	assert_false(tick(own, NOW + 9 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	assert_true(tick(own, NOW + 10 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DROPPED);
	assert_true(lab_state(&own->lab, own->id).drain_left == WEIR_FLOWS_UNKNOWN);
	assert_int_equal(own->drains.count, 0);
}

// Removes the service if `whole` is true, and one of its binds otherwise. The flows are reset at
// the deadline.
static void remove_at(struct own *own, uint64_t now_ns, bool whole) {
	struct weir_config *next = own->config;

	next->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	next->services[0].drain.removed_ms = 10000;
	next->flow_table.established_ms = 100000;
	lab_apply(&own->lab, next);
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 3;
	lab_set_flows(&own->lab, 0, own->id, 3);
	weir_tables_clock(own->lab.tables, now_ns / 1000000);
	if (whole) {
		lab_remove_service(next, 0);
	} else {
		next->services[0].binds[0].port_first = 8080;
		next->services[0].binds[0].port_last = 8080;
	}
	lab_apply(&own->lab, next);
}

static uint32_t removed(const struct own *own) {
	return weir_tables_removed_count(own->lab.tables);
}

// Tick at the deadline of a removal by remove_at(). Set the clock of the tables first: the
// period in which clients are refused begins at this time.
static bool tick_at_deadline(struct own *own) {
	weir_tables_clock(own->lab.tables, (NOW + 10 * SECOND) / 1000000);
	return tick(own, NOW + 10 * SECOND);
}

TEST(removed_bind_drains_to_its_deadline_and_then_refuses) {
	struct own *own = *state;

	remove_at(own, NOW, false);
	assert_false(tick(own, NOW + 10 * SECOND - 1));
	assert_int_equal(removed(own), 1);
	assert_true(tick_at_deadline(own));
	assert_bind_event(own, "removed bind ",
		": drain deadline reached: its open flows reset; the whole service has 3 open "
		"flows");
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 0;
	assert_false(tick(own, NOW + 110 * SECOND - 1)); // clients may still need their RSTs
	assert_int_equal(removed(own), 1);
	assert_true(tick(own, NOW + 110 * SECOND));
	assert_int_equal(removed(own), 0);
	assert_false(tick(own, NOW + 200 * SECOND));
}

TEST(removed_bind_is_gone_with_the_last_flow_of_its_service) {
	struct own *own = *state;

	remove_at(own, NOW, false);
	weir_segment_service_counters(own->lab.segment, 0, 0)->open_flows = 0;
	assert_false(tick(own, NOW + SECOND)); // workers may still start flows
	lab_settle(&own->lab);
	assert_true(tick(own, NOW + SECOND));
	assert_bind_event(own, "removed bind ", ": drained: no open flows");
	assert_int_equal(removed(own), 0);
}

// The event contains the two longest possible texts of binds, and the number of the other binds.
TEST(end_of_the_drain_of_many_removed_binds_names_two) {
	struct own *own = *state;
	struct weir_config_service *service = &own->config->services[0];
	struct weir_states_change change;

	for (uint16_t i = 1; i < 5; i++) {
		add_bind(own, i);
		service->binds[i] = (struct weir_config_bind){.protocol = IPPROTO_TCP,
			.port_first = 50001,
			.port_last = 60000,
			.address = {.family = 6, .bytes = {[0] = 0x20, [15] = (uint8_t)i}}};
		for (size_t byte = 1; byte < 15; byte++) {
			service->binds[i].address.bytes[byte] = 0x11;
		}
	}
	lab_apply(&own->lab, own->config);
	service->bind_count = 1;
	remove_at(own, NOW, false);
	lab_settle(&own->lab);
	assert_true(tick(own, NOW + 10 * SECOND));
	assert_true(weir_states_history(own->states, 0, &change));
	assert_int_equal(strncmp(change.why, "removed binds tcp ", 18), 0);
	assert_non_null(strstr(change.why, " and 3 more: drain deadline reached: their open flows "
					   "reset; the whole service has 3 open flows"));
	assert_true(strlen(change.why) < sizeof(change.why) - 80);
}

TEST(removed_service_is_down_at_its_deadline) {
	struct own *own = *state;
	const uint8_t down = WEIR_BACKEND_DOWN | WEIR_BACKEND_RESET;

	remove_at(own, NOW, true);
	lab_settle(&own->lab);
	assert_false(tick(own, NOW + 10 * SECOND - 1));
	assert_int_equal(removed(own), 1);
	assert_int_equal(lab_row(&own->lab, own->id).flags & down, 0);
	assert_true(tick_at_deadline(own));
	assert_event(own, "", "drain deadline reached: 3 open flows reset");
	assert_int_equal(removed(own), 1); // clients may still need their RSTs
	assert_int_equal(lab_row(&own->lab, own->id).flags & down, down);
	assert_false(tick(own, NOW + 110 * SECOND - 1));
	assert_true(tick(own, NOW + 110 * SECOND));
	assert_int_equal(removed(own), 0);
}

// The drain of a removed backend continues while its flows are open. Otherwise an operator who
// waits for the drain of a host would stop a server that has connections.
TEST(drain_of_a_removed_backend_goes_on_and_keeps_its_flows) {
	struct own *own = *state;

	own->config->services[0].drain.at_deadline = WEIR_AT_DEADLINE_DROP;
	set_open(own, 0, 1);
	lab_set_flows(&own->lab, 0, own->id, 1);
	begin(own, NOW + SECOND);
	lab_remove_backend(own->config, 0, 0);
	lab_apply(&own->lab, own->config);
	weir_drains_follow(&own->drains, own->lab.tables);
	assert_false(tick(own, NOW + SECOND - 1));
	assert_int_equal(own->drains.count, 1);
	// on_backend_down applies to a removed backend, and at_deadline does not
	assert_true(tick(own, NOW + SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_KEPT);
	assert_int_equal(lab_row(&own->lab, own->id).flags & WEIR_BACKEND_RESET, 0);
	assert_int_equal(lab_state(&own->lab, own->id).drain_left, 1);
	begin(own, 0); // a second drain
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINING);
	set_open(own, 0, 0);
	lab_settle(&own->lab);
	assert_true(tick(own, NOW + 2 * SECOND));
	assert_int_equal(phase(own), WEIR_DRAIN_DRAINED);
}

TEST(several_begin_all_or_none) {
	struct own *own = *state;
	uint16_t ids[] = {lab_id(&own->lab, "s0", "b1"), lab_id(&own->lab, "s0", "b2"), 999};
	struct weir_drains *drains = &own->drains;

	assert_int_equal(weir_drains_begin(drains, own->lab.tables, ids, 3, 0), -ENOENT);
	assert_int_equal(drains->count, 0);
	assert_int_equal(lab_state(&own->lab, ids[0]).admin, WEIR_ADMIN_READY);
	for (int i = 0; i < 2; i++) { // the second time, both backends are draining already
		assert_int_equal(weir_drains_begin(drains, own->lab.tables, ids, 2, NOW), 0);
		assert_int_equal(drains->count, 2);
	}
	assert_int_equal(lab_state(&own->lab, ids[1]).drain, WEIR_DRAIN_DRAINING);
	lab_publish(&own->lab);
	lab_quiescent(&own->lab);
	assert_true(tick(own, NOW));
	assert_int_equal(drains->count, 0);
	assert_int_equal(lab_state(&own->lab, ids[0]).drain, WEIR_DRAIN_DRAINED);
}

// Each tick reads the counters of only some drains. With many drains and 64 workers, reading all
// counters would block the loop most of the time.
TEST(tick_looks_at_a_part_of_many_drains) {
	static const struct lab_room room = {
		.workers = 64, .max_services = 512, .max_backends = 512};
	const uint32_t part = WEIR_DRAINS_LINES / room.workers, all = part + part / 2;
	struct weir_config *config = lab_config(all, 1);
	struct own *own = *state;
	struct weir_drains *drains = &own->drains;
	struct weir_service_state service;
	struct weir_drains_of of = {.states = own->states, .log = &own->log};
	uint16_t ids[512];
	struct lab lab;

	config->segment.max_services = room.max_services;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	of.tables = lab.tables;
	for (uint16_t id = 0; id < all; id++) {
		ids[id] = id;
		assert_int_equal(weir_tables_drain_binds(lab.tables, id, NULL, true, 0), 0);
	}
	assert_int_equal(weir_drains_begin(drains, lab.tables, ids, all, 0), 0);
	lab_publish(&lab);
	lab_quiescent(&lab);
	for (uint32_t left = all - part;; left = 0) {
		assert_true(weir_drains_tick(drains, &of, NOW));
		assert_int_equal(drains->count, left);
		assert_int_equal(weir_tables_service(lab.tables, (uint16_t)(all - 1), &service), 0);
		assert_int_equal(
			service.drain, left > 0 ? WEIR_DRAIN_DRAINING : WEIR_DRAIN_DRAINED);
		if (left == 0) {
			break;
		}
	}
	lab_close(&lab);
	lab_config_free(config);
}

// A backend is removed and added again. It still has flows, so it gets its former id, and does not
// drain.
TEST(readded_backend_does_not_drain) {
	struct own *own = *state;
	struct weir_config *without = lab_config_copy(own->config);

	set_open(own, 0, 1);
	lab_set_flows(&own->lab, 0, own->id, 1);
	begin(own, NOW + SECOND);
	lab_remove_backend(without, 0, 0);
	lab_apply(&own->lab, without);
	lab_apply(&own->lab, own->config);
	assert_int_equal(lab_id(&own->lab, "s0", "b0"), own->id);
	weir_drains_follow(&own->drains, own->lab.tables);
	set_open(own, 0, 0);
	assert_false(tick(own, NOW + 2 * SECOND));
	assert_int_equal(lab_state(&own->lab, own->id).admin, WEIR_ADMIN_READY);
	assert_int_equal(phase(own), WEIR_DRAIN_NONE);
	lab_config_free(without);
}

// The segment contains valid and invalid drain phases, or phases that do not fit the administrative
// state. Only valid phases that fit the state are adopted.
TEST(absurd_phases_in_the_segment_are_not_adopted) {
	static const struct {
		uint32_t admin, phase;
		enum weir_drain_phase adopted;
	} cases[] = {
		{WEIR_ADMIN_DRAIN, WEIR_DRAIN_DRAINING, WEIR_DRAIN_DRAINING},
		{WEIR_ADMIN_DRAIN, WEIR_DRAIN_DROPPED, WEIR_DRAIN_NONE},
		{WEIR_ADMIN_DRAIN, 7, WEIR_DRAIN_NONE},
		{WEIR_ADMIN_READY, WEIR_DRAIN_DRAINING, WEIR_DRAIN_NONE},
		{WEIR_ADMIN_MAINTENANCE, WEIR_DRAIN_KEPT, WEIR_DRAIN_NONE},
		{WEIR_ADMIN_MAINTENANCE, WEIR_DRAIN_DROPPED, WEIR_DRAIN_DROPPED},
	};
	struct own *own = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		own->lab.control->identity_backends[own->id].state =
			WEIR_IDENTITY_USED | cases[i].admin << 8 |
			(uint32_t)WEIR_HEALTH_HEALTHY << 16 | cases[i].phase << 26;
		lab_restart(&own->lab);
		lab_apply(&own->lab, own->config);
		assert_int_equal(phase(own), cases[i].adopted);
		assert_int_equal(lab_state(&own->lab, own->id).admin, cases[i].admin);
	}
}
