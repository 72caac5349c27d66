// SPDX-License-Identifier: BSD-3-Clause
//
// Replay windows: the sequence numbers received from each sender. For weir-agent: the senders are
// the balancers that probe it.
//
// A number is accepted once: if it is above all accepted ones, or not yet accepted within the
// WEIR_REPLAY_WINDOW before the highest, because datagrams can be reordered.
//
// Threads: one.
#pragma once

#include <stdint.h>

#define WEIR_REPLAY_WINDOW 64 // numbers
#define WEIR_REPLAY_SENDERS 64

enum weir_replay_verdict {
	WEIR_REPLAY_NEW, // the highest so far
	WEIR_REPLAY_LATE, // new, but lower than the highest: its content is outdated
	WEIR_REPLAY_SEEN, // or too far below the highest to decide
	WEIR_REPLAY_FULL, // no room for another sender
};

struct weir_replay_sender {
	uint64_t id; // valid if until_ms > 0
	uint64_t highest; // highest sequence number accepted
	uint64_t seen; // bit i: highest - i was accepted
	uint64_t until_ms; // may be reused for another sender from then on
};

struct weir_replay { // zeroed = empty
	struct weir_replay_sender sender[WEIR_REPLAY_SENDERS];
};

// Check a sequence number of a sender, whose datagram is authentic.
//
// now_ms   any monotonic clock
// keep_ms  how long the sender keeps its window while it is silent and another sender needs one
// If there is no free window the verdict is FULL, and nothing changes: an active sender is never
// displaced.
enum weir_replay_verdict weir_replay_take(struct weir_replay *replay, uint64_t sender,
	uint64_t sequence, uint64_t now_ms, uint64_t keep_ms);
