// SPDX-License-Identifier: BSD-3-Clause
#include "draw.h"

#include <math.h>

#define TURN 6.283185307179586

struct weir_prng weir_sim_stream(uint64_t seed, enum weir_sim_purpose purpose, uint32_t index) {
	struct weir_prng prng = {.state = seed};

	// Mix the seed and the stream's numbers in separate steps. Otherwise streams with similar
	// numbers would not be independent.
	prng.state = weir_prng_next(&prng) ^ ((uint64_t)purpose << 32 | index);
	prng.state = weir_prng_next(&prng);
	return prng;
}

double weir_sim_exponential(struct weir_prng *prng, double mean) {
	return -mean * log(1.0 - weir_sim_uniform(prng));
}

double weir_sim_normal(struct weir_prng *prng) {
	double radius = sqrt(-2.0 * log(1.0 - weir_sim_uniform(prng)));

	return radius * cos(TURN * weir_sim_uniform(prng));
}

static double draw_pareto(
	const struct weir_sim_distribution *distribution, struct weir_prng *prng) {
	double least = (double)distribution->min_ns;
	double tail = pow(least / (double)distribution->max_ns, distribution->alpha);
	double left = 1.0 - weir_sim_uniform(prng) * (1.0 - tail);

	return least * pow(left, -1.0 / distribution->alpha);
}

static double draw_part(const struct weir_sim_distribution *distribution, struct weir_prng *prng) {
	double left = weir_sim_uniform(prng) * 100.0;
	uint32_t i = 0;

	while (i + 1 < distribution->part_count && left >= distribution->part[i].percent) {
		left -= distribution->part[i++].percent;
	}
	return (double)distribution->part[i].mean_ns;
}

double weir_sim_draw(const struct weir_sim_distribution *distribution, struct weir_prng *prng) {
	double mean = (double)distribution->mean_ns;
	double sigma = distribution->sigma;

	switch (distribution->kind) {
	case WEIR_SIM_UNIFORM:
		return (double)distribution->min_ns +
		       weir_sim_uniform(prng) *
			       (double)(distribution->max_ns - distribution->min_ns);
	case WEIR_SIM_EXPONENTIAL:
		return weir_sim_exponential(prng, mean);
	case WEIR_SIM_LOGNORMAL:
		return mean * exp(sigma * weir_sim_normal(prng) - sigma * sigma / 2.0);
	case WEIR_SIM_BOUNDED_PARETO:
		return draw_pareto(distribution, prng);
	case WEIR_SIM_MIX:
		return draw_part(distribution, prng);
	default:
		return mean;
	}
}

static double pareto_mean(double alpha, double least, double most) {
	double tail = pow(least / most, alpha);

	if (fabs(alpha - 1.0) < 1e-9) {
		return least / (1.0 - tail) * log(most / least);
	}
	return pow(least, alpha) / (1.0 - tail) * (alpha / (alpha - 1.0)) *
	       (pow(least, 1.0 - alpha) - pow(most, 1.0 - alpha));
}

double weir_sim_distribution_mean(const struct weir_sim_distribution *distribution) {
	double sum = 0;

	switch (distribution->kind) {
	case WEIR_SIM_UNIFORM:
		return ((double)distribution->min_ns + (double)distribution->max_ns) / 2.0;
	case WEIR_SIM_BOUNDED_PARETO:
		return pareto_mean(distribution->alpha, (double)distribution->min_ns,
			(double)distribution->max_ns);
	case WEIR_SIM_MIX:
		for (uint32_t i = 0; i < distribution->part_count; i++) {
			sum += distribution->part[i].percent / 100.0 *
			       (double)distribution->part[i].mean_ns;
		}
		return sum;
	default:
		return (double)distribution->mean_ns;
	}
}
