// SPDX-License-Identifier: BSD-3-Clause
#include "mailboxes.h"

void weir_mailboxes_init(struct weir_mailboxes *mailboxes, uint64_t first) {
	*mailboxes = (struct weir_mailboxes){.sequence = first};
}

void weir_mailboxes_bind(struct weir_mailboxes *mailboxes, const struct weir_segment *segment) {
	mailboxes->segment = segment;
}

void weir_mailboxes_subscribe(struct weir_mailboxes *mailboxes, uint32_t kind,
	weir_mailboxes_taker taker, void *context) {
	mailboxes->kinds[kind].taker = taker;
	mailboxes->kinds[kind].context = context;
}

uint64_t weir_mailboxes_number(struct weir_mailboxes *mailboxes) {
	return ++mailboxes->sequence;
}

bool weir_mailboxes_send(const struct weir_mailboxes *mailboxes, uint32_t worker,
	const struct weir_message *message) {
	const struct weir_segment *segment = mailboxes->segment;

	return segment != NULL && worker < segment->workers &&
	       weir_mailbox_send(&segment->control_boxes[worker].request,
		       &segment->worker_boxes[worker].request, message);
}

static void hand_out(const struct weir_mailboxes *mailboxes, uint32_t worker,
	const struct weir_message *message) {
	if (message->kind < WEIR_MAILBOXES_KINDS && mailboxes->kinds[message->kind].taker != NULL) {
		mailboxes->kinds[message->kind].taker(
			mailboxes->kinds[message->kind].context, worker, message);
	}
}

static void take_of(const struct weir_mailboxes *mailboxes, const struct weir_segment *segment,
	uint32_t worker) {
	struct weir_message message;

	// Bounded, so that a worker that never stops responding cannot block the loop.
	for (int i = 0; i < WEIR_MAILBOX_MESSAGES &&
			weir_mailbox_receive(&segment->worker_boxes[worker].response,
				&segment->control_boxes[worker].response, &message);
		i++) {
		hand_out(mailboxes, worker, &message);
	}
}

void weir_mailboxes_take(struct weir_mailboxes *mailboxes) {
	const struct weir_segment *segment = mailboxes->segment;
	uint32_t first = mailboxes->first++;

	for (uint32_t i = 0; segment != NULL && i < segment->workers; i++) {
		take_of(mailboxes, segment, (first % segment->workers + i) % segment->workers);
	}
}
