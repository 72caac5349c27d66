// SPDX-License-Identifier: BSD-3-Clause
//
// Grace: determines when workers have stopped using an unlinked object. This is
// quiescent-state-based reclamation, as in liburcu and rte_rcu_qsbr (Desnoyers et al.,
// "User-Level Implementations of Read-Copy Update", 2012). The state is in both memory areas of the
// segment: control writes the token, and each worker writes its word.
//
// control:  unlink;  token := T;  full fence;  ... for each worker: acquire word; is it T or later?
// worker:   acquire token, T;  (apply everything published before T;)  release word := T
//           going online:  release word := T;  full fence;  going offline:  release word := 0
//
// Why no worker uses an unlinked object after its grace period:
//   1. The worker reports T after it has acquired T: the unlinking is then visible to the worker,
//      which finds only objects that are still linked.
//   2. All earlier reads of the worker precede its release of the word, and control acquires the
//      word before it uses the memory again. Each store of the word must be a release, because
//      control may miss the 0 of a worker that went offline and online again.
//   3. A worker that goes online stores its word and then, after a full fence, reads the tables;
//      control unlinks and then, after a full fence, reads the word. At least one of the two reads
//      returns the new value (as in Dekker's algorithm): either control waits for that worker, or
//      the worker does not find the unlinked object.
// tests/litmus/grace.py enumerates the executions of cases 1 to 3 under the C11 memory model.
//
// Tokens are odd, so that no token is 0 ("offline"); a worker sets the lowest bit of any value it
// reads. A word reports a token if it is between this token and the newest token, modulo 2^64.
// weir_grace_open chooses the first token so that words that come from an earlier, faulty control
// process report no token of this process.
//
// Threads: one thread of control, the writer, calls the functions for control. Each worker calls
// the functions for a worker, only for itself.
#pragma once

#include "segment.h"

// --- control ---

struct weir_grace {
	struct weir_news *news;
	const struct weir_quiescence *words;
	uint32_t workers;
	uint64_t token; // the newest token
};

// Initializes the state of control. The first token is chosen so that no worker's current word
// reports this token or a later token.
static inline struct weir_grace weir_grace_open(const struct weir_segment *segment) {
	const uint64_t apart = UINT64_C(1)
			       << 48; // more than the number of tokens that a control process uses
	struct weir_grace grace = {.news = segment->news,
		.words = segment->quiescence,
		.workers = segment->workers,
		.token = __atomic_load_n(&segment->news->token, __ATOMIC_RELAXED) | 1};

	for (uint32_t i = 0; i < grace.workers; i++) {
		uint64_t word = __atomic_load_n(&grace.words[i].token, __ATOMIC_RELAXED);

		if (word != 0 && word - grace.token < apart) {
			grace.token = (word | 1) + 2 * apart;
			// start again with the first worker; happens at most 64 times
			i = UINT32_MAX;
		}
	}
	return grace;
}

// Start a grace period for all objects unlinked before this call. Returns the token of the grace
// period.
static inline uint64_t weir_grace_start(struct weir_grace *grace) {
	grace->token += 2;
	__atomic_store_n(&grace->news->token, grace->token, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return grace->token;
}

// Returns the first worker that is online and has not reported the token, or WEIR_WORKERS_MAX.
static inline uint32_t weir_grace_waits_for(const struct weir_grace *grace, uint64_t token) {
	for (uint32_t i = 0; i < grace->workers; i++) {
		uint64_t word = __atomic_load_n(&grace->words[i].token, __ATOMIC_ACQUIRE);

		if (word != 0 && word - token > grace->token - token) {
			return i;
		}
	}
	return WEIR_WORKERS_MAX;
}

// Returns true if the grace period is over, i.e. every worker has reported the token or is
// offline. Never waits.
static inline bool weir_grace_passed(const struct weir_grace *grace, uint64_t token) {
	return weir_grace_waits_for(grace, token) == WEIR_WORKERS_MAX;
}

// --- a worker ---

static inline uint64_t weir_grace_token(const struct weir_segment *segment) {
	return __atomic_load_n(&segment->news->token, __ATOMIC_ACQUIRE) | 1;
}

// Report that this worker uses no object that it found before it read `token`.
static inline void weir_grace_report(
	const struct weir_segment *segment, uint32_t worker, uint64_t token) {
	__atomic_store_n(&segment->quiescence[worker].token, token, __ATOMIC_RELEASE);
}

// Go online. From now on this worker may use tables, and grace periods wait for it.
static inline void weir_grace_online(const struct weir_segment *segment, uint32_t worker) {
	__atomic_store_n(
		&segment->quiescence[worker].token, weir_grace_token(segment), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Go offline. From now on this worker uses no table, and grace periods do not wait for it.
static inline void weir_grace_offline(const struct weir_segment *segment, uint32_t worker) {
	__atomic_store_n(&segment->quiescence[worker].token, 0, __ATOMIC_RELEASE);
}
