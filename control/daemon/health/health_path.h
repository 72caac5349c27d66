// SPDX-License-Identifier: BSD-3-Clause
//
// The way of a check's connection along the data path (data_path.h): opened before its probe
// begins, and judged when it has ended, as a connection that went another way says nothing of the
// backend.
//
// Threads: that of the loop.
#pragma once

#include <stddef.h>

#include "health_private.h"

// Nothing for a check that goes straight to the backend.
// Returns 0, or negative errno with one line in detail: the probe cannot begin.
int weir_health_path_open(struct weir_health_check *check, char *detail, size_t bytes);

// The probe has ended so: may change both. Releases the connection. Nothing when there is none.
void weir_health_path_end(struct weir_health_check *check, enum weir_probe_outcome *outcome,
	char *detail, size_t bytes);

// The probe was cancelled.
void weir_health_path_cancel(struct weir_health_check *check);
