// SPDX-License-Identifier: BSD-3-Clause
//
// Running: the services that run, from the answers of weir-control. For a doctor that cannot read
// the configuration's file: what weir-dataplane wrote into its run directory (config_running.h) has
// no services.
//
// Threads: any. No logging.
#pragma once

#include <jansson.h>

#include "config.h"

// Fill in the services of a configuration without any: their names, the addresses of their binds
// and backends, and whether they use agents. The rest is zero. services, backends: the answers to
// "service.show" and "backend.show". Returns 0, or -ENOMEM (the configuration is unchanged, or has
// a part of them).
int weir_doctor_running_services(
	struct weir_config *config, const json_t *services, const json_t *backends);
