// SPDX-License-Identifier: BSD-3-Clause
//
// Finds VIPs that the health checks of a service do not cover now, but will cover after a change of
// the configuration. A backend that does not have such a VIP yet then fails its check for all VIPs,
// even for the VIPs that it has.
//
// Threads: one. Pure.
#pragma once

#include "config.h"

// Add a warning for each service of both configurations whose checks via the data path will cover
// further VIPs. Returns 0 or -ENOMEM (some warnings are missing).
int weir_change_vips_warn(const struct weir_config *from, const struct weir_config *to,
	struct weir_config_errors *errors);
