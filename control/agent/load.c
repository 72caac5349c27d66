// SPDX-License-Identifier: BSD-3-Clause
#include "load.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "listeners.h"

#define FRESH_MS 10 // values that were read less than this time ago are not read again
#define TIMES_MS 1000 // time between two readings of the service times
#define RATE_LEAST_MS 200 // a rate over a shorter time is too noisy

#define NEEDS_BUSY (WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT))
#define NEEDS_METER_ALONE \
	(WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(SERVICE_MEDIAN) | \
		WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE))
#define NEEDS_METER (NEEDS_METER_ALONE | NEEDS_BUSY)
#define NEEDS_CPU (WEIR_REPORT(UTILIZATION) | WEIR_REPORT(CPUS) | NEEDS_BUSY)
#define NEEDS_TICK (NEEDS_METER_ALONE | NEEDS_CPU)

int weir_load_init(struct weir_load *load, const struct weir_load_params *params) {
	struct weir_meter_times *times = calloc(WEIR_LOAD_TIMES, sizeof(*times));

	if (times == NULL) {
		return -ENOMEM;
	}
	*load = (struct weir_load){.params = *params, .times = times, .listeners = -1};
	if (params->port_count > 0) {
		load->listeners = weir_socket_diag_open();
	}
	load->cpu_mhz = weir_cpu_mhz(params->cpu);
	return 0;
}

void weir_load_fini(struct weir_load *load) {
	if (load->listeners >= 0) {
		close(load->listeners);
	}
	free(load->times);
	load->times = NULL;
}

bool weir_load_needs_meter(uint32_t wants) {
	return (wants & NEEDS_METER) != 0;
}

bool weir_load_needs_tick(uint32_t wants) {
	return (wants & NEEDS_TICK) != 0;
}

bool weir_load_lacks_cpu(const struct weir_load *load) {
	return (load->wants & NEEDS_CPU) != 0 && load->newest.at_ms > 0 && !load->newest.timed;
}

void weir_load_set_meter(struct weir_load *load, const struct weir_meter *meter) {
	load->meter = meter;
	load->sample_count = 0; // the counters of the new meter start at 0
	load->times_count = 0;
	load->newest.metered = false;
}

void weir_load_set_speed(struct weir_load *load, const struct weir_load_speed *speed) {
	load->speed = *speed;
}

// Returns whether the application's last report contains one of these fields and has not expired.
static bool application_reports(const struct weir_load *load, uint32_t fields, uint64_t now_ms) {
	return load->application_at_ms > 0 && (load->application.given & fields) != 0 &&
	       now_ms - load->application_at_ms <= load->params.application_ms;
}

// --- samples ------------------------------------------------------------------------------

static uint64_t ended(const struct weir_load_sample *sample, enum weir_meter_counter counter) {
	return sample->counts.counter[counter];
}

static void add_busy(struct weir_load *load, const struct weir_load_sample *before,
	const struct weir_load_sample *now) {
	if (application_reports(load, WEIR_REPORT(BUSY_TIME), now->at_ms) || !before->timed ||
		!now->timed || now->cpu.used_us < before->cpu.used_us) {
		return;
	}
	if (application_reports(load, WEIR_REPORT(REQUESTS), now->at_ms)) {
		load->busy_count += load->application.requests_per_second *
				    (double)(now->at_ms - before->at_ms) / 1e3;
	} else if (before->metered && now->metered) {
		load->busy_count +=
			(double)(ended(now, WEIR_METER_CLOSED) - ended(before, WEIR_METER_CLOSED));
	} else {
		return;
	}
	load->busy_us += now->cpu.used_us - before->cpu.used_us;
}

static void add_service(struct weir_load *load, const struct weir_load_sample *before,
	const struct weir_load_sample *now) {
	if (before->metered && now->metered &&
		!application_reports(load, WEIR_REPORT(SERVICE_TIME), now->at_ms)) {
		load->service_ns += now->counts.service_ns - before->counts.service_ns;
		load->service_count +=
			ended(now, WEIR_METER_TIMED) - ended(before, WEIR_METER_TIMED);
	}
}

void weir_load_set_wants(struct weir_load *load, uint32_t wants) {
	uint32_t more = wants & ~load->wants;

	if ((more & NEEDS_TICK) != 0) {
		load->sample_count = 0; // older samples may be stale or incomplete
	}
	if (!weir_load_needs_tick(load->wants)) {
		load->newest = (struct weir_load_sample){0}; // the sums do not grow without ticks
	}
	if ((more & WEIR_REPORT(SERVICE_MEDIAN)) != 0) {
		load->times_count = 0;
	}
	load->wants = wants;
}

// Update the newest sample and the sums.
static void refresh(struct weir_load *load, uint64_t now_ms) {
	struct weir_load_sample now = {.at_ms = now_ms};

	if (load->newest.at_ms > 0 && now_ms - load->newest.at_ms < FRESH_MS) {
		return;
	}
	if (load->meter != NULL && weir_load_needs_meter(load->wants)) {
		weir_meter_read(load->meter, &now.counts);
		now.metered = true;
	}
	if ((load->wants & NEEDS_CPU) != 0) {
		now.timed = weir_cpu_usage_read(load->params.cpu, &now.cpu) == 0;
	}
	add_service(load, &load->newest, &now);
	add_busy(load, &load->newest, &now);
	load->newest = now;
}

void weir_load_tick(struct weir_load *load, uint64_t now_ms) {
	refresh(load, now_ms);
	load->sample[load->sample_count++ % WEIR_LOAD_SAMPLES] = load->newest;
	if (load->meter != NULL && (load->wants & WEIR_REPORT(SERVICE_MEDIAN)) != 0 &&
		(load->times_count == 0 || now_ms - load->times_ms >= TIMES_MS)) {
		weir_meter_read_times(
			load->meter, &load->times[load->times_count++ % WEIR_LOAD_TIMES]);
		load->times_ms = now_ms;
	}
}

static uint64_t to_u64(double value) {
	return value >= 1e18 ? (uint64_t)1e18 : (uint64_t)(value + 0.5);
}

void weir_load_take_application(
	struct weir_load *load, const struct weir_report *report, uint64_t now_ms) {
	uint32_t given = report->given;

	load->application = *report;
	load->application_at_ms = now_ms;
	if ((given & WEIR_REPORT(SERVICE_TIME)) != 0) {
		double count =
			(given & WEIR_REPORT(SERVICE_COUNT)) != 0 ? report->service_count : 1;

		load->service_ns += to_u64(report->service_time_ms * 1e6 * count);
		load->service_count += (uint64_t)count;
	}
	if ((given & WEIR_REPORT(BUSY_TIME)) != 0) {
		double count = (given & WEIR_REPORT(BUSY_COUNT)) != 0 ? report->busy_count : 1;

		load->busy_us += to_u64(report->busy_time_ms * 1e3 * count);
		load->busy_count += count;
	}
}

// --- filling in answers -------------------------------------------------------------------

static uint32_t to_u32(double value) {
	return value >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)(value + 0.5);
}

static const struct weir_load_sample *oldest_sample(const struct weir_load *load) {
	if (load->sample_count == 0) {
		return NULL;
	}
	return &load->sample[load->sample_count < WEIR_LOAD_SAMPLES
				     ? 0
				     : load->sample_count % WEIR_LOAD_SAMPLES];
}

static void fill_rates(const struct weir_load *load, struct weir_agent_answer *answer) {
	const struct weir_load_sample *now = &load->newest, *before = oldest_sample(load);
	double ms = before == NULL ? 0 : (double)(now->at_ms - before->at_ms);

	if (ms < RATE_LEAST_MS) {
		return;
	}
	if (before->metered && now->metered) {
		uint64_t requests =
			ended(now, WEIR_METER_CLOSED) - ended(before, WEIR_METER_CLOSED);
		uint64_t errors =
			ended(now, WEIR_METER_ABORTED) - ended(before, WEIR_METER_ABORTED);

		answer->requests_milli_per_s = to_u64((double)requests * 1e6 / ms);
		answer->errors_milli_per_s = to_u64((double)errors * 1e6 / ms);
		answer->given |= WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS);
	}
	if (before->timed && now->timed && now->cpu.used_us >= before->cpu.used_us) {
		double used = (double)(now->cpu.used_us - before->cpu.used_us) / 1e3 / ms;

		answer->utilization_ppm = to_u32(used / now->cpu.cpus * 1e6);
		answer->given |= WEIR_REPORT(UTILIZATION);
	}
}

static void fill_median(const struct weir_load *load, struct weir_agent_answer *answer) {
	struct weir_meter_times now;
	double median_us;
	uint32_t oldest =
		load->times_count < WEIR_LOAD_TIMES ? 0 : load->times_count % WEIR_LOAD_TIMES;

	if (load->meter == NULL || load->times_count == 0) {
		return;
	}
	weir_meter_read_times(load->meter, &now);
	if (weir_meter_median_us(&load->times[oldest], &now, &median_us) > 0) {
		answer->service_median_us = to_u32(median_us);
		answer->given |= WEIR_REPORT(SERVICE_MEDIAN);
	}
}

static void fill_queue(const struct weir_load *load, struct weir_agent_answer *answer) {
	struct weir_listeners_queue queue;

	if (load->listeners >= 0 &&
		weir_listeners_queue(load->listeners, load->params.ports, load->params.port_count,
			&queue) == 0 &&
		queue.sockets > 0) {
		answer->accept_queue = queue.length;
		answer->accept_queue_limit = queue.limit;
		answer->given |= WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT);
	}
}

static uint16_t to_u16(double value) {
	return value >= UINT16_MAX ? UINT16_MAX : (uint16_t)lround(value);
}

static void fill_cpus(
	const struct weir_load *load, uint32_t wants, struct weir_agent_answer *answer) {
	const struct weir_load_speed *speed = &load->speed;
	bool wanted = (wants & WEIR_REPORT(GCU)) != 0;

	if (load->newest.timed && !(wanted && speed->pending)) {
		answer->cpu_milli = to_u32(load->newest.cpu.cpus * 1e3);
		answer->given |= WEIR_REPORT(CPUS);
	}
	if (load->cpu_mhz > 0) {
		answer->cpu_mhz = load->cpu_mhz;
		answer->given |= WEIR_REPORT(CPU_MHZ);
	}
	if (wanted && !speed->pending) {
		answer->gcu_milli = to_u16(speed->gcu * 1e3);
		answer->cpu_model = speed->cpu_model;
		answer->given |= WEIR_REPORT(GCU);
	}
}

static void fill_application(const struct weir_load *load, struct weir_agent_answer *answer) {
	const struct weir_report *report = &load->application;

	if ((report->given & WEIR_REPORT(SERVICE_MEDIAN)) != 0) {
		answer->service_median_us = to_u32(report->service_median_ms * 1e3);
	}
	if ((report->given & WEIR_REPORT(REQUESTS)) != 0) {
		answer->requests_milli_per_s = to_u64(report->requests_per_second * 1e3);
	}
	if ((report->given & WEIR_REPORT(ERRORS)) != 0) {
		answer->errors_milli_per_s = to_u64(report->errors_per_second * 1e3);
	}
	if ((report->given & WEIR_REPORT(UTILIZATION)) != 0) {
		answer->utilization_ppm = to_u32(report->utilization * 1e6);
	}
	if ((report->given & WEIR_REPORT(ACTIVE)) != 0) {
		answer->active = to_u32(report->active_requests);
	}
	if ((report->given & WEIR_REPORT(QUEUE)) != 0) {
		answer->accept_queue = to_u32(report->accept_queue);
	}
	if ((report->given & WEIR_REPORT(QUEUE_LIMIT)) != 0) {
		answer->accept_queue_limit = to_u32(report->accept_queue_limit);
	}
	if ((report->given & WEIR_REPORT(CPUS)) != 0) {
		answer->cpu_milli = to_u32(report->cpus * 1e3);
	}
	if ((report->given & WEIR_REPORT(CPU_MHZ)) != 0) {
		answer->cpu_mhz = to_u32(report->cpu_mhz);
	}
	if ((report->given & WEIR_REPORT(GCU)) != 0) {
		answer->gcu_milli = to_u16(report->gcu * 1e3);
	}
	if ((report->given & WEIR_REPORT(MAX_ACTIVE)) != 0) {
		answer->max_active_flows = to_u32(report->max_active_flows);
	}
	answer->given |= report->given;
}

static void fill_sums(
	const struct weir_load *load, bool reported, struct weir_agent_answer *answer) {
	const uint32_t service = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT);
	bool counted = load->newest.metered;

	answer->service_sum_us = load->service_ns / 1000;
	answer->service_count = load->service_count;
	answer->busy_sum_us = load->busy_us;
	answer->busy_count = (uint64_t)load->busy_count;
	if (counted || (reported && (load->application.given & WEIR_REPORT(SERVICE_TIME)) != 0)) {
		answer->given |= service;
	}
	if ((counted && load->newest.timed) ||
		(reported &&
			((load->application.given & WEIR_REPORT(BUSY_TIME)) != 0 ||
				(load->newest.timed &&
					(load->application.given & WEIR_REPORT(REQUESTS)) != 0)))) {
		answer->given |= NEEDS_BUSY;
	}
}

void weir_load_fill(
	struct weir_load *load, uint32_t wants, uint64_t now_ms, struct weir_agent_answer *answer) {
	bool reported = application_reports(load, WEIR_REPORT_ALL, now_ms);

	answer->given = 0;
	answer->gcu_milli = 0;
	answer->cpu_model = 0;
	if (weir_load_needs_tick(load->wants)) {
		refresh(load, now_ms);
		fill_rates(load, answer);
	}
	if (load->newest.metered) {
		answer->active = to_u32((double)weir_meter_active(&load->newest.counts));
		answer->given |= WEIR_REPORT(ACTIVE);
	}
	fill_cpus(load, wants, answer);
	if ((wants & WEIR_REPORT(SERVICE_MEDIAN)) != 0) {
		fill_median(load, answer);
	}
	if ((wants & (WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT))) != 0) {
		fill_queue(load, answer);
	}
	if (load->params.max_active_flows > 0) {
		answer->max_active_flows = load->params.max_active_flows;
		answer->given |= WEIR_REPORT(MAX_ACTIVE);
	}
	if (reported) {
		fill_application(load, answer);
	}
	fill_sums(load, reported, answer);
	answer->given &= (wants | WEIR_REPORT(MAX_ACTIVE)) & WEIR_AGENT_GIVEN;
	// If the bit GCU is not set in `given`, earlier versions of weir-control reject an answer
	// that has a speed or a CPU model.
	if ((answer->given & WEIR_REPORT(GCU)) == 0) {
		answer->gcu_milli = 0;
		answer->cpu_model = 0;
	}
}
