// SPDX-License-Identifier: BSD-3-Clause
//
// Parameters of health checks: the request, and the VIPs for checks via the data path. The checks
// of a service share one set of parameters, which does not change while a check uses it.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "health.h"

struct weir_health_params {
	uint32_t users;
	struct weir_config_health_check check;
	uint32_t vip_count; // 0 = the probes do not go through the data path
	struct weir_address vips[];
};

// Returns the parameters of a target, and adds one to their number of users. before: the parameters
// of the target before_of; NULL = none. If both targets point to the same check and VIPs, returns
// `before`. Otherwise allocates new parameters. Pass the previous target of the list as before_of:
// the targets of a service are adjacent, so they then share their parameters. Returns NULL if out
// of memory.
struct weir_health_params *weir_health_params_share(struct weir_health_params *before,
	const struct weir_health_target *before_of, const struct weir_health_target *target);
// Removes a user, and frees parameters without users; NULL is allowed.
void weir_health_params_leave(struct weir_health_params *params);

// Returns whether the parameters match the check and the VIPs of the target.
bool weir_health_params_are_of(
	const struct weir_health_params *params, const struct weir_health_target *target);
// Puts the address of the VIP with this index in front of a detail, and cuts off the end if the
// result is too long.
void weir_health_params_name(const struct weir_health_params *params, uint32_t vip,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]);
