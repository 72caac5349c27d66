// SPDX-License-Identifier: BSD-3-Clause
//
// Policies: which backend gets the next new flow of a service. One implementation for workers,
// simulator and tests. Each policy has its own file (policy_private.h is shared by them); users
// include only this header.
//
//   table     candidates and policy settings of a service, published by control
//   worker    a worker's state of all backends, by backend id: flows, errors, charges
//   client    one worker's state for one service: cursors and the window of a scan. The "client
//             task" of the SRE book, chapter 20.
//
// Life of a flow: choose -> started -> ended. A flow that was chosen but not entered into the flow
// table is never started: the choice moves the cursor, and the flow does not count as load. A
// half-open flow counts as load, but not towards the limit until the flow is established, unless
// its handshake has reserved a slot (shared_limit.h).
//
// Cost: O(1), or a branch-free scan of the minima of at most WEIR_POLICY_EXACT candidates, one for
// each block of 16. With more candidates, a scanning policy compares two windows of
// WEIR_POLICY_WINDOW (window.h). Flow control searches more candidates, but each candidate only
// once until flows have ended (flow_control.c).
//
// Threads: a worker and its clients belong to one thread. cost_ns is written by a thread of control
// (relaxed stores of whole words, backend_signal.h). No allocation, no clock (time is an argument),
// no lock, no division in the common case.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_POLICY_WINDOW 128u // candidates of a window, and maximum number of steps per choice
#define WEIR_POLICY_EXACT 1024u // up to this number of candidates, scans cover all of them
#define WEIR_POLICY_SEARCH 4096u // maximum number of candidates searched per choice
#define WEIR_POLICY_ROOM 32u // length of the list of backends that are below their limit again
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

// The inputs of a policy: only inputs in this mask are collected for the policy's services.
#define WEIR_NEEDS_SLOTS 0x01u // a weighted Maglev table
#define WEIR_NEEDS_ROUNDS 0x02u // rounds of the interleaved schedule
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
	WEIR_OUTCOME_COMPLETED, // FIN, RST of an established connection, or idle timeout of a UDP
				// flow
	WEIR_OUTCOME_REFUSED, // refused by the backend: an error. Detected by weir-sim only
	WEIR_OUTCOME_UNANSWERED, // half-open until the timeout: an error
	WEIR_OUTCOME_ABANDONED, // no error: reset by its client while half-open, evicted, or idle
				// too long
};

// A backend that may be chosen. In a published table: control writes, workers read.
struct weir_candidate { // 8 bytes
	uint16_t id; // backend id
	uint16_t stride; // weight scaled to 1..65535 (stride.h); weighted-round-robin only, else 0
	uint32_t weight; // effective, above 0
};
_Static_assert(sizeof(struct weir_candidate) == 8, "segment ABI");

// A round of the interleaved schedule: candidates with at least this weight take part.
struct weir_round { // 8 bytes, ascending weights
	uint32_t weight;
	uint32_t first; // lowest index of a candidate that takes part
};
_Static_assert(sizeof(struct weir_round) == 8, "segment ABI");

// Interleaved: share of a candidate in each of its rounds (interleaved.c).
enum weir_rounds {
	WEIR_ROUNDS_INCREMENTAL, // time: weight of the round minus weight of the previous round
	WEIR_ROUNDS_DOCUMENTED, // time: the weight of the round
	WEIR_ROUNDS_TASKS, // one flow
};

// Settings of a service's policy, as published. 16 bytes.
struct weir_policy_settings {
	uint8_t policy; // enum weir_policy
	uint8_t needs; // WEIR_NEEDS_*: inputs of the policy, and configured inputs
	uint8_t when_exhausted; // enum weir_when_exhausted
	uint8_t documented_rounds; // interleaved: enum weir_rounds
	// Maximum number of established flows, per backend and worker; 0 = no limit. Limits that
	// workers share are in the rows of backends instead.
	uint32_t max_active_flows;
	uint32_t error_window_ms; // how long an error counts as an active flow; > 0
	uint32_t sharers; // fair-share: workers of all instances that use a backend; 0 = 1
};
_Static_assert(sizeof(struct weir_policy_settings) == 16, "segment ABI");

// A published table. Pointers and counts are the reader's private copies, checked once; ids, slots
// and rounds are checked at every use.
struct weir_policy_table {
	const struct weir_candidate *candidates; // candidates in control's order
	const uint16_t *slots; // Maglev table of the fallback: index into candidates
	const struct weir_round *rounds;
	uint32_t count; // number of candidates; 0 = no backend can be chosen
	uint32_t slot_count;
	uint32_t round_count;
	struct weir_policy_settings settings;
};

struct weir_policy_worker;
struct weir_policy_client;

// Choose among table->count > 0 candidates. Returns the id (below backend_count) of a backend below
// its limit, or WEIR_POLICY_NONE if the policy found no such backend in WEIR_POLICY_WINDOW steps.
#define WEIR_POLICY_NONE UINT32_MAX
typedef uint32_t weir_policy_choice(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// Slow start of a backend, as published to workers; part and turns are 0 for a backend that is not
// in slow start. In a published row: control writes, workers read.
//   part   fraction of the backend's share (slow_start.h)
//   turns  the backend's flows, as a multiple of the mean of its service's candidates
// Effect in each policy:
//   round-robin, weighted-round-robin, random   the backend gets `part` of its turns
//   least-loaded, power-of-two                  the load counts as load / `part`. The backend also
//                                               gets at most `turns`, because a load of 0 is 0 for
//                                               any part
//   fair-share                                  the cost counts as cost / `part`; while the backend
//                                               is predicted to be idle, it gets `part` of its
//                                               turns
//   time-weighted, interleaved                  the backend gets `part` of the flows of its turn
//   prequal                                     the backend gets at most `turns`; without reports,
//                                               as for random
//   maglev                                      none: the backend's weight in the table is lower
// A limit of active flows is multiplied by `part`, at least 1.
struct weir_policy_share {
	uint16_t part; // in units of 1 / WEIR_POLICY_PART_ONE
	uint16_t turns; // in units of 1 / WEIR_POLICY_TURNS_ONE
};
#define WEIR_POLICY_PART_ONE 65536u
#define WEIR_POLICY_TURNS_ONE 1024u
_Static_assert(sizeof(struct weir_policy_share) == 4, "segment ABI");

// prequal: the last report of a backend.
struct weir_probe {
	uint16_t id;
	uint16_t uses;
	uint32_t active; // requests in progress, including flows started since the report
	uint32_t latency; // units as in a signal (backend_signal.h)
	uint32_t stamp;
};

// A worker's state of one backend. One cache line.
struct weir_policy_backend {
	uint64_t end_ns; // fair-share: predicted end of all flows given to the backend
	uint32_t active; // flows started and not ended
	uint32_t errors; // sum of error[]
	uint32_t error_tick; // tick of the newest of error[]
	uint16_t error[WEIR_POLICY_ERROR_SLOTS]; // by tick modulo slots
	uint8_t closed : 1; // takes no new flow, even when all other backends are at their limit
	uint8_t counted : 1; // flows take slots of the limit that workers share
	uint8_t full : 6; // client->look when no slot was left; 0 = not full
	uint8_t serial; // serial of the share in `reported`; 0 = none
	uint16_t index; // candidate's index at the last scan or flow control; may be stale
	uint32_t half_open; // half-open flows; included in active
	uint32_t withheld; // UINT32_MAX minus the backend's own limit of active flows; 0 = none
	// Added to active, in WEIR_SIGNAL_FLOW: errors as last read from the signal, and the number
	// by which the worker's flows were then below its share of the reported requests.
	uint32_t reported;
	struct weir_policy_share share; // slow start
	uint32_t turns_seen; // client->turns when credit was last updated
	// Withheld so far: turns, in WEIR_POLICY_PART_ONE; or flows, in WEIR_POLICY_TURNS_ONE times
	// the number of candidates. A policy uses one unit; prequal changes the unit when reports
	// begin or end, which misplaces a few flows.
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
	uint32_t next; // first place for the next service
	uint64_t head; // `next` without wrapping: the last `size` places before head are in use
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
	struct weir_policy_backend
		*backends; // [backend_count], zeroed at start, owned by the caller
	// [backend_count] signals (backend_signal.h): service times, errors, shares or probes
	const uint64_t *cost_ns;
	uint32_t backend_count;
	uint32_t closed; // number of closed backends
	uint32_t rank; // 0 .. ranks - 1: workers start their schedules at different points
	uint32_t ranks;
	uint64_t random; // state of the generator
	struct weir_policy_windows
		windows; // for services with more than WEIR_POLICY_WINDOW candidates
	// Shared limits (shared_limit.c).
	struct weir_limit_word *words; // [backend_count] NULL = each worker has its own limits
	struct weir_limit_part *parts; // [backend_count]
	uint32_t tick; // time, in units of 2^WEIR_LIMIT_TICK_SHIFT ns
	uint32_t queue_count; // backends with idle slots or reservations
	uint32_t queue_due; // backends in the queue still to be processed in this tick
	uint16_t queue_first, queue_last;
	uint8_t slice_shift;
};

// The memory that weir_policy_windows_init needs: about 19 bytes per backend, 0 for few.
uint64_t weir_policy_windows_bytes(uint32_t backend_count);

// Set a worker's memory for windows: zeroed, 64-aligned, owned by the caller; worker->windows.key
// points to the memory. The worker's backend_count must be set. May replace earlier memory.
void weir_policy_windows_init(struct weir_policy_worker *worker, void *memory);

// Set a worker's memory for windows, allocated by malloc; frees memory of an earlier call. For
// programs without a packet path. Returns 0 or -ENOMEM.
int weir_policy_windows_alloc(struct weir_policy_worker *worker);

struct weir_policy_client {
	// The keys of a scanning policy (window.h): place p is candidate p. Keys of up to
	// WEIR_POLICY_WINDOW candidates are in this struct; more keys are in worker->windows.
	// WEIR_POLICY_KEY_NONE marks a backend at its limit or an empty place.
	union {
		uint32_t key[WEIR_POLICY_WINDOW] __attribute__((aligned(64)));
		struct weir_probe probe[WEIR_POLICY_PROBES]; // prequal has no keys
	};
	// The minimum key of each block of places. A choice reads the minima and two blocks.
	uint32_t least[WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK];
	uint16_t id[WEIR_POLICY_WINDOW]; // backend ids of the places
	uint32_t window_count; // places in use
	uint32_t window_offset; // first place in worker->windows
	uint32_t window_room; // number of places in worker->windows
	uint32_t lap_turns; // fair-share: choices since the last start of a lap
	uint64_t window_at; // worker->windows.head when the places were taken
	uint64_t window_stamp; // windows with another stamp must be loaded anew
	// Cursors.
	uint32_t cursor; // candidate where a search starts
	uint32_t spill_cursor; // candidate where the search for a less loaded candidate begins
	uint32_t spill_full; // candidates before spill_cursor at their limit, except spill_room
	uint32_t generation; // weighted-round-robin: generation of the stride schedule
	uint32_t phase; // weighted-round-robin: this worker's phase in the schedule
	uint32_t turns; // choices of policies that use loads
	uint32_t round; // interleaved
	uint32_t round_weight; // interleaved: weight of the round, to find the round in the next
			       // table
	uint32_t last_id; // weighted-round-robin: the last choice, as a fallback
	uint64_t spent_ns; // time-weighted, interleaved: time used in this turn
	uint64_t base_ns; // fair-share: base of the keys
	uint64_t virtual_ns; // fair-share: predicted end of the last choice before it was charged
	uint64_t lap_ns; // fair-share: virtual_ns at the last start of a lap; 0 = never
	uint64_t former_lap_ns; // fair-share: lap_ns of the previous lap
	// prequal.
	uint32_t probe_count;
	uint32_t probe_hot; // 256 times the number of active requests above which a probe is hot
	uint32_t
		probe_reuse; // 256 times the maximum uses of a probe; UINT32_MAX = until it expires
	uint32_t probe_turn; // number of flows, for the periodic removal of probes
	uint32_t probe_room; // maximum number of probes in the pool
	// Recent errors.
	uint64_t tick_end_ns; // time of the next update of errors; UINT64_MAX = errors are not
			      // collected
	uint64_t slot_end_ns; // end of the current tick
	uint64_t tick_ns; // length of a tick
	uint32_t tick;
	// The adopted table.
	uint32_t count; // candidates of the last nonempty table
	uint32_t limit; // limit of established flows; UINT32_MAX = none
	uint32_t limited; // backends of the service with a limit of their own
	uint32_t closed; // backends of the service that are closed
	weir_policy_choice *choose; // the policy's function
	struct weir_policy_settings settings;
	uint16_t spill_room[WEIR_POLICY_ROOM]; // backends where flows have ended since the search
	uint16_t spill_room_count;
	uint16_t cursor_id; // backend at the cursor, to find the cursor in the next table
	uint8_t exhausted; // all candidates are known to be at the limit
	uint8_t blocked; // a backend was found full since the last check
	uint8_t look; // number of the check of full backends, 1 to 63; 0 before the first
	uint32_t look_tick; // tick of the next check of full backends
	uint8_t started; // the policy has adopted a table with candidates
	uint8_t reacts; // the policy handles starts of flows
	uint8_t reacts_to_end; // the policy handles ends of flows
	uint8_t limits; // some backend may be at a limit, or is closed
};

enum weir_chosen_how {
	WEIR_CHOSEN, // a backend chosen by the policy
	// All candidates were at their limit (of more than WEIR_POLICY_SEARCH candidates, all
	// searched candidates; the next choice searches other candidates):
	WEIR_CHOSEN_SPILLED, // the least loaded candidate
	WEIR_CHOSEN_REJECTED, // no backend
	WEIR_CHOSEN_NOBODY, // the table has no candidate
};

struct weir_chosen {
	uint16_t id; // valid for WEIR_CHOSEN and _SPILLED, below worker->backend_count
	uint8_t how; // enum weir_chosen_how
};

// Adopt a published table and continue from the client's position. Keeps cursors and all state of
// backends. Call before the first choice with a new table. client is zeroed before the first call.
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

// Record that the backend is below its limit again, while nearly all backends are at their limit.
void weir_policy_has_room(struct weir_policy_client *client, uint16_t id);

// Choose another backend, because another worker has taken the last slot of the chosen backend.
struct weir_chosen weir_policy_choose_again(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// Get an idle slot of the shared limit of backend `id`. Returns false if no slot is left.
// (shared_limit.c)
bool weir_shared_limit_take(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// Whether the backend's limit has room for a flow, for which an idle slot is then held. id <
// backend_count.
static inline bool weir_policy_admits(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	return __builtin_expect(worker->backends[id].counted == 0, 1) ||
	       weir_shared_limit_take(worker, client, id);
}

// Choose a backend for a new flow. hash: of the flow (policy/hash.h).
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

// Out-of-line parts of weir_policy_started, weir_policy_ended and similar functions, for policies
// that handle starts and ends of flows.
void weir_policy_react_started(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint64_t now_ns);
void weir_policy_react_resumed(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);
void weir_policy_react_ended(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, enum weir_outcome outcome, uint64_t now_ns);

// Set or end the slow start of backend id (< backend_count) of the client's service.
void weir_policy_set_share(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, struct weir_policy_share share);

// The reduced limit of a backend in slow start. (turns.c)
uint32_t weir_policy_part_of_limit(const struct weir_policy_backend *backend, uint32_t limit);

// Whether the backend has fewer established flows than the service's limit and its own. With a
// shared limit: whether a slot may be left, according to the last check of this worker.
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
// worker, or on all workers after weir_policy_count_shared. 0 = no new flow while another backend
// is below its limit, UINT32_MAX = no limit. A closed backend is open afterwards. Also allowed
// before the client has adopted a table.
void weir_policy_set_limit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t limit);

// Start or stop counting the flows of backend `id` (< backend_count) in the slots of its shared
// limit. While flows are counted, the limit of weir_policy_set_limit applies to the flows of all
// workers. No effect if workers do not share limits. (shared_limit.c)
void weir_policy_count_shared(struct weir_policy_worker *worker, uint16_t id, bool counted);

// Parts of weir_policy_started, weir_policy_ended and similar functions, for backends with a shared
// limit. (shared_limit.c)
void weir_shared_limit_reserve(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_confirm(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_follow(struct weir_policy_worker *worker, uint16_t id);

// Close backend `id` (< backend_count) of the client's service until weir_policy_set_limit. A
// closed backend gets no new flow, even while an older table still has the backend as a candidate.
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

// Call before weir_policy_started for a half-open flow, so that forged SYNs do not fill a backend's
// limit. handshake: the flow is established by a handshake, which reserves a slot of a shared
// limit.
static inline void weir_policy_half_open(
	struct weir_policy_worker *worker, uint16_t id, bool handshake) {
	if (__builtin_expect(worker->backends[id].counted != 0, 0) && handshake) {
		weir_shared_limit_reserve(worker, id);
	}
	worker->backends[id].half_open++;
}

// A flow is no longer half-open. Call before weir_policy_ended for a flow that was never
// established.
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

// A flow that had ended continues after all: the flow counts again, but is not charged again.
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

// A started flow has ended, or has finished its work.
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

// Flows of a backend move between workers: one worker takes the flows, another worker releases
// them. half_open: number of half-open flows, never established so far. Moved flows are not charged
// again.
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
