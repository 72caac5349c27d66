// SPDX-License-Identifier: BSD-3-Clause
//
// Reports settings: what the configuration of a service says about reports of its backends, and the
// share of this instance in a reported limit.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Fields used with any policy.
uint32_t weir_reports_wants(const struct weir_config_service *service);
// Which of the fields of a report are used with any policy. wants: of weir_reports_wants. limited:
// the backend has reported a limit.
uint32_t weir_reports_used(uint32_t wants, bool limited);
// Lifetime of a report.
uint64_t weir_reports_expire_ms(const struct weir_config_service *service);
// Number of those in the fleet that use a backend. sharers: all of them, balancers or their
// workers.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t sharers);
// The share of this instance (or worker) in a backend's limit; 0 = none. An equal part: limit /
// divisor (> 0). Or, if the backend has reported its active requests (active, else -1), the `held`
// ones that this instance has there, and an equal part of the room: the limits of all instances
// then add up to that of the backend, and follow the flows from report to report.
uint32_t weir_reports_share(uint32_t limit, uint32_t divisor, double active, uint32_t held);
// Whether the check of the service still reads load in the answers of this source.
bool weir_reports_read_load(const struct weir_config_service *service, const char *source);
// Whether reports of this source can still arrive. If not, no later report withdraws its values.
bool weir_reports_have_source(const struct weir_config_service *service, const char *source);
