// SPDX-License-Identifier: BSD-3-Clause
//
// Tests each rule of grace periods on one thread: for which workers a grace period waits, and which
// token values count as reports. tests/litmus/grace.py checks the memory order.
#include "segment_lab.h"

#include <stdlib.h>

#include "grace.h"

struct lab {
	struct weir_segment *segment; // mapping of the dataplane, for token values of workers
	struct weir_segment *control; // control's mapping of the same memory, for tokens
	struct weir_grace grace;
};

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(4096);
	f->control = fixture_control(f->segment);
	f->grace = weir_grace_open(f->control);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

static void report(struct lab *f, uint32_t worker) {
	weir_grace_report(f->segment, worker, weir_grace_token(f->segment));
}

TEST_EACH(setup, teardown);

TEST(offline_workers_do_not_count) {
	struct lab *f = *state;
	uint64_t token = weir_grace_start(&f->grace);

	assert_true(weir_grace_passed(&f->grace, token));
	weir_grace_online(f->segment, 1);
	token = weir_grace_start(&f->grace);
	assert_int_equal(weir_grace_waits_for(&f->grace, token), 1);
	weir_grace_offline(f->segment, 1);
	assert_true(weir_grace_passed(&f->grace, token));
}

TEST(every_online_worker_is_waited_for) {
	struct lab *f = *state;
	uint64_t token;

	for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
		weir_grace_online(f->segment, worker);
	}
	token = weir_grace_start(&f->grace);
	for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
		assert_int_equal(weir_grace_waits_for(&f->grace, token), worker);
		report(f, worker);
	}
	assert_true(weir_grace_passed(&f->grace, token));
	// Workers report in another order.
	token = weir_grace_start(&f->grace);
	report(f, 2);
	report(f, 0);
	assert_int_equal(weir_grace_waits_for(&f->grace, token), 1);
	report(f, 1);
	assert_true(weir_grace_passed(&f->grace, token));
}

TEST(report_covers_tokens_up_to_its_own) {
	struct lab *f = *state;
	uint64_t first, second, third;

	weir_grace_online(f->segment, 0);
	first = weir_grace_start(&f->grace);
	second = weir_grace_start(&f->grace);
	report(f, 0);
	third = weir_grace_start(&f->grace);
	assert_true(weir_grace_passed(&f->grace, first));
	assert_true(weir_grace_passed(&f->grace, second));
	assert_false(weir_grace_passed(&f->grace, third));
	// A slow worker reports an old token.
	weir_grace_report(f->segment, 0, first);
	assert_true(weir_grace_passed(&f->grace, first));
	assert_false(weir_grace_passed(&f->grace, second));
}

// The worker went online before the token existed, so it may use tables that control has unlinked.
TEST(worker_online_before_the_token_is_waited_for) {
	struct lab *f = *state;
	uint64_t token;

	weir_grace_start(&f->grace);
	// At this point control unlinks a table.
	weir_grace_online(f->segment, 2);
	token = weir_grace_start(&f->grace);
	assert_int_equal(weir_grace_waits_for(&f->grace, token), 2);
	report(f, 2);
	assert_true(weir_grace_passed(&f->grace, token));
}

// The worker went online after the token existed, so it cannot find tables that were unlinked
// before.
TEST(worker_online_after_the_token_is_not_waited_for) {
	struct lab *f = *state;
	uint64_t token = weir_grace_start(&f->grace);

	weir_grace_online(f->segment, 2);
	assert_true(weir_grace_passed(&f->grace, token));
	assert_false(weir_grace_passed(&f->grace, weir_grace_start(&f->grace)));
}

// The quiescence word of an online worker is odd, even before the first token.
TEST(word_of_an_online_worker_is_never_0) {
	const uint64_t tokens[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, 1ull << 63};
	struct lab *f = *state;

	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		f->control->news->token = tokens[i];
		weir_grace_online(f->segment, 0);
		assert_true((f->segment->quiescence[0].token & 1) == 1);
		report(f, 0);
		assert_true((f->segment->quiescence[0].token & 1) == 1);
		weir_grace_offline(f->segment, 0);
		assert_true(f->segment->quiescence[0].token == 0);
	}
}

TEST(tokens_wrap) {
	struct lab *f = *state;
	uint64_t marks[8];

	f->control->news->token = UINT64_MAX - 6;
	f->grace = weir_grace_open(f->control);
	weir_grace_online(f->segment, 0);
	for (unsigned int i = 0; i < 8; i++) {
		marks[i] = weir_grace_start(&f->grace);
		assert_true((marks[i] & 1) == 1);
		assert_false(weir_grace_passed(&f->grace, marks[i]));
		if (i % 2 == 1) {
			report(f, 0);
			assert_true(weir_grace_passed(&f->grace, marks[i - 1]));
			assert_true(weir_grace_passed(&f->grace, marks[i]));
		}
	}
	assert_true(marks[7] < marks[0]);
}

// A misbehaving control process may have used any tokens, and workers may have stored any of these
// values. The next control process must not treat such a value as a report. A grace period ends
// only if a worker really reports, or is offline.
TEST(words_of_a_predecessor_are_no_report) {
	static const uint64_t near[] = {0, 1, 2, 3, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2,
		1ull << 48, (1ull << 48) + 1, 3ull << 48, 1ull << 63};
	const size_t n = sizeof(near) / sizeof(near[0]);
	struct lab *f = *state;
	uint64_t seed = 1;

	for (unsigned int round = 0; round < 100000; round++) {
		uint64_t base = fixture_random(&seed);
		uint64_t token;

		f->control->news->token = base + near[fixture_random(&seed) % n];
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			uint64_t word = base + near[fixture_random(&seed) % n];

			// The word of an online worker is odd.
			f->segment->quiescence[worker].token = word | 1;
		}
		f->grace = weir_grace_open(f->control);
		for (unsigned int i = 0; i < 20; i++) {
			token = weir_grace_start(&f->grace);
			assert_true((token & 1) == 1);
			assert_int_equal(weir_grace_waits_for(&f->grace, token), 0);
		}
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			assert_int_equal(weir_grace_waits_for(&f->grace, token), worker);
			if (round % 2 == 0) {
				report(f, worker);
			} else {
				weir_grace_offline(f->segment, worker);
			}
		}
		assert_true(weir_grace_passed(&f->grace, token));
	}
}

// There are as many workers as possible, and the word of each worker is equal to a value that
// weir_grace_open tries as a new token.
TEST(opening_ends_with_any_words) {
	const uint64_t apart = 1ull << 48;
	static struct weir_quiescence words[WEIR_WORKERS_MAX];
	struct lab *f = *state;
	struct weir_segment many = *f->control;
	struct weir_grace grace;
	uint64_t token;

	many.workers = WEIR_WORKERS_MAX;
	many.quiescence = words;
	for (uint32_t i = 0; i < WEIR_WORKERS_MAX; i++) {
		words[WEIR_WORKERS_MAX - 1 - i].token = i * (2 * apart + 1000) + 1001;
	}
	f->control->news->token = 1;
	grace = weir_grace_open(&many);
	for (unsigned int i = 0; i < 1000; i++) {
		token = weir_grace_start(&grace);
		for (uint32_t worker = 0; worker < WEIR_WORKERS_MAX; worker++) {
			assert_true(words[worker].token - token > grace.token - token);
		}
	}
}

// A worker that stores arbitrary values can delay a grace period, and can itself read freed memory.
// But it cannot cause an endless loop.
TEST(garbage_in_words_counts_only_between_the_tokens) {
	struct lab *f = *state;
	uint64_t token, newest;

	weir_grace_online(f->segment, 0);
	token = weir_grace_start(&f->grace);
	weir_grace_start(&f->grace);
	newest = weir_grace_start(&f->grace);
	for (uint64_t word = token - 10; word != newest + 10; word++) {
		f->segment->quiescence[0].token = word;
		assert_int_equal(weir_grace_passed(&f->grace, token),
			word == 0 || (word >= token && word <= newest));
	}
}
