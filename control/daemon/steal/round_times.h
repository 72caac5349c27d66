// SPDX-License-Identifier: BSD-3-Clause
//
// Round times: determines when the next round of flow steals begins. Regular rounds begin
// WEIR_ROUND_MS after the end of the last regular round. Early rounds begin for a reason: a report
// of a full accept queue, or a connection that has waited long enough. Early rounds use at most a
// thousandth of a CPU (a millisecond per second), regardless of the number of reasons.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "look_budget.h"

#define WEIR_ROUND_MS 100u
// Minimum time from the end of a round to an early round for waiting connections.
#define WEIR_ROUND_SOONEST_MS 5u

struct weir_round_times {
	struct weir_look_budget budget; // CPU time of early rounds
	uint64_t regular_ms; // end of the last regular round
	bool early; // the next round, or the round in progress, is early
};

void weir_round_times_init(struct weir_round_times *times);
// Call this function when a round has ended, or was not necessary. due_ms: the next time at which
// there will be a reason for an early round; 0 = no reason is known. Returns the time in
// milliseconds until the next round.
uint64_t weir_round_times_ended(struct weir_round_times *times, uint64_t due_ms, uint64_t now_ms);
// Returns whether an early round may begin now.
bool weir_round_times_permit(struct weir_round_times *times, uint64_t now_ms);
// Records CPU time that the round has used, if the round is early.
void weir_round_times_spend(struct weir_round_times *times, uint64_t cpu_ns);
