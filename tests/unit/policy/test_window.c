// SPDX-License-Identifier: BSD-3-Clause
//
// Windows: the keys of candidates, and the scan for the least key (window.h). The scan is compared
// with a simple implementation. Also tests that the window moves. A second program runs the same
// tests with the portable scan, which uses no vector instructions.
#include "window.h"

#include "policy_lab.h"

static uint32_t active_of(struct weir_policy_client *client, struct weir_policy_backend *backend) {
	(void)client;
	return backend->active;
}

static const struct weir_policy_ops ops = {.key = active_of};

static struct weir_window window_of(struct world *w, uint32_t place) {
	return weir_window_of(&w->worker, w->client, place);
}

static uint32_t key_at(struct world *w, uint32_t place) {
	return window_of(w, place).key[place % WEIR_POLICY_WINDOW];
}

static uint32_t least_of(struct world *w, uint32_t floor, uint32_t *ret_least) {
	return weir_window_least(&w->worker, w->client, &w->table, &ops, floor, ret_least);
}

static uint32_t plain_least(struct world *w, uint32_t floor, uint32_t *ret_least) {
	const struct weir_policy_client *client = w->client;
	uint32_t best = UINT32_MAX;
	uint32_t place = WEIR_POLICY_NONE;

	for (uint32_t i = 0; i < client->window_count; i++) {
		uint32_t at = (client->cursor + i) % client->window_count;
		uint32_t key = key_at(w, at);
		uint32_t value = key > floor ? key : floor;

		if (key != WEIR_POLICY_KEY_NONE && value < best) {
			best = value;
			place = at;
		}
	}
	if (place != WEIR_POLICY_NONE) {
		*ret_least = best;
	}
	return place;
}

static void load(struct world *w, uint32_t count, uint32_t cursor) {
	uint16_t *ids = calloc(count, sizeof(ids[0]));

	assert_non_null(ids);
	for (uint32_t i = 0; i < count; i++) {
		ids[i] = (uint16_t)(count - 1 - i); // ids differ from indexes
	}
	world_publish(w, WEIR_POLICY_ROUND_ROBIN, ids, NULL, count);
	free(ids);
	w->client->cursor = cursor;
	weir_window_load(&w->worker, w->client, &w->table, &ops);
}

// Tests keys with few different values, which have many ties, and keys with many values.
static void scan_of_up_to(uint32_t most, uint32_t rounds) {
	struct world *w = world_create(most);
	uint64_t seed = most;

	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t n = 1 + (uint32_t)(fixture_random(&seed) % most);
		uint64_t range = UINT64_C(1) << fixture_random(&seed) % 33;
		uint32_t fullness = (uint32_t)(fixture_random(&seed) % 5);
		uint32_t floor = (uint32_t)(fixture_random(&seed) % range);
		uint32_t least = 1;
		uint32_t expected = 1;

		load(w, n, (uint32_t)(fixture_random(&seed) % n));
		floor = round % 3 == 0 ? 0 : floor - (floor == WEIR_POLICY_KEY_NONE);
		for (uint32_t i = 0; i < n; i++) {
			bool there = fixture_random(&seed) % 4 >= fullness;
			uint32_t key = (uint32_t)(fixture_random(&seed) % range);

			key -= key == WEIR_POLICY_KEY_NONE;
			weir_window_set_key(window_of(w, i), i % WEIR_POLICY_WINDOW,
				there ? key : WEIR_POLICY_KEY_NONE);
		}
		for (uint32_t i = 0; i < 4; i++) {
			assert_int_equal(
				least_of(w, floor, &least), plain_least(w, floor, &expected));
			assert_int_equal(least, expected);
			w->client->cursor = (uint32_t)(fixture_random(&seed) % n);
		}
	}
	world_free(w);
}

TEST(scan_equals_a_simple_one) {
	scan_of_up_to(8, 20000);
	scan_of_up_to(WEIR_POLICY_WINDOW, 10000);
	scan_of_up_to(WEIR_POLICY_EXACT, 3000);
}

TEST(all_candidates_have_a_place) {
	static const uint32_t counts[] = {
		1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024};
	struct world *w = world_create(WEIR_POLICY_EXACT);

	for (uint32_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		uint32_t n = counts[k];
		uint32_t end =
			(n + WEIR_POLICY_WINDOW - 1) / WEIR_POLICY_WINDOW * WEIR_POLICY_WINDOW;

		load(w, n, n / 2);
		assert_int_equal(w->client->window_count, n);
		assert_int_equal(w->client->cursor, n / 2);
		for (uint32_t i = 0; i < end; i++) {
			assert_int_equal(key_at(w, i), i < n ? 0 : WEIR_POLICY_KEY_NONE);
			assert_int_equal(window_of(w, i).id[i % WEIR_POLICY_WINDOW],
				i < n ? n - 1 - i : UINT16_MAX);
		}
		for (uint32_t i = 0; i < 2 * n; i++) {
			uint32_t place = w->client->cursor;

			assert_int_equal(weir_window_take(&w->worker, w->client, &w->table, place),
				n - 1 - place);
			assert_int_equal(w->client->cursor, (place + 1) % n);
		}
	}
	world_free(w);
}

TEST(equals_take_turns_among_many) {
	static const uint32_t counts[] = {129, 256, 1000, 1024, 1025, 1152, 3000};

	for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		uint32_t n = counts[i];
		struct world *w = world_create(n);

		load(w, n, 5);
		for (uint32_t j = 0; j < 3 * n; j++) {
			uint32_t least;
			uint32_t place = least_of(w, 0, &least);

			assert_int_equal(weir_window_take(&w->worker, w->client, &w->table, place),
				n - 1 - (5 + j) % n);
		}
		world_free(w);
	}
}

TEST(refresh_changes_only_its_place) {
	struct world *w = world_create(300);

	load(w, 300, 0);
	w->backends[299].active = 7;
	weir_window_refresh(&w->worker, w->client, &ops, 299);
	w->backends[42].active = 9;
	weir_window_refresh(&w->worker, w->client, &ops, 42);
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(key_at(w, i), i == 0 ? 7 : i == 257 ? 9 : 0);
	}
	// The backend is no longer a candidate, and its slot belongs to another backend.
	load(w, 200, 0);
	w->backends[299].active = 8;
	weir_window_refresh(&w->worker, w->client, &ops, 299);
	assert_int_equal(key_at(w, 0), 0);
	world_free(w);
}

TEST(limit_marks_places_full) {
	struct world *w = world_create(4);
	uint32_t least;

	w->table.settings.max_active_flows = 2;
	w->backends[3].active = 2;
	w->backends[2].active = 1;
	load(w, 4, 0); // candidates are ids 3, 2, 1, 0
	assert_int_equal(key_at(w, 0), WEIR_POLICY_KEY_NONE);
	assert_int_equal(key_at(w, 1), 1);
	w->backends[0].active = 5;
	w->backends[1].active = 5;
	weir_window_reload(&w->worker, w->client, &ops);
	assert_int_equal(least_of(w, 0, &least), 1);
	w->backends[2].active = 2;
	weir_window_refresh(&w->worker, w->client, &ops, 2);
	assert_int_equal(least_of(w, 0, &least), WEIR_POLICY_NONE);
	world_free(w);
}

TEST(invalid_ids_have_no_key) {
	struct world *w = world_create(2);
	uint32_t least;

	world_publish(w, WEIR_POLICY_ROUND_ROBIN, (const uint16_t[]){2, 1, 65535}, NULL, 3);
	w->client->cursor = 0;
	weir_window_load(&w->worker, w->client, &w->table, &ops);
	assert_int_equal(least_of(w, 0, &least), 1);
	weir_window_set_key(window_of(w, 1), 1, WEIR_POLICY_KEY_NONE);
	assert_int_equal(least_of(w, 0, &least), WEIR_POLICY_NONE);
	weir_window_reload(&w->worker, w->client, &ops);
	assert_int_equal(least_of(w, 0, &least), 1);
	world_free(w);
}

// --- more candidates than a scan covers -------------------------------------------------------

TEST(the_better_of_two_windows_is_taken) {
	enum { N = 16 * WEIR_POLICY_WINDOW };
	struct world *w = world_create(N);
	uint32_t least, of_cursor = 0;

	for (uint32_t i = 0; i < N; i++) {
		w->backends[i].active = 5;
	}
	w->backends[N - 1 - 200].active = 1; // a backend in the second of 16 windows
	load(w, N, 0);
	for (uint32_t i = 0; i < 3200; i++) {
		uint32_t place = least_of(w, 0, &least);

		assert_int_equal(least, place == 200 ? 1 : 5);
		of_cursor += place < WEIR_POLICY_WINDOW;
	}
	assert_in_range(of_cursor, 2850, 3100); // 15 of 16 choices draw another window
	w->client->cursor = 130; // the window at the cursor contains the backend
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(least_of(w, 0, &least), 200);
	}
	world_free(w);
}

TEST(full_windows_are_passed) {
	enum { N = 16 * WEIR_POLICY_WINDOW };
	struct world *w = world_create(N);
	uint32_t found = 0, least;

	w->table.settings.max_active_flows = 1;
	for (uint32_t i = 0; i < N; i++) {
		w->backends[i].active = i != 0; // the last candidate is idle
	}
	load(w, N, 0);
	for (uint32_t i = 0; i < 160; i++) {
		uint32_t place = least_of(w, 0, &least);

		assert_true(place == WEIR_POLICY_NONE || place == N - 1);
		found += place == N - 1;
	}
	assert_true(found >= 10);
	world_free(w);
}

// The services of a worker share a ring of keys. If other services have overwritten the keys of a
// service, the service loads its keys again. A refresh does not write to the overwritten entries.
TEST(services_share_the_ring) {
	enum { N = 1024, SERVICES = 16 }; // twice as many candidates as the ring has room for
	struct world *w = world_create(N);
	struct weir_policy_client *clients = fixture_alloc(SERVICES * sizeof(clients[0]));
	struct weir_policy_client *own = w->client;
	uint64_t seed = 3;
	uint32_t least;

	for (uint32_t i = 0; i < SERVICES; i++) {
		w->client = &clients[i];
		load(w, 300 + i * 40, 0);
	}
	for (uint32_t round = 0; round < 20000; round++) {
		uint32_t i = (uint32_t)(fixture_random(&seed) % SERVICES);
		uint32_t n = 300 + i * 40;
		uint16_t id = (uint16_t)(fixture_random(&seed) % n);

		// All services have the same backends as candidates, so that slots and keys can be
		// compared with the backends.
		w->client = &clients[i];
		w->table.count = n;
		for (uint32_t k = 0; k < n; k++) {
			w->candidates[k].id = (uint16_t)(n - 1 - k);
		}
		w->backends[id].active = (uint32_t)(fixture_random(&seed) % 50);
		weir_window_refresh(&w->worker, w->client, &ops, id);
		weir_window_load(&w->worker, w->client, &w->table, &ops);
		for (uint32_t k = 0; k < n; k++) {
			assert_int_equal(key_at(w, k), w->backends[n - 1 - k].active);
		}
		assert_int_not_equal(least_of(w, 0, &least), WEIR_POLICY_NONE);
		if (fixture_random(&seed) % 64 == 0) {
			// Advance the ring, as if other services had used all slots.
			w->worker.windows.head += w->worker.windows.size + 1;
			w->backends[id].active += 50;
			weir_window_refresh(&w->worker, w->client, &ops, id);
			assert_int_equal(key_at(w, n - 1 - id), w->backends[id].active - 50);
			assert_int_equal(least_of(w, 0, &least), plain_least(w, 0, &least));
			assert_int_equal(key_at(w, n - 1 - id), w->backends[id].active);
			assert_true(weir_window_is_intact(&w->worker, w->client));
		}
	}
	w->client = own;
	free(clients);
	world_free(w);
}
