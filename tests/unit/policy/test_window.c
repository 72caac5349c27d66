// SPDX-License-Identifier: BSD-3-Clause
//
// The window: the scan compared with a simple implementation, and sliding. Built a second time with
// the portable scan.
#include "window.h"

#include "policy_lab.h"

static uint32_t active_of(struct weir_policy_client *client, struct weir_policy_backend *backend) {
	(void)client;
	return backend->active;
}

static const struct weir_policy_ops ops = {.key = active_of};

static uint32_t plain_least(
	const struct weir_policy_client *client, uint32_t floor, uint32_t *ret_least) {
	uint32_t best = UINT32_MAX;
	uint32_t place = WEIR_POLICY_NONE;

	for (uint32_t i = 0; i < client->window_count; i++) {
		uint32_t at = (client->cursor + i) % client->window_count;
		uint32_t value = client->key[at] > floor ? client->key[at] : floor;

		if (client->key[at] != WEIR_POLICY_KEY_NONE && value < best) {
			best = value;
			place = at;
		}
	}
	if (place != WEIR_POLICY_NONE) {
		*ret_least = best;
	}
	return place;
}

// Keys with few different values have many ties; keys with many values have none.
TEST(scan_equals_a_simple_one) {
	struct world *w = world_create(WEIR_POLICY_WINDOW);
	struct weir_policy_client *client = w->client;
	uint64_t seed = 1;

	for (uint32_t round = 0; round < 200000; round++) {
		uint32_t n = 1 + (uint32_t)(fixture_random(&seed) % WEIR_POLICY_WINDOW);
		uint64_t range = UINT64_C(1) << fixture_random(&seed) % 33;
		uint32_t fullness = (uint32_t)(fixture_random(&seed) % 5);
		uint32_t floor = (uint32_t)(fixture_random(&seed) % range);
		uint32_t least = 1;
		uint32_t expected = 1;

		client->window_count = n;
		client->cursor = (uint32_t)(fixture_random(&seed) % n);
		floor = round % 3 == 0 ? 0 : floor - (floor == WEIR_POLICY_KEY_NONE);
		for (uint32_t i = 0; i < WEIR_POLICY_WINDOW; i++) {
			bool there = i < n && fixture_random(&seed) % 4 >= fullness;
			uint32_t key = (uint32_t)(fixture_random(&seed) % range);

			key -= key == WEIR_POLICY_KEY_NONE;
			weir_window_set_key(client, i, there ? key : WEIR_POLICY_KEY_NONE);
		}
		assert_int_equal(weir_window_least(client, floor, &least),
			plain_least(client, floor, &expected));
		assert_int_equal(least, expected);
		round += n > 8 ? 3 : 0; // small windows are quick
	}
	world_free(w);
}

static void load(struct world *w, uint32_t count, uint32_t cursor) {
	uint16_t *ids = calloc(count, sizeof(ids[0]));

	assert_non_null(ids);
	for (uint32_t i = 0; i < count; i++) {
		ids[i] = (uint16_t)(count - 1 - i); // different from the index
	}
	world_publish(w, WEIR_POLICY_ROUND_ROBIN, ids, NULL, count);
	free(ids);
	w->client->cursor = cursor;
	weir_window_load(&w->worker, w->client, &w->table, &ops);
}

TEST(few_candidates_are_all_in_the_window) {
	struct world *w = world_create(WEIR_POLICY_WINDOW);

	for (uint32_t n = 1; n <= WEIR_POLICY_WINDOW; n++) {
		load(w, n, n / 2);
		assert_int_equal(w->client->window_count, n);
		assert_int_equal(w->client->cursor, n / 2);
		for (uint32_t i = 0; i < WEIR_POLICY_WINDOW; i++) {
			assert_int_equal(w->client->id[i], i < n ? n - 1 - i : UINT16_MAX);
			assert_int_equal(w->client->key[i], i < n ? 0 : WEIR_POLICY_KEY_NONE);
		}
		for (uint32_t i = 0; i < 2 * n; i++) {
			uint32_t place = w->client->cursor;

			assert_int_equal(
				weir_window_take(&w->worker, w->client, &w->table, &ops, place),
				n - 1 - place);
			assert_int_equal(w->client->cursor, (place + 1) % n);
		}
	}
	world_free(w);
}

TEST(window_slides_over_many) {
	static const uint32_t counts[] = {129, 130, 255, 256, 257, 1000};

	for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint32_t n = counts[i];
		struct world *w = world_create(n);

		load(w, n, 5);
		for (uint32_t j = 0; j < 3 * n; j++) {
			uint32_t least;
			uint32_t place = weir_window_least(w->client, 0, &least);

			assert_int_equal(weir_window_cursor_index(w->client), (5 + j) % n);
			assert_int_equal(
				weir_window_take(&w->worker, w->client, &w->table, &ops, place),
				n - 1 - (5 + j) % n);
		}
		world_free(w);
	}
}

TEST(refresh_changes_only_its_place) {
	struct world *w = world_create(300);
	uint16_t outside;

	load(w, 300, 0);
	w->backends[299].active = 7;
	weir_window_refresh(&w->worker, w->client, &ops, 299);
	assert_int_equal(w->client->key[0], 7);
	// The backend leaves the window: its place is used by another one.
	weir_window_take(&w->worker, w->client, &w->table, &ops, 0);
	outside = 299;
	assert_int_equal(w->backends[outside].place, 0);
	assert_int_equal(w->client->key[0], 0);
	weir_window_refresh(&w->worker, w->client, &ops, outside);
	assert_int_equal(w->client->key[0], 0);
	// Never was in it.
	w->backends[3].active = 7;
	weir_window_refresh(&w->worker, w->client, &ops, 3);
	for (uint32_t i = 0; i < WEIR_POLICY_WINDOW; i++) {
		assert_int_equal(w->client->key[i], 0);
	}
	world_free(w);
}

TEST(limit_marks_places_full) {
	struct world *w = world_create(4);
	uint32_t least;

	w->table.settings.max_active_flows = 2;
	w->backends[3].active = 2;
	w->backends[2].active = 1;
	load(w, 4, 0); // ids 3, 2, 1, 0
	assert_int_equal(w->client->key[0], WEIR_POLICY_KEY_NONE);
	assert_int_equal(w->client->key[1], 1);
	w->backends[0].active = 5;
	w->backends[1].active = 5;
	weir_window_reload(&w->worker, w->client, &ops);
	assert_int_equal(weir_window_least(w->client, 0, &least), 1);
	w->backends[2].active = 2;
	weir_window_refresh(&w->worker, w->client, &ops, 2);
	assert_int_equal(weir_window_least(w->client, 0, &least), WEIR_POLICY_NONE);
	world_free(w);
}

TEST(invalid_ids_are_not_in_the_window) {
	struct world *w = world_create(2);
	uint32_t least;

	world_publish(w, WEIR_POLICY_ROUND_ROBIN, (const uint16_t[]){2, 1, 65535}, NULL, 3);
	w->client->cursor = 0;
	weir_window_load(&w->worker, w->client, &w->table, &ops);
	assert_int_equal(weir_window_least(w->client, 0, &least), 1);
	weir_window_set_key(w->client, 1, WEIR_POLICY_KEY_NONE);
	assert_int_equal(weir_window_least(w->client, 0, &least), WEIR_POLICY_NONE);
	weir_window_reload(&w->worker, w->client, &ops);
	assert_int_equal(weir_window_least(w->client, 0, &least), 1);
	world_free(w);
}
