// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of many columns: those that say nothing are left out, and on a terminal that is too narrow
// those that can be spared best.
#pragma once

#include "show.h"

struct weir_show_choice {
	struct weir_show_column column;
	const char *plain; // left out when every cell says this; NULL = never for that
	uint8_t spare; // left out when the table is too wide, 1 before 2 ...; 0 = never
};

// Columns of the terminal that this is printed on; 0 = it is none.
uint32_t weir_show_width(FILE *out);

// As weir_show_table, no wider than width if that can be had; 0 = as wide as it is. What was left
// out for its width is named below.
void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width);
