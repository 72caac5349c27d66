// SPDX-License-Identifier: BSD-3-Clause
//
// A lab for the plan of one service. It uses the lab of flow steals, and the test sets all times.
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

// Opens the lab with more backends. The queues of the first `full` backends are full.
void set_up_plan(struct own *own, struct plan *plan, uint32_t full, double limit);
void look(struct own *own, struct plan *plan, uint64_t at_ms);
void list(struct plan *plan, uint16_t backend, uint16_t port);
// Runs one round: finds victims, lists `flows` flows of each victim, and plans at this time.
// Returns the number of planned requests.
uint32_t plan_round(struct own *own, struct plan *plan, uint32_t flows, uint64_t at_ms);
uint32_t planned_by(const struct plan *plan, uint32_t count, uint16_t backend, bool is_thief);
void end_all(
	struct plan *plan, uint32_t count, enum weir_flow_steal_outcome outcome, uint64_t at_ms);
