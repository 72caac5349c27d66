// SPDX-License-Identifier: BSD-3-Clause
//
// Totals: the counters of a service or a backend, summed over all workers, since it has its id.
//
// Threads: any; nothing is changed.
#pragma once

#include "segment.h"

// segment NULL: all 0. id beyond the segment's room: all 0.
struct weir_share_counters weir_sum_service(const struct weir_segment *segment, uint32_t service);
struct weir_share_counters weir_sum_backend(const struct weir_segment *segment, uint32_t backend);
