// SPDX-License-Identifier: BSD-3-Clause
//
// Tests apply.c: configurations are applied one after another.
#include "tables_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "service_table.h"

static uint16_t vip_service(struct lab *lab, uint8_t last) {
	uint8_t vip[16] = {198, 51, 0, last};

	return weir_service_lookup(lab_services(lab), vip, 4, IPPROTO_TCP, 80);
}

TEST(identical_configuration_publishes_nothing) {
	struct weir_config *config = lab_config(4, 5), *same = lab_config_copy(config);
	struct lab lab;
	uint64_t publications;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	publications = lab.segment->notes->publications;
	lab_apply(&lab, same);
	assert_int_equal(lab.segment->notes->publications, publications);
	assert_ptr_equal(weir_tables_config(lab.tables), same);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(same);
}

static bool find_hop(void *context, const struct weir_address *address, struct weir_next_hop *ret) {
	*ret = lab_hop(7);
	return memcmp(address->bytes, context, sizeof(address->bytes)) == 0;
}

// The next hop of a new backend is already known, and is published together with the backend.
// Otherwise the first packets to it would be dropped.
TEST(known_next_hop_is_published_with_a_new_backend) {
	struct weir_config *config = lab_config(1, 2);
	struct lab lab;

	lab_open(&lab, NULL);
	weir_tables_find_hops(lab.tables, find_hop, config->services[0].backends[1].address.bytes);
	lab_apply(&lab, config);
	assert_int_equal(lab_row(&lab, 0).flags & WEIR_BACKEND_RESOLVED, 0);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_RESOLVED);
	assert_int_equal(lab_row(&lab, 1).header[5], 7);
	assert_int_equal(lab_slots(&lab, 0, 1), LAB_TABLE_SIZE);
	lab_close(&lab);
	lab_config_free(config);
}

static bool find_adopted_hop(
	void *context, const struct weir_address *address, struct weir_next_hop *ret) {
	(void)context;
	(void)address;
	*ret = lab_hop(7);
	ret->on_link = true;
	ret->source.family = 0;
	return true;
}

// A next hop that was adopted from an l2 backend with the same address has no outer source address.
// An outer header without source address would be wrong.
TEST(next_hop_without_source_serves_only_l2) {
	struct weir_config *config = lab_config(1, 2);
	struct lab lab;

	config->services[0].backends[1].forwarding_mode = 1 + WEIR_FORWARDING_L2;
	lab_open(&lab, NULL);
	weir_tables_find_hops(lab.tables, find_adopted_hop, NULL);
	lab_apply(&lab, config);
	assert_false(lab_row(&lab, 0).flags & WEIR_BACKEND_RESOLVED);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_RESOLVED);
	lab_close(&lab);
	lab_config_free(config);
}

// A packet to the VIP, unchanged, must not go to a gateway, which would route it back.
TEST(l2_uses_only_next_hops_on_the_link) {
	struct weir_config *config = lab_config(1, 2), *l2 = lab_config_copy(config);
	struct weir_next_hop gateway = lab_hop(9), on_link = lab_hop(8);
	struct lab lab;

	on_link.on_link = true;
	l2->services[0].forwarding.mode = WEIR_FORWARDING_L2;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_next_hop(lab.tables, 0, &gateway);
	weir_tables_set_next_hop(lab.tables, 1, &on_link);
	lab_publish(&lab);
	assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_RESOLVED);
	lab_apply(&lab, l2); // the next hops are known already
	assert_int_equal(lab_row(&lab, 0).forwarding, WEIR_FORWARDING_L2);
	assert_false(lab_row(&lab, 0).flags & WEIR_BACKEND_RESOLVED);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_RESOLVED);
	assert_int_equal(lab_row(&lab, 1).forwarding, WEIR_FORWARDING_L2);
	assert_int_equal(lab_slots(&lab, 0, 1), LAB_TABLE_SIZE);
	weir_tables_set_next_hop(lab.tables, 0, &gateway);
	lab_publish(&lab);
	assert_false(lab_state(&lab, 0).resolved);
	weir_tables_set_next_hop(lab.tables, 0, &on_link);
	lab_publish(&lab);
	assert_true(lab_state(&lab, 0).resolved);
	assert_int_equal(lab_row(&lab, 0).header[5], 8);
	lab_apply(&lab, config);
	assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_RESOLVED);
	assert_int_equal(lab_row(&lab, 1).forwarding, WEIR_FORWARDING_IPIP);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(l2);
}

TEST(only_the_changed_service_is_published) {
	struct weir_config *config = lab_config(4, 3), *next = lab_config_copy(config);
	weir_ref before[4];
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	memcpy(before, lab.segment->roots->selection, sizeof(before));
	next->services[2].backends[1].weight = 50;
	next->services[3].table_size = 509;
	lab_apply(&lab, next);
	assert_int_equal(lab.segment->roots->selection[0], before[0]);
	assert_int_equal(lab.segment->roots->selection[1], before[1]);
	assert_int_not_equal(lab.segment->roots->selection[2], before[2]);
	assert_int_not_equal(lab.segment->roots->selection[3], before[3]);
	assert_in_range(lab_slots(&lab, 2, lab_id(&lab, "s2", "b1")), 49, 52);
	assert_int_equal(lab_selection(&lab, 3)->table.slot_count, 509);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

TEST(admin_states_and_runtime_weights_survive_a_reload) {
	struct weir_config *config = lab_config(1, 3), *next = lab_config_copy(config);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_DRAIN);
	weir_tables_set_weight(lab.tables, 1, 7);
	weir_tables_set_weight(lab.tables, 2, 8);
	weir_tables_publish(lab.tables);
	next->services[0].backends[2].weight = 40;
	lab_apply(&lab, next);
	assert_int_equal(lab_state(&lab, 0).admin, WEIR_ADMIN_DRAIN);
	assert_int_equal(lab_state(&lab, 1).runtime_weight, 7);
	assert_int_equal(lab_state(&lab, 2).runtime_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(lab_state(&lab, 2).effective_weight, 40);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

TEST(backends_with_a_check_start_as_starting) {
	struct weir_config *config = lab_config(1, 2), *next = lab_config_copy(config);
	struct weir_service_state service;
	struct lab lab;

	config->services[0].health_check.type = WEIR_CHECK_TCP;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(lab_state(&lab, 0).health, WEIR_HEALTH_STARTING);
	// No backend is healthy yet. All of them are used because of panic mode, so the selection
	// is not empty.
	weir_tables_service(lab.tables, 0, &service);
	assert_true(service.panic);
	assert_int_equal(service.eligible, 0);
	assert_true(lab_state(&lab, 0).in_selection);

	weir_tables_set_health(lab.tables, 0, WEIR_HEALTH_HEALTHY);
	weir_tables_set_health(lab.tables, 1, WEIR_HEALTH_REFUSING);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_slots(&lab, 0, 0), LAB_TABLE_SIZE);

	// A new configuration does not change the known health of backends.
	lab_apply(&lab, next);
	assert_int_equal(lab_state(&lab, 1).health, WEIR_HEALTH_REFUSING);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}

// A service grows from 4 to 10 backends. The new backends get no flows, because they have never
// been healthy.
TEST(unproven_backends_get_no_flows_while_others_are_healthy) {
	struct weir_config *config = lab_config(1, 10), *four = lab_config_copy(config);
	struct weir_service_state service;
	struct lab lab;

	config->services[0].health_check.type = WEIR_CHECK_TCP;
	four->services[0].health_check.type = WEIR_CHECK_TCP;
	for (uint32_t i = 9; i >= 4; i--) {
		lab_remove_backend(four, 0, i);
	}
	lab_open(&lab, NULL);
	lab_apply(&lab, four);
	for (uint16_t id = 0; id < 4; id++) {
		weir_tables_set_health(lab.tables, id, WEIR_HEALTH_HEALTHY);
	}
	lab_publish(&lab);
	lab_apply(&lab, config);
	// round 0: the new backends are starting; 1: they are refusing; 2: control was restarted
	for (uint32_t round = 0; round < 3; round++) {
		for (uint16_t id = 0; id < 10; id++) {
			assert_int_equal(lab_state(&lab, id).in_selection, id < 4);
			assert_int_equal(lab_slots(&lab, 0, id) > 0, id < 4);
		}
		weir_tables_service(lab.tables, 0, &service);
		assert_false(service.panic);
		if (round == 1) {
			lab_restart(&lab);
			lab_apply(&lab, config);
		}
		for (uint16_t id = 4; id < 10; id++) {
			weir_tables_set_health(lab.tables, id, WEIR_HEALTH_REFUSING);
		}
		lab_publish(&lab);
	}
	// Three of the four proven backends fail. Panic mode uses only backends that have been
	// healthy before.
	for (uint16_t id = 1; id < 4; id++) {
		weir_tables_set_health(lab.tables, id, WEIR_HEALTH_REFUSING);
	}
	lab_publish(&lab);
	for (uint16_t id = 0; id < 10; id++) {
		assert_int_equal(lab_slots(&lab, 0, id) > 0, id < 4);
	}
	weir_tables_set_health(lab.tables, 0, WEIR_HEALTH_REFUSING);
	lab_publish(&lab);
	for (uint16_t id = 0; id < 10; id++) {
		assert_true(lab_slots(&lab, 0, id) > 0);
	}
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(four);
}

TEST(removed_backend_id_is_not_reused_while_flows_refer_to_it) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config_copy(config);
	struct weir_config *more = lab_config(1, 4);
	struct lab lab;

	lab_remove_backend(less, 0, 1);
	lab_remove_backend(more, 0, 1); // leaves b0, b2, b3
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 0, 1, 1);
	lab_set_flows(&lab, 1, 1, 1);
	lab_apply(&lab, less);
	assert_int_equal(lab_slots(&lab, 0, 1), 0);
	assert_int_equal(weir_tables_backend_find(lab.tables, "s0", "b1"), -ENOENT);
	lab_settle(&lab);
	// guarantee S6: the flows stay
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);
	assert_true(lab_state(&lab, 1).leaving);
	assert_int_equal(weir_tables_backend_flows(lab.tables, 1), 2);
	lab_apply(&lab, more);
	assert_int_equal(lab_id(&lab, "s0", "b3"), 3);

	lab_set_flows(&lab, 0, 1, 0);
	lab_settle(&lab);
	assert_true(lab_state(&lab, 1).leaving);
	lab_set_flows(&lab, 1, 1, 0);
	lab_settle(&lab);
	lab_apply(&lab, config);
	assert_int_equal(lab_id(&lab, "s0", "b1"), 1);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
	lab_config_free(more);
}

TEST(another_address_is_another_backend) {
	struct weir_config *config = lab_config(1, 2), *moved = lab_config_copy(config);
	struct lab lab;

	moved->services[0].backends[0].address.bytes[3] = 200;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_set_flows(&lab, 0, 0, 1);
	lab_apply(&lab, moved);
	assert_int_equal(lab_id(&lab, "s0", "b0"), 2);
	assert_true(lab_state(&lab, 0).leaving);
	assert_string_equal(lab_state(&lab, 0).name, "b0");
	assert_int_equal(lab_slots(&lab, 0, 0), 0);
	assert_int_equal(lab_row(&lab, 2).flags, WEIR_BACKEND_PRESENT);
	lab_settle(&lab);

	// The address is changed back. The flows that are left reach their server again.
	lab_apply(&lab, config);
	assert_int_equal(lab_id(&lab, "s0", "b0"), 0);
	assert_true(lab_state(&lab, 2).leaving);
	assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_PRESENT);
	lab_settle(&lab);
	assert_int_equal(
		weir_tables_backend(lab.tables, 2, &(struct weir_backend_state){0}), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(moved);
}

// The new server gets the slots of the old server. All other slots stay the same.
TEST(change_of_address_moves_no_other_slot) {
	struct weir_config *config = lab_config(1, 5), *moved = lab_config_copy(config);
	const struct weir_selection_view *view;
	uint16_t before[LAB_TABLE_SIZE];
	struct lab lab;

	moved->services[0].backends[2].address.bytes[3] = 200;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	view = lab_selection(&lab, 0);
	for (uint32_t i = 0; i < LAB_TABLE_SIZE; i++) {
		before[i] = view->table.candidates[view->table.slots[i]].id;
	}
	lab_apply(&lab, moved);
	view = lab_selection(&lab, 0);
	for (uint32_t i = 0; i < LAB_TABLE_SIZE; i++) {
		uint16_t now = view->table.candidates[view->table.slots[i]].id;

		assert_int_equal(now, before[i] == 2 ? 5 : before[i]);
	}
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(moved);
}

TEST(removed_service_is_withdrawn_step_by_step) {
	struct weir_config *config = lab_config(2, 2), *less = lab_config_copy(config);
	struct weir_config *other = lab_config(3, 1);
	struct lab lab;

	lab_remove_service(less, 0);
	lab_remove_service(other, 0); // leaves s1, s2
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(vip_service(&lab, 0), 0);
	weir_segment_service_counters(lab.segment, 1, 0)->active_flows = 1;
	lab_set_flows(&lab, 1, 1, 1);
	lab_apply(&lab, less);
	assert_int_equal(vip_service(&lab, 0), WEIR_SERVICE_NONE);
	assert_int_equal(vip_service(&lab, 1), 1);
	assert_int_equal(weir_tables_service_find(lab.tables, "s0"), -ENOENT);
	assert_int_not_equal(lab.segment->roots->selection[0], 0);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);

	lab_settle(&lab);
	assert_int_equal(lab.segment->roots->selection[0], 0);
	// guarantee S6: the backend has a flow, so its row stays
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);
	assert_string_equal(weir_tables_service_name(lab.tables, 0), "s0");
	assert_string_equal(lab_state(&lab, 1).service, "s0");
	lab_apply(&lab, other);
	assert_int_equal(weir_tables_service_find(lab.tables, "s2"), 2);

	lab_set_flows(&lab, 1, 1, 0);
	lab_settle(&lab);
	assert_int_equal(lab_row(&lab, 1).flags, 0);
	assert_string_equal(weir_tables_service_name(lab.tables, 0), "s0");
	weir_segment_service_counters(lab.segment, 1, 0)->active_flows = 0;
	lab_settle(&lab);
	assert_null(weir_tables_service_name(lab.tables, 0));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
	lab_config_free(other);
}

// A service that is being removed can be added again at every stage of the removal. The service
// and its backends get their old ids.
TEST(removed_service_returns_at_any_stage) {
	for (int steps = 0; steps < 6; steps++) {
		struct weir_config *config = lab_config(2, 2), *less = lab_config_copy(config);
		struct lab lab;

		lab_remove_service(less, 0);
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		lab_set_flows(&lab, 0, 0, 1);
		lab_set_flows(&lab, 0, 1, 1);
		lab_apply(&lab, less);
		for (int i = 0; i < steps; i++) {
			lab_quiescent(&lab);
			weir_tables_tick(lab.tables);
		}
		lab_apply(&lab, config);
		assert_int_equal(vip_service(&lab, 0), 0);
		assert_int_equal(lab_id(&lab, "s0", "b1"), 1);
		assert_in_range(lab_slots(&lab, 0, 1), 124, 127);
		assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);
		lab_settle(&lab);
		assert_in_range(lab_slots(&lab, 0, 1), 124, 127);
		assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);
		lab_close(&lab);
		lab_config_free(config);
		lab_config_free(less);
	}
}

// The row of a backend that was down does not change when its removed service returns without it.
TEST(backend_that_was_down_is_freed_if_its_service_returns_without_it) {
	struct weir_config *config = lab_config(2, 2), *less = lab_config_copy(config);
	struct weir_backend_state backend;
	struct lab lab;

	lab_remove_service(less, 0);
	config->services[0].drain.removed_ms = 60000;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_MAINTENANCE);
	lab_publish(&lab);
	lab_apply(&lab, less);
	lab_remove_backend(config, 0, 1);
	lab_apply(&lab, config);
	lab_settle(&lab);
	assert_int_equal(weir_tables_backend(lab.tables, 1, &backend), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// Check that a refused configuration has changed nothing.
static void assert_unchanged(
	struct lab *lab, const struct weir_config *config, const struct lab_published *before) {
	lab_assert_published(lab, before);
	assert_int_equal(lab->segment->identity_backends[1].state & WEIR_IDENTITY_USED, 1);
	assert_string_equal(lab->segment->identity_backends[1].name, "b1");
	assert_ptr_equal(weir_tables_config(lab->tables), config);
	assert_int_equal(lab_id(lab, "s0", "b1"), 1);
	assert_int_equal(lab_publish(lab), 0);
}

TEST(too_many_ids_change_nothing) {
	struct lab_room room = {.max_services = 2, .max_backends = 6};
	struct weir_config *config = lab_config(2, 2);
	struct weir_config *backends = lab_config(2, 4), *services = lab_config(3, 1);
	struct lab_published before;
	char why[256];
	struct lab lab;

	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_published(&lab, &before);
	assert_int_equal(weir_tables_apply(lab.tables, backends, why, sizeof(why)), -ENOSPC);
	assert_non_null(strstr(why, "service \"s1\" backend \"b2\""));
	assert_non_null(strstr(why, "segment.max_backends"));
	assert_unchanged(&lab, config, &before);
	assert_int_equal(weir_tables_apply(lab.tables, services, why, sizeof(why)), -ENOSPC);
	assert_non_null(strstr(why, "service \"s2\""));
	assert_unchanged(&lab, config, &before);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(backends);
	lab_config_free(services);
}

TEST(too_little_heap_changes_nothing) {
	struct lab_room room = {.heap_bytes = 4 << 20};
	struct weir_config *config = lab_config(2, 2), *big = lab_config(2, 3);
	struct weir_writer_usage before, after;
	struct lab_published published;
	char why[256];
	struct lab lab;

	big->services[1].table_size = 4000037;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_settle(&lab);
	lab_published(&lab, &published);
	weir_writer_usage(weir_tables_writer(lab.tables), &before);
	assert_int_equal(weir_tables_apply(lab.tables, big, why, sizeof(why)), -ENOSPC);
	assert_non_null(strstr(why, "segment.heap_bytes"));
	assert_unchanged(&lab, config, &published);
	weir_writer_usage(weir_tables_writer(lab.tables), &after);
	assert_int_equal(after.used_bytes, before.used_bytes);
	assert_int_equal(after.blobs, before.blobs);
	big->services[1].table_size = LAB_TABLE_SIZE;
	lab_apply(&lab, big);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(big);
}

TEST(contradictions_are_refused_as_a_whole) {
	struct weir_config *config = lab_config(2, 2), *bad = lab_config(2, 3);
	struct lab_published before;
	char why[256];
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_published(&lab, &before);
	bad->services[1].binds[0].address = bad->services[0].binds[0].address;
	assert_int_equal(weir_tables_apply(lab.tables, bad, why, sizeof(why)), -EEXIST);
	assert_unchanged(&lab, config, &before);
	bad->services[1].binds[0].address.bytes[3] = 1;
	bad->services[1].table_size = 2;
	assert_int_equal(weir_tables_apply(lab.tables, bad, why, sizeof(why)), -EINVAL);
	assert_unchanged(&lab, config, &before);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(bad);
}

// Two backends swap their addresses. Each address gets a new id, so that no backend inherits flows
// of the other.
TEST(swapped_addresses_are_two_new_backends) {
	struct weir_config *config = lab_config(1, 2), *swapped = lab_config_copy(config);
	struct lab lab;

	swapped->services[0].backends[0].address = config->services[0].backends[1].address;
	swapped->services[0].backends[1].address = config->services[0].backends[0].address;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_apply(&lab, swapped);
	assert_int_equal(lab_id(&lab, "s0", "b0"), 2);
	assert_int_equal(lab_id(&lab, "s0", "b1"), 3);
	assert_true(lab_state(&lab, 0).leaving);
	assert_true(lab_state(&lab, 1).leaving);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(swapped);
}
