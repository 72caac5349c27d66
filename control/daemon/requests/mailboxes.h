// SPDX-License-Identifier: BSD-3-Clause
//
// Mailboxes: sends messages to workers and receives their responses (mailbox.h). Each response is
// passed to the module that sends messages of its kind.
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mailbox.h"
#include "segment.h"

#define WEIR_MAILBOXES_KINDS 10u // number of kinds; each kind is below this number

// Called for each response of a worker. Only the kind of the response has been validated. The
// callback may send messages.
typedef void (*weir_mailboxes_taker)(
	void *context, uint32_t worker, const struct weir_message *message);

// Called every millisecond while a sender waits for responses, after the received responses were
// dispatched. Must end the requests that are complete or have timed out. Returns whether the sender
// still waits.
typedef bool (*weir_mailboxes_step)(void *context);

struct weir_mailboxes {
	uv_loop_t *loop;
	uv_timer_t timer; // runs while a sender waits
	bool has_timer;
	const struct weir_segment *segment; // NULL if no dataplane is attached
	uint64_t sequence; // sequence number of the last message
	// Index of the worker whose responses the next call of weir_mailboxes_take reads first.
	uint32_t first;
	struct {
		weir_mailboxes_taker taker;
		weir_mailboxes_step step;
		void *context;
		bool waits;
	} kinds[WEIR_MAILBOXES_KINDS];
};

// Initializes the mailboxes. The first message has the sequence number first + 1. Pass the time
// since boot in nanoseconds, so that numbers of a previous control process are not used again: the
// rings may still contain late responses to messages of that process. loop: borrowed; NULL =
// senders cannot wait for responses.
void weir_mailboxes_init(struct weir_mailboxes *mailboxes, uv_loop_t *loop, uint64_t first);
// Stops the timer; senders no longer wait, and weir_mailboxes_wait must not be called. The libuv
// handle is closed in the next iterations of the loop.
void weir_mailboxes_fini(struct weir_mailboxes *mailboxes);
// Set the attached dataplane. segment: borrowed; NULL = no dataplane.
void weir_mailboxes_bind(struct weir_mailboxes *mailboxes, const struct weir_segment *segment);
// Sets the receiver of the responses of a kind, which must be below WEIR_MAILBOXES_KINDS. Each kind
// has only one receiver. step: called while the sender waits (weir_mailboxes_wait); NULL = the
// sender never waits.
void weir_mailboxes_subscribe(struct weir_mailboxes *mailboxes, uint32_t kind,
	weir_mailboxes_taker taker, weir_mailboxes_step step, void *context);
// Begins to wait for responses of this kind. The wait ends when the step function of the kind
// returns false.
void weir_mailboxes_wait(struct weir_mailboxes *mailboxes, uint32_t kind);

// Returns a new sequence number for a message. If a message is sent to several workers, it has the
// same number for all of them.
uint64_t weir_mailboxes_number(struct weir_mailboxes *mailboxes);
// Sends a message to a worker. message: must contain its sequence number. Returns false if the ring
// of the worker is full, or if there is no such worker or no dataplane.
bool weir_mailboxes_send(const struct weir_mailboxes *mailboxes, uint32_t worker,
	const struct weir_message *message);
// Dispatches the received responses, at most one full ring per worker. Each call starts with
// another worker.
void weir_mailboxes_take(struct weir_mailboxes *mailboxes);
