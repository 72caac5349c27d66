// SPDX-License-Identifier: BSD-3-Clause
#include "samples.h"

static struct weir_worker_sample take(const struct weir_segment *segment, uint32_t worker) {
	const struct weir_worker_counters *counters = &segment->worker_counters[worker];
	struct weir_worker_sample sample = {
		.busy_cycles = weir_counter_read(&counters->busy_cycles),
		.idle_cycles = weir_counter_read(&counters->idle_cycles),
	};

	return sample;
}

void weir_samples_init(struct weir_samples *samples, const struct weir_segment *segment) {
	weir_samples_take(samples, segment);
	weir_samples_take(samples, segment);
}

void weir_samples_take(struct weir_samples *samples, const struct weir_segment *segment) {
	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		samples->before[worker] = samples->last[worker];
		samples->last[worker] = take(segment, worker);
	}
}

double weir_samples_busy_percent(
	const struct weir_samples *samples, const struct weir_segment *segment, uint32_t worker) {
	struct weir_worker_sample now = take(segment, worker);
	uint64_t busy = now.busy_cycles - samples->before[worker].busy_cycles;
	uint64_t idle = now.idle_cycles - samples->before[worker].idle_cycles;

	if (busy + idle == 0) {
		return -1;
	}
	return 100.0 * (double)busy / ((double)busy + (double)idle);
}
