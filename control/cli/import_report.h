// SPDX-License-Identifier: BSD-3-Clause
// Prints the notes and errors of an import as text. By default, prints a few lines of notes, the
// most serious notes first. Notes that differ only in names and numbers share one line, which shows
// how many notes there are. With `all`, each note has a separate line, in the order of the source.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "import.h"

#define WEIR_IMPORT_REPORT_LINES 16 // maximum number of lines with notes without `all`

// Print the notes and errors of an import. all: print each note on a separate line. If out of
// memory, prints only the number of notes, and the errors.
void weir_import_report_print(FILE *out, const struct weir_import *import, bool all);
