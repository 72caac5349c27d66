// SPDX-License-Identifier: BSD-3-Clause
//
// Reload: the configuration in use, and its replacement. What the dataplane read when it started
// (instance, ports, workers, flow_table, icmp, fragments, segment) stays in use until the dataplane
// starts again, whatever the file has; a port's gateway_mac and sources are control's and follow
// at once.
//
// Threads: one. No logging. Reads files, and only regular ones: a reload never hangs on a pipe.
#pragma once

#include <stdbool.h>

#include "config.h"
#include "config_difference.h"

struct weir_reload;

// A configuration read and compared with the one in use.
struct weir_reload_plan {
	char *file;
	struct weir_config *config; // NULL once it was committed
	struct weir_config *as_read; // the dataplane's part of the file, when it cannot be used yet
	struct weir_difference difference;
	struct weir_config_errors errors;
};

// Read the first configuration. data_path_checks: whether checks via the data path can be made; a
// configuration, this or a later one, that asks for them when they cannot has an error.
// Returns 0, or negative errno with errors to show (always
// initialised; release with weir_config_errors_fini).
int weir_reload_create(const char *file, bool data_path_checks, struct weir_reload **ret,
	struct weir_config_errors *errors);
void weir_reload_free(struct weir_reload *reload); // NULL is fine

const struct weir_config *weir_reload_config(const struct weir_reload *reload);
const char *weir_reload_file(const struct weir_reload *reload);

// Read a file (NULL: the one in use) and compare. plan is always initialised; release it with
// weir_reload_plan_fini. Returns 0, or negative errno with errors in plan.
int weir_reload_plan(
	const struct weir_reload *reload, const char *file, struct weir_reload_plan *plan);
void weir_reload_plan_fini(struct weir_reload_plan *plan);
// Why there is no plan, in one line without an end: how many errors its file has, or that memory
// was lacking. error: what weir_reload_plan returned. Returns why.
const char *weir_reload_explain(
	const struct weir_reload_plan *plan, int error, char *why, size_t why_bytes);

// Make the plan's configuration the one in use. The former one is released: nothing may refer to
// it anymore, so apply it to the tables first.
void weir_reload_commit(struct weir_reload *reload, struct weir_reload_plan *plan);

// The dataplane started again, and read the file by itself: its part of the last file that was
// read is in use from now on. Same pointer as before, other values; returns whether any changed.
bool weir_reload_dataplane_started(struct weir_reload *reload);
