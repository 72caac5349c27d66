// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl status: shows whether this instance should get traffic, for monitoring and for scripts
// that announce routes. Waits for weir-control for at most WEIR_STATUS_LIMIT_MS (less with a
// shorter --timeout). If weir-control does not reply, weirctl reads the heartbeats and tables of
// weir-dataplane (glance.h), without waiting, so that it ends within two seconds.
#pragma once

#include "command.h"

#define WEIR_STATUS_LIMIT_MS 1800

// Returns an object with the members that docs/reference/cli.md lists. Unknown values are null. The
// caller owns the object. NULL = out of memory.
json_t *weir_status_get(const struct weir_cli_options *options);

// Print the status. Returns the exit status: 0 ok, 1 warning, 2 critical, 3 unknown.
int weir_status_run(struct weir_cli *cli, const struct weir_cli_command *command);
