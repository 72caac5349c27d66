// SPDX-License-Identifier: BSD-3-Clause
#include "wheel.h"

#include <stddef.h>

static uint32_t slot_of(uint64_t tick) {
	return (uint32_t)(tick % WEIR_WHEEL_SLOTS);
}

void weir_wheel_init(struct weir_wheel *wheel, uint64_t now_ms) {
	*wheel = (struct weir_wheel){.tick = now_ms / WEIR_WHEEL_TICK_MS + 1};
}

void weir_wheel_clear(struct weir_wheel *wheel, struct weir_wheel_entry *entry) {
	uint32_t slot = slot_of(entry->tick);

	if (entry->tick == 0) {
		return;
	}
	LIST_REMOVE(entry, link);
	entry->tick = 0;
	if (LIST_EMPTY(&wheel->slot[slot])) {
		wheel->used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
	}
}

void weir_wheel_set(struct weir_wheel *wheel, struct weir_wheel_entry *entry, uint64_t due_ms) {
	uint64_t tick = (due_ms + WEIR_WHEEL_TICK_MS - 1) / WEIR_WHEEL_TICK_MS;
	uint32_t slot;

	weir_wheel_clear(wheel, entry);
	entry->tick = tick > wheel->tick ? tick : wheel->tick;
	slot = slot_of(entry->tick);
	LIST_INSERT_HEAD(&wheel->slot[slot], entry, link);
	wheel->used[slot / 64] |= UINT64_C(1) << slot % 64;
}

struct weir_wheel_entry *weir_wheel_take(struct weir_wheel *wheel, uint64_t now_ms) {
	uint64_t now = now_ms / WEIR_WHEEL_TICK_MS;
	struct weir_wheel_entry *entry;

	if (now > wheel->tick + WEIR_WHEEL_SLOTS) {
		wheel->tick = now - WEIR_WHEEL_SLOTS; // after a long pause, visit every slot once
	}
	for (; wheel->tick <= now; wheel->tick++) {
		LIST_FOREACH(entry, &wheel->slot[slot_of(wheel->tick)], link) {
			if (entry->tick <= now) {
				weir_wheel_clear(wheel, entry);
				return entry;
			}
		}
	}
	return NULL;
}

// Returns the number of slots from `from` to the next used slot; the search wraps around at the
// end of the wheel. Returns WEIR_WHEEL_SLOTS if no slot is used.
static uint32_t next_used(const struct weir_wheel *wheel, uint32_t from) {
	for (uint32_t step = 0; step < WEIR_WHEEL_SLOTS;) {
		uint32_t slot = slot_of(from + step);
		uint64_t bits = wheel->used[slot / 64] >> slot % 64;

		if (bits != 0) {
			return step + (uint32_t)__builtin_ctzll(bits);
		}
		step += 64 - slot % 64;
	}
	return WEIR_WHEEL_SLOTS;
}

uint64_t weir_wheel_wait(const struct weir_wheel *wheel, uint64_t now_ms) {
	uint32_t distance = next_used(wheel, slot_of(wheel->tick));
	uint64_t due_ms = (wheel->tick + distance) * WEIR_WHEEL_TICK_MS;

	if (distance == WEIR_WHEEL_SLOTS) {
		return 0;
	}
	return due_ms > now_ms ? due_ms - now_ms : 1;
}
