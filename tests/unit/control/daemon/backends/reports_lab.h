// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of reports: states, estimates and reports with the real tables of tables_lab.h.
#pragma once

#include "reports.h"
#include "tables_lab.h"

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3; LAB_WORKERS workers
	struct weir_log log;
	struct weir_states *states;
	struct weir_estimates *estimates;
	struct weir_reports *reports;
	unsigned int changes; // number of changes reported by callback
};

// Opens the lab. Service s0 has an agent, and its accept_queue_percent is 75.
int reports_lab_setup(void **state);
int reports_lab_teardown(void **state);
uint64_t now_ms(void);
void reload(struct own *own); // apply own->config
void assert_why(struct own *own, uint16_t id, const char *why);
