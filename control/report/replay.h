// SPDX-License-Identifier: BSD-3-Clause
//
// Replay windows: store the sequence numbers that were received from each sender. Used by
// weir-agent. The senders are the balancers that probe the agent.
//
// Each number is accepted at most once, until another sender reuses the sender's expired window. A
// number above all accepted numbers is accepted. Datagrams can be reordered, so a number less than
// WEIR_REPLAY_WINDOW below the highest accepted number is also accepted, if it was not accepted
// before.
//
// Threads: one.
#pragma once

#include <stdint.h>

#define WEIR_REPLAY_WINDOW 64 // size of a window, in sequence numbers
#define WEIR_REPLAY_SENDERS 64

enum weir_replay_verdict {
	WEIR_REPLAY_NEW, // the highest number so far
	WEIR_REPLAY_LATE, // new, but lower than the highest number: the datagram is outdated
	// accepted before, or too old: WEIR_REPLAY_WINDOW or more below the highest number
	WEIR_REPLAY_SEEN,
	WEIR_REPLAY_FULL, // there is no unused or expired window for the sender
};

struct weir_replay_sender {
	uint64_t id; // valid if until_ms > 0
	uint64_t highest; // highest sequence number accepted
	uint64_t seen; // bit i: highest - i was accepted
	uint64_t until_ms; // time from which another sender may reuse the window
};

struct weir_replay { // zeroed = empty
	struct weir_replay_sender sender[WEIR_REPLAY_SENDERS];
};

// Check the sequence number of an authentic datagram.
//
// now_ms: any monotonic clock. keep_ms: the window of a sender expires this long after the last
// accepted datagram. Another sender may then reuse the window. If no window is unused or expired,
// returns FULL and changes nothing: a window that has not expired is never reused.
enum weir_replay_verdict weir_replay_take(struct weir_replay *replay, uint64_t sender,
	uint64_t sequence, uint64_t now_ms, uint64_t keep_ms);
