// SPDX-License-Identifier: BSD-3-Clause
//
// Running: creates the services of the running configuration from replies of weir-control. The
// doctor uses these services if it cannot read the configuration file, because the configuration
// that weir-dataplane writes into its run directory (config_running.h) contains no services.
//
// Threads: any. No logging.
#pragma once

#include <jansson.h>

#include "config.h"

// Adds services to a configuration that has none: their names, the addresses of their binds and
// backends, how packets are forwarded, and whether they use agents. Other members are zero.
// services, backends: the replies to "service.show" and "backend.show". Returns 0, or -ENOMEM
// (services may then be missing).
int weir_doctor_running_services(
	struct weir_config *config, const json_t *services, const json_t *backends);
