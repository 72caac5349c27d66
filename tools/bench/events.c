// SPDX-License-Identifier: BSD-3-Clause
#include "events.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int weir_bench_event_open(uint32_t type, uint64_t config) {
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void weir_bench_events_open(struct weir_bench_events *events) {
	events->any = false;
#define X(name, key, type, config) \
	events->fd[WEIR_BENCH_EVENT_##name] = weir_bench_event_open(type, config); \
	events->any |= events->fd[WEIR_BENCH_EVENT_##name] >= 0;
	WEIR_BENCH_EVENTS(X)
#undef X
}

void weir_bench_events_close(struct weir_bench_events *events) {
	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		if (events->fd[i] >= 0) {
			close(events->fd[i]);
			events->fd[i] = -1;
		}
	}
	events->any = false;
}

static void control(const struct weir_bench_events *events, unsigned long request) {
	for (unsigned int i = 0; i < WEIR_BENCH_EVENT_COUNT; i++) {
		if (events->fd[i] >= 0) {
			ioctl(events->fd[i], request, 0);
		}
	}
}

void weir_bench_events_start(const struct weir_bench_events *events) {
	control(events, PERF_EVENT_IOC_ENABLE);
}

void weir_bench_events_stop(const struct weir_bench_events *events) {
	control(events, PERF_EVENT_IOC_DISABLE);
}

bool weir_bench_events_read(
	const struct weir_bench_events *events, enum weir_bench_event event, uint64_t *ret) {
	struct {
		uint64_t value, enabled, running;
	} count;

	if (events->fd[event] < 0 ||
		read(events->fd[event], &count, sizeof(count)) != sizeof(count) ||
		count.running == 0) {
		return false;
	}
	// If there are more events than hardware counters, the kernel multiplexes them, and each
	// event is counted for only a part of the time. Scale the count to the whole time.
	*ret = (uint64_t)((double)count.value * (double)count.enabled / (double)count.running);
	return true;
}

const char *weir_bench_event_name(enum weir_bench_event event) {
	static const char *const names[] = {
#define X(name, key, type, config) [WEIR_BENCH_EVENT_##name] = (key),
		WEIR_BENCH_EVENTS(X)
#undef X
	};

	return names[event];
}
