// SPDX-License-Identifier: BSD-3-Clause
//
// Random subsetting: exact values, and acceptance bands and means over many salts.
#include "replay_subsetting.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subsetter.h"

// Default number of clients, and of backends, in the statistics over many salts. The exact values
// of the file can give another number.
#define FLEET 300u
// The result of a salt is in a band with a probability of 99 %. The probability that more than 5 of
// 100 results are outside is 1 in 2,000.
#define BAND_SALTS 100u
#define BAND_OUTSIDE 5u
// Means are computed over fewer salts than in the trace, so they must agree within 5 standard
// errors.
#define MEAN_SALTS 1000u
#define STANDARD_ERRORS 5.0

struct shape {
	uint32_t backends;
	uint32_t clients;
};

static struct subsetter *random_subsetter(uint32_t n, uint32_t size) {
	struct weir_subset_params params = {.algorithm = WEIR_SUBSET_RANDOM, .size = size};

	return subsetter_create(&params, false, n);
}

static void check_figure(struct replay *replay, const json_t *given, const void *context) {
	struct subsetter *subsetter;
	uint32_t n, clients, size, salt;

	(void)context;
	if (!replay_known_keys(replay, given, "fig B C size salt min_max") ||
		!subsetter_read_count(replay, given, "B", &n) ||
		!subsetter_read_count(replay, given, "C", &clients) ||
		!subsetter_read_count(replay, given, "size", &size) ||
		!subsetter_read_salt(replay, given, &salt)) {
		return;
	}
	subsetter = random_subsetter(n, size);
	subsetter->params.salt = salt;
	subsetter_count(subsetter, clients);
	subsetter_check_min_max(replay, subsetter, json_object_get(given, "min_max"));
	subsetter_free(subsetter);
}

static bool read_band(struct replay *replay, const json_t *bands, const char *key, double *band) {
	const json_t *list = json_object_get(bands, key);

	for (size_t i = 0; i < 2; i++) {
		if (!json_is_number(json_array_get(list, i))) {
			replay_fail(replay, "\"%s\" is no list of two numbers", key);
			return false;
		}
		band[i] = json_number_value(json_array_get(list, i));
	}
	return true;
}

static void check_bands(
	struct replay *replay, struct shape shape, const char *key, const json_t *bands) {
	struct subsetter *subsetter;
	uint32_t outside_min = 0;
	uint32_t outside_max = 0;
	double min[2], max[2];
	uint32_t size;

	if (sscanf(key, "size%u", &size) != 1 || !replay_known_keys(replay, bands, "min max") ||
		!read_band(replay, bands, "min", min) || !read_band(replay, bands, "max", max)) {
		replay_fail(replay, "no bands for a size");
		return;
	}
	subsetter = random_subsetter(shape.backends, size);
	for (uint32_t salt = 0; salt < BAND_SALTS; salt++) {
		double least, most;

		subsetter->params.salt = salt;
		subsetter_count(subsetter, shape.clients);
		least = subsetter_least(subsetter);
		most = subsetter_most(subsetter);
		outside_min += least < min[0] || least > min[1];
		outside_max += most < max[0] || most > max[1];
	}
	replay_check(replay, "least too often outside its band", -1, 0, outside_min > BAND_OUTSIDE);
	replay_check(replay, "most too often outside its band", -1, 0, outside_max > BAND_OUTSIDE);
	subsetter_free(subsetter);
}

static void replay_bands(struct replay *replay, struct shape shape, const json_t *section) {
	const char *key;
	json_t *bands;

	json_object_foreach ((json_t *)section, key, bands) {
		replay_begin(replay, "random_subsetting.acceptance_band_99pct.%s", key);
		check_bands(replay, shape, key, bands);
		replay_end(replay);
	}
}

// Minimum and maximum number of clients per backend, for each salt.
struct sample {
	double least[MEAN_SALTS];
	double most[MEAN_SALTS];
};

static void take_sample(struct sample *sample, struct shape shape, uint32_t size) {
	struct subsetter *subsetter = random_subsetter(shape.backends, size);

	for (uint32_t salt = 0; salt < MEAN_SALTS; salt++) {
		subsetter->params.salt = salt;
		subsetter_count(subsetter, shape.clients);
		sample->least[salt] = subsetter_least(subsetter);
		sample->most[salt] = subsetter_most(subsetter);
	}
	subsetter_free(subsetter);
}

static void check_mean(
	struct replay *replay, const char *what, double expected, const double *values) {
	double sum = 0;
	double squares = 0;
	double mean;
	double error;

	for (uint32_t i = 0; i < MEAN_SALTS; i++) {
		sum += values[i];
		squares += values[i] * values[i];
	}
	mean = sum / MEAN_SALTS;
	error = sqrt((squares / MEAN_SALTS - mean * mean) / MEAN_SALTS);
	replay_check_real(
		replay, what, -1, expected, mean, STANDARD_ERRORS * error / fmax(1, expected));
}

static void check_share(struct replay *replay, const char *what, double expected,
	const double *values, double limit) {
	double error = sqrt(expected * (1 - expected) / MEAN_SALTS);
	double below = 0;

	for (uint32_t i = 0; i < MEAN_SALTS; i++) {
		below += values[i] <= limit;
	}
	replay_check_real(replay, what, -1, expected, below / MEAN_SALTS, STANDARD_ERRORS * error);
}

static void check_statistics(
	struct replay *replay, struct shape shape, uint32_t size, const json_t *given) {
	struct sample *sample = replay_alloc(sizeof(*sample));
	const char *key;
	json_t *value;

	take_sample(sample, shape, size);
	json_object_foreach ((json_t *)given, key, value) {
		double expected = json_number_value(value);
		double limit;

		if (strcmp(key, "mean_min") == 0) {
			check_mean(replay, key, expected, sample->least);
		} else if (strcmp(key, "mean_max") == 0) {
			check_mean(replay, key, expected, sample->most);
		} else if (sscanf(key, "P(min<=%lf)", &limit) == 1) {
			check_share(replay, key, expected, sample->least, limit);
		} else if (sscanf(key, "P(max<=%lf)", &limit) == 1) {
			check_share(replay, key, expected, sample->most, limit);
		} else {
			replay_fail(replay, "unknown key \"%s\"", key);
		}
	}
	free(sample);
}

static struct shape fleet_shape(const json_t *section) {
	const json_t *figure = json_array_get(json_object_get(section, "exact_figures"), 0);
	long long backends = json_integer_value(json_object_get(figure, "B"));
	long long clients = json_integer_value(json_object_get(figure, "C"));
	struct shape shape = {FLEET, FLEET};

	if (backends > 0 && backends <= SUBSETTER_MAX && clients > 0 && clients <= SUBSETTER_MAX) {
		shape = (struct shape){(uint32_t)backends, (uint32_t)clients};
	}
	return shape;
}

void replay_subsetting_random(struct replay *replay, const json_t *section) {
	struct shape shape = fleet_shape(section);
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)section, key, value) {
		char name[160];
		uint32_t salts, size;

		snprintf(name, sizeof(name), "random_subsetting.%s", key);
		if (json_is_array(value)) {
			replay_subsetting_cases(replay, name, value, check_figure, NULL);
		} else if (strncmp(key, "acceptance_band", 15) == 0 && json_is_object(value)) {
			replay_bands(replay, shape, value);
		} else if (!json_is_string(value)) { // a string is a definition
			replay_begin(replay, "%s", name);
			if (sscanf(key, "statistics_over_%u_salts_size%u", &salts, &size) == 2) {
				check_statistics(replay, shape, size, value);
			} else {
				replay_fail(replay, "unknown key");
			}
			replay_end(replay);
		}
	}
}
