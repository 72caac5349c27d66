// SPDX-License-Identifier: BSD-3-Clause
#include "shared_limit.h"

#include "window.h"

#define NONE UINT16_MAX // end of the queue; backend ids are below NONE
#define QUARTER_SHIFT 2 // a worker takes a quarter of its share of the free slots at a time
#define LOOKS 63 // checks of full backends are numbered 1 to LOOKS

void weir_shared_limit_init(struct weir_policy_worker *worker, struct weir_limit_word *words,
	struct weir_limit_part *parts, uint32_t workers) {
	uint8_t shift = QUARTER_SHIFT;

	while (shift < QUARTER_SHIFT + 6 && (UINT32_C(1) << (shift - QUARTER_SHIFT)) < workers) {
		shift++;
	}
	worker->words = words;
	worker->parts = parts;
	worker->slice_shift = shift;
	worker->queue_first = NONE;
	worker->queue_last = NONE;
}

// --- parts ----------------------------------------------------------------------------------

static uint32_t load(const struct weir_policy_worker *worker, uint16_t id) {
	return __atomic_load_n(&worker->words[id].held, __ATOMIC_RELAXED);
}

static void add(struct weir_policy_worker *worker, uint16_t id, uint32_t slots) {
	__atomic_fetch_add(&worker->words[id].held, slots, __ATOMIC_RELAXED);
	worker->parts[id].held += slots;
}

static void give_back(struct weir_policy_worker *worker, uint16_t id, uint32_t slots) {
	if (slots > 0) {
		__atomic_fetch_sub(&worker->words[id].held, slots, __ATOMIC_RELAXED);
		worker->parts[id].held -= slots;
	}
}

static uint32_t limit_of(
	const struct weir_policy_client *client, const struct weir_policy_backend *backend) {
	uint32_t own = UINT32_MAX - backend->withheld;
	uint32_t limit = client->limit < own ? client->limit : own;

	return backend->share.part != 0 ? weir_policy_part_of_limit(backend, limit) : limit;
}

// Returns the number of slots of the worker that are in use or reserved.
static uint32_t needed(const struct weir_policy_worker *worker, uint16_t id) {
	const struct weir_policy_backend *backend = &worker->backends[id];
	uint32_t established =
		backend->active > backend->half_open ? backend->active - backend->half_open : 0;

	return established + worker->parts[id].reserved;
}

static uint32_t idle(const struct weir_policy_worker *worker, uint16_t id) {
	uint32_t need = needed(worker, id);
	uint32_t held = worker->parts[id].held;

	return held > need ? held - need : 0;
}

// Returns a quarter of a number of slots, divided by the number of workers (rounded up to a power
// of two, at most 64); at least 1.
static uint32_t quarter(const struct weir_policy_worker *worker, uint32_t slots) {
	uint32_t quarter = slots >> worker->slice_shift;

	return quarter > 0 ? quarter : 1;
}

// Returns whether a number of half-open flows is higher than a quarter of the worker's share of the
// limit. Returns false if the limit is 0: the backend is closed, or its accept queue is full.
static bool is_many(const struct weir_policy_worker *worker, uint16_t id, uint32_t flows) {
	uint32_t own = UINT32_MAX - worker->backends[id].withheld;

	return own > 0 && flows > own >> worker->slice_shift;
}

static void drop_reservations(struct weir_limit_part *part, uint32_t slots) {
	part->reserved -= slots;
	part->before -= slots < part->before ? slots : part->before;
}

// --- queue: backends with idle slots or reservations ----------------------------------------

static void enqueue(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_limit_part *part = &worker->parts[id];

	if (part->queued != 0) {
		return;
	}
	part->queued = 1;
	part->next = NONE;
	if (worker->queue_first == NONE) {
		worker->queue_first = id;
	} else {
		worker->parts[worker->queue_last].next = id;
	}
	worker->queue_last = id;
	worker->queue_count++;
}

static uint16_t dequeue(struct weir_policy_worker *worker) {
	uint16_t id = worker->queue_first;

	worker->queue_first = worker->parts[id].next;
	worker->parts[id].queued = 0;
	worker->queue_count--;
	return id;
}

// Ends the reservations that were not confirmed within an interval of WEIR_LIMIT_HANDSHAKE_TICKS.
// After a pause of two intervals or more, ends all reservations.
static void age(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_limit_part *part = &worker->parts[id];
	uint32_t past = worker->tick - part->since;
	uint32_t stale = past < 2 * WEIR_LIMIT_HANDSHAKE_TICKS ? part->before : part->reserved;

	if (past < WEIR_LIMIT_HANDSHAKE_TICKS) {
		return;
	}
	if (stale > part->kept && is_many(worker, id, stale)) {
		part->mistrust = (worker->tick + WEIR_LIMIT_MISTRUST_TICKS) | 1;
	}
	drop_reservations(part, stale);
	part->before = part->reserved;
	part->kept = 0;
	part->since = worker->tick;
}

bool weir_shared_limit_turn(struct weir_policy_worker *worker, uint64_t now_ns) {
	uint32_t tick = (uint32_t)(now_ns >> WEIR_LIMIT_TICK_SHIFT);

	if (tick != worker->tick && worker->queue_due == 0) {
		worker->queue_due = worker->queue_count;
	}
	worker->tick = tick;
	for (uint32_t i = 0; i < WEIR_LIMIT_STEP && worker->queue_due > 0; i++) {
		uint16_t id = dequeue(worker);

		worker->queue_due--;
		age(worker, id);
		give_back(worker, id, idle(worker, id));
		if (worker->parts[id].reserved > 0) {
			enqueue(worker, id);
		}
	}
	return worker->queue_due > 0;
}

// --- admission --------------------------------------------------------------------------------

void weir_shared_limit_mark_full(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	uint32_t place = worker->backends[id].index;

	if (client->blocked == 0) {
		client->blocked = 1;
		client->blocked_tick = worker->tick;
		client->look += client->look == 0;
	}
	worker->backends[id].full = client->look & LOOKS;
	if (weir_window_is_loaded(worker, client, place) &&
		weir_window_id(worker, client, place) == id) {
		weir_window_set_key(weir_window_of(worker, client, place),
			place % WEIR_POLICY_WINDOW, WEIR_POLICY_KEY_NONE);
	}
}

bool weir_shared_limit_take(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	uint32_t limit = limit_of(client, &worker->backends[id]);
	uint32_t spare = idle(worker, id), taken = load(worker, id);

	if (spare > 0 && taken <= limit) {
		return true;
	}
	// Idle slots at this point mean that the workers hold more slots than the limit allows,
	// because the limit was lowered or flows were spilled.
	give_back(worker, id, spare);
	taken -= spare;
	for (uint32_t i = 0; i < WEIR_LIMIT_TRIES && taken < limit; i++) {
		uint32_t slice = quarter(worker, limit - taken);

		if (__atomic_compare_exchange_n(&worker->words[id].held, &taken, taken + slice,
			    false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			worker->parts[id].held += slice;
			enqueue(worker, id);
			return true;
		}
	}
	weir_shared_limit_mark_full(worker, client, id);
	return false;
}

bool weir_shared_limit_has_room(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint16_t id) {
	return load(worker, id) - idle(worker, id) < limit_of(client, &worker->backends[id]);
}

bool weir_shared_limit_look(
	const struct weir_policy_worker *worker, struct weir_policy_client *client) {
	if (client->blocked == 0 ||
		worker->tick - client->blocked_tick <= client->count / WEIR_POLICY_WINDOW) {
		return false;
	}
	client->blocked = 0;
	client->look = client->look % LOOKS + 1;
	client->exhausted = 0;
	client->spill_full = 0;
	return true;
}

// --- flows ----------------------------------------------------------------------------------

void weir_policy_count_shared(struct weir_policy_worker *worker, uint16_t id, bool counted) {
	struct weir_policy_backend *backend = &worker->backends[id];

	if (worker->words == NULL || (backend->counted != 0) == counted) {
		return;
	}
	backend->counted = counted;
	backend->full = 0;
	if (counted) {
		weir_shared_limit_follow(worker, id);
		return;
	}
	drop_reservations(&worker->parts[id], worker->parts[id].reserved);
	worker->parts[id].mistrust = 0;
	give_back(worker, id, worker->parts[id].held);
}

void weir_shared_limit_reserve(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_limit_part *part = &worker->parts[id];

	// If the pause has ended (`mistrust` is in the past), the difference wraps around.
	if (part->mistrust != 0 && part->mistrust - worker->tick > WEIR_LIMIT_MISTRUST_TICKS + 1) {
		part->mistrust = is_many(worker, id, worker->backends[id].half_open)
					 ? (worker->tick + WEIR_LIMIT_MISTRUST_TICKS) | 1
					 : 0;
	}
	if (part->mistrust != 0 || idle(worker, id) == 0) {
		return;
	}
	if (part->reserved == 0) {
		part->since = worker->tick;
		part->before = 0;
		part->kept = 0;
	}
	part->reserved++;
	enqueue(worker, id);
}

void weir_shared_limit_confirm(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_limit_part *part = &worker->parts[id];

	if (part->reserved > 0) {
		drop_reservations(part, 1);
		part->kept++;
		return; // the flow's slot is in use from now on
	}
	weir_shared_limit_follow(worker, id);
}

void weir_shared_limit_follow(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];
	struct weir_limit_part *part = &worker->parts[id];
	uint32_t need, spare;

	if (part->reserved > backend->half_open) {
		drop_reservations(part, part->reserved - backend->half_open);
	}
	need = needed(worker, id);
	if (part->held < need) {
		add(worker, id, need - part->held);
		return;
	}
	spare = part->held - need;
	if (spare == 0) {
		return;
	}
	if (spare > quarter(worker, UINT32_MAX - backend->withheld)) {
		give_back(worker, id, spare);
	}
	backend->full = 0;
	enqueue(worker, id);
}
