// SPDX-License-Identifier: BSD-3-Clause
//
// Finds backends that a change of the configuration renames or moves to another service. They keep
// their addresses, but their manual settings are discarded (change_hand.h). Therefore a backend
// that an operator has taken out of use gets new flows again.
//
// Threads: one. Pure.
#pragma once

#include "change_costs.h"

// Add a warning, with a remedy, for each backend of the new configuration that gets new flows
// although the removed backend with the same address got none: it was drained, in maintenance, or
// had a weight of 0 set by hand. After WEIR_CHANGE_RENAMES_MOST warnings, one more warning gives
// the number of remaining backends. Call before the change is applied. Returns 0 or -ENOMEM (some
// warnings are missing). Cost: if there is such a removed backend, one sort of all backends of the
// new configuration.
#define WEIR_CHANGE_RENAMES_MOST 16u
int weir_change_renames_warn(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_config_errors *errors);
