// SPDX-License-Identifier: BSD-3-Clause
//
// ids.c: ids are found by name and names by id, and ids are assigned, removed and reused.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state.h"
#include "test.h"

static struct weir_address ipv4(uint32_t n) {
	struct weir_address address = {.family = 4, .bytes = {10}};

	address.bytes[1] = (uint8_t)(n >> 16);
	address.bytes[2] = (uint8_t)(n >> 8);
	address.bytes[3] = (uint8_t)n;
	return address;
}

static struct weir_state *new_state(void) {
	struct weir_state *state;

	assert_int_equal(weir_state_create(&state), 0);
	return state;
}

// Returns the number of backends in the list of a service. Checks that the list is the same in both
// directions.
static uint32_t count_list(const struct weir_state *state, uint16_t service) {
	uint16_t previous = 0;
	uint32_t n = 0;

	for (uint16_t link = state->services[service].first; link != 0;
		link = state->backends[link - 1].next) {
		assert_int_equal(state->backends[link - 1].previous, previous);
		previous = link;
		n++;
	}
	return n;
}

TEST(ids_are_given_lowest_first_and_found_by_name) {
	struct weir_state *found = new_state();
	struct weir_address address = ipv4(1);

	assert_int_equal(weir_service_id_add(found, "a"), 0);
	assert_int_equal(weir_service_id_add(found, "b"), 1);
	assert_int_equal(weir_service_id_add(found, "a"), -EEXIST);
	assert_int_equal(weir_backend_id_add(found, 0, "x", &address), 0);
	assert_int_equal(weir_backend_id_add(found, 1, "x", &address), 1);
	assert_int_equal(weir_backend_id_add(found, 1, "y", &address), 2);
	assert_int_equal(weir_backend_id_add(found, 1, "y", &address), -EEXIST);
	assert_int_equal(weir_service_id_find(found, "b"), 1);
	assert_int_equal(weir_service_id_find(found, "c"), -ENOENT);
	assert_int_equal(weir_backend_id_find(found, 0, "x"), 0);
	assert_int_equal(weir_backend_id_find(found, 1, "x"), 1);
	assert_int_equal(weir_backend_id_find(found, 0, "y"), -ENOENT);
	assert_int_equal(found->services[1].backends, 2);
	assert_int_not_equal(found->backends[0].identity, found->backends[1].identity);

	weir_backend_id_del(found, 1);
	assert_int_equal(weir_backend_id_find(found, 1, "x"), -ENOENT);
	assert_int_equal(weir_backend_id_find(found, 1, "y"), 2);
	assert_int_equal(weir_backend_id_add(found, 0, "z", &address), 1);
	assert_int_equal(found->services[0].backends, 2);
	assert_int_equal(found->services[1].backends, 1);
	weir_state_free(found);
}

TEST(limits_are_enospc) {
	struct weir_state *found = new_state();
	struct weir_address address = ipv4(1);

	found->service_limit = 1;
	found->backend_limit = 2;
	assert_int_equal(weir_service_id_add(found, "a"), 0);
	assert_int_equal(weir_service_id_add(found, "b"), -ENOSPC);
	assert_int_equal(weir_backend_id_add(found, 0, "x", &address), 0);
	assert_int_equal(weir_backend_id_add(found, 0, "y", &address), 1);
	assert_int_equal(weir_backend_id_add(found, 0, "z", &address), -ENOSPC);
	weir_backend_id_del(found, 0);
	assert_int_equal(weir_backend_id_add(found, 0, "z", &address), 0);
	weir_state_free(found);
}

TEST(the_last_of_all_ids_can_be_used) {
	struct weir_state *found = new_state();
	struct weir_address address = ipv4(1);

	assert_int_equal(weir_service_id_take(found, WEIR_SERVICES_MAX - 1, "a"), 4095);
	assert_int_equal(
		weir_backend_id_take(found, WEIR_BACKENDS_MAX - 1, 4095, "x", &address), 65534);
	assert_int_equal(weir_backend_id_find(found, 4095, "x"), 65534);
	assert_int_equal(weir_backend_id_take(found, 65535, 4095, "y", &address), -ENOSPC);
	weir_backend_id_del(found, 65534);
	assert_int_equal(found->backend_ids, 0);
	weir_state_free(found);
}

TEST(removed_backend_frees_its_name_not_its_id) {
	struct weir_state *found = new_state();
	struct weir_address one = ipv4(1), two = ipv4(2);

	weir_service_id_add(found, "a");
	assert_int_equal(weir_backend_id_add(found, 0, "x", &one), 0);
	found->backends[0].runtime_weight = 5;
	found->backends[0].admin = WEIR_ADMIN_DRAIN;
	found->backends[0].drain = WEIR_DRAIN_DRAINING;
	found->backends[0].drain_until_ns = 7;
	found->backends[0].eligible = true;
	found->backends[0].slow_start_ms = 9;
	weir_backend_leave(found, 0);
	assert_int_equal(weir_backend_id_find(found, 0, "x"), -ENOENT);
	assert_int_equal(weir_backend_id_find_leaving(found, 0, "x", &one), 0);
	assert_int_equal(weir_backend_id_find_leaving(found, 0, "x", &two), -ENOENT);
	assert_int_equal(weir_backend_id_add(found, 0, "x", &two), 1);
	assert_int_equal(weir_backend_id_find(found, 0, "x"), 1);
	assert_int_equal(found->backends_leaving, 1);
	assert_int_equal(found->services[0].backends, 1);
	assert_int_equal(found->services[0].members, 2);

	weir_backend_leave(found, 1);
	weir_backend_revive(found, 0);
	assert_int_equal(weir_backend_id_find(found, 0, "x"), 0);
	assert_int_equal(found->backends[0].admin, WEIR_ADMIN_READY);
	assert_int_equal(found->backends[0].drain, WEIR_DRAIN_NONE);
	assert_int_equal(found->backends[0].drain_until_ns, 0);
	assert_false(found->backends[0].eligible);
	assert_int_equal(found->backends[0].slow_start_ms, 0);
	assert_int_equal(found->backends[0].runtime_weight, WEIR_WEIGHT_UNSET);
	weir_state_free(found);
}

TEST(removed_service_removes_its_backends) {
	struct weir_state *found = new_state();
	struct weir_address address = ipv4(1);

	weir_service_id_add(found, "a");
	weir_service_id_add(found, "b");
	weir_backend_id_add(found, 0, "x", &address);
	weir_backend_id_add(found, 0, "y", &address);
	weir_backend_id_add(found, 1, "x", &address);
	weir_service_leave(found, 0);
	assert_int_equal(found->services_leaving, 1);
	assert_int_equal(found->backends_leaving, 2);
	assert_int_equal(found->backends[2].stage, WEIR_ID_LIVE);
	assert_int_equal(weir_service_id_find(found, "a"), 0);
	weir_service_revive(found, 0);
	assert_int_equal(found->services_leaving, 0);
	assert_int_equal(found->services[0].backends, 0);
	weir_backend_id_del(found, 0);
	weir_backend_id_del(found, 1);
	weir_service_id_del(found, 0);
	assert_int_equal(found->backends_leaving, 0);
	assert_int_equal(weir_service_id_find(found, "a"), -ENOENT);
	weir_state_free(found);
}

TEST(clone_is_independent) {
	struct weir_state *found = new_state(), *clone;
	struct weir_address address = ipv4(1);

	weir_service_id_add(found, "a");
	weir_backend_id_add(found, 0, "x", &address);
	assert_int_equal(weir_state_clone(found, &clone), 0);
	assert_int_equal(weir_backend_id_add(clone, 0, "y", &address), 1);
	weir_backend_leave(clone, 0);
	assert_int_equal(weir_backend_id_find(found, 0, "x"), 0);
	assert_int_equal(weir_backend_id_find(found, 0, "y"), -ENOENT);
	assert_int_equal(found->services[0].backends, 1);
	weir_state_free(clone);
	assert_int_equal(weir_backend_id_add(found, 0, "y", &address), 1);
	weir_state_free(found);
}

// The removal of an id is not published yet, and a clone of the state reuses the id. The list of
// changes contains the id only once.
TEST(clone_keeps_unpublished_removals) {
	struct weir_state *found = new_state(), *clone;
	struct weir_address address = ipv4(1);

	weir_service_id_add(found, "a");
	weir_backend_id_add(found, 0, "x", &address);
	weir_backend_id_del(found, 0);
	weir_service_id_del(found, 0);
	assert_int_equal(found->service_ids + found->backend_ids, 0);
	assert_int_equal(weir_state_clone(found, &clone), 0);
	assert_int_equal(weir_service_id_add(clone, "b"), 0);
	assert_int_equal(weir_backend_id_add(clone, 0, "y", &address), 0);
	assert_int_equal(clone->touched_service_count, 1);
	assert_int_equal(clone->touched_backend_count, 1);
	assert_true(clone->backends[0].dirty);
	weir_state_free(clone);
	weir_state_free(found);
}

// Random additions and deletions, compared with a simple array of names.
TEST(many_names_equal_a_simple_list) {
	enum { NAMES = 300 };
	struct weir_state *found = new_state();
	int model[NAMES];
	uint32_t live = 0;

	weir_service_id_add(found, "a");
	for (int i = 0; i < NAMES; i++) {
		model[i] = -1;
	}
	srand(3);
	for (int turn = 0; turn < 20000; turn++) {
		int n = rand() % NAMES;
		struct weir_address address = ipv4((uint32_t)n);
		char name[16];

		snprintf(name, sizeof(name), "n%d", n);
		assert_int_equal(
			weir_backend_id_find(found, 0, name), model[n] < 0 ? -ENOENT : model[n]);
		if (model[n] < 0) {
			model[n] = weir_backend_id_add(found, 0, name, &address);
			assert_in_range(model[n], 0, live);
			live++;
		} else {
			weir_backend_id_del(found, (uint16_t)model[n]);
			model[n] = -1;
			live--;
		}
		assert_int_equal(found->services[0].members, live);
		assert_int_equal(turn % 100 == 0 ? count_list(found, 0) : live, live);
	}
	weir_state_free(found);
}

// A quarter of all ids are removed from one service, the oldest first. Each removal must not visit
// all remaining ids. The time limit is generous, so that it detects only a higher complexity.
TEST(thousands_are_removed_from_a_service_at_once) {
	const uint32_t ids = WEIR_BACKENDS_MAX, leaving = ids / 4;
	struct weir_state *found = new_state();
	struct timespec begin, end;
	char name[16];

	weir_service_id_add(found, "a");
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_address address = ipv4(id);

		snprintf(name, sizeof(name), "b%u", id);
		assert_int_equal(weir_backend_id_add(found, 0, name, &address), id);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uint32_t id = 0; id < leaving; id++) {
		weir_backend_leave(found, (uint16_t)id);
	}
	for (uint32_t id = 0; id < leaving; id++) {
		weir_backend_id_del(found, (uint16_t)id);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_int_equal(count_list(found, 0), ids - leaving);
	assert_int_equal(found->services[0].members, ids - leaving);
	assert_int_equal(found->backends_leaving, 0);
	print_message("%u of %u leave: %.1f ms\n", leaving, ids,
		(double)(end.tv_sec - begin.tv_sec) * 1e3 +
			(double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	assert_true(end.tv_sec - begin.tv_sec <= 1);
	weir_state_free(found);
}
