// SPDX-License-Identifier: BSD-3-Clause
//
// Tests table walks over real mailboxes. Flow lists (test_flow_lists.c) and flow scans
// (test_flow_scan.c) use these walks.
#include <stdlib.h>
#include <string.h>

#include "table_walk.h"
#include "tables_lab.h"

#define LINES 3000u
#define NEVER UINT32_MAX

struct own {
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	struct weir_table_walk walk;
	uint32_t hung; // index of the worker that hangs, or NEVER
	uint32_t most; // maximum number of lines that a worker reads for a message
	uint8_t requested[LAB_WORKERS][LINES]; // number of requests for each line
	uint64_t late; // number of late responses
	uint64_t step_ms;
};

static void take(void *context, uint32_t worker, const struct weir_message *message) {
	struct own *own = context;

	own->late += weir_table_walk_take(&own->walk, worker, message->sequence,
			     message->waiting.next, message->waiting.lines) < 0;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->dataplane = lab_segment(NULL);
	own->control = lab_attach(own->dataplane);
	own->hung = NEVER;
	own->step_ms = 1;
	own->most = WEIR_WAITING_LINES;
	weir_mailboxes_init(&own->mailboxes, NULL, 1000);
	weir_mailboxes_bind(&own->mailboxes, own->control);
	weir_mailboxes_subscribe(&own->mailboxes, WEIR_MESSAGE_FLOW_WAITING, take, NULL, own);
	own->walk.mailboxes = &own->mailboxes;
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_segment_free(own->control);
	weir_segment_free(own->dataplane);
	free(own);
	return 0;
}

static void begin(struct own *own, const struct weir_table_walk_lines *lines) {
	const struct weir_message request = {.kind = WEIR_MESSAGE_FLOW_WAITING};

	weir_table_walk_begin(&own->walk, &request, UINT64_MAX, lines);
}

static void answer(struct own *own, uint32_t worker, struct weir_message *message) {
	uint32_t last = message->waiting.last < LINES ? message->waiting.last : LINES;
	uint32_t line = message->waiting.first;

	for (uint32_t i = 0; i < own->most && line < last; i++) {
		own->requested[worker][line++]++;
	}
	message->waiting.lines = LINES;
	message->waiting.next = line;
}

static void work(struct own *own) {
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		struct weir_worker_box *ours = &own->dataplane->worker_boxes[worker];
		const struct weir_control_box *theirs = &own->dataplane->control_boxes[worker];
		struct weir_message message;

		while (worker != own->hung &&
			weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
			answer(own, worker, &message);
			weir_mailbox_send(&ours->response, &theirs->response, &message);
		}
	}
	weir_mailboxes_take(&own->mailboxes);
}

// Run the walk. Returns the time of its end.
static uint64_t run(struct own *own) {
	uint64_t now_ms = 1;

	while (weir_table_walk_step(&own->walk, now_ms) && now_ms < 100000) {
		work(own);
		now_ms += own->step_ms;
	}
	return now_ms;
}

static void expect_requested(struct own *own, uint32_t worker, uint32_t first, uint32_t count) {
	for (uint32_t line = 0; line < LINES; line++) {
		assert_int_equal(own->requested[worker][line],
			(line + LINES - first) % LINES < count ? 1 : 0);
	}
}

TEST_EACH(setup, teardown);

TEST(walk_requests_the_given_lines) {
	const struct weir_table_walk_lines lines = {
		.first = 17, .count = 1000, .end = UINT32_MAX, .range = 64};
	struct own *own = *state;

	own->most = 7; // the remaining lines of a range are requested again
	begin(own, &lines);
	run(own);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		expect_requested(own, worker, 17, 1000);
	}
	assert_false(own->walk.stuck);
	assert_int_equal(own->late, 0);
}

TEST(walk_of_a_table_ends_at_its_start) {
	struct own *own = *state;

	for (uint32_t first = 0; first < 2 * LINES; first += LINES / 5 * 2 + 1) {
		const struct weir_table_walk_lines lines = {.first = first, .range = 100};

		memset(own->requested, 0, sizeof(own->requested));
		begin(own, &lines);
		run(own);
		expect_requested(own, 0, 0, LINES);
	}
}

TEST(walk_leaves_out_a_silent_worker) {
	const struct weir_table_walk_lines lines = {.count = LINES, .end = UINT32_MAX, .range = 9};
	struct own *own = *state;

	own->hung = 1;
	begin(own, &lines);
	assert_int_equal(run(own), 1 + WEIR_TABLE_WALK_MS);
	assert_int_equal(own->walk.silent, 1u << own->hung);
	expect_requested(own, 0, 0, LINES);
	own->hung = NEVER;
	work(own);
	assert_int_equal(own->late, WEIR_TABLE_WALK_RANGES);
	assert_false(weir_table_walk_step(&own->walk, 2 * WEIR_TABLE_WALK_MS));
	assert_int_equal(own->walk.silent, 0);
}

// Each answer restarts the timeout. So the walk may last much longer than the timeout.
TEST(walk_waits_for_workers_that_answer) {
	const struct weir_table_walk_lines lines = {
		.count = LINES, .end = UINT32_MAX, .range = 100};
	struct own *own = *state;

	own->most = 1;
	own->step_ms = WEIR_TABLE_WALK_MS / 2;
	begin(own, &lines);
	assert_true(run(own) > 10 * WEIR_TABLE_WALK_MS);
	expect_requested(own, 1, 0, LINES);
}

TEST(walk_skips_lines_without_progress) {
	const struct weir_table_walk_lines lines = {
		.count = LINES, .end = UINT32_MAX, .range = 100};
	struct own *own = *state;

	own->most = 0;
	begin(own, &lines);
	assert_in_range(run(own), 1, LINES / 100 + 2);
	assert_true(own->walk.stuck);
}

TEST(walk_without_a_dataplane_ends_at_once) {
	const struct weir_table_walk_lines lines = {.range = 100};
	struct own *own = *state;

	weir_mailboxes_bind(&own->mailboxes, NULL);
	begin(own, &lines);
	assert_false(weir_table_walk_step(&own->walk, 1));
}
