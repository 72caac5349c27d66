// SPDX-License-Identifier: BSD-3-Clause
//
// Reload: replaces the configuration in use. The settings of the dataplane (in instance, ports,
// workers, flow_table, icmp, fragments and segment) change only when the dataplane restarts; until
// then, changes of these settings are stored separately. Some settings in these sections are used
// only by weir-control, and change immediately: client_id, clients, member and members of the
// instance, gateway_mac and source addresses of a port, and workers.steal.
//
// Threads: one. No logging. A reload reads only regular files, so that it cannot block on a pipe.
#pragma once

#include <stdbool.h>

#include "config.h"
#include "config_difference.h"
#include "daemon_options.h"

// Path of the stored configuration in the run directory, see weir_reload_store.
#define WEIR_RELOAD_STORED WEIR_CONTROL_DIR "/applied.json"

struct weir_reload;

// A configuration that was read from a file, and its difference from the configuration in use.
struct weir_reload_plan {
	char *file;
	struct weir_config *config; // NULL after the plan was committed
	char *text; // text of the file; NULL = it is the text of the stored configuration
	// Settings of the dataplane in the file; NULL = they are in use already.
	struct weir_config *as_read;
	struct weir_difference difference; // from the configuration in use
	struct weir_config_errors errors;
};

// Reads the configuration at startup. file: may be relative to the working directory.
// data_path_checks: whether health checks via the data path are possible; if not, a configuration
// with such checks is rejected. Returns 0, or negative errno with the reasons in errors. There are
// no reasons if memory ran out, or if the working directory cannot be read. errors is always
// initialized; release it with weir_config_errors_fini.
int weir_reload_create(const char *file, bool data_path_checks, struct weir_reload **ret,
	struct weir_config_errors *errors);
void weir_reload_free(struct weir_reload *reload); // NULL is allowed

// Call this function when health checks via the data path turn out to be impossible. Returns 0, or
// -EOPNOTSUPP if the configuration in use has such checks.
int weir_reload_without_data_path(struct weir_reload *reload);

const struct weir_config *weir_reload_config(const struct weir_reload *reload);
// Returns the file from which the configuration in use was read, or, if the stored configuration is
// in use, the file that it replaces.
const char *weir_reload_file_in_use(const struct weir_reload *reload);
// Returns the absolute path of the file that was passed to weir_reload_create. weir-control reads
// this file when it restarts, and in a reload without a file name.
const char *weir_reload_file(const struct weir_reload *reload);

// Read a file and compare it with the configuration in use. file: NULL = the file of
// weir_reload_file. Another file must not contain a new program if users other than root, root's
// group and the user of this process can change the file: permission to reload does not include the
// choice of programs. plan is always initialized; release it with weir_reload_plan_fini. Returns 0,
// or negative errno with errors in plan.
int weir_reload_plan(
	const struct weir_reload *reload, const char *file, struct weir_reload_plan *plan);
// Adds the cancelled changes to the plan's difference. These are changes that were waiting for a
// restart, but that the file of the plan reverts to the running values. Cancelled changes have no
// costs, so call this function after the costs were computed. Returns 0 or -ENOMEM (nothing is
// added).
int weir_reload_plan_taken_back(const struct weir_reload *reload, struct weir_reload_plan *plan);
void weir_reload_plan_fini(struct weir_reload_plan *plan);
// Writes one line, without a newline, about why weir_reload_plan has failed: the number of errors
// in the file and the line of the first error, or why the file cannot be read. error: the result of
// weir_reload_plan. user: name of the user of this process. Returns why.
const char *weir_reload_explain(const struct weir_reload_plan *plan, int error, const char *user,
	char *why, size_t why_bytes);

// Makes the configuration of the plan the configuration in use. Releases the previous
// configuration, so the new configuration must have been applied to the tables before.
void weir_reload_commit(struct weir_reload *reload, struct weir_reload_plan *plan);

// Stores the text of the configuration in use in WEIR_RELOAD_STORED, unless it is stored
// already. Only the user of this process can read the file. Call this function when the
// configuration was applied to the tables of a dataplane. Returns 0 or negative errno: the previous
// file stays, and the next call tries again.
int weir_reload_store(struct weir_reload *reload, const char *run_dir);
// Plans to use the stored configuration, with the settings of the running dataplane. The plan has
// no differences. plan is always initialized; release it with weir_reload_plan_fini. Returns 0,
// -ENOENT (no configuration is stored), -EINVAL (this version cannot use the stored
// configuration), or another negative errno.
int weir_reload_plan_stored(
	const struct weir_reload *reload, const char *run_dir, struct weir_reload_plan *plan);

// Call this function when a newly started dataplane was attached. runs: the configuration with
// which the dataplane was started (config_running.h); NULL = unknown: the dataplane is then assumed
// to have started with the file that was read last. The pointer to the configuration in use stays
// valid, but its values change. Returns 0 or -ENOMEM.
int weir_reload_dataplane_started(struct weir_reload *reload, const struct weir_config *runs);

// Reads the running configuration, which the dataplane has written into the run directory, and
// passes it to weir_reload_dataplane_started. epoch: epoch of the dataplane. restarted: whether
// this process was attached to another dataplane before. If the running configuration cannot be
// read, and restarted is false, nothing changes. *ret_unread: 0 if the running configuration was
// read, otherwise the reason as negative errno; -ENOENT = the dataplane has an earlier version that
// does not write this file. Returns 0 or -ENOMEM.
int weir_reload_take_running(struct weir_reload *reload, const char *run_dir, uint64_t epoch,
	bool restarted, int *ret_unread);
// Makes the settings of the dataplane in a plan those that wait for a restart of the dataplane. The
// rest of the configuration in use does not change.
void weir_reload_take_waiting(struct weir_reload *reload, struct weir_reload_plan *plan);
// Returns whether the file that was read last has changes that wait for a restart of the dataplane.
bool weir_reload_waits(const struct weir_reload *reload);
// Lists the changes that wait for a restart of the dataplane, from the file that was read last.
// Release the list with weir_difference_fini. Returns 0, or -ENOMEM with an empty list.
int weir_reload_waiting(const struct weir_reload *reload, struct weir_difference *ret);
