// SPDX-License-Identifier: BSD-3-Clause
//
// Timing wheel: one timer serves thousands of timeouts. Adding and removing an entry cost O(1).
// Expiring also scans the entries of the same slot that are due in a later revolution. An entry
// expires up to WEIR_WHEEL_TICK_MS late, never early.
//
// Threads: one. No clock: the time is an argument in milliseconds, and never decreases.
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#define WEIR_WHEEL_TICK_MS 4u
// The wheel covers 16 s. An entry that is due later stays in its slot for further revolutions.
#define WEIR_WHEEL_SLOTS 4096u

struct weir_wheel_entry { // zeroed = not in a wheel
	LIST_ENTRY(weir_wheel_entry) link;
	uint64_t tick; // tick at which the entry is due; 0 = not in a wheel
};

LIST_HEAD(weir_wheel_slot, weir_wheel_entry);

struct weir_wheel {
	uint64_t tick; // all earlier ticks have been processed; at least 1
	struct weir_wheel_slot slot[WEIR_WHEEL_SLOTS];
	uint64_t used[WEIR_WHEEL_SLOTS / 64]; // one bit per slot; 1 = the slot is not empty
};

void weir_wheel_init(struct weir_wheel *wheel, uint64_t now_ms);

// Add an entry, or change the time of an entry. due_ms: if in the past, the entry is due at the
// first tick that has not been processed.
void weir_wheel_set(struct weir_wheel *wheel, struct weir_wheel_entry *entry, uint64_t due_ms);
void weir_wheel_clear(struct weir_wheel *wheel,
	struct weir_wheel_entry *entry); // an entry that is not in a wheel is allowed

// Remove an entry that is due from the wheel, and return it; NULL = no entry is due.
struct weir_wheel_entry *weir_wheel_take(struct weir_wheel *wheel, uint64_t now_ms);

// Returns the time in milliseconds until the next entry can be due, at least 1; 0 = the wheel is
// empty.
uint64_t weir_wheel_wait(const struct weir_wheel *wheel, uint64_t now_ms);
