// SPDX-License-Identifier: BSD-3-Clause
//
// Draws from a Zipf distribution by rejection-inversion (Hoermann and Derflinger 1996). This method
// needs no table. integral() is the integral of density() from 1 to x, and integral_inverse() is
// the inverse function of integral().
#include "order.h"

#include <math.h>

// exp_quotient returns (exp(x) - 1) / x, and log_quotient returns log(1 + x) / x. Both results have
// full precision near 0.
static double exp_quotient(double x) {
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double log_quotient(double x) {
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double integral(double exponent, double x) {
	double log_x = log(x);

	return exp_quotient((1 - exponent) * log_x) * log_x;
}

static double integral_inverse(double exponent, double y) {
	double t = y * (1 - exponent);

	if (t < -1) { // rounding errors can cause this at the lower end
		t = -1;
	}
	return exp(log_quotient(t) * y);
}

static double density(double exponent, double x) {
	return exp(-exponent * log(x));
}

void weir_bench_order_init(struct weir_bench_order *order, enum weir_bench_order_kind kind,
	uint32_t flows, double exponent, uint64_t seed) {
	*order = (struct weir_bench_order){
		.random = {.state = seed}, .kind = kind, .flows = flows, .exponent = exponent};
	order->first = integral(exponent, 1.5) - 1;
	order->last = integral(exponent, (double)flows + 0.5);
	order->cut = 2 - integral_inverse(exponent, integral(exponent, 2.5) - density(exponent, 2));
}

uint32_t weir_bench_order_zipf(struct weir_bench_order *order) {
	for (;;) {
		double unit = weir_bench_random_unit(&order->random);
		double u = order->last + unit * (order->first - order->last);
		double x = integral_inverse(order->exponent, u);
		double k = floor(x + 0.5);

		k = fmin(fmax(k, 1), order->flows);
		if (k - x <= order->cut ||
			u >= integral(order->exponent, k + 0.5) - density(order->exponent, k)) {
			return (uint32_t)k - 1;
		}
	}
}
