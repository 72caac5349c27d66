// SPDX-License-Identifier: BSD-3-Clause
//
// Reads what `ipvsadm -S -n` prints, and scripts of ipvsadm's commands that add services and
// servers.
//
// Threads: any. Pure.
#pragma once

#include <stddef.h>

#include "import.h"

// file: its name, for messages. text need not end with a NUL.
void weir_import_ipvs(struct weir_import *import, const char *file, const char *text, size_t bytes);
