// SPDX-License-Identifier: BSD-3-Clause
//
// Returns counters as JSON, for the API.
#pragma once

#include <jansson.h>

#include "segment.h"

struct weir_daemon;

// Returns a count of flows, packets or bytes of the dataplane; null if no dataplane is attached.
json_t *weir_json_count(const struct weir_daemon *daemon, uint64_t count);
// Adds every counter and gauge of a service or backend to an object, each under its own name.
// counters: NULL = the counts are unknown, so every value is null.
void weir_json_share(json_t *object, const struct weir_share_counters *counters);
void weir_json_worker(json_t *object, const struct weir_worker_counters *counters);
// Adds every counter of a port to an object, and the member `lost`: the number of packets that the
// port received but no worker processed.
void weir_json_port(json_t *object, const struct weir_port_counters *counters);
// Returns the drops of one worker as {reason: n}, including reasons with n = 0.
json_t *weir_json_worker_drops(const struct weir_worker_counters *counters);
// Returns the drops of all workers as {reason: n}, including reasons with n = 0.
json_t *weir_json_drops(const struct weir_segment *segment);
// Returns every counter and gauge of a worker as {name: n}, summed over all workers.
json_t *weir_json_workers_sum(const struct weir_segment *segment);
