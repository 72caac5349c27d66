// SPDX-License-Identifier: BSD-3-Clause
//
// Backends that a change of the configuration gives another name, or moves to another service: the
// same address, on which what was set by hand ends (change_hand.h). One that took no new flows by
// hand gets some then.
//
// Threads: one. Pure.
#pragma once

#include "change_costs.h"

// Add a warning, with the remedy, for each backend of the new configuration that gets new flows,
// and whose address took none under the name that the difference removes: drained, in maintenance,
// or with a weight of 0 set by hand. At most WEIR_CHANGE_RENAMES_MOST, then one with the number of
// the others. Call before the change is applied. Returns 0 or -ENOMEM (some are left out). Cost: if
// there is such a removed backend, one sort of all new ones.
#define WEIR_CHANGE_RENAMES_MOST 16u
int weir_change_renames_warn(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_config_errors *errors);
