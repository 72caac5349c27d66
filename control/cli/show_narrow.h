// SPDX-License-Identifier: BSD-3-Clause
//
// Prints tables with many columns. Hides columns without information and, on a narrow terminal,
// less important columns.
#pragma once

#include "show.h"

struct weir_show_choice {
	struct weir_show_column column;
	const char *plain; // hide the column if every cell has this value; NULL = never
	// If the table is too wide, the columns with the lowest value of spare are hidden first.
	// Columns with spare 0 are never hidden because of the width.
	uint8_t spare;
};

// Returns the number of columns of the terminal that `out` writes to, or 0 if `out` is not a
// terminal.
uint32_t weir_show_width(FILE *out);

// Returns the minimum width of a table, in which only columns with spare 0 are shown.
uint32_t weir_show_least_width(
	const json_t *rows, const struct weir_show_choice *choices, uint32_t count);

// Print rows as a table (weir_show_table). all: all rows of the list; rows: the rows to print.
// Chooses columns with which every row in `all` fits into width, if possible, so that the columns
// do not change while scrolling. width: 0 = unlimited.
void weir_show_fitted(FILE *out, const json_t *all, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, const char *nothing,
	uint32_t width);

// Print a list. If `out` is a terminal, chooses columns that fit into the width of the terminal. If
// not, prints all columns.
void weir_show_list(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing);

// Print a table (weir_show_table), but hide columns so that the table fits into width, if possible.
// width: 0 = unlimited. Below the table, prints the names of the columns that are hidden because of
// the width.
void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width);
