// SPDX-License-Identifier: BSD-3-Clause
//
// Leaves out the parts of an import that are invalid in a configuration of Weir, such as a server
// with a loopback address, or an overlong header.
//
// Threads: any; no shared state.
#pragma once

#include "import.h"

// Leave out the parts of import->services that the errors name, and add a note for each. errors:
// from weir_config_parse, for the printed configuration. Leaves out the smallest possible part: a
// key of a health check, the check, an address, a server, or the service. Returns whether any part
// was left out.
bool weir_import_leave_out_refused(
	struct weir_import *import, const struct weir_config_errors *errors);
// Removes a key of a health check. service: the check of the service, if `check` is the check of
// a backend; NULL = none. If both checks have the same type, a key that `check` lacks has the value
// of the service's check, so the key gets its default instead. Returns 0, or -1 if out of memory.
int weir_import_clear(json_t *check, const json_t *service, const char *key);
