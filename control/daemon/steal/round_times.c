// SPDX-License-Identifier: BSD-3-Clause
#include "round_times.h"

#define SHARE 1000u
#define BURST_NS 1000000u
#define NS_PER_MS 1000000u

void weir_round_times_init(struct weir_round_times *times) {
	*times = (struct weir_round_times){.budget = {.share = SHARE, .burst_ns = BURST_NS}};
}

uint64_t weir_round_times_ended(struct weir_round_times *times, uint64_t due_ms, uint64_t now_ms) {
	uint64_t wait_ms, rest_ms, regular_ms;

	times->regular_ms = times->early ? times->regular_ms : now_ms;
	regular_ms = times->regular_ms + WEIR_ROUND_MS;
	regular_ms = regular_ms > now_ms ? regular_ms - now_ms : 1;
	times->early = false;
	if (due_ms == 0) {
		return regular_ms;
	}
	wait_ms = due_ms > now_ms + WEIR_ROUND_SOONEST_MS ? due_ms - now_ms : WEIR_ROUND_SOONEST_MS;
	rest_ms = weir_look_budget_rest_ms(&times->budget, now_ms * NS_PER_MS);
	wait_ms = rest_ms > wait_ms ? rest_ms : wait_ms;
	times->early = wait_ms < regular_ms;
	return times->early ? wait_ms : regular_ms;
}

bool weir_round_times_permit(struct weir_round_times *times, uint64_t now_ms) {
	return weir_look_budget_rest_ms(&times->budget, now_ms * NS_PER_MS) == 0;
}

void weir_round_times_spend(struct weir_round_times *times, uint64_t cpu_ns) {
	if (times->early) {
		weir_look_budget_spend(&times->budget, cpu_ns);
	}
}
