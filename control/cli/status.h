// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl status: shows whether this instance should get traffic, for monitoring and for scripts
// that announce routes. Exits within WEIR_STATUS_LIMIT_MS even if processes hang: if weir-control
// does not reply, weirctl reads the heartbeats and tables of weir-dataplane (glance.h).
#pragma once

#include "command.h"

#define WEIR_STATUS_LIMIT_MS 2000

// Returns an object: {level, summary, reasons, control, dataplane, not_published, services,
// backends, eligible, unchecked, not_eligible, unreachable, panic, drained}, as in
// docs/reference/cli.md. Unknown values are null. The caller owns the object. NULL = out of memory.
json_t *weir_status_get(const struct weir_cli_options *options);

// Print the status. Returns the exit status: 0 ok, 1 warning, 2 critical, 3 unknown.
int weir_status_run(struct weir_cli *cli, const struct weir_cli_command *command);
