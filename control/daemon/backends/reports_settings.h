// SPDX-License-Identifier: BSD-3-Clause
//
// Reports settings: derives the handling of backends' reports from the configuration of the
// service. Also computes this instance's share of a reported limit.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

// Returns the report fields to request from agents, regardless of the service's policy.
uint32_t weir_reports_wants(const struct weir_config_service *service);
// Returns the fields of a report that the service uses regardless of its policy. wants: result of
// weir_reports_wants. limited: the backend has reported a limit.
uint32_t weir_reports_used(uint32_t wants, bool limited);
// Returns the lifetime of a report in milliseconds. check: the health check of the backend.
uint64_t weir_reports_expire_ms(
	const struct weir_config_service *service, const struct weir_config_health_check *check);
// Returns the average number of balancers in the fleet that use a backend, rounded up, at least 1.
// sharers: number of all balancers.
uint32_t weir_reports_divisor(const struct weir_config_service *service, uint32_t sharers);
// Returns the share of this instance of a backend's limit; 0 = no limit. divisor: above 0. held:
// requests of this instance at the backend. active: active requests that the backend reported. If
// active is below 0 (not reported), the share is limit / divisor. Otherwise the share is `held`
// plus an equal part of the unused limit. The shares of all instances then add up to about the
// backend's limit, and each report adapts the shares to the current flows. The share is rounded
// down; it is at least 1 and at most the limit.
uint32_t weir_reports_share(uint32_t limit, uint32_t divisor, double active, uint32_t held);
// Returns false if the source is an HTTP or gRPC check, but load reports (ORCA) are not read from
// the answers to the health check of the backend.
bool weir_reports_read_load(const struct weir_config_health_check *check, const char *source);
// Returns whether values of this source stay when the next report omits them. True for an
// agent-check: a line contains only the keywords that changed, as in HAProxy.
bool weir_reports_source_keeps(const char *source);
// Returns whether the settings of the service, and the health check of the backend, still allow
// reports from this source. If not, the caller must withdraw the values of the source, because no
// later report can withdraw them.
bool weir_reports_have_source(const struct weir_config_service *service,
	const struct weir_config_health_check *check, const char *source);
