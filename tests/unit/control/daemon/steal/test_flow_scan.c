// SPDX-License-Identifier: BSD-3-Clause
//
// Tests flow scans over real mailboxes, with a worker that answers correctly, slowly, or with
// random contents.
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "flow_scan.h"
#include "prng.h"
#include "tables_lab.h"

#define LINES 3000u
#define SOUGHT 7
#define QUIET 9 // backend with few waiting flows
// In each range of WEIR_WAITING_LINES lines, the line with this number has a waiting flow of QUIET.
#define QUIET_LINE 100
#define STEP_MS 1

struct own;
typedef void (*answer)(struct own *own, struct weir_message *message);

struct own {
	struct weir_segment *dataplane, *control;
	struct weir_mailboxes mailboxes;
	struct weir_flow_scan scan;
	struct weir_prng prng;
	uint64_t answers;
	uint32_t worker; // next worker that answers
	uint32_t widest; // widest requested range
	uint32_t copies; // number of copies of each answer
};

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->dataplane = lab_segment(NULL);
	own->control = lab_attach(own->dataplane);
	own->copies = 1;
	weir_mailboxes_init(&own->mailboxes, NULL, 1000);
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

	message->waiting.waited = UINT8_MAX;
	*flow = (struct weir_waiting_flow4){.source = {192, 0, 2, 1},
		.destination = {198, 51, 100, 1},
		.source_port = htons(1024),
		.destination_port = htons(80),
		.stamp = backend};
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

// The table has the maximum size, and each answer covers only one line. Every thousandth answer
// contains a flow.
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

// Every answer contains the same flow again, as if its bucket moved from worker to worker ahead of
// the requests.
static void answer_twice(struct own *own, struct weir_message *message) {
	answer_all(own, message);
	put(message, SOUGHT);
	message->waiting.flow4[0].stamp |= (uint32_t)own->answers << 16;
	put(message, SOUGHT);
	message->waiting.flow4[1].source_port = htons((uint16_t)(1024 + own->answers));
}

// A flood: each answer covers a single line, and contains new flows of one backend.
static void answer_with_many(struct own *own, struct weir_message *message) {
	answer_all(own, message);
	message->waiting.next = message->waiting.first + 1;
	while (message->waiting.count < WEIR_WAITING_FLOWS4) {
		uint32_t number = (uint32_t)own->answers * 8 + message->waiting.count;

		put(message, SOUGHT);
		memcpy(message->waiting.flow4[message->waiting.count - 1].source, &number,
			sizeof(number));
	}
}

static bool asks(const struct weir_message *message, uint16_t backend) {
	bool found = false;

	for (uint32_t i = 0; i < WEIR_WAITING_BACKENDS; i++) {
		found |= message->waiting.backend[i] == backend;
	}
	return found;
}

// In each line, one backend has as many flows as a message has room for. Some lines have a flow of
// the other backend instead.
static void answer_in_a_flood(struct own *own, struct weir_message *message) {
	uint32_t last = message->waiting.last < LINES ? message->waiting.last : LINES;
	uint32_t line = message->waiting.first;
	bool flooded = asks(message, SOUGHT), quiet = asks(message, QUIET);

	own->answers++;
	message->waiting.answered = 1;
	message->waiting.family = 4;
	message->waiting.lines = LINES;
	for (; line < last && message->waiting.count == 0; line++) {
		if (quiet && line % WEIR_WAITING_LINES == QUIET_LINE) {
			put(message, QUIET);
		}
		while (flooded && message->waiting.count < WEIR_WAITING_FLOWS4) {
			put(message, SOUGHT);
		}
		for (uint32_t i = 0; i < message->waiting.count; i++) {
			struct weir_waiting_flow4 *flow = &message->waiting.flow4[i];

			memcpy(flow->source, &line, sizeof(flow->source));
			flow->source_port = htons((uint16_t)(own->worker * 16 + 1 + i));
		}
	}
	message->waiting.next = line;
}

static void put6(struct weir_message *message, const char *client, uint16_t port, uint16_t to) {
	struct weir_waiting_flow6 *flow = &message->waiting.flow6[message->waiting.count++];

	*flow = (struct weir_waiting_flow6){
		.source_port = htons(port), .destination_port = htons(to), .stamp = SOUGHT};
	assert_int_equal(inet_pton(AF_INET6, client, flow->source), 1);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", flow->destination), 1);
}

// Answer with flows that clients may create, but for which agents would refuse requests.
static void answer_unknown_kinds(struct own *own, struct weir_message *message) {
	answer_all(own, message);
	switch (own->answers % 4) {
	case 0:
		put(message, SOUGHT);
		message->waiting.flow4[0].source_port = 0;
		put(message, SOUGHT);
		message->waiting.flow4[1].destination_port = 0;
		break;
	case 1:
		message->waiting.family = 6;
		put6(message, "::ffff:192.0.2.1", 1024, 80);
		put6(message, "2001:db8::2", 0, 80);
		break;
	case 2:
		message->waiting.family = 6;
		put6(message, "2001:db8::2", 1024, 0);
		break;
	default:
		message->waiting.family = 6;
		put6(message, "::fffe:192.0.2.1", 1024, 80);
	}
}

static void work(struct own *own, answer how) {
	for (uint32_t worker = 0; worker < own->dataplane->workers; worker++) {
		struct weir_worker_box *ours = &own->dataplane->worker_boxes[worker];
		const struct weir_control_box *theirs = &own->dataplane->control_boxes[worker];
		struct weir_message message;

		own->worker = worker;
		while (weir_mailbox_receive(&theirs->request, &ours->request, &message)) {
			how(own, &message);
			for (uint32_t i = 0; i < own->copies; i++) {
				weir_mailbox_send(&ours->response, &theirs->response, &message);
			}
		}
	}
}

// Run a scan. Returns its duration.
static uint64_t scan_for(struct own *own, answer how, uint32_t count, uint64_t random) {
	const uint16_t backends[] = {SOUGHT, QUIET};
	const uint64_t begin = 5000;
	uint64_t now = begin;

	weir_flow_scan_begin(&own->scan, backends, count, 500, random, begin);
	while (weir_flow_scan_step(&own->scan, now) && now < begin + 100000) {
		work(own, how);
		weir_mailboxes_take(&own->mailboxes);
		now += STEP_MS;
	}
	return now - begin;
}

static uint64_t scan(struct own *own, answer how, uint64_t random) {
	return scan_for(own, how, 1, random);
}

// --- tests ----------------------------------------------------------------------------------

TEST_EACH(setup, teardown);

TEST(scan_ends_with_the_tables) {
	struct own *own = *state;

	assert_in_range(scan(own, answer_all, LINES - 1), 1, LINES / WEIR_WAITING_LINES + 2);
	assert_int_equal(own->scan.count, 0);
	assert_false(own->scan.incomplete);
	assert_false(own->scan.unsupported);
}

// Several workers share a table, and each skips the lines of the other workers. So a request covers
// more lines.
TEST(scan_of_a_shared_table_needs_no_more_requests_than_of_one) {
	struct own *own = *state;

	assert_true(LAB_WORKERS > 1);
	scan(own, answer_all, 0);
	assert_int_equal(own->widest, WEIR_WAITING_LINES);
	own->control->bucketing = WEIR_BUCKETING_YES;
	own->answers = own->widest = 0;
	scan(own, answer_all, 0);
	assert_int_equal(own->widest, WEIR_WAITING_LINES * LAB_WORKERS);
	// The first request to each worker only returns the number of lines.
	assert_in_range(
		own->answers, LAB_WORKERS, LAB_WORKERS + LINES / WEIR_WAITING_LINES + LAB_WORKERS);
}

TEST(scan_keeps_each_flow_once) {
	struct own *own = *state;
	uint64_t each; // maximum number of answers of a worker in one iteration

	scan(own, answer_twice, 0);
	assert_true(own->answers > 2 * LAB_WORKERS);
	each = own->answers / LAB_WORKERS - 1;
	// The first answer of each worker contains only the number of lines, and no flow.
	assert_int_equal(own->scan.count, 1 + own->answers - LAB_WORKERS);
	for (uint32_t i = 0; i < own->scan.count; i++) {
		const struct weir_flow_waiting_at *flow = &own->scan.flow[i];

		// the flow is kept once, with the state that was listed last
		if (flow->client_port == htons(1024)) {
			assert_int_equal(flow->stamp >> 16,
				own->answers - (LAB_WORKERS - 1 - flow->worker) * each);
		}
	}
}

TEST(scan_keeps_flows_that_agents_can_handle) {
	struct own *own = *state;
	uint8_t client[16];

	scan(own, answer_unknown_kinds, 0);
	assert_true(own->answers > 4 + LAB_WORKERS);
	assert_int_equal(own->scan.count, 1);
	assert_int_equal(inet_pton(AF_INET6, "::fffe:192.0.2.1", client), 1);
	assert_memory_equal(own->scan.flow[0].client, client, sizeof(client));
}

// In a flood, the scan ends when it has its maximum number of flows. Listing further flows would
// waste time of workers and control.
TEST(scan_ends_when_it_is_full) {
	const uint32_t at_once = LAB_WORKERS * WEIR_TABLE_WALK_RANGES;
	struct own *own = *state;

	scan(own, answer_with_many, 0);
	assert_int_equal(own->scan.count, WEIR_FLOW_SCAN_FLOWS);
	assert_false(own->scan.incomplete);
	assert_in_range(own->answers, WEIR_FLOW_SCAN_FLOWS / WEIR_WAITING_FLOWS4,
		LAB_WORKERS + WEIR_FLOW_SCAN_FLOWS / WEIR_WAITING_FLOWS4 + at_once);
}

// In a flood a few workers could fill the list. So each scan begins with a different worker.
TEST(scans_of_many_workers_leave_none_out) {
	const struct lab_room room = {.workers = WEIR_WORKERS_MAX};
	struct own *own = *state;
	uint64_t listed = 0;

	weir_segment_free(own->control);
	weir_segment_free(own->dataplane);
	own->dataplane = lab_segment(&room);
	own->control = lab_attach(own->dataplane);
	weir_mailboxes_bind(&own->mailboxes, own->control);
	for (uint32_t i = 0; i < WEIR_WORKERS_MAX; i++) {
		scan(own, answer_with_many, i);
		assert_int_equal(own->scan.count, WEIR_FLOW_SCAN_FLOWS);
		for (uint32_t n = 0; n < own->scan.count; n++) {
			listed |= 1ull << own->scan.flow[n].worker;
		}
	}
	assert_true(listed == UINT64_MAX >> (64 - WEIR_WORKERS_MAX));
}

// The answers never cover all lines. The scan ends in time nevertheless, and keeps the flows found
// so far.
TEST(scan_ends_in_time_with_endless_answers) {
	struct own *own = *state;

	assert_int_equal(scan(own, answer_slowly, 0), WEIR_FLOW_SCAN_MOST_MS);
	assert_true(own->scan.incomplete);
	assert_in_range(own->scan.count, 1, WEIR_FLOW_SCAN_FLOWS - 1);
	assert_int_equal(own->scan.flow[0].backend, SOUGHT);
	// Answers that come later belong to no scan.
	work(own, answer_slowly);
	weir_mailboxes_take(&own->mailboxes);
	assert_int_equal(
		scan(own, answer_all, 0), LINES / WEIR_WAITING_LINES / WEIR_TABLE_WALK_RANGES + 2);
	assert_int_equal(own->scan.count, 0);
}

static uint32_t kept_of(const struct own *own, uint16_t backend) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < own->scan.count; i++) {
		count += own->scan.flow[i].backend == backend;
	}
	return count;
}

// Thousands of flows wait at one backend, and a few flows wait at another backend. The scan finds
// all flows of the other backend.
TEST(scan_finds_waiting_flows_beside_a_flood) {
	struct own *own = *state;
	const uint32_t few = LAB_WORKERS * (LINES / WEIR_WAITING_LINES + 1);

	assert_true(LINES % WEIR_WAITING_LINES > QUIET_LINE);
	for (uint64_t start = 0; start < LINES; start += LINES / 7) {
		scan_for(own, answer_in_a_flood, 2, start);
		assert_int_equal(kept_of(own, SOUGHT), WEIR_FLOW_SCAN_FLOWS / 2);
		assert_int_equal(kept_of(own, QUIET), few);
		assert_false(own->scan.incomplete);
	}
	scan(own, answer_in_a_flood, 0);
	assert_int_equal(kept_of(own, SOUGHT), WEIR_FLOW_SCAN_FLOWS);
}

// Workers answer with random contents. The scan ends in time, and keeps only flows of the requested
// backends.
TEST(scan_survives_any_answer) {
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
