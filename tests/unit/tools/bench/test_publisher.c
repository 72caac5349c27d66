// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_lab.h"
#include "publisher.h"
#include "test.h"

#define DEADLINE_S 10

static double seconds_now(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void open_publisher(
	struct bench_lab *lab, struct weir_bench_publisher *publisher, const char *line) {
	bench_lab_tables(lab, line);
	assert_int_equal(
		weir_bench_publisher_start(publisher, &lab->options, lab->balancer.segment, 0), 0);
	assert_true(publisher->pid > 0 && publisher->pid != getpid());
}

// Acts as a worker until it has loaded `n` publications.
static void follow(
	struct bench_lab *lab, const struct weir_bench_publisher *publisher, uint64_t n) {
	uint64_t first = weir_bench_publisher_count(publisher);
	double deadline = seconds_now() + DEADLINE_S;

	weir_reader_online(&lab->balancer.reader);
	while (weir_bench_publisher_count(publisher) < first + n) {
		assert_true(seconds_now() < deadline);
		weir_reader_quiescent(&lab->balancer.reader);
		usleep(200);
	}
	weir_reader_offline(&lab->balancer.reader);
}

TEST(publishes_only_on_request) {
	struct weir_bench_publisher publisher = {0};
	struct bench_lab lab;
	weir_ref before, after;
	uint64_t count;

	open_publisher(&lab, &publisher, "weir-bench --publications 500 --backends 8 --slots 251");
	before = lab.balancer.segment->roots->selection[0];
	count = weir_bench_publisher_count(&publisher);
	assert_int_equal(weir_bench_publisher_go(&publisher), 0);
	follow(&lab, &publisher, 20);
	assert_int_equal(weir_bench_publisher_pause(&publisher), 0);
	// When weir_bench_publisher_pause returns, the publisher has stopped.
	count = weir_bench_publisher_count(&publisher);
	after = lab.balancer.segment->roots->selection[0];
	assert_true(after != before);
	usleep(20000);
	assert_int_equal(weir_bench_publisher_count(&publisher), count);
	weir_reader_settle(&lab.balancer.reader);
	assert_int_equal(
		// The selection is complete and valid.
		weir_reader_selection(&lab.balancer.reader, 0)->table.count, 8);
	assert_int_equal(weir_bench_publisher_go(&publisher), 0);
	follow(&lab, &publisher, 5);
	assert_int_equal(weir_bench_publisher_pause(&publisher), 0);
	weir_bench_publisher_stop(&publisher);
	assert_int_equal(publisher.pid, 0);
	weir_bench_publisher_stop(&publisher); // a second stop has no effect
	bench_lab_close(&lab);
}

TEST(services_take_turns) {
	struct weir_bench_publisher publisher = {0};
	struct bench_lab lab;
	weir_ref before[3];

	open_publisher(&lab, &publisher,
		"weir-bench --publications 1000 --services 3 --backends 9 --slots 251");
	for (unsigned int i = 0; i < 3; i++) {
		before[i] = lab.balancer.segment->roots->selection[i];
	}
	assert_int_equal(weir_bench_publisher_go(&publisher), 0);
	follow(&lab, &publisher, 6);
	assert_int_equal(weir_bench_publisher_pause(&publisher), 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(lab.balancer.segment->roots->selection[i] != before[i]);
	}
	weir_bench_publisher_stop(&publisher);
	bench_lab_close(&lab);
}

TEST(its_exit_is_detected) {
	struct weir_bench_publisher publisher = {0};
	struct bench_lab lab;

	open_publisher(&lab, &publisher, "weir-bench --publications 100 --backends 8 --slots 251");
	kill(publisher.pid, SIGKILL);
	waitid(P_PID, (id_t)publisher.pid, NULL, WEXITED | WNOWAIT);
	assert_int_equal(weir_bench_publisher_go(&publisher), -EIO);
	weir_bench_publisher_stop(&publisher);
	bench_lab_close(&lab);
}
