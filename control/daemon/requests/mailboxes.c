// SPDX-License-Identifier: BSD-3-Clause
#include "mailboxes.h"

#define POLL_MS 1

void weir_mailboxes_init(struct weir_mailboxes *mailboxes, uv_loop_t *loop, uint64_t first) {
	*mailboxes = (struct weir_mailboxes){.loop = loop, .sequence = first};
}

void weir_mailboxes_fini(struct weir_mailboxes *mailboxes) {
	if (mailboxes->has_timer) {
		uv_close((uv_handle_t *)&mailboxes->timer, NULL);
	}
}

void weir_mailboxes_bind(struct weir_mailboxes *mailboxes, const struct weir_segment *segment) {
	mailboxes->segment = segment;
}

void weir_mailboxes_subscribe(struct weir_mailboxes *mailboxes, uint32_t kind,
	weir_mailboxes_taker taker, weir_mailboxes_step step, void *context) {
	mailboxes->kinds[kind].taker = taker;
	mailboxes->kinds[kind].step = step;
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

	// The number of messages is limited, so that a worker that never stops sending responses
	// cannot block the loop.
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

static void on_timer(uv_timer_t *timer) {
	struct weir_mailboxes *mailboxes = timer->data;
	bool waits = false;

	weir_mailboxes_take(mailboxes);
	for (uint32_t kind = 0; kind < WEIR_MAILBOXES_KINDS; kind++) {
		if (mailboxes->kinds[kind].waits) {
			// Clear `waits` before the step, because the step can set it again.
			mailboxes->kinds[kind].waits = false;
			if (mailboxes->kinds[kind].step(mailboxes->kinds[kind].context)) {
				mailboxes->kinds[kind].waits = true;
			}
		}
	}
	for (uint32_t kind = 0; kind < WEIR_MAILBOXES_KINDS; kind++) {
		waits |= mailboxes->kinds[kind].waits;
	}
	if (!waits) {
		uv_timer_stop(timer);
	}
}

void weir_mailboxes_wait(struct weir_mailboxes *mailboxes, uint32_t kind) {
	if (!mailboxes->has_timer) {
		uv_timer_init(mailboxes->loop, &mailboxes->timer);
		mailboxes->timer.data = mailboxes;
		mailboxes->has_timer = true;
	}
	mailboxes->kinds[kind].waits = true;
	if (!uv_is_active((uv_handle_t *)&mailboxes->timer)) {
		uv_timer_start(&mailboxes->timer, on_timer, 0, POLL_MS);
	}
}
