// SPDX-License-Identifier: BSD-3-Clause
//
// Outliers: ejects backends whose connections fail, as `outlier_ejection` of their service says,
// and takes them back. Reads what workers count; policy/ejection.h judges. Services without it cost
// nothing. All of it ends with this process: the next one starts without ejections.
//
// Threads: one, that of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "states.h"
#include "tables.h"

struct weir_outliers;

struct weir_outliers_status {
	uint64_t left_ms; // of its ejection; 0 = it is not ejected
	uint64_t ejections; // since this process was started
};

// states: borrowed, its history records ejections. Returns 0 or -ENOMEM.
int weir_outliers_create(
	struct weir_log *log, struct weir_states *states, struct weir_outliers **ret);
void weir_outliers_free(struct weir_outliers *outliers); // NULL is fine

// Follow a configuration and its tables (borrowed until the next call). Backends that stay keep
// what is known of them. Returns 0 or -ENOMEM (ejection is disabled).
int weir_outliers_follow(struct weir_outliers *outliers, struct weir_tables *tables,
	const struct weir_config *config);

// Look at what was counted; call it once a second while a dataplane is attached. Returns whether
// the tables are to be published.
bool weir_outliers_second(struct weir_outliers *outliers, uint64_t now_ms);

// An operator ends the ejection of a backend, if it is ejected.
void weir_outliers_pardon(struct weir_outliers *outliers, uint16_t backend);

// Returns 0, or -ENOENT: the backend cannot be ejected.
int weir_outliers_status(const struct weir_outliers *outliers, uint16_t backend, uint64_t now_ms,
	struct weir_outliers_status *ret);
