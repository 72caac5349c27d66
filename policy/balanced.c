// SPDX-License-Identifier: BSD-3-Clause
#include "balanced.h"

#include <math.h>

#define NS_PER_S 1000000000ull
// A fading correction is set to 0 when its absolute value is below this value. A correction of this
// value changes the weight by about 1 %.
#define NEARLY_NONE 0.01
#define MEAN_LEAST 0.02 // below this mean utilization, all backends count as equally utilized
#define MEAN_TURNS 64u
#define MEAN_NEAR 0.001

struct weir_balanced_settings weir_balanced_defaults(void) {
	return (struct weir_balanced_settings){
		.gain = 0.1,
		.most = 10,
		.penalty = 1,
		.smoothing_ns = 5 * NS_PER_S,
		.fresh_ns = 10 * NS_PER_S,
		.expiration_ns = 180 * NS_PER_S,
	};
}

double weir_balanced_utilization(double cpu, double active, double most_active) {
	double in_flight = most_active > 0 ? active / most_active : 0;

	return cpu > in_flight ? cpu : in_flight;
}

void weir_balanced_report(struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, double utilization,
	double requests_per_second, double errors_per_second, uint64_t now_ns) {
	uint64_t passed_ns = now_ns > load->last_ns ? now_ns - load->last_ns : 0;
	double share = 1;

	if (requests_per_second > 0) {
		double failed = errors_per_second / requests_per_second;

		utilization += settings->penalty * (failed < 1 ? failed : 1);
	}
	if (load->known && settings->smoothing_ns > 0) {
		share = -expm1(-(double)passed_ns / (double)settings->smoothing_ns);
	}
	load->utilization += share * (utilization - load->utilization);
	load->last_ns = now_ns;
	load->known = true;
}

double weir_balanced_read(const struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, uint64_t now_ns) {
	uint64_t passed_ns = now_ns > load->last_ns ? now_ns - load->last_ns : 0;

	if (!load->known || passed_ns >= settings->expiration_ns) {
		return WEIR_BALANCED_UNKNOWN;
	}
	return passed_ns >= settings->fresh_ns ? WEIR_BALANCED_HOLD : load->utilization;
}

static double within(double value, double most) {
	return value > most ? most : value < -most ? -most : value;
}

// Computes the mean of the known utilizations, after limiting each to `most`. Returns the number of
// known utilizations.
static uint32_t mean_below(const double *utilization, uint32_t n, double most, double *ret_mean) {
	double sum = 0;
	uint32_t fresh = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += utilization[i] >= 0 ? fmin(utilization[i], most) : 0;
		fresh += utilization[i] >= 0;
	}
	*ret_mean = fresh > 0 ? sum / fresh : 0;
	return fresh;
}

// Adjusts each correction by the distance of the backend's utilization from the mean. Does nothing
// if fewer than two utilizations are known, or if the mean is below MEAN_LEAST. If more than two
// are known, each utilization is limited to twice the mean to compute the mean. Otherwise one
// extreme report would raise the mean so much that all other backends would seem equally idle.
static void correct(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n, double gain) {
	double mean, before;
	uint32_t fresh = mean_below(utilization, n, INFINITY, &mean);

	for (uint32_t turn = 0; turn < MEAN_TURNS && fresh > 2; turn++) {
		before = mean;
		mean_below(utilization, n, 2 * mean, &mean);
		if (mean > before * (1 - MEAN_NEAR)) {
			break;
		}
	}
	if (fresh < 2 || mean < MEAN_LEAST) {
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (utilization[i] >= 0) {
			correction[i] += gain * within((mean - utilization[i]) / mean, 1);
			correction[i] = within(correction[i], log(settings->most));
		}
	}
}

// Subtracts the mean correction from each correction. Backends of unknown utilization are left out.
// All other weights change by the same factor: their ratios stay the same, except if a correction
// reaches its limit.
static void centre(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n) {
	double sum = 0;
	uint32_t known = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += utilization[i] > WEIR_BALANCED_UNKNOWN ? correction[i] : 0;
		known += utilization[i] > WEIR_BALANCED_UNKNOWN;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (utilization[i] > WEIR_BALANCED_UNKNOWN) {
			correction[i] = within(correction[i] - sum / known, log(settings->most));
		}
	}
}

bool weir_balanced_step(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n, uint64_t elapsed_ns) {
	double gain = settings->gain * fmin((double)elapsed_ns / (double)NS_PER_S, 1);
	bool left = false;

	correct(settings, utilization, correction, n, gain);
	centre(settings, utilization, correction, n);
	for (uint32_t i = 0; i < n; i++) {
		if (utilization[i] <= WEIR_BALANCED_UNKNOWN) {
			correction[i] *= 1 - gain;
			correction[i] = fabs(correction[i]) < NEARLY_NONE ? 0 : correction[i];
		}
		left |= correction[i] != 0;
	}
	return left;
}

double weir_balanced_weight(double configured, double correction) {
	return configured * exp(correction);
}
