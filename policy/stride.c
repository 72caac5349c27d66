// SPDX-License-Identifier: BSD-3-Clause
#include "stride.h"

#define STRIDE_MAX 65535.0
#define CAP_OF_MEAN 10.0
#define FLOOR_OF_MEAN 0.01

static uint16_t round_stride(double weight) {
	weight += 0.5;
	return weight > STRIDE_MAX ? (uint16_t)STRIDE_MAX : (uint16_t)weight;
}

void weir_stride_scale(struct weir_candidate *candidates, uint32_t n, bool reported) {
	double sum = 0, max = 0, mean, factor;
	uint32_t known = 0;
	uint16_t least;

	for (uint32_t i = 0; i < n; i++) {
		sum += candidates[i].weight;
		max = candidates[i].weight > max ? candidates[i].weight : max;
		known += candidates[i].weight > 0;
	}
	mean = known > 0 ? sum / known : 0;
	if (reported && max > CAP_OF_MEAN * mean) {
		max = CAP_OF_MEAN * mean;
	}
	factor = max > 0 ? STRIDE_MAX / max : 0;
	least = reported ? round_stride(FLOOR_OF_MEAN * mean * factor) : 1;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t stride = round_stride(candidates[i].weight * factor);

		if (candidates[i].weight == 0) {
			candidates[i].stride = reported ? round_stride(mean * factor) : 0;
		} else {
			candidates[i].stride = stride > least ? stride : least;
		}
	}
}
