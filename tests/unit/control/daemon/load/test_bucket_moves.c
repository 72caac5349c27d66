// SPDX-License-Identifier: BSD-3-Clause
//
// Tests bucket moves in a simulation. Workers are simulated millisecond by millisecond. Their
// buckets move as requested, late, or not at all.
#include "bucket_moves.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TICK WEIR_BUCKET_TICK_MS
#define CYCLES 1000000.0 // cycles of a worker in a millisecond
#define COST 1000.0 // cycles of a packet
#define MOVE_MS 3 // ms from the answer to the change of owner
#define EVEN 1.2 // load of the most loaded worker divided by the mean

enum manner {
	CONFIRM,
	REFUSE,
	SILENT, // the worker neither answers nor moves the bucket
	SECRET, // the bucket moves, but the answer is lost
};

struct sim {
	struct weir_bucket_moves *moves;
	struct weir_bucket_look look;
	uint32_t workers;
	uint32_t distributor; // worker that receives the packets of all; >= workers: none
	double distributing; // share of the distributor's time for receiving
	double load[WEIR_BUCKETS]; // load of the bucket's packets, as a share of a worker's time
	double packets[WEIR_BUCKETS], busy[WEIR_WORKERS_MAX];
	double noise; // noise of the number of packets in a millisecond
	uint64_t seed, ms;
	enum manner manner;
	double move_s; // CPU time that each move costs in both workers together
	bool stealing;
	bool restarted; // requests of a previous control process may be in flight
	uint32_t requests, moved;
	uint32_t moved_in[64]; // number of moves in each tenth of a second, as a ring
	uint32_t most_in_second;
	uint64_t arrived_ms[WEIR_BUCKETS]; // time of the last move; 0 = the bucket has not moved
	struct {
		struct weir_bucket_request what;
		uint64_t at_ms; // time at which the bucket's owner changes; 0 = free
	} way[WEIR_WORKERS_MAX];
};

static double draw(struct sim *sim) {
	uint64_t x = sim->seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

static struct sim *sim_new(uint32_t workers) {
	struct sim *sim = calloc(1, sizeof(*sim));

	assert_non_null(sim);
	sim->workers = workers;
	sim->distributor = workers;
	sim->stealing = true;
	sim->look.hz = 1000 * CYCLES;
	sim->seed = workers;
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		sim->look.owner[i] = i % workers;
	}
	for (uint32_t i = 0; i < workers; i++) {
		sim->look.worker[i].alive = true;
	}
	return sim;
}

static void sim_start(struct sim *sim) {
	assert_int_equal(weir_bucket_moves_create(sim->workers, &sim->look, &sim->moves), 0);
}

static void sim_free(struct sim *sim) {
	weir_bucket_moves_free(sim->moves);
	free(sim);
}

// Set the total load. hot: fraction of the load that is in hot_buckets buckets. These are the first
// buckets of the first worker, then buckets of the second worker, and so on. The remaining load is
// spread evenly over all buckets.
static void skew(struct sim *sim, double load, double hot, uint32_t hot_buckets) {
	uint32_t each = WEIR_BUCKETS / sim->workers;

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		sim->load[i] = load * (1 - hot) / WEIR_BUCKETS;
	}
	for (uint32_t i = 0; i < hot_buckets; i++) {
		sim->load[i % each * sim->workers + i / each] += load * hot / hot_buckets;
	}
}

// --- simulation -----------------------------------------------------------------------------

// Create the traffic of this number of milliseconds. Longer times have less noise.
static void traffic(struct sim *sim, uint32_t ms) {
	double want[WEIR_WORKERS_MAX] = {0}, noise = sim->noise / sqrt(ms);

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		double load = sim->load[i] * (1 + noise * (2 * draw(sim) - 1));

		sim->packets[i] += load * ms * CYCLES / COST;
		sim->look.packets[i] = (uint64_t)sim->packets[i];
		want[sim->look.owner[i]] += load;
		if (sim->distributor < sim->workers && sim->look.owner[i] != sim->distributor) {
			sim->look.worker[sim->distributor].handed_over = (uint64_t)sim->packets[i];
		}
	}
	for (uint32_t i = 0; i < sim->workers; i++) {
		double share = want[i] + (i == sim->distributor ? sim->distributing : 0);

		sim->busy[i] += fmin(share, 1) * ms * CYCLES;
		sim->look.worker[i].busy_cycles = (uint64_t)sim->busy[i];
		sim->look.worker[i].idle_cycles =
			(uint64_t)((double)(sim->ms + ms) * CYCLES - sim->busy[i]);
	}
}

static void count_move(struct sim *sim, uint32_t bucket) {
	uint32_t second = 0, now = (uint32_t)(sim->ms / 100 % 64);

	sim->moved++;
	sim->look.moves++;
	sim->look.move_cycles += (uint64_t)(sim->move_s * sim->look.hz);
	sim->moved_in[now]++;
	for (uint32_t i = 0; i < 10; i++) {
		second += sim->moved_in[(now + 64 - i) % 64];
	}
	sim->most_in_second = second > sim->most_in_second ? second : sim->most_in_second;
	if (sim->arrived_ms[bucket] != 0) { // guarantee B2
		assert_true(sim->ms - sim->arrived_ms[bucket] >= 1000 * WEIR_BUCKET_REST_S);
	}
	sim->arrived_ms[bucket] = sim->ms;
}

static void arrive(struct sim *sim) {
	for (uint32_t i = 0; i < WEIR_WORKERS_MAX; i++) {
		uint32_t bucket = sim->way[i].what.bucket;

		if (sim->way[i].at_ms == 0 || sim->way[i].at_ms > sim->ms) {
			continue;
		}
		assert_int_equal(sim->look.owner[bucket], sim->way[i].what.victim);
		sim->look.owner[bucket] = sim->way[i].what.thief;
		sim->way[i].at_ms = 0;
		count_move(sim, bucket);
	}
}

// Returns whether a bucket of one of the two workers is in transit.
static bool is_busy(const struct sim *sim, const struct weir_bucket_request *request) {
	bool busy = false;

	for (uint32_t i = 0; i < WEIR_WORKERS_MAX; i++) {
		const struct weir_bucket_request *other = &sim->way[i].what;

		busy |= sim->way[i].at_ms != 0 &&
			(other->victim == request->victim || other->victim == request->thief ||
				other->thief == request->victim || other->thief == request->thief);
	}
	return busy;
}

static void send(struct sim *sim, const struct weir_bucket_request *request) {
	bool refuse = sim->manner == REFUSE;
	uint32_t way = 0;

	sim->requests++;
	if (sim->manner == CONFIRM && is_busy(sim, request)) {
		assert_true(sim->restarted); // guarantee B3
		refuse = true;
	}
	assert_true(request->bucket < WEIR_BUCKETS && request->id != 0);
	assert_true(request->victim != request->thief && request->thief < sim->workers);
	assert_int_equal(sim->look.owner[request->bucket], request->victim);
	if (!refuse && sim->manner != SILENT) {
		while (sim->way[way].at_ms != 0) {
			way++;
		}
		sim->way[way].what = *request;
		sim->way[way].at_ms = sim->ms + MOVE_MS;
	}
	if (refuse || sim->manner == CONFIRM) {
		weir_bucket_moves_answer(
			sim->moves, request->bucket, request->id, !refuse, (double)sim->ms / 1000);
	}
}

static void step(struct sim *sim, uint32_t ms) {
	struct weir_bucket_request request;
	double now;

	traffic(sim, ms);
	sim->ms += ms;
	if (sim->ms % 100 == 0) {
		sim->moved_in[sim->ms / 100 % 64] = 0;
	}
	arrive(sim);
	now = (double)sim->ms / 1000;
	if (sim->ms % TICK == 0) {
		weir_bucket_moves_tick(sim->moves, &sim->look, sim->stealing, now);
	} else if (weir_bucket_moves_pending(sim->moves) > 0) {
		weir_bucket_moves_note(sim->moves, &sim->look, now);
	}
	while (weir_bucket_moves_next(sim->moves, &request)) {
		send(sim, &request);
	}
	assert_true(weir_bucket_moves_pending(sim->moves) <= WEIR_BUCKET_MOVES);
}

static void run_ms(struct sim *sim, uint32_t ms) {
	while (ms-- > 0) {
		step(sim, 1);
	}
}

// Like run_ms(), for long times. It is faster, because a step lasts until the next tick while no
// bucket is in transit.
static void run_on(struct sim *sim, uint32_t ms) {
	uint64_t end = sim->ms + ms;

	while (sim->ms < end) {
		step(sim, weir_bucket_moves_pending(sim->moves) > 0 ? 1 : TICK - sim->ms % TICK);
	}
}

// Returns the load of a worker.
static double load_of(const struct sim *sim, uint32_t worker) {
	double load = worker == sim->distributor ? sim->distributing : 0;

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		load += sim->look.owner[i] == worker ? sim->load[i] : 0;
	}
	return load;
}

// Returns the load of the most loaded worker, divided by the mean.
static double unevenness(const struct sim *sim) {
	double sum = 0, most = 0;

	for (uint32_t i = 0; i < sim->workers; i++) {
		double load = load_of(sim, i);

		sum += load;
		most = fmax(most, load);
	}
	return most * sim->workers / sum;
}

// --- even loads ---------------------------------------------------------------------------

TEST(skewed_load_is_even_within_two_seconds) {
	static const uint32_t workers[] = {2, 4, 16, 64};

	for (int i = 0; i < 4; i++) {
		for (int high = 0; high < 2; high++) {
			struct sim *sim = sim_new(workers[i]);
			double load = (high ? 0.7 : 0.1) * workers[i];
			uint32_t moved;

			// The workers with the hot buckets cannot handle a high load, but can
			// handle a low load.
			skew(sim, load, 0.9, workers[i] * 4);
			sim->noise = 0.3;
			assert_true(unevenness(sim) > 1.5);
			sim_start(sim);
			run_ms(sim, 2000);
			print_message("%u workers, load %.1f: %.3f after 2 s, %u moves\n",
				workers[i], load, unevenness(sim), sim->moved);
			if (unevenness(sim) > EVEN) {
				fail_msg("%u workers: %.3f", workers[i], unevenness(sim));
			}
			moved = sim->moved;
			run_ms(sim, 3000); // the load stays even, with almost no further moves
			assert_true(unevenness(sim) <= EVEN);
			assert_true(sim->moved - moved <= workers[i]);
			sim_free(sim);
		}
	}
}

TEST(even_load_moves_nothing) {
	for (uint32_t workers = 2; workers <= 64; workers *= 2) {
		struct sim *sim = sim_new(workers);

		skew(sim, 0.6 * workers, 0, 1);
		sim->noise = 0.5;
		sim_start(sim);
		run_ms(sim, 5000);
		assert_int_equal(sim->requests, 0);
		sim_free(sim);
	}
}

// Guarantee B1: on an idle machine no bucket moves.
TEST(idle_machine_moves_nothing) {
	struct sim *sim = sim_new(4);

	skew(sim, 0.045, 0.9, 8);
	assert_true(unevenness(sim) > 3);
	sim_start(sim);
	run_ms(sim, 5000);
	assert_int_equal(sim->requests, 0);
	sim_free(sim);
}

// Two workers have loads of 0.65 and 0.35, in buckets with a load of 0.01 each. The cost of a move
// is move_s / WEIR_BUCKET_REST_S: 0.001, 0.1 or 0.4 of a worker's time. The more a move costs, the
// fewer moves are worthwhile.
TEST(moves_stop_where_they_do_not_pay) {
	static const struct {
		double move_s;
		uint32_t least, most; // permitted numbers of moves
		double uneven;
	} cases[] = {{0.0003, 13, 17, 1.06}, {0.03, 5, 10, 1.2}, {0.12, 0, 0, 1.31}};

	for (int i = 0; i < 3; i++) {
		struct sim *sim = sim_new(2);
		uint32_t moved;

		for (uint32_t bucket = 0; bucket < 100; bucket++) {
			sim->look.owner[bucket] = bucket < 65 ? 0 : 1;
			sim->load[bucket] = 0.01;
		}
		sim->move_s = cases[i].move_s;
		sim->look.moves = 1; // a move before this process started
		sim->look.move_cycles = (uint64_t)(sim->move_s * sim->look.hz);
		sim_start(sim);
		run_ms(sim, 5000);
		print_message("a move costs %.1f ms: %u moves, %.3f\n", sim->move_s * 1000,
			sim->moved, unevenness(sim));
		assert_in_range(sim->moved, cases[i].least, cases[i].most);
		assert_true(unevenness(sim) <= cases[i].uneven);
		moved = sim->moved;
		run_ms(sim, 20000);
		assert_int_equal(sim->moved, moved);
		run_ms(sim, 30000); // the cost of a move is unknown again after half a minute
		assert_true(i == 0 || sim->moved > moved);
		sim_free(sim);
	}
}

// Worker 1 receives the packets of all workers. This work cannot be moved, so in the end
// worker 1 must have fewer buckets.
TEST(distributing_counts_as_work_of_its_worker) {
	struct sim *sim = sim_new(4);

	skew(sim, 2.0, 0.5, 16);
	sim->distributor = 1;
	sim->distributing = 0.35;
	sim_start(sim);
	run_ms(sim, 2000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// Worker 0 receives packets and has few buckets. It does not count as idle.
TEST(busy_worker_without_buckets_gets_none) {
	struct sim *sim = sim_new(2);
	uint32_t moved;

	skew(sim, 0.4, 0.9, 8);
	sim->distributor = 0;
	sim->distributing = 0.6;
	sim_start(sim);
	run_ms(sim, 3000);
	moved = sim->moved;
	run_ms(sim, 3000);
	assert_int_equal(sim->moved, moved);
	assert_true(weir_bucket_moves_summary(sim->moves, 0).hottest_load < 0.1);
	sim_free(sim);
}

TEST(moving_hot_spot_stays_within_the_bound) {
	static const uint32_t workers[] = {2, 4, 16, 64};

	for (int i = 0; i < 4; i++) {
		struct sim *sim = sim_new(workers[i]);

		sim_start(sim);
		for (int spot = 0; spot < 40; spot++) {
			for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
				sim->load[bucket] = 0.1 * workers[i] / WEIR_BUCKETS;
			}
			// Add load to 20 of the buckets that this worker has now.
			for (uint32_t n = 0, bucket = 0; bucket < WEIR_BUCKETS && n < 20;
				bucket++) {
				if (sim->look.owner[bucket] == (uint32_t)spot % workers[i]) {
					sim->load[bucket] += 0.04;
					n++;
				}
			}
			run_ms(sim, 250);
		}
		print_message("%u workers: %u moves in 10 s, %u in the worst second\n", workers[i],
			sim->moved, sim->most_in_second);
		assert_true(sim->moved > 10);
		assert_true(sim->most_in_second <= WEIR_BUCKET_MOVES * 1000 / TICK);
		sim_free(sim);
	}
}

// Guarantee B5: a bucket that is too large to move is reported, and is not moved back and forth.
TEST(elephant_is_reported_and_does_not_oscillate) {
	struct sim *sim = sim_new(4);
	uint32_t bucket, worker, times = 0, moved;
	double load;

	skew(sim, 0.4, 0, 1);
	sim->load[5] = 0.8; // worker 1 has a load of 0.9, all other workers together 0.1
	sim->noise = 0.3;
	sim_start(sim);
	for (int i = 0; i < 50; i++) {
		run_ms(sim, TICK);
		while (weir_bucket_moves_elephant(sim->moves, &bucket, &worker, &load)) {
			assert_int_equal(bucket, 5);
			assert_int_equal(worker, sim->look.owner[5]);
			assert_true(fabs(load - 0.8) < 0.1);
			times++;
		}
	}
	assert_int_equal(times, 1);
	assert_int_equal(sim->arrived_ms[5], 0);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, 1).elephants, 1);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, 1).hottest, 5);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, 0).elephants, 0);
	// The other buckets have left the worker, and no further bucket moves.
	moved = sim->moved;
	run_ms(sim, 5000);
	assert_int_equal(sim->moved, moved);
	// For 21 minutes, a client repeatedly makes a bucket too large. This must not fill the log.
	for (uint32_t i = 0; i < 2520; i++) {
		sim->load[5] = i % 2 == 0 ? 0.8 : 0;
		run_on(sim, 5 * TICK);
		times += weir_bucket_moves_elephant(sim->moves, &bucket, &worker, &load);
	}
	assert_int_equal(times, 3);
	sim_free(sim);
}

// --- failures -----------------------------------------------------------------------------

TEST(no_request_while_switched_off) {
	struct sim *sim = sim_new(4);

	skew(sim, 2, 0.9, 16);
	sim->stealing = false;
	sim_start(sim);
	run_ms(sim, 2000);
	assert_int_equal(sim->requests, 0);
	// loads are measured nevertheless
	assert_true(weir_bucket_moves_summary(sim->moves, 0).hottest_load > 0.05);
	sim->stealing = true;
	run_ms(sim, 2000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// All requests are refused. The buckets stay, and the thief waits longer after each refusal. The
// planned loads stay correct.
TEST(refused_requests_become_less_frequent) {
	struct sim *sim = sim_new(4);
	uint32_t first;

	skew(sim, 2, 0.9, 16);
	sim->manner = REFUSE;
	sim_start(sim);
	run_ms(sim, 2000);
	first = sim->requests;
	assert_true(first > 0);
	run_ms(sim, 2000);
	print_message("%u requests in 2 s, then %u\n", first, sim->requests - first);
	assert_true((sim->requests - first) * 3 < first * 2);
	assert_int_equal(sim->moved, 0);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), 0);
	sim->manner = CONFIRM;
	run_ms(sim, 4000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// Requests to a stalled worker time out. They are repeated when the worker runs again.
TEST(requests_to_silent_workers_time_out) {
	struct sim *sim = sim_new(4);

	skew(sim, 2, 0.9, 16);
	sim->manner = SILENT;
	sim_start(sim);
	run_ms(sim, 5000);
	assert_int_equal(sim->moved, 0);
	assert_true(sim->requests > 0 && sim->requests <= 5 * 4);
	sim->manner = CONFIRM;
	run_ms(sim, 5000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// Guarantee B4: the owners in the segment, not the answers, determine which buckets have moved. In
// this test, buckets move, but the answers are lost.
TEST(owners_are_authoritative_for_any_answer) {
	struct sim *sim = sim_new(4);

	skew(sim, 2, 0.9, 16);
	sim->manner = SECRET;
	sim_start(sim);
	run_ms(sim, 2000);
	assert_true(unevenness(sim) <= EVEN);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), 0);
	sim_free(sim);
}

TEST(late_move_counts_for_the_owner_of_the_bucket) {
	struct sim *sim = sim_new(2);
	struct weir_bucket_request request = {0};
	double before;

	skew(sim, 0.8, 0.9, 4);
	sim->manner = SILENT;
	sim_start(sim);
	for (int i = 0; i < 1000 && sim->requests == 0; i++) {
		traffic(sim, 1);
		sim->ms++;
		if (sim->ms % TICK == 0) {
			weir_bucket_moves_tick(
				sim->moves, &sim->look, true, (double)sim->ms / 1000);
		}
		sim->requests += weir_bucket_moves_next(sim->moves, &request);
	}
	assert_int_equal(request.victim, 0);
	sim->stealing = false;
	run_ms(sim, 2000); // the request is given up
	assert_int_equal(weir_bucket_moves_pending(sim->moves), 0);
	before = weir_bucket_moves_load(sim->moves, 1);
	// The answer arrives late, and then the bucket moves.
	weir_bucket_moves_answer(
		sim->moves, request.bucket, request.id, true, (double)sim->ms / 1000);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), 0);
	assert_true(fabs(weir_bucket_moves_load(sim->moves, 1) - before) < 0.01);
	sim->look.owner[request.bucket] = 1;
	run_ms(sim, TICK);
	assert_true(weir_bucket_moves_load(sim->moves, 1) > before + 0.1);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, 1).buckets, WEIR_BUCKETS / 2 + 1);
	// An answer with invalid numbers.
	weir_bucket_moves_answer(sim->moves, 99999, 7, true, (double)sim->ms / 1000);
	sim_free(sim);
}

// Run ticks until there is a request.
static struct weir_bucket_request first_request(struct sim *sim) {
	struct weir_bucket_request request = {0};

	while (!weir_bucket_moves_next(sim->moves, &request)) {
		traffic(sim, 1);
		assert_true(++sim->ms < 2000);
		if (sim->ms % TICK == 0) {
			weir_bucket_moves_tick(
				sim->moves, &sim->look, true, (double)sim->ms / 1000);
		}
	}
	return request;
}

// A worker moves the requested bucket to a third worker, because that worker has requested it, too.
TEST(bucket_may_move_elsewhere_than_requested) {
	struct sim *sim = sim_new(4);
	struct weir_bucket_request request;
	uint32_t elsewhere = 0, pending;

	skew(sim, 2, 0.9, 16);
	sim_start(sim);
	request = first_request(sim);
	while (elsewhere == request.victim || elsewhere == request.thief) {
		elsewhere++;
	}
	pending = weir_bucket_moves_pending(sim->moves);
	sim->look.owner[request.bucket] = elsewhere;
	weir_bucket_moves_note(sim->moves, &sim->look, (double)sim->ms / 1000);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), pending - 1);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, elsewhere).buckets,
		WEIR_BUCKETS / sim->workers + 1);
	weir_bucket_moves_answer(
		sim->moves, request.bucket, request.id, true, (double)sim->ms / 1000);
	run_ms(sim, 2000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// Only the first answer to a request counts. A confirmed bucket is in transit.
TEST(other_answers_change_nothing) {
	struct sim *sim = sim_new(2);
	struct weir_bucket_request request;
	uint32_t pending;
	double now, load;

	skew(sim, 0.8, 0.9, 4);
	sim_start(sim);
	request = first_request(sim);
	now = (double)sim->ms / 1000;
	pending = weir_bucket_moves_pending(sim->moves);
	load = weir_bucket_moves_load(sim->moves, request.thief);
	weir_bucket_moves_answer(sim->moves, request.bucket, request.id + 100, false, now);
	weir_bucket_moves_answer(sim->moves, request.bucket, request.id, true, now);
	weir_bucket_moves_answer(sim->moves, request.bucket, request.id, false, now);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), pending);
	assert_true(fabs(weir_bucket_moves_load(sim->moves, request.thief) - load) < 1e-9);
	sim->look.owner[request.bucket] = request.thief;
	weir_bucket_moves_note(sim->moves, &sim->look, now);
	assert_int_equal(weir_bucket_moves_pending(sim->moves), pending - 1);
	// the cost of the move no longer counts as load of the thief
	load -= WEIR_BUCKET_MOVE_S / WEIR_BUCKET_REST_S;
	assert_true(fabs(weir_bucket_moves_load(sim->moves, request.thief) - load) < 1e-9);
	sim_free(sim);
}

// A new control process has no state of its own. It reads the workers' counters and the owners of
// buckets.
TEST(new_process_continues_from_the_owners) {
	struct sim *sim = sim_new(16);

	skew(sim, 0.7 * 16, 0.9, 64);
	sim_start(sim);
	for (int life = 0; life < 4; life++) {
		run_ms(sim, 301); // the process ends with requests in flight
		assert_true(weir_bucket_moves_pending(sim->moves) > 0 || life > 1);
		weir_bucket_moves_free(sim->moves);
		sim->restarted = true;
		// the new process has no record of recent moves either
		memset(sim->arrived_ms, 0, sizeof(sim->arrived_ms));
		sim_start(sim);
	}
	run_ms(sim, 2000);
	assert_true(unevenness(sim) <= EVEN);
	sim_free(sim);
}

// No bucket moves from or to a stalled worker.
TEST(stalled_worker_takes_no_part) {
	struct sim *sim = sim_new(4);

	skew(sim, 2, 0.9, 16);
	sim->look.worker[3].alive = false;
	sim_start(sim);
	run_ms(sim, 2000);
	assert_true(sim->moved > 0);
	assert_int_equal(weir_bucket_moves_summary(sim->moves, 3).buckets, WEIR_BUCKETS / 4);
	sim_free(sim);
}

// A worker stalls, with or without load. The other workers still balance their load.
TEST(stalled_worker_is_not_included_in_the_mean) {
	static const double left[] = {0, 0.9}; // load of the stalled worker

	for (uint32_t i = 0; i < 2; i++) {
		struct sim *sim = sim_new(3);

		for (uint32_t bucket = 0; bucket < WEIR_BUCKETS; bucket++) {
			const double load[] = {0.6, 0.3, left[i]};

			sim->load[bucket] = load[bucket % 3] * 3 / WEIR_BUCKETS;
		}
		sim->stealing = false;
		sim_start(sim);
		run_ms(sim, 1000);
		sim->look.worker[2].alive = false;
		sim->stealing = true;
		run_ms(sim, 2000);
		assert_true(load_of(sim, 0) <= 0.45 * EVEN);
		assert_true(load_of(sim, 1) <= 0.45 * EVEN);
		assert_int_equal(
			weir_bucket_moves_summary(sim->moves, 2).buckets, WEIR_BUCKETS / 3);
		sim_free(sim);
	}
}

TEST(owner_out_of_range_adds_no_load) {
	struct sim *sim = sim_new(2);

	skew(sim, 1, 0.9, 8);
	sim_start(sim);
	run_ms(sim, 200);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t owner = sim->look.owner[2 * i];

		sim->look.owner[2 * i] = WEIR_BUCKET_NO_WORKER;
		weir_bucket_moves_tick(sim->moves, &sim->look, true, (double)sim->ms / 1000);
		sim->look.owner[2 * i] = owner;
	}
	sim_free(sim);
}
