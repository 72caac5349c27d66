// SPDX-License-Identifier: BSD-3-Clause
#include "bucket_moves.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "steal_plan.h"

#define TASKS \
	(WEIR_BUCKETS + WEIR_WORKERS_MAX) // a task for each bucket, and for the base of each worker
#define LEAST_LOAD 1e-5 // a bucket whose load is below this share of a worker's time is never moved
// Fixed cost of a move, as a share of a worker's time, which is added to the measured cost. The
// planner tries tasks in the order of (fixed cost + measured cost) / load, rounded to powers of
// two. Because of the fixed cost, the planner tries buckets with a high load first even if moving
// is cheap. This order matters because a tick allows only a few moves.
#define LATENCY (1.0 / 32)
#define BACKOFF_S 0.1
#define BACKOFF_MAX_S 1.6
// an elephant whose load falls below this share of a worker's time is no longer an elephant
#define NO_ELEPHANT 0.4
#define NEVER (-1e9)

_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

enum state {
	WAITING, // not sent yet, because the victim or the thief has another request
	SENT,
	CONFIRMED, // the victim has confirmed that the bucket will get another owner
};

struct request {
	struct weir_bucket_request what;
	enum state state;
};

struct weir_bucket_moves {
	struct weir_bucket_loads loads;
	struct weir_steal_plan *plan;
	struct request request[WEIR_BUCKET_MOVES];
	uint32_t pending; // number of elements of request[]
	// time in seconds when the bucket arrived at its current owner
	double arrived_at[WEIR_BUCKETS];
	bool elephant[WEIR_BUCKETS];
	// Whether the bucket was reported as an elephant in the current report interval.
	bool reported[WEIR_BUCKETS];
	// Start of the current report interval (WEIR_BUCKET_REPORT_S).
	double became_at[WEIR_BUCKETS];
};

// --- requests -----------------------------------------------------------------------------

static struct request *find_request(struct weir_bucket_moves *moves, uint32_t bucket) {
	for (uint32_t i = 0; i < moves->pending; i++) {
		if (moves->request[i].what.bucket == bucket) {
			return &moves->request[i];
		}
	}
	return NULL;
}

// Removes a request. Keeps the order of the remaining requests, because requests are sent in this
// order.
static void drop_request(struct weir_bucket_moves *moves, struct request *request) {
	struct request *end = &moves->request[--moves->pending];

	for (; request < end; request++) {
		request[0] = request[1];
	}
}

static void expire_requests(struct weir_bucket_moves *moves, double now) {
	uint32_t bucket;

	while ((bucket = weir_steal_plan_expire(moves->plan, now)) != UINT32_MAX) {
		struct request *request = find_request(moves, bucket);

		if (request != NULL) {
			drop_request(moves, request);
		}
	}
}

bool weir_bucket_moves_next(struct weir_bucket_moves *moves, struct weir_bucket_request *ret) {
	uint64_t busy = 0;

	for (uint32_t i = 0; i < moves->pending; i++) {
		const struct request *request = &moves->request[i];

		if (request->state != WAITING) {
			busy |= 1ull << request->what.victim | 1ull << request->what.thief;
		}
	}
	for (uint32_t i = 0; i < moves->pending; i++) {
		struct request *request = &moves->request[i];
		uint64_t both = 1ull << request->what.victim | 1ull << request->what.thief;

		if (request->state == WAITING && (busy & both) == 0) {
			request->state = SENT;
			*ret = request->what;
			return true;
		}
	}
	return false;
}

void weir_bucket_moves_answer(
	struct weir_bucket_moves *moves, uint32_t bucket, uint32_t id, bool confirmed, double now) {
	struct request *request = find_request(moves, bucket);

	if (request == NULL || request->what.id != id || request->state != SENT) {
		return;
	}
	if (confirmed) {
		request->state = CONFIRMED;
		return;
	}
	weir_steal_plan_answer(moves->plan, bucket, id, WEIR_STEAL_RUNNING, true, now);
	drop_request(moves, request);
}

// --- owners -------------------------------------------------------------------------------

// Call this function when the owner of a bucket has changed.
static void follow_owner(struct weir_bucket_moves *moves, uint32_t bucket, double now) {
	struct request *request = find_request(moves, bucket);
	uint32_t owner = moves->loads.bucket[bucket].owner;

	moves->arrived_at[bucket] = now;
	if (request != NULL && request->what.thief == owner) {
		weir_steal_plan_answer(
			moves->plan, bucket, request->what.id, WEIR_STEAL_GIVEN_UP, true, now);
	} else {
		weir_steal_plan_remove(moves->plan, bucket); // the next tick adds the bucket again
	}
	if (request != NULL) {
		drop_request(moves, request);
	}
}

static void follow_owners(struct weir_bucket_moves *moves, const struct weir_bucket_look *look,
	bool tick, double now) {
	uint32_t before[WEIR_BUCKETS];

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		before[i] = moves->loads.bucket[i].owner;
	}
	if (tick) {
		weir_bucket_loads_tick(&moves->loads, look);
	} else {
		weir_bucket_loads_note(&moves->loads, look);
	}
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		if (moves->loads.bucket[i].owner != before[i]) {
			follow_owner(moves, i, now);
		}
	}
}

void weir_bucket_moves_note(
	struct weir_bucket_moves *moves, const struct weir_bucket_look *look, double now) {
	follow_owners(moves, look, false, now);
	expire_requests(moves, now);
}

// --- the plan -----------------------------------------------------------------------------

static void put_task(
	struct weir_bucket_moves *moves, uint32_t task, uint32_t worker, double load, bool fixed) {
	// Divide the cost of a move in seconds by WEIR_BUCKET_REST_S, the minimum time between two
	// moves of a bucket. The result is a share of a worker's time.
	struct weir_steal_task what = {.duration = load,
		.transfer = weir_bucket_loads_move(&moves->loads) / WEIR_BUCKET_REST_S,
		.fixed = fixed};

	if (worker >= moves->loads.workers || load < LEAST_LOAD) {
		if (task >= WEIR_BUCKETS || find_request(moves, task) == NULL) {
			weir_steal_plan_remove(moves->plan, task);
		}
	} else if (weir_steal_plan_owner(moves->plan, task) == WEIR_STEAL_NO_WORKER) {
		weir_steal_plan_put(moves->plan, task, worker, &what);
	} else {
		weir_steal_plan_update(moves->plan, task, &what);
	}
}

double weir_bucket_moves_load(const struct weir_bucket_moves *moves, uint32_t worker) {
	return weir_steal_plan_occupancy(moves->plan, worker) +
	       weir_steal_plan_correction(moves->plan, worker);
}

// Returns the bitmap of the overloaded workers. Stalled workers are ignored.
static uint64_t overloaded(const struct weir_bucket_moves *moves) {
	double sum = 0, most = 0, running = 0;
	uint64_t over = 0;

	for (uint32_t i = 0; i < moves->loads.workers; i++) {
		if (moves->loads.worker[i].alive) {
			sum += weir_bucket_moves_load(moves, i);
			most = fmax(most, weir_bucket_moves_load(moves, i));
			running++;
		}
	}
	for (uint32_t i = 0; i < moves->loads.workers && most >= WEIR_BUCKET_SPARE; i++) {
		if (moves->loads.worker[i].alive &&
			weir_bucket_moves_load(moves, i) * running > sum * WEIR_BUCKET_TRIGGER) {
			over |= 1ull << i;
		}
	}
	return over;
}

// Passes the loads of all buckets and workers to the planner. may_leave: bitmap of the workers from
// which buckets may move away.
static void put_tasks(struct weir_bucket_moves *moves, uint64_t may_leave, double now) {
	for (uint32_t i = 0; i < moves->loads.workers; i++) {
		weir_steal_plan_worker(moves->plan, i, 1, moves->loads.worker[i].alive, 0);
		put_task(
			moves, WEIR_BUCKETS + i, i, weir_bucket_loads_base(&moves->loads, i), true);
	}
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		uint32_t owner = moves->loads.bucket[i].owner;
		bool stays = owner >= moves->loads.workers || (may_leave >> owner & 1) == 0 ||
			     now - moves->arrived_at[i] < WEIR_BUCKET_REST_S;

		put_task(moves, i, owner, weir_bucket_loads_of(&moves->loads, i), stays);
	}
}

// Marks buckets that have become elephants, and buckets to report. Reports are rate-limited,
// because a client can make a bucket an elephant several times per second.
static void find_elephants(struct weir_bucket_moves *moves, double now) {
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		double load = weir_bucket_loads_of(&moves->loads, i);

		if (load > WEIR_BUCKET_ELEPHANT && !moves->elephant[i]) {
			moves->elephant[i] = true;
			if (now - moves->became_at[i] >= WEIR_BUCKET_REPORT_S) {
				moves->reported[i] = false;
				moves->became_at[i] = now;
			}
		} else if (load < NO_ELEPHANT) {
			moves->elephant[i] = false;
		}
	}
}

static void decide(struct weir_bucket_moves *moves, double now) {
	struct weir_steal_request planned[WEIR_BUCKET_MOVES];
	uint32_t n = weir_steal_plan_balance(
		moves->plan, now, planned, WEIR_BUCKET_MOVES - moves->pending);

	for (uint32_t i = 0; i < n; i++) {
		moves->request[moves->pending++] =
			(struct request){.what = {planned[i].task, planned[i].victim,
						 planned[i].thief, planned[i].id},
				.state = WAITING};
	}
}

void weir_bucket_moves_tick(struct weir_bucket_moves *moves, const struct weir_bucket_look *look,
	bool stealing, double now) {
	uint64_t over;

	follow_owners(moves, look, true, now);
	expire_requests(moves, now);
	put_tasks(moves, 0, now);
	find_elephants(moves, now);
	over = stealing ? overloaded(moves) : 0;
	if (over != 0) {
		put_tasks(moves, over, now);
		decide(moves, now);
	}
}

// --- create, free and status --------------------------------------------------------------

int weir_bucket_moves_create(
	uint32_t workers, const struct weir_bucket_look *look, struct weir_bucket_moves **ret) {
	// idle_ratio: workers below the mean load can be thieves. pending_ratio: no worker is
	// regarded as saturated, because a saturated worker would exclude all other victims. The
	// victims are then the workers with the highest load; put_tasks allows only victims whose
	// load is far enough above the mean.
	const struct weir_steal_params params = {.latency = LATENCY,
		.pending_ratio = INFINITY,
		.idle_ratio = 1,
		.steal_share = 1,
		.backoff = BACKOFF_S,
		.backoff_max = BACKOFF_MAX_S,
		.rest = WEIR_BUCKET_REST_S,
		.answer_limit = WEIR_BUCKET_LIMIT_S};
	struct weir_bucket_moves *moves = calloc(1, sizeof(*moves));

	if (moves == NULL) {
		return -ENOMEM;
	}
	if (weir_steal_plan_create(&params, workers, TASKS, &moves->plan) < 0) {
		free(moves);
		return -ENOMEM;
	}
	weir_bucket_loads_init(&moves->loads, workers, look);
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		moves->arrived_at[i] = moves->became_at[i] = NEVER;
	}
	*ret = moves;
	return 0;
}

void weir_bucket_moves_free(struct weir_bucket_moves *moves) {
	if (moves != NULL) {
		weir_steal_plan_free(moves->plan);
		free(moves);
	}
}

uint32_t weir_bucket_moves_pending(const struct weir_bucket_moves *moves) {
	return moves->pending;
}

struct weir_bucket_summary weir_bucket_moves_summary(
	const struct weir_bucket_moves *moves, uint32_t worker) {
	struct weir_bucket_summary summary = {.hottest = WEIR_BUCKETS};

	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		double load = weir_bucket_loads_of(&moves->loads, i);

		if (moves->loads.bucket[i].owner != worker) {
			continue;
		}
		summary.buckets++;
		summary.elephants += moves->elephant[i];
		if (load > summary.hottest_load) {
			summary.hottest = i;
			summary.hottest_load = load;
		}
	}
	return summary;
}

bool weir_bucket_moves_elephant(struct weir_bucket_moves *moves, uint32_t *ret_bucket,
	uint32_t *ret_worker, double *ret_load) {
	for (uint32_t i = 0; i < WEIR_BUCKETS; i++) {
		if (moves->elephant[i] && !moves->reported[i]) {
			moves->reported[i] = true;
			*ret_bucket = i;
			*ret_worker = moves->loads.bucket[i].owner;
			*ret_load = weir_bucket_loads_of(&moves->loads, i);
			return true;
		}
	}
	return false;
}
