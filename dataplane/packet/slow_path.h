// SPDX-License-Identifier: BSD-3-Clause
//
// Slow path: processes ICMP, bad packets, and packets that do not fit the MTU of the path to their
// backend, or whose backend cannot be used. Separate from pipeline.c, so that the code of the fast
// path uses few lines of the instruction cache.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include "burst.h"

// Process the packets in b->others, which are not valid TCP or UDP packets.
void weir_slow_path_others(struct weir_burst *b);

// Rewrite packet i, which the fast path skipped: makes all checks and sets the packet's verdict,
// with the reason if the packet is dropped.
void weir_slow_path_rewrite(struct weir_burst *b, unsigned int i);
