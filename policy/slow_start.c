// SPDX-License-Identifier: BSD-3-Clause
#include "slow_start.h"

#include <math.h>

#include "policy.h"

double weir_slow_start_factor(const struct weir_slow_start_settings *settings, uint64_t t_ms) {
	double factor;

	if (t_ms >= settings->window_ms) {
		return 1;
	}
	t_ms = t_ms > WEIR_SLOW_START_LEAST_MS ? t_ms : WEIR_SLOW_START_LEAST_MS;
	factor = pow((double)t_ms / (double)settings->window_ms, 1 / settings->aggression);
	return fmin(fmax(factor, settings->least), 1);
}

double weir_slow_start_level(double *factors, uint32_t n) {
	double most = 0, sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		most = fmax(most, factors[i]);
	}
	for (uint32_t i = 0; i < n && most > 0; i++) {
		factors[i] /= most;
		sum += factors[i];
	}
	return sum;
}

static uint16_t fixed(double value, double one) {
	return (uint16_t)fmin(fmax(round(value * one), 1), UINT16_MAX);
}

void weir_slow_start_share(double factor, double sum, uint32_t n, struct weir_policy_share *ret) {
	*ret = (struct weir_policy_share){0};
	if (factor < 1) {
		ret->part = fixed(factor, WEIR_POLICY_PART_ONE);
		ret->turns = fixed(factor * n / sum, WEIR_POLICY_TURNS_ONE);
	}
}
