// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters of health checks, shared by those of a service: the request, and the VIPs of checks
// via the data path. Constant while they have users.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "health.h"

struct weir_health_params {
	uint32_t users;
	struct weir_config_health_check check;
	uint32_t vip_count; // 0 = not via the data path
	struct weir_address vips[];
};

// Parameters of a target, with one more user. The targets of a service are adjacent: they share
// `before`, those of the last fresh target `before_of` (NULL = none), if it has the same check and
// VIPs. Returns NULL if out of memory.
struct weir_health_params *weir_health_params_share(struct weir_health_params *before,
	const struct weir_health_target *before_of, const struct weir_health_target *target);
void weir_health_params_leave(struct weir_health_params *params); // frees unused; NULL is allowed

// Whether they are those of the target.
bool weir_health_params_are_of(
	const struct weir_health_params *params, const struct weir_health_target *target);
// Passes in a row that make the verdict PASSING: each VIP has one among them.
uint32_t weir_health_params_passes(const struct weir_health_params *params);
// Put the VIP of this number in front of a detail, which is cut if that is too long.
void weir_health_params_name(const struct weir_health_params *params, uint32_t vip,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]);
