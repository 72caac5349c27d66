// SPDX-License-Identifier: BSD-3-Clause
#include "csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "summary.h"

#define SECOND_NS 1e9

static void write_summary(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results) {
	fputs("variant,window,metric,mean,least,most\n", stream);
	for (uint32_t v = 0; v < file->variant_count; v++) {
		const struct weir_sim_scenario *scenario = &file->variant[v];

		for (uint32_t w = 0; w < scenario->window_count; w++) {
			for (int i = 0; i < WEIR_SIM_METRIC_COUNT; i++) {
				enum weir_sim_metric metric = (enum weir_sim_metric)i;
				struct weir_sim_range range =
					weir_sim_range_of(results, v, w, metric);

				fprintf(stream, "%s,%s,%s,%.6g,%.6g,%.6g\n", scenario->name,
					scenario->window[w].name, weir_sim_metric_name(metric),
					range.mean, range.least, range.most);
			}
		}
	}
}

static void write_backends(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results) {
	fputs("variant,seed,window,backend,speed,cpu_percent,requests,failed,clients\n", stream);
	for (uint32_t run = 0; run < results->count; run++) {
		const struct weir_sim_scenario *scenario = &file->variant[run / results->seeds];
		const struct weir_sim_result *result = results->result[run];

		for (uint32_t w = 0; w < result->measures; w++) {
			for (uint32_t i = 0; i < result->backends; i++) {
				const struct weir_sim_backend_result *backend =
					&result->measure[w].backend[i];

				if (!backend->listed && backend->requests == 0) {
					continue; // the backend did not exist
				}

				fprintf(stream,
					"%s,%" PRIu64 ",%s,%" PRIu32 ",%g,%.4f,%" PRIu64 ",%" PRIu64
					",%" PRIu32 "\n",
					scenario->name, result->seed, scenario->window[w].name, i,
					backend->speed, backend->cpu * 100, backend->requests,
					backend->failed, backend->clients);
			}
		}
	}
}

static void write_series(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results) {
	fputs("variant,seed,time_s,arrived,completed,failed,unanswered,timed_out,rejected,spilled,"
	      "cpu_min_percent,cpu_p05_percent,cpu_p50_percent,cpu_p95_percent,cpu_max_percent,"
	      "cpu_mean_percent,p50_ms,p99_ms,share,watched_cpu_percent,"
	      "asked,moved,refused,silent\n",
		stream);
	for (uint32_t run = 0; run < results->count; run++) {
		const struct weir_sim_result *result = results->result[run];

		for (uint32_t i = 0; i < result->samples; i++) {
			const struct weir_sim_sample *s = &result->sample[i];

			fprintf(stream, "%s,%" PRIu64 ",%g,%" PRIu64,
				file->variant[run / results->seeds].name, result->seed,
				(double)s->time_ns / SECOND_NS, s->totals.arrived);
			for (int k = 0; k < WEIR_SIM_ENDING_COUNT; k++) {
				fprintf(stream, ",%" PRIu64, s->totals.ended[k]);
			}
			fprintf(stream, ",%" PRIu64 ",%.4f,%.4f,%.4f,%.4f,%.4f,%.4f",
				s->totals.spilled, s->cpu_min * 100, s->cpu_p05 * 100,
				s->cpu_p50 * 100, s->cpu_p95 * 100, s->cpu_max * 100,
				s->cpu_mean * 100);
			fprintf(stream, ",%.4f,%.4f,%.5f,%.4f", s->p50_ms, s->p99_ms, s->share,
				s->watched_cpu * 100);
			for (int k = 0; k < WEIR_SIM_STEAL_COUNT; k++) {
				fprintf(stream, ",%" PRIu64, s->totals.steals[k]);
			}
			fputc('\n', stream);
		}
	}
}

typedef void writer(
	FILE *stream, const struct weir_sim_file *file, const struct weir_sim_results *results);

static int write_file(const char *directory, const char *name, writer *write,
	const struct weir_sim_file *file, const struct weir_sim_results *results, char *why,
	size_t why_bytes) {
	FILE *stream;
	bool good;

	snprintf(why, why_bytes, "%s/%s", directory, name);
	stream = fopen(why, "w");
	if (stream == NULL) {
		return -errno;
	}
	write(stream, file, results);
	good = ferror(stream) == 0;
	good = fclose(stream) == 0 && good;
	return good ? 0 : -EIO;
}

int weir_sim_csv_write(const char *directory, const struct weir_sim_file *file,
	const struct weir_sim_results *results, char *why, size_t why_bytes) {
	static const struct {
		const char *name;
		writer *write;
	} files[] = {
		{"summary.csv", write_summary},
		{"backends.csv", write_backends},
		{"series.csv", write_series},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		r = write_file(
			directory, files[i].name, files[i].write, file, results, why, why_bytes);
	}
	return r;
}
