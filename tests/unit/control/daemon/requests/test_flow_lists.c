// SPDX-License-Identifier: BSD-3-Clause
//
// Tests flow lists, and counts of affinity entries, over real mailboxes and pages, with workers
// that answer correctly, not at all, or with random contents.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "flow_lists.h"
#include "prng.h"
#include "starved.h"
#include "tables_lab.h"

#define LINES 3000u

struct own;
typedef void (*answer)(struct own *own, uint32_t worker, struct weir_message *message);

struct own {
	uv_loop_t loop;
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	struct weir_flow_lists *lists;
	struct weir_prng prng;
	answer how;
	uint32_t hung; // index of the worker that hangs, or WEIR_WORKERS_MAX
	uint64_t looked[WEIR_WORKERS_MAX]; // number of lines read by each worker
	uint32_t waiting; // maximum number of requests that waited for a worker
	uint32_t answers; // number of answers to lists
	// The last answer.
	int error;
	bool more, incomplete;
	uint32_t next, count;
	uint64_t ended;
};

static int setup_with(void **state, struct weir_segment *dataplane) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->hung = WEIR_WORKERS_MAX;
	own->dataplane = dataplane;
	own->control = lab_attach(own->dataplane);
	assert_int_equal(uv_loop_init(&own->loop), 0);
	weir_mailboxes_init(&own->mailboxes, &own->loop, 1000);
	weir_mailboxes_bind(&own->mailboxes, own->control);
	assert_int_equal(weir_flow_lists_create(&own->loop, &own->mailboxes, &own->lists), 0);
	*state = own;
	return 0;
}

static int setup(void **state) {
	return setup_with(state, lab_segment(NULL));
}

// The maximum number of workers, each with its own table.
static int setup_many(void **state) {
	const struct lab_room room = {.workers = WEIR_WORKERS_MAX};

	return setup_with(state, lab_segment(&room));
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_mailboxes_fini(&own->mailboxes);
	weir_flow_lists_free(own->lists);
	uv_run(&own->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&own->loop), 0);
	weir_segment_free(own->control);
	weir_segment_free(own->dataplane);
	free(own);
	return 0;
}

// --- workers --------------------------------------------------------------------------------

// Answer as if each line had a flow, until the page is full.
static void answer_all(struct own *own, uint32_t worker, struct weir_message *message) {
	struct weir_listed_flow *page = own->dataplane->flow_pages[worker].flow[message->list.page];
	uint32_t last = message->list.last < LINES ? message->list.last : LINES;
	uint32_t line = message->list.first < last ? message->list.first : last;

	message->list.answered = 1;
	message->list.lines = LINES;
	message->list.count = 0;
	while (line < last && message->list.count < WEIR_FLOW_PAGE_FLOWS) {
		page[message->list.count++] =
			(struct weir_listed_flow){.family = 4, .protocol = 6, .idle_ms = line++};
		own->looked[worker]++;
	}
	message->list.next = line;
}

static void answer_anything(struct own *own, uint32_t worker, struct weir_message *message) {
	static const uint32_t numbers[] = {0, 1, 16, 64, 65, LINES, UINT32_MAX - 1, UINT32_MAX};
	uint8_t *pages = (uint8_t *)&own->dataplane->flow_pages[worker];
	const uint64_t random = weir_prng_next(&own->prng);

	pages[random % sizeof(struct weir_flow_pages)] = (uint8_t)(random >> 56);
	message->list.count = numbers[random / 8 % 8];
	message->list.lines = numbers[random / 64 % 8] % 5000;
	message->list.next = numbers[random / 512 % 8];
	message->list.page = random / 4096 % 4096 == 0 ? (uint8_t)random : message->list.page;
	message->kind = (random >> 32) % 4096 == 0 ? UINT32_MAX : message->kind;
}

static void work(struct own *own) {
	for (uint32_t worker = 0; worker < own->dataplane->workers; worker++) {
		struct weir_worker_box *ours = &own->dataplane->worker_boxes[worker];
		const struct weir_control_box *theirs = &own->dataplane->control_boxes[worker];
		struct weir_message message;
		uint32_t waiting = 0;

		while (worker != own->hung &&
			weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
			own->how(own, worker, &message);
			weir_mailbox_send(&ours->response, &theirs->response, &message);
			waiting++;
		}
		own->waiting = waiting > own->waiting ? waiting : own->waiting;
	}
}

// --- lists ----------------------------------------------------------------------------------

static void on_done(void *context, int error, struct weir_flow_list_result *result) {
	struct own *own = context;

	own->answers++;
	own->error = error;
	if (result == NULL) {
		return;
	}
	own->more = result->more;
	own->incomplete = result->incomplete;
	own->next = result->next;
	own->count = result->count;
	own->ended = result->ended;
	for (uint32_t i = 0; i < result->count; i++) {
		assert_true(result->flows[i].flow.family == 4 || result->flows[i].flow.family == 6);
		assert_in_range(result->flows[i].worker, 0, own->dataplane->workers - 1);
	}
}

static int ask(struct own *own, uint32_t first, uint32_t worker, bool end) {
	const struct weir_message question = {.list = {.end = end}};

	return weir_flow_lists_start(own->lists, &question, first, worker, on_done, own);
}

static void run_until_answered(struct own *own, uint32_t answers) {
	while (own->answers < answers) {
		uv_run(&own->loop, UV_RUN_ONCE);
		work(own);
	}
}

static void page(struct own *own, uint32_t first, uint32_t worker) {
	assert_int_equal(ask(own, first, worker, false), 0);
	run_until_answered(own, own->answers + 1);
	assert_int_equal(own->error, 0);
}

// --- tests ----------------------------------------------------------------------------------

TEST(pages_cover_every_line_of_every_worker, setup, teardown) {
	struct own *own = *state;
	uint32_t flows = 0, first = 0, pages = 0;

	own->how = answer_all;
	do {
		page(own, first, WEIR_FLOW_LISTS_ALL);
		assert_true(own->next > first);
		first = own->next;
		flows += own->count;
		pages++;
	} while (own->more);
	assert_int_equal(flows, LAB_WORKERS * LINES);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		assert_int_equal(own->looked[worker], LINES);
	}
	assert_true(pages > 1);
	assert_false(own->incomplete);
}

TEST(only_the_given_worker_gets_requests, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	page(own, 0, 1);
	assert_int_equal(own->looked[0], 0);
	assert_int_equal(own->looked[1], own->count);
	page(own, LINES, 1); // a line beyond the table
	assert_int_equal(own->count, 0);
	assert_false(own->more);
	page(own, UINT32_MAX, 1);
	assert_false(own->more);
}

// In the first pass each line has a flow, which the request deletes. A second pass finds one more
// flow, and a third pass finds none.
static void answer_until_ended(struct own *own, uint32_t worker, struct weir_message *message) {
	bool again = own->looked[worker] == LINES && message->list.first == 0;

	answer_all(own, worker, message);
	if (again || own->looked[worker] > LINES) {
		message->list.count = again && worker == 1 ? 1 : 0;
	}
}

TEST(deletion_repeats_until_no_flow_is_left, setup, teardown) {
	struct own *own = *state;

	own->how = answer_until_ended;
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, true), 0);
	run_until_answered(own, 1);
	assert_int_equal(own->ended, LAB_WORKERS * LINES + 1);
	assert_int_equal(own->looked[0], 3 * LINES);
	assert_int_equal(own->count, 0);
}

// A list needs a page for each request in flight. A deletion needs no pages, so it can have more
// requests in flight.
TEST(deletion_has_more_requests_than_a_list, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	page(own, 0, WEIR_FLOW_LISTS_ALL);
	assert_int_equal(own->waiting, WEIR_FLOW_PAGES);
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, true), 0);
	run_until_answered(own, 2);
	assert_int_equal(own->waiting, WEIR_TABLE_WALK_RANGES);
}

// New flows start as fast as others are deleted. The deletion must end nevertheless.
TEST(deletion_ends_when_flows_do_not, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, true), 0);
	run_until_answered(own, 1);
	assert_int_equal(own->looked[0], 4 * LINES);
}

// The first page waits until the timeout of the stalled worker. Later pages skip this worker.
TEST(stalled_worker_is_left_out, setup, teardown) {
	struct own *own = *state;
	uint64_t began_ns = uv_hrtime();
	uint32_t flows = 0, pages = 0, first = 0;

	own->how = answer_all;
	own->hung = LAB_WORKERS - 1;
	do {
		page(own, first, WEIR_FLOW_LISTS_ALL);
		assert_true(own->incomplete);
		first = own->next;
		flows += own->count;
		pages++;
	} while (own->more);
	assert_true(pages > 2);
	assert_int_equal(flows, LINES);
	assert_true(uv_hrtime() - began_ns < (uint64_t)pages * WEIR_TABLE_WALK_MS * 1000000);
	assert_int_equal(own->looked[own->hung], 0);
}

TEST(worker_that_answers_again_gets_requests_again, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	own->hung = LAB_WORKERS - 1;
	page(own, 0, WEIR_FLOW_LISTS_ALL);
	assert_true(own->incomplete);
	own->hung = WEIR_WORKERS_MAX;
	work(own); // the worker processes its previous request
	page(own, 0, WEIR_FLOW_LISTS_ALL);
	assert_false(own->incomplete);
}

TEST(single_stalled_worker_gets_each_request, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	own->hung = 0;
	page(own, 0, WEIR_FLOW_LISTS_ALL);
	own->hung = WEIR_WORKERS_MAX;
	page(own, 0, 0);
	assert_false(own->incomplete);
	assert_true(own->count > 0);
}

TEST(page_of_many_workers_is_not_larger, setup_many, teardown) {
	struct own *own = *state;
	uint32_t flows = 0, first = 0;

	own->how = answer_all;
	do {
		page(own, first, WEIR_FLOW_LISTS_ALL);
		assert_true(own->count < 2 * WEIR_FLOW_LISTS_PAGE);
		first = own->next;
		flows += own->count;
	} while (own->more);
	assert_int_equal(flows, WEIR_WORKERS_MAX * LINES);
	assert_false(own->incomplete);
}

TEST(lists_of_many_take_turns, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	for (uint32_t i = 0; i < WEIR_FLOW_LISTS_MAX; i++) {
		assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, i % 2 == 0), 0);
	}
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, false), -EBUSY);
	run_until_answered(own, WEIR_FLOW_LISTS_MAX);
	page(own, 0, WEIR_FLOW_LISTS_ALL);
}

// --- affinity entries -----------------------------------------------------------------------

// Answer as if each line had three entries: a proven one of backend 1, and two others, of backend 2
// and of a backend that does not exist.
static void answer_sources(struct own *own, uint32_t worker, struct weir_message *message) {
	uint16_t *page = own->dataplane->flow_pages[worker].source[message->walk.page];
	const uint32_t last = message->walk.last < LINES ? message->walk.last : LINES;
	uint32_t line = message->walk.first < last ? message->walk.first : last;

	assert_int_equal(message->kind, WEIR_MESSAGE_SOURCE_WALK);
	message->walk.answered = 1;
	message->walk.lines = LINES;
	message->walk.proven = message->walk.others = 0;
	for (; line < last; line++) {
		if (message->walk.remove) {
			message->walk.others += 3;
		} else if (message->walk.proven + message->walk.others + 3 <= WEIR_SOURCE_PAGE) {
			page[message->walk.proven++] = 1;
			page[WEIR_SOURCE_PAGE - ++message->walk.others] = 2;
			page[WEIR_SOURCE_PAGE - ++message->walk.others] = UINT16_MAX;
		} else {
			break;
		}
		own->looked[worker]++;
	}
	message->walk.next = line;
}

static void on_counted(void *context, int error, struct weir_flow_list_result *result) {
	struct own *own = context;

	own->answers++;
	own->error = error;
	own->count = 0;
	if (result == NULL) {
		return;
	}
	own->incomplete = result->incomplete;
	own->ended = result->ended;
	for (uint32_t i = 0; i < result->source_backends && result->sources != NULL; i++) {
		own->count += result->sources[i].proven + result->sources[i].others;
	}
	if (result->source_entries > 0 && result->sources != NULL) {
		assert_int_equal(result->source_entries, (uint64_t)LINES * WEIR_SOURCE_LINE);
		assert_int_equal(result->sources[1].proven, LINES);
		assert_int_equal(result->sources[1].others, 0);
		assert_int_equal(result->sources[2].proven, 0);
		assert_int_equal(result->sources[2].others, LINES);
	}
}

static int count(struct own *own, bool remove) {
	const struct weir_message question = {.walk = {.remove = remove}};

	return weir_flow_lists_start_sources(own->lists, &question, on_counted, own);
}

TEST(sources_are_counted_by_one_worker, setup, teardown) {
	struct own *own = *state;

	own->how = answer_sources;
	assert_int_equal(count(own, false), 0);
	run_until_answered(own, 1);
	assert_int_equal(own->error, 0);
	assert_int_equal(own->count, 2 * LINES);
	assert_false(own->incomplete);
	assert_int_equal(own->looked[0], LINES);
	assert_int_equal(own->looked[1], 0);
	assert_int_equal(own->waiting, WEIR_FLOW_PAGES);
	assert_int_equal(count(own, true), 0);
	run_until_answered(own, 2);
	assert_int_equal(own->ended, 3 * LINES);
	assert_int_equal(own->looked[0], 2 * LINES); // one pass
	assert_int_equal(own->waiting, WEIR_TABLE_WALK_RANGES);
}

// Answer only the first few requests of worker 0.
static void answer_sources_at_first(
	struct own *own, uint32_t worker, struct weir_message *message) {
	answer_sources(own, worker, message);
	if (worker == 0 && own->looked[0] > 600) {
		own->hung = 0;
	}
}

// Another worker begins again, and the entries that the first worker has listed count once.
TEST(sources_of_a_stalled_worker_are_counted_by_another, setup, teardown) {
	struct own *own = *state;

	own->how = answer_sources_at_first;
	assert_int_equal(count(own, false), 0);
	run_until_answered(own, 1);
	assert_int_equal(own->error, 0);
	assert_true(own->looked[0] > 0);
	assert_int_equal(own->looked[1], LINES);
	assert_int_equal(own->count, 2 * LINES);
	assert_false(own->incomplete);
}

TEST(sources_without_a_working_worker_are_incomplete, setup, teardown) {
	struct own *own = *state;
	const uint64_t began_ns = uv_hrtime();

	assert_int_equal(count(own, false), 0);
	while (own->answers == 0) {
		uv_run(&own->loop, UV_RUN_ONCE);
	}
	assert_int_equal(own->error, 0);
	assert_true(own->incomplete);
	assert_int_equal(own->count, 0);
	assert_true(uv_hrtime() - began_ns <
		    (LAB_WORKERS + 1) * (uint64_t)WEIR_TABLE_WALK_MS * 1000000);
}

static void answer_either(struct own *own, uint32_t worker, struct weir_message *message) {
	if (message->kind == WEIR_MESSAGE_SOURCE_WALK) {
		answer_sources(own, worker, message);
	} else {
		answer_all(own, worker, message);
	}
}

// Counts and lists use the same pages, but not at the same time.
TEST(counts_and_lists_take_turns, setup, teardown) {
	struct own *own = *state;

	own->how = answer_either;
	for (uint32_t i = 0; i < WEIR_FLOW_LISTS_MAX; i++) {
		assert_int_equal(i % 2 == 0 ? ask(own, 0, WEIR_FLOW_LISTS_ALL, i % 4 == 0)
					    : count(own, i % 4 == 1),
			0);
	}
	assert_int_equal(count(own, false), -EBUSY);
	run_until_answered(own, WEIR_FLOW_LISTS_MAX);
}

static void answer_any_sources(struct own *own, uint32_t worker, struct weir_message *message) {
	static const uint32_t numbers[] = {0, 1, 8, 300, 1536, 1537, UINT32_MAX - 1, UINT32_MAX};
	uint8_t *pages = (uint8_t *)&own->dataplane->flow_pages[worker];
	const uint64_t random = weir_prng_next(&own->prng);

	pages[random % sizeof(struct weir_flow_pages)] = (uint8_t)(random >> 56);
	message->walk.proven = numbers[random / 8 % 8];
	message->walk.others = numbers[random / 64 % 8];
	message->walk.lines = numbers[random / 512 % 8] % 5000;
	message->walk.next = numbers[random / 4096 % 8];
}

static void on_any(void *context, int error, struct weir_flow_list_result *result) {
	struct own *own = context;

	(void)result;
	own->answers++;
	own->error = error;
}

TEST(sources_may_be_anything, setup, teardown) {
	struct own *own = *state;

	own->how = answer_any_sources;
	for (uint32_t i = 0; i < 200; i++) {
		const struct weir_message question = {.walk = {.remove = i % 2}};

		assert_int_equal(
			weir_flow_lists_start_sources(own->lists, &question, on_any, own), 0);
		run_until_answered(own, i + 1);
		assert_int_equal(own->error, 0);
	}
}

TEST(lists_end_with_the_dataplane, setup, teardown) {
	struct own *own = *state;

	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, false), 0);
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, true), 0);
	uv_run(&own->loop, UV_RUN_ONCE);
	weir_flow_lists_abandon(own->lists);
	assert_int_equal(own->answers, 2);
	assert_int_equal(own->error, -ENOTCONN);
	weir_mailboxes_bind(&own->mailboxes, NULL);
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, false), -ENOTCONN);
}

TEST(lists_without_memory_fail_and_the_next_do_not, setup, teardown) {
	struct own *own = *state;

	own->how = answer_all;
	starved_after(0);
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, false), -ENOMEM);
	starved_after(1); // memory for the list, but not for its flows
	assert_int_equal(ask(own, 0, WEIR_FLOW_LISTS_ALL, false), 0);
	run_until_answered(own, 1);
	starved_after(-1);
	assert_int_equal(own->error, -ENOMEM);
	page(own, 0, WEIR_FLOW_LISTS_ALL);
	assert_true(own->count > 0);
	assert_false(own->incomplete);
}

// Each list ends, whatever the workers answer.
TEST(lists_survive_any_answer, setup, teardown) {
	struct own *own = *state;

	own->how = answer_anything;
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(ask(own, (uint32_t)weir_prng_next(&own->prng) % LINES,
					 WEIR_FLOW_LISTS_ALL, i % 4 == 0),
			0);
		if (own->answers + WEIR_FLOW_LISTS_MAX <= i + 1) {
			run_until_answered(own, own->answers + 1);
		}
	}
	run_until_answered(own, 40);
}
