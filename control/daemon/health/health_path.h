// SPDX-License-Identifier: BSD-3-Clause
//
// A check's connection via the data path (data_path.h): opened before its probe starts, and
// verified when it has ended: a connection that took another path is no result about the backend.
//
// Threads: that of the loop.
#pragma once

#include <stddef.h>

#include "data_path.h"
#include "health_probe.h"

// Open the connection. path: NULL = weir-control has none. Returns 0, or negative errno with one
// line in detail: the probe cannot start.
int weir_health_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *detail, size_t bytes);

// The probe has ended with this outcome and detail: may change both. Closes the connection. Does
// nothing if there is none.
void weir_health_path_end(struct weir_data_path *path, struct weir_data_path_flow *flow,
	uint64_t took_ms, uint32_t timeout_ms, enum weir_probe_outcome *outcome, char *detail,
	size_t bytes);
