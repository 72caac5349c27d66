// SPDX-License-Identifier: BSD-3-Clause
//
// TCP figures of backends, which their agents report.
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

// Print the figures in the objects of backend.show as a table, a row for each family of clients.
// width: of the terminal, 0 = unlimited.
void weir_show_tcp(FILE *out, const json_t *backends, uint32_t width);
