// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the CPU capacity: the CPU model, the calculation from time slices, and the cache, whose
// contents cannot be trusted.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capacity.h"
#include "capacity_cache.h"
#include "capacity_demand.h"
#include "capacity_loop.h"
#include "put_file.h"
#include "shell.h"
#include "test.h"

struct lab {
	char folder[64];
	struct weir_capacity_cpu cpu;
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	strcpy(lab->folder, "/tmp/weir-capacity-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	lab->cpu = (struct weir_capacity_cpu){"AMD EPYC 7763", "25/1/1"};
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", lab->folder);
	SHELL("%s", command);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

// --- CPU model -----------------------------------------------------------------------------

static void expect_cpu(struct lab *lab, const char *text, const char *model, const char *stepping) {
	struct weir_capacity_cpu cpu;

	put_file(lab->folder, "cpuinfo", text);
	weir_capacity_cpu_read(lab->folder, &cpu);
	assert_string_equal(cpu.model, model);
	assert_string_equal(cpu.stepping, stepping);
}

TEST(capacity_reads_the_model_of_the_first_cpu) {
	struct lab *lab = *state;
	struct weir_capacity_cpu cpu;

	expect_cpu(lab,
		"processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t:  AMD  EPYC\x1b \n"
		"stepping\t: 1\n\nprocessor\t: 1\nmodel name\t: other\n",
		"AMD EPYC?", "25/17/1");
	expect_cpu(lab, "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\nCPU revision\t: 1\n",
		"CPU 0x41 0xd0c", "?/?/1");
	expect_cpu(lab, "", "", "?/?/?");
	expect_cpu(lab, "model name", "", "?/?/?");
	expect_cpu(lab, "model name\t:", "", "?/?/?");
	expect_cpu(lab,
		"model name: 0123456789012345678901234567890123456789012345678901234567890\n",
		"01234567890123456789012345678901234567890123456", "?/?/?");
	expect_cpu(lab, "stepping: 123456789012345\nmodel name: x\n", "x", "?/?/1234567");
	weir_capacity_cpu_read("/nonexistent", &cpu);
	assert_string_equal(cpu.model, "");
}

TEST(capacity_numbers_models) {
	uint32_t number = weir_cpu_model_number("AMD EPYC 7763 64-Core Processor");

	// the protocol contains this number, so it must not change
	assert_int_equal(number, 0x825fc5);
	assert_int_equal(weir_cpu_model_number("  AMD  EPYC 7763\t64-Core Processor "), number);
	assert_int_not_equal(weir_cpu_model_number("AMD EPYC 7713 64-Core Processor"), number);
	assert_int_equal(weir_cpu_model_number(""), 0);
	assert_int_equal(weir_cpu_model_number(" \t"), 0);
}

// --- speed --------------------------------------------------------------------------------

TEST(capacity_is_that_of_the_fastest_tenth) {
	uint64_t slices[100];

	// a fifth of the slices is undisturbed, and the other slices take longer; one slice is
	// impossibly short
	for (uint32_t i = 0; i < 100; i++) {
		slices[i] = i == 50      ? 1
			    : i % 5 == 0 ? 2 * WEIR_CAPACITY_REFERENCE_NS
					 : 9 * WEIR_CAPACITY_REFERENCE_NS;
	}
	assert_true(weir_capacity_of_slices(slices, 100, 4) == 2);
	assert_true(weir_capacity_of_slices((uint64_t[]){WEIR_CAPACITY_REFERENCE_NS}, 1, 1) == 1);
	assert_true(weir_capacity_of_slices((uint64_t[]){0}, 1, 1) == 0);
}

// The loop must have this result on every machine. If the loop is changed, its version and
// WEIR_CAPACITY_REFERENCE_NS must also change.
TEST(capacity_loop_does_the_same_work_everywhere) {
	struct weir_capacity_loop loop;
	uint64_t number = 0;

	assert_int_equal(WEIR_CAPACITY_LOOP_VERSION, 1);
	assert_int_equal(weir_capacity_loop_init(&loop), 0);
	for (int i = 0; i < 3; i++) {
		number = weir_capacity_loop_round(&loop);
	}
	assert_int_equal(number, UINT64_C(0xece540b1ec1e6edb));
	weir_capacity_loop_fini(&loop);
}

static void *measure(void *context) {
	assert_int_equal(weir_capacity_measure(context), 0);
	return NULL;
}

// Measures in a separate thread, because the measurement lowers the thread's priority.
TEST(capacity_is_measured) {
	pthread_t thread;
	double gcu = 0;

	assert_int_equal(pthread_create(&thread, NULL, measure, &gcu), 0);
	pthread_join(thread, NULL);
	assert_true(gcu > 0.01 && gcu < 10);
}

// --- the cache ----------------------------------------------------------------------------

TEST(capacity_cache_returns_what_was_stored) {
	struct lab *lab = *state;
	struct weir_capacity_cpu other;
	int fd = weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_CREATE);
	double gcu = 7;

	assert_true(fd >= 0);
	assert_int_equal(weir_capacity_cache_read(fd, &lab->cpu, &gcu), -ENOENT); // an empty cache
	assert_int_equal(weir_capacity_cache_write(fd, &lab->cpu, 1.25), 0);
	assert_int_equal(weir_capacity_cache_write(fd, &lab->cpu, 1.5), 0);
	assert_int_equal(weir_capacity_cache_read(fd, &lab->cpu, &gcu), 0);
	assert_true(gcu == 1.5);
	other = lab->cpu;
	strcpy(other.stepping, "25/1/2");
	assert_int_equal(weir_capacity_cache_read(fd, &other, &gcu), -ENOENT);
	other = lab->cpu;
	strcpy(other.model, "AMD EPYC 7713");
	assert_int_equal(weir_capacity_cache_read(fd, &other, &gcu), -ENOENT);
	assert_int_equal(ftruncate(fd, WEIR_CAPACITY_CACHE_BYTES - 1), 0); // a partly written cache
	assert_int_equal(weir_capacity_cache_read(fd, &lab->cpu, &gcu), -ENOENT);
	assert_int_equal(ftruncate(fd, WEIR_CAPACITY_CACHE_BYTES + 1), 0);
	assert_int_equal(weir_capacity_cache_read(fd, &lab->cpu, &gcu), -ENOENT);
	assert_true(gcu == 1.5);
	close(fd);
}

TEST(capacity_cache_stores_any_model) {
	struct lab *lab = *state;
	int fd = weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_CREATE);
	double gcu = 0;

	memset(lab->cpu.model, '"', WEIR_CPU_MODEL_BYTES - 1);
	memset(lab->cpu.stepping, '\\', sizeof(lab->cpu.stepping) - 1);
	assert_int_equal(weir_capacity_cache_write(fd, &lab->cpu, 1.25), 0);
	assert_int_equal(weir_capacity_cache_read(fd, &lab->cpu, &gcu), 0);
	assert_true(gcu == 1.25);
	close(fd);
}

TEST(capacity_cache_is_a_regular_file) {
	struct lab *lab = *state;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", lab->folder, WEIR_CAPACITY_CACHE);
	assert_int_equal(weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_READ), -ENOENT);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_int_equal(weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_READ), -ELOOP);
	assert_int_equal(weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_CREATE), -ELOOP);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(weir_capacity_cache_open(lab->folder, WEIR_CAPACITY_CACHE_READ), -EINVAL);
}

#define GOOD "{\"loop\": 1, \"cpu\": \"AMD EPYC 7763\", \"stepping\": \"25/1/1\", \"gcu\": 1.5}"

static int parse(const struct lab *lab, const char *text, size_t bytes) {
	double gcu = 0;

	return weir_capacity_cache_parse(text, bytes, &lab->cpu, &gcu);
}

TEST(capacity_cache_ignores_other_contents) {
#define WITH(gcu) \
	"{\"loop\": 1, \"cpu\": \"AMD EPYC 7763\", \"stepping\": \"25/1/1\", \"gcu\": " gcu "}"
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		"null",
		"1.5",
		"\"x\"",
		"{\"loop\": 1}",
		GOOD "x",
		WITH("0"),
		WITH("-1.5"),
		WITH("65.1"),
		WITH("1e308"),
		WITH("1e999"),
		WITH("NaN"),
		WITH("\"1.5\""),
		WITH("null"),
		WITH("[1.5]"),
		WITH("1.5, \"gcu\": 1.5"),
		"{\"loop\": 2, \"cpu\": \"AMD EPYC 7763\", \"stepping\": \"25/1/1\", \"gcu\": 1.5}",
		"{\"loop\": 1.0, \"cpu\": \"AMD EPYC 7763\", \"stepping\": \"25/1/1\", \"gcu\": 1}",
		"{\"loop\": 1, \"cpu\": 7763, \"stepping\": \"25/1/1\", \"gcu\": 1.5}",
		"{\"loop\": 1, \"cpu\": \"\", \"stepping\": \"25/1/1\", \"gcu\": 1.5}",
		"{\"loop\": 1, \"cpu\": \"AMD EPYC 7763\", \"gcu\": 1.5}",
		"\xff\xfe",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	};
	struct lab *lab = *state;

	assert_int_equal(parse(lab, GOOD, strlen(GOOD)), 0);
	assert_int_equal(parse(lab, WITH("2"), strlen(WITH("2"))), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (parse(lab, bad[i], strlen(bad[i])) != -ENOENT) {
			fail_msg("accepted: %s", bad[i]);
		}
	}
}

// Reading a cache that was truncated at any byte gives no value. If any byte was changed, reading
// the cache gives no value or a valid value.
TEST(capacity_cache_survives_damage) {
	struct lab *lab = *state;
	char text[] = GOOD;

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		assert_int_equal(parse(lab, text, n), -ENOENT);
	}
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		for (int byte = 0; byte < 256; byte++) {
			double gcu = 1;

			text[i] = (char)byte;
			weir_capacity_cache_parse(text, sizeof(text) - 1, &lab->cpu, &gcu);
			assert_true(
				gcu >= WEIR_CAPACITY_LEAST_GCU && gcu <= WEIR_CAPACITY_MOST_GCU);
		}
		text[i] = GOOD[i];
	}
}

// The cache was read while the measurement, which then failed, was running.
TEST(capacity_failure_leaves_the_cached_speed_in_use) {
	struct weir_log log = {.fd = -1};
	struct weir_capacity_demand demand;
	struct weir_load load = {0};
	struct rlimit before, none;

	weir_capacity_demand_start(&log, &load, -1, &demand);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &before), errno);
	none = (struct rlimit){.rlim_max = before.rlim_max};
	for (int i = 0; i < 2; i++) {
		demand.state = WEIR_CAPACITY_UNKNOWN;
		demand.gcu = i * 2.5;
		assert_return_code(setrlimit(RLIMIT_NOFILE, &none), errno);
		weir_capacity_demand_set(&demand, NULL, WEIR_REPORT(GCU), 0);
		assert_return_code(setrlimit(RLIMIT_NOFILE, &before), errno);
		assert_int_equal(
			demand.state, i == 0 ? WEIR_CAPACITY_FAILED : WEIR_CAPACITY_CACHED);
		assert_true(load.speed.gcu == demand.gcu && !load.speed.pending);
	}
	weir_capacity_demand_stop(&demand);
}
