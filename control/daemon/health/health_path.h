// SPDX-License-Identifier: BSD-3-Clause
//
// A check's connection via the data path (data_path.h): opened before its probe starts, and
// verified when it has ended: a connection that took another path is no result about the backend.
//
// Threads: that of the loop.
#pragma once

#include <stddef.h>

#include "health_private.h"

// Open the connection. Does nothing for a check that connects directly to the backend. Returns 0,
// or negative errno with one line in detail: the probe cannot start.
int weir_health_path_open(struct weir_health_check *check, char *detail, size_t bytes);

// The probe has ended with this outcome and detail: may change both. Releases the connection. Does
// nothing if there is none.
void weir_health_path_end(struct weir_health_check *check, enum weir_probe_outcome *outcome,
	char *detail, size_t bytes);

// The probe was cancelled: releases the connection.
void weir_health_path_cancel(struct weir_health_check *check);
