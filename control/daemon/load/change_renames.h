// SPDX-License-Identifier: BSD-3-Clause
//
// Finds, by their unchanged addresses, backends that a change of the configuration renames or moves
// to another service. The manual settings of such a backend are discarded (change_hand.h); for
// example, a backend that an operator has drained gets new flows again. The same applies to a
// removed backend that returns to the configuration while it still has flows.
//
// Threads: one. Keeps no state.
#pragma once

#include "change_costs.h"

// Adds a warning, with a remedy, for each backend that will get new flows at an address whose
// previous backend got no new flows, because it was drained, in maintenance, or had the weight 0
// set by hand. The change removes the previous backend, or its address changes, or an earlier
// change removed it, and it has the same name. After WEIR_CHANGE_RENAMES_MOST warnings, one more
// warning gives the number of the remaining backends. Call this function before the change is
// applied. Returns 0 or -ENOMEM (some warnings are missing). Cost: if there is such a previous
// backend, one sort of all backends of the new configuration.
#define WEIR_CHANGE_RENAMES_MOST 16u
int weir_change_renames_warn(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_config_errors *errors);
