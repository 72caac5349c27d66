// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"
#include "watchdog.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(a_stalled_worker_and_its_recovery_are_reported_once) {
	struct weir_port_info port = {.name = "wan"};
	struct weir_segment_params params = {.workers = 2,
		.ports = 1,
		.max_services = 1,
		.max_backends = 1,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	struct weir_watchdog watchdog;
	struct weir_segment *segment;
	struct weir_log log;
	char text[1024] = "";
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	log = (struct weir_log){.fd = fds[1], .level = WEIR_LOG_INFO};
	assert_int_equal(weir_segment_create(&params, &segment), 0);
	weir_watchdog_init(&watchdog, segment, &log, 1000);
	for (uint64_t now = 1000; now <= 1000 + WEIR_WATCHDOG_LIMIT_MS; now += 100) {
		segment->worker_counters[0].heartbeat_ns++;
		assert_true(weir_watchdog_check(&watchdog, now));
	}
	segment->worker_counters[0].heartbeat_ns++;
	assert_false(weir_watchdog_check(&watchdog, 1001 + WEIR_WATCHDOG_LIMIT_MS));
	assert_false(weir_watchdog_check(&watchdog, 1101 + WEIR_WATCHDOG_LIMIT_MS));
	segment->worker_counters[1].heartbeat_ns = 7;
	assert_true(weir_watchdog_check(&watchdog, 1201 + WEIR_WATCHDOG_LIMIT_MS));
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "error worker 1 stalled for 1.0s\n"));
	assert_non_null(strstr(text, "warn  worker 1 recovered after 1.2s\n"));
	assert_null(strstr(strstr(text, "stalled") + 1, "stalled"));
	assert_null(strstr(text, "worker 0"));
	weir_segment_free(segment);
	close(fds[0]);
	close(fds[1]);
}
