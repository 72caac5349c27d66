// SPDX-License-Identifier: BSD-3-Clause
//
// Round times: when the next round of flow steals begins. Regular rounds begin WEIR_ROUND_MS after
// the end of the last one. Early rounds begin when there is a reason, as a report of a full accept
// queue, or a connection that has waited long enough; they use a thousandth of a CPU at most, a
// millisecond in a second, however many reasons there are.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "look_budget.h"

#define WEIR_ROUND_MS 100u
#define WEIR_ROUND_SOONEST_MS 5u // until an early round

struct weir_round_times {
	struct weir_look_budget budget; // of early rounds
	uint64_t regular_ms; // end of the last regular round
	bool early; // the next round, or the one in progress
};

void weir_round_times_init(struct weir_round_times *times);
// A round has ended, or was not necessary. due_ms: when there is a reason for the next one; 0 = no
// reason is known. Returns the time until it begins.
uint64_t weir_round_times_ended(struct weir_round_times *times, uint64_t due_ms, uint64_t now_ms);
// Whether an early round may begin now.
bool weir_round_times_permit(struct weir_round_times *times, uint64_t now_ms);
// A part of a round took this CPU time.
void weir_round_times_spend(struct weir_round_times *times, uint64_t cpu_ns);
