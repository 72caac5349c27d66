// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend drain, host drain, service drain, vip drain: starts the drain, and waits for its
// end if requested. weir-control runs the drain, which continues when weirctl exits.
#pragma once

#include "command.h"

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command);
// Print the state of a host after its drain has begun, or ended.
void weir_drain_show_host(const struct weir_cli *cli, json_t *result);
// The same for the binds of a service, or of a VIP.
void weir_drain_show_binds(const struct weir_cli *cli, json_t *result);
