// SPDX-License-Identifier: BSD-3-Clause
//
// Finds VIPs that the health checks of a service will cover only after a change of the
// configuration. If a backend does not have such a VIP yet, its checks fail after the change. This
// affects all VIPs of the service, even the VIPs that the backend has.
//
// Threads: one. Pure.
#pragma once

#include "config.h"

// Add a warning for each service that is in both configurations and whose checks via the data path
// will cover further VIPs. Returns 0 or -ENOMEM (some warnings are missing).
int weir_change_vips_warn(const struct weir_config *from, const struct weir_config *to,
	struct weir_config_errors *errors);
