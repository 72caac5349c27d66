// SPDX-License-Identifier: BSD-3-Clause
//
// Memory need: computes the memory, in bytes, that weir-dataplane needs with a configuration. The
// computation follows dataplane/plan.c; a test compares both.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

#include "config.h"

// Returns the memory that weir-dataplane plans to use, or more: at most a tenth more, plus 2 MiB
// for each worker. root: directory in which the queues of interfaces are looked up (tree.h).
uint64_t weir_memory_need(const char *root, const struct weir_config *config);

// Returns how many huge pages of this size must be free for this memory.
uint64_t weir_memory_pages(uint64_t bytes, uint64_t page_bytes);
