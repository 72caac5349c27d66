// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of many columns: hides columns without information and, on a narrow terminal, the least
// important ones.
#pragma once

#include "show.h"

struct weir_show_choice {
	struct weir_show_column column;
	const char *plain; // hidden when every cell has this value; NULL = never
	uint8_t spare; // hidden when the table is too wide, 1 before 2 ...; 0 = never
};

// Columns of the terminal on standard output; 0 = not a terminal.
uint32_t weir_show_width(FILE *out);

// The width of the columns that are never hidden for lack of width.
uint32_t weir_show_least_width(
	const json_t *rows, const struct weir_show_choice *choices, uint32_t count);

// Like weir_show_table, with the columns of which all rows fit into width; 0 = unlimited. rows:
// those to print, of `all`.
void weir_show_fitted(FILE *out, const json_t *all, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, const char *nothing,
	uint32_t width);

// For a file, all columns as weir_show_table; for a terminal, fitted to its width.
void weir_show_list(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing);

// Like weir_show_table, fitted to width if possible; 0 = unlimited. Names of columns hidden for
// lack of width are printed below.
void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width);
