// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the load report. The test writes the meter's counters, and files like those of the
// kernel.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load.h"
#include "put_file.h"
#include "test.h"

#define ALL WEIR_AGENT_GIVEN
#define CPU WEIR_REPORT(CPUS)
#define SUMS \
	(WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(BUSY_TIME) | \
		WEIR_REPORT(BUSY_COUNT))

struct lab {
	char folder[64];
	struct weir_cpu_source cpu;
	struct weir_meter_shard *shards;
	struct weir_meter *meter;
	struct weir_load load;
	struct weir_agent_answer answer; // the last answer
};

static void put_cpu_ms(const struct lab *lab, unsigned int ms) {
	char text[64];

	snprintf(text, sizeof(text), "usage_usec %u000\n", ms);
	put_file(lab->folder, "cpu.stat", text);
}

static int setup(void **state) {
	size_t bytes = sizeof(struct weir_meter_shard) * WEIR_METER_SHARDS;
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_load_params params = {
		.cpu = &lab->cpu, .max_active_flows = 500, .application_ms = 4000};
	int fd = memfd_create("meter", 0);

	strcpy(lab->folder, "/tmp/weir-load-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	lab->cpu = (struct weir_cpu_source){.cgroup = {lab->folder},
		.cgroup_count = 1,
		.proc_root = lab->folder,
		.sys_root = lab->folder};
	put_file(lab->folder, "cpu.max", "50000 100000\n"); // a quota of half a CPU
	put_file(lab->folder, "cgroup.procs", "1\n");
	put_cpu_ms(lab, 7000);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	lab->shards = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(lab->shards, MAP_FAILED);
	assert_int_equal(weir_meter_open(fd, &lab->meter), 0);
	close(fd);
	assert_int_equal(weir_load_init(&lab->load, &params), 0);
	weir_load_set_meter(&lab->load, lab->meter);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;
	char command[128];

	weir_load_fini(&lab->load);
	weir_meter_close(lab->meter);
	munmap(lab->shards, sizeof(struct weir_meter_shard) * WEIR_METER_SHARDS);
	snprintf(command, sizeof(command), "rm -rf %s", lab->folder);
	assert_int_equal(system(command), 0);
	free(lab);
	return 0;
}

// Simulates connections that took 2 ms each, on this CPU.
static void serve(struct lab *lab, uint32_t cpu, uint32_t count) {
	struct weir_meter_shard *shard = &lab->shards[cpu];

	shard->counter[WEIR_METER_OPENED] += count;
	shard->counter[WEIR_METER_CLOSED] += count;
	shard->counter[WEIR_METER_FINISHED] += count;
	shard->counter[WEIR_METER_TIMED] += count;
	shard->service_ns += count * UINT64_C(2000000);
	shard->bucket[weir_meter_bucket(2000)] += count;
}

static uint32_t fill(struct lab *lab, uint32_t wants, uint64_t now_ms) {
	weir_load_fill(&lab->load, wants, now_ms, &lab->answer);
	return lab->answer.given;
}

TEST_EACH(setup, teardown);

TEST(load_contains_the_requested_fields) {
	struct lab *lab = *state;

	assert_int_equal(fill(lab, 0, 1000), WEIR_REPORT(MAX_ACTIVE));
	assert_int_equal(lab->answer.max_active_flows, 500);
	weir_load_set_wants(&lab->load, ALL);
	assert_int_equal(fill(lab, CPU, 1000), CPU | WEIR_REPORT(MAX_ACTIVE));
	assert_int_equal(lab->answer.cpu_milli, 500);
	assert_int_equal(fill(lab, SUMS, 1100), SUMS | WEIR_REPORT(MAX_ACTIVE));
	assert_false(weir_load_needs_meter(CPU | WEIR_REPORT(QUEUE)));
	assert_true(weir_load_needs_meter(WEIR_REPORT(BUSY_TIME)));
	assert_false(weir_load_needs_tick(WEIR_REPORT(QUEUE) | WEIR_REPORT(MAX_ACTIVE)));
}

TEST(load_has_the_speed_once_it_is_measured) {
	const uint32_t wants = CPU | WEIR_REPORT(CPU_MHZ) | WEIR_REPORT(GCU);
	struct weir_load_speed speed = {.pending = true, .cpu_model = 77};
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, wants);
	weir_load_set_speed(&lab->load, &speed);
	assert_false(fill(lab, wants, 1000) & (CPU | WEIR_REPORT(GCU)));
	assert_int_equal(lab->answer.cpu_model, 0);
	// a balancer of an earlier version, which does not request the speed (GCU), gets the number
	// of CPUs at once
	assert_true(fill(lab, CPU, 1000) & CPU);
	speed = (struct weir_load_speed){.gcu = 1.25, .cpu_model = 77};
	weir_load_set_speed(&lab->load, &speed);
	assert_int_equal(fill(lab, wants, 1000) & wants, CPU | WEIR_REPORT(GCU));
	assert_int_equal(lab->answer.gcu_milli, 1250);
	assert_int_equal(lab->answer.cpu_model, 77);
	assert_false(fill(lab, CPU, 1000) & WEIR_REPORT(GCU)); // not requested: the fields are 0
	assert_int_equal(lab->answer.gcu_milli, 0);
	assert_int_equal(lab->answer.cpu_model, 0);
	speed.gcu = 1e9;
	weir_load_set_speed(&lab->load, &speed);
	fill(lab, wants, 1000);
	assert_int_equal(lab->answer.gcu_milli, UINT16_MAX);
}

TEST(load_sums_events) {
	struct lab *lab = *state;

	// not counted, because no measurements were requested before
	serve(lab, 0, 100);
	weir_load_set_wants(&lab->load, ALL);
	weir_load_tick(&lab->load, 1000);
	for (uint32_t i = 1; i <= 8; i++) {
		serve(lab, i, 25);
		lab->shards[i].counter[WEIR_METER_OPENED] += 2;
		// of two open connections, one is aborted and one stays open
		lab->shards[i].counter[WEIR_METER_CLOSED]++;
		lab->shards[i].counter[WEIR_METER_ABORTED]++;
		put_cpu_ms(lab, 7000 + i * 100);
		weir_load_tick(&lab->load, 1000 + i * 250);
	}
	fill(lab, ALL, 3000);
	assert_int_equal(lab->answer.service_count, 200);
	assert_int_equal(lab->answer.service_sum_us, 400000);
	assert_int_equal(lab->answer.busy_count, 208);
	assert_int_equal(lab->answer.busy_sum_us, 800000);
	assert_int_equal(lab->answer.active, 8);
	assert_int_equal(lab->answer.requests_milli_per_s, 104000); // 26 requests each 250 ms
	assert_int_equal(lab->answer.errors_milli_per_s, 4000);
	// 0.4 CPUs are used, and the quota is half a CPU
	assert_int_equal(lab->answer.utilization_ppm, 800000);
	assert_in_range(lab->answer.service_median_us, 1940, 2060);
}

TEST(load_rates_are_those_of_the_last_second) {
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, ALL);
	for (uint32_t i = 0; i < 20; i++) {
		serve(lab, 3, i < 10 ? 100 : 10);
		weir_load_tick(&lab->load, 1000 + i * 250);
	}
	fill(lab, ALL, 1000 + 19 * 250);
	assert_int_equal(lab->answer.requests_milli_per_s, 40000);
}

TEST(load_median_is_that_of_the_last_seconds) {
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, ALL);
	weir_load_tick(&lab->load, 1000);
	serve(lab, 0, 1000);
	fill(lab, ALL, 1100);
	assert_in_range(lab->answer.service_median_us, 1940, 2060);
	for (uint32_t i = 1; i <= 44; i++) { // 11 s in total
		weir_load_tick(&lab->load, 1000 + i * 250);
	}
	assert_false(fill(lab, ALL, 12001) & WEIR_REPORT(SERVICE_MEDIAN));
	lab->shards[0].bucket[weir_meter_bucket(50000)]++;
	fill(lab, ALL, 12101);
	assert_in_range(lab->answer.service_median_us, 48000, 52000);
}

TEST(load_continues_with_another_meter) {
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, ALL);
	weir_load_tick(&lab->load, 1000);
	serve(lab, 0, 10);
	weir_load_tick(&lab->load, 1250);
	weir_load_set_meter(&lab->load, NULL);
	assert_false(fill(lab, ALL, 1300) & WEIR_REPORT(ACTIVE));
	// simulate a new meter, which counts from 0
	memset(lab->shards, 0, sizeof(*lab->shards) * WEIR_METER_SHARDS);
	weir_load_set_meter(&lab->load, lab->meter);
	weir_load_tick(&lab->load, 1500);
	serve(lab, 0, 5);
	fill(lab, ALL, 1800);
	assert_int_equal(lab->answer.service_count, 15);
	assert_int_equal(lab->answer.service_sum_us, 30000);
}

TEST(load_continues_to_count_with_additional_fields) {
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, SUMS);
	weir_load_tick(&lab->load, 1000);
	serve(lab, 0, 10);
	weir_load_set_wants(&lab->load, ALL);
	serve(lab, 0, 10);
	fill(lab, ALL, 1100);
	assert_int_equal(lab->answer.service_count, 20);
	weir_load_set_wants(&lab->load, SUMS);
	serve(lab, 0, 10);
	fill(lab, SUMS, 1200);
	assert_int_equal(lab->answer.service_count, 30);
}

TEST(load_sums_do_not_grow_while_nothing_is_requested) {
	struct lab *lab = *state;

	weir_load_set_wants(&lab->load, SUMS);
	weir_load_tick(&lab->load, 1000);
	serve(lab, 0, 10);
	fill(lab, SUMS, 1250);
	weir_load_set_wants(&lab->load, 0);
	serve(lab, 0, 1000);
	put_cpu_ms(lab, 9000);
	weir_load_set_wants(&lab->load, SUMS);
	fill(lab, SUMS, 21000);
	assert_int_equal(lab->answer.service_count, 10);
	assert_int_equal(lab->answer.busy_sum_us, 0);
}

TEST(load_prefers_values_of_the_application) {
	struct lab *lab = *state;
	struct weir_report report = {
		.given = WEIR_REPORT(REQUESTS) | WEIR_REPORT(UTILIZATION) | WEIR_REPORT(MAX_ACTIVE),
		.requests_per_second = 40,
		.utilization = 0.75,
		.max_active_flows = 9,
	};

	weir_load_set_wants(&lab->load, ALL);
	weir_load_tick(&lab->load, 1000);
	weir_load_take_application(&lab->load, &report, 1000);
	for (uint32_t i = 1; i <= 4; i++) {
		serve(lab, 0, 1);
		put_cpu_ms(lab, 7000 + i * 100);
		weir_load_tick(&lab->load, 1000 + i * 250);
	}
	fill(lab, ALL, 2000);
	assert_int_equal(lab->answer.requests_milli_per_s, 40000);
	assert_int_equal(lab->answer.utilization_ppm, 750000);
	assert_int_equal(lab->answer.max_active_flows, 9);
	assert_int_equal(lab->answer.busy_sum_us, 400000);
	// the application has reported requests, so connections do not count
	assert_int_equal(lab->answer.busy_count, 40);
	weir_load_tick(&lab->load, 5001);
	fill(lab, ALL, 5001); // the last report of the application is too old
	assert_int_equal(lab->answer.max_active_flows, 500);
	assert_int_equal(lab->answer.requests_milli_per_s, 800); // 3 connections in 3.751 s
}

TEST(load_sums_values_of_the_application) {
	struct lab *lab = *state;
	struct weir_report report = {
		.given = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT),
		.service_time_ms = 3,
		.service_count = 20,
	};

	weir_load_set_wants(&lab->load, ALL);
	weir_load_tick(&lab->load, 1000);
	weir_load_take_application(&lab->load, &report, 1000);
	// a connection may have many requests, so connections are not counted if the application
	// reports requests
	serve(lab, 0, 10);
	weir_load_tick(&lab->load, 1250);
	weir_load_take_application(&lab->load, &report, 1300);
	fill(lab, ALL, 1500);
	assert_int_equal(lab->answer.service_count, 40);
	assert_int_equal(lab->answer.service_sum_us, 120000);
}

// Each value is valid, but the product of time and count does not fit into the counter.
TEST(load_survives_huge_values_of_an_application) {
	struct lab *lab = *state;
	struct weir_report report = {
		.given = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) |
			 WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT),
		.service_time_ms = 86400000,
		.service_count = 1e15,
		.busy_time_ms = 86400000,
		.busy_count = 1e15,
	};

	weir_load_set_wants(&lab->load, ALL);
	weir_load_take_application(&lab->load, &report, 1000);
	fill(lab, ALL, 1500);
	assert_int_equal(lab->answer.service_count, 1000000000000000);
	assert_int_equal(lab->answer.service_sum_us, 1000000000000000);
	assert_int_equal(lab->answer.busy_sum_us, 1000000000000000000);
}
