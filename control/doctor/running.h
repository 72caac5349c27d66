// SPDX-License-Identifier: BSD-3-Clause
//
// Running: reads the running services from replies of weir-control, for a doctor that cannot read
// the configuration file. The configuration that weir-dataplane writes into its run directory
// (config_running.h) has no services.
//
// Threads: any. No logging.
#pragma once

#include <jansson.h>

#include "config.h"

// Fill in the services of a configuration without services: names, addresses of binds and backends,
// and whether a service uses agents. Other members are zero. services, backends: the replies to
// "service.show" and "backend.show". Returns 0, or -ENOMEM (then the configuration has none or some
// of the services).
int weir_doctor_running_services(
	struct weir_config *config, const json_t *services, const json_t *backends);
