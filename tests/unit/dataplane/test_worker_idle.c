// SPDX-License-Identifier: BSD-3-Clause
//
// Pauses of a worker: how long they last, and what ends them. A pipe replaces the AF_XDP socket,
// because the worker uses the socket only as a descriptor that is readable when packets arrive.
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "test.h"
#include "worker_private.h"

#define YIELD_NS 100000u // YIELD_NS and SLEEP_NS: maximum pauses in the idle modes
#define SLEEP_NS 1000000u
#define WARM_UP 200 // iterations until pauses have their maximum duration
#define PAUSES 40

struct pauses_lab {
	struct weir_worker *worker;
	struct weir_device device;
	int queue[2];
};

static uint64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int setup(void **state) {
	struct pauses_lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	lab->worker = calloc(1, sizeof(*lab->worker));
	assert_non_null(lab->worker);
	weir_idle_init(&lab->worker->idle, WEIR_IDLE_POLL);
	assert_int_equal(pipe(lab->queue), 0);
	lab->device.id = RTE_MAX_ETHPORTS - 1; // not a DPDK port, which would have no interrupts
	lab->device.xdp_sockets = 1;
	lab->device.xdp_socket[0] = lab->queue[0];
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct pauses_lab *lab = *state;

	weir_idle_fini(&lab->worker->idle);
	close(lab->queue[0]);
	close(lab->queue[1]);
	free(lab->worker);
	free(lab);
	return 0;
}

static void begin(struct pauses_lab *lab, enum weir_config_idle mode) {
	weir_idle_fini(&lab->worker->idle);
	lab->worker->idle = (struct weir_idle){0};
	weir_idle_init(&lab->worker->idle, mode);
	weir_worker_wake_by(lab->worker, &lab->device, 0);
	for (int i = 0; i < WARM_UP; i++) {
		weir_idle_pause(&lab->worker->idle);
	}
}

// Returns the duration of the shortest of PAUSES pauses. Other programs on this CPU can only make a
// pause longer.
static uint64_t shortest_ns(struct pauses_lab *lab) {
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < PAUSES; i++) {
		uint64_t start = now_ns(), end;

		weir_idle_pause(&lab->worker->idle);
		end = now_ns();
		shortest = end - start < shortest ? end - start : shortest;
	}
	return shortest;
}

TEST_EACH(setup, teardown);

TEST(each_mode_pauses_longer_than_the_previous_one) {
	struct pauses_lab *lab = *state;

	begin(lab, WEIR_IDLE_POLL);
	assert_true(shortest_ns(lab) < YIELD_NS);
	assert_false(weir_worker_is_woken(lab->worker));
	begin(lab, WEIR_IDLE_YIELD);
	assert_in_range(shortest_ns(lab), YIELD_NS, SLEEP_NS - 1);
	assert_false(weir_worker_is_woken(lab->worker));
	begin(lab, WEIR_IDLE_SLEEP);
	assert_true(shortest_ns(lab) >= SLEEP_NS);
	assert_true(weir_worker_is_woken(lab->worker));
}

TEST(a_packet_ends_a_sleep) {
	struct pauses_lab *lab = *state;

	begin(lab, WEIR_IDLE_SLEEP);
	assert_true(shortest_ns(lab) >= SLEEP_NS);
	assert_int_equal(write(lab->queue[1], "", 1), 1);
	assert_true(shortest_ns(lab) < SLEEP_NS / 2); // the queue is never emptied
	weir_idle_end(&lab->worker->idle);
	assert_int_equal(lab->worker->idle.turns, 0);
	assert_false(lab->worker->idle.armed);
}

TEST(queues_without_wakeup_are_polled_as_often_as_before) {
	struct pauses_lab *lab = *state;
	struct weir_source ring = {
		.kind = WEIR_SOURCE_HANDED, .ring = (struct rte_ring *)(uintptr_t)64};

	begin(lab, WEIR_IDLE_SLEEP);
	assert_int_equal(weir_worker_add_source(lab->worker, &ring), 0);
	assert_false(weir_worker_is_woken(lab->worker));
	assert_true(shortest_ns(lab) < SLEEP_NS);
	lab->device.xdp_sockets = 0;
	begin(lab, WEIR_IDLE_SLEEP);
	assert_false(weir_worker_is_woken(lab->worker));
}

TEST(one_socket_may_serve_several_queues) {
	struct pauses_lab *lab = *state;

	begin(lab, WEIR_IDLE_SLEEP);
	weir_worker_wake_by(lab->worker, &lab->device, 1);
	assert_true(weir_worker_is_woken(lab->worker));
}
