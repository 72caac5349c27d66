// SPDX-License-Identifier: BSD-3-Clause
//
// Reads the output of `ipvsadm -S -n`, and scripts of ipvsadm commands that add services and
// servers.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>

#include "import.h"

// file: the name of the file, for messages. text needs no NUL at the end.
void weir_import_ipvs(struct weir_import *import, const char *file, const char *text, size_t bytes);
