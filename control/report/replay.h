// SPDX-License-Identifier: BSD-3-Clause
//
// Replay windows: which sequence numbers of each sender were seen. For weir-agent: the senders are
// the balancers that probe it.
//
// A number is taken once: if it is above all that were taken, or among the WEIR_REPLAY_WINDOW
// before the highest and not taken yet, as datagrams overtake one another.
//
// Threads: one.
#pragma once

#include <stdint.h>

#define WEIR_REPLAY_WINDOW 64 // numbers
#define WEIR_REPLAY_SENDERS 64

enum weir_replay_verdict {
	WEIR_REPLAY_NEW, // the highest so far
	WEIR_REPLAY_LATE, // not seen before, but a higher one was: it says nothing new
	WEIR_REPLAY_SEEN, // or too far below the highest to tell
	WEIR_REPLAY_FULL, // no room for another sender
};

struct weir_replay_sender {
	uint64_t id; // valid if until_ms > 0
	uint64_t highest; // sequence number taken
	uint64_t seen; // bit i: highest - i was taken
	uint64_t until_ms; // may give way to another sender from then on
};

struct weir_replay { // zeroed = nothing seen
	struct weir_replay_sender sender[WEIR_REPLAY_SENDERS];
};

// Take a number of a sender, whose datagram was found authentic before.
//
// now_ms   any clock that never goes back
// keep_ms  the sender keeps its window for so long, even if it is silent and another needs room
// Without room the verdict is FULL, and nothing changes: nobody drives out a sender that is heard.
enum weir_replay_verdict weir_replay_take(struct weir_replay *replay, uint64_t sender,
	uint64_t sequence, uint64_t now_ms, uint64_t keep_ms);
