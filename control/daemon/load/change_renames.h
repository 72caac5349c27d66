// SPDX-License-Identifier: BSD-3-Clause
//
// Finds backends that get another name or another service through a change of the configuration.
// Their addresses stay, but their manual settings end (change_hand.h). So a backend that an
// operator has taken out of use gets new flows again.
//
// Threads: one. Pure.
#pragma once

#include "change_costs.h"

// Add a warning, with a remedy, for each backend of the new configuration that gets new flows
// although the removed backend with this address took none: it was drained, in maintenance, or had
// a weight of 0 set by hand. After WEIR_CHANGE_RENAMES_MOST warnings, one more warning gives the
// number of the remaining backends. Call before the change is applied. Returns 0 or -ENOMEM (some
// warnings are missing). Cost: if there is such a removed backend, one sort of all backends of
// the new configuration.
#define WEIR_CHANGE_RENAMES_MOST 16u
int weir_change_renames_warn(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_config_errors *errors);
