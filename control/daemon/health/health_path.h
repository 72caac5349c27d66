// SPDX-License-Identifier: BSD-3-Clause
//
// A check's connection via the data path (data_path.h). The connection is opened before the check's
// probe starts, and verified when the probe has ended: if the connection took another path, the
// result of the probe is unknown.
//
// Threads: only the event loop's thread.
#pragma once

#include <stddef.h>

#include "data_path.h"
#include "health_probe.h"

// Opens the connection. path: NULL = weir-control has no data path. Returns 0. If the probe cannot
// start, returns negative errno and writes one line to detail.
int weir_health_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *detail, size_t bytes);

// Call when the probe has ended with this outcome and detail. Changes both if the connection took
// another path, or if this host caused the failure. Closes the connection. Does nothing if no
// connection is open.
void weir_health_path_end(struct weir_data_path *path, struct weir_data_path_flow *flow,
	uint64_t took_ms, uint32_t timeout_ms, enum weir_probe_outcome *outcome, char *detail,
	size_t bytes);
