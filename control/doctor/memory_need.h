// SPDX-License-Identifier: BSD-3-Clause
//
// Memory need: the memory that weir-dataplane takes with a configuration, in bytes. It follows
// dataplane/plan.c; a test compares both.
//
// Threads: any. No logging.
#pragma once

#include <stdint.h>

#include "config.h"

// Returns at least the memory of the plan, and at most a tenth more, or 2 MiB for each worker.
// root: directory in which the queues of interfaces are looked up (tree.h).
uint64_t weir_memory_need(const char *root, const struct weir_config *config);

// Returns how many huge pages of this size must be free for this memory.
uint64_t weir_memory_pages(uint64_t bytes, uint64_t page_bytes);
