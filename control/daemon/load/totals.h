// SPDX-License-Identifier: BSD-3-Clause
//
// Totals: the counters of a service or a backend, summed over all workers, since the id was
// assigned to the service or backend.
//
// Threads: any; read-only.
#pragma once

#include "segment.h"

// Return the counters of a service or a backend. All counters are 0 if segment is NULL, or if the
// segment has no counters for the id.
struct weir_share_counters weir_sum_service(const struct weir_segment *segment, uint32_t service);
struct weir_share_counters weir_sum_backend(const struct weir_segment *segment, uint32_t backend);
