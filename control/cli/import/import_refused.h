// SPDX-License-Identifier: BSD-3-Clause
//
// Leaves out of an import what the rules of the configuration refuse: a server with a loopback
// address, a header that is too long.
//
// Threads: any. Pure.
#pragma once

#include "import.h"

// errors: of the configuration that import->services were printed to. Each part that an error names
// is left out with a note, as small a part as possible: a key of a health check, the check, an
// address, a server, the service. Returns whether any part was left out.
bool weir_import_leave_out_refused(
	struct weir_import *import, const struct weir_config_errors *errors);
