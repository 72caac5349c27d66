// SPDX-License-Identifier: BSD-3-Clause
#include "look_budget.h"

void weir_look_budget_spend(struct weir_look_budget *budget, uint64_t cpu_ns) {
	budget->spent_ns += cpu_ns;
}

uint64_t weir_look_budget_rest_ms(struct weir_look_budget *budget, uint64_t now_ns) {
	uint64_t paid_ns = (now_ns - budget->paid_ns) / WEIR_LOOK_SHARE;

	budget->spent_ns = budget->spent_ns > paid_ns ? budget->spent_ns - paid_ns : 0;
	budget->paid_ns = now_ns;
	if (budget->spent_ns < WEIR_LOOK_BUDGET_NS) {
		return 0;
	}
	return (budget->spent_ns - WEIR_LOOK_BUDGET_NS) * WEIR_LOOK_SHARE / 1000000 + 1;
}
