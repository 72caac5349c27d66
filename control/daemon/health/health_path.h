// SPDX-License-Identifier: BSD-3-Clause
//
// A check's connection via the data path (data_path.h). The connection is opened before the probe
// starts. When the probe has ended, the path of the connection is verified: if its packets took
// another path, the outcome of the probe is UNKNOWN.
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

// Call when the probe has ended. Closes the connection. Changes *outcome and detail if no packet of
// the connection took the path (the detail of an outcome UNKNOWN stays), if the last packet could
// not be forwarded, or if this host caused the failure. The last two conditions are checked for
// failed probes, and for all UDP probes that expect no bytes, because these probes also pass
// without an answer. took_ms: duration of the probe. Does nothing if no connection is open.
void weir_health_path_end(struct weir_data_path *path, struct weir_data_path_flow *flow,
	uint64_t took_ms, const struct weir_config_health_check *check,
	enum weir_probe_outcome *outcome, char *detail, size_t bytes);
