// SPDX-License-Identifier: BSD-3-Clause
#include "capability.h"

#include <math.h>

#define NS_PER_S 1000000000ull
#define LEAST_SUCCESSFUL 0.01 // minimum share of requests that counts as successful

struct weir_capability_settings weir_capability_defaults(void) {
	return (struct weir_capability_settings){
		.blackout_ns = 10 * NS_PER_S,
		.expiration_ns = 180 * NS_PER_S,
		.smoothing_ns = 10 * NS_PER_S,
		.penalty = 1.0,
	};
}

static bool is_positive(double value) {
	return isfinite(value) && value > 0;
}

double weir_capability_utilization(
	const double *named, uint32_t n, double application, double cpu) {
	double largest = 0;

	for (uint32_t i = 0; i < n; i++) {
		largest = is_positive(named[i]) && named[i] > largest ? named[i] : largest;
	}
	if (largest > 0) {
		return largest;
	}
	if (is_positive(application)) {
		return application;
	}
	return is_positive(cpu) ? cpu : 0;
}

double weir_capability_weight(const struct weir_capability_settings *settings,
	const struct weir_capability_report *report) {
	double rate = report->requests_per_second;
	double errors = report->errors_per_second;
	double load = report->utilization;
	double counted = rate, weight;

	if (!is_positive(rate) || !isfinite(errors) || errors < 0 || !isfinite(load) || load < 0 ||
		(settings->grpc_order && load <= 0)) {
		return 0;
	}
	if (settings->successful) {
		counted = fmax(rate - errors, rate * LEAST_SUCCESSFUL);
	}
	load += errors / rate * settings->penalty;
	weight = counted / load;
	return is_positive(weight) ? weight : 0;
}

static void smooth(double *average, double sample, double share) {
	*average = share < 1 ? *average + (sample - *average) * share : sample;
}

static bool has_expired(const struct weir_capability *capability,
	const struct weir_capability_settings *settings, uint64_t now_ns) {
	return capability->has_last && now_ns > capability->last_ns &&
	       now_ns - capability->last_ns >= settings->expiration_ns;
}

static void forget(struct weir_capability *capability) {
	*capability = (struct weir_capability){0};
}

static double weight_of(
	const struct weir_capability *capability, const struct weir_capability_settings *settings) {
	const struct weir_capability_report smoothed = {
		.requests_per_second = capability->requests_per_second,
		.errors_per_second = capability->errors_per_second,
		.utilization = capability->utilization,
	};

	return weir_capability_weight(settings, &smoothed);
}

double weir_capability_add(struct weir_capability *capability,
	const struct weir_capability_settings *settings,
	const struct weir_capability_report *report, uint64_t now_ns) {
	double share = 1;

	if (weir_capability_weight(settings, report) <= 0) {
		return 0;
	}
	if (!settings->grpc_order && has_expired(capability, settings, now_ns)) {
		forget(capability);
	}
	if (!capability->has_since) {
		capability->since_ns = now_ns;
		capability->has_since = true;
	}
	if (settings->smoothing_ns > 0 && capability->has_last) {
		uint64_t passed = now_ns > capability->last_ns ? now_ns - capability->last_ns : 0;

		share = -expm1(-(double)passed / (double)settings->smoothing_ns);
	}
	smooth(&capability->requests_per_second, report->requests_per_second, share);
	smooth(&capability->errors_per_second, report->errors_per_second, share);
	smooth(&capability->utilization, report->utilization, share);
	capability->last_ns = now_ns;
	capability->has_last = true;
	return weight_of(capability, settings);
}

void weir_capability_ready(struct weir_capability *capability) {
	forget(capability);
}

double weir_capability_read(struct weir_capability *capability,
	const struct weir_capability_settings *settings, uint64_t now_ns) {
	uint64_t passed;

	if (!capability->has_last) {
		return 0;
	}
	if (has_expired(capability, settings, now_ns)) {
		capability->has_since = false;
		return 0;
	}
	if (!capability->has_since) {
		return 0;
	}
	passed = now_ns > capability->since_ns ? now_ns - capability->since_ns : 0;
	return passed >= settings->blackout_ns ? weight_of(capability, settings) : 0;
}

uint32_t weir_capability_weights(const double *capabilities, uint32_t n, uint32_t *weights) {
	double sum = 0, largest = 0, unknown;
	uint32_t known = 0;
	int exponent;

	for (uint32_t i = 0; i < n; i++) {
		if (is_positive(capabilities[i])) {
			sum += capabilities[i];
			largest = capabilities[i] > largest ? capabilities[i] : largest;
			known++;
		}
	}
	if (known == 0) {
		return 0;
	}
	unknown = fmin(sum / known, largest); // the sum may be infinite
	frexp(largest, &exponent);
	for (uint32_t i = 0; i < n; i++) {
		double value = is_positive(capabilities[i]) ? capabilities[i] : unknown;

		value = rint(ldexp(value, 31 - exponent));
		weights[i] = value < 1 ? 1 : (uint32_t)value;
	}
	return known;
}
