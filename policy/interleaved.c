// SPDX-License-Identifier: BSD-3-Clause
//
// Interleaved weighted round robin: there is one round for each distinct weight R, in ascending
// order. In the round of weight R, every candidate with weight R or more has a turn. The turn
// lasts until the candidate's flows are predicted to have used the quota of the round, in
// milliseconds of service time.
//
// The quota is R minus the weight of the previous round. The quotas of a candidate then add up to
// its weight. With WEIR_ROUNDS_DOCUMENTED the quota is R itself, as in the literature; heavy
// candidates then get more than their weight. With WEIR_ROUNDS_TASKS a turn is one flow of any
// service time; service times are then not needed, and only the order of the weights matters.
#include "interleaved.h"

#include <stdlib.h>

#include "policy_private.h"

#define NS_PER_WEIGHT UINT64_C(1000000)

static int compare_rounds(const void *left, const void *right) {
	const struct weir_round *a = left;
	const struct weir_round *b = right;

	return (a->weight > b->weight) - (a->weight < b->weight);
}

uint32_t weir_interleaved_rounds(
	const struct weir_candidate *candidates, uint32_t n, struct weir_round *rounds) {
	uint32_t count = 0;
	uint32_t last = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (count == 0 || candidates[i].weight != rounds[count - 1].weight) {
			rounds[count++].weight = candidates[i].weight;
		}
	}
	qsort(rounds, count, sizeof(rounds[0]), compare_rounds);
	for (uint32_t i = 0; i < count; i++) {
		if (last == 0 || rounds[i].weight != rounds[last - 1].weight) {
			rounds[last++].weight = rounds[i].weight;
		}
	}
	for (uint32_t i = 0, at = 0; i < last; i++) {
		while (candidates[at].weight < rounds[i].weight) {
			at++;
		}
		rounds[i].first = at;
	}
	return last;
}

static uint32_t weight_of(const struct weir_policy_table *table, uint32_t round) {
	return __atomic_load_n(&table->rounds[round].weight, __ATOMIC_RELAXED);
}

// Returns the round whose weight is nearest to `weight`; 0 if there are no rounds.
static uint32_t nearest_round(const struct weir_policy_table *table, uint32_t weight) {
	uint32_t low = 0, high = table->round_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (weight_of(table, middle) < weight) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	if (low == 0) {
		return 0;
	}
	if (low == table->round_count ||
		weight - weight_of(table, low - 1) <= weight_of(table, low) - weight) {
		return low - 1;
	}
	return low;
}

static void set_round(
	struct weir_policy_client *client, const struct weir_policy_table *table, uint32_t round) {
	client->round = round;
	client->round_weight = round < table->round_count ? weight_of(table, round) : 0;
}

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	(void)worker;
	(void)now_ns;
	set_round(client, table, 0);
	client->spent_ns = 0;
}

// Continues the schedule with a new table. The schedule is not restarted, because the rounds of
// heavy candidates are last: frequent changes would then starve the heavy candidates.
static void resume(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, bool found, uint64_t now_ns) {
	(void)worker;
	(void)now_ns;
	set_round(client, table, nearest_round(table, client->round_weight));
	if (!found) {
		client->spent_ns = 0;
	}
}

static bool by_flows(const struct weir_policy_client *client) {
	return weir_policy_rounds(&client->settings) == WEIR_ROUNDS_TASKS;
}

// Returns the quota, in ns, that each candidate of a round gets. *ret_weight is the minimum weight
// of the round. If the quota is a number of flows, a flow counts as 1 ns.
static uint64_t quota_ns(const struct weir_policy_client *client,
	const struct weir_policy_table *table, uint32_t round, uint32_t *ret_weight) {
	uint32_t weight = weight_of(table, round);
	uint32_t before = 0;

	*ret_weight = weight;
	if (by_flows(client)) {
		return weight > 0;
	}
	if (round > 0 && weir_policy_rounds(&client->settings) == WEIR_ROUNDS_INCREMENTAL) {
		before = weight_of(table, round - 1);
	}
	return weight > before ? (weight - before) * NS_PER_WEIGHT : 0;
}

// Returns the candidate after `at`; after the last candidate, the first candidate of the next
// round. If turns depend on service times and no service time is known, a turn is two flows, and
// only the first round is repeated: other rounds would give additional turns to heavy candidates.
static uint32_t step(const struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint32_t at) {
	uint32_t round = client->round + 1, first;

	client->spent_ns = 0;
	if (at + 1 < table->count) {
		return at + 1;
	}
	if (round >= table->round_count ||
		(!by_flows(client) &&
			!weir_policy_cost_is_known(worker, weir_policy_id(table, at)))) {
		round = 0;
	}
	set_round(client, table, round);
	first = __atomic_load_n(&table->rounds[client->round].first, __ATOMIC_RELAXED);
	return first < table->count ? first : 0;
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint32_t at = weir_policy_cursor(client, table);
	uint32_t chosen = WEIR_POLICY_NONE;

	(void)hash;
	(void)now_ns;
	if (table->round_count == 0) {
		return WEIR_POLICY_NONE;
	}
	client->round = client->round < table->round_count ? client->round : 0;
	for (uint32_t i = 0; i < WEIR_POLICY_WINDOW && chosen == WEIR_POLICY_NONE; i++) {
		uint16_t id = weir_policy_id(table, at);
		uint32_t weight = __atomic_load_n(&table->candidates[at].weight, __ATOMIC_RELAXED);
		uint32_t least;
		uint64_t quota = quota_ns(client, table, client->round, &least);

		if (client->spent_ns < quota && weight >= least &&
			weir_policy_can_take(worker, client, id)) {
			client->spent_ns +=
				by_flows(client) ? 1 : weir_policy_turn_cost(worker, id, quota);
			if (weir_policy_takes_turn(worker, id)) {
				chosen = id;
			}
		} else {
			at = step(worker, client, table, at);
		}
	}
	weir_policy_set_cursor(client, table, at);
	return chosen;
}

const struct weir_policy_ops weir_interleaved_ops = {
	.start = start, .resume = resume, .choose = choose, .cursor = true};
