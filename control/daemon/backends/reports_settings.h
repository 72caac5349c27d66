// SPDX-License-Identifier: BSD-3-Clause
//
// Reports settings: determines what a service's configuration defines about reports of its
// backends, and computes this instance's share of a reported limit.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Returns the report fields that the service uses with any policy.
uint32_t weir_reports_wants(const struct weir_config_service *service);
// Returns the report fields that are used with any policy. wants: result of weir_reports_wants.
// limited: the backend has reported a limit.
uint32_t weir_reports_used(uint32_t wants, bool limited);
// Returns the lifetime of a report in milliseconds.
uint64_t weir_reports_expire_ms(const struct weir_config_service *service);
// Returns the number of balancers (or workers) in the fleet that use a backend. sharers: number of
// all balancers, or of all their workers.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t sharers);
// Returns the share of this instance (or worker) of a backend's limit; 0 = no limit. If the backend
// did not report its active requests (active < 0), the share is limit / divisor, with divisor > 0.
// Otherwise it is `held`, the requests of this instance at the backend, plus an equal part of the
// unused limit. Then the shares of all instances add up to the backend's limit, and each report
// adapts the shares to the current flows.
uint32_t weir_reports_share(uint32_t limit, uint32_t divisor, double active, uint32_t held);
// Returns whether the service still reads load from the answers of this source.
bool weir_reports_read_load(const struct weir_config_service *service, const char *source);
// Returns whether the settings of the service still allow reports from this source. If not, the
// caller must withdraw the values of the source, because no later report can withdraw them.
bool weir_reports_have_source(const struct weir_config_service *service, const char *source);
