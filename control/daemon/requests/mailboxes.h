// SPDX-License-Identifier: BSD-3-Clause
//
// Mailboxes: control's end of its messages with workers (mailbox.h). The sender of messages of a
// kind receives the responses of that kind.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mailbox.h"
#include "segment.h"

#define WEIR_MAILBOXES_KINDS 8u // kinds of messages are lower

// Called with a worker's response, of which only the kind was validated. May send.
typedef void (*weir_mailboxes_taker)(
	void *context, uint32_t worker, const struct weir_message *message);

// Called every millisecond while a sender waits, after the received responses were dispatched, to
// end what is complete or late. Returns whether it still waits.
typedef bool (*weir_mailboxes_step)(void *context);

struct weir_mailboxes {
	uv_loop_t *loop;
	uv_timer_t timer; // runs while a sender waits
	bool has_timer;
	const struct weir_segment *segment; // NULL while there is no dataplane
	uint64_t sequence; // of the last message
	uint32_t first; // worker whose responses are taken first in the next call
	struct {
		weir_mailboxes_taker taker;
		weir_mailboxes_step step;
		void *context;
		bool waits;
	} kinds[WEIR_MAILBOXES_KINDS];
};

// first: number of the first message. Late responses to a previous control process may be in the
// rings, and must not match: use the time since boot in nanoseconds. loop: borrowed; NULL: no
// sender waits.
void weir_mailboxes_init(struct weir_mailboxes *mailboxes, uv_loop_t *loop, uint64_t first);
// No sender waits afterwards; the handle closes in the next iterations of the loop.
void weir_mailboxes_fini(struct weir_mailboxes *mailboxes);
// Set the attached dataplane, or NULL for none. The segment is borrowed.
void weir_mailboxes_bind(struct weir_mailboxes *mailboxes, const struct weir_segment *segment);
// Set the receiver of responses of a kind (below WEIR_MAILBOXES_KINDS), one per kind. step: for
// weir_mailboxes_wait; NULL: never waits.
void weir_mailboxes_subscribe(struct weir_mailboxes *mailboxes, uint32_t kind,
	weir_mailboxes_taker taker, weir_mailboxes_step step, void *context);
// Let the sender of this kind wait for responses until its step returns false.
void weir_mailboxes_wait(struct weir_mailboxes *mailboxes, uint32_t kind);

// A new number for a message, or for the same message to several workers.
uint64_t weir_mailboxes_number(struct weir_mailboxes *mailboxes);
// Send a message, which contains its number, to a worker of the segment. Returns false if its ring
// is full or there is no dataplane.
bool weir_mailboxes_send(const struct weir_mailboxes *mailboxes, uint32_t worker,
	const struct weir_message *message);
// Dispatch all received responses, at most one ring per worker, starting with another worker in
// each call.
void weir_mailboxes_take(struct weir_mailboxes *mailboxes);
