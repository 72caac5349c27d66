// SPDX-License-Identifier: BSD-3-Clause
//
// Trusted file: checks whether other users can change a file. The checks are for programs that
// weir-control runs, and for configuration files that name programs.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

// Returns whether users other than root, the owner and the members of root's group have permission
// to write the file.
bool weir_file_others_write(const struct stat *file);
// Returns whether only root, root's group and the effective user of this process can change the
// file.
bool weir_file_is_trusted(const struct stat *file);
