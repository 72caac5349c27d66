// SPDX-License-Identifier: BSD-3-Clause
//
// Outliers: ejects backends whose connections fail or whose hosts reject tunnel packets, as
// configured by `outlier_ejection` of their service, and readmits them. Reads the counters of
// workers; rejections.h passes ICMP errors; policy/ejection.h decides. Services without it cost
// nothing. Ejections end with this process.
//
// Threads: one, that of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"
#include "unreachable.h"

struct weir_outliers;

struct weir_outliers_status {
	uint64_t left_ms; // of its ejection; 0 = not ejected
	uint64_t ejections; // since this process was started
};

// states: borrowed, its history records ejections. Returns 0 or -ENOMEM.
int weir_outliers_create(
	struct weir_log *log, struct weir_states *states, struct weir_outliers **ret);
void weir_outliers_free(struct weir_outliers *outliers); // NULL is allowed

// Apply a configuration and its tables (borrowed until the next call). Backends that stay keep
// their state. Returns 0 or -ENOMEM (ejection is disabled).
int weir_outliers_follow(struct weir_outliers *outliers, struct weir_tables *tables,
	const struct weir_config *config);

// Read the counters; call once a second while a dataplane is attached. Returns whether the tables
// must be published.
bool weir_outliers_second(struct weir_outliers *outliers, uint64_t now_ms);

// Record that the backend's host rejected a tunnel packet of this flow (a hash). Backends that
// cannot be ejected are ignored.
void weir_outliers_unreachable(struct weir_outliers *outliers, uint16_t backend,
	enum weir_unreachable_kind kind, uint32_t flow, uint64_t now_ms);

// End the ejection of a backend, if ejected, on behalf of an operator.
void weir_outliers_readmit(struct weir_outliers *outliers, uint16_t backend);

// Returns 0, or -ENOENT: the backend cannot be ejected.
int weir_outliers_status(const struct weir_outliers *outliers, uint16_t backend, uint64_t now_ms,
	struct weir_outliers_status *ret);
