// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heartbeat.h"
#include "stalls.h"
#include "test.h"

#define SECOND 1000000000ull
#define START (100 * SECOND)

struct own {
	struct weir_segment *segment;
	struct weir_stalls stalls;
	struct weir_log log;
	int fds[2];
	char text[2048]; // log lines that logged() has read
};

static int setup(void **state) {
	static struct own own;
	struct weir_port_info port = {.name = "wan"};
	struct weir_segment_params params = {.workers = 2,
		.ports = 1,
		.max_services = 1,
		.max_backends = 1,
		.heap_bytes = 1 << 20,
		.port_info = &port};

	memset(&own, 0, sizeof(own));
	if (pipe(own.fds) < 0) {
		return -1;
	}
	own.log = (struct weir_log){.fd = own.fds[1], .level = WEIR_LOG_INFO};
	*state = &own;
	return weir_segment_create(&params, &own.segment);
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_segment_free(own->segment);
	close(own->fds[0]);
	close(own->fds[1]);
	return 0;
}

TEST_EACH(setup, teardown);

static void beat(struct own *own, uint32_t worker, uint64_t now_ns) {
	own->segment->worker_counters[worker].heartbeat_ns = now_ns;
}

static bool check(struct own *own, uint64_t now_ns) {
	return weir_stalls_check(&own->stalls, &own->log, now_ns);
}

// Returns the log lines since the last call of this function.
static const char *logged(struct own *own) {
	ssize_t n;

	dprintf(own->fds[1], "."); // so that reading does not block
	n = read(own->fds[0], own->text, sizeof(own->text) - 1);
	own->text[n > 0 ? n - 1 : 0] = '\0';
	return own->text;
}

TEST(heartbeat_is_alive_for_a_second) {
	struct own *own = *state;

	assert_false(weir_worker_alive(own->segment, 0, START)); // the worker has never started
	beat(own, 0, START - 1000000);
	assert_true(weir_worker_alive(own->segment, 0, START));
	beat(own, 0, START + 1000); // the heartbeat is read a little later than the clock
	assert_true(weir_worker_alive(own->segment, 0, START));
	beat(own, 0, START - WEIR_WORKER_ALIVE_NS - 1);
	assert_false(weir_worker_alive(own->segment, 0, START));
}

TEST(stalls_of_the_whole_dataplane_are_one_line) {
	struct own *own = *state;

	weir_stalls_watch(&own->stalls, own->segment, START);
	beat(own, 0, START);
	beat(own, 1, START + SECOND / 1000);
	assert_false(check(own, START + SECOND));
	assert_string_equal(logged(own), "");
	assert_true(check(own, START + SECOND * 11 / 10));
	assert_int_equal(own->stalls.count, 2);
	assert_non_null(strstr(logged(own),
		"error weir-dataplane stalled for 1.1s: no worker runs, no packet is "
		"forwarded\n"));
	assert_null(strstr(own->text, "worker 0"));
	for (int i = 2; i < 30; i++) { // logged once
		assert_false(check(own, START + SECOND * (unsigned int)i));
	}
	assert_string_equal(logged(own), "");
	assert_int_equal(weir_stalls_longest_ns(&own->stalls, START + 30 * SECOND), 30 * SECOND);
	beat(own, 0, START + 30 * SECOND);
	beat(own, 1, START + 30 * SECOND);
	assert_true(check(own, START + 30 * SECOND));
	assert_int_equal(own->stalls.count, 0);
	assert_non_null(strstr(logged(own), "warn  weir-dataplane runs again after 30.0s\n"));
	assert_int_equal(weir_stalls_longest_ns(&own->stalls, START + 30 * SECOND), 0);
}

TEST(stall_of_one_worker_is_logged_with_its_number) {
	struct own *own = *state;

	weir_stalls_watch(&own->stalls, own->segment, START);
	beat(own, 0, START + 5 * SECOND);
	beat(own, 1, START + 3 * SECOND);
	assert_true(check(own, START + 5 * SECOND));
	assert_int_equal(own->stalls.count, 1);
	assert_non_null(strstr(logged(own),
		"error worker 1 of weir-dataplane stalled for 2.0s: the packets of its queues are "
		"lost\n"));
	assert_null(strstr(own->text, "worker 0"));
	beat(own, 0, START + 7 * SECOND);
	beat(own, 1, START + 7 * SECOND);
	assert_true(check(own, START + 7 * SECOND));
	assert_non_null(
		strstr(logged(own), "warn  worker 1 of weir-dataplane runs again after 4.0s\n"));
}

// Control attaches to a dataplane before its workers have a heartbeat. Later that dataplane is
// lost, and control attaches to another one.
TEST(starting_dataplane_is_not_stalled) {
	struct own *own = *state;

	assert_false(check(own, START)); // no dataplane is attached
	weir_stalls_watch(&own->stalls, own->segment, START);
	assert_false(check(own, START + SECOND / 2));
	assert_true(check(own, START + 2 * SECOND));
	assert_int_equal(own->stalls.count, 2);
	weir_stalls_watch(&own->stalls, own->segment, START + 3 * SECOND);
	assert_int_equal(own->stalls.count, 0);
	assert_false(check(own, START + 4 * SECOND));
	weir_stalls_watch(&own->stalls, NULL, START + 5 * SECOND);
	assert_false(check(own, START + 10 * SECOND));
}
