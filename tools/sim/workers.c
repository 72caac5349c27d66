// SPDX-License-Identifier: BSD-3-Clause
//
// The simulation of a balancer's workers advances in steps of a millisecond. In each step every
// bucket gets its packets, every worker processes the packets in its ring, and each move of a
// bucket may reach its next stage:
//
//   confirmed   the distributor sends the bucket's packets to the thief, which holds them
//   emptying    the victim processes the packets that are still in its ring
//   release     the victim removes the bucket's flows from its table
//   adoption    the thief inserts the flows, then processes the held packets
//
// A worker takes part in only one hand-over at a time. Until this hand-over ends, the worker
// refuses other hand-overs.
#include "workers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "bucket_moves.h"
#include "draw.h"
#include "steal_plan.h"

#define STEP_NS 1000000u
#define SECOND_NS 1e9
#define NS_PER_MS 1000000u
#define NONE UINT32_MAX
#define SMOOTHING 0.5 // weight of the newest load of a bucket in its moving average
// no bucket moves if the workers are busy for less than this share of the time, on average
#define IDLE_MACHINE 0.03
#define MANY 10.0 // above this mean, numbers of packets are drawn from a normal distribution
#define LEAST_SHARE 1e-9 // a bucket with a lower load counts as idle

struct bucket {
	struct weir_prng prng;
	uint32_t owner; // the worker that owns the bucket; the victim until a hand-over ends
	bool hot, planned; // planned: the bucket is in the plan
	double seen, all; // packets since the last plan, and in total
	double load; // fraction of a worker's time used by the bucket, moving average
};

enum phase { PHASE_EMPTYING, PHASE_RELEASE, PHASE_ADOPTION };

struct worker {
	double ring, hold; // number of packets in the ring, and number of held packets
	// Packets in the ring that must be processed before the bucket can be released.
	double ahead;
	double work_ns; // work that hand-overs of buckets still need
	double busy_ns; // total time for which the worker was busy
	double planned_ns, sampled_ns; // value of busy_ns at the last plan and the last sample
	uint32_t bucket; // bucket that moves away from this worker; NONE = no bucket
	uint32_t thief; // the worker that gets `bucket`
	enum phase phase;
	bool adopts; // the worker is getting a bucket from another worker
	double given, served; // total numbers of packets received and processed
};

struct balancer {
	const struct weir_sim_scenario *scenario;
	uint64_t now_ns, planned_ns, sampled_ns; // now; times of the last plan and last sample
	double packet_ns; // CPU time of one packet
	struct bucket *bucket;
	struct worker *worker;
	struct weir_steal_plan *plan;
	struct weir_steal_request *requests; // requests of the last plan
	uint32_t request_count, request_next; // number of requests; index of the next request
	struct weir_bucket_moves *moves; // for WEIR_SIM_PLANNER_CONTROL, otherwise NULL
	struct weir_bucket_look *look; // last input of moves
	struct weir_prng steal, hot;
	struct weir_sim_totals totals, sampled, *begun; // begun: at the beginning of each window
	double *busy_begun; // [windows][workers]
	double arrived, served, dropped; // total numbers of packets
	double *sorted; // scratch
	struct weir_sim_result *result;
};

// --- packets ------------------------------------------------------------------------------

static void choose_hot(struct balancer *b) {
	uint32_t count = b->scenario->workers.count, buckets = b->scenario->workers.buckets;
	bool one = b->scenario->workers.hot_place == WEIR_SIM_HOT_ONE;
	uint32_t among = weir_prng_below(&b->hot, count);

	for (uint32_t i = 0; i < buckets; i++) {
		b->bucket[i].hot = false;
	}
	for (uint32_t n = 0; n < b->scenario->workers.hot_buckets;) {
		uint32_t i = weir_prng_below(&b->hot, buckets);

		// With hot_place one, all hot buckets belonged to one worker at the start.
		if (!b->bucket[i].hot && (!one || i % count == among)) {
			b->bucket[i].hot = true;
			n++;
		}
	}
}

// The rate of a bucket: the mean number of packets in a step, and the probability that a step has
// no packet.
struct rate {
	double mean, none;
};

static double mean_of(const struct balancer *b, bool is_hot) {
	double all = b->scenario->workers.packets_per_second * STEP_NS / SECOND_NS;
	double hot = b->scenario->workers.hot_buckets, buckets = b->scenario->workers.buckets;
	double part = hot > 0 ? b->scenario->workers.hot_percent / 100 : 0;

	if (is_hot) {
		return hot > 0 ? all * part / hot : 0;
	}
	return buckets > hot ? all * (1 - part) / (buckets - hot) : 0;
}

static struct rate rate_of(const struct balancer *b, bool is_hot) {
	double mean = mean_of(b, is_hot);

	return (struct rate){.mean = mean, .none = exp(-mean)};
}

static uint32_t leaves_from(const struct balancer *b, uint32_t bucket) {
	uint32_t owner = b->bucket[bucket].owner;

	return b->worker[owner].bucket == bucket ? owner : NONE;
}

static void add(struct balancer *b, double *to, double room, double packets) {
	double fits = fmax(fmin(packets, room - *to), 0);

	*to += fits;
	b->dropped += packets - fits;
}

// Returns the maximum number of packets that a ring accepts in a step: its size plus the packets
// that the worker can process in the step.
static double ring_room(const struct balancer *b) {
	return b->scenario->workers.ring_packets + STEP_NS / b->packet_ns;
}

// Draws from a Poisson distribution. For large means the normal approximation is used.
static double draw_packets(struct weir_prng *prng, const struct rate *rate) {
	double product, packets = 0;

	if (rate->mean > MANY) {
		return fmax(rate->mean + sqrt(rate->mean) * weir_sim_normal(prng), 0);
	}
	for (product = weir_sim_uniform(prng); product > rate->none; packets++) {
		product *= weir_sim_uniform(prng);
	}
	return packets;
}

static void arrive(struct balancer *b) {
	struct rate hot = rate_of(b, true), cold = rate_of(b, false);

	for (uint32_t i = 0; i < b->scenario->workers.buckets; i++) {
		struct bucket *bucket = &b->bucket[i];
		double packets = draw_packets(&bucket->prng, bucket->hot ? &hot : &cold);
		uint32_t victim = leaves_from(b, i);

		bucket->seen += packets;
		bucket->all += packets;
		b->arrived += packets;
		if (victim == NONE) {
			b->worker[bucket->owner].given += packets;
			add(b, &b->worker[bucket->owner].ring, ring_room(b), packets);
		} else {
			struct worker *thief = &b->worker[b->worker[victim].thief];

			thief->given += packets;
			add(b, &thief->hold, b->scenario->workers.hold_packets, packets);
		}
	}
}

// --- workers ------------------------------------------------------------------------------

static void begin_handover(struct balancer *b, uint32_t bucket, uint32_t thief) {
	struct worker *victim = &b->worker[b->bucket[bucket].owner];

	victim->bucket = bucket;
	victim->thief = thief;
	victim->phase = PHASE_EMPTYING;
	victim->ahead = victim->ring;
	b->worker[thief].adopts = true;
}

static void end_handover(struct balancer *b, struct worker *victim) {
	struct worker *thief = &b->worker[victim->thief];

	if (b->look != NULL) {
		b->look->moves++;
		b->look->move_cycles += 2 * b->scenario->workers.handover_ns;
	}
	b->bucket[victim->bucket].owner = victim->thief;
	victim->bucket = NONE;
	thief->adopts = false;
	// Keep the order of the packets: the held packets enter the ring before new packets.
	thief->ring += thief->hold;
	thief->hold = 0;
}

static void hand_over(struct balancer *b, struct worker *victim) {
	struct worker *thief = &b->worker[victim->thief];
	double handover_ns = (double)b->scenario->workers.handover_ns;

	if (victim->phase == PHASE_EMPTYING && victim->ahead <= 0) {
		victim->phase = PHASE_RELEASE;
		victim->work_ns = handover_ns;
	}
	if (victim->phase == PHASE_RELEASE && victim->work_ns <= 0) {
		victim->phase = PHASE_ADOPTION;
		thief->work_ns = handover_ns;
	}
	if (victim->phase == PHASE_ADOPTION && thief->work_ns <= 0) {
		end_handover(b, victim);
	}
}

static void work(struct balancer *b, struct worker *worker) {
	double left_ns = STEP_NS, overhead_ns = fmin(worker->work_ns, left_ns), served;

	worker->work_ns -= overhead_ns;
	left_ns -= overhead_ns;
	served = fmin(worker->ring, left_ns / b->packet_ns);
	worker->ring -= served;
	worker->ahead -= served;
	worker->served += served;
	worker->busy_ns += overhead_ns + served * b->packet_ns;
	b->served += served;
}

static void step(struct balancer *b) {
	arrive(b);
	for (uint32_t i = 0; i < b->scenario->workers.count; i++) {
		work(b, &b->worker[i]);
	}
	for (uint32_t i = 0; i < b->scenario->workers.count; i++) {
		if (b->worker[i].bucket != NONE) {
			hand_over(b, &b->worker[i]);
		}
	}
}

// --- the plan -----------------------------------------------------------------------------

// Measures the load of each bucket. The load is the bucket's share of the packets of its owner,
// multiplied by the fraction of the interval in which the owner was busy. Returns the mean busy
// fraction of the workers.
static double measure_loads(struct balancer *b, double interval_ns) {
	uint32_t workers = b->scenario->workers.count, buckets = b->scenario->workers.buckets;
	double *packets = b->sorted, mean = 0;

	for (uint32_t i = 0; i < workers; i++) {
		packets[i] = 0;
	}
	for (uint32_t i = 0; i < buckets; i++) {
		packets[b->bucket[i].owner] += b->bucket[i].seen;
	}
	for (uint32_t i = 0; i < buckets; i++) {
		struct bucket *bucket = &b->bucket[i];
		const struct worker *owner = &b->worker[bucket->owner];
		double busy = (owner->busy_ns - owner->planned_ns) / interval_ns;
		double load = bucket->seen > 0 ? busy * bucket->seen / packets[bucket->owner] : 0;

		bucket->load += SMOOTHING * (load - bucket->load);
		bucket->seen = 0;
	}
	for (uint32_t i = 0; i < workers; i++) {
		struct worker *worker = &b->worker[i];

		mean += (worker->busy_ns - worker->planned_ns) / interval_ns / workers;
		worker->planned_ns = worker->busy_ns;
	}
	return mean;
}

// Returns the cost of moving a bucket, as a fraction of a worker's time: the time of the hand-over
// at both workers, divided by the time until the bucket may move again.
static double cost_of_move(const struct balancer *b) {
	double rest_ns = (double)b->scenario->steal.rest_ns;

	return rest_ns > 0 ? 2 * (double)b->scenario->workers.handover_ns / rest_ns : 0;
}

static void update_plan(struct balancer *b) {
	for (uint32_t i = 0; i < b->scenario->workers.buckets; i++) {
		struct bucket *bucket = &b->bucket[i];
		struct weir_steal_task what = {
			.duration = bucket->load, .transfer = cost_of_move(b)};

		if (bucket->planned &&
			(bucket->load <= LEAST_SHARE ||
				weir_steal_plan_owner(b->plan, i) != bucket->owner)) {
			// Do not remove a bucket that is being handed over: its owner in the plan
			// is already the thief.
			if (leaves_from(b, i) == NONE) {
				weir_steal_plan_remove(b->plan, i);
				bucket->planned = false;
			}
		}
		if (bucket->planned) {
			weir_steal_plan_update(b->plan, i, &what);
		} else if (bucket->load > LEAST_SHARE) {
			weir_steal_plan_put(b->plan, i, bucket->owner, &what);
			bucket->planned = true;
		}
	}
}

static bool is_busy(const struct balancer *b, uint32_t worker) {
	return b->worker[worker].bucket != NONE || b->worker[worker].adopts;
}

static void answer(struct balancer *b, const struct weir_steal_request *request, bool yes) {
	weir_steal_plan_answer(b->plan, request->task, request->id,
		yes ? WEIR_STEAL_GIVEN_UP : WEIR_STEAL_RUNNING, true,
		(double)b->now_ns / SECOND_NS);
	if (yes) {
		b->totals.steals[WEIR_SIM_STEAL_MOVED]++;
		begin_handover(b, request->task, request->thief);
	} else {
		b->totals.steals[WEIR_SIM_STEAL_REFUSED]++;
	}
}

// Makes the remaining requests of the last plan. If one of the workers of a request takes part in a
// hand-over: with one_by_one, stops, and the next call continues with this request; otherwise, the
// request is refused.
static void request_bucket(struct balancer *b) {
	for (; b->request_next < b->request_count; b->request_next++) {
		const struct weir_steal_request *request = &b->requests[b->request_next];
		bool busy = is_busy(b, request->victim) || is_busy(b, request->thief);

		if (busy && b->scenario->steal.one_by_one) {
			return;
		}
		b->totals.steals[WEIR_SIM_STEAL_ASKED]++;
		if (weir_sim_uniform(&b->steal) * 100.0 < b->scenario->steal.loss_percent) {
			// The request arrives too late, so the victim keeps the bucket.
			b->totals.steals[WEIR_SIM_STEAL_SILENT]++;
		} else {
			answer(b, request, !busy);
		}
	}
}

// Withdraws the remaining requests of the last plan, as if they were refused, so that their thieves
// pause. The next plan is due, and it repeats the requests that are still needed.
static void withdraw(struct balancer *b) {
	for (; b->request_next < b->request_count; b->request_next++) {
		const struct weir_steal_request *request = &b->requests[b->request_next];

		weir_steal_plan_answer(b->plan, request->task, request->id, WEIR_STEAL_RUNNING,
			true, (double)b->now_ns / SECOND_NS);
	}
}

static void plan(struct balancer *b) {
	const struct weir_sim_steal_settings *settings = &b->scenario->steal;
	double mean = measure_loads(b, (double)(b->now_ns - b->planned_ns));
	double now = (double)b->now_ns / SECOND_NS;

	b->planned_ns = b->now_ns;
	withdraw(b);
	while (weir_steal_plan_expire(b->plan, now) != WEIR_STEAL_NO_WORKER) {
	}
	update_plan(b);
	b->request_next = b->request_count = 0;
	if (mean >= IDLE_MACHINE) {
		b->request_count =
			weir_steal_plan_balance(b->plan, now, b->requests, settings->requests);
	}
}

// --- decisions of weir-control ------------------------------------------------------------

static void look(struct balancer *b) {
	for (uint32_t i = 0; i < b->scenario->workers.buckets; i++) {
		b->look->packets[i] = (uint64_t)b->bucket[i].all;
		b->look->owner[i] = b->bucket[i].owner;
	}
	for (uint32_t i = 0; i < b->scenario->workers.count; i++) {
		b->look->worker[i].busy_cycles = (uint64_t)b->worker[i].busy_ns;
		b->look->worker[i].idle_cycles =
			b->now_ns - (uint64_t)fmin(b->worker[i].busy_ns, (double)b->now_ns);
		b->look->worker[i].alive = true;
	}
}

static bool is_granted(struct balancer *b, const struct weir_bucket_request *request) {
	b->totals.steals[WEIR_SIM_STEAL_ASKED]++;
	if (weir_sim_uniform(&b->steal) * 100.0 < b->scenario->steal.loss_percent) {
		b->totals.steals[WEIR_SIM_STEAL_SILENT]++; // the request arrived too late
		return false;
	}
	if (is_busy(b, request->victim) || is_busy(b, request->thief)) {
		b->totals.steals[WEIR_SIM_STEAL_REFUSED]++;
		return false;
	}
	b->totals.steals[WEIR_SIM_STEAL_MOVED]++;
	begin_handover(b, request->bucket, request->thief);
	return true;
}

// Runs a step of weir-control's planner. tick: the planner's interval has passed, so it can start
// new moves. Between two ticks, weir-control checks the workers every millisecond while a request
// is pending.
static void control(struct balancer *b, bool tick) {
	double now = (double)b->now_ns / SECOND_NS;
	struct weir_bucket_request request;

	if (!tick && weir_bucket_moves_pending(b->moves) == 0) {
		return;
	}
	look(b);
	if (tick) {
		weir_bucket_moves_tick(b->moves, b->look, true, now);
	} else {
		weir_bucket_moves_note(b->moves, b->look, now);
	}
	while (weir_bucket_moves_next(b->moves, &request)) {
		weir_bucket_moves_answer(
			b->moves, request.bucket, request.id, is_granted(b, &request), now);
	}
}

// --- measurements ---------------------------------------------------------------------

static void count(struct balancer *b) {
	b->totals.arrived = (uint64_t)b->arrived;
	b->totals.ended[WEIR_SIM_COMPLETED] = (uint64_t)b->served;
	b->totals.ended[WEIR_SIM_FAILED] = (uint64_t)b->dropped;
}

static void sample(struct balancer *b) {
	struct weir_sim_sample *s = &b->result->sample[b->result->samples++];
	uint32_t workers = b->scenario->workers.count;
	double passed_ns = (double)(b->now_ns - b->sampled_ns);

	count(b);
	b->sampled_ns = b->now_ns;
	for (uint32_t i = 0; i < workers; i++) {
		struct worker *worker = &b->worker[i];

		b->sorted[i] = (worker->busy_ns - worker->sampled_ns) / passed_ns;
		worker->sampled_ns = worker->busy_ns;
		s->watched_cpu = i == b->scenario->watch ? b->sorted[i] : s->watched_cpu;
	}
	s->time_ns = b->now_ns;
	s->totals = weir_sim_totals_since(&b->totals, &b->sampled);
	b->sampled = b->totals;
	weir_sim_sample_spread(b->result, s, b->sorted, workers);
}

static void begin_window(struct balancer *b, uint32_t window) {
	uint32_t workers = b->scenario->workers.count;

	count(b);
	b->begun[window] = b->totals;
	for (uint32_t i = 0; i < workers; i++) {
		struct weir_sim_backend_result *result = &b->result->measure[window].backend[i];

		b->busy_begun[window * workers + i] = b->worker[i].busy_ns;
		result->requests = (uint64_t)b->worker[i].given;
	}
}

static void end_window(struct balancer *b, uint32_t window) {
	struct weir_sim_measure *m = &b->result->measure[window];
	uint32_t workers = b->scenario->workers.count;

	count(b);
	m->totals = weir_sim_totals_since(&b->totals, &b->begun[window]);
	for (uint32_t i = 0; i < workers; i++) {
		double busy_ns = b->worker[i].busy_ns - b->busy_begun[window * workers + i];

		m->backend[i] = (struct weir_sim_backend_result){
			.cpu = busy_ns / (double)(m->to_ns - m->from_ns),
			.requests = (uint64_t)b->worker[i].given - m->backend[i].requests,
			.clients = 1,
			.speed = 1,
			.listed = true,
			.measured = true};
	}
	m->clients_min = m->clients_max = m->clients_peak = 1;
	weir_sim_measure_spread(m, workers, 1, b->sorted);
}

// --- the run ------------------------------------------------------------------------------

static int init_control(struct balancer *b) {
	if (b->scenario->workers.planner != WEIR_SIM_PLANNER_CONTROL) {
		return 0;
	}
	b->look->hz = SECOND_NS;
	look(b);
	return weir_bucket_moves_create(b->scenario->workers.count, b->look, &b->moves);
}

static int init(struct balancer *b, uint64_t seed) {
	const struct weir_sim_scenario *scenario = b->scenario;
	const struct weir_sim_steal_settings *settings = &scenario->steal;
	struct weir_steal_params params = {
		.latency = LEAST_SHARE, // the cost of each move already includes the latency
		.victim_floor = (double)settings->victim_floor_ns / SECOND_NS,
		.pending_floor = (double)settings->pending_floor_ns / SECOND_NS,
		.pending_ratio = settings->pending_ratio,
		.idle_ratio = settings->idle_ratio,
		.steal_share = settings->share,
		.backoff = (double)settings->backoff_ns / SECOND_NS,
		.backoff_max = (double)settings->backoff_max_ns / SECOND_NS,
		.rest = (double)settings->rest_ns / SECOND_NS,
		.answer_limit = (double)settings->answer_limit_ns / SECOND_NS};
	uint32_t workers = scenario->workers.count, buckets = scenario->workers.buckets;

	b->packet_ns = workers * SECOND_NS * scenario->workers.load_percent / 100.0 /
		       scenario->workers.packets_per_second;
	b->bucket = calloc(buckets, sizeof(*b->bucket));
	b->worker = calloc(workers, sizeof(*b->worker));
	b->requests = calloc(settings->requests, sizeof(*b->requests));
	b->begun = calloc(scenario->window_count, sizeof(*b->begun));
	b->busy_begun = calloc((size_t)scenario->window_count * workers, sizeof(*b->busy_begun));
	b->sorted = calloc(workers, sizeof(*b->sorted));
	b->look = calloc(1, sizeof(*b->look));
	b->result = weir_sim_result_create(scenario, seed);
	if (b->bucket == NULL || b->worker == NULL || b->requests == NULL || b->begun == NULL ||
		b->busy_begun == NULL || b->sorted == NULL || b->look == NULL ||
		b->result == NULL ||
		weir_steal_plan_create(&params, workers, buckets, &b->plan) < 0) {
		return -ENOMEM;
	}
	b->steal = weir_sim_stream(seed, WEIR_SIM_STREAM_STEAL, 0);
	b->hot = weir_sim_stream(seed, WEIR_SIM_STREAM_PACKETS, buckets);
	for (uint32_t i = 0; i < buckets; i++) {
		b->bucket[i] = (struct bucket){.owner = i % workers,
			.prng = weir_sim_stream(seed, WEIR_SIM_STREAM_PACKETS, i)};
	}
	for (uint32_t i = 0; i < workers; i++) {
		b->worker[i].bucket = NONE;
		weir_steal_plan_worker(b->plan, i, 1, true, 0);
	}
	choose_hot(b);
	return init_control(b);
}

static void fini(struct balancer *b) {
	weir_bucket_moves_free(b->moves);
	free(b->look);
	weir_steal_plan_free(b->plan);
	weir_sim_result_free(b->result);
	free(b->bucket);
	free(b->worker);
	free(b->requests);
	free(b->begun);
	free(b->busy_begun);
	free(b->sorted);
}

// Returns whether an action that is repeated at this interval is due in this step.
static bool is_due(const struct balancer *b, uint64_t interval_ns) {
	return b->now_ns / interval_ns != (b->now_ns - STEP_NS) / interval_ns;
}

static void look_at_windows(struct balancer *b) {
	for (uint32_t i = 0; i < b->scenario->window_count; i++) {
		const struct weir_sim_window *window = &b->scenario->window[i];

		if (window->from_ns / STEP_NS == b->now_ns / STEP_NS) {
			begin_window(b, i);
		}
		if (window->to_ns / STEP_NS == b->now_ns / STEP_NS) {
			end_window(b, i);
		}
	}
}

static void decide(struct balancer *b) {
	if (b->moves != NULL) {
		control(b, is_due(b, WEIR_BUCKET_TICK_MS * NS_PER_MS));
		return;
	}
	if (is_due(b, b->scenario->steal.interval_ns)) {
		plan(b);
	}
	request_bucket(b);
}

static void loop(struct balancer *b) {
	const struct weir_sim_scenario *scenario = b->scenario;

	look_at_windows(b);
	while (b->now_ns + STEP_NS <= scenario->duration_ns) {
		b->now_ns += STEP_NS;
		step(b);
		if (scenario->steal.on) {
			decide(b);
		}
		if (is_due(b, scenario->sample_ns)) {
			sample(b);
		}
		look_at_windows(b);
		if (scenario->workers.hot_every_ns > 0 &&
			is_due(b, scenario->workers.hot_every_ns)) {
			choose_hot(b);
		}
	}
}

int weir_sim_workers_run(const struct weir_sim_scenario *scenario, uint64_t seed,
	atomic_ullong *progress, struct weir_sim_result **ret) {
	struct balancer b = {.scenario = scenario};
	int r = init(&b, seed);

	if (r == 0) {
		loop(&b);
		count(&b);
		b.result->totals = b.totals;
		for (uint32_t i = 0; i < scenario->workers.count; i++) {
			b.result->unfinished += (uint64_t)(b.worker[i].ring + b.worker[i].hold);
		}
		b.result->events = scenario->duration_ns / STEP_NS;
		*ret = b.result;
		b.result = NULL;
	}
	if (progress != NULL) {
		atomic_fetch_add_explicit(progress, 1000, memory_order_relaxed);
	}
	fini(&b);
	return r;
}
