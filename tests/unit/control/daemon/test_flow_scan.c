// SPDX-License-Identifier: BSD-3-Clause
//
// Flow scans over real mailboxes, with a worker that answers as it should, slowly, or anything.
#include <stdlib.h>
#include <string.h>

#include "flow_scan.h"
#include "prng.h"
#include "tables_lab.h"

#define LINES 3000u
#define SOUGHT 7
#define STEP_MS 1

struct own;
typedef void (*answer)(struct own *own, struct weir_message *message);

struct own {
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	struct weir_flow_scan scan;
	struct weir_prng prng;
	uint64_t answers;
	uint32_t widest; // question
	uint32_t copies; // of each answer
};

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->dataplane = lab_segment(NULL);
	own->control = lab_attach(own->dataplane);
	own->copies = 1;
	weir_mailboxes_init(&own->mailboxes, 1000);
	weir_mailboxes_bind(&own->mailboxes, own->control);
	weir_flow_scan_init(&own->scan, &own->mailboxes);
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

// --- workers --------------------------------------------------------------------------------

static void put(struct weir_message *message, uint16_t backend) {
	struct weir_waiting_flow4 *flow = &message->waiting.flow4[message->waiting.count++];

	*flow = (struct weir_waiting_flow4){.source = {192, 0, 2, 1}, .stamp = backend};
}

static void answer_all(struct own *own, struct weir_message *message) {
	uint32_t lines = message->waiting.last - message->waiting.first;

	own->answers++;
	own->widest = lines > own->widest ? lines : own->widest;
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.lines = LINES;
	message->waiting.next = message->waiting.last < LINES ? message->waiting.last : LINES;
}

// A line for each question, of a table that is as large as can be, and a flow now and then.
static void answer_slowly(struct own *own, struct weir_message *message) {
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.lines = UINT32_MAX;
	message->waiting.next = message->waiting.first + 1;
	if (++own->answers % 1000 == 0) {
		put(message, SOUGHT);
	}
}

static void answer_anything(struct own *own, struct weir_message *message) {
	static const uint32_t numbers[] = {0, 1, LINES, UINT32_MAX - 1, UINT32_MAX};
	const uint64_t random = weir_prng_next(&own->prng);

	for (size_t i = 0; i < sizeof(message->waiting.flow6); i++) {
		((uint8_t *)message->waiting.flow6)[i] = (uint8_t)weir_prng_next(&own->prng);
	}
	if (random % 2 == 0) {
		put(message, SOUGHT);
	}
	message->waiting.answered = random % 64 != 0;
	message->waiting.family = (uint8_t[]){4, 6, 0, 255}[random / 64 % 4];
	message->waiting.count = (uint8_t[]){0, 1, 6, 255}[random / 256 % 4];
	message->waiting.lines = numbers[random / 1024 % 5];
	message->waiting.next = numbers[random / 8192 % 5];
	message->kind = random / 65536 % 8 == 0 ? UINT32_MAX : message->kind;
	message->sequence += random / (8 * 65536) % 8 == 0;
}

static void work(struct own *own, answer how) {
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		struct weir_worker_box *ours = &own->dataplane->worker_boxes[worker];
		const struct weir_control_box *theirs = &own->dataplane->control_boxes[worker];
		struct weir_message message;

		while (weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
			how(own, &message);
			for (uint32_t i = 0; i < own->copies; i++) {
				weir_mailbox_send(&ours->response, &theirs->response, &message);
			}
		}
	}
}

// Returns when the scan ended, counted from its begin.
static uint64_t scan(struct own *own, answer how, uint64_t random) {
	const uint16_t backends[] = {SOUGHT};
	const uint64_t begin = 5000;
	uint64_t now = begin;

	weir_flow_scan_begin(&own->scan, backends, 1, 500, random, begin);
	while (weir_flow_scan_step(&own->scan, now) && now < begin + 100000) {
		work(own, how);
		weir_mailboxes_take(&own->mailboxes);
		now += STEP_MS;
	}
	return now - begin;
}

// --- tests ----------------------------------------------------------------------------------

static void scan_ends_with_the_tables(void **state) {
	struct own *own = *state;

	assert_in_range(scan(own, answer_all, LINES - 1), 1, LINES / WEIR_WAITING_LINES + 2);
	assert_int_equal(own->scan.count, 0);
	assert_false(own->scan.incomplete);
	assert_false(own->scan.unsupported);
}

// Workers that share a table pass over the lines of others, so they are asked for more at once.
static void scan_of_a_shared_table_asks_no_more_than_of_one(void **state) {
	struct own *own = *state;

	assert_true(LAB_WORKERS > 1);
	scan(own, answer_all, 0);
	assert_int_equal(own->widest, WEIR_WAITING_LINES);
	own->control->bucketing = WEIR_BUCKETING_YES;
	own->answers = own->widest = 0;
	scan(own, answer_all, 0);
	assert_int_equal(own->widest, WEIR_WAITING_LINES * LAB_WORKERS);
	// One at first, for the number of lines.
	assert_in_range(
		own->answers, LAB_WORKERS, LAB_WORKERS + LINES / WEIR_WAITING_LINES + LAB_WORKERS);
}

// However many questions are left, and what was found is not lost.
static void scan_ends_in_time_if_workers_go_on_for_ever(void **state) {
	struct own *own = *state;

	assert_int_equal(scan(own, answer_slowly, 0), WEIR_FLOW_SCAN_MOST_MS);
	assert_true(own->scan.incomplete);
	assert_in_range(own->scan.count, 1, WEIR_FLOW_SCAN_FLOWS - 1);
	assert_int_equal(own->scan.flow[0].backend, SOUGHT);
	// Answers that come later belong to no scan.
	work(own, answer_slowly);
	weir_mailboxes_take(&own->mailboxes);
	assert_int_equal(
		scan(own, answer_all, 0), LINES / WEIR_WAITING_LINES / WEIR_FLOW_SCAN_RANGES + 2);
	assert_int_equal(own->scan.count, 0);
}

// Whatever workers answer, a scan ends in time and keeps only flows that were sought.
static void scan_survives_any_answer(void **state) {
	struct own *own = *state;

	for (uint64_t turn = 0; turn < 300; turn++) {
		own->copies = 1 + turn % 3;
		assert_in_range(scan(own, answer_anything, weir_prng_next(&own->prng)), 0,
			WEIR_FLOW_SCAN_MOST_MS);
		assert_in_range(own->scan.count, 0, WEIR_FLOW_SCAN_FLOWS);
		for (uint32_t i = 0; i < own->scan.count; i++) {
			const struct weir_flow_waiting_at *flow = &own->scan.flow[i];

			assert_true(flow->family == 4 || flow->family == 6);
			assert_int_equal(flow->backend, SOUGHT);
			assert_in_range(flow->worker, 0, LAB_WORKERS - 1);
		}
	}
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(scan_ends_with_the_tables),
		TEST(scan_of_a_shared_table_asks_no_more_than_of_one),
		TEST(scan_ends_in_time_if_workers_go_on_for_ever),
		TEST(scan_survives_any_answer),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
