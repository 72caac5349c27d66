// SPDX-License-Identifier: BSD-3-Clause
//
// Shared limits: several workers count the flows of a backend together.
#include <pthread.h>
#include <sched.h>

#include "policy_lab.h"
#include "shared_limit.h"

#define WORKERS_MOST 64u
#define TICK_NS (UINT64_C(1) << WEIR_LIMIT_TICK_SHIFT)

struct fleet { // all workers of an instance
	uint32_t workers, backends;
	struct weir_limit_word *words;
	struct weir_limit_part *parts[WORKERS_MOST];
	struct world *world[WORKERS_MOST];
	uint64_t now_ns;
};

// Set the limit of every backend.
static void fleet_limit(struct fleet *f, uint32_t limit) {
	for (uint32_t w = 0; w < f->workers; w++) {
		for (uint16_t id = 0; id < f->backends; id++) {
			weir_policy_count_shared(&f->world[w]->worker, id, limit != UINT32_MAX);
			weir_policy_set_limit(&f->world[w]->worker, f->world[w]->client, id, limit);
		}
	}
}

static struct fleet *fleet_create(uint32_t workers, uint32_t backends, uint32_t limit,
	enum weir_policy policy, enum weir_when_exhausted when) {
	struct fleet *f = fixture_alloc(sizeof(*f));

	f->workers = workers;
	f->backends = backends;
	f->words = fixture_alloc(backends * sizeof(f->words[0]));
	for (uint32_t w = 0; w < workers; w++) {
		f->world[w] = world_create(backends);
		f->parts[w] = fixture_alloc(backends * sizeof(f->parts[w][0]));
		f->world[w]->worker.rank = w;
		f->world[w]->worker.ranks = workers;
		weir_shared_limit_init(&f->world[w]->worker, f->words, f->parts[w], workers);
		f->world[w]->table.settings.when_exhausted = (uint8_t)when;
		world_publish(f->world[w], policy, NULL, NULL, backends);
	}
	fleet_limit(f, limit);
	return f;
}

static void fleet_free(struct fleet *f) {
	for (uint32_t w = 0; w < f->workers; w++) {
		world_free(f->world[w]);
		free(f->parts[w]);
	}
	free(f->words);
	free(f);
}

static uint32_t held(const struct fleet *f, uint16_t id) {
	return __atomic_load_n(&f->words[id].held, __ATOMIC_RELAXED);
}

static void worker_at(struct world *w, uint64_t now_ns) {
	w->now_ns = now_ns;
	while (weir_shared_limit_turn(&w->worker, now_ns)) {
	}
}

// Advances the clock by `ticks` ticks, and runs an iteration of all workers.
static void fleet_after(struct fleet *f, uint32_t ticks) {
	f->now_ns += ticks * TICK_NS;
	for (uint32_t w = 0; w < f->workers; w++) {
		worker_at(f->world[w], f->now_ns);
	}
}

static void syn(struct world *w, uint16_t id) {
	weir_policy_half_open(&w->worker, id, true);
	world_start(w, id);
}

static void confirm(struct world *w, uint16_t id) {
	weir_policy_established(&w->worker, w->client, id);
}

static void end_half_open(struct world *w, uint16_t id) {
	weir_policy_no_longer_half_open(&w->worker, id);
	world_end(w, id, WEIR_OUTCOME_UNANSWERED);
}

// Chooses a backend, and starts an established flow. Returns false if the flow was rejected.
static bool flow(struct world *w, uint64_t hash, uint16_t *ret_id) {
	struct weir_chosen chosen = world_choose_hash(w, hash);

	if (chosen.how == WEIR_CHOSEN_REJECTED) {
		return false;
	}
	*ret_id = chosen.id;
	world_start(w, chosen.id);
	return true;
}

// --- visible behaviour ------------------------------------------------------------------------

TEST(limit_is_that_of_all_workers) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct fleet *f =
			fleet_create(4, 3, 10, (enum weir_policy)policy, WEIR_EXHAUSTED_REJECT);
		uint64_t seed = 1;
		uint32_t flows = 0;
		uint16_t id;

		for (uint32_t i = 0; i < 200; i++) {
			flows += flow(f->world[i % 4], fixture_random(&seed), &id);
			fleet_after(f, i % 2);
		}
		assert_int_equal(flows, 30);
		for (id = 0; id < 3; id++) {
			assert_int_equal(held(f, id), 10);
		}
		fleet_free(f);
	}
}

TEST(one_worker_can_use_the_whole_limit) {
	static const uint32_t workers[] = {1, 2, 3, 16, 64};

	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		struct fleet *f = fleet_create(
			workers[i], 1, 100, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
		uint32_t flows = 0;
		uint16_t id;

		while (flow(f->world[workers[i] - 1], flows, &id)) {
			flows++;
		}
		assert_int_equal(flows, 100);
		fleet_free(f);
	}
}

// Guarantee L3: idle slots of other workers become available after a tick. Before that, only a
// limited number of these slots is available.
TEST(idle_slots_of_others_come_back) {
	struct fleet *f = fleet_create(16, 1, 640, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	uint32_t flows = 0;
	uint16_t id;

	for (uint32_t w = 1; w < 16; w++) {
		for (uint32_t i = 0; i < 40; i++) {
			assert_true(flow(f->world[w], i, &id));
		}
		for (uint32_t i = 0; i < 40; i++) {
			world_end(f->world[w], id, WEIR_OUTCOME_COMPLETED);
		}
	}
	assert_true(held(f, 0) <= 15 * (640 / 64));
	while (flow(f->world[0], flows, &id)) {
		flows++;
	}
	assert_true(flows >= 640 - 15 * (640 / 64));
	fleet_after(f, 2);
	while (flow(f->world[0], flows, &id)) {
		flows++;
	}
	assert_int_equal(flows, 640);
	fleet_free(f);
}

// When a flow ends at one worker, another worker can start a flow after at most two ticks.
TEST(room_is_found_by_another_worker) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct fleet *f =
			fleet_create(2, 128, 2, (enum weir_policy)policy, WEIR_EXHAUSTED_REJECT);
		uint64_t seed = 1;
		uint16_t id;

		for (uint32_t i = 0; i < 256; i++) {
			assert_true(flow(f->world[0], fixture_random(&seed), &id));
		}
		for (uint16_t full = 0; full < 128; full++) {
			assert_false(flow(f->world[1], fixture_random(&seed), &id));
			world_end(f->world[0], full, WEIR_OUTCOME_COMPLETED);
			fleet_after(f, 2);
			assert_true(flow(f->world[1], fixture_random(&seed), &id));
			assert_int_equal(id, full);
			fleet_after(f, 2);
		}
		fleet_free(f);
	}
}

// The number of a check is used again after 63 checks. Backend 0 was full at the first check, and
// backend 1 is full until the last check before the number is used again.
TEST(old_mark_of_a_full_backend_ends) {
	struct fleet *f = fleet_create(2, 2, 1, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	struct world *w = f->world[0];
	uint8_t first;
	uint16_t id;

	assert_true(flow(f->world[1], 0, &id));
	assert_true(flow(f->world[1], 0, &id));
	assert_false(flow(w, 0, &id));
	first = w->client->look;
	world_end(f->world[1], 0, WEIR_OUTCOME_COMPLETED);
	do {
		fleet_after(f, 2);
		assert_int_equal(world_choose(w), 0);
		assert_int_equal(world_choose(w), 0);
	} while (w->client->look % 63 + 1 != first);
	world_end(f->world[1], 1, WEIR_OUTCOME_COMPLETED);
	fleet_after(f, 2);
	id = world_choose(w);
	assert_int_equal(world_choose(w), 1 - id);
	fleet_free(f);
}

// The same, while the backend is no candidate.
TEST(old_mark_of_a_backend_that_was_no_candidate_ends) {
	struct fleet *f = fleet_create(2, 2, 1, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	struct world *w = f->world[0];
	uint8_t first;
	uint16_t id;

	assert_true(flow(f->world[1], 0, &id));
	assert_true(flow(f->world[1], 0, &id));
	assert_false(flow(w, 0, &id));
	first = w->client->look;
	world_publish(w, WEIR_POLICY_ROUND_ROBIN, NULL, NULL, 1);
	do {
		fleet_after(f, 2);
		assert_false(flow(w, 0, &id));
	} while (w->client->look % 63 + 1 != first);
	world_end(f->world[1], 0, WEIR_OUTCOME_COMPLETED);
	world_end(f->world[1], 1, WEIR_OUTCOME_COMPLETED);
	world_publish(w, WEIR_POLICY_ROUND_ROBIN, NULL, NULL, 2);
	fleet_after(f, 2);
	id = world_choose(w);
	assert_int_equal(world_choose(w), 1 - id);
	fleet_free(f);
}

#define MONTH_TICKS (UINT32_C(5) << 29) // 32 days: more than half of the numbers of ticks

TEST(full_backend_is_checked_after_a_month_without_flows) {
	struct fleet *f = fleet_create(2, 1, 1, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	uint16_t id;

	assert_true(flow(f->world[1], 0, &id));
	assert_false(flow(f->world[0], 0, &id));
	world_end(f->world[1], 0, WEIR_OUTCOME_COMPLETED);
	fleet_after(f, MONTH_TICKS);
	assert_true(flow(f->world[0], 0, &id));
	fleet_free(f);
}

TEST(spilled_flows_do_not_raise_the_limit) {
	struct fleet *f = fleet_create(2, 1, 10, WEIR_POLICY_LEAST_LOADED, WEIR_EXHAUSTED_SPILL);

	for (uint32_t i = 0; i < 15; i++) {
		struct weir_chosen chosen = world_choose_hash(f->world[i % 2], i);

		assert_int_equal(chosen.how, i < 10 ? WEIR_CHOSEN : WEIR_CHOSEN_SPILLED);
		world_start(f->world[i % 2], chosen.id);
	}
	assert_int_equal(held(f, 0), 15);
	// After the end of each flow, the backend is still at or above its limit.
	for (uint32_t i = 0; i < 5; i++) {
		world_end(f->world[0], 0, WEIR_OUTCOME_COMPLETED);
		assert_int_equal(world_choose_hash(f->world[0], i).how, WEIR_CHOSEN_SPILLED);
	}
	world_end(f->world[0], 0, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_choose_hash(f->world[0], 0).how, WEIR_CHOSEN);
	fleet_free(f);
}

TEST(changed_limit_applies_at_once) {
	struct fleet *f = fleet_create(4, 1, 100, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	uint32_t flows = 0;
	uint16_t id;

	for (uint32_t i = 0; i < 80; i++) {
		flows += flow(f->world[i % 4], i, &id);
	}
	assert_int_equal(flows, 80);
	fleet_limit(f, 50); // no new flows before 31 of the 80 flows have ended
	for (uint32_t w = 0; w < 4; w++) {
		assert_false(flow(f->world[w], w, &id));
	}
	for (uint32_t i = 0; i < 31; i++) {
		world_end(f->world[i % 4], 0, WEIR_OUTCOME_COMPLETED);
		fleet_after(f, 1);
		assert_int_equal(held(f, 0), 79 - i);
	}
	fleet_after(f, 2);
	assert_true(flow(f->world[3], 0, &id));
	assert_false(flow(f->world[3], 0, &id));
	fleet_limit(f, 60);
	for (uint32_t i = 0; i < 10; i++) {
		assert_true(flow(f->world[0], 0, &id));
	}
	fleet_after(f, 2);
	assert_false(flow(f->world[1], 0, &id));
	fleet_free(f);
}

// A new limit includes the existing flows of all workers.
TEST(limit_that_begins_counts_existing_flows) {
	struct fleet *f =
		fleet_create(3, 1, UINT32_MAX, WEIR_POLICY_ROUND_ROBIN, WEIR_EXHAUSTED_REJECT);
	uint16_t id;

	for (uint32_t i = 0; i < 12; i++) {
		assert_true(flow(f->world[i % 3], i, &id));
	}
	assert_int_equal(held(f, 0), 0);
	fleet_limit(f, 13);
	assert_int_equal(held(f, 0), 12);
	assert_true(flow(f->world[0], 0, &id));
	assert_false(flow(f->world[1], 0, &id));
	fleet_limit(f, UINT32_MAX);
	assert_int_equal(held(f, 0), 0);
	assert_true(flow(f->world[1], 0, &id));
	fleet_free(f);
}

// --- handshakes ---------------------------------------------------------------------------------

TEST(handshakes_at_once_do_not_exceed_the_limit) {
	struct fleet *f = fleet_create(4, 1, 10, WEIR_POLICY_LEAST_LOADED, WEIR_EXHAUSTED_REJECT);
	uint32_t admitted[4] = {0}, sum = 0;

	for (uint32_t i = 0; i < 30; i++) {
		struct weir_chosen chosen = world_choose_hash(f->world[i % 4], i);

		if (chosen.how == WEIR_CHOSEN) {
			syn(f->world[i % 4], chosen.id);
			admitted[i % 4]++;
			sum++;
		}
		fleet_after(f, 1);
	}
	assert_int_equal(sum, 10);
	for (uint32_t w = 0; w < 4; w++) {
		for (uint32_t i = 0; i < admitted[w]; i++) {
			confirm(f->world[w], 0);
		}
	}
	fleet_after(f, 3 * WEIR_LIMIT_HANDSHAKE_TICKS);
	assert_int_equal(held(f, 0), 10);
	fleet_free(f);
}

TEST(lost_handshakes_free_their_slots) {
	struct fleet *f = fleet_create(2, 1, 100, WEIR_POLICY_RANDOM, WEIR_EXHAUSTED_REJECT);

	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(world_choose_hash(f->world[0], i).how, WEIR_CHOSEN);
		syn(f->world[0], 0);
	}
	end_half_open(f->world[0], 0); // reset by its client
	fleet_after(f, 2);
	assert_int_equal(held(f, 0), 9);
	fleet_after(f, WEIR_LIMIT_HANDSHAKE_TICKS);
	fleet_after(f, WEIR_LIMIT_HANDSHAKE_TICKS);
	assert_int_equal(held(f, 0), 0);
	// The number of lost handshakes is below a quarter of the worker's share of the limit.
	assert_int_equal(f->parts[0][0].mistrust, 0);
	confirm(f->world[0], 0); // a late confirmation: the flow gets its slot now
	assert_int_equal(held(f, 0), 1);
	fleet_free(f);
}

// A limit of 0 means that the backend is closed, or that its accept queue is full.
TEST(limit_of_0_gives_no_reason_for_mistrust) {
	struct fleet *f = fleet_create(1, 1, 100, WEIR_POLICY_RANDOM, WEIR_EXHAUSTED_REJECT);

	assert_int_equal(world_choose_hash(f->world[0], 0).how, WEIR_CHOSEN);
	syn(f->world[0], 0);
	fleet_limit(f, 0);
	fleet_after(f, 2 * WEIR_LIMIT_HANDSHAKE_TICKS);
	assert_int_equal(f->parts[0][0].mistrust, 0);
	fleet_free(f);
}

// During a SYN flood, clients that complete their handshakes are served, although some of their
// SYNs are rejected at the limit. A client retransmits a rejected SYN after a second.
TEST(syn_flood_does_not_fill_the_limit) {
	struct fleet *f = fleet_create(4, 2, 20, WEIR_POLICY_LEAST_LOADED, WEIR_EXHAUSTED_REJECT);
	uint32_t served = 0, rejected = 0;

	for (uint32_t second = 0; second < 40; second++) {
		for (uint32_t i = 0; i < 2000; i++) {
			struct world *w = f->world[i % 4];
			struct weir_chosen chosen = world_choose_hash(w, i);

			if (chosen.how == WEIR_CHOSEN) {
				syn(w, chosen.id);
			}
			if (i % 100 == 0) {
				fleet_after(f, 48);
				chosen = world_choose_hash(w, i);
				served += chosen.how == WEIR_CHOSEN && second >= 3;
				rejected += chosen.how != WEIR_CHOSEN && second >= 3;
				if (chosen.how == WEIR_CHOSEN) {
					syn(w, chosen.id);
					confirm(w, chosen.id);
					world_end(w, chosen.id, WEIR_OUTCOME_COMPLETED);
				}
			}
		}
		// Unanswered flows time out.
		for (uint32_t w = 0; w < 4; w++) {
			for (uint16_t id = 0; id < 2; id++) {
				while (f->world[w]->backends[id].half_open > 1000) {
					end_half_open(f->world[w], id);
				}
			}
		}
	}
	assert_int_equal(rejected, 0);
	assert_int_equal(served, 37 * 20);
	fleet_free(f);
}

// After the flood, half-open flows reserve slots again.
TEST(mistrust_ends_after_a_flood) {
	struct fleet *f = fleet_create(1, 1, 20, WEIR_POLICY_LEAST_LOADED, WEIR_EXHAUSTED_REJECT);
	struct world *w = f->world[0];

	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(world_choose_hash(w, i).how, WEIR_CHOSEN);
		syn(w, 0);
	}
	fleet_after(f, WEIR_LIMIT_HANDSHAKE_TICKS);
	fleet_after(f, WEIR_LIMIT_HANDSHAKE_TICKS);
	assert_int_equal(held(f, 0), 0);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN);
	syn(w, 0);
	assert_int_equal(f->parts[0][0].reserved, 0);
	fleet_after(f, WEIR_LIMIT_MISTRUST_TICKS + 2);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN);
	syn(w, 0);
	assert_int_equal(f->parts[0][0].reserved, 0); // although 21 flows are half-open
	while (w->backends[0].half_open > 0) {
		end_half_open(w, 0);
	}
	fleet_after(f, MONTH_TICKS);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN);
	syn(w, 0);
	assert_int_equal(f->parts[0][0].reserved, 1);
	fleet_free(f);
}

// --- model ----------------------------------------------------------------------------------

static uint32_t established(const struct world *w, uint16_t id) {
	return w->backends[id].active - w->backends[id].half_open;
}

// Checks guarantee L2.
static void check_sums(const struct fleet *f) {
	for (uint16_t id = 0; id < f->backends; id++) {
		uint32_t sum = 0;

		for (uint32_t w = 0; w < f->workers; w++) {
			const struct weir_limit_part *part = &f->parts[w][id];

			sum += part->held;
			if (f->world[w]->backends[id].counted != 0) {
				assert_true(part->held >=
					    established(f->world[w], id) + part->reserved);
				assert_true(part->reserved <= f->world[w]->backends[id].half_open);
			} else {
				assert_int_equal(part->held, 0);
			}
		}
		assert_int_equal(held(f, id), sum);
	}
}

static void random_choice(struct fleet *f, struct world *w, uint32_t limit, uint64_t *seed) {
	struct weir_chosen chosen = world_choose_hash(w, fixture_random(seed));

	if (chosen.how == WEIR_CHOSEN && w->backends[chosen.id].counted != 0) {
		assert_true(held(f, chosen.id) <= limit); // guarantee L1
	}
	if (chosen.how != WEIR_CHOSEN && chosen.how != WEIR_CHOSEN_SPILLED) {
		return;
	}
	switch (fixture_random(seed) % 4) {
	case 0:
		world_start(w, chosen.id);
		break;
	case 1:
		weir_policy_half_open(&w->worker, chosen.id, false);
		world_start(w, chosen.id);
		break;
	case 2:
		break; // the flow is not entered into the flow table
	default:
		syn(w, chosen.id);
	}
}

static void random_end(struct world *w, uint16_t id, uint64_t *seed) {
	if (w->backends[id].half_open > 0 && fixture_random(seed) % 2 == 0) {
		if (fixture_random(seed) % 2 == 0) {
			confirm(w, id);
		} else {
			end_half_open(w, id);
		}
	} else if (established(w, id) > 0) {
		world_end(w, id, WEIR_OUTCOME_COMPLETED);
	}
}

// Moves some of the flows between workers. The new worker counts the flows before the old worker
// stops counting them.
static void random_move(struct fleet *f, uint16_t id, uint64_t *seed) {
	struct world *from = f->world[fixture_random(seed) % f->workers];
	struct world *to = f->world[fixture_random(seed) % f->workers];
	uint32_t half_open = from->backends[id].half_open / 2;
	uint32_t active = half_open + established(from, id) / 2;

	if (from != to) {
		weir_policy_take_flows(&to->worker, to->client, id, active, half_open);
		weir_policy_give_flows(&from->worker, from->client, id, active, half_open);
	}
}

// The id is assigned to another service.
static void reset_backend(struct fleet *f, uint16_t id, uint32_t limit) {
	for (uint32_t i = 0; i < f->workers; i++) {
		struct world *w = f->world[i];

		weir_policy_count_shared(&w->worker, id, false);
		weir_policy_set_limit(&w->worker, w->client, id, UINT32_MAX);
		w->backends[id] = (struct weir_policy_backend){.index = w->backends[id].index};
		weir_policy_count_shared(&w->worker, id, limit != UINT32_MAX);
		weir_policy_set_limit(&w->worker, w->client, id, limit);
	}
}

static void run_model(uint32_t workers, int policy, uint64_t *seed) {
	uint32_t limit = 1 + fixture_random(seed) % 40, backends = 1 + fixture_random(seed) % 5;
	struct fleet *f = fleet_create(workers, backends, limit, (enum weir_policy)policy,
		fixture_random(seed) % 2 == 0 ? WEIR_EXHAUSTED_REJECT : WEIR_EXHAUSTED_SPILL);

	for (uint32_t i = 0; i < 3000; i++) {
		uint16_t id = (uint16_t)(fixture_random(seed) % backends);
		struct world *w = f->world[fixture_random(seed) % workers];
		uint32_t event = fixture_random(seed) % 1000;

		if (event < 500) {
			random_choice(f, w, limit, seed);
		} else if (event < 900) {
			random_end(w, id, seed);
		} else if (event < 950) {
			f->now_ns += fixture_random(seed) % 2000 * 300000;
			worker_at(w, f->now_ns);
		} else if (event < 990) {
			random_move(f, id, seed);
		} else if (event < 996) {
			limit = event == 990 ? UINT32_MAX : 1 + fixture_random(seed) % 40;
			fleet_limit(f, limit);
		} else if (event == 996) {
			weir_policy_close(&w->worker, w->client, id);
			weir_policy_set_limit(&w->worker, w->client, id, limit);
		} else if (event == 997) {
			reset_backend(f, id, limit);
		}
		check_sums(f);
	}
	fleet_limit(f, 7);
	for (uint32_t i = 0; i < 3; i++) { // until all reservations have expired
		fleet_after(f, WEIR_LIMIT_HANDSHAKE_TICKS);
	}
	for (uint16_t id = 0; id < backends; id++) {
		uint32_t sum = 0;

		for (uint32_t w = 0; w < workers; w++) {
			sum += established(f->world[w], id);
		}
		assert_int_equal(held(f, id), sum);
	}
	fleet_free(f);
}

TEST(random_events_keep_the_sum) {
	static const uint32_t workers[] = {1, 2, 5, 64};
	uint64_t seed = 7;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
			run_model(workers[i], policy, &seed);
		}
	}
}

// --- threads --------------------------------------------------------------------------------

#define THREADS 6u
#define THREAD_BACKENDS 3u
#define THREAD_LIMIT 20u
#define THREAD_CHOICES 40000u

struct racer {
	struct fleet *fleet;
	uint32_t number;
	uint32_t *active; // [THREAD_BACKENDS] number of flows of all threads
	uint32_t most;
	uint32_t flows[THREAD_BACKENDS];
	pthread_t thread;
};

static void *race(void *context) {
	struct racer *racer = context;
	struct world *w = racer->fleet->world[racer->number];
	uint64_t seed = racer->number;

	for (uint32_t i = 0; i < THREAD_CHOICES; i++) {
		uint16_t id = (uint16_t)(fixture_random(&seed) % THREAD_BACKENDS);

		if (i % 64 == 0) {
			// Otherwise a thread could do all its work in one time slice.
			sched_yield();
		}
		if (fixture_random(&seed) % 3 != 0) {
			uint32_t sum;

			if (!flow(w, i, &id)) {
				worker_at(w, w->now_ns + TICK_NS);
				continue;
			}
			sum = __atomic_add_fetch(&racer->active[id], 1, __ATOMIC_SEQ_CST);
			racer->most = sum > racer->most ? sum : racer->most;
			racer->flows[id]++;
		} else if (racer->flows[id] > 0) {
			__atomic_sub_fetch(&racer->active[id], 1, __ATOMIC_SEQ_CST);
			racer->flows[id]--;
			world_end(w, id, WEIR_OUTCOME_COMPLETED);
		}
	}
	for (uint16_t id = 0; id < THREAD_BACKENDS; id++) {
		for (; racer->flows[id] > 0; racer->flows[id]--) {
			__atomic_sub_fetch(&racer->active[id], 1, __ATOMIC_SEQ_CST);
			world_end(w, id, WEIR_OUTCOME_COMPLETED);
		}
	}
	worker_at(w, w->now_ns + TICK_NS);
	return NULL;
}

TEST(threads_never_exceed_the_limit) {
	struct fleet *f = fleet_create(THREADS, THREAD_BACKENDS, THREAD_LIMIT,
		WEIR_POLICY_POWER_OF_TWO, WEIR_EXHAUSTED_REJECT);
	struct racer racers[THREADS] = {0};
	uint32_t active[THREAD_BACKENDS] = {0}, most = 0;

	for (uint32_t i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){.fleet = f, .number = i, .active = active};
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(racers[i].thread, NULL);
		most = racers[i].most > most ? racers[i].most : most;
	}
	assert_int_equal(most, THREAD_LIMIT); // the limit is reached, but never exceeded
	for (uint16_t id = 0; id < THREAD_BACKENDS; id++) {
		assert_int_equal(held(f, id), 0);
	}
	fleet_free(f);
}
