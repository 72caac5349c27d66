// SPDX-License-Identifier: BSD-3-Clause
//
// Tables for people: columns line up, numbers to the right, no trailing spaces.
//
// Threads: one table is used by one thread. Cells are copied.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct weir_table_column {
	const char *header;
	bool right; // numbers
};

struct weir_table;

// columns are borrowed and must outlive the table. Returns NULL without memory.
struct weir_table *weir_table_create(const struct weir_table_column *columns, uint32_t count);
void weir_table_free(struct weir_table *table); // NULL is fine

// Add a row of `count` cells. Returns 0 or -ENOMEM.
int weir_table_add(struct weir_table *table, const char *const *cells);

void weir_table_print(const struct weir_table *table, FILE *out);

// Text that is safe on a terminal: what is not printable ASCII becomes \xNN, a backslash \\.
// Cut with "..." when the buffer is too small. Returns buffer.
const char *weir_terminal_text(const char *text, char *buffer, size_t bytes);
