// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of change_costs.h with two services s0 (tcp) and s1 (udp), which have three backends each.
// The test writes flow counts as a worker does.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change_costs.h"
#include "change_rig.h"

static void set_open(struct rig *rig, const char *service, const char *backend, uint64_t flows) {
	uint16_t id = lab_id(&rig->lab, service, backend);
	int service_id = weir_tables_service_find(rig->lab.tables, service);

	weir_segment_backend_counters(rig->lab.segment, 0, id)->open_flows = flows;
	weir_segment_service_counters(rig->lab.segment, 0, (uint32_t)service_id)->open_flows +=
		flows;
	weir_segment_service_counters(rig->lab.segment, 0, (uint32_t)service_id)->active_flows +=
		flows;
}

static int setup(void **state) {
	struct rig *rig = change_rig_open();

	lab_resolve(&rig->lab);
	lab_settle(&rig->lab);
	set_open(rig, "s0", "b0", 12);
	set_open(rig, "s0", "b1", 1);
	set_open(rig, "s1", "b0", 7);
	*state = rig;
	return 0;
}

TEST_EACH(setup, change_rig_close);

static void compute(struct rig *rig) {
	struct weir_change_costs_of of = {.tables = rig->lab.tables,
		.segment = rig->lab.control,
		.from = rig->from,
		.to = rig->to};

	assert_int_equal(weir_config_compare(rig->from, rig->to, &rig->difference), 0);
	assert_int_equal(weir_change_costs(&of, &rig->difference), 0);
}

// Compare both configurations, and check the cost of the change `what`.
static void assert_cost(struct rig *rig, const char *what, enum weir_change_effect effect,
	uint64_t flows, const char *text) {
	compute(rig);
	for (uint32_t i = 0; i < rig->difference.count; i++) {
		const struct weir_change *change = &rig->difference.change[i];

		if (strcmp(change->what, what) != 0) {
			continue;
		}
		assert_int_equal(change->cost.effect, effect);
		assert_int_equal(change->cost.flows, flows);
		if (text == NULL) {
			assert_null(change->cost.text);
		} else {
			assert_non_null(change->cost.text);
			assert_string_equal(change->cost.text, text);
		}
		return;
	}
	fail_msg("no change of %s", what);
}

TEST(cost_of_a_removed_backend) {
	struct rig *rig = *state;
	static const struct {
		enum weir_config_on_backend_down down;
		enum weir_change_effect effect;
		const char *text;
	} cases[] = {
		{WEIR_ON_BACKEND_DOWN_KEEP, WEIR_CHANGE_STAY,
			"12 open flows: TCP flows stay until they end"},
		{WEIR_ON_BACKEND_DOWN_REHASH, WEIR_CHANGE_MOVE,
			"12 open flows: TCP flows move to another backend, which resets them"},
		{WEIR_ON_BACKEND_DOWN_RESET, WEIR_CHANGE_BREAK,
			"12 open flows: TCP flows are reset"},
	};

	lab_remove_backend(rig->to, 0, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig->to->services[0].on_backend_down = cases[i].down;
		assert_cost(rig, "service s0 backend b0", cases[i].effect, 12, cases[i].text);
		weir_difference_fini(&rig->difference);
	}
}

TEST(cost_of_a_removed_backend_without_flows) {
	struct rig *rig = *state;

	lab_remove_backend(rig->to, 0, 2);
	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	assert_cost(rig, "service s0 backend b2", WEIR_CHANGE_NONE, 0, "no open flows");
}

// After a restart of the dataplane, a count of 0 does not mean that no flow is open.
TEST(cost_during_the_recount_is_that_of_the_flows_counted_so_far) {
	struct rig *rig = *state;

	weir_tables_recount_since(rig->lab.tables, 0);
	lab_remove_backend(rig->to, 0, 2);
	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	rig->to->fragments.entries++;
	assert_cost(rig, "service s0 backend b2", WEIR_CHANGE_BREAK, 0,
		"0 open flows counted so far: TCP flows are reset");
	weir_difference_fini(&rig->difference);
	// no backend is down, so no flow is of one
	assert_cost(rig, "service s0 on_backend_down", WEIR_CHANGE_NONE, 0,
		"no open flows of backends that are down or removed");
	weir_difference_fini(&rig->difference);
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 13,
		"the restart breaks up to 13 of 20 open flows counted so far");
	weir_difference_fini(&rig->difference);
	weir_tables_clock(rig->lab.tables, WEIR_TABLES_RECOUNT_MS);
	assert_cost(rig, "service s0 backend b2", WEIR_CHANGE_NONE, 0, "no open flows");
}

// on_backend_down affects only flows of backends that are down or removed. So a change of
// on_backend_down costs only these flows.
TEST(cost_of_another_on_backend_down) {
	struct rig *rig = *state;

	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	assert_cost(rig, "service s0 on_backend_down", WEIR_CHANGE_NONE, 0,
		"no open flows of backends that are down or removed");
	weir_difference_fini(&rig->difference);
	weir_segment_backend_counters(rig->lab.segment, 0, lab_id(&rig->lab, "s0", "b0"))
		->active_flows = 12; // these flows stay at their backend while it is not down
	lab_remove_backend(rig->from, 0, 0);
	lab_remove_backend(rig->to, 0, 0);
	lab_apply(&rig->lab, rig->from);
	lab_settle(&rig->lab);
	assert_cost(rig, "service s0 on_backend_down", WEIR_CHANGE_BREAK, 12,
		"12 open flows of backends that are down or removed: TCP flows are reset");
}

// The reload also adds the removed backend again, so its flows stay and are not counted.
TEST(another_on_backend_down_costs_a_returning_backend_nothing) {
	struct rig *rig = *state;
	struct weir_config *without = lab_config_copy(rig->from);

	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	weir_segment_backend_counters(rig->lab.segment, 0, lab_id(&rig->lab, "s0", "b0"))
		->active_flows = 12;
	lab_remove_backend(without, 0, 0);
	lab_apply(&rig->lab, without);
	lab_settle(&rig->lab);
	assert_cost(rig, "service s0 on_backend_down", WEIR_CHANGE_NONE, 0,
		"no open flows of backends that are down or removed");
	lab_apply(&rig->lab, rig->from);
	lab_config_free(without);
}

TEST(cost_of_datagrams_instead_of_udp_flows) {
	struct rig *rig = *state;
	struct weir_config_service *from = &rig->from->services[1], *to = &rig->to->services[1];

	to->udp = WEIR_CONFIG_UDP_DATAGRAM;
	assert_cost(rig, "service s1 udp", WEIR_CHANGE_MOVE, 7,
		"7 open flows: UDP flows end at their next datagram");
	weir_difference_fini(&rig->difference);
	// Back to flows, nothing ends.
	from->udp = WEIR_CONFIG_UDP_DATAGRAM;
	to->udp = WEIR_CONFIG_UDP_FLOW;
	assert_cost(rig, "service s1 udp", WEIR_CHANGE_NONE, 0, NULL);
}

TEST(cost_of_an_address_is_that_of_a_removal) {
	struct rig *rig = *state;

	rig->to->services[0].backends[1].address.bytes[3] ^= 0x40;
	assert_cost(rig, "service s0 backend b1 address", WEIR_CHANGE_STAY, 1,
		"1 open flow: TCP flows stay until they end");
}

TEST(cost_of_a_backend_of_udp) {
	struct rig *rig = *state;

	lab_remove_backend(rig->to, 1, 0);
	assert_cost(rig, "service s1 backend b0", WEIR_CHANGE_MOVE, 7,
		"7 open flows: UDP flows move to another backend at their next datagram");
}

TEST(cost_of_a_removed_service) {
	struct rig *rig = *state;

	lab_remove_service(rig->to, 1);
	assert_cost(rig, "service s1", WEIR_CHANGE_BREAK, 7,
		"7 open flows: UDP flows end: the next datagram goes to the service that then has "
		"its address and port; if no service has them, closed_ports applies; if no bind "
		"has the address, the kernel gets the datagram");
	weir_difference_fini(&rig->difference);
	lab_remove_service(rig->to, 0);
	assert_cost(rig, "service s0", WEIR_CHANGE_STAY, 13,
		"13 open flows: TCP flows stay until they end");
	weir_difference_fini(&rig->difference);
	rig->from->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_REHASH;
	assert_cost(rig, "service s0", WEIR_CHANGE_MOVE, 13,
		"13 open flows: TCP flows move to the service that then has their address, or "
		"stay if no service has it");
	weir_difference_fini(&rig->difference);
	rig->from->services[0].drain.removed_ms = 60000;
	rig->from->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	assert_cost(rig, "service s0", WEIR_CHANGE_BREAK, 13,
		"13 open flows: TCP flows drain for 1m00s, then are reset");
}

TEST(cost_of_a_moved_bind) {
	struct rig *rig = *state;
	char what[160], bind[WEIR_BIND_TEXT_BYTES];

	snprintf(what, sizeof(what), "service s0 bind %s",
		weir_bind_format(&rig->from->services[0].binds[0], bind, sizeof(bind)));
	rig->to->services[0].binds[0].port_first = 8080;
	rig->to->services[0].binds[0].port_last = 8080;
	assert_cost(
		rig, what, WEIR_CHANGE_STAY, 13, "13 open flows: TCP flows stay until they end");
	weir_difference_fini(&rig->difference);
	rig->to->services[0].on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	rig->to->services[0].drain.removed_ms = 8000;
	assert_cost(rig, what, WEIR_CHANGE_BREAK, 13,
		"13 open flows: TCP flows drain for 8.0s, then are reset");
	weir_difference_fini(&rig->difference);
	// the bind moves to the other service
	rig->to->services[1].binds[0] = rig->from->services[0].binds[0];
	assert_cost(
		rig, what, WEIR_CHANGE_STAY, 13, "13 open flows: TCP flows stay until they end");
}

// A service has the name that precedes the bind in the text of the change.
TEST(cost_of_a_moved_bind_of_a_service_with_the_name_bind) {
	struct rig *rig = *state;
	struct weir_config_service *from = &rig->from->services[0], *to = &rig->to->services[0];
	char what[160], bind[WEIR_BIND_TEXT_BYTES];

	snprintf(from->name, sizeof(from->name), "bind");
	snprintf(to->name, sizeof(to->name), "bind");
	lab_apply(&rig->lab, rig->from);
	set_open(rig, "bind", "b0", 5);
	snprintf(what, sizeof(what), "service bind bind %s",
		weir_bind_format(&from->binds[0], bind, sizeof(bind)));
	to->on_backend_down = WEIR_ON_BACKEND_DOWN_RESET;
	to->drain.removed_ms = 8000;
	to->binds[0].port_first = to->binds[0].port_last = 8080;
	rig->to->services[1].binds[0] = from->binds[0];
	assert_cost(rig, what, WEIR_CHANGE_STAY, 5, "5 open flows: TCP flows stay until they end");
}

// Flows are not counted for each bind. So the cost is the number of flows of the whole service,
// including flows of a bind that an earlier reload removed.
TEST(cost_of_a_bind_says_that_the_flows_are_those_of_the_service) {
	struct rig *rig = *state;
	struct weir_config_service *from = &rig->from->services[0];
	char what[160], bind[WEIR_BIND_TEXT_BYTES];
	const char *text = "up to 13 open flows of all binds of the service: TCP flows stay until "
			   "they end";

	snprintf(what, sizeof(what), "service s0 bind %s",
		weir_bind_format(&from->binds[0], bind, sizeof(bind)));
	rig->to->services[0].binds[0].port_first = 8080;
	rig->to->services[0].binds[0].port_last = 8080;
	rig->to->services[0].drain.removed_ms = 8000;
	from->binds = realloc(from->binds, 2 * sizeof(*from->binds));
	assert_non_null(from->binds);
	from->binds[1] = rig->to->services[0].binds[0];
	from->bind_count = 2;
	assert_cost(rig, what, WEIR_CHANGE_STAY, 13, text);
	weir_difference_fini(&rig->difference);

	lab_apply(&rig->lab, rig->to); // the bind drains now; remove the other bind
	weir_bind_format(&rig->to->services[0].binds[0], bind, sizeof(bind));
	snprintf(what, sizeof(what), "service s0 bind %s", bind);
	from->binds[0] = from->binds[1];
	from->bind_count = 1;
	rig->to->services[0].binds[0].port_first = 8081;
	rig->to->services[0].binds[0].port_last = 8081;
	assert_cost(rig, what, WEIR_CHANGE_STAY, 13, text);
}

// A reload moves the bind with the flows to another service, and gives the service another bind.
TEST(cost_of_a_bind_knows_that_a_reload_moved_another_one_away) {
	struct rig *rig = *state;
	struct weir_config *moved = lab_config_copy(rig->from);
	char what[160], bind[WEIR_BIND_TEXT_BYTES];

	moved->services[1].binds[0] = rig->from->services[0].binds[0];
	moved->services[0].binds[0].address.bytes[3] ^= 0x40;
	lab_apply(&rig->lab, moved);
	for (uint32_t i = 0; i < 2; i++) {
		rig->from->services[i].binds[0] = moved->services[i].binds[0];
		rig->to->services[i].binds[0] = moved->services[i].binds[0];
	}
	snprintf(what, sizeof(what), "service s0 bind %s",
		weir_bind_format(&moved->services[0].binds[0], bind, sizeof(bind)));
	rig->to->services[0].binds[0].port_first = 8081;
	rig->to->services[0].binds[0].port_last = 8081;
	assert_cost(rig, what, WEIR_CHANGE_STAY, 13,
		"up to 13 open flows of all binds of the service: TCP flows stay until they end");
	lab_apply(&rig->lab, rig->from);
	lab_config_free(moved);
}

TEST(cost_of_weights_is_none) {
	struct rig *rig = *state;

	rig->to->services[0].backends[0].weight = 7;
	assert_cost(rig, "service s0 backend b0 weight", WEIR_CHANGE_NONE, 0, NULL);
}

// A weight set at run time is dropped when the configured weight or the address changes.
TEST(weight_set_by_hand_is_replaced) {
	struct rig *rig = *state;
	const struct weir_segment *control = rig->lab.control;
	uint16_t id = lab_id(&rig->lab, "s0", "b0");

	assert_int_equal(weir_tables_set_weight(rig->lab.tables, id, 0), 0);
	rig->to->services[0].backends[0].weight = 7;
	assert_cost(rig, "service s0 backend b0 weight", WEIR_CHANGE_NONE, 0,
		"replaces the weight set by hand: 0 -> 7");
	weir_difference_fini(&rig->difference);
	rig->to->services[0].backends[0].weight_auto = true;
	rig->lab.control = NULL; // no dataplane
	assert_cost(rig, "service s0 backend b0 weight", WEIR_CHANGE_NONE, 0,
		"replaces the weight set by hand: 0 -> auto");
	rig->lab.control = (struct weir_segment *)(uintptr_t)control;
	weir_difference_fini(&rig->difference);
	rig->to->services[0].backends[0].weight_auto = false;
	rig->to->services[0].backends[0].weight = rig->from->services[0].backends[0].weight;
	rig->to->services[0].backends[0].address.bytes[3] ^= 0x40;
	assert_cost(rig, "service s0 backend b0 address", WEIR_CHANGE_STAY, 12,
		"12 open flows: TCP flows stay until they end; replaces the weight set by hand: 0 "
		"-> "
		"100");
	weir_difference_fini(&rig->difference);
	rig->to->services[0].backends[1].weight = 7;
	assert_cost(rig, "service s0 backend b1 weight", WEIR_CHANGE_NONE, 0, NULL);
}

TEST(policy_set_by_hand_is_replaced) {
	struct rig *rig = *state;
	int id = weir_tables_service_find(rig->lab.tables, "s0");

	assert_int_equal(
		weir_tables_set_policy(rig->lab.tables, (uint16_t)id, WEIR_POLICY_LEAST_LOADED), 0);
	rig->to->services[0].policy.name = WEIR_POLICY_RANDOM;
	assert_cost(rig, "service s0 policy", WEIR_CHANGE_NONE, 0,
		"replaces the policy set by hand: least-loaded -> random");
	weir_difference_fini(&rig->difference);
	weir_tables_set_policy(rig->lab.tables, (uint16_t)id, WEIR_POLICY_UNSET);
	assert_cost(rig, "service s0 policy", WEIR_CHANGE_NONE, 0, NULL);
}

// The backend is renamed, and loses its run-time settings. The change that removes the former name
// shows these settings.
TEST(removed_backend_says_what_was_set_by_hand) {
	struct rig *rig = *state;
	const struct weir_segment *control = rig->lab.control;
	const uint16_t id = lab_id(&rig->lab, "s0", "b2");

	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_MAINTENANCE), 0);
	snprintf(rig->to->services[0].backends[2].name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_cost(rig, "service s0 backend b2", WEIR_CHANGE_NONE, 0,
		"no open flows; not kept if it returns: maintenance of b2 (10.0.0.2)");
	weir_difference_fini(&rig->difference);
	assert_int_equal(weir_tables_set_drain(rig->lab.tables, id, WEIR_DRAIN_DRAINING, 0), 0);
	assert_int_equal(weir_tables_set_weight(rig->lab.tables, id, 50), 0);
	rig->lab.control = NULL; // no dataplane
	assert_cost(rig, "service s0 backend b2", WEIR_CHANGE_NONE, 0,
		"not kept if it returns: drain of b2 (10.0.0.2), weight 50 of b2");
	rig->lab.control = (struct weir_segment *)(uintptr_t)control;
}

TEST(another_address_ends_maintenance) {
	struct rig *rig = *state;

	assert_int_equal(weir_tables_set_admin(rig->lab.tables, lab_id(&rig->lab, "s0", "b2"),
				 WEIR_ADMIN_MAINTENANCE),
		0);
	rig->to->services[0].backends[2].address.bytes[3] ^= 0x40;
	assert_cost(rig, "service s0 backend b2 address", WEIR_CHANGE_NONE, 0,
		"no open flows; ends: maintenance of b2 (10.0.0.2)");
}

TEST(renamed_service_says_what_was_set_by_hand) {
	struct rig *rig = *state;
	struct weir_tables *tables = rig->lab.tables;
	const int id = weir_tables_service_find(tables, "s1");
	const char *flows = "7 open flows: UDP flows end: the next datagram goes to the service "
			    "that then has its address and port; if no service has them, "
			    "closed_ports applies; if no bind has the address, the kernel gets "
			    "the datagram";
	char text[800];

	snprintf(rig->to->services[1].name, WEIR_CONFIG_NAME_BYTES, "other");
	assert_cost(rig, "service s1", WEIR_CHANGE_BREAK, 7, flows);
	weir_difference_fini(&rig->difference);
	assert_int_equal(
		weir_tables_set_admin(tables, lab_id(&rig->lab, "s1", "b1"), WEIR_ADMIN_DRAIN), 0);
	assert_int_equal(weir_tables_set_weight(tables, lab_id(&rig->lab, "s1", "b0"), 0), 0);
	assert_int_equal(weir_tables_set_policy(tables, (uint16_t)id, WEIR_POLICY_RANDOM), 0);
	snprintf(text, sizeof(text),
		"%s; not kept if it returns: drain of b1 (10.1.0.1), policy random, weight 0 of b0",
		flows);
	assert_cost(rig, "service s1", WEIR_CHANGE_BREAK, 7, text);
	weir_difference_fini(&rig->difference);

	assert_int_equal(weir_tables_drain_binds(tables, (uint16_t)id, NULL, true, 0), 0);
	assert_int_equal(weir_tables_set_weight(tables, lab_id(&rig->lab, "s1", "b2"), 9), 0);
	snprintf(text, sizeof(text),
		"%s; not kept if it returns: drain of b1 (10.1.0.1), drain of udp 198.51.0.1:80, "
		"policy random, "
		"weight 0 of b0 and 1 more",
		flows);
	assert_cost(rig, "service s1", WEIR_CHANGE_BREAK, 7, text);
}

TEST(removed_bind_says_that_its_drain_ends) {
	struct rig *rig = *state;
	const int id = weir_tables_service_find(rig->lab.tables, "s0");
	char what[160], bind[WEIR_BIND_TEXT_BYTES], text[300];

	weir_bind_format(&rig->from->services[0].binds[0], bind, sizeof(bind));
	snprintf(what, sizeof(what), "service s0 bind %s", bind);
	snprintf(text, sizeof(text),
		"13 open flows: TCP flows stay until they end; not kept if it returns: drain of %s",
		bind);
	assert_int_equal(weir_tables_drain_binds(rig->lab.tables, (uint16_t)id, NULL, true, 0), 0);
	rig->to->services[0].binds[0].port_first = 8080;
	rig->to->services[0].binds[0].port_last = 8080;
	assert_cost(rig, what, WEIR_CHANGE_STAY, 13, text);
}

// After a restart of weir-dataplane, maglev selects the same backends again, unless the selection
// has changed. If a backend gets no new flows, its flows are lost, because the backend is not in
// the selection.
TEST(cost_of_a_restart) {
	struct rig *rig = *state;
	uint16_t id = lab_id(&rig->lab, "s0", "b1");

	rig->to->fragments.entries++;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_NONE, 0,
		"the restart breaks none of 20 open flows");
	weir_difference_fini(&rig->difference);
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_DRAIN), 0);
	lab_publish(&rig->lab);
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 13,
		"the restart breaks up to 13 of 20 open flows, 12 of them only if they began "
		"before the "
		"last change of backends or weights");
	weir_difference_fini(&rig->difference);
	rig->to->services[1].backends[2].weight = 7;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 20,
		"the restart breaks up to 20 of 20 open flows, 12 of them only if they began "
		"before the "
		"last change of backends or weights");
	weir_difference_fini(&rig->difference);
	rig->to->instance.hash_seed++;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 20,
		"a restart with another hash_seed breaks up to 20 open flows");
}

// A removal alone breaks no flows. But a restarted worker has lost its flow table, and the new
// tables do not contain the removed binds and services.
TEST(cost_of_a_restart_with_removals) {
	struct rig *rig = *state;

	rig->to->fragments.entries++;
	rig->to->services[0].binds[0].port_first = 8080;
	rig->to->services[0].binds[0].port_last = 8080;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 13,
		"the restart breaks up to 13 of 20 open flows");
	weir_difference_fini(&rig->difference);
	lab_remove_service(rig->to, 1);
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 20,
		"the restart breaks up to 20 of 20 open flows");
}

// Members of a health check have names of members that the selection depends on.
TEST(cost_of_a_restart_with_other_checks) {
	struct rig *rig = *state;
	struct weir_config_health_check dns = {.type = WEIR_CHECK_DNS, .name = "a"}, own = dns;

	rig->from->services[0].health_check = dns;
	rig->to->services[0].health_check = dns;
	rig->from->services[1].backends[0].health_check = &dns;
	rig->to->services[1].backends[0].health_check = &own;
	snprintf(own.name, sizeof(own.name), "b");
	inet_pton(AF_INET, "192.0.2.1", rig->to->services[0].health_check.address.bytes);
	rig->to->services[0].health_check.address.family = 4;
	rig->to->fragments.entries++;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_NONE, 0,
		"the restart breaks none of 20 open flows");
	assert_int_equal(rig->difference.count, 3);
}

// A change of a backend's own check is no change of the backend.
TEST(cost_of_an_own_check_with_another_address) {
	struct rig *rig = *state;
	struct weir_config_health_check dns = {.type = WEIR_CHECK_DNS, .name = "a"}, own = dns;
	const uint16_t id = lab_id(&rig->lab, "s0", "b0");

	rig->from->services[0].backends[0].health_check = &dns;
	rig->to->services[0].backends[0].health_check = &own;
	inet_pton(AF_INET, "192.0.2.1", own.address.bytes);
	own.address.family = 4;
	assert_int_equal(weir_tables_set_admin(rig->lab.tables, id, WEIR_ADMIN_MAINTENANCE), 0);
	assert_cost(rig, "service s0 backend b0 health_check address", WEIR_CHANGE_NONE, 0, NULL);
}

// The subset of a service depends on the client_id of the instance. If each worker has a subset, it
// also depends on the number of workers.
TEST(cost_of_a_restart_with_other_subsets) {
	struct rig *rig = *state;
	const struct weir_config_subset subset = {
		.algorithm = WEIR_SUBSET_DETERMINISTIC, .size = 2};

	rig->to->services[1].subset = subset;
	rig->from->services[1].subset = subset;
	rig->to->fragments.entries++;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_NONE, 0,
		"the restart breaks none of 20 open flows");
	weir_difference_fini(&rig->difference);
	rig->to->instance.client_id = 1;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 7,
		"the restart breaks up to 7 of 20 open flows");
	weir_difference_fini(&rig->difference);
	rig->to->instance.client_id = 0;
	rig->to->services[1].subset.client = WEIR_SUBSET_CLIENT_WORKER;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_BREAK, 7,
		"the restart breaks up to 7 of 20 open flows");
	weir_difference_fini(&rig->difference);
	rig->from->services[1].subset.client = WEIR_SUBSET_CLIENT_WORKER;
	assert_cost(rig, "fragments entries", WEIR_CHANGE_NONE, 0,
		"the restart breaks none of 20 open flows");
	weir_difference_fini(&rig->difference);
	rig->to->workers.count = 3;
	assert_cost(rig, "workers cores", WEIR_CHANGE_BREAK, 7,
		"the restart breaks up to 7 of 20 open flows");
}

TEST(cost_of_a_restart_with_another_policy) {
	struct rig *rig = *state;
	struct weir_restart_cost cost = weir_restart_cost(rig->lab.tables, rig->lab.control);
	int id = weir_tables_service_find(rig->lab.tables, "s0");

	assert_int_equal(cost.open, 20);
	assert_int_equal(cost.lost, 0);
	assert_int_equal(
		weir_tables_set_policy(rig->lab.tables, (uint16_t)id, WEIR_POLICY_LEAST_LOADED), 0);
	lab_publish(&rig->lab);
	cost = weir_restart_cost(rig->lab.tables, rig->lab.control);
	assert_int_equal(cost.open, 20);
	assert_int_equal(cost.lost, 13);
	cost = weir_restart_cost(rig->lab.tables, NULL);
	assert_int_equal(cost.open, 0);
}

static struct weir_restart_cost cost_now(const struct rig *rig) {
	return weir_restart_cost(rig->lab.tables, rig->lab.control);
}

static void set_weight(struct rig *rig, uint32_t weight) {
	const uint16_t id = lab_id(&rig->lab, "s0", "b0");

	assert_int_equal(weir_tables_set_weight(rig->lab.tables, id, weight), 0);
	lab_publish(&rig->lab);
}

// Weights have changed. A flow that began before the change may be at a different backend than
// the new selection would choose, and a restart would break this flow. Flows that began after the
// change are safe. Until all workers use the new selection, any flow may have begun with the old
// selection.
TEST(cost_of_a_restart_after_a_change_of_weights) {
	struct rig *rig = *state;

	assert_int_equal(cost_now(rig).lost, 0);
	set_weight(rig, 10);
	assert_int_equal(cost_now(rig).lost, 13);
	set_open(rig, "s0", "b2", 4); // flows with the former selection
	assert_int_equal(cost_now(rig).lost, 17);
	lab_settle(&rig->lab);
	set_open(rig, "s0", "b1", 30); // flows with the new selection
	assert_int_equal(cost_now(rig).open, 53);
	assert_int_equal(cost_now(rig).lost, 17);
	assert_int_equal(cost_now(rig).older, 17);
	set_open(rig, "s0", "b1", 2);
	set_open(rig, "s0", "b0", 0);
	assert_int_equal(cost_now(rig).lost, 6);
	set_weight(rig, WEIR_WEIGHT_UNSET); // a further change, back to the first selection
	lab_settle(&rig->lab);
	assert_int_equal(cost_now(rig).lost, 6);
	assert_int_equal(cost_now(rig).open, 13);
}

TEST(cost_of_a_restart_after_a_backend_is_added) {
	struct rig *rig = *state;
	struct weir_config *more = lab_config(2, 4);

	more->services[1].binds[0].protocol = IPPROTO_UDP;
	lab_apply(&rig->lab, more);
	lab_resolve(&rig->lab);
	lab_settle(&rig->lab);
	assert_int_equal(cost_now(rig).lost, 20);
	assert_int_equal(cost_now(rig).older, 20);
	lab_apply(&rig->lab, rig->from);
	lab_config_free(more);
}

// A bind was removed. Its flows stay, but a restarted worker does not find them again.
TEST(cost_of_a_restart_after_a_bind_was_moved) {
	struct rig *rig = *state;

	rig->to->services[0].binds[0].port_first = 8080;
	rig->to->services[0].binds[0].port_last = 8080;
	lab_apply(&rig->lab, rig->to);
	lab_settle(&rig->lab);
	assert_int_equal(cost_now(rig).lost, 13);
	lab_apply(&rig->lab, rig->from);
}

// A spilled flow is not at the backend that the selection chooses for it, so a restart breaks it.
TEST(cost_of_a_restart_counts_spilled_flows) {
	struct rig *rig = *state;
	const int id = weir_tables_service_find(rig->lab.tables, "s0");

	weir_segment_service_counters(rig->lab.segment, 1, (uint32_t)id)->spilled = 3;
	assert_int_equal(cost_now(rig).lost, 3);
	assert_int_equal(cost_now(rig).older, 0);
	weir_segment_service_counters(rig->lab.segment, 1, (uint32_t)id)->spilled = 300;
	assert_int_equal(cost_now(rig).lost, 13);
	set_weight(rig, 10);
	lab_settle(&rig->lab);
	assert_int_equal(cost_now(rig).lost, 13);
	assert_int_equal(cost_now(rig).older, 13);
}

TEST(cost_of_a_restart_counts_flows_that_were_moved) {
	struct rig *rig = *state;

	weir_tables_flow_moved(rig->lab.tables, lab_id(&rig->lab, "s1", "b1"));
	assert_int_equal(cost_now(rig).lost, 7);
	lab_settle(&rig->lab);
	set_open(rig, "s1", "b1", 5);
	assert_int_equal(cost_now(rig).lost, 7);
	assert_int_equal(cost_now(rig).open, 25);
}

// A new control process has no record of when tables were published. So all flows may be older than
// the selection.
TEST(cost_of_a_restart_after_a_restart_of_control) {
	struct rig *rig = *state;

	lab_restart(&rig->lab);
	lab_apply(&rig->lab, rig->from);
	assert_int_equal(cost_now(rig).lost, 20);
	lab_settle(&rig->lab);
	set_open(rig, "s0", "b0", 40);
	assert_int_equal(cost_now(rig).open, 48);
	assert_int_equal(cost_now(rig).lost, 20);
}
