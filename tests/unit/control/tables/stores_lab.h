// SPDX-License-Identifier: BSD-3-Clause
//
// Records every store that a piece of code makes to a range of memory, one instruction at a time.
// Also counts the loads from a range. A process that is killed at some instruction leaves the
// range with its original contents and the first n stores applied.
//
// The range is write-protected, so that each store causes a fault. The instruction of the store is
// then single-stepped, and a comparison of the contents finds the stored bytes. On x86-64 only: see
// stores_work().
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store {
	uint64_t offset; // offset of the store in the range
	uint32_t bytes;
	uint8_t data[68];
};

struct stores { // state of the single active recording
	uint8_t *memory; // page-aligned
	const uint8_t *view; // the same memory, readable even if poisoned for ASan
	size_t bytes;
	uint8_t *before; // the original contents of the range
	struct store *store;
	uint32_t count;
};

bool stores_work(void);
// Starts recording the stores of this thread to [memory, memory + bytes). `view` is another mapping
// of this memory.
void stores_begin(struct stores *stores, void *memory, const void *view, size_t bytes);
// Stops recording. Fails the test if replaying the recorded stores gives other contents than the
// memory has.
void stores_end(struct stores *stores);
void stores_fini(struct stores *stores);
// Copies to `to` the contents that the range had after the first n stores.
void stores_replay(const struct stores *stores, uint32_t n, uint8_t *to);

// Records loads: counts the instructions of this thread that read from a range.
struct looks {
	uint8_t *memory; // page-aligned
	size_t bytes;
	uint64_t count;
};

void looks_begin(struct looks *looks, void *memory, size_t bytes);
void looks_end(struct looks *looks);
