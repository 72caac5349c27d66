// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_lab.h"
#include "report.h"
#include "test.h"

#define SMALL " --no-huge --packets 6400 --runs 2 --table-flows 4000 --flows "

static void checked_pass(struct bench_lab *lab, uint64_t packets, bool alone) {
	struct weir_bench_pass pass = {.length = {.packets = packets}, .alone = alone};
	char why[512] = "";

	if (weir_bench_pass(&lab->engine, &pass, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
	assert_int_equal(pass.packets, packets / lab->options.burst * lab->options.burst);
}

TEST_GROUP(bench_lab_eal);

TEST(fill_inserts_exactly_the_flows) {
	static const char *const lines[] = {"weir-bench" SMALL "1", "weir-bench" SMALL "65",
		"weir-bench" SMALL "4000", "weir-bench --protocol udp" SMALL "3000",
		"weir-bench --family 6" SMALL "900", "weir-bench --case mixed" SMALL "3000"};

	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const struct weir_worker_counters *counters;
		struct bench_lab lab;

		bench_lab_open(&lab, lines[i]);
		counters = &lab.balancer.segment->worker_counters[WEIR_BENCH_WORKER];
		assert_int_equal(counters->flows, lab.options.flows);
		assert_int_equal(counters->flows_half_open, 0);
		for (uint32_t f = 0; f < lab.options.flows; f++) {
			assert_true(lab.engine.backends[f] < lab.options.backends);
		}
		bench_lab_close(&lab);
	}
}

TEST(every_case_is_forwarded_correctly) {
	static const char *const lines[] = {"weir-bench" SMALL "4000",
		"weir-bench --order zipf --headers cold" SMALL "4000",
		"weir-bench --case new" SMALL "4000", "weir-bench --case syn-flood" SMALL "3000",
		"weir-bench --case mixed" SMALL "3000",
		"weir-bench --family 6 --vlan --services 7" SMALL "900",
		"weir-bench --case mixed --bucketed" SMALL "3000",
		"weir-bench --case new --bucketed --family 6" SMALL "1000",
		"weir-bench --case mixed --policy least-loaded --burst 17" SMALL "2000",
		"weir-bench --new-percent 10 --policy fair-share" SMALL "2000"};
	char why[512];

	for (unsigned int i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct bench_lab lab;

		bench_lab_open(&lab, lines[i]);
		checked_pass(&lab, 20000, i % 2 == 1);
		checked_pass(&lab, 20000, false);
		assert_int_equal(weir_bench_check_steady(&lab.engine, why, sizeof(why)), 0);
		bench_lab_close(&lab);
	}
}

// In the benchmark case "new", the table stays full.
TEST(new_flows_evict) {
	const struct weir_worker_counters *counters;
	struct bench_lab lab;

	bench_lab_open(&lab, "weir-bench --case new --no-huge --flows 4000");
	counters = &lab.balancer.segment->worker_counters[WEIR_BENCH_WORKER];
	assert_in_range(counters->flows, 3800, 4000);
	// An interrupted pass may leave room in the table. Then no flow is evicted for a second, so
	// more passes are needed.
	for (int i = 0; i < 200 && counters->flow_half_open_evicted <= 3000; i++) {
		checked_pass(&lab, 6400, false);
		assert_in_range(counters->flows, 3800, 4000);
	}
	assert_true(counters->flow_half_open_evicted > 3000);
	bench_lab_close(&lab);
}

// Publishes the row of a backend again, with a wrong byte in the prebuilt header.
static void publish_wrong_row(struct bench_lab *lab, uint16_t backend, uint32_t at) {
	struct weir_writer *writer = NULL;
	struct weir_backend_row row;

	assert_int_equal(weir_writer_open(lab->balancer.control, &writer), 0);
	assert_true(weir_reader_row(lab->balancer.control, backend, &row));
	row.header[at] ^= 1;
	assert_true(weir_writer_publish_row(writer, backend, &row));
	weir_writer_free(writer);
}

TEST(wrong_forwarding_is_detected) {
	// offsets of MAC and IP addresses
	static const uint32_t places[] = {3, 9, 14 + 13, 14 + 19};

	for (unsigned int i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct weir_bench_pass pass = {.length = {.packets = 6400}};
		struct bench_lab lab;
		char why[512] = "";

		bench_lab_open(&lab, "weir-bench" SMALL "4000");
		checked_pass(&lab, 6400, false);
		publish_wrong_row(&lab, 42, places[i]);
		assert_int_equal(weir_bench_pass(&lab.engine, &pass, why, sizeof(why)), -EBADMSG);
		assert_non_null(strstr(why, "incorrectly forwarded"));
		bench_lab_close(&lab);
	}
}

TEST(moved_flow_is_detected) {
	struct bench_lab lab;
	char why[512] = "";

	bench_lab_open(&lab, "weir-bench" SMALL "4000");
	assert_int_equal(weir_bench_check_steady(&lab.engine, why, sizeof(why)), 0);
	lab.engine.backends[1234] ^= 1;
	assert_int_equal(weir_bench_check_steady(&lab.engine, why, sizeof(why)), -EBADMSG);
	assert_non_null(strstr(why, "flow 1234"));
	bench_lab_close(&lab);
}

// A new pipeline has no flows, so all flows are lost.
TEST(lost_flow_is_detected) {
	struct bench_lab lab;
	char why[512] = "";

	bench_lab_open(&lab, "weir-bench" SMALL "4000");
	assert_int_equal(weir_bench_balancer_start(&lab.balancer, &lab.heap), 0);
	assert_int_equal(weir_bench_check_steady(&lab.engine, why, sizeof(why)), -EBADMSG);
	assert_non_null(strstr(why, "unexpected selection method \"new\""));
	bench_lab_close(&lab);
}

TEST(timed_pass_has_a_sample_per_burst) {
	struct weir_bench_samples samples = {0};
	struct weir_bench_pass pass = {.length = {.packets = 6500}, .samples = &samples};
	struct bench_lab lab;
	char why[512] = "";
	uint64_t clock;

	bench_lab_open(&lab, "weir-bench --case syn-flood" SMALL "3000");
	clock = lab.engine.now_ns;
	assert_int_equal(weir_bench_pass(&lab.engine, &pass, why, sizeof(why)), 0);
	assert_int_equal(pass.packets, 6464);
	assert_int_equal(samples.count, 101);
	for (unsigned int i = 0; i < 101; i++) {
		assert_int_equal(samples.sample[i].packets, 64);
		assert_true(samples.sample[i].cycles > 0);
		assert_true(samples.sample[i].steady <= 64);
	}
	assert_true(lab.engine.now_ns > clock);
	pass.length = (struct weir_bench_length){.seconds = 0.01};
	assert_int_equal(weir_bench_pass(&lab.engine, &pass, why, sizeof(why)), 0);
	assert_true(pass.packets > 0);
	assert_int_equal(samples.count, 101 + pass.packets / 64);
	weir_bench_samples_fini(&samples);
	bench_lab_close(&lab);
}

// --- run and report -----------------------------------------------------------------------

static void run_one(struct bench_lab *lab, struct weir_bench_result *result) {
	char why[512] = "";

	if (weir_bench_run(&lab->engine, &lab->heap, NULL, result, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
}

TEST(runs_are_summed_up) {
	struct weir_bench_result result;
	struct bench_lab lab;

	bench_lab_open(&lab, "weir-bench" SMALL "3000");
	run_one(&lab, &result);
	assert_int_equal(result.main.packets, 2 * 6400);
	assert_int_equal(result.main.samples.count, 200);
	assert_int_equal(result.tally.packets, 2 * 6400);
	assert_int_equal(result.tally.hits, 2 * 6400);
	assert_int_equal(result.tally.started, 0);
	assert_int_equal(result.flows, 3000);
	assert_int_equal(result.verified, 3 * 6400); // including the warm-up
	assert_false(result.has_base);
	assert_true(result.main.median_min > 0);
	assert_true(result.main.median_min <= result.main.median_max);
	assert_true(result.main.summary.min <= result.main.summary.median);
	assert_true(result.main.summary.p9999 <= result.main.summary.max);
	weir_bench_result_fini(&result);
	bench_lab_close(&lab);
}

// The cost of a flood packet is the difference of two measurements. It can be negative if the
// process is interrupted in one of them. Then the test measures again.
TEST(flood_has_a_base) {
	struct weir_bench_result result;
	struct bench_lab lab;

	for (unsigned int attempt = 1;; attempt++) {
		bench_lab_open(&lab, "weir-bench --case syn-flood" SMALL "3000");
		run_one(&lab, &result);
		if ((result.main.split.steady > 0 && result.main.split.other > 0) ||
			attempt == 20) {
			break;
		}
		weir_bench_result_fini(&result);
		bench_lab_close(&lab);
	}
	assert_true(result.has_base);
	assert_int_equal(result.base.packets, 2 * 6400);
	assert_true(result.base.split.steady > 0 && result.base.split.other == 0);
	assert_true(result.main.split.steady > 0 && result.main.split.other > 0);
	assert_int_equal(result.steady_checked, 3000);
	assert_true(result.tally.started + result.tally.untracked > 5000);
	weir_bench_result_fini(&result);
	bench_lab_close(&lab);
}

// Returns the report of a run as text.
static char *report_of(struct bench_lab *lab, const struct weir_bench_result *result) {
	struct weir_bench_report report = {.options = &lab->options,
		.result = result,
		.heap = &lab->heap,
		.tsc_hz = 2000000000,
		.timer_cost = 30,
		.core = 1,
		.publish_us = 500};
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(weir_bench_report(out, &report), 0);
	fclose(out);
	return text;
}

static double real_of(const json_t *object, const char *key) {
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value)) {
		fail_msg("%s is no number", key);
	}
	return json_number_value(value);
}

TEST(json_has_all_required_keys) {
	static const char *const summary[] = {"median", "mean", "min", "max", "p99", "p9999"};
	struct weir_bench_result result;
	struct bench_lab lab;
	json_t *json, *cycles;
	char *text;

	bench_lab_open(&lab, "weir-bench --json" SMALL "3000");
	run_one(&lab, &result);
	text = report_of(&lab, &result);
	json = json_loads(text, 0, NULL);
	assert_non_null(json);
	cycles = json_object_get(json, "cycles_per_packet");
	for (unsigned int i = 0; i < sizeof(summary) / sizeof(summary[0]); i++) {
		assert_true(real_of(cycles, summary[i]) > 0);
	}
	assert_int_equal((int)real_of(json, "packets"), 2 * 6400);
	assert_int_equal((int)real_of(json, "tsc_hz"), 2000000000);
	assert_int_equal((int)real_of(json, "flows"), 3000);
	assert_int_equal((int)real_of(json, "burst"), 64);
	assert_int_equal((int)real_of(json, "runs"), 2);
	assert_int_equal(json_array_size(json_object_get(json, "run_medians")), 2);
	assert_true(real_of(json, "memory_bytes_per_flow") > 1);
	// At 2 GHz there are two cycles per nanosecond.
	assert_true(real_of(json, "ns_per_packet") * 2 / real_of(cycles, "median") > 0.999 &&
		    real_of(json, "ns_per_packet") * 2 / real_of(cycles, "median") < 1.001);
	assert_true(real_of(json, "mpps") * real_of(cycles, "mean") > 1999 &&
		    real_of(json, "mpps") * real_of(cycles, "mean") < 2001);
	assert_true(json_is_true(json_object_get(json, "verified")));
	assert_true(json_is_object(json_object_get(json, "stages")));
	assert_string_equal(json_string_value(json_object_get(json, "case")), "established");
	assert_string_equal(json_string_value(json_object_get(json, "headers")), "warm");
	json_decref(json);
	free(text);
	weir_bench_result_fini(&result);
	bench_lab_close(&lab);
}

TEST(text_is_readable) {
	static const char *const words[] = {"case        syn-flood, 3000 flows in a table for 4000",
		"maglev, ipip, 100 backends, 1 service", "per packet", "p99.99", "alone",
		"established flows lost: 0 of 3000",
		"memory:", "verified: all 32000 packets, in a separate pass"};
	struct weir_bench_result result;
	struct bench_lab lab;
	char *text;

	bench_lab_open(&lab, "weir-bench --case syn-flood" SMALL "3000");
	run_one(&lab, &result);
	text = report_of(&lab, &result);
	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strstr(text, words[i]) == NULL) {
			fail_msg("\"%s\" is not in:\n%s", words[i], text);
		}
	}
	free(text);
	weir_bench_result_fini(&result);
	bench_lab_close(&lab);
}
