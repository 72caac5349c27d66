// SPDX-License-Identifier: BSD-3-Clause
//
// Reports settings: what a service's configuration defines about reports of its backends, and the
// share of this instance in a reported limit.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Fields that the service uses with any policy.
uint32_t weir_reports_wants(const struct weir_config_service *service);
// The fields of a report that are used with any policy. wants: result of weir_reports_wants.
// limited: the backend has reported a limit.
uint32_t weir_reports_used(uint32_t wants, bool limited);
// Lifetime of a report.
uint64_t weir_reports_expire_ms(const struct weir_config_service *service);
// Number of balancers (or workers) in the fleet that use a backend. sharers: all balancers, or all
// their workers.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t sharers);
// The share of this instance (or worker) in a backend's limit; 0 = no limit. Without reported
// active requests (active < 0): limit / divisor, divisor > 0. With reported active requests:
// `held`, the requests of this instance at the backend, plus an equal part of the unused limit. The
// limits of all instances then add up to the backend's limit, and follow the flows from report to
// report.
uint32_t weir_reports_share(uint32_t limit, uint32_t divisor, double active, uint32_t held);
// Whether the service's check still reads load in answers from this source.
bool weir_reports_read_load(const struct weir_config_service *service, const char *source);
// Whether reports from this source can still arrive. If not, no later report can withdraw its
// values.
bool weir_reports_have_source(const struct weir_config_service *service, const char *source);
