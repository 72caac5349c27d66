// SPDX-License-Identifier: BSD-3-Clause
//
// A check's connection via the data path (data_path.h). The connection is opened before the check's
// probe starts, and verified when the probe has ended: if the connection took another path, the
// probe has no result about the backend.
//
// Threads: only the event loop's thread.
#pragma once

#include <stddef.h>

#include "data_path.h"
#include "health_probe.h"

// Open the connection. path: NULL = weir-control has no data path. Returns 0, or negative errno
// with one line in detail: the probe cannot start.
int weir_health_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *detail, size_t bytes);

// Call when the probe has ended with this outcome and detail. May change both, if the connection
// took another path. Closes the connection. Does nothing without a connection.
void weir_health_path_end(struct weir_data_path *path, struct weir_data_path_flow *flow,
	uint64_t took_ms, uint32_t timeout_ms, enum weir_probe_outcome *outcome, char *detail,
	size_t bytes);
