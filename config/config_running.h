// SPDX-License-Identifier: BSD-3-Clause
//
// The configuration that a running weir-dataplane started with, as a file of its run directory:
// RUN_DIR/dataplane-EPOCH.json, EPOCH being that of its segment in 16 hexadecimal digits. The file
// of the configuration may have changed since, and weir-control may have been restarted: what runs
// is in no other place.
//
// The dataplane, which holds the lock of the run directory, removes the files of its predecessors
// at its start and writes its own before control can attach. The file appears whole, by a rename.
// Only the users of both processes can read it, because it has the hash_seed: not the members of
// the group that may connect to weir-control.
//
// Threads: any. No logging.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"

// The text of such a file: the configuration without its services, which belong to control, so that
// its size does not depend on the number of backends. text: a valid configuration. Returns NULL if
// out of memory; the caller frees it.
char *weir_config_running_text(const char *text, size_t bytes);

// Write the file. user, group: its owners; -1 = unchanged. The group can read it, unless it is
// unchanged. Returns 0 or negative errno (there is no file then).
int weir_config_running_write(
	const char *run_dir, uint64_t epoch, uid_t user, gid_t group, const char *text);
// Remove all such files, also unfinished ones.
void weir_config_running_remove(const char *run_dir);

// Read the file of an epoch; 0: of the only one there is. Returns 0 and a configuration without
// services, -ENOENT (none: an earlier version, or it is not running; with epoch 0 also several),
// -EINVAL (not a regular file, or not a configuration that this version can read), or another
// negative errno.
int weir_config_running_read(const char *run_dir, uint64_t epoch, struct weir_config **ret);

// When the dataplane of an epoch started: when it wrote its file, in milliseconds since 1970. 0 =
// unknown: there is no file.
uint64_t weir_config_running_started_ms(const char *run_dir, uint64_t epoch);
