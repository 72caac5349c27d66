// SPDX-License-Identifier: BSD-3-Clause
//
// Text tables: aligned columns, numbers right-aligned, no trailing spaces. A column is at most 64
// bytes wide; longer cells do not widen the column.
//
// Threads: a table is used by one thread. Cells are copied.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct weir_text_table_column {
	const char *header;
	bool right; // right-aligned, for numbers
};

struct weir_text_table;

// Create a table. columns: borrowed, must outlive the table. Returns NULL if out of memory.
struct weir_text_table *weir_text_table_create(
	const struct weir_text_table_column *columns, uint32_t count);
void weir_text_table_free(struct weir_text_table *table); // NULL is allowed

// Add a row of `count` cells. Returns 0 or -ENOMEM.
int weir_text_table_add(struct weir_text_table *table, const char *const *cells);

void weir_text_table_print(const struct weir_text_table *table, FILE *out);
