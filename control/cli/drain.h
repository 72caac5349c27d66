// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend drain, host drain, service drain, vip drain: starts the drain and, with --wait,
// waits until it ends. weir-control runs the drain, which continues when weirctl exits.
#pragma once

#include "command.h"

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command);
// Print the state of a host after host drain, host maintenance or host ready.
void weir_drain_show_host(const struct weir_cli *cli, json_t *result);
// Print the state of the binds of a service, or of a VIP, after their drain was started or ended.
void weir_drain_show_binds(const struct weir_cli *cli, json_t *result);
