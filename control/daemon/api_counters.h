// SPDX-License-Identifier: BSD-3-Clause
//
// Counters for the API: sums over workers, and as JSON.
#pragma once

#include <jansson.h>

#include "segment.h"

// Sums over all workers. segment NULL: all 0. id beyond the segment's room: all 0.
struct weir_share_counters weir_sum_service(const struct weir_segment *segment, uint32_t service);
struct weir_share_counters weir_sum_backend(const struct weir_segment *segment, uint32_t backend);

// Add every counter to an object under its name.
void weir_json_share(json_t *object, const struct weir_share_counters *counters);
void weir_json_worker(json_t *object, const struct weir_worker_counters *counters);
// {reason: n}, all workers; reasons that never happened included.
json_t *weir_json_drops(const struct weir_segment *segment);
// {counter: n}, all workers.
json_t *weir_json_workers_sum(const struct weir_segment *segment);

// A share in percent with two decimals; 0 of 0 is 0.
json_t *weir_json_percent(uint64_t part, uint64_t whole);
