// SPDX-License-Identifier: BSD-3-Clause
#include "watchdog.h"

#include <stdio.h>
#include <string.h>

#include "duration.h"

void weir_watchdog_init(struct weir_watchdog *watchdog, const struct weir_segment *segment,
	const struct weir_log *log, uint64_t now_ms) {
	memset(watchdog, 0, sizeof(*watchdog));
	watchdog->segment = segment;
	watchdog->log = log;
	for (uint32_t w = 0; w < segment->workers; w++) {
		watchdog->changed_ms[w] = now_ms;
	}
}

static void note(struct weir_watchdog *watchdog, uint32_t w, bool stuck, uint64_t silent_ms) {
	char worker[16], silent[WEIR_DURATION_BYTES];
	const struct weir_log_fields fields = {
		.worker = worker, .state = stuck ? "stalled" : "running"};

	if (stuck == watchdog->stuck[w]) {
		return;
	}
	watchdog->stuck[w] = stuck;
	snprintf(worker, sizeof(worker), "%u", w);
	if (stuck) {
		weir_log_event(watchdog->log, WEIR_LOG_ERROR, &fields, "worker %u stalled for %s",
			w, weir_duration_text(silent_ms, silent));
	} else {
		weir_log_event(watchdog->log, WEIR_LOG_WARN, &fields,
			"worker %u recovered after %s", w, weir_duration_text(silent_ms, silent));
	}
}

bool weir_watchdog_check(struct weir_watchdog *watchdog, uint64_t now_ms) {
	bool all = true;

	for (uint32_t w = 0; w < watchdog->segment->workers; w++) {
		uint64_t heartbeat_ns =
			weir_counter_read(&watchdog->segment->worker_counters[w].heartbeat_ns);
		uint64_t silent_ms = now_ms - watchdog->changed_ms[w];
		bool beats = heartbeat_ns != watchdog->heartbeat_ns[w];

		if (beats) {
			watchdog->heartbeat_ns[w] = heartbeat_ns;
			watchdog->changed_ms[w] = now_ms;
		}
		note(watchdog, w, !beats && silent_ms > WEIR_WATCHDOG_LIMIT_MS, silent_ms);
		all = all && !watchdog->stuck[w];
	}
	return all;
}
