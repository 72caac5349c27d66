// SPDX-License-Identifier: BSD-3-Clause
//
// Builds the data of the page as a JSON object.
//
// Threads: one, or under a lock; the inputs are read only.
#pragma once

#include "families.h"
#include "history.h"
#include "text.h"

#define WEIR_STATUS_EVENTS 200 // maximum number of events of each kind; the newest are included

struct weir_status {
	struct weir_figures figures;
	const struct weir_history *history;
	const json_t *events; // result of health.history, or NULL
	const json_t *steals; // result of flow.steals, or NULL
	const json_t *audit; // result of audit.show, or NULL
	const char *why; // why weir-control did not reply; "" = it replied
};

void weir_status_write(struct weir_text *text, const struct weir_status *status);
