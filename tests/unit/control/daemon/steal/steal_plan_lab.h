// SPDX-License-Identifier: BSD-3-Clause
//
// The plan of one service, in the lab of flow steals, with times set by the test.
#pragma once

#include "flow_steals_lab.h"
#include "steal_service.h"

#define BACKENDS 12u
#define SYN_SEEN_MS 5000u

struct plan {
	struct steal_service service;
	struct weir_flow_scan scan;
	struct steal_planned planned[WEIR_FLOW_STEALS_AT_ONCE];
	uint16_t victim[WEIR_WAITING_BACKENDS];
	uint32_t victims;
};

// The lab of the rounds, with more backends: the first `full` have a full queue.
void set_up_plan(struct own *own, struct plan *plan, uint32_t full, double limit);
void look(struct own *own, struct plan *plan, uint64_t at_ms);
void list(struct plan *plan, uint16_t backend, uint16_t port);
// Find victims, list `flows` flows of each, and plan at this time. Returns the number of requests.
uint32_t plan_round(struct own *own, struct plan *plan, uint32_t flows, uint64_t at_ms);
uint32_t planned_by(const struct plan *plan, uint32_t count, uint16_t backend, bool is_thief);
void end_all(
	struct plan *plan, uint32_t count, enum weir_flow_steal_outcome outcome, uint64_t at_ms);
