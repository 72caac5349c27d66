// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that write parts of metric lines, and functions that read values from rows of the reply
// to metrics.show.
//
// Threads: a text is used by one thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "family_list.h"
#include "text.h"

// Write the header lines of a family: # HELP, # TYPE and, with OpenMetrics and if the family has a
// unit, # UNIT.
void weir_family_head(struct weir_text *text, const struct weir_family *family, bool openmetrics);
// Write the name of a series, with _total for a counter.
void weir_family_name(struct weir_text *text, const struct weir_family *family);
// Write a label as name="value". first: whether this is the first label of the series; other labels
// follow a comma.
void weir_family_label(struct weir_text *text, const char *name, const char *value, bool first);
// Writes a boolean as 0 or 1, or a number multiplied by scale. scale: 0 means 1.
void weir_family_number(struct weir_text *text, const json_t *value, double scale);

// Returns the index of the column `name` in rows of this kind, or -1 if there is no such column.
int weir_column(const json_t *control, const char *kind, const char *name);
bool weir_row_is(const json_t *row, const char *kind);
