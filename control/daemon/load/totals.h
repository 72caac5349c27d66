// SPDX-License-Identifier: BSD-3-Clause
//
// Totals: the counters of a service or a backend, summed over all workers, since the service or
// backend got its id.
//
// Threads: any; read-only.
#pragma once

#include "segment.h"

// Returns the sum for a service or a backend. All counters are 0 if segment is NULL, or if the id
// is beyond the maximum of the segment.
struct weir_share_counters weir_sum_service(const struct weir_segment *segment, uint32_t service);
struct weir_share_counters weir_sum_backend(const struct weir_segment *segment, uint32_t backend);
