// SPDX-License-Identifier: BSD-3-Clause
//
// Reload: the configuration in use, and its replacement. The dataplane's part (instance, ports,
// workers, flow_table, icmp, fragments, segment) changes only when the dataplane restarts, and what
// waits for that is kept apart; a port's gateway_mac and sources belong to control and change at
// once.
//
// Threads: one. No logging. Reads only regular files, so that a reload cannot block on a pipe.
#pragma once

#include <stdbool.h>

#include "config.h"
#include "config_difference.h"

struct weir_reload;

// A configuration read and compared with the one in use.
struct weir_reload_plan {
	char *file;
	struct weir_config *config; // NULL once it was committed
	struct weir_config *as_read; // the dataplane's part of the file, if it is not used yet
	struct weir_difference difference;
	struct weir_config_errors errors;
};

// Read the first configuration. data_path_checks: whether checks via the data path are possible;
// otherwise a configuration with such checks has an error. Returns 0, or negative errno with errors
// (always initialised; release with weir_config_errors_fini).
int weir_reload_create(const char *file, bool data_path_checks, struct weir_reload **ret,
	struct weir_config_errors *errors);
void weir_reload_free(struct weir_reload *reload); // NULL is allowed

// Checks via the data path have turned out to be impossible. Returns 0, or -EOPNOTSUPP if the
// configuration in use has such checks.
int weir_reload_without_data_path(struct weir_reload *reload);

const struct weir_config *weir_reload_config(const struct weir_reload *reload);
// The file that the configuration in use was read from.
const char *weir_reload_file_in_use(const struct weir_reload *reload);
// The file of weir_reload_create: the default of a reload, and the one of a restart.
const char *weir_reload_file(const struct weir_reload *reload);

// Read a file (NULL: weir_reload_file) and compare. plan is always initialised; release it with
// weir_reload_plan_fini. Returns 0, or negative errno with errors in plan.
int weir_reload_plan(
	const struct weir_reload *reload, const char *file, struct weir_reload_plan *plan);
// Add to the plan's difference what waits for a restart and would not after this plan, because the
// file has the values that run. Call it after the costs, which are not those of such changes.
// Returns 0 or -ENOMEM (nothing is added).
int weir_reload_plan_taken_back(const struct weir_reload *reload, struct weir_reload_plan *plan);
void weir_reload_plan_fini(struct weir_reload_plan *plan);
// Why there is no plan, in one line without a newline: the file with the number of errors and the
// line of the first one, or why it cannot be read. error: the result of weir_reload_plan. user: who
// reads it. Returns why.
const char *weir_reload_explain(const struct weir_reload_plan *plan, int error, const char *user,
	char *why, size_t why_bytes);

// Make the plan's configuration the one in use. Releases the previous one, so apply the new one to
// the tables first.
void weir_reload_commit(struct weir_reload *reload, struct weir_reload_plan *plan);

// A dataplane was attached that has started since. runs: the configuration that it started with
// (config_running.h); NULL: unknown, then the dataplane's part of the last file read is in use now.
// The pointer to the configuration stays, its values change. Returns 0 or -ENOMEM.
int weir_reload_dataplane_started(struct weir_reload *reload, const struct weir_config *runs);

// The same with what it wrote into the run directory. restarted: this process has served another
// dataplane before; otherwise, if what runs is unknown, nothing changes, because it may be any.
// *ret_unread: why it is unknown: negative errno, -ENOENT for an earlier version; 0 = it is known.
int weir_reload_take_running(struct weir_reload *reload, const char *run_dir, uint64_t epoch,
	bool restarted, int *ret_unread);
// Whether a part of the last file read waits for a restart of the dataplane.
bool weir_reload_waits(const struct weir_reload *reload);
// The changes of the last file read that wait for a restart of the dataplane; release with
// weir_difference_fini. Returns 0 or -ENOMEM.
int weir_reload_waiting(const struct weir_reload *reload, struct weir_difference *ret);
