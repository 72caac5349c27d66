// SPDX-License-Identifier: BSD-3-Clause
//
// Outliers: ejects backends whose connections fail or whose hosts reject tunnel packets, and
// readmits them later. The settings are in `outlier_ejection` of the service; a service without
// these settings, or with only one backend, causes no work. This module reads the workers'
// counters, and gets ICMP errors from rejections.h. policy/ejection.h determines which backends are
// ejected. The next control process does not continue ejections.
//
// Threads: only the event loop's thread. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"
#include "unreachable.h"

struct weir_outliers;

struct weir_outliers_status {
	uint64_t left_ms; // remaining time of the ejection; 0 = not ejected
	uint64_t ejections; // ejections since weir_outliers_follow added the backend
};

// states: borrowed; ejections are recorded in the history of states. Returns 0 or -ENOMEM.
int weir_outliers_create(
	struct weir_log *log, struct weir_states *states, struct weir_outliers **ret);
void weir_outliers_free(struct weir_outliers *outliers); // NULL is allowed

// Applies a configuration and its tables (borrowed until the next call). Backends that are also in
// the previous configuration, with the same address, keep their state. Returns 0, or -ENOMEM: then
// no backend is ejected.
int weir_outliers_follow(struct weir_outliers *outliers, struct weir_tables *tables,
	const struct weir_config *config);

// Reads the counters of the workers, and ejects and readmits backends. Call once a second. Does
// nothing while no dataplane is attached, so no ejection ends then. Returns whether the tables must
// be published.
bool weir_outliers_second(struct weir_outliers *outliers, uint64_t now_ms);

// Records that the backend's host rejected a tunnel packet of this flow. flow: hash of the flow.
// Does nothing for a backend that cannot be ejected.
void weir_outliers_unreachable(struct weir_outliers *outliers, uint16_t backend,
	enum weir_unreachable_kind kind, uint32_t flow, uint64_t now_ms);

// Ends the ejection of a backend on request of an operator. The caller must publish the tables.
// Does nothing if the backend is not ejected.
void weir_outliers_readmit(struct weir_outliers *outliers, uint16_t backend);

// Returns 0, or -ENOENT: the backend cannot be ejected.
int weir_outliers_status(const struct weir_outliers *outliers, uint16_t backend, uint64_t now_ms,
	struct weir_outliers_status *ret);
