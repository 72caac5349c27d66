// SPDX-License-Identifier: BSD-3-Clause
#include "show_narrow.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CELL 512
#define GAP 2 // between two columns
#define USUAL_WIDTH 80

uint32_t weir_show_width(FILE *out) {
	struct winsize size = {0};

	if (!isatty(fileno(out))) {
		return 0;
	}
	return ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col == 0 ? USUAL_WIDTH
									 : size.ws_col;
}

struct fit {
	size_t width[WEIR_SHOW_COLUMNS_MAX];
	bool shown[WEIR_SHOW_COLUMNS_MAX];
};

static void measure(const json_t *rows, const struct weir_show_choice *choice, size_t *ret_width,
	bool *ret_shown) {
	size_t width = strlen(choice->column.header), i;
	bool shown = choice->plain == NULL;
	char cell[CELL];
	json_t *row;

	json_array_foreach (rows, i, row) {
		size_t bytes = strlen(weir_show_cell(row, &choice->column, cell, sizeof(cell)));

		width = bytes > width ? bytes : width;
		shown |= choice->plain != NULL && strcmp(cell, choice->plain) != 0;
	}
	*ret_width = width;
	*ret_shown = shown;
}

static size_t width_of(const struct fit *fit, uint32_t count) {
	size_t width = 0;

	for (uint32_t c = 0; c < count; c++) {
		width += fit->shown[c] ? fit->width[c] + GAP : 0;
	}
	return width < GAP ? 0 : width - GAP;
}

// The least important shown column; count = there is none.
static uint32_t least(
	const struct fit *fit, const struct weir_show_choice *choices, uint32_t count) {
	uint32_t best = count;

	for (uint32_t c = 0; c < count; c++) {
		if (fit->shown[c] && choices[c].spare > 0 &&
			(best == count || choices[c].spare < choices[best].spare)) {
			best = c;
		}
	}
	return best;
}

void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width) {
	struct weir_show_column columns[WEIR_SHOW_COLUMNS_MAX] = {{0}};
	const char *spared[WEIR_SHOW_COLUMNS_MAX];
	uint32_t n = 0, spared_count = 0, c;
	struct fit fit;

	for (c = 0; c < count; c++) {
		measure(rows, &choices[c], &fit.width[c], &fit.shown[c]);
	}
	while (width > 0 && width_of(&fit, count) > width &&
		(c = least(&fit, choices, count)) < count) {
		fit.shown[c] = false;
		spared[spared_count++] = choices[c].column.header;
	}
	for (c = 0; c < count; c++) {
		if (fit.shown[c]) {
			columns[n++] = choices[c].column;
		}
	}
	weir_show_table(out, rows, columns, n, nothing);
	for (c = 0; c < spared_count && json_array_size(rows) > 0; c++) {
		fprintf(out, "%s%s", c == 0 ? "too narrow for " : ", ", spared[c]);
	}
	if (c > 0) {
		fputc('\n', out);
	}
}
