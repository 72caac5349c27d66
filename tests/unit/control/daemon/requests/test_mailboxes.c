// SPDX-License-Identifier: BSD-3-Clause
//
// Tests mailboxes: each response reaches its receiver. Without a dataplane, nothing is read.
#include <string.h>

#include "mailboxes.h"
#include "test.h"

struct lab {
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	uint32_t taken[2]; // number of responses that each receiver got
	uint64_t sequence; // sequence number of the last response
	uint32_t worker;
};

static void take_lookup(void *context, uint32_t worker, const struct weir_message *message) {
	struct lab *lab = context;

	lab->taken[0]++;
	lab->sequence = message->sequence;
	lab->worker = worker;
}

static void take_waiting(void *context, uint32_t worker, const struct weir_message *message) {
	struct lab *lab = context;

	(void)worker;
	(void)message;
	lab->taken[1]++;
}

static void lab_init(struct lab *lab) {
	static const struct weir_port_info ports[1] = {{.name = "wan", .mtu = 1500}};
	const struct weir_segment_params params = {.workers = 2,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.tsc_hz = 1000000000,
		.port_info = ports};

	*lab = (struct lab){0};
	assert_int_equal(weir_segment_create(&params, &lab->dataplane), 0);
	assert_int_equal(weir_segment_attach_own(lab->dataplane, &lab->control), 0);
	weir_mailboxes_init(&lab->mailboxes, NULL, 1000);
	weir_mailboxes_subscribe(&lab->mailboxes, WEIR_MESSAGE_FLOW_LOOKUP, take_lookup, NULL, lab);
	weir_mailboxes_subscribe(
		&lab->mailboxes, WEIR_MESSAGE_FLOW_WAITING, take_waiting, NULL, lab);
}

static void lab_fini(struct lab *lab) {
	weir_segment_free(lab->control);
	weir_segment_free(lab->dataplane);
}

// The worker returns each request as its response.
static bool echo(struct lab *lab, uint32_t worker) {
	struct weir_worker_box *ours = &lab->dataplane->worker_boxes[worker];
	const struct weir_control_box *theirs = &lab->dataplane->control_boxes[worker];
	struct weir_message message;

	return weir_mailbox_receive(&theirs->request, &ours->request, &message) &&
	       weir_mailbox_send(&ours->response, &theirs->response, &message);
}

TEST(mailboxes_pass_each_response_to_its_sender) {
	struct lab lab;
	struct weir_message message = {.kind = WEIR_MESSAGE_FLOW_LOOKUP};

	lab_init(&lab);
	weir_mailboxes_bind(&lab.mailboxes, lab.control);
	message.sequence = weir_mailboxes_number(&lab.mailboxes);
	assert_int_equal(message.sequence, 1001);
	assert_true(weir_mailboxes_send(&lab.mailboxes, 1, &message));
	assert_true(echo(&lab, 1));
	weir_mailboxes_take(&lab.mailboxes);
	assert_int_equal(lab.taken[0], 1);
	assert_int_equal(lab.sequence, 1001);
	assert_int_equal(lab.worker, 1);
	message.kind = WEIR_MESSAGE_FLOW_WAITING;
	assert_true(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	message.kind = 6; // messages of this kind, and of invalid kinds, have no receiver
	assert_true(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	message.kind = 4711;
	assert_true(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	while (echo(&lab, 0)) {
	}
	weir_mailboxes_take(&lab.mailboxes);
	assert_int_equal(lab.taken[0], 1);
	assert_int_equal(lab.taken[1], 1);
	lab_fini(&lab);
}

TEST(mailboxes_without_room_or_dataplane_send_nothing) {
	struct lab lab;
	struct weir_message message = {.kind = WEIR_MESSAGE_FLOW_LOOKUP};

	lab_init(&lab);
	assert_false(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	weir_mailboxes_take(&lab.mailboxes);
	weir_mailboxes_bind(&lab.mailboxes, lab.control);
	// there are only two workers
	assert_false(weir_mailboxes_send(&lab.mailboxes, 2, &message));
	for (int i = 0; i < WEIR_MAILBOX_MESSAGES; i++) {
		assert_true(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	}
	assert_false(weir_mailboxes_send(&lab.mailboxes, 0, &message));
	assert_true(echo(&lab, 0));
	weir_mailboxes_bind(&lab.mailboxes, NULL);
	weir_mailboxes_take(&lab.mailboxes);
	assert_int_equal(lab.taken[0], 0);
	lab_fini(&lab);
}

struct sender {
	struct lab *lab;
	int steps, left;
	bool again; // in its last step, the receiver sends another request
};

static void take_nothing(void *context, uint32_t worker, const struct weir_message *message) {
	(void)context;
	(void)worker;
	(void)message;
}

static bool step(void *context) {
	struct sender *sender = context;

	sender->steps++;
	if (--sender->left > 0) {
		return true;
	}
	if (sender->again) {
		sender->again = false;
		sender->left = 2;
		weir_mailboxes_wait(&sender->lab->mailboxes, WEIR_MESSAGE_FLOW_LIST);
	}
	return false;
}

TEST(mailboxes_call_step_until_no_sender_waits) {
	struct lab lab;
	struct sender sender = {.lab = &lab, .left = 3, .again = true};
	struct sender other = {.lab = &lab, .left = 1};
	uv_loop_t loop;

	lab_init(&lab);
	assert_int_equal(uv_loop_init(&loop), 0);
	lab.mailboxes.loop = &loop;
	weir_mailboxes_subscribe(
		&lab.mailboxes, WEIR_MESSAGE_FLOW_LIST, take_nothing, step, &sender);
	weir_mailboxes_subscribe(
		&lab.mailboxes, WEIR_MESSAGE_FLOW_MOVE, take_nothing, step, &other);
	weir_mailboxes_wait(&lab.mailboxes, WEIR_MESSAGE_FLOW_LIST);
	uv_run(&loop, UV_RUN_DEFAULT); // until the timer has stopped
	assert_int_equal(sender.steps, 3 + 2);
	assert_int_equal(other.steps, 0);
	weir_mailboxes_fini(&lab.mailboxes);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	lab_fini(&lab);
}
