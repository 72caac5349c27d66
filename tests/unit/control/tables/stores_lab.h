// SPDX-License-Identifier: BSD-3-Clause
//
// Every store that a piece of code makes to a range of memory, one instruction at a time, and how
// often it looks at one. What a process leaves that is killed at any instruction is the range as it
// was, and the first n of them.
//
// The range is write-protected; each store faults, is let through by stepping over its instruction,
// and is found by comparing. On x86-64 only: stores_work() tells.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store {
	uint64_t offset; // in the range
	uint32_t bytes;
	uint8_t data[68];
};

struct stores { // of one recording at a time
	uint8_t *memory; // page-aligned
	const uint8_t *view; // the same memory, where it can be read whatever ASan thinks of it
	size_t bytes;
	uint8_t *before; // the range as it was
	struct store *store;
	uint32_t count;
};

bool stores_work(void);
// Record from here on all stores of this thread to [memory, memory + bytes), of which view is
// another mapping.
void stores_begin(struct stores *stores, void *memory, const void *view, size_t bytes);
// Stop. Fails the test when the stores that were seen do not make the memory what it is.
void stores_end(struct stores *stores);
void stores_fini(struct stores *stores);
// The range as the first n stores left it, into `to`.
void stores_replay(const struct stores *stores, uint32_t n, uint8_t *to);

// The same for loads: how many instructions of this thread have looked at a range.
struct looks {
	uint8_t *memory; // page-aligned
	size_t bytes;
	uint64_t count;
};

void looks_begin(struct looks *looks, void *memory, size_t bytes);
void looks_end(struct looks *looks);
