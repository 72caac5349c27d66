// SPDX-License-Identifier: BSD-3-Clause
#include "sim_output.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim_lab.h"

#define VARIANTS 2
#define SEEDS 2
#define BACKENDS 3

static const char text[] =
	"{'name': 'made', 'title': 'Made by hand', 'duration_ms': 10000, 'sample_ms': 5000,"
	"'clients': {'count': 2, 'requests_per_second': 1}, 'backends': {'count': 3},"
	"'cost': {'mean_ms': 1}, 'variants': [{'name': 'a'}, {'name': 'b'}],"
	"'events': [{'event': 'slow', 'at_ms': 3000}],"
	"'plots': [{'plot': 'spread'}, {'plot': 'wasted'}, {'plot': 'backends', 'title': 'T\\\\ "
	"`echo x`'},"
	"{'plot': 'used'}, {'plot': 'connections'}, {'plot': 'churn'}, {'plot': 'share'}, {'plot': "
	"'shares'}, "
	"{'plot': 'cpu'},"
	"{'plot': 'latency'}, {'plot': 'latencies'}, {'plot': 'errors'}, {'plot': 'busiest'}, "
	"{'plot': 'moves'}]}";

static struct weir_sim_result *make_result(uint32_t variant, uint64_t seed) {
	struct weir_sim_result *result = calloc(1, sizeof(*result));
	struct weir_sim_measure *m = calloc(1, sizeof(*m));

	assert_non_null(result);
	assert_non_null(m);
	result->seed = seed;
	result->backends = BACKENDS;
	result->measure = m;
	result->measures = 1;
	result->sample = calloc(2, sizeof(*result->sample));
	result->samples = 2;
	m->backend = calloc(BACKENDS, sizeof(*m->backend));
	assert_non_null(result->sample);
	assert_non_null(m->backend);
	m->to_ns = 10000000000ull;
	m->totals.arrived = 200;
	m->totals.ended[WEIR_SIM_COMPLETED] = 150;
	m->totals.ended[WEIR_SIM_FAILED] = 20;
	m->totals.ended[WEIR_SIM_REJECTED] = 30;
	m->spread = 1.5 + variant + (double)(seed - 4) / 4; // values 1.5, 1.75; 2.5, 2.75
	m->wasted = 0.25;
	m->p99_ms = 12.5;
	m->share = 0.5;
	m->clients_min = 1;
	m->clients_max = 2;
	m->clients_peak = 2;
	m->members = 40;
	m->members_least = 1;
	m->totals.replaced = 10 + 20 * variant;
	m->totals.least_replaced = 5;
	for (uint32_t i = 0; i < BACKENDS; i++) {
		m->backend[i] = (struct weir_sim_backend_result){.cpu = 0.3 - 0.1 * i,
			.requests = 10 * i,
			.clients = i,
			.speed = 1,
			.listed = true,
			.measured = true};
	}
	for (uint32_t i = 0; i < 2; i++) {
		result->sample[i] = (struct weir_sim_sample){.time_ns = (i + 1) * 5000000000ull,
			.cpu_max = 0.5,
			.cpu_mean = 0.25,
			.p99_ms = 3,
			.share = 1};
		result->sample[i].totals.arrived = 100;
		result->sample[i].totals.ended[WEIR_SIM_FAILED] = 10;
	}
	result->totals = m->totals;
	result->events = 1000;
	return result;
}

void lab_output_make(struct lab_output *output) {
	struct weir_sim_results *results = calloc(1, sizeof(*results));

	assert_non_null(results);
	output->file = lab_parse(text);
	results->first_seed = 4;
	results->seeds = SEEDS;
	results->count = VARIANTS * SEEDS;
	results->result = calloc(results->count, sizeof(struct weir_sim_result *));
	assert_non_null(results->result);
	for (uint32_t i = 0; i < results->count; i++) {
		results->result[i] = make_result(i / SEEDS, 4 + i % SEEDS);
	}
	output->results = results;
	strcpy(output->directory, "/tmp/weir-sim-test-XXXXXX");
	assert_non_null(mkdtemp(output->directory));
}

void lab_output_free(struct lab_output *output) {
	DIR *directory = opendir(output->directory);
	const struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] != '.') {
			assert_int_equal(unlinkat(dirfd(directory), entry->d_name, 0), 0);
		}
	}
	closedir(directory);
	assert_int_equal(rmdir(output->directory), 0);
	weir_sim_results_free(output->results);
	weir_sim_file_free(output->file);
}

char *lab_output_read(const struct lab_output *output, const char *name) {
	char path[256];
	char *content = NULL;
	size_t bytes = 0;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", output->directory, name);
	stream = fopen(path, "r");
	if (stream == NULL) {
		return NULL;
	}
	if (getdelim(&content, &bytes, '\0', stream) < 0) {
		free(content);
		content = strdup("");
	}
	fclose(stream);
	return content;
}
