// SPDX-License-Identifier: BSD-3-Clause
//
// The configuration that a running weir-dataplane started with, in a file in its run directory:
// RUN_DIR/dataplane-EPOCH.json, where EPOCH is the epoch of its segment in 16 hexadecimal digits.
// Only this file has the running configuration: the configuration file may have changed since, and
// weir-control may have been restarted.
//
// The dataplane holds the lock of the run directory. At its start, the dataplane removes the files
// of earlier processes. Then, before weir-control can attach, the dataplane writes its own file
// under a temporary name and renames the file. Only the users of weir-dataplane and weir-control,
// and root's group, can read the file, because it contains the hash_seed. If weir-dataplane is not
// started as root, only its user can read the file.
//
// Threads: any. No logging.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"

// Makes the text of the file: the configuration without its services. Only weir-control uses
// services; without them, the size does not depend on the number of backends. text: a valid
// configuration. Returns NULL if out of memory. The caller frees the text.
char *weir_config_running_text(const char *text, size_t bytes);

// Write the file. user, group: owners of the file; -1 = unchanged. The group can read the file,
// unless group is -1. Returns 0 or negative errno (the file does not exist then).
int weir_config_running_write(
	const char *run_dir, uint64_t epoch, uid_t user, gid_t group, const char *text);
// Remove all files that weir_config_running_write has written, including unfinished files.
void weir_config_running_remove(const char *run_dir);

// Read the file of an epoch. epoch 0: the only file in the run directory. *ret: a configuration
// without services. Returns 0, -ENOENT (no file: weir-dataplane is not running, or is an earlier
// version), -EINVAL (not a regular file, or not a configuration that this version can read), or
// another negative errno. With epoch 0, also returns -ENOENT if there are several files.
int weir_config_running_read(const char *run_dir, uint64_t epoch, struct weir_config **ret);

// Returns when the dataplane of an epoch was started (when it wrote its file), in milliseconds
// since 1970. 0 = unknown: there is no file.
uint64_t weir_config_running_started_ms(const char *run_dir, uint64_t epoch);
