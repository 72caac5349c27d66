// SPDX-License-Identifier: BSD-3-Clause
//
// Recent errors: the time for which an error counts, if the clock advances in small or large steps.
// The counts must not overflow.
#include "policy_lab.h"
#include "recent_errors.h"

static struct world *create(uint32_t window_ms) {
	struct world *w = world_create(1);

	w->client->settings.needs = WEIR_NEEDS_ERRORS;
	w->client->settings.error_window_ms = window_ms;
	weir_errors_adopt(w->client, 0);
	return w;
}

static uint32_t errors_at(struct world *w, uint64_t now_ns) {
	if (now_ns >= w->client->tick_end_ns) {
		weir_errors_tick(w->client, now_ns);
	}
	return (uint32_t)(weir_policy_load(w->client, &w->backends[0]) / WEIR_SIGNAL_FLOW);
}

TEST(error_counts_for_seven_eighths_to_all_of_the_window) {
	for (uint64_t at = 0; at < 300 * MS; at += 7 * MS) {
		struct world *w = create(800);

		assert_int_equal(errors_at(w, at), 0);
		weir_errors_add(w->client, &w->backends[0]);
		for (uint64_t later = 0; later < 700 * MS; later += 3 * MS) {
			assert_int_equal(errors_at(w, at + later), 1);
		}
		assert_int_equal(errors_at(w, at + 800 * MS), 0);
		assert_int_equal(errors_at(w, at + 5 * SECOND), 0);
		world_free(w);
	}
}

TEST(errors_expire_one_by_one) {
	struct world *w = create(800);

	for (uint32_t i = 0; i < 8; i++) {
		errors_at(w, i * 100 * MS);
		weir_errors_add(w->client, &w->backends[0]);
	}
	for (uint32_t i = 0; i <= 8; i++) {
		assert_int_equal(errors_at(w, (700 + i * 100) * MS), 8 - i);
	}
	world_free(w);
}

TEST(ticks_catch_up_after_any_pause) {
	static const uint64_t pauses[] = {
		100 * MS, 700 * MS, 800 * MS, 900 * MS, SECOND, HOUR, 100000 * HOUR};
	struct world *w = create(800);
	uint64_t now_ns = 50 * MS;

	for (uint32_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		errors_at(w, now_ns);
		weir_errors_add(w->client, &w->backends[0]);
		now_ns += pauses[i];
		assert_int_equal(errors_at(w, now_ns) > 0, pauses[i] < 800 * MS);
		assert_true(w->client->tick_end_ns > now_ns);
		assert_true(w->client->tick_end_ns <= now_ns + 100 * MS);
	}
	world_free(w);
}

TEST(count_does_not_overflow) {
	struct world *w = create(800);

	for (uint32_t i = 0; i < 70000; i++) {
		weir_errors_add(w->client, &w->backends[0]);
	}
	assert_int_equal(errors_at(w, 0), 65535);
	assert_int_equal(errors_at(w, 800 * MS), 0);
	world_free(w);
}

TEST(another_window_keeps_counts) {
	struct world *w = create(800);

	weir_errors_add(w->client, &w->backends[0]);
	w->client->settings.error_window_ms = 8000;
	weir_errors_adopt(w->client, 50 * MS);
	assert_int_equal(errors_at(w, 7 * SECOND), 1);
	assert_int_equal(errors_at(w, 8050 * MS), 0);
	// If the window does not change, the ticks continue.
	weir_errors_add(w->client, &w->backends[0]);
	for (uint64_t now = 8050 * MS; now < 17 * SECOND; now += 10 * MS) {
		weir_errors_adopt(w->client, now);
		assert_int_equal(errors_at(w, now), now < 16050 * MS);
	}
	world_free(w);
}

TEST(counts_are_removed_when_no_longer_needed) {
	struct world *w = create(800);

	weir_errors_add(w->client, &w->backends[0]);
	w->client->settings.needs = 0;
	weir_errors_adopt(w->client, 0);
	assert_int_equal(errors_at(w, 0), 0);
	assert_int_equal(w->client->tick_end_ns, UINT64_MAX);
	w->client->settings.needs = WEIR_NEEDS_ERRORS;
	weir_errors_adopt(w->client, 0);
	assert_int_equal(errors_at(w, 0), 0);
	weir_errors_add(w->client, &w->backends[0]);
	assert_int_equal(errors_at(w, 699 * MS), 1);
	world_free(w);
}

TEST(window_of_0_does_not_hang) {
	struct world *w = create(0);

	weir_errors_add(w->client, &w->backends[0]);
	assert_int_equal(errors_at(w, HOUR), 0);
	world_free(w);
}
