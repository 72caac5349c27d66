// SPDX-License-Identifier: BSD-3-Clause
//
// ids.c: names to ids and back, and the life of an id.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "state.h"

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

// How many backends are in the list of a service, which is whole from both ends.
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

static void ids_are_given_lowest_first_and_found_by_name(void **unused) {
	struct weir_state *state = new_state();
	struct weir_address address = ipv4(1);

	(void)unused;
	assert_int_equal(weir_service_id_add(state, "a"), 0);
	assert_int_equal(weir_service_id_add(state, "b"), 1);
	assert_int_equal(weir_service_id_add(state, "a"), -EEXIST);
	assert_int_equal(weir_backend_id_add(state, 0, "x", &address), 0);
	assert_int_equal(weir_backend_id_add(state, 1, "x", &address), 1);
	assert_int_equal(weir_backend_id_add(state, 1, "y", &address), 2);
	assert_int_equal(weir_backend_id_add(state, 1, "y", &address), -EEXIST);
	assert_int_equal(weir_service_id_find(state, "b"), 1);
	assert_int_equal(weir_service_id_find(state, "c"), -ENOENT);
	assert_int_equal(weir_backend_id_find(state, 0, "x"), 0);
	assert_int_equal(weir_backend_id_find(state, 1, "x"), 1);
	assert_int_equal(weir_backend_id_find(state, 0, "y"), -ENOENT);
	assert_int_equal(state->services[1].backends, 2);
	assert_int_not_equal(state->backends[0].identity, state->backends[1].identity);

	weir_backend_id_del(state, 1);
	assert_int_equal(weir_backend_id_find(state, 1, "x"), -ENOENT);
	assert_int_equal(weir_backend_id_find(state, 1, "y"), 2);
	assert_int_equal(weir_backend_id_add(state, 0, "z", &address), 1);
	assert_int_equal(state->services[0].backends, 2);
	assert_int_equal(state->services[1].backends, 1);
	weir_state_free(state);
}

static void limits_are_enospc(void **unused) {
	struct weir_state *state = new_state();
	struct weir_address address = ipv4(1);

	(void)unused;
	state->service_limit = 1;
	state->backend_limit = 2;
	assert_int_equal(weir_service_id_add(state, "a"), 0);
	assert_int_equal(weir_service_id_add(state, "b"), -ENOSPC);
	assert_int_equal(weir_backend_id_add(state, 0, "x", &address), 0);
	assert_int_equal(weir_backend_id_add(state, 0, "y", &address), 1);
	assert_int_equal(weir_backend_id_add(state, 0, "z", &address), -ENOSPC);
	weir_backend_id_del(state, 0);
	assert_int_equal(weir_backend_id_add(state, 0, "z", &address), 0);
	weir_state_free(state);
}

static void the_last_id_of_all_can_be_used(void **unused) {
	struct weir_state *state = new_state();
	struct weir_address address = ipv4(1);

	(void)unused;
	assert_int_equal(weir_service_id_take(state, WEIR_SERVICES_MAX - 1, "a"), 4095);
	assert_int_equal(
		weir_backend_id_take(state, WEIR_BACKENDS_MAX - 1, 4095, "x", &address), 65534);
	assert_int_equal(weir_backend_id_find(state, 4095, "x"), 65534);
	assert_int_equal(weir_backend_id_take(state, 65535, 4095, "y", &address), -ENOSPC);
	weir_backend_id_del(state, 65534);
	assert_int_equal(state->backend_ids, 0);
	weir_state_free(state);
}

static void leaving_backend_frees_its_name_not_its_id(void **unused) {
	struct weir_state *state = new_state();
	struct weir_address one = ipv4(1), two = ipv4(2);

	(void)unused;
	weir_service_id_add(state, "a");
	assert_int_equal(weir_backend_id_add(state, 0, "x", &one), 0);
	state->backends[0].runtime_weight = 5;
	state->backends[0].admin = WEIR_ADMIN_DRAIN;
	state->backends[0].drain = WEIR_DRAIN_DRAINING;
	state->backends[0].drain_until_ns = 7;
	state->backends[0].eligible = true;
	state->backends[0].slow_start_ms = 9;
	weir_backend_leave(state, 0);
	assert_int_equal(weir_backend_id_find(state, 0, "x"), -ENOENT);
	assert_int_equal(weir_backend_id_find_leaving(state, 0, "x", &one), 0);
	assert_int_equal(weir_backend_id_find_leaving(state, 0, "x", &two), -ENOENT);
	assert_int_equal(weir_backend_id_add(state, 0, "x", &two), 1);
	assert_int_equal(weir_backend_id_find(state, 0, "x"), 1);
	assert_int_equal(state->backends_leaving, 1);
	assert_int_equal(state->services[0].backends, 1);
	assert_int_equal(state->services[0].members, 2);

	weir_backend_leave(state, 1);
	weir_backend_revive(state, 0);
	assert_int_equal(weir_backend_id_find(state, 0, "x"), 0);
	assert_int_equal(state->backends[0].admin, WEIR_ADMIN_READY);
	assert_int_equal(state->backends[0].drain, WEIR_DRAIN_NONE);
	assert_int_equal(state->backends[0].drain_until_ns, 0);
	assert_false(state->backends[0].eligible);
	assert_int_equal(state->backends[0].slow_start_ms, 0);
	assert_int_equal(state->backends[0].runtime_weight, WEIR_WEIGHT_UNSET);
	weir_state_free(state);
}

static void leaving_service_takes_its_backends_along(void **unused) {
	struct weir_state *state = new_state();
	struct weir_address address = ipv4(1);

	(void)unused;
	weir_service_id_add(state, "a");
	weir_service_id_add(state, "b");
	weir_backend_id_add(state, 0, "x", &address);
	weir_backend_id_add(state, 0, "y", &address);
	weir_backend_id_add(state, 1, "x", &address);
	weir_service_leave(state, 0);
	assert_int_equal(state->services_leaving, 1);
	assert_int_equal(state->backends_leaving, 2);
	assert_int_equal(state->backends[2].stage, WEIR_ID_LIVE);
	assert_int_equal(weir_service_id_find(state, "a"), 0);
	weir_service_revive(state, 0);
	assert_int_equal(state->services_leaving, 0);
	assert_int_equal(state->services[0].backends, 0);
	weir_backend_id_del(state, 0);
	weir_backend_id_del(state, 1);
	weir_service_id_del(state, 0);
	assert_int_equal(state->backends_leaving, 0);
	assert_int_equal(weir_service_id_find(state, "a"), -ENOENT);
	weir_state_free(state);
}

static void clone_is_independent(void **unused) {
	struct weir_state *state = new_state(), *clone;
	struct weir_address address = ipv4(1);

	(void)unused;
	weir_service_id_add(state, "a");
	weir_backend_id_add(state, 0, "x", &address);
	assert_int_equal(weir_state_clone(state, &clone), 0);
	assert_int_equal(weir_backend_id_add(clone, 0, "y", &address), 1);
	weir_backend_leave(clone, 0);
	assert_int_equal(weir_backend_id_find(state, 0, "x"), 0);
	assert_int_equal(weir_backend_id_find(state, 0, "y"), -ENOENT);
	assert_int_equal(state->services[0].backends, 1);
	weir_state_free(clone);
	assert_int_equal(weir_backend_id_add(state, 0, "y", &address), 1);
	weir_state_free(state);
}

// What was freed and is still to be published is in the list once, also when a clone uses it again.
static void clone_knows_what_is_still_to_be_published(void **unused) {
	struct weir_state *state = new_state(), *clone;
	struct weir_address address = ipv4(1);

	(void)unused;
	weir_service_id_add(state, "a");
	weir_backend_id_add(state, 0, "x", &address);
	weir_backend_id_del(state, 0);
	weir_service_id_del(state, 0);
	assert_int_equal(state->service_ids + state->backend_ids, 0);
	assert_int_equal(weir_state_clone(state, &clone), 0);
	assert_int_equal(weir_service_id_add(clone, "b"), 0);
	assert_int_equal(weir_backend_id_add(clone, 0, "y", &address), 0);
	assert_int_equal(clone->touched_service_count, 1);
	assert_int_equal(clone->touched_backend_count, 1);
	assert_true(clone->backends[0].dirty);
	weir_state_free(clone);
	weir_state_free(state);
}

// Random adds and deletes against a plain array of names.
static void many_names_against_a_plain_list(void **unused) {
	enum { NAMES = 300 };
	struct weir_state *state = new_state();
	int model[NAMES];
	uint32_t live = 0;

	(void)unused;
	weir_service_id_add(state, "a");
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
			weir_backend_id_find(state, 0, name), model[n] < 0 ? -ENOENT : model[n]);
		if (model[n] < 0) {
			model[n] = weir_backend_id_add(state, 0, name, &address);
			assert_in_range(model[n], 0, live);
			live++;
		} else {
			weir_backend_id_del(state, (uint16_t)model[n]);
			model[n] = -1;
			live--;
		}
		assert_int_equal(state->services[0].members, live);
		assert_int_equal(turn % 100 == 0 ? count_list(state, 0) : live, live);
	}
	weir_state_free(state);
}

// A quarter of all ids there are leave one service, the oldest first: each for itself, without a
// look at all those that stay. The limit catches a change of order, not of percents.
static void thousands_leave_a_service_at_once(void **unused) {
	const uint32_t ids = WEIR_BACKENDS_MAX, leaving = ids / 4;
	struct weir_state *state = new_state();
	struct timespec begin, end;
	char name[16];

	(void)unused;
	weir_service_id_add(state, "a");
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_address address = ipv4(id);

		snprintf(name, sizeof(name), "b%u", id);
		assert_int_equal(weir_backend_id_add(state, 0, name, &address), id);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uint32_t id = 0; id < leaving; id++) {
		weir_backend_leave(state, (uint16_t)id);
	}
	for (uint32_t id = 0; id < leaving; id++) {
		weir_backend_id_del(state, (uint16_t)id);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	assert_int_equal(count_list(state, 0), ids - leaving);
	assert_int_equal(state->services[0].members, ids - leaving);
	assert_int_equal(state->backends_leaving, 0);
	print_message("%u of %u leave: %.1f ms\n", leaving, ids,
		(double)(end.tv_sec - begin.tv_sec) * 1e3 +
			(double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	assert_true(end.tv_sec - begin.tv_sec <= 1);
	weir_state_free(state);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_given_lowest_first_and_found_by_name),
		cmocka_unit_test(limits_are_enospc),
		cmocka_unit_test(the_last_id_of_all_can_be_used),
		cmocka_unit_test(leaving_backend_frees_its_name_not_its_id),
		cmocka_unit_test(leaving_service_takes_its_backends_along),
		cmocka_unit_test(clone_is_independent),
		cmocka_unit_test(clone_knows_what_is_still_to_be_published),
		cmocka_unit_test(many_names_against_a_plain_list),
		cmocka_unit_test(thousands_leave_a_service_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
