// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl affinity: shows the number of affinity entries of services, or the entry of a client, and
// deletes entries.
#pragma once

#include "command.h"

// Builds the request of affinity show: affinity.show, or affinity.lookup for a client.
int weir_affinity_build_show(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
int weir_affinity_build_clear(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);

// Print the reply to affinity.show or affinity.lookup.
void weir_affinity_show(const struct weir_cli *cli, json_t *result);
// Print the number of deleted entries.
void weir_affinity_show_cleared(const struct weir_cli *cli, json_t *result);
