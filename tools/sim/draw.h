// SPDX-License-Identifier: BSD-3-Clause
//
// Random draws of the simulator: streams of random numbers, and distributions of durations. A seed
// gives the same numbers with every compiler.
// Called by the simulation, scenario.c and scenario_keys.c.
//
// Threads: a stream belongs to one thread.
#pragma once

#include <stdint.h>

#include "prng.h"

// The purpose of a stream of random numbers. Each purpose and index has its own stream. Therefore
// variants of a scenario have the same workload, even if their policies draw different numbers.
enum weir_sim_purpose {
	WEIR_SIM_STREAM_CLIENT, // arrivals, costs, waits and hashes of the requests of one client
	WEIR_SIM_STREAM_RATES, // request rates of the clients
	WEIR_SIM_STREAM_ANTAGONISTS,
	WEIR_SIM_STREAM_BACKEND, // choice of failing requests and lost reports
	WEIR_SIM_STREAM_POLICY, // random numbers that policies draw
	// choice of the answers that are lost; hashes of requests for which a backend is chosen
	// again
	WEIR_SIM_STREAM_STEAL,
	WEIR_SIM_STREAM_PACKETS, // packets of one bucket; at the last index: choice of hot buckets
};

struct weir_prng weir_sim_stream(uint64_t seed, enum weir_sim_purpose purpose, uint32_t index);

static inline double weir_sim_uniform(struct weir_prng *prng) { // [0, 1)
	return (double)(weir_prng_next(prng) >> 11) * (1.0 / 9007199254740992.0); // 2^-53
}

double weir_sim_exponential(struct weir_prng *prng, double mean);
double weir_sim_normal(struct weir_prng *prng); // mean 0, standard deviation 1

// The distributions of durations. X(NAME, "name")
#define WEIR_SIM_DISTRIBUTIONS(X) \
	X(CONSTANT, "constant") \
	X(UNIFORM, "uniform") \
	X(EXPONENTIAL, "exponential") \
	X(LOGNORMAL, "lognormal") \
	X(BOUNDED_PARETO, "bounded-pareto") \
	X(MIX, "mix")

enum weir_sim_distribution_kind {
#define X(name, key) WEIR_SIM_##name,
	WEIR_SIM_DISTRIBUTIONS(X)
#undef X
};

struct weir_sim_part {
	double percent; // share of the draws
	uint64_t mean_ns;
};

struct weir_sim_distribution {
	uint32_t kind; // enum weir_sim_distribution_kind
	uint64_t mean_ns; // constant, exponential, lognormal
	double sigma; // lognormal: standard deviation of the logarithm
	double alpha; // bounded-pareto: shape
	uint64_t min_ns, max_ns; // uniform, bounded-pareto: limits of the values
	struct weir_sim_part *part; // mix: constants and their shares
	uint32_t part_count;
};

// weir_sim_draw draws a random duration. weir_sim_distribution_mean computes the mean of a
// distribution. Both functions return nanoseconds.
double weir_sim_draw(const struct weir_sim_distribution *distribution, struct weir_prng *prng);
double weir_sim_distribution_mean(const struct weir_sim_distribution *distribution);
