// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl affinity: shows how many clients of services with affinity are remembered, and the
// backend of a client, and forgets clients.
#pragma once

#include "command.h"

// Builds the request of affinity show: affinity.show, or affinity.lookup for a client.
int weir_affinity_build_show(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
int weir_affinity_build_clear(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);

// Print the reply to affinity.show or affinity.lookup.
void weir_affinity_show(const struct weir_cli *cli, json_t *result);
// Print how many clients were forgotten.
void weir_affinity_show_cleared(const struct weir_cli *cli, json_t *result);
