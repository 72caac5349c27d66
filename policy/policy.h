// SPDX-License-Identifier: BSD-3-Clause
//
// Policies: choose the backend for each new flow of a service. Workers, weir-control (policy
// compare), simulator and tests use the same implementation. Each policy has its own file, and the
// files share policy_private.h, which other folders do not include.
//
//   table     candidates and policy settings of a service, published by control
//   worker    a worker's state of all backends, by backend id: flows, errors, predicted costs
//   client    one worker's state for one service: cursors and the window of a scan. It is the
//             "client task" of the SRE book, chapter 20.
//
// Life of a flow: choose -> started -> ended. If a flow gets a backend but no entry in the flow
// table, `started` is not called: the choice has moved the cursor, but the flow does not count as
// load.
//
// A half-open flow counts as load. The flow counts towards the limit only when it is established,
// or when its handshake has reserved a slot (shared_limit.h).
//
// Cost of a choice: O(1) for most policies. Policies that scan store the minimum of each block of
// 16 candidates. With up to WEIR_POLICY_EXACT candidates, they scan all these minima without
// branches. With more candidates, they compare two windows of WEIR_POLICY_WINDOW candidates
// (window.h). Flow control searches up to WEIR_POLICY_SEARCH candidates. While all candidates are
// known to be at their limit, flow control stops at the first window with an open backend, or
// rejects flows without a search (flow_control.c).
//
// Threads: a worker and its clients belong to one thread. weir-control writes cost_ns (relaxed
// stores of whole words, backend_signal.h). No allocation (except weir_policy_windows_alloc), no
// clock (time is an argument), no lock, no division in the common case.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Number of candidates in a window, and maximum number of steps of a policy that goes from
// candidate to candidate.
#define WEIR_POLICY_WINDOW 128u
#define WEIR_POLICY_EXACT 1024u // up to this number of candidates, scans cover all of them
#define WEIR_POLICY_SEARCH 4096u // maximum number of candidates in one search of flow control
// Maximum length of the list of backends that have fallen below their limit (spill_room).
#define WEIR_POLICY_ROOM 32u
#define WEIR_POLICY_BLOCK 16u // number of keys in a block; the minimum of a block is stored
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

// The inputs of a policy, as bits. For each service, Weir collects only the inputs that its policy
// needs.
#define WEIR_NEEDS_SLOTS 0x01u // a weighted Maglev table
#define WEIR_NEEDS_ROUNDS 0x02u // rounds of the interleaved schedule
#define WEIR_NEEDS_ERRORS 0x04u // recent errors
#define WEIR_NEEDS_COST 0x08u // estimates of the service time
#define WEIR_NEEDS_PROBES 0x40u // reports of requests in progress and latency
#define WEIR_NEEDS_OF_POLICY 0x0fu // the bits that depend only on the policy and that workers check
// Workers measure the service times of flows. weir-control sets this bit if the service uses them.
#define WEIR_NEEDS_TIMES 0x10u
// Workers count established connections. weir-control sets this bit for ejection.
#define WEIR_NEEDS_RESULTS 0x20u
// Workers publish the half-open flows of each backend. weir-control sets this bit for stealing.
#define WEIR_NEEDS_HALF_OPEN 0x80u

enum weir_policy {
#define X(name, key, needs) WEIR_POLICY_##name,
	WEIR_POLICIES(X)
#undef X
		WEIR_POLICY_COUNT,
};

// Action for a new flow when every candidate has reached its limit of established flows. X(NAME,
// "name")
#define WEIR_WHEN_EXHAUSTED(X) X(SPILL, "spill") X(REJECT, "reject")
enum weir_when_exhausted {
#define X(name, key) WEIR_EXHAUSTED_##name,
	WEIR_WHEN_EXHAUSTED(X)
#undef X
};

// The fields of a flow that workers hash for policy maglev. X(NAME, "name")
#define WEIR_HASH_FIELDS(X) \
	X(TUPLE, "5-tuple") \
	X(SOURCE, "source") \
	X(SOURCE_DESTINATION, "source-destination")
enum weir_hash_fields {
#define X(name, key) WEIR_HASH_FIELDS_##name,
	WEIR_HASH_FIELDS(X)
#undef X
		WEIR_HASH_FIELDS_COUNT
};

// How a flow ended, as seen by policies.
enum weir_outcome {
	// FIN, RST after the handshake, or idle timeout of a UDP flow.
	WEIR_OUTCOME_COMPLETED,
	WEIR_OUTCOME_REFUSED, // refused by the backend; an error; detected only by weir-sim
	WEIR_OUTCOME_UNANSWERED, // half-open until the timeout; counts as an error
	// Not an error: the client has reset the half-open flow, the flow was evicted, moved or
	// deleted, or a TCP flow that is not UNANSWERED has timed out.
	WEIR_OUTCOME_ABANDONED,
};

// A backend that may be chosen, in a published table. Control writes it, and workers read it.
struct weir_candidate { // 8 bytes
	uint16_t id; // backend id
	// weighted-round-robin: weight scaled to 1..65535 (stride.h); least-loaded: inverse of the
	// weight, or 0 if all weights are equal (inverse_weight.h); else 0
	uint16_t stride;
	uint32_t weight; // effective weight, above 0
};
_Static_assert(sizeof(struct weir_candidate) == 8, "segment ABI");

// A round of the interleaved schedule: candidates with at least this weight take part.
struct weir_round { // 8 bytes, ascending weights
	uint32_t weight;
	uint32_t first; // lowest index of a candidate that takes part
};
_Static_assert(sizeof(struct weir_round) == 8, "segment ABI");

// Interleaved weighted round robin: the quota of a candidate in each of its rounds (interleaved.c).
enum weir_rounds {
	WEIR_ROUNDS_INCREMENTAL, // time: weight of the round minus weight of the previous round
	WEIR_ROUNDS_DOCUMENTED, // time: the weight of the round
	WEIR_ROUNDS_TASKS, // one flow
};

// Settings of a service's policy, as published. 16 bytes.
struct weir_policy_settings {
	uint8_t policy; // enum weir_policy
	uint8_t needs; // WEIR_NEEDS_*: inputs of the policy, and other configured inputs
	uint8_t when_exhausted; // enum weir_when_exhausted
	uint8_t rounds; // interleaved: enum weir_rounds, in WEIR_ROUNDS_BITS; and WEIR_UDP_DATAGRAM
	// Maximum number of established flows of each backend on each worker; 0 = no limit. A limit
	// that all workers share is in the backend's row in the segment instead.
	uint32_t max_active_flows;
	// How long an error counts as an active flow; > 0, also if the policy counts no errors.
	uint32_t error_window_ms;
	// fair-share: total number of workers of all instances that use a backend; 0 counts as 1
	uint16_t sharers;
	// The fields of a flow that determine its slot in the Maglev table, or its affinity entry
	// (WEIR_HASH_AFFINITY). 0 = the 5-tuple. Otherwise the number of leading bits of an IPv4
	// source address (1..32), and WEIR_HASH_* flags.
	uint8_t hash4;
	uint8_t hash6; // if hash4 > 0: number of leading bits of an IPv6 source address, 0..128
};
#define WEIR_ROUNDS_BITS 0x0fu
// Workers choose a backend for each UDP datagram of the service; the service has no UDP flows.
#define WEIR_UDP_DATAGRAM 0x80u
#define WEIR_HASH_BITS 0x3fu
#define WEIR_HASH_DESTINATION 0x40u // the destination address as well
#define WEIR_HASH_AFFINITY 0x80u // backends of sources are stored in affinity entries (affinity.h)
_Static_assert(sizeof(struct weir_policy_settings) == 16, "segment ABI");

static inline enum weir_rounds weir_policy_rounds(const struct weir_policy_settings *settings) {
	return (enum weir_rounds)(settings->rounds & WEIR_ROUNDS_BITS);
}

// Returns whether workers choose a backend for each UDP datagram, instead of for each UDP flow.
static inline bool weir_policy_by_datagram(const struct weir_policy_settings *settings) {
	return (settings->rounds & WEIR_UDP_DATAGRAM) != 0;
}

// A published table. The pointers and counts are private copies of the reader, and were checked
// when they were copied. Ids, slots and rounds are in shared memory, so they are checked at every
// use.
struct weir_policy_table {
	const struct weir_candidate *candidates; // candidates in control's order
	const uint16_t *slots; // Maglev table; its elements are indexes into candidates
	const struct weir_round *rounds;
	uint32_t count; // number of candidates; 0 = no backend can be chosen
	uint32_t slot_count;
	uint32_t round_count;
	struct weir_policy_settings settings;
	uint32_t affinity_ms; // timeout of affinity entries (affinity.h)
};

struct weir_policy_worker;
struct weir_policy_client;

// Choose a candidate of the table. table->count must be above 0. Returns the id (below
// backend_count) of a backend for which weir_policy_below_limit is true, or WEIR_POLICY_NONE. With
// WEIR_POLICY_NONE, such a backend may still exist: each policy stops after a fixed number of
// tries.
#define WEIR_POLICY_NONE UINT32_MAX
typedef uint32_t weir_policy_choice(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// The slow start of a backend, in its published row. weir-control writes it, and workers read it.
// part and turns are 0 if the backend is not in slow start.
//   part   the fraction of its share that the backend gets (slow_start.h)
//   turns  the maximum number of flows that the backend gets, as a multiple of the mean
//          number of flows of its service's candidates
// Effect in each policy:
//   round-robin, weighted-round-robin, random   the backend gets `part` of its turns
//   least-loaded, power-of-two                  the load counts as load / `part`. The backend also
//                                               gets at most `turns`, because a load of 0 stays
//                                               0 after a division
//   fair-share                                  the cost counts as cost / `part`; while the backend
//                                               is predicted to be idle, it gets `part` of its
//                                               turns
//   time-weighted, interleaved                  the backend gets `part` of the flows of its turn
//   prequal                                     the backend gets at most `turns`; without reports,
//                                               it gets `part` of its turns, as for random
//   maglev                                      none: the backend's weight in the table is lower
// A limit of active flows is multiplied by `part`; the result is at least 1, but a limit of 0 stays
// 0.
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
	// requests in progress when the probe was last drawn (reported, or the worker's own flows
	// if more), plus the flows for which the probe was chosen since
	uint32_t active;
	uint32_t latency; // units of latency and stamp: as in a signal (backend_signal.h)
	uint32_t stamp;
};

// A worker's state of one backend. One cache line.
struct weir_policy_backend {
	union {
		uint64_t end_ns; // fair-share: predicted end of all flows of the backend
		// least-loaded with different weights: factor of the load. If it is read as end_ns,
		// it is a time in the past.
		uint64_t factor;
	};
	uint32_t active; // number of flows that have started and not ended
	uint32_t errors; // recent errors: sum of error[]
	uint32_t error_tick; // tick of the newest element of error[]
	// Errors of the last ticks; index: tick modulo WEIR_POLICY_ERROR_SLOTS.
	uint16_t error[WEIR_POLICY_ERROR_SLOTS];
	uint8_t closed : 1; // gets no new flow, even if all other backends are at their limit
	uint8_t counted : 1; // flows use slots of a limit that workers share (shared_limit.h)
	// Value of client->look when the backend was found full; 0 = not full. Without effect while
	// client->blocked is 0.
	uint8_t full : 6;
	uint8_t serial; // serial number of the share that `reported` includes; 0 = none
	// Index among the candidates at the last scan or search; may be out of date.
	uint16_t index;
	uint32_t half_open; // half-open flows; included in active
	uint32_t withheld; // UINT32_MAX minus the backend's own limit of active flows; 0 = no limit
	// Added to the load, in units of 1 / WEIR_SIGNAL_FLOW flow. Sum of two parts: the errors
	// in the signal, and the worker's missing flows. Missing flows = the worker's share of
	// the reported requests minus its own flows when it read the signal, at least 0, times the
	// gain of the signal (recent_errors.h).
	uint32_t reported;
	struct weir_policy_share share; // slow start
	uint32_t turns_seen; // client->turns at the last call of weir_policy_has_turns
	// Slow start: the fraction of a turn or of a flow that the backend has earned and not
	// used yet (turns.c). The unit for turns is 1 / WEIR_POLICY_PART_ONE turn. The unit for
	// flows is 1 / (WEIR_POLICY_TURNS_ONE * number of candidates) flow. Each policy except
	// prequal uses only one of these units. prequal changes the unit when reports start or
	// stop arriving; a few flows then go to another backend.
	uint32_t credit;
};
_Static_assert(sizeof(struct weir_policy_backend) == 64, "one cache line");

// A worker's memory for the keys of services with more than WEIR_POLICY_WINDOW candidates. It is a
// ring of entries, each for the key of one candidate (window.h).
struct weir_policy_windows {
	uint32_t *key; // [size]
	uint32_t *least; // [size / WEIR_POLICY_BLOCK]
	uint16_t *id; // [size]
	uint64_t *stamp; // [size / WEIR_POLICY_WINDOW]
	uint32_t size; // number of entries; a multiple of WEIR_POLICY_WINDOW
	uint32_t next; // index of the first entry for the next service
	// Total number of entries allocated or skipped so far; only the last `size` of them are
	// still valid
	uint64_t head;
	uint64_t stamps; // number of stamps assigned so far
};

// The number of slots of a backend's shared limit that workers hold. A held slot is in use,
// reserved or idle (shared_limit.h). All workers write this word.
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
	// Index of this worker, 0 .. ranks - 1. Workers start their schedules at different
	// positions.
	uint32_t rank;
	uint32_t ranks;
	uint64_t random; // state of the generator
	struct weir_policy_windows
		windows; // for services with more than WEIR_POLICY_WINDOW candidates
	// Shared limits (shared_limit.c).
	struct weir_limit_word *words; // [backend_count] NULL = each worker has its own limits
	struct weir_limit_part *parts; // [backend_count]
	uint32_t tick; // current time, in units of 2^WEIR_LIMIT_TICK_SHIFT ns
	uint32_t queue_count; // number of backends that may have idle slots or reservations
	// Number of backends in the queue that must still be processed in this tick
	uint32_t queue_due;
	uint16_t queue_first, queue_last;
	uint8_t slice_shift;
};

// Returns the number of bytes that weir_policy_windows_init needs, about 19 per backend. Returns 0
// if no service can have more than WEIR_POLICY_WINDOW candidates.
uint64_t weir_policy_windows_bytes(uint32_t backend_count);

// Sets a worker's memory for windows. memory: weir_policy_windows_bytes bytes, zeroed, 64-byte
// aligned, owned by the caller; worker->windows.key points to it. The worker's backend_count must
// be set. May replace earlier memory.
void weir_policy_windows_init(struct weir_policy_worker *worker, void *memory);

// Like weir_policy_windows_init, but allocates the memory with calloc, and frees the memory of an
// earlier call. The caller frees worker->windows.key at the end. For programs without a packet
// path. Returns 0 or -ENOMEM.
int weir_policy_windows_alloc(struct weir_policy_worker *worker);

struct weir_policy_client {
	// The keys of a scanning policy (window.h): entry p is the key of candidate p. Keys of up
	// to WEIR_POLICY_WINDOW candidates are in this struct; more keys are in worker->windows.
	// WEIR_POLICY_KEY_NONE marks a backend at its limit, an invalid id or an unused entry.
	union {
		uint32_t key[WEIR_POLICY_WINDOW] __attribute__((aligned(64)));
		struct weir_probe probe[WEIR_POLICY_PROBES]; // prequal has no keys
	};
	// The minimum key of each block of entries.
	uint32_t least[WEIR_POLICY_WINDOW / WEIR_POLICY_BLOCK];
	uint16_t id[WEIR_POLICY_WINDOW]; // backend id of each entry
	uint32_t window_count; // number of entries in use
	uint32_t window_offset; // index of the client's first entry in worker->windows
	uint32_t window_room; // number of the client's entries in worker->windows
	uint32_t lap_turns; // fair-share: number of choices in the current lap
	uint64_t window_at; // value of worker->windows.head when the entries were allocated
	uint64_t window_stamp; // a window with another stamp must be loaded again
	// State of the next choice: positions, counts, generation and phase.
	uint32_t cursor; // candidate at which a search starts
	uint32_t spill_cursor; // candidate at which the search of flow control starts
	// Number of candidates before spill_cursor that are at their limit, except the candidates
	// in spill_room.
	uint32_t spill_full;
	uint32_t generation; // weighted-round-robin: generation of the stride schedule
	uint32_t phase; // weighted-round-robin: this worker's phase in the schedule
	uint32_t turns; // number of choices, for policies that use loads
	uint32_t round; // interleaved
	// interleaved: weight of the round, to find the round in the next table
	uint32_t round_weight;
	// weighted-round-robin: the last choice; it is repeated if the policy finds no candidate
	// with a turn
	uint32_t last_id;
	uint64_t spent_ns; // time-weighted, interleaved: time used in this turn
	uint64_t base_ns; // fair-share: end_ns that corresponds to key 0
	// fair-share: predicted end time of the last chosen backend, before its new flow was
	// added
	uint64_t virtual_ns;
	uint64_t lap_ns; // fair-share: virtual_ns at the last start of a lap; 0 = never
	uint64_t former_lap_ns; // fair-share: lap_ns of the previous lap
	// prequal.
	uint32_t probe_count;
	uint32_t probe_hot; // 256 times the number of active requests above which a probe is hot
	// 256 times the maximum number of uses of a probe; UINT32_MAX = no maximum
	uint32_t probe_reuse;
	uint32_t probe_turn; // number of flows; every few flows, a probe is removed
	uint32_t probe_room; // maximum number of probes in the pool
	// Recent errors.
	uint64_t tick_end_ns; // time of the next update of errors; UINT64_MAX = errors are not
			      // collected
	uint64_t slot_end_ns; // end of the current tick
	uint64_t tick_ns; // length of a tick
	uint32_t tick;
	// The adopted table.
	uint32_t count; // number of candidates in the last nonempty table
	uint32_t limit; // limit of established flows of each backend; UINT32_MAX = none
	uint32_t limited; // number of backends of the service with their own limit, not closed
	uint32_t closed; // number of closed backends of the service
	weir_policy_choice *choose; // the policy's function
	struct weir_policy_settings settings;
	// backends that have fallen below their limit since the search of flow control
	uint16_t spill_room[WEIR_POLICY_ROOM];
	uint16_t spill_room_count;
	uint16_t cursor_id; // backend at the cursor, to find the cursor in the next table
	uint8_t exhausted; // all candidates are known to be at the limit
	uint8_t blocked; // a backend was found full since the last check of full backends
	uint8_t look; // number of the last check of full backends, 1 to 63; 0 = no check yet
	// Least-loaded: the weights differ, so loads are multiplied by the backends' factors.
	uint8_t weighted : 1;
	uint8_t key_overflow : 1; // a product did not fit into its key: key_shift must grow
	uint8_t key_shift : 6; // number of low bits of a product that are not in the key
	uint32_t blocked_tick; // tick when `blocked` was set
	uint8_t started; // the policy has adopted a table with candidates
	uint8_t reacts; // the policy handles starts of flows
	uint8_t reacts_to_end; // the policy handles ends of flows
	uint8_t limits; // at least one backend has a limit or is closed
};

enum weir_chosen_how {
	WEIR_CHOSEN, // a backend chosen by the policy
	// SPILLED, REJECTED: all searched candidates were at their limit. A search covers at most
	// WEIR_POLICY_SEARCH candidates. If there are more candidates, the next choice searches
	// other candidates.
	WEIR_CHOSEN_SPILLED, // the least loaded candidate of the last searched block
	WEIR_CHOSEN_REJECTED, // no backend was chosen
	WEIR_CHOSEN_NONE, // the table has no candidate that is valid and not closed
};

struct weir_chosen {
	uint16_t id; // valid for WEIR_CHOSEN and _SPILLED, below worker->backend_count
	uint8_t how; // enum weir_chosen_how
};

// Adopts a published table. The state of backends is kept. Cursors are kept, so that choices
// continue where they stopped, except if the policy changes or if many candidates are added
// (policy.c). Call before the first choice with a new table. client must be zeroed before the first
// call of any function.
void weir_policy_adopt(struct weir_policy_worker *worker, struct weir_policy_client *client,
	const struct weir_policy_table *table, uint64_t now_ns);

// The slow path of weir_policy_choose.
struct weir_chosen weir_policy_choose_slow(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);
// Call when the policy has found no backend. Returns a candidate below the limit, if the search
// finds one; otherwise the result depends on when_exhausted. table->count > 0. (flow_control.c)
struct weir_chosen weir_policy_fall_back(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table);

// Records that the backend is below its limit again, for the next search of flow control.
void weir_policy_has_room(struct weir_policy_client *client, uint16_t id);

// Choose another backend, because the shared limit of the chosen backend has no free slot.
struct weir_chosen weir_policy_choose_again(struct weir_policy_worker *worker,
	struct weir_policy_client *client, const struct weir_policy_table *table, uint64_t hash,
	uint64_t now_ns);

// Get an idle slot of the shared limit of backend `id`. If no slot is left, or if
// WEIR_LIMIT_TRIES compare-and-swaps have failed, marks the backend as full and returns false.
// (shared_limit.c)
bool weir_shared_limit_take(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// Returns whether the shared limit of a backend that the policy has chosen has room for a flow. If
// so, the worker holds an idle slot for the flow after this call. Returns true if the limit is not
// shared: the policy has checked this limit. id < backend_count.
static inline bool weir_policy_admits(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id) {
	return __builtin_expect(worker->backends[id].counted == 0, 1) ||
	       weir_shared_limit_take(worker, client, id);
}

// Choose a backend for a new flow. hash: hash of the flow (policy/hash.h).
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

// Returns the reduced limit of a backend in slow start. (turns.c)
uint32_t weir_policy_part_of_limit(const struct weir_policy_backend *backend, uint32_t limit);

// Returns whether the backend has fewer established flows than the limit of the service and than
// its own limit. If the limit is shared: returns false only if the limit is 0, or if this worker
// has found the backend full since its last check of full backends.
static inline bool weir_policy_below_limit(
	const struct weir_policy_client *client, const struct weir_policy_backend *backend) {
	uint32_t own = UINT32_MAX - backend->withheld;
	uint32_t limit = client->limit < own ? client->limit : own;

	if (__builtin_expect(backend->share.part != 0, 0)) {
		limit = weir_policy_part_of_limit(backend, limit);
	}
	if (backend->counted != 0) {
		// Numbers of checks are used again, so an old mark can have the current number.
		// Such a mark has an effect only if another backend was found full since the last
		// check.
		return limit > 0 && (client->blocked == 0 || backend->full == 0 ||
					    backend->full != client->look);
	}
	return backend->active < (uint64_t)limit + backend->half_open;
}

// Returns whether a slot of the shared limit of backend `id` could be taken now. (shared_limit.c)
bool weir_shared_limit_has_room(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint16_t id);

// Returns whether backend `id` (< backend_count) could accept a new flow now. Changes nothing.
static inline bool weir_policy_would_admit(const struct weir_policy_worker *worker,
	const struct weir_policy_client *client, uint16_t id) {
	const struct weir_policy_backend *backend = &worker->backends[id];

	return weir_policy_below_limit(client, backend) &&
	       (backend->counted == 0 || weir_shared_limit_has_room(worker, client, id));
}

// Limits the active flows of backend `id` (< backend_count) of the client's service. The limit
// applies to the flows of this worker; after weir_policy_count_shared, to the flows of all
// workers together. limit: 0 = the backend gets new flows only by spilling, when all searched
// backends are at their limit; UINT32_MAX = no limit. Opens the backend if it is closed. Also
// allowed before the client has adopted a table.
void weir_policy_set_limit(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t limit);

// Starts (counted = true) or stops using the shared limit of backend `id` (< backend_count).
// While the shared limit is used, the limit from weir_policy_set_limit applies to the flows of all
// workers together. Stopping gives all slots of this worker back. No effect if workers do not share
// limits. (shared_limit.c)
void weir_policy_count_shared(struct weir_policy_worker *worker, uint16_t id, bool counted);

// Parts of weir_policy_started, weir_policy_ended and similar functions, for backends with a shared
// limit. (shared_limit.c)
void weir_shared_limit_reserve(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_confirm(struct weir_policy_worker *worker, uint16_t id);
void weir_shared_limit_follow(struct weir_policy_worker *worker, uint16_t id);

// Close backend `id` (< backend_count) of the client's service until weir_policy_set_limit. A
// closed backend gets no new flow, even while an older table still contains it.
void weir_policy_close(
	struct weir_policy_worker *worker, struct weir_policy_client *client, uint16_t id);

// Call when a flow has started on backend `id` (< backend_count) of the client's service.
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

// Call before weir_policy_started for a half-open flow. The flow then does not count as
// established, so that forged SYNs do not use up a backend's limit. handshake: true = the flow
// begins with a handshake; if the limit is shared, the flow reserves an idle slot, if there is one.
static inline void weir_policy_half_open(
	struct weir_policy_worker *worker, uint16_t id, bool handshake) {
	if (__builtin_expect(worker->backends[id].counted != 0, 0) && handshake) {
		weir_shared_limit_reserve(worker, id);
	}
	worker->backends[id].half_open++;
}

// Call before weir_policy_ended for a flow that is still half-open. weir_policy_established calls
// this function.
static inline void weir_policy_no_longer_half_open(struct weir_policy_worker *worker, uint16_t id) {
	struct weir_policy_backend *backend = &worker->backends[id];

	backend->half_open -= backend->half_open > 0;
}

// Call when a half-open flow becomes established.
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

// Call when a flow that had ended continues. The flow counts as active again, but its cost is not
// added again.
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

// Call when a started flow has ended. outcome: how the flow ended.
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

// Call when flows of a backend move between workers: take_flows on the new worker, give_flows on
// the previous worker. active: number of moved flows; half_open: how many of them are half-open.
// The costs of moved flows are not added again.
void weir_policy_take_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open);
void weir_policy_give_flows(struct weir_policy_worker *worker, struct weir_policy_client *client,
	uint16_t id, uint32_t active, uint32_t half_open);

// Returns the slot of a hash in a Maglev table, by a multiplication and a shift instead of a
// division. slots > 0.
static inline uint32_t weir_policy_slot(uint64_t hash, uint32_t slots) {
	return (uint32_t)(((hash >> 32) * slots) >> 32);
}

const char *weir_policy_name(enum weir_policy policy); // "unknown" when out of range
int weir_policy_parse(const char *name); // enum weir_policy or -EINVAL
uint8_t weir_policy_needs(enum weir_policy policy);
// Returns whether the cost of a flow includes the charge of its backend (reported_share.h).
static inline bool weir_policy_charges(enum weir_policy policy) {
	return policy == WEIR_POLICY_FAIR_SHARE;
}
// Returns whether the shares of backends depend on their weights. With every policy, a backend with
// weight 0 gets no new flows.
bool weir_policy_uses_weights(enum weir_policy policy);
