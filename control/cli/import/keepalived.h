// SPDX-License-Identifier: BSD-3-Clause
//
// Reads the virtual servers of a keepalived.conf, and the settings in global_defs that have a
// counterpart. Adds a note about each other block or statement whose effect the import loses.
//
// Threads: any; no shared state. The caller reads the files.
#pragma once

#include "keepalived_tree.h"

void weir_import_keepalived(struct weir_import *import, const struct weir_keepalived_files *files,
	const char *file, const char *text, size_t bytes);
