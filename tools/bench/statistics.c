// SPDX-License-Identifier: BSD-3-Clause
#include "statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int weir_bench_samples_reserve(struct weir_bench_samples *samples, size_t count) {
	struct weir_bench_sample *sample;

	if (count <= samples->capacity) {
		return 0;
	}
	sample = realloc(samples->sample, count * sizeof(*sample));
	if (sample == NULL) {
		return -ENOMEM;
	}
	samples->sample = sample;
	samples->capacity = count;
	return 0;
}

void weir_bench_samples_fini(struct weir_bench_samples *samples) {
	free(samples->sample);
	*samples = (struct weir_bench_samples){0};
}

int weir_bench_samples_least(
	struct weir_bench_samples *samples, const struct weir_bench_samples *again) {
	if (again->count != samples->count) {
		return -EBADMSG;
	}
	for (size_t i = 0; i < samples->count; i++) {
		if (again->sample[i].cycles < samples->sample[i].cycles) {
			samples->sample[i] = again->sample[i];
		}
	}
	return 0;
}

double weir_bench_percentile(const double *sorted, size_t n, double share) {
	// Subtract a small value, because a rounding error can raise the product above a
	// whole number: 0.07 * 100 is 7.000000000000001.
	double rank = ceil(share * (double)n - 1e-9 * (double)n);

	if (rank < 1) {
		return sorted[0];
	}
	return sorted[rank > (double)n ? n - 1 : (size_t)rank - 1];
}

static int compare(const void *left, const void *right) {
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

struct weir_bench_summary weir_bench_summarize(double *values, size_t n) {
	struct weir_bench_summary summary = {0};
	double sum = 0;

	qsort(values, n, sizeof(*values), compare);
	for (size_t i = 0; i < n; i++) {
		sum += values[i];
	}
	summary.mean = sum / (double)n;
	summary.median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
	summary.min = values[0];
	summary.max = values[n - 1];
	summary.p99 = weir_bench_percentile(values, n, 0.99);
	summary.p9999 = weir_bench_percentile(values, n, 0.9999);
	return summary;
}

int weir_bench_summarize_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_summary *ret) {
	double *values = malloc(n * sizeof(*values));
	double cycles = 0, packets = 0;

	if (values == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		values[i] = (double)sample[i].cycles / sample[i].packets;
		cycles += sample[i].cycles;
		packets += sample[i].packets;
	}
	*ret = weir_bench_summarize(values, n);
	ret->mean = cycles / packets;
	free(values);
	return 0;
}

double weir_bench_share_above(const struct weir_bench_sample *sample, size_t n, double limit) {
	size_t above = 0;

	for (size_t i = 0; i < n; i++) {
		above += (double)sample[i].cycles > limit * sample[i].packets;
	}
	return (double)above / (double)n;
}

int weir_bench_split_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_split *ret) {
	double *values = malloc(n * sizeof(*values));
	double aa = 0, ab = 0, bb = 0, at = 0, bt = 0, limit, determinant;

	if (values == NULL) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		values[i] = (double)sample[i].cycles / sample[i].packets;
	}
	limit = weir_bench_summarize(values, n).p99;
	free(values);
	for (size_t i = 0; i < n; i++) {
		double a = sample[i].steady, b = sample[i].packets - a, t = sample[i].cycles;

		if (t / (a + b) <= limit) {
			aa += a * a;
			ab += a * b;
			bb += b * b;
			at += a * t;
			bt += b * t;
		}
	}
	determinant = aa * bb - ab * ab;
	if (determinant <= 1e-9 * (aa + bb) * (aa + bb)) {
		*ret = (struct weir_bench_split){.steady = (at + bt) / (aa + 2 * ab + bb)};
		return 0;
	}
	*ret = (struct weir_bench_split){.steady = (at * bb - bt * ab) / determinant,
		.other = (bt * aa - at * ab) / determinant};
	return 0;
}
