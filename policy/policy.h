// SPDX-License-Identifier: BSD-3-Clause
//
// Policies: which backend gets the next new flow of a service. One implementation for workers,
// simulator and tests. Each policy has its own file (policy_private.h is shared by them); users
// include only this header.
//
//   table     what control published for a service: its candidates, and the policy's settings
//   worker    a worker's state of all backends, by backend id: flows, errors, charges
//   client    one worker's state for one service: cursors and the window of a scan. The "client
//             task" of the SRE book, chapter 20.
//
// Life of a flow: choose -> started -> ended. A flow that was chosen but not entered into the flow
// table is never started: it moves the cursor and does not count as load. A flow may be half-open
// when it starts: it is load, but does not count towards the limit until it is established, or only
// while its handshake has reserved a slot (shared_limit.h).
//
// Cost: O(1), or a branch-free scan of the minima of at most WEIR_POLICY_EXACT candidates, one for
// each block of 16. With more candidates, a scanning policy compares two windows of
// WEIR_POLICY_WINDOW (window.h). Flow control searches further, but each candidate only once until
// flows have ended (flow_control.c).
//
// Threads: a worker and its clients belong to one thread. cost_ns is written by another one
// (relaxed stores of whole words, backend_signal.h). No allocation, no clock (time is an argument),
// no lock, no division in the common case.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_POLICY_WINDOW 128u // candidates of a window, and maximum number of steps per choice
#define WEIR_POLICY_EXACT 1024u // up to this number of candidates, scans cover all of them
#define WEIR_POLICY_SEARCH 4096u // maximum number per choice if none had room so far
#define WEIR_POLICY_ROOM 32u // list of backends that have room again
#define WEIR_POLICY_BLOCK 16u // places per block with a cached minimum
#define WEIR_POLICY_KEY_NONE UINT32_MAX
#define WEIR_POLICY_PROBES 16u // prequal: maximum number of probes of a client
#define WEIR_POLICY_ERROR_SLOTS 8u // time slots for counting recent errors

// X(NAME, "name", needs)
#define WEIR_POLICIES(X) \
	X(MAGLEV, "maglev", WEIR_NEEDS_SLOTS) \
	X(ROUND_ROBIN, "round-robin", 0) \
	X(LEAST_LOADED, "least-loaded", WEIR_NEEDS_ERRORS) \
	X(WEIGHTED_ROUND_ROBIN, "weighted-round-robin", 0) \
	X(INTERLEAVED_WEIGHTED_ROUND_ROBIN, "interleaved-weighted-round-robin", \
		WEIR_NEEDS_COST | WEIR_NEEDS_ROUNDS) \
	X(TIME_WEIGHTED_ROUND_ROBIN, "time-weighted-round-robin", WEIR_NEEDS_COST) \
	X(FAIR_SHARE, "fair-share", WEIR_NEEDS_COST) \
	X(RANDOM, "random", 0) \
	X(POWER_OF_TWO, "power-of-two", WEIR_NEEDS_ERRORS) \
	X(PREQUAL, "prequal", WEIR_NEEDS_PROBES)

// The inputs of a policy. Only these are collected for it.
#define WEIR_NEEDS_SLOTS 0x01u // to choose by a weighted Maglev table
#define WEIR_NEEDS_ROUNDS 0x02u // the rounds of the interleaved schedule
#define WEIR_NEEDS_ERRORS 0x04u // recent errors
#define WEIR_NEEDS_COST 0x08u // estimates of the service time
#define WEIR_NEEDS_PROBES 0x40u // reports of requests in progress and latency
#define WEIR_NEEDS_OF_POLICY 0x0fu // checked by workers: fixed for a policy
#define WEIR_NEEDS_TIMES 0x10u // flows' service times must be measured (set per table, by control)
#define WEIR_NEEDS_RESULTS 0x20u // established connections must be counted (set as TIMES)
#define WEIR_NEEDS_HALF_OPEN 0x80u // half-open flows of each backend must be shown (set as TIMES)

enum weir_policy {
#define X(name, key, needs) WEIR_POLICY_##name,
	WEIR_POLICIES(X)
#undef X
		WEIR_POLICY_COUNT,
};

// What happens to a new flow when every candidate has reached its limit of established flows.
// X(NAME, "name")
#define WEIR_WHEN_EXHAUSTED(X) X(SPILL, "spill") X(REJECT, "reject")
enum weir_when_exhausted {
#define X(name, key) WEIR_EXHAUSTED_##name,
	WEIR_WHEN_EXHAUSTED(X)
#undef X
};

// How a flow ended, as seen by policies.
enum weir_outcome {
	WEIR_OUTCOME_COMPLETED, // FIN, or RST of an established connection, or a UDP flow gone idle
	WEIR_OUTCOME_REFUSED, // by the backend: an error. Detectable only in its replies: weir-sim
	WEIR_OUTCOME_UNANSWERED, // half-open until the timeout: an error
	WEIR_OUTCOME_ABANDONED, // neither: reset by its client while half-open, evicted, or idle
				// too long
};

// A backend that may be chosen. In a published table: control writes, workers read.
struct weir_candidate { // 8 bytes
	uint16_t id; // backend id
	uint16_t stride; // weight scaled to 1..65535 (stride.h); weighted-round-robin only, else 0
	uint32_t weight; // effective, above 0
};
_Static_assert(sizeof(struct weir_candidate) == 8, "segment ABI");

// A round of the interleaved schedule: the candidates with at least this weight take part.
struct weir_round { // 8 bytes, ascending weights
	uint32_t weight;
	uint32_t first; // lowest index of a candidate that takes part
};
_Static_assert(sizeof(struct weir_round) == 8, "segment ABI");

// Interleaved: how much a candidate gets in a round that it takes part in (interleaved.c).
enum weir_rounds {
	WEIR_ROUNDS_INCREMENTAL, // time: the weight of the round minus that of the previous one
	WEIR_ROUNDS_DOCUMENTED, // time: the weight of the round
	WEIR_ROUNDS_TASKS, // one flow
};

// Settings of a service's policy, as published. 16 bytes.
struct weir_policy_settings {
	uint8_t policy; // enum weir_policy
	uint8_t needs; // WEIR_NEEDS_*; those of the policy, and configured ones
	uint8_t when_exhausted; // enum weir_when_exhausted
	uint8_t documented_rounds; // interleaved: enum weir_rounds
	// Established flows, per backend and worker; 0 = no limit. Workers that share limits have
	// them in the rows of backends.
	uint32_t max_active_flows;
	uint32_t error_window_ms; // how long an error counts as an active flow; > 0
	uint32_t sharers; // fair-share: workers of all instances that use a backend; 0 = 1
};
_Static_assert(sizeof(struct weir_policy_settings) == 16, "segment ABI");

// A published table. Pointers and counts are the reader's private copies, checked once; ids, slots
// and rounds are checked at every use.
struct weir_policy_table {
	const struct weir_candidate *candidates; // in control's order
	const uint16_t *slots; // Maglev table of the fallback: index into candidates
	const struct weir_round *rounds;
	uint32_t count; // of candidates; 0 = no backend can be chosen
	uint32_t slot_count;
	uint32_t round_count;
	struct weir_policy_settings settings;
};

struct weir_policy_worker;
struct weir_policy_client;

// Choose among table->count > 0 candidates. Returns a backend id below backend_count and below the
// limit, or WEIR_POLICY_NONE if the policy found none in WEIR_POLICY_WINDOW steps.
#define WEIR_POLICY_NONE UINT32_MAX
typedef uint32_t weir_policy_choice(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// Slow start, as published to workers: both 0 for a backend that is not in it. In a published row:
// control writes, workers read.
//   part   its fraction of its share (slow_start.h)
//   turns  its flows, as a multiple of the mean of its service's candidates
// Effect in each policy:
//   round-robin, weighted-round-robin, random   `part` of its turns
//   least-loaded, power-of-two                  its load counts as load over `part`; besides, it
//                                               gets at most `turns`: a load of 0 is 0 over any
//                                               part
//   fair-share                                  its cost counts as cost over `part`; while it is
//                                               predicted to be idle, `part` of its turns
//   time-weighted, interleaved                  `part` of the flows of its turn
//   prequal                                     it gets at most `turns`; without reports it is
//                                               random
//   maglev                                      nothing: its weight in the table is less
// A limit of active flows is multiplied by `part`, at least 1.
struct weir_policy_share {
	uint16_t part; // of WEIR_POLICY_PART_ONE
	uint16_t turns; // of WEIR_POLICY_TURNS_ONE
};
#define WEIR_POLICY_PART_ONE 65536u
#define WEIR_POLICY_TURNS_ONE 1024u
_Static_assert(sizeof(struct weir_policy_share) == 4, "segment ABI");

// prequal: the last report of a backend.
struct weir_probe {
	uint16_t id;
	uint16_t uses;
	uint32_t active; // requests in progress, including those started since
	uint32_t latency; // as in a signal
	uint32_t stamp;
};

// A worker's state of one backend. One cache line.
struct weir_policy_backend {
	uint64_t end_ns; // fair-share: predicted end of all flows given to it
	uint32_t active; // flows started and not ended
	uint32_t errors; // sum of error[]
	uint32_t error_tick; // tick of the newest of error[]
	uint16_t error[WEIR_POLICY_ERROR_SLOTS]; // by tick modulo slots
	uint8_t closed : 1; // takes no new flow, even when all others are at their limit
	uint8_t counted : 1; // its flows take slots of the limit that workers share
	uint8_t full : 6; // no slot was left at this look of its client; 0 = at none
	uint8_t serial; // of the share in `reported`; 0 = none
	uint16_t index; // of its candidate when a scan or flow control last looked; may be stale
	uint32_t half_open; // half-open flows; included in active
	uint32_t withheld; // UINT32_MAX minus its own limit of active flows; 0 = no own limit
	// Added to active, in WEIR_SIGNAL_FLOW: errors, as last read from its signal; and what was
	// missing then to its share of the reported requests.
	uint32_t reported;
	struct weir_policy_share share; // slow start
	uint32_t turns_seen; // client->turns when credit was last updated
	// Withheld so far: turns, in WEIR_POLICY_PART_ONE; or flows, in WEIR_POLICY_TURNS_ONE times
	// the number of candidates. A policy uses one of them; prequal switches to the other when
	// reports begin or end, at the cost of a few flows once.
	uint32_t credit;
};
_Static_assert(sizeof(struct weir_policy_backend) == 64, "one cache line");

// Memory for the keys of services with more than WEIR_POLICY_WINDOW candidates: a ring of places
// (window.h).
struct weir_policy_windows {
	uint32_t *key; // [size]
	uint32_t *least; // [size / WEIR_POLICY_BLOCK]
	uint16_t *id; // [size]
	uint64_t *stamp; // [size / WEIR_POLICY_WINDOW]
	uint32_t size; // places; a multiple of WEIR_POLICY_WINDOW
	uint32_t next; // place that the next service gets
	uint64_t head; // the same, never wrapping: the last `size` places before it are in use
	uint64_t stamps; // number of stamps given
};

// The slots of a backend's limit that workers hold: in use, reserved, or idle (shared_limit.h). All
// workers write it.
struct weir_limit_word {
	uint32_t held;
	uint32_t reserved[15];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct weir_limit_word) == 64, "segment ABI");

struct weir_limit_part;

struct weir_policy_worker {
	struct weir_policy_backend *backends; // [backend_count], zeroed at start, owned by the user
	// [backend_count] signals (backend_signal.h): service times, errors, shares or probes
	const uint64_t *cost_ns;
	uint32_t backend_count;
	uint32_t closed; // backends that are closed
	uint32_t rank; // 0 .. ranks - 1: workers start at different points of their schedules
	uint32_t ranks;
	uint64_t random; // state of the generator
	struct weir_policy_windows windows; // needed for more than WEIR_POLICY_WINDOW candidates
	// Shared limits (shared_limit.c).
	struct weir_limit_word *words; // [backend_count] NULL = each worker has its own limits
	struct weir_limit_part *parts; // [backend_count]
	uint32_t tick; // time, in WEIR_LIMIT_TICK_SHIFT
	uint32_t queue_count; // backends with idle slots or reservations
	uint32_t queue_due; // of these, to be looked at in this tick
	uint16_t queue_first, queue_last;
	uint8_t slice_shift;
};

// The memory that weir_policy_windows_init needs: about 19 bytes per backend, 0 for few.
uint64_t weir_policy_windows_bytes(uint32_t backend_count);

// Give a worker, whose backend_count is set, memory for windows: zeroed, 64-aligned, owned by the
// caller, who finds it in worker->windows.key. Also allowed in place of earlier memory.
void weir_policy_windows_init(struct weir_policy_worker *worker, void *memory);

// The same with memory of malloc, instead of earlier memory of malloc. For users without a packet
// path. Returns 0 or -ENOMEM.
int weir_policy_windows_alloc(struct weir_policy_worker *worker);

struct weir_policy_client {
	// The keys of a scanning policy (window.h): place p is candidate p. Those of up to
	// WEIR_POLICY_WINDOW candidates are here, of more in worker->windows.
	// Key that a scan minimises. WEIR_POLICY_KEY_NONE: at its limit, or empty.
	union {
		uint32_t key[WEIR_POLICY_WINDOW] __attribute__((aligned(64)));
		struct weir_probe probe[WEIR_POLICY_PROBES]; // prequal has no keys
	};
	// The minimum key of each block of places, so that a choice reads these and two blocks.
	uint32_t least[WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK];
	uint16_t id[WEIR_POLICY_WINDOW]; // backend ids of the places
	uint32_t window_count; // places in use
	uint32_t window_offset; // first place in worker->windows
	uint32_t window_room; // number of places there
	uint32_t lap_turns; // fair-share: choices since the last start of a lap
	uint64_t window_at; // worker->windows.head when they were taken
	uint64_t window_stamp; // windows with another stamp must be loaded anew
	// Cursors.
	uint32_t cursor; // candidate where a search starts
	uint32_t spill_cursor; // candidate where the search for a less loaded one begins
	uint32_t spill_full; // this many candidates before that one have no room, except spill_room
	uint32_t generation; // weighted-round-robin: generation of the stride schedule
	uint32_t phase; // weighted-round-robin: this worker's phase in the schedule
	uint32_t turns; // choices of policies that look at loads
	uint32_t round; // interleaved
	uint32_t
		round_weight; // interleaved: weight of the round, to find it again in another table
	uint32_t last_id; // weighted-round-robin: the last choice, as a fallback
	uint64_t spent_ns; // time-weighted, interleaved: used up in this turn
	uint64_t base_ns; // fair-share: base of the keys
	uint64_t virtual_ns; // fair-share: predicted end of the last choice before it was charged
	uint64_t lap_ns; // fair-share: virtual_ns at the last start of a lap; 0 = never
	uint64_t former_lap_ns; // fair-share: lap_ns of the previous lap
	// prequal.
	uint32_t probe_count;
	uint32_t probe_hot; // 256 times the number of active requests above which a probe is hot
	uint32_t
		probe_reuse; // 256 times the maximum uses of a probe; UINT32_MAX = until it expires
	uint32_t probe_turn; // flows, to remove a probe periodically
	uint32_t probe_room; // maximum number of probes in the pool
	// Recent errors.
	uint64_t tick_end_ns; // time of the next update of errors; never, unless they are collected
	uint64_t slot_end_ns; // end of the current tick
	uint64_t tick_ns; // length of a tick
	uint32_t tick;
	// The adopted table.
	uint32_t count; // candidates of the last nonempty table
	uint32_t limit; // of established flows; UINT32_MAX = none
	uint32_t limited; // backends of the service with a limit of their own
	uint32_t closed; // backends of the service that are closed
	weir_policy_choice *choose; // the policy's function
	struct weir_policy_settings settings;
	uint16_t spill_room[WEIR_POLICY_ROOM]; // backends where flows have ended since
	uint16_t spill_room_count;
	uint16_t cursor_id; // backend at the cursor, to find it again in the next table
	uint8_t exhausted; // all candidates are known to be at the limit
	uint8_t blocked; // some were full in this look
	uint8_t look; // number of the look at full backends, 1 to 63; 0 before the first
	uint32_t look_tick; // time of the next look
	uint8_t started; // the policy has adopted a table with candidates
	uint8_t reacts; // the policy handles starts of flows
	uint8_t reacts_to_end; // the policy handles ends of flows
	uint8_t limits; // some backend may be at a limit, or is closed
};

enum weir_chosen_how {
	WEIR_CHOSEN, // by the policy
	// All were at their limit (of more than WEIR_POLICY_SEARCH candidates: all that were
	// searched; the next choice searches others):
	WEIR_CHOSEN_SPILLED, // the least loaded one
	WEIR_CHOSEN_REJECTED, // no backend
	WEIR_CHOSEN_NOBODY, // the table has no candidate
};

struct weir_chosen {
	uint16_t id; // valid for WEIR_CHOSEN and _SPILLED, below worker->backend_count
	uint8_t how; // enum weir_chosen_how
};

// Adopt a published table: continue from the client's position. Keeps cursors and all state of
// backends. Call before the first choose with a new table. client zeroed at first.
void weir_policy_adopt(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns);

// The slow path of weir_policy_choose.
struct weir_chosen weir_policy_choose_slow(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);
// The policy found no backend: the least loaded candidate below the limit, or the result for
// exhaustion in the settings. table->count > 0. (flow_control.c)
struct weir_chosen weir_policy_fall_back(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table);

// The backend is below its limit again, while nearly all are at it.
void weir_policy_has_room(struct weir_policy_client *client, uint16_t id);

// The policy chose a backend whose last slot another worker has taken: choose another one.
struct weir_chosen weir_policy_choose_again(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// Have an idle slot of the shared limit of backend `id`. False: it is full. (shared_limit.c)
bool weir_shared_limit_take(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// The limit has room for a flow, and an idle slot is held for it. id < backend_count.
static inline bool weir_policy_admits(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	return __builtin_expect(worker->backends[id].counted == 0, 1) ||
	       weir_shared_limit_take(worker, client, id);
}

// Choose a backend for a new flow. hash is the flow's (policy/hash.h).
static inline struct weir_chosen weir_policy_choose(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns) {
	struct weir_chosen chosen = {.how = WEIR_CHOSEN};
	uint32_t id;

	if (table->count == 0 || now_ns >= client->tick_end_ns ||
		(client->exhausted | client->blocked) != 0) {
		return weir_policy_choose_slow(worker, client, table, hash, now_ns);
	}
	id = client->choose(worker, client, table, hash, now_ns);
	if (id == WEIR_POLICY_NONE) {
		return weir_policy_fall_back(worker, client, table);
	}
	if (!weir_policy_admits(worker, client, (uint16_t)id)) {
		return weir_policy_choose_again(worker, client, table, hash, now_ns);
	}
	chosen.id = (uint16_t)id;
	return chosen;
}

// Out-of-line part of the functions below, for policies that handle these events.
void weir_policy_react_started(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint64_t now_ns);
void weir_policy_react_resumed(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);
void weir_policy_react_ended(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, enum weir_outcome outcome, uint64_t now_ns);

// Set the slow start of backend id (< backend_count), of the client's service, or end it.
void weir_policy_set_share(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, struct weir_policy_share share);

// The reduced limit of a backend in slow start. (turns.c)
uint32_t weir_policy_part_of_limit(const struct weir_policy_backend *backend, uint32_t limit);

// Whether the backend has fewer established flows than the service's limit and its own. With a
// shared limit: whether a slot may be left, as far as this worker has seen.
static inline bool weir_policy_below_limit(
	const struct weir_policy_client *client, const struct weir_policy_backend *backend) {
	uint32_t own = UINT32_MAX - backend->withheld;
	uint32_t limit = client->limit < own ? client->limit : own;

	if (__builtin_expect(backend->share.part != 0, 0)) {
		limit = weir_policy_part_of_limit(backend, limit);
	}
	if (backend->counted != 0) {
		return limit > 0 && (backend->full == 0 || backend->full != client->look);
	}
	return backend->active < (uint64_t)limit + backend->half_open;
}

// Whether a slot of the shared limit of backend `id` could be taken now. (shared_limit.c)
bool weir_shared_limit_has_room(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint16_t id);

// Whether a choice of backend `id` (< backend_count) would be admitted now. Changes nothing.
static inline bool weir_policy_would_admit(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint16_t id) {
	const struct weir_policy_backend *backend = &worker->backends[id];

	return weir_policy_below_limit(client, backend) &&
	       (backend->counted == 0 || weir_shared_limit_has_room(worker, client, id));
}

// Limit the active flows on backend `id` (< backend_count) of the client's service, counted on this
// worker, or on all with weir_policy_count_shared; 0 = no new flow while another backend can take
// it, UINT32_MAX = none. It is not closed from then on. Also allowed before the client has adopted
// a table.
void weir_policy_set_limit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t limit);

// Count the flows of backend `id` (< backend_count) in the slots of its shared limit, or no longer.
// Counted: the limit is that of weir_policy_set_limit, for the flows of all workers. No effect if
// workers do not share limits. (shared_limit.c)
void weir_policy_count_shared(struct weir_policy_worker *worker, uint16_t id, bool counted);

// Parts of the functions below, for backends that are counted. (shared_limit.c)
void weir_shared_limit_reserve(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_confirm(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_follow(struct weir_policy_worker *worker, uint16_t id);

// Close backend `id` (< backend_count) of the client's service until weir_policy_set_limit: no new
// flow, though it may still be a candidate of the table, which is older.
void weir_policy_close(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// A flow started on backend `id` (< backend_count) of the client's service.
static inline void weir_policy_started(struct weir_policy_worker *worker,
	struct weir_policy_client *client, uint16_t id, uint64_t now_ns) {
	worker->backends[id].active++;
	if (__builtin_expect(worker->backends[id].counted != 0, 0)) {
		weir_shared_limit_follow(worker, id);
	}
	if (client->reacts != 0) {
		weir_policy_react_started(worker, client, id, now_ns);
	}
}

// Call before weir_policy_started for a half-open flow. Forged SYNs must not fill a backend's
// limit. handshake: it is established by a handshake, which reserves a slot of a shared limit.
static inline void weir_policy_half_open(
	struct weir_policy_worker *worker, uint16_t id, bool handshake) {
	if (__builtin_expect(worker->backends[id].counted != 0, 0) && handshake) {
		weir_shared_limit_reserve(worker, id);
	}
	worker->backends[id].half_open++;
}

// A flow is no longer half-open. Call before weir_policy_ended for one that was never established.
static inline void weir_policy_no_longer_half_open(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];

	backend->half_open -= backend->half_open > 0;
}

// A half-open flow was established.
static inline void weir_policy_established(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	weir_policy_no_longer_half_open(worker, id);
	if (__builtin_expect(worker->backends[id].counted != 0, 0)) {
		weir_shared_limit_confirm(worker, id);
	}
	if (client->reacts != 0 && client->limits != 0) {
		weir_policy_react_resumed(worker, client, id);
	}
}

// A flow that had ended continues after all: counted again, not charged again.
static inline void weir_policy_resumed(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	worker->backends[id].active++;
	if (__builtin_expect(worker->backends[id].counted != 0, 0)) {
		weir_shared_limit_follow(worker, id);
	}
	if (client->reacts != 0) {
		weir_policy_react_resumed(worker, client, id);
	}
}

// A flow that was started has ended, or finished its work.
static inline void weir_policy_ended(struct weir_policy_worker *worker,
	struct weir_policy_client *client, uint16_t id, enum weir_outcome outcome,
	uint64_t now_ns) {
	struct weir_policy_backend *backend = &worker->backends[id];

	backend->active -= backend->active > 0;
	if (__builtin_expect(backend->counted != 0, 0)) {
		weir_shared_limit_follow(worker, id);
	}
	if (weir_policy_below_limit(client, backend)) {
		client->exhausted = 0;
		if (client->spill_full != 0) {
			weir_policy_has_room(client, id);
		}
	}
	if (client->reacts_to_end != 0) {
		weir_policy_react_ended(worker, client, id, outcome, now_ns);
	}
}

// Established or half-open flows (half_open of them, never established so far) of a backend move
// between workers: one takes them, the other releases them. They are not charged again.
void weir_policy_take_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open);
void weir_policy_give_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open);

// The slot of a hash in a Maglev table: multiply and shift, no division. slots > 0.
static inline uint32_t weir_policy_slot(uint64_t hash, uint32_t slots) {
	return (uint32_t)(((hash >> 32) * slots) >> 32);
}

const char *weir_policy_name(enum weir_policy policy); // "unknown" when out of range
int weir_policy_parse(const char *name); // enum weir_policy or -EINVAL
uint8_t weir_policy_needs(enum weir_policy policy);
// Whether shares follow the weights. With every policy a weight of 0 means no new flows.
bool weir_policy_uses_weights(enum weir_policy policy);
