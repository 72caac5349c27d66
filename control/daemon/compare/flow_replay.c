// SPDX-License-Identifier: BSD-3-Clause
#include "flow_replay.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "moving.h"
#include "replay_table.h"
#include "shared_limit.h"

#define LOOKS 2000u // maximum number of instants at which active flows are counted
// Weight of the mean of all flows, in flows: for a backend with this number of flows, its own mean
// and the mean of all flows have the same weight.
#define FEW 16.0
#define SEED UINT64_C(0x77656972)

struct end { // when and where a flow in progress ends
	uint64_t at_ns;
	uint16_t worker;
	uint16_t backend;
};

struct weir_replay {
	const struct weir_replay_params *params;
	int policy;
	struct weir_replay_table *tables; // [subsets]
	struct weir_policy_worker *workers; // [workers]
	struct weir_policy_client *clients; // [workers]
	struct weir_limit_word *words; // [backend_count] NULL = no limit
	struct weir_limit_part *parts; // [workers][backend_count]
	uint64_t *cost_ns; // [backend_count]
	double *pace; // [backend_count] see compute_times
	uint32_t *flows_of; // [backend_count]
	uint32_t *active; // [backend_count]
	struct end *ends; // heap whose root is the flow that ends next
	uint32_t end_count;
	uint32_t next; // index of the next flow
	uint32_t taking; // number of backends that get new flows
	uint64_t look_ns; // next time at which active flows are counted
	uint64_t look_every_ns;
	uint64_t looks, most_sum, active_sum, active_now;
	struct weir_replay_result result;
};

bool weir_replay_can(enum weir_policy policy) {
	const uint8_t has =
		WEIR_NEEDS_SLOTS | WEIR_NEEDS_ROUNDS | WEIR_NEEDS_ERRORS | WEIR_NEEDS_COST;

	return policy < WEIR_POLICY_COUNT && (weir_policy_needs(policy) & ~has) == 0;
}

// --- flow durations of the backends ---------------------------------------------------------

// For each backend, computes its cost (see flow_replay.h) and its pace. The pace is the geometric
// mean of the durations of the backend's flows, divided by the geometric mean of the durations of
// all flows. The fewer flows the backend has, the closer its pace is to 1.
static int compute_times(struct weir_replay *replay) {
	const struct weir_replay_params *params = replay->params;
	double *logs = calloc(params->backend_count, sizeof(*logs)), all = 0;
	uint64_t *count = calloc(params->backend_count, sizeof(*count));

	if (logs == NULL || count == NULL) {
		free(logs);
		free(count);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < params->flow_count; i++) {
		const struct weir_replay_flow *flow = &params->flows[i];
		double one = log((double)flow->service_ns + 1);

		logs[flow->backend] += one;
		all += one;
		replay->cost_ns[flow->backend] += flow->service_ns;
		count[flow->backend]++;
	}
	all /= params->flow_count > 0 ? params->flow_count : 1;
	for (uint32_t i = 0; i < params->backend_count; i++) {
		double n = (double)count[i];

		replay->pace[i] = exp((logs[i] - n * all) / (n + FEW));
		replay->cost_ns[i] /= count[i] > 0 ? count[i] : 1;
	}
	weir_moving_costs(replay->cost_ns, params->backend_count, replay->cost_ns);
	free(logs);
	free(count);
	return 0;
}

// --- flows in progress ----------------------------------------------------------------------

static void push(struct weir_replay *replay, struct end end) {
	uint32_t i = replay->end_count++;

	for (; i > 0 && replay->ends[(i - 1) / 2].at_ns > end.at_ns; i = (i - 1) / 2) {
		replay->ends[i] = replay->ends[(i - 1) / 2];
	}
	replay->ends[i] = end;
}

static struct end pop(struct weir_replay *replay) {
	struct end first = replay->ends[0], last = replay->ends[--replay->end_count];
	uint32_t i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < replay->end_count &&
			replay->ends[child + 1].at_ns < replay->ends[child].at_ns) {
			child++;
		}
		if (child >= replay->end_count || replay->ends[child].at_ns >= last.at_ns) {
			break;
		}
		replay->ends[i] = replay->ends[child];
		i = child;
	}
	replay->ends[i] = last;
	return first;
}

static void end_next(struct weir_replay *replay) {
	struct end end = pop(replay);

	replay->active[end.backend]--;
	replay->active_now--;
	if (replay->policy != WEIR_REPLAY_RECORDED) {
		weir_policy_ended(&replay->workers[end.worker], &replay->clients[end.worker],
			end.backend, WEIR_OUTCOME_COMPLETED, end.at_ns);
	}
}

static void look(struct weir_replay *replay) {
	uint32_t most = 0;

	for (uint32_t i = 0; i < replay->params->backend_count; i++) {
		most = replay->active[i] > most ? replay->active[i] : most;
	}
	replay->looks++;
	replay->most_sum += most;
	replay->active_sum += replay->active_now;
	replay->look_ns += replay->look_every_ns;
}

// Advance the time of the replay to now_ns: end the flows that are over by then, and count the
// flows in progress every look_every_ns.
static void advance(struct weir_replay *replay, uint64_t now_ns) {
	for (;;) {
		uint64_t end_ns = replay->end_count > 0 ? replay->ends[0].at_ns : UINT64_MAX;

		if (replay->look_ns <= now_ns && replay->look_ns < end_ns) {
			look(replay);
		} else if (end_ns <= now_ns) {
			end_next(replay);
		} else {
			return;
		}
	}
}

// Releases the slots of limits that workers hold but do not use. With a slot, a worker can begin a
// flow at a backend.
static void turn(struct weir_replay *replay, uint64_t now_ns) {
	for (uint32_t w = 0; replay->words != NULL && w < replay->params->workers; w++) {
		while (weir_shared_limit_turn(&replay->workers[w], now_ns)) {
		}
	}
}

// --- one flow -------------------------------------------------------------------------------

// Chooses the backend of a flow. Returns its index, or backend_count if no backend can be chosen.
static uint32_t choose(struct weir_replay *replay, const struct weir_replay_flow *flow) {
	const struct weir_replay_params *params = replay->params;
	const struct weir_policy_table *table =
		&replay->tables[flow->worker % params->subsets].table;
	uint64_t hash = weir_hash_bytes(&replay->next, sizeof(replay->next), SEED);
	struct weir_chosen chosen;

	if (replay->policy == WEIR_REPLAY_RECORDED) {
		return flow->backend;
	}
	chosen = weir_policy_choose(&replay->workers[flow->worker], &replay->clients[flow->worker],
		table, hash, flow->start_ns);
	replay->result.spilled += chosen.how == WEIR_CHOSEN_SPILLED;
	return chosen.how == WEIR_CHOSEN || chosen.how == WEIR_CHOSEN_SPILLED
		       ? chosen.id
		       : params->backend_count;
}

static void replay_flow(struct weir_replay *replay, const struct weir_replay_flow *flow) {
	uint64_t service_ns = flow->service_ns;
	uint32_t backend;

	advance(replay, flow->start_ns);
	turn(replay, flow->start_ns);
	backend = choose(replay, flow);
	if (backend >= replay->params->backend_count) {
		replay->result.rejected++;
		return;
	}
	if (replay->params->scaled && backend != flow->backend) {
		service_ns = (uint64_t)((double)service_ns * replay->pace[backend] /
					replay->pace[flow->backend]);
	}
	if (replay->policy != WEIR_REPLAY_RECORDED) {
		weir_policy_started(&replay->workers[flow->worker], &replay->clients[flow->worker],
			(uint16_t)backend, flow->start_ns);
	}
	replay->result.flows++;
	replay->flows_of[backend]++;
	replay->active[backend]++;
	replay->active_now++;
	push(replay, (struct end){.at_ns = flow->start_ns + service_ns,
			     .worker = flow->worker,
			     .backend = (uint16_t)backend});
}

bool weir_replay_step(struct weir_replay *replay, uint32_t most) {
	const struct weir_replay_params *params = replay->params;

	for (; most > 0 && replay->next < params->flow_count; most--) {
		replay_flow(replay, &params->flows[replay->next]);
		replay->next++;
	}
	return replay->next == params->flow_count;
}

void weir_replay_read(const struct weir_replay *replay, struct weir_replay_result *ret) {
	double looks = replay->looks > 0 ? (double)replay->looks : 1;
	double backends = replay->taking > 0 ? replay->taking : 1;

	*ret = replay->result;
	ret->active_mean = (double)replay->active_sum / looks / backends;
	ret->active_most = (double)replay->most_sum / looks;
	ret->spread = ret->active_mean > 0 ? ret->active_most / ret->active_mean : 0;
	ret->flows_of = replay->flows_of;
}

// --- create and free ------------------------------------------------------------------------

// Sets up the limits of active flows for worker w. Each limit applies to all workers together.
static void share_limit(struct weir_replay *replay, uint32_t w) {
	const struct weir_replay_params *params = replay->params;
	struct weir_policy_worker *worker = &replay->workers[w];

	weir_shared_limit_init(worker, replay->words,
		replay->parts + (size_t)w * params->backend_count, params->workers);
	for (uint32_t id = 0; id < params->backend_count; id++) {
		weir_policy_count_shared(worker, (uint16_t)id, true);
		weir_policy_set_limit(worker, &replay->clients[w], (uint16_t)id,
			params->settings.max_active_flows);
	}
}

static int start_workers(struct weir_replay *replay) {
	const struct weir_replay_params *params = replay->params;
	size_t bytes = params->backend_count * sizeof(struct weir_policy_backend);
	uint64_t now_ns = params->flow_count > 0 ? params->flows[0].start_ns : 0;

	for (uint32_t w = 0; w < params->workers; w++) {
		struct weir_policy_worker *worker = &replay->workers[w];

		*worker = (struct weir_policy_worker){.cost_ns = replay->cost_ns,
			.backend_count = params->backend_count,
			.rank = w,
			.ranks = params->workers};
		worker->backends = aligned_alloc(64, bytes);
		if (worker->backends == NULL || weir_policy_windows_alloc(worker) < 0) {
			return -ENOMEM;
		}
		memset(worker->backends, 0, bytes);
		if (replay->words != NULL) {
			share_limit(replay, w);
		}
		weir_policy_adopt(worker, &replay->clients[w],
			&replay->tables[w % params->subsets].table, now_ns);
	}
	return 0;
}

static int build(struct weir_replay *replay) {
	const struct weir_replay_params *params = replay->params;
	int r = compute_times(replay);

	if (r == 0 && params->settings.max_active_flows > 0 && params->backend_count > 0) {
		size_t bytes = params->backend_count * sizeof(*replay->words);

		replay->words = aligned_alloc(sizeof(*replay->words), bytes);
		replay->parts = calloc(
			(size_t)params->workers * params->backend_count, sizeof(*replay->parts));
		if (replay->words == NULL || replay->parts == NULL) {
			return -ENOMEM;
		}
		memset(replay->words, 0, bytes);
	}
	for (uint32_t s = 0;
		r == 0 && replay->policy != WEIR_REPLAY_RECORDED && s < params->subsets; s++) {
		r = weir_replay_table_build(
			params, (enum weir_policy)replay->policy, s, &replay->tables[s]);
	}
	if (r == 0 && replay->policy != WEIR_REPLAY_RECORDED) {
		r = start_workers(replay);
	}
	return r;
}

static void plan_looks(struct weir_replay *replay) {
	const struct weir_replay_params *params = replay->params;
	uint64_t first, last;

	replay->look_ns = UINT64_MAX;
	if (params->flow_count > 0) {
		first = params->flows[0].start_ns;
		last = params->flows[params->flow_count - 1].start_ns;
		replay->look_every_ns = (last - first) / LOOKS + 1;
		replay->look_ns = first + replay->look_every_ns;
	}
	for (uint32_t i = 0; i < params->backend_count; i++) {
		replay->taking +=
			params->backends[i].subsets != 0 && params->backends[i].weight > 0;
	}
}

int weir_replay_create(
	const struct weir_replay_params *params, int policy, struct weir_replay **ret) {
	uint32_t n = params->backend_count;
	struct weir_replay *replay;
	int r;

	if (policy != WEIR_REPLAY_RECORDED && !weir_replay_can((enum weir_policy)policy)) {
		return -EINVAL;
	}
	replay = calloc(1, sizeof(*replay));
	if (replay == NULL) {
		return -ENOMEM;
	}
	replay->params = params;
	replay->policy = policy;
	replay->tables = calloc(params->subsets, sizeof(*replay->tables));
	replay->workers = calloc(params->workers, sizeof(*replay->workers));
	replay->clients = aligned_alloc(64, params->workers * sizeof(*replay->clients));
	replay->cost_ns = calloc(n + 1, sizeof(*replay->cost_ns));
	replay->pace = calloc(n + 1, sizeof(*replay->pace));
	replay->flows_of = calloc(n + 1, sizeof(*replay->flows_of));
	replay->active = calloc(n + 1, sizeof(*replay->active));
	replay->ends = malloc((params->flow_count + 1) * sizeof(*replay->ends));
	if (replay->tables == NULL || replay->workers == NULL || replay->clients == NULL ||
		replay->cost_ns == NULL || replay->pace == NULL || replay->flows_of == NULL ||
		replay->active == NULL || replay->ends == NULL) {
		weir_replay_free(replay);
		return -ENOMEM;
	}
	memset(replay->clients, 0, params->workers * sizeof(*replay->clients));
	r = build(replay);
	if (r < 0) {
		weir_replay_free(replay);
		return r;
	}
	plan_looks(replay);
	*ret = replay;
	return 0;
}

void weir_replay_free(struct weir_replay *replay) {
	if (replay == NULL) {
		return;
	}
	for (uint32_t s = 0; replay->tables != NULL && s < replay->params->subsets; s++) {
		weir_replay_table_fini(&replay->tables[s]);
	}
	for (uint32_t w = 0; replay->workers != NULL && w < replay->params->workers; w++) {
		free(replay->workers[w].windows.key);
		free(replay->workers[w].backends);
	}
	free(replay->tables);
	free(replay->workers);
	free(replay->clients);
	free(replay->words);
	free(replay->parts);
	free(replay->cost_ns);
	free(replay->pace);
	free(replay->flows_of);
	free(replay->active);
	free(replay->ends);
	free(replay);
}
