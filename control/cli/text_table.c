// SPDX-License-Identifier: BSD-3-Clause
#include "text_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2 // between two columns
#define WIDTH_MOST 64 // maximum width of a column; the longest name fits

struct weir_text_table {
	const struct weir_text_table_column *columns;
	uint32_t count;
	char **cell; // rows * count
	size_t rows, room; // number of rows; number of rows for which `cell` has memory
};

struct weir_text_table *weir_text_table_create(
	const struct weir_text_table_column *columns, uint32_t count) {
	struct weir_text_table *table = calloc(1, sizeof(*table));

	if (table != NULL) {
		table->columns = columns;
		table->count = count;
	}
	return table;
}

void weir_text_table_free(struct weir_text_table *table) {
	if (table == NULL) {
		return;
	}
	for (size_t i = 0; i < table->rows * table->count; i++) {
		free(table->cell[i]);
	}
	free(table->cell);
	free(table);
}

int weir_text_table_add(struct weir_text_table *table, const char *const *cells) {
	char **row;

	if (table->rows == table->room) {
		size_t room = table->room ? table->room * 2 : 16;
		char **grown = realloc(table->cell, room * table->count * sizeof(*grown));

		if (grown == NULL) {
			return -ENOMEM;
		}
		table->cell = grown;
		table->room = room;
	}
	row = &table->cell[table->rows * table->count];
	for (uint32_t i = 0; i < table->count; i++) {
		row[i] = strdup(cells[i]);
		if (row[i] == NULL) {
			while (i > 0) {
				free(row[--i]);
			}
			return -ENOMEM;
		}
	}
	table->rows++;
	return 0;
}

// Print a row. If a cell is wider than its column, the following cells move to the right, until one
// of them fits into its column again.
static void print_row(const struct weir_text_table *table, const char *const *cells,
	const size_t *width, FILE *out) {
	size_t at = 0, column = 0; // end of the printed text; start of the current column

	for (uint32_t i = 0; i < table->count; i++) {
		size_t bytes = strlen(cells[i]), start = column;

		if (table->columns[i].right && bytes < width[i]) {
			start += width[i] - bytes;
		}
		if (at > 0 && start < at + GAP) {
			start = at + GAP;
		}
		if (bytes > 0) {
			fprintf(out, "%*s%s", (int)(start - at), "", cells[i]);
			at = start + bytes;
		}
		column += width[i] + GAP;
	}
	fputc('\n', out);
}

static const char *const *row_cells(const struct weir_text_table *table, size_t row) {
	return (const char *const *)&table->cell[row * table->count];
}

void weir_text_table_print(const struct weir_text_table *table, FILE *out) {
	size_t *width = calloc(table->count, sizeof(*width));
	const char **headers = calloc(table->count, sizeof(*headers));

	if (width == NULL || headers == NULL) {
		goto free_both;
	}
	for (uint32_t i = 0; i < table->count; i++) {
		headers[i] = table->columns[i].header;
		width[i] = strlen(headers[i]);
		for (size_t row = 0; row < table->rows; row++) {
			size_t bytes = strlen(row_cells(table, row)[i]);

			bytes = bytes < WIDTH_MOST ? bytes : WIDTH_MOST;
			width[i] = bytes > width[i] ? bytes : width[i];
		}
	}
	print_row(table, headers, width, out);
	for (size_t row = 0; row < table->rows; row++) {
		print_row(table, row_cells(table, row), width, out);
	}
free_both:
	free(headers);
	free(width);
}
