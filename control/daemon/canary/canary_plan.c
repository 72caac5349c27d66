// SPDX-License-Identifier: BSD-3-Clause
#include "canary_plan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

struct weir_canary_plan weir_canary_plan_default(void) {
	return (struct weir_canary_plan){.percent = {1, 5, 20, 50},
		.steps = 4,
		.every_ms = 60000,
		.error_ratio = 1.5,
		.latency_ratio = 1.3,
		.min_requests = 50};
}

// Returns whether a number is in a range; false for NaN.
static bool is_within(double value, double least, double most) {
	return value >= least && value <= most;
}

static int check_number(
	const char *name, double value, double least, double most, char *why, size_t why_bytes) {
	if (is_within(value, least, most)) {
		return 0;
	}
	snprintf(why, why_bytes, "argument \"%s\" must be a number from %.0f to %.0f", name, least,
		most);
	return -EINVAL;
}

static int check_steps(const struct weir_canary_plan *plan, char *why, size_t why_bytes) {
	if (plan->steps < 1 || plan->steps > WEIR_CANARY_STEPS_MOST) {
		snprintf(why, why_bytes, "argument \"steps\" must have 1 to %d percentages",
			WEIR_CANARY_STEPS_MOST);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < plan->steps; i++) {
		if (!is_within(plan->percent[i], WEIR_CANARY_PERCENT_LEAST,
			    WEIR_CANARY_PERCENT_MOST)) {
			snprintf(why, why_bytes,
				"argument \"steps\" must have percentages from %g to %g; after the "
				"last step the backend gets its configured weight",
				WEIR_CANARY_PERCENT_LEAST, WEIR_CANARY_PERCENT_MOST);
			return -EINVAL;
		}
		if (i > 0 && plan->percent[i] <= plan->percent[i - 1]) {
			snprintf(why, why_bytes,
				"percentages in \"steps\" must ascend: %g is not above %g",
				plan->percent[i], plan->percent[i - 1]);
			return -EINVAL;
		}
	}
	return 0;
}

int weir_canary_plan_check(const struct weir_canary_plan *plan, char *why, size_t why_bytes) {
	int r = check_steps(plan, why, why_bytes);

	if (r == 0) {
		r = check_number("every_ms", plan->every_ms, WEIR_CANARY_EVERY_LEAST_MS,
			WEIR_CANARY_EVERY_MOST_MS, why, why_bytes);
	}
	if (r == 0) {
		r = check_number("max_error_ratio", plan->error_ratio, 1, WEIR_CANARY_RATIO_MOST,
			why, why_bytes);
	}
	if (r == 0) {
		r = check_number("max_latency_ratio", plan->latency_ratio, 1,
			WEIR_CANARY_RATIO_MOST, why, why_bytes);
	}
	if (r == 0) {
		r = check_number("min_requests", plan->min_requests, 1, WEIR_CANARY_REQUESTS_MOST,
			why, why_bytes);
	}
	return r;
}

uint32_t weir_canary_weight(double percent, uint64_t others) {
	double weight = floor(percent / (100 - percent) * (double)others + 0.5);

	return weight > WEIR_CANARY_WEIGHT_MOST ? WEIR_CANARY_WEIGHT_MOST : (uint32_t)weight;
}

double weir_canary_share(uint32_t weight, uint64_t others) {
	return weight > 0 ? 100.0 * weight / ((double)weight + (double)others) : 0;
}
