// SPDX-License-Identifier: BSD-3-Clause
//
// Finds VIPs that the health checks of a service will cover only after a change of the
// configuration. If a backend does not have such a VIP yet, its checks fail after the change, and
// the backend gets no new flows for any VIP of the service.
//
// Threads: one. Keeps no state.
#pragma once

#include "config.h"

// Adds a warning for each service that is in both configurations, if its health checks via the data
// path will cover additional VIPs. Returns 0 or -ENOMEM (some warnings are missing).
int weir_change_vips_warn(const struct weir_config *from, const struct weir_config *to,
	struct weir_config_errors *errors);
