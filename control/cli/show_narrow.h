// SPDX-License-Identifier: BSD-3-Clause
//
// Tables of many columns: hides columns without information and, on a narrow terminal, less
// important columns.
#pragma once

#include "show.h"

struct weir_show_choice {
	struct weir_show_column column;
	const char *plain; // hide the column if every cell has this value; NULL = never
	uint8_t spare; // order of hiding columns of a table that is too wide, from 1; 0 = never
};

// The number of columns of the terminal on standard output; 0 = not a terminal.
uint32_t weir_show_width(FILE *out);

// The width of the columns that are never hidden for lack of width.
uint32_t weir_show_least_width(
	const json_t *rows, const struct weir_show_choice *choices, uint32_t count);

// Like weir_show_table, with columns chosen so that all rows of `all` fit into width; 0 =
// unlimited. rows: the rows of `all` to print.
void weir_show_fitted(FILE *out, const json_t *all, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, const char *nothing,
	uint32_t width);

// Print a list: into a file, all columns like weir_show_table; on a terminal, fitted to its width.
void weir_show_list(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing);

// Like weir_show_table, fitted to width if possible; 0 = unlimited. Names of columns hidden for
// lack of width are printed below.
void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width);
