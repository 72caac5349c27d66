// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the TCP statistics that agents report for backends.
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

// Prints the TCP statistics in the result of backend.show as a table, with one row for each address
// family of a backend's clients. width: columns of the terminal; 0 = unlimited.
void weir_show_tcp(FILE *out, const json_t *backends, uint32_t width);
