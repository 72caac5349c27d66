// SPDX-License-Identifier: BSD-3-Clause
//
// Run directory: where the socket for the control process is. Made when it is missing, 0770, for
// root and the group that both processes share.
//
// Threads: main.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define WEIR_GROUP_DEFAULT "weir"

// The group by name or number; NULL: weir where there is such a group, else (gid_t)-1.
// Returns 0 or -ENOENT with one line in why.
int weir_run_dir_group(const char *name, gid_t *ret, char *why, size_t why_bytes);
// Make the directory and its parents. One that exists is left as it is.
// Returns 0 or negative errno with one line in why.
int weir_run_dir_make(const char *path, gid_t gid, char *why, size_t why_bytes);
