// SPDX-License-Identifier: BSD-3-Clause
//
// The strategies of poolifier 5.3.2 (a worker pool for Node.js), exactly as they behave, with what
// they err in. For comparison and for the replay of recorded traces only: Weir does not choose by
// them. Where the policies of policy.h depart, and why:
//
//   round robin       the first choice is worker 1, a worker that is not ready costs a retry, and
//                     retries run out with ready workers left. Ours looks at those that may be
//                     chosen only, and starts where the worker's rank says.
//   weighted          the flow that begins a turn is not charged, so that weights 1:2:3 give 3:5:7;
//                     a cost of 0 never leaves worker 0; weight 0 still gets flows. Ours charges
//                     every flow (time-weighted-round-robin).
//   interleaved       degenerates to one worker after the other; one worker alone fails. Ours gives
//                     each round its own quota (interleaved-weighted-round-robin).
//   least used        ties go to the lowest key, so that an idle pool loads worker 0. Ours goes
//                     round among the least loaded (least-loaded).
//   least busy, ELU   sums over a lifetime: all choices between two completions go to one worker,
//                     and who was idle for an hour gets everything until it has caught up. Not
//                     offered.
//   fair share        a worker is charged when a task completes, so that a burst goes to one
//                     worker. Ours charges when the flow is chosen (fair-share).
//   removal           weights stay with the array index: a worker inherits its neighbour's.
//
// Source: run and read, https://www.npmjs.com/package/poolifier/v/5.3.2. Times are milliseconds in
// double, as there.
//
// Threads: a pool belongs to one thread. create, add and free allocate.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// X(NAME, "name")
#define WEIR_POOLIFIER_STRATEGIES(X) \
	X(ROUND_ROBIN, "ROUND_ROBIN") \
	X(WEIGHTED_ROUND_ROBIN, "WEIGHTED_ROUND_ROBIN") \
	X(INTERLEAVED_WEIGHTED_ROUND_ROBIN, "INTERLEAVED_WEIGHTED_ROUND_ROBIN") \
	X(LEAST_USED, "LEAST_USED") \
	X(LEAST_BUSY, "LEAST_BUSY") \
	X(LEAST_ELU, "LEAST_ELU") \
	X(FAIR_SHARE, "FAIR_SHARE")

enum weir_poolifier_strategy {
#define X(name, key) WEIR_POOLIFIER_##name,
	WEIR_POOLIFIER_STRATEGIES(X)
#undef X
		WEIR_POOLIFIER_STRATEGY_COUNT,
};

#define WEIR_POOLIFIER_WINDOW 386u

struct weir_poolifier_options {
	enum weir_poolifier_strategy strategy;
	uint32_t workers; // at start; also the pool's largest size
	const double *weights_ms; // [workers], copied; NULL = weir_poolifier_weight of 2000 MHz
	uint32_t window; // samples of the moving statistics; 0 = WEIR_POOLIFIER_WINDOW
	bool run_median; // instead of the average
	bool wait_median;
	bool elu_median;
	bool measure_elu; // fair share: charge busy time instead of run time
	bool charge_at_choice; // fair share as up to version 2.4; otherwise at completion
	bool float32; // keep samples as the original does
};

struct weir_poolifier_measure {
	double aggregate; // lifetime; 0 when there is none
	double minimum; // NAN before the first sample
	double maximum;
	double average; // NAN when not kept or before the first sample
	double median;
	uint32_t samples; // in the window
	bool has_aggregate;
};

struct weir_poolifier_usage {
	struct weir_poolifier_measure run;
	struct weir_poolifier_measure wait;
	struct weir_poolifier_measure elu_active;
	struct weir_poolifier_measure elu_idle;
	double utilization; // running mean over the tasks that reported it
	uint64_t utilization_count;
	uint64_t executed;
	uint64_t failed;
	uint32_t executing;
	uint32_t queued;
};

struct weir_poolifier_task { // a finished one
	double run_ms;
	double elu_active_ms;
	double elu_idle_ms;
	double utilization; // NAN = not reported
	bool failed;
};

struct weir_poolifier;

// Returns NULL when out of memory or when an option is out of range.
struct weir_poolifier *weir_poolifier_create(const struct weir_poolifier_options *options);
void weir_poolifier_free(struct weir_poolifier *pool); // NULL is legal

uint32_t weir_poolifier_workers(const struct weir_poolifier *pool);
uint32_t weir_poolifier_retry_budget(const struct weir_poolifier *pool);

// Choose a worker, with the retries of the original. set: keys that may be chosen, without
// duplicates; NULL = all. Returns its key, or -EAGAIN when the retries have run out.
int weir_poolifier_choose(struct weir_poolifier *pool, const uint32_t *set, uint32_t set_count,
	double now_ms, uint32_t *ret_retries);

// The life of a task at worker `key` (< workers). A queued one is not executing yet.
void weir_poolifier_queued(struct weir_poolifier *pool, uint32_t key);
void weir_poolifier_started(struct weir_poolifier *pool, uint32_t key, double submit_ms,
	double now_ms, bool was_queued);
void weir_poolifier_finished(struct weir_poolifier *pool, uint32_t key,
	const struct weir_poolifier_task *task, double now_ms);

// Feed the statistics alone: no task, no charge.
void weir_poolifier_sample(struct weir_poolifier *pool, uint32_t key, double run_ms, double wait_ms,
	double elu_active_ms);

void weir_poolifier_set_ready(struct weir_poolifier *pool, uint32_t key, bool ready);
void weir_poolifier_set_executing(struct weir_poolifier *pool, uint32_t key, uint32_t executing);

// A worker exits: those above it move down by one, weights do not.
void weir_poolifier_remove(struct weir_poolifier *pool, uint32_t key);

// A worker that is added later starts from the least sums of the others: INFINITY when none has
// any, as there. Returns its key or -ENOMEM.
int weir_poolifier_add(struct weir_poolifier *pool);

const struct weir_poolifier_usage *weir_poolifier_usage(
	const struct weir_poolifier *pool, uint32_t key);
double weir_poolifier_virtual_end(const struct weir_poolifier *pool, uint32_t key); // NAN = none

// Default weight in milliseconds, the same for every worker, from the processors' speeds; 0 =
// unknown. It jumps at powers of ten: 999 MHz give 10, 1000 give 1000. Ours is configured.
double weir_poolifier_weight(const uint32_t *speeds_mhz, uint32_t n);

const char *weir_poolifier_name(enum weir_poolifier_strategy strategy); // NULL out of range
int weir_poolifier_parse(const char *name); // enum weir_poolifier_strategy or -EINVAL
