// SPDX-License-Identifier: BSD-3-Clause
#include "policy.h"

#include <errno.h>
#include <string.h>

#include "recent_errors.h"
#include "shared_limit.h"
#include "window.h"

static const char *const names[] = {
#define X(name, key, needs) [WEIR_POLICY_##name] = (key),
	WEIR_POLICIES(X)
#undef X
};

static const uint8_t needs_of[] = {
#define X(name, key, needs) [WEIR_POLICY_##name] = (needs),
	WEIR_POLICIES(X)
#undef X
};

static const struct weir_policy_ops *const ops_of[WEIR_POLICY_COUNT] = {
	[WEIR_POLICY_MAGLEV] = &weir_maglev_ops,
	[WEIR_POLICY_ROUND_ROBIN] = &weir_round_robin_ops,
	[WEIR_POLICY_LEAST_LOADED] = &weir_least_loaded_ops,
	[WEIR_POLICY_WEIGHTED_ROUND_ROBIN] = &weir_weighted_round_robin_ops,
	[WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN] = &weir_interleaved_ops,
	[WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN] = &weir_time_weighted_ops,
	[WEIR_POLICY_FAIR_SHARE] = &weir_fair_share_ops,
	[WEIR_POLICY_RANDOM] = &weir_random_ops,
	[WEIR_POLICY_POWER_OF_TWO] = &weir_power_of_two_ops,
	[WEIR_POLICY_PREQUAL] = &weir_prequal_ops,
};

const char *weir_policy_name(enum weir_policy policy) {
	return (unsigned int)policy < WEIR_POLICY_COUNT ? names[policy] : "unknown";
}

int weir_policy_parse(const char *name) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		if (strcmp(name, names[policy]) == 0) {
			return policy;
		}
	}
	return -EINVAL;
}

uint8_t weir_policy_needs(enum weir_policy policy) {
	return (unsigned int)policy < WEIR_POLICY_COUNT ? needs_of[policy] : 0;
}

bool weir_policy_uses_weights(enum weir_policy policy) {
	return policy == WEIR_POLICY_MAGLEV || policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN ||
	       policy == WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN ||
	       policy == WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN ||
	       policy == WEIR_POLICY_LEAST_LOADED;
}

// The policy is a valid index, because only weir_policy_adopt changes the settings of a client, and
// it replaces an unknown policy by round-robin.
static const struct weir_policy_ops *client_ops(const struct weir_policy_client *client) {
	return ops_of[client->settings.policy];
}

// Sets the cursor to the same backend as in the previous table, if that backend is within
// WEIR_POLICY_WINDOW candidates of its old index. Otherwise the index of the cursor does not
// change: if only that backend was removed, the next backend now has this index.
static bool find_cursor(struct weir_policy_client *client, const struct weir_policy_table *table) {
	uint32_t at = weir_policy_cursor(client, table);

	if (weir_policy_id(table, at) == client->cursor_id) {
		client->cursor = at;
		return true;
	}
	// The index has changed by at most the number of added and removed backends. Search only
	// nearby, because searching the whole table would delay a burst of packets.
	for (uint32_t i = 1; i <= WEIR_POLICY_WINDOW && i < table->count; i++) {
		uint32_t after = at + i < table->count ? at + i : at + i - table->count;
		uint32_t before = at >= i ? at - i : at + table->count - i;

		if (weir_policy_id(table, after) == client->cursor_id) {
			client->cursor = after;
			return true;
		}
		if (weir_policy_id(table, before) == client->cursor_id) {
			client->cursor = before;
			return true;
		}
	}
	weir_policy_set_cursor(client, table, at);
	return false;
}

// Returns whether the workers' cursors must be spread over the candidates again. This is the case
// if candidates are added, and the previous table had fewer candidates than there are workers, or
// at most half as many candidates as this table. Without spreading, several workers would choose
// the same candidates at the same time.
static bool must_spread(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, const struct weir_policy_table *table) {
	return worker->ranks > 1 && table->count > client->count &&
	       (client->count < worker->ranks || client->count <= table->count / 2);
}

static void seed(struct weir_policy_worker *worker) {
	if (worker->random == 0) {
		worker->random = weir_policy_mix(UINT64_C(0x9e3779b97f4a7c15) * (worker->rank + 1));
	}
}

// Computes whether any backend has a limit or is closed, and the fields that depend on limits.
static void set_limits(struct weir_policy_client *client) {
	const struct weir_policy_ops *ops = client_ops(client);

	bool limits = client->limit != UINT32_MAX || client->limited > 0;

	client->limits = limits || client->closed > 0;
	// If a policy adds the cost of a flow when the flow starts (charge), the end of a flow does
	// not change the key of the backend, except if the backend was at its limit.
	client->reacts_to_end = (client->settings.needs & WEIR_NEEDS_ERRORS) != 0 ||
				(ops->key != NULL && (ops->charge == NULL || limits));
	client->exhausted = 0;
	client->spill_full = 0;
	client->spill_room_count = 0;
}

// Sets the backend's own limit, and whether the backend is closed. A closed backend has a limit of
// 0: policies skip it like a backend at its limit.
static void set_own(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t withheld, bool closed) {
	const struct weir_policy_ops *ops = client_ops(client);
	struct weir_policy_backend *backend = &worker->backends[id];
	bool was_closed = backend->closed != 0;

	if (backend->withheld == withheld && was_closed == closed) {
		return;
	}
	client->limited -= !was_closed && backend->withheld != 0;
	client->limited += !closed && withheld != 0;
	client->closed += closed - was_closed;
	worker->closed += closed - was_closed;
	backend->withheld = withheld;
	backend->closed = closed;
	if (client->started == 0) {
		// The client has no table yet. The other fields are set when the first table is
		// adopted.
		return;
	}
	set_limits(client);
	if (was_closed && ops->open != NULL) {
		ops->open(worker, client, id);
	}
	if (ops->key != NULL) {
		weir_window_refresh(worker, client, ops, id);
	}
}

void weir_policy_set_limit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t limit) {
	set_own(worker, client, id, UINT32_MAX - limit, false);
}

void weir_policy_close(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	set_own(worker, client, id, UINT32_MAX, true);
}

void weir_policy_adopt(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns) {
	uint8_t former = client->settings.policy;
	const struct weir_policy_ops *ops;
	bool found = true;

	client->settings = table->settings;
	if (client->settings.policy >= WEIR_POLICY_COUNT) {
		client->settings.policy = WEIR_POLICY_ROUND_ROBIN;
	}
	ops = client_ops(client);
	client->choose = ops->choose;
	client->reacts = ops->charge != NULL || ops->key != NULL;
	client->window_count = ops->key != NULL ? client->window_count : 0;
	client->limit = client->settings.max_active_flows > 0 ? client->settings.max_active_flows
							      : UINT32_MAX;
	set_limits(client);
	weir_errors_adopt(client, now_ns);
	seed(worker);
	if (client->settings.policy != former) {
		client->started = 0;
	}
	if (table->count == 0) {
		return;
	}
	if (client->started == 0) {
		weir_policy_set_cursor(client, table, weir_policy_start(worker, table));
		client->spill_cursor = client->cursor;
	} else if (ops->cursor && must_spread(worker, client, table)) {
		weir_policy_set_cursor(client, table, weir_policy_start(worker, table));
		found = false;
	} else if (ops->cursor) {
		found = find_cursor(client, table);
	}
	client->weighted = client->settings.policy == WEIR_POLICY_LEAST_LOADED &&
			   weir_policy_stride(table, weir_policy_cursor(client, table)) != 0;
	if (client->started != 0 && ops->resume != NULL) {
		ops->resume(worker, client, table, found, now_ns);
	} else if (ops->start != NULL) {
		ops->start(worker, client, table, now_ns);
	}
	client->started = 1;
	client->count = table->count;
}

// Advances the time slots of errors. If the policy has keys, reads the signals of the backends, and
// updates the keys that depend on errors.
static void tick(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint64_t now_ns) {
	const struct weir_policy_ops *ops = client_ops(client);

	weir_errors_tick(client, now_ns);
	if (ops->key != NULL) {
		weir_window_tick(worker, client, ops);
		weir_window_fit(worker, client, ops);
	}
}

struct weir_chosen weir_policy_choose_slow(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns) {
	struct weir_chosen chosen = {.how = WEIR_CHOSEN_NONE};
	uint32_t id;

	if (table->count == 0) {
		return chosen;
	}
	if (now_ns >= client->tick_end_ns) {
		tick(worker, client, now_ns);
	}
	if (weir_shared_limit_look(worker, client) && client_ops(client)->key != NULL) {
		weir_window_reload(worker, client, client_ops(client));
	}
	id = WEIR_POLICY_NONE;
	if (client->exhausted == 0) {
		id = client->choose(worker, client, table, hash, now_ns);
	}
	if (id == WEIR_POLICY_NONE) {
		return weir_policy_fall_back(worker, client, table);
	}
	if (!weir_policy_admits(worker, client, (uint16_t)id)) {
		return weir_policy_choose_again(worker, client, table, hash, now_ns);
	}
	chosen.id = (uint16_t)id;
	chosen.how = WEIR_CHOSEN;
	return chosen;
}

// Maximum number of times that the policy chooses again. After that, flow control searches for a
// backend below its limit.
#define CHOICES 3u

struct weir_chosen weir_policy_choose_again(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns) {
	struct weir_chosen chosen = {.how = WEIR_CHOSEN};

	for (uint32_t i = 0; i < CHOICES; i++) {
		uint32_t id = client->choose(worker, client, table, hash, now_ns);

		if (id == WEIR_POLICY_NONE) {
			break;
		}
		if (weir_policy_admits(worker, client, (uint16_t)id)) {
			chosen.id = (uint16_t)id;
			return chosen;
		}
	}
	return weir_policy_fall_back(worker, client, table);
}

// --- slow start ---

// Minimum of `part`, in units of 1 / WEIR_POLICY_PART_ONE. With this minimum, load / part and cost
// / part are at most 1,024 times the load or cost.
#define PART_LEAST 64u

void weir_policy_set_share(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, struct weir_policy_share share) {
	struct weir_policy_backend *backend = &worker->backends[id];

	if (backend->share.part == share.part && backend->share.turns == share.turns) {
		return;
	}
	if (backend->share.part == 0) {
		backend->credit = 0;
		backend->turns_seen = client->turns;
	}
	if (share.part != 0 && share.part < PART_LEAST) {
		share.part = PART_LEAST;
	}
	backend->share = share;
	client->exhausted = 0; // the limit of the backend changes
	client->spill_full = 0;
	if (client->started != 0) {
		weir_policy_react_resumed(worker, client, id);
	}
}

void weir_policy_react_started(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint64_t now_ns) {
	const struct weir_policy_ops *ops = client_ops(client);

	if (ops->charge != NULL) {
		ops->charge(worker, client, id, now_ns);
	}
	if (ops->key != NULL) {
		weir_window_refresh(worker, client, ops, id);
	}
}

void weir_policy_react_resumed(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	const struct weir_policy_ops *ops = client_ops(client);

	if (ops->key != NULL) {
		weir_window_refresh(worker, client, ops, id);
	}
}

void weir_policy_react_ended(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, enum weir_outcome outcome, uint64_t now_ns) {
	const struct weir_policy_ops *ops = client_ops(client);

	if ((client->settings.needs & WEIR_NEEDS_ERRORS) != 0 &&
		(outcome == WEIR_OUTCOME_REFUSED || outcome == WEIR_OUTCOME_UNANSWERED)) {
		if (now_ns >= client->tick_end_ns) {
			tick(worker, client, now_ns);
		}
		weir_errors_add(client, &worker->backends[id]);
	}
	if (ops->key != NULL) {
		weir_window_refresh(worker, client, ops, id);
	}
}

// --- flows that move to another worker ---

void weir_policy_take_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open) {
	struct weir_policy_backend *backend = &worker->backends[id];

	backend->half_open += half_open;
	backend->active += active;
	if (backend->counted != 0) {
		weir_shared_limit_follow(worker, id);
	}
	if (client->reacts != 0) {
		weir_policy_react_resumed(worker, client, id);
	}
}

void weir_policy_give_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open) {
	struct weir_policy_backend *backend = &worker->backends[id];

	backend->half_open -= half_open < backend->half_open ? half_open : backend->half_open;
	backend->active -= active < backend->active ? active : backend->active;
	if (backend->counted != 0) {
		weir_shared_limit_follow(worker, id);
	}
	if (weir_policy_below_limit(client, backend)) {
		client->exhausted = 0;
		if (client->spill_full != 0) {
			weir_policy_has_room(client, id);
		}
	}
	if (client->reacts != 0) {
		weir_policy_react_resumed(worker, client, id);
	}
}
