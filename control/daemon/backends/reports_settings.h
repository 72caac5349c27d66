// SPDX-License-Identifier: BSD-3-Clause
//
// Reports settings: what the configuration of a service says about reports of its backends.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Fields used with any policy.
uint32_t weir_reports_wants(const struct weir_config_service *service);
// Lifetime of a report.
uint64_t weir_reports_expire_ms(const struct weir_config_service *service);
// Number of the fleet's workers that use a backend. workers: of the fleet.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t workers);
// Whether the check of the service still reads load in the answers of this source.
bool weir_reports_read_load(const struct weir_config_service *service, const char *source);
// Whether reports of this source can still arrive. If not, no later report withdraws its values.
bool weir_reports_have_source(const struct weir_config_service *service, const char *source);
