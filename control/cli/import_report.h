// SPDX-License-Identifier: BSD-3-Clause
//
// The notes and errors of an import as text. Notes that differ only in names and numbers are one
// line with their count, the most serious first, a screen at most; or each note is a line of its
// own, in the order of the source.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "import.h"

#define WEIR_IMPORT_REPORT_LINES 16 // of notes, unless all are printed

// Prints nothing if out of memory.
void weir_import_report_print(FILE *out, const struct weir_import *import, bool all);
