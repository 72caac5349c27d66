// SPDX-License-Identifier: BSD-3-Clause
//
// Slow path: ICMP, bad packets, packets that do not fit. Separate from
// pipeline.c so that the fast path stays dense in the instruction cache.
//
// Threads: part of a pipeline; its worker only.
#pragma once

#include "burst.h"

// Process the packets in b->others, which are neither valid TCP nor valid UDP.
void weir_slow_path_others(struct weir_burst *b);

// Rewrite packet i, which the fast path skipped: makes all checks and sets the packet's verdict,
// with the reason if it is dropped.
void weir_slow_path_rewrite(struct weir_burst *b, unsigned int i);
