// SPDX-License-Identifier: BSD-3-Clause
#include "steal_costs.h"

#include <math.h>

#define FIRST_MS 1000u
#define LEAST_S 1e-6

double weir_steal_move_s(uint32_t waited_ms) {
	uint64_t again_ms = FIRST_MS;

	while (again_ms <= waited_ms) {
		again_ms *= 2;
	}
	return (double)(again_ms - waited_ms) / 1000;
}

double weir_steal_service_s(double queue, double service_s, uint32_t longest_ms) {
	bool is_void = service_s < 0 || longest_ms > 2000 * (queue + 1) * service_s;

	if (is_void && service_s < WEIR_STEAL_UNKNOWN_S) {
		return WEIR_STEAL_UNKNOWN_S;
	}
	return service_s > LEAST_S ? service_s : LEAST_S;
}

double weir_steal_queue_s(double queue, double fill, double service_s) {
	double each_s = service_s > WEIR_STEAL_UNKNOWN_S ? service_s : WEIR_STEAL_UNKNOWN_S;

	return fmin(queue * service_s, fill * WEIR_STEAL_QUEUE * each_s);
}
