// SPDX-License-Identifier: BSD-3-Clause
#include "bench_lab.h"
#include "test.h"

#include <string.h>

#include <rte_eal.h>

#define ARGS_MAX 64
#define HEAP_BYTES (32u << 20)

static struct weir_bench_heap shared_heap;

int bench_lab_eal(void **state) {
	char *argv[] = {"test", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "-m", "64", "--log-level=error", "-l", "0", NULL};
	char why[256];

	(void)state;
	if (rte_eal_init(11, argv) < 0) {
		return -1;
	}
	return weir_bench_heap_create(
		HEAP_BYTES, WEIR_BENCH_PAGES_SMALL, &shared_heap, why, sizeof(why));
}

int bench_lab_options(const char *line, struct weir_bench_options *ret, char *why) {
	char text[512], *argv[ARGS_MAX + 1] = {0};
	int argc = 0;

	assert_true(strlen(line) < sizeof(text));
	strcpy(text, line);
	for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
		assert_true(argc < ARGS_MAX);
		argv[argc++] = word;
	}
	return weir_bench_options_parse(argc, argv, ret, why, 256);
}

void bench_lab_tables(struct bench_lab *lab, const char *line) {
	char why[256] = "";

	memset(lab, 0, sizeof(*lab));
	if (bench_lab_options(line, &lab->options, why) < 0 ||
		weir_bench_balancer_create(&lab->options, &lab->balancer, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
}

void bench_lab_open(struct bench_lab *lab, const char *line) {
	char why[512] = "";

	bench_lab_tables(lab, line);
	lab->heap = shared_heap;
	if (weir_bench_engine_create(&lab->options, &lab->balancer, &lab->heap, &lab->engine, why,
		    sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
	assert_int_equal(weir_bench_balancer_start(&lab->balancer, &lab->heap), 0);
	if (weir_bench_fill(&lab->engine, why, sizeof(why)) < 0) {
		fail_msg("%s", why);
	}
}

void bench_lab_close(struct bench_lab *lab) {
	if (lab->engine.options != NULL) {
		weir_bench_engine_free(&lab->engine);
	}
	weir_bench_balancer_free(&lab->balancer);
}
