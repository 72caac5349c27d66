// SPDX-License-Identifier: BSD-3-Clause
//
// RSS++: buckets of packets are moved between cores. Weir's steal planner has the same
// threshold, but a different algorithm. Its plan must make the loads of the cores as even as
// RSS++ does, with a tolerance of one moved bucket. It must move nothing if RSS++ moves nothing.
#include <math.h>

#include "replay.h"
#include "steal_plan.h"

#define CORES 8
#define BUCKETS 256
#define ROUNDS 100 // a plan that still makes requests after this many rounds is wrong
#define NOTHING 1e-6 // cost of a move, far below the load of any bucket

struct cores {
	struct weir_steal_plan *plan;
	uint32_t cores;
	struct {
		uint32_t core, number;
		double load;
	} buckets[BUCKETS];
	uint32_t count;
};

bool replay_rsspp_recognise(const json_t *root) {
	const json_t *cases = json_object_get(root, "cases");

	return replay_has(json_array_get(cases, 0), "bucket_load");
}

static void put_buckets(struct cores *cores, const json_t *lists) {
	const json_t *list, *load;
	size_t core, number;

	json_array_foreach (lists, core, list) {
		weir_steal_plan_worker(cores->plan, (uint32_t)core, 1, true, 0);
		json_array_foreach (list, number, load) {
			struct weir_steal_task what = {
				.duration = json_number_value(load), .transfer = 0};

			if (what.duration > 0 && cores->count < BUCKETS) {
				cores->buckets[cores->count].core = (uint32_t)core;
				cores->buckets[cores->count].number = (uint32_t)number;
				cores->buckets[cores->count].load = what.duration;
				weir_steal_plan_put(
					cores->plan, cores->count++, (uint32_t)core, &what);
			}
		}
	}
}

// Grants every request at once, until the planner makes no more requests. Returns the number of
// requests.
static uint32_t move_all(struct replay *replay, struct cores *cores) {
	struct weir_steal_request requests[BUCKETS];
	uint32_t moves = 0, n = 1;

	for (int round = 0; n > 0; round++) {
		if (!replay_check(replay, "comes to rest", -1, true, round < ROUNDS)) {
			break;
		}
		n = weir_steal_plan_balance(cores->plan, round, requests, BUCKETS);
		moves += n;
		for (uint32_t i = 0; i < n; i++) {
			replay_check(replay, "moved", i, WEIR_STEAL_MOVED,
				weir_steal_plan_answer(cores->plan, requests[i].task,
					requests[i].id, WEIR_STEAL_GIVEN_UP, true, round));
		}
	}
	return moves;
}

static double largest_moved(const struct cores *cores, const json_t *moves) {
	const json_t *move;
	double largest = 0;
	size_t i;

	json_array_foreach (moves, i, move) {
		json_int_t core = json_integer_value(json_object_get(move, "core"));
		json_int_t number = json_integer_value(json_object_get(move, "bucket"));

		for (uint32_t b = 0; b < cores->count; b++) {
			if (cores->buckets[b].core == core && cores->buckets[b].number == number) {
				largest = fmax(largest, cores->buckets[b].load);
			}
		}
	}
	return largest;
}

static void replay_case(struct replay *replay, const json_t *vector) {
	const json_t *loads = replay_list(replay, vector, "core_load"), *load;
	const json_t *moves = replay_list(replay, vector, "moves");
	double threshold = replay_real(replay, vector, "threshold", 0), mean = 0, worst = 0;
	struct weir_steal_params params = weir_steal_params_dask();
	struct cores cores = {.cores = (uint32_t)json_array_size(loads)};
	uint32_t moved;
	size_t i;

	if (!replay_known_keys(
		    replay, vector, "desc core_load bucket_load threshold moves load_after")) {
		return;
	}
	json_array_foreach (loads, i, load) {
		mean += json_number_value(load) / cores.cores;
	}
	params.latency = NOTHING;
	params.victim_floor = params.pending_floor = 0;
	params.idle_ratio = 1 - threshold / mean;
	params.pending_ratio = 1 + threshold / mean;
	if (weir_steal_plan_create(&params, cores.cores, BUCKETS, &cores.plan) < 0) {
		replay_fail(replay, "out of memory");
		return;
	}
	put_buckets(&cores, replay_list(replay, vector, "bucket_load"));
	moved = move_all(replay, &cores);
	json_array_foreach (replay_list(replay, vector, "load_after"), i, load) {
		worst = fmax(worst, json_number_value(load));
	}
	for (uint32_t core = 0; core < cores.cores; core++) {
		double got = weir_steal_plan_occupancy(cores.plan, core);

		replay_check(replay, "core is as even", core, true,
			got <= worst + largest_moved(&cores, moves) + 1e-3);
	}
	replay_check(replay, "moves at all", -1, json_array_size(moves) > 0, moved > 0);
	replay_check(replay, "at most 1.5 times the recorded number of moves", -1, true,
		moved <= json_array_size(moves) * 3 / 2);
	weir_steal_plan_free(cores.plan);
}

void replay_rsspp(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "cases");
	json_array_foreach (json_object_get(root, "cases"), i, vector) {
		replay_begin(replay, "%s", replay_text(replay, vector, "desc", "?"));
		replay_case(replay, vector);
		replay_end(replay);
	}
}
