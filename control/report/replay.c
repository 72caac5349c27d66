// SPDX-License-Identifier: BSD-3-Clause
#include "replay.h"

#include <stdbool.h>
#include <stddef.h>

// Returns the window of the sender. If the sender has no window, sets *ret_new to true, and returns
// an unused window. If no window is unused, returns the window that expired first. If no window has
// expired, returns NULL.
static struct weir_replay_sender *find(
	struct weir_replay *replay, uint64_t id, uint64_t now_ms, bool *ret_new) {
	struct weir_replay_sender *unused = NULL;

	for (size_t i = 0; i < WEIR_REPLAY_SENDERS; i++) {
		struct weir_replay_sender *sender = &replay->sender[i];

		if (sender->until_ms > 0 && sender->id == id) {
			*ret_new = false;
			return sender;
		}
		if (sender->until_ms <= now_ms &&
			(unused == NULL || sender->until_ms < unused->until_ms)) {
			unused = sender;
		}
	}
	*ret_new = true;
	return unused;
}

static enum weir_replay_verdict take(struct weir_replay_sender *sender, uint64_t sequence) {
	uint64_t distance;

	if (sequence > sender->highest) {
		distance = sequence - sender->highest;
		sender->seen = distance < WEIR_REPLAY_WINDOW ? sender->seen << distance : 0;
		sender->seen |= 1;
		sender->highest = sequence;
		return WEIR_REPLAY_NEW;
	}
	distance = sender->highest - sequence;
	if (distance >= WEIR_REPLAY_WINDOW || (sender->seen >> distance & 1) != 0) {
		return WEIR_REPLAY_SEEN;
	}
	sender->seen |= UINT64_C(1) << distance;
	return WEIR_REPLAY_LATE;
}

enum weir_replay_verdict weir_replay_take(struct weir_replay *replay, uint64_t id,
	uint64_t sequence, uint64_t now_ms, uint64_t keep_ms) {
	bool is_new;
	struct weir_replay_sender *sender = find(replay, id, now_ms, &is_new);
	enum weir_replay_verdict verdict = WEIR_REPLAY_NEW;

	if (sender == NULL) {
		return WEIR_REPLAY_FULL;
	}
	if (is_new) {
		*sender = (struct weir_replay_sender){.id = id, .highest = sequence, .seen = 1};
	} else {
		verdict = take(sender, sequence);
	}
	// A replayed datagram does not extend the lifetime of the window.
	if (verdict != WEIR_REPLAY_SEEN) {
		sender->until_ms = now_ms + keep_ms > 0 ? now_ms + keep_ms : 1;
	}
	return verdict;
}
