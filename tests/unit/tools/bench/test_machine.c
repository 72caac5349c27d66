// SPDX-License-Identifier: BSD-3-Clause
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_malloc.h>

#include "bench_lab.h"
#include "events.h"
#include "test.h"
#include "timer.h"

TEST_GROUP(bench_lab_eal);

TEST(timer_has_a_cost_and_advances) {
	uint32_t cost = weir_bench_timer_cost();
	uint64_t start, end;

	assert_in_range(cost, 1, 100000);
	start = weir_bench_timer_start();
	usleep(1000);
	end = weir_bench_timer_end();
	assert_true((double)(end - start) > 0.0009 * (double)rte_get_tsc_hz());
}

// Uses a software event, because it needs the same calls as a CPU event, but is available wherever
// perf_event_open works.
TEST(events_count_between_start_and_stop) {
	struct weir_bench_events events;
	uint64_t before = 0, after = 0;
	uint8_t *pages;

	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		events.fd[i] = -1;
	}
	events.fd[0] = weir_bench_event_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	if (events.fd[0] < 0) {
		skip();
	}
	events.any = true;
	pages = mmap(NULL, 200 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(pages != MAP_FAILED);
	madvise(pages, 200 * 4096, MADV_NOHUGEPAGE);
	for (unsigned int i = 0; i < 100; i++) { // before the start, so not counted
		((volatile uint8_t *)pages)[i * 4096] = 1;
	}
	weir_bench_events_start(&events);
	for (unsigned int i = 100; i < 200; i++) {
		((volatile uint8_t *)pages)[i * 4096] = 1;
	}
	weir_bench_events_stop(&events);
	assert_true(weir_bench_events_read(&events, (enum weir_bench_event)0, &before));
	assert_in_range(before, 100, 150);
	munmap(pages, 200 * 4096);
	assert_true(weir_bench_events_read(&events, (enum weir_bench_event)0, &after));
	assert_int_equal(before, after);
	assert_false(weir_bench_events_read(&events, (enum weir_bench_event)1, &after));
	weir_bench_events_close(&events);
	assert_false(weir_bench_events_read(&events, (enum weir_bench_event)0, &after));
}

TEST(unavailable_events_are_reported) {
	struct weir_bench_events events;
	uint64_t value = 42;

	weir_bench_events_open(&events);
	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		if (events.fd[i] < 0) {
			assert_false(
				weir_bench_events_read(&events, (enum weir_bench_event)i, &value));
			assert_int_equal(value, 42);
		}
		assert_true(strlen(weir_bench_event_name((enum weir_bench_event)i)) > 4);
	}
	weir_bench_events_close(&events);
	assert_false(events.any);
}

TEST(small_pages_are_small) {
	struct weir_bench_heap heap = {0};
	char why[256] = "";
	uint8_t *memory;

	// The shared heap of the tests already has this name.
	memory = rte_zmalloc_socket("test", 1 << 20, 64, heap.socket);
	rte_free(memory);
	assert_true(weir_bench_heap_create(
			    1 << 20, WEIR_BENCH_PAGES_SMALL, &heap, why, sizeof(why)) < 0);
	assert_true(why[0] != '\0');
}

TEST(heap_has_the_requested_size) {
	struct bench_lab lab;
	void *memory;

	bench_lab_open(&lab, "weir-bench --flows 10 --table-flows 1000 --no-huge");
	assert_int_equal(lab.heap.kind, WEIR_BENCH_PAGE_SMALL);
	assert_int_equal(lab.heap.huge_bytes, 0);
	assert_true(weir_bench_balancer_bytes(&lab.options) < lab.heap.bytes);
	memory = rte_malloc_socket("test", 16 << 20, 64, lab.heap.socket);
	assert_non_null(memory);
	rte_free(memory);
	bench_lab_close(&lab);
}
