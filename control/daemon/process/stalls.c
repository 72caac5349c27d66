// SPDX-License-Identifier: BSD-3-Clause
#include "stalls.h"

#include <stdio.h>
#include <string.h>

#include "duration.h"
#include "heartbeat.h"

void weir_stalls_watch(
	struct weir_stalls *stalls, const struct weir_segment *segment, uint64_t now_ns) {
	memset(stalls, 0, sizeof(*stalls));
	stalls->segment = segment;
	stalls->attached_ns = now_ns;
}

// Returns the time of the last heartbeat of a worker or, if this is later, the time at which the
// dataplane was attached.
static uint64_t last_ns(const struct weir_stalls *stalls, uint32_t worker) {
	uint64_t heartbeat_ns =
		weir_counter_read(&stalls->segment->worker_counters[worker].heartbeat_ns);

	return heartbeat_ns > stalls->attached_ns ? heartbeat_ns : stalls->attached_ns;
}

static uint64_t length_ms(uint64_t since_ns, uint64_t now_ns) {
	return now_ns > since_ns ? (now_ns - since_ns) / 1000000 : 0;
}

static void log_worker(const struct weir_log *log, uint32_t worker, bool stalled, uint64_t ms) {
	char number[16], length[WEIR_DURATION_BYTES];
	const struct weir_log_fields fields = {
		.worker = number, .state = stalled ? "stalled" : "running"};

	snprintf(number, sizeof(number), "%u", worker);
	if (stalled) {
		weir_log_event(log, WEIR_LOG_ERROR, &fields,
			"worker %u of weir-dataplane stalled for %s: the packets of its queues "
			"are lost",
			worker, weir_duration_text(ms, length));
	} else {
		weir_log_event(log, WEIR_LOG_WARN, &fields,
			"worker %u of weir-dataplane runs again after %s", worker,
			weir_duration_text(ms, length));
	}
}

static void log_all(const struct weir_log *log, bool stalled, uint64_t ms) {
	char length[WEIR_DURATION_BYTES];
	const struct weir_log_fields fields = {.state = stalled ? "stalled" : "running"};

	if (stalled) {
		weir_log_event(log, WEIR_LOG_ERROR, &fields,
			"weir-dataplane stalled for %s: no worker runs, no packet is forwarded",
			weir_duration_text(ms, length));
	} else {
		weir_log_event(log, WEIR_LOG_WARN, &fields, "weir-dataplane runs again after %s",
			weir_duration_text(ms, length));
	}
}

// Logs which workers have stalled and which run again. If all workers have stalled, or all run
// again, logs one line for all of them.
static void log_change(const struct weir_stalls *stalls, const struct weir_log *log,
	const uint64_t before_ns[], uint32_t before, uint64_t now_ns) {
	const uint32_t workers = stalls->segment->workers;
	uint64_t first_ns = now_ns;

	for (uint32_t w = 0; w < workers; w++) {
		const uint64_t since_ns =
			stalls->since_ns[w] != 0 ? stalls->since_ns[w] : before_ns[w];

		first_ns = since_ns != 0 && since_ns < first_ns ? since_ns : first_ns;
	}
	if (stalls->count == workers || (stalls->count == 0 && before == workers)) {
		log_all(log, stalls->count > 0, length_ms(first_ns, now_ns));
		return;
	}
	for (uint32_t w = 0; w < workers; w++) {
		const bool stalled = stalls->since_ns[w] != 0;

		if (stalled != (before_ns[w] != 0)) {
			log_worker(log, w, stalled,
				length_ms(stalled ? stalls->since_ns[w] : before_ns[w], now_ns));
		}
	}
}

bool weir_stalls_check(struct weir_stalls *stalls, const struct weir_log *log, uint64_t now_ns) {
	uint64_t before_ns[WEIR_WORKERS_MAX];
	const uint32_t before = stalls->count;
	bool changed = false;

	if (stalls->segment == NULL) {
		return false;
	}
	memcpy(before_ns, stalls->since_ns, sizeof(before_ns));
	stalls->count = 0;
	for (uint32_t w = 0; w < stalls->segment->workers; w++) {
		const uint64_t at_ns = last_ns(stalls, w);
		const bool stalled = !weir_heartbeat_alive(at_ns, now_ns);

		stalls->since_ns[w] = stalled ? at_ns : 0;
		stalls->count += stalled;
		changed |= stalled != (before_ns[w] != 0);
	}
	if (changed) {
		log_change(stalls, log, before_ns, before, now_ns);
	}
	return changed;
}

uint64_t weir_stalls_longest_ns(const struct weir_stalls *stalls, uint64_t now_ns) {
	uint64_t first_ns = now_ns;

	for (uint32_t w = 0; stalls->segment != NULL && w < stalls->segment->workers; w++) {
		if (stalls->since_ns[w] != 0 && stalls->since_ns[w] < first_ns) {
			first_ns = stalls->since_ns[w];
		}
	}
	return now_ns - first_ns;
}
