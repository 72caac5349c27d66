// SPDX-License-Identifier: BSD-3-Clause
//
// Flow control: handles a new flow if its policy found no backend below the limit of active flows.
// Searches for such a backend in blocks of WEIR_POLICY_WINDOW candidates. A search checks at most
// WEIR_POLICY_SEARCH candidates; a second search follows only if other workers have taken the last
// slot of a shared limit. A search finds a backend that is not closed if the table has one, because
// weir-control publishes a new table before WEIR_POLICY_SEARCH candidates of a table are closed.
//
// A backend stays at its limit until one of its flows ends, its limit changes, or a new table
// arrives. Therefore, with more than one block of candidates, a search continues where the previous
// search stopped (spill_cursor, spill_full). Backends whose flows have ended in the meantime are
// recorded in a list (spill_room). Of the candidates that were already searched, only the recorded
// backends are checked again. When all candidates have been searched without success, the client is
// marked `exhausted`. Until a flow ends or a limit changes, the policy then makes no choices, and
// flow control rejects new flows or, to spill them, searches only the first block with an open
// backend.
//
// With limits that workers share, a flow may also end on another worker. Therefore each search
// reads the number of free slots, and backends that were full are checked again from time to time
// (shared_limit.h).
//
// Without limits a search skips only closed backends. If every search began at the same candidate,
// it could return the same backend again and again, regardless of the load of that backend.
// Therefore the next search starts after the backend that was found.
#include "recent_errors.h"
#include "shared_limit.h"

// The rank of a candidate; a search chooses the candidate with the lowest rank. A rank consists of,
// from the highest bits: whether the backend is at its limit, its load, and its index in the block.
// UINT64_MAX = the backend is closed.
#define AT_LIMIT (UINT64_C(1) << 63)
#define LOAD_SHIFT 8
_Static_assert(
	WEIR_POLICY_WINDOW <= 1u << LOAD_SHIFT, "an index must fit in the bits below the load");

static uint64_t rank_backend(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t order) {
	struct weir_policy_backend *backend = &worker->backends[id];
	uint64_t rank;

	if ((client->settings.needs & WEIR_NEEDS_ERRORS) != 0) {
		weir_errors_look(worker, id);
	} else {
		// The policy does not need reports, so an earlier value of `reported` is outdated.
		backend->reported = 0;
	}
	rank = (uint64_t)weir_policy_load(client, backend) << LOAD_SHIFT | order;

	if (!weir_policy_would_admit(worker, client, id)) {
		rank |= AT_LIMIT;
		if (backend->counted != 0) {
			weir_shared_limit_mark_full(worker, client, id);
		}
	}
	return rank | (0 - (uint64_t)backend->closed);
}

// Returns the lowest rank of `steps` candidates from index `at` on; the first candidate follows the
// last. Returns UINT64_MAX if no candidate is valid, or all are closed.
static uint64_t search_block(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint32_t at, uint32_t steps, uint16_t *ret_id) {
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < steps; i++) {
		uint16_t id = weir_policy_id(table, at);

		if (id < worker->backend_count) {
			uint64_t rank = rank_backend(worker, client, id, i);

			worker->backends[id].index = (uint16_t)at;
			*ret_id = rank < least ? id : *ret_id;
			least = rank < least ? rank : least;
		}
		at = weir_policy_next(table, at);
	}
	return least;
}

void weir_policy_has_room(struct weir_policy_client *client, uint16_t id) {
	uint32_t count = client->spill_room_count;

	if (count > 0 && client->spill_room[count - 1] == id) {
		return;
	}
	if (count < WEIR_POLICY_ROOM) {
		client->spill_room[client->spill_room_count++] = id;
	} else {
		// The list is full: search all candidates again. The search soon finds a backend
		// with room.
		client->spill_full = 0;
	}
}

// Returns a recorded backend that can accept a flow, or WEIR_POLICY_NONE. Removes recorded backends
// that are full again, or that are no longer at their recorded index.
static uint32_t find_remembered(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table) {
	while (client->spill_room_count > 0) {
		uint16_t id = client->spill_room[client->spill_room_count - 1];
		uint16_t index = id < worker->backend_count ? worker->backends[id].index : 0;

		if (index < table->count && weir_policy_id(table, index) == id &&
			weir_policy_can_take(worker, client, id) &&
			weir_policy_admits(worker, client, id)) {
			return id;
		}
		client->spill_room_count--;
	}
	return WEIR_POLICY_NONE;
}

// Returns the index of the candidate after the candidate with this rank. at: index of the first
// candidate of the block.
static uint32_t behind(const struct weir_policy_table *table, uint32_t at, uint64_t rank) {
	at += (uint32_t)(rank & ((1u << LOAD_SHIFT) - 1)) + 1;
	return at < table->count ? at : at - table->count;
}

static bool has_limits(const struct weir_policy_client *client) {
	return client->limit != UINT32_MAX || client->limited > 0;
}

// Searches all candidates, if there are at most WEIR_POLICY_WINDOW. Candidates with equal loads are
// chosen in turn.
static uint64_t search_all(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint16_t *ret_id) {
	uint32_t at = client->spill_cursor < table->count ? client->spill_cursor : 0;
	uint64_t least = search_block(worker, client, table, at, table->count, ret_id);

	if (least != UINT64_MAX) {
		client->spill_cursor = behind(table, at, least);
		client->exhausted = (least & AT_LIMIT) != 0;
	}
	return least;
}

// Searches more than WEIR_POLICY_WINDOW candidates, block by block. Stops at the first block with a
// backend below its limit. If there is none, returns the lowest rank of the last searched block
// that has an open backend. If all candidates are known to be at their limit, the search stops at
// the first block with an open backend.
static uint64_t search_on(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint16_t *ret_id) {
	uint32_t at = client->spill_cursor < table->count ? client->spill_cursor : 0;
	uint32_t blocks = weir_policy_min(WEIR_POLICY_SEARCH, table->count + WEIR_POLICY_WINDOW) /
			  WEIR_POLICY_WINDOW;
	uint64_t least = UINT64_MAX;

	do {
		uint64_t of_block =
			search_block(worker, client, table, at, WEIR_POLICY_WINDOW, ret_id);

		least = of_block != UINT64_MAX ? of_block : least;
		if (of_block < AT_LIMIT) {
			break; // the backend may have room for more flows
		}
		at += WEIR_POLICY_WINDOW;
		at = at < table->count ? at : at - table->count;
		client->spill_full += WEIR_POLICY_WINDOW;
	} while (--blocks > 0 && (client->spill_full < table->count || least == UINT64_MAX));
	client->spill_cursor = at;
	if (least < AT_LIMIT && !has_limits(client)) {
		client->spill_cursor = behind(table, at, least);
		client->spill_full = 0;
	}
	if (client->spill_full >= table->count) {
		client->spill_full = table->count;
		client->exhausted = least != UINT64_MAX;
	}
	return least;
}

static uint64_t search(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint16_t *ret_id) {
	return table->count > WEIR_POLICY_WINDOW ? search_on(worker, client, table, ret_id)
						 : search_all(worker, client, table, ret_id);
}

struct weir_chosen weir_policy_fall_back(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table) {
	bool rejects = client->settings.when_exhausted == WEIR_EXHAUSTED_REJECT;
	struct weir_chosen chosen = {.how = WEIR_CHOSEN};
	uint32_t remembered;
	uint64_t least;

	if (client->exhausted != 0 && rejects) {
		chosen.how = WEIR_CHOSEN_REJECTED;
		return chosen;
	}
	remembered = find_remembered(worker, client, table);
	if (remembered != WEIR_POLICY_NONE) {
		chosen.id = (uint16_t)remembered;
		return chosen;
	}
	least = search(worker, client, table, &chosen.id);
	if (least < AT_LIMIT && !weir_policy_admits(worker, client, chosen.id)) {
		least = search(worker, client, table, &chosen.id);
		if (least < AT_LIMIT && !weir_policy_admits(worker, client, chosen.id)) {
			// Other workers have taken the last slot twice: treat the backend as full.
			least |= AT_LIMIT;
		}
	}
	if (least == UINT64_MAX) {
		chosen.how = WEIR_CHOSEN_NONE;
	} else if (least >= AT_LIMIT) {
		chosen.how = rejects ? WEIR_CHOSEN_REJECTED : WEIR_CHOSEN_SPILLED;
	}
	return chosen;
}
