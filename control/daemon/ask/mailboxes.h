// SPDX-License-Identifier: BSD-3-Clause
//
// Mailboxes: control's side of the messages between it and the workers (mailbox.h). Whoever sends
// messages of a kind gets the responses of that kind.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mailbox.h"
#include "segment.h"

#define WEIR_MAILBOXES_KINDS 8u // kinds of messages are below

// A worker's response to a message; unchecked but for its kind. May send.
typedef void (*weir_mailboxes_taker)(
	void *context, uint32_t worker, const struct weir_message *message);

// Called every millisecond while a sender waits, after the responses that have come were handed
// out: for what is complete or too late. Returns whether it still waits.
typedef bool (*weir_mailboxes_step)(void *context);

struct weir_mailboxes {
	uv_loop_t *loop;
	uv_timer_t timer; // runs while a sender waits
	bool has_timer;
	const struct weir_segment *segment; // NULL while there is no dataplane
	uint64_t sequence; // of the last message
	uint32_t first; // worker whose responses are taken first, the next time
	struct {
		weir_mailboxes_taker taker;
		weir_mailboxes_step step;
		void *context;
		bool waits;
	} kinds[WEIR_MAILBOXES_KINDS];
};

// first: the number that messages count from. The rings may hold late responses to a former control
// process, which none of ours may match: the time since boot in nanoseconds will do.
// loop: borrowed; NULL: nothing waits.
void weir_mailboxes_init(struct weir_mailboxes *mailboxes, uv_loop_t *loop, uint64_t first);
// Nothing waits from here on; the handle closes with the loop.
void weir_mailboxes_fini(struct weir_mailboxes *mailboxes);
// A dataplane was attached, or (NULL) is gone. The segment is borrowed.
void weir_mailboxes_bind(struct weir_mailboxes *mailboxes, const struct weir_segment *segment);
// Who takes the responses of a kind (below WEIR_MAILBOXES_KINDS), one for each.
// step: for weir_mailboxes_wait; NULL: it does not wait.
void weir_mailboxes_subscribe(struct weir_mailboxes *mailboxes, uint32_t kind,
	weir_mailboxes_taker taker, weir_mailboxes_step step, void *context);
// The sender of this kind waits for responses, until its step returns false.
void weir_mailboxes_wait(struct weir_mailboxes *mailboxes, uint32_t kind);

// A number for a message, or for the same one to several workers; never given before.
uint64_t weir_mailboxes_number(struct weir_mailboxes *mailboxes);
// Send a message, with the number in it, to a worker of the segment. False when its ring is full or
// there is no dataplane.
bool weir_mailboxes_send(const struct weir_mailboxes *mailboxes, uint32_t worker,
	const struct weir_message *message);
// Hand out all responses that have come, at most one ring's worth of each worker, of another one
// first each time.
void weir_mailboxes_take(struct weir_mailboxes *mailboxes);
