// SPDX-License-Identifier: BSD-3-Clause
//
// Fair share: chooses the candidate that is predicted to finish its flows first. V of a backend is
// the predicted time when the backend will have finished all its flows. The candidate with the
// least max(now, V) is chosen; equal candidates are chosen in turn. A new flow sets V to max(now,
// V) + its predicted cost. (poolifier adds the cost only when a task ends. As a result, a burst of
// tasks goes to one worker.)
//
// The key of a backend is V - base, in units of 1,024 ns, as a 32-bit number. The range of a key is
// 73 minutes. Keys are not relative to now, because V may be ahead of the clock by any time when
// backends serve many flows concurrently. When the least key or the clock is more than half of the
// 73 minutes above base, base is advanced and all keys are recomputed.
//
// A new backend starts with the V of the other backends. With V = 0 the backend would get all flows
// for a long time if the V of the other backends is far ahead of the clock.
//
// With more than WEIR_POLICY_EXACT candidates, a choice compares only some of them, so the V of a
// backend that is not compared for a long time may fall behind. Therefore V has a lower limit L.
// A lap is as many choices as there are candidates. L is the V of the backend that was chosen at
// the start of the last complete lap. A V below L is raised to L, and a new backend starts with
// L.
#include "window.h"

#define SHARERS_MOST 65536u
#define UNIT_SHIFT 10
#define KEY_MAX (WEIR_POLICY_KEY_NONE - 1)
#define KEY_HALF (UINT32_C(1) << 31)
#define HALF_NS ((uint64_t)KEY_HALF << UNIT_SHIFT)
// Distance by which base is below the V from which it is computed, unless the clock is later. With
// more than WEIR_POLICY_EXACT candidates, some may have a lower V.
#define SLACK_NS (HALF_NS / 2)

static uint32_t key(struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint64_t units;

	backend->end_ns = weir_policy_max64(backend->end_ns, client->former_lap_ns);
	if (backend->end_ns <= client->base_ns) {
		return 0;
	}
	units = (backend->end_ns - client->base_ns) >> UNIT_SHIFT;
	return units < KEY_MAX ? (uint32_t)units : KEY_MAX;
}

// Recomputes base from the least V of the candidates that are not at their limit of active flows;
// with more than WEIR_POLICY_EXACT candidates, from the V of the last chosen backend.
static void rebase(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint64_t now_ns) {
	uint64_t least = UINT64_MAX;

	if (client->window_count > WEIR_POLICY_EXACT) {
		least = client->virtual_ns;
	}
	for (uint32_t place = 0; client->window_count <= WEIR_POLICY_EXACT &&
				 weir_window_is_loaded(worker, client, place);
		place++) {
		struct weir_window window = weir_window_of(worker, client, place);

		if (window.key[place % WEIR_POLICY_WINDOW] != WEIR_POLICY_KEY_NONE) {
			uint16_t id = window.id[place % WEIR_POLICY_WINDOW];
			uint64_t end_ns = worker->backends[id].end_ns;

			least = end_ns < least ? end_ns : least;
		}
	}
	least = least == UINT64_MAX || least < SLACK_NS ? 0 : least - SLACK_NS;
	client->base_ns = weir_policy_max64(now_ns, least);
	weir_window_reload(worker, client, &weir_fair_share_ops);
}

// Raise the V of the candidate at this index (< table->count) to at least least_ns.
static void level(struct weir_policy_worker *worker, const struct weir_policy_table *table,
	uint32_t index, uint64_t least_ns) {
	uint16_t id = weir_policy_id(table, index);

	if (id < worker->backend_count) {
		worker->backends[id].end_ns =
			weir_policy_max64(worker->backends[id].end_ns, least_ns);
	}
}

// Count a choice in the current lap, with more than WEIR_POLICY_EXACT candidates.
static void count_lap(struct weir_policy_client *client, const struct weir_policy_table *table) {
	if (++client->lap_turns >= table->count) {
		client->lap_turns = 0;
		client->former_lap_ns = client->lap_ns;
		client->lap_ns = weir_policy_max64(client->lap_ns, client->virtual_ns);
	}
}

static void start(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	if (table->count > WEIR_POLICY_EXACT) {
		if (client->lap_ns == 0) { // no lap has completed yet
			client->lap_ns = client->former_lap_ns = client->virtual_ns;
		}
	} else {
		client->lap_ns = client->former_lap_ns = 0;
		for (uint32_t i = 0; i < table->count; i++) {
			level(worker, table, i, client->virtual_ns);
		}
	}
	weir_window_load(worker, client, table, &weir_fair_share_ops);
	rebase(worker, client, now_ns);
}

// Returns whether a backend in slow start accepts the flow. waits: the backend still has
// predicted work. Such a backend always accepts the flow, because the division of its cost by
// `part` already limits its flows. An idle backend accepts only the fraction `part` of the flows
// for which it is chosen.
static bool takes(struct weir_policy_worker *worker, const struct weir_policy_client *client,
	const struct weir_policy_table *table, uint16_t id, bool waits) {
	(void)client;
	(void)table;
	return waits || weir_policy_takes_turn(worker, id);
}

static uint32_t choose(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t hash, uint64_t now_ns) {
	uint64_t passed_ns = now_ns > client->base_ns ? now_ns - client->base_ns : 0;
	uint32_t least = 0;
	uint32_t floor, place;

	(void)hash;
	if (passed_ns >= HALF_NS) {
		rebase(worker, client, now_ns);
		passed_ns = now_ns > client->base_ns ? now_ns - client->base_ns : 0;
	}
	floor = (uint32_t)(passed_ns >> UNIT_SHIFT);
	place = weir_window_least(worker, client, table, &weir_fair_share_ops, floor, &least);
	if (place == WEIR_POLICY_NONE) {
		return WEIR_POLICY_NONE;
	}
	if (!weir_window_place_takes(worker, client, table, takes, place, floor)) {
		place = weir_window_pass_over(worker, client, table, takes, place, floor, &least);
	}
	client->virtual_ns = client->base_ns + ((uint64_t)least << UNIT_SHIFT);
	if (least >= KEY_HALF) {
		rebase(worker, client, now_ns);
	}
	if (table->count > WEIR_POLICY_EXACT) {
		count_lap(client, table);
	}
	return weir_window_take(worker, client, table, place);
}

static void charge(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint64_t now_ns) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint64_t sharers = client->settings.sharers;
	uint64_t cost = weir_policy_cost(worker, id);

	// All sharers send flows to the backend, but this worker adds only the cost of its own
	// flows. Therefore this worker multiplies the cost of each flow by the number of sharers.
	cost *= sharers > 0 && sharers < SHARERS_MOST ? sharers : 1;
	cost = cost < WEIR_POLICY_COST_MAX_NS ? cost : WEIR_POLICY_COST_MAX_NS;
	cost = weir_policy_over_part(backend, cost);
	backend->end_ns = weir_policy_max64(backend->end_ns, now_ns) +
			  (cost < WEIR_POLICY_COST_MAX_NS ? cost : WEIR_POLICY_COST_MAX_NS);
}

// Call when a backend is no longer closed. Raises its V to the V of the other backends, as for a
// new backend.
static void open_backend(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint64_t least_ns =
		client->count > WEIR_POLICY_EXACT ? client->former_lap_ns : client->virtual_ns;

	backend->end_ns = weir_policy_max64(backend->end_ns, least_ns);
}

const struct weir_policy_ops weir_fair_share_ops = {
	.start = start,
	.choose = choose,
	.charge = charge,
	.key = key,
	.open = open_backend,
	.cursor = true,
};
