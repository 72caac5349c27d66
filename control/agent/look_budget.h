// SPDX-License-Identifier: BSD-3-Clause
//
// Look budget: limits looks at sockets to a tenth of a CPU, however often sockets come and go, and
// however many there are. A hundredth of a second may be used at once.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdint.h>

#define WEIR_LOOK_BUDGET_NS UINT64_C(10000000)
#define WEIR_LOOK_SHARE 10

struct weir_look_budget { // zero: nothing is spent
	uint64_t spent_ns; // of CPU time, and not yet paid back
	uint64_t paid_ns; // when it was last reduced
};

// A look used this CPU time.
void weir_look_budget_spend(struct weir_look_budget *budget, uint64_t cpu_ns);
// The time until the next look is permitted; 0 = now. now_ns: monotonic.
uint64_t weir_look_budget_rest_ms(struct weir_look_budget *budget, uint64_t now_ns);
