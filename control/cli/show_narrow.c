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

// Returns the index of the shown column that is hidden first: the column with the lowest `spare`
// above 0. Returns count if no shown column may be hidden.
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

// Choose the columns of a table: hide columns until the remaining columns fit into width (0 =
// unlimited). ret_spared: gets the headers of the columns that were hidden because of the width.
// Returns their number.
static uint32_t fit_columns(struct fit *fit, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, uint32_t width,
	const char *ret_spared[WEIR_SHOW_COLUMNS_MAX]) {
	uint32_t spared = 0, c;

	for (c = 0; c < count; c++) {
		measure(rows, &choices[c], &fit->width[c], &fit->shown[c]);
	}
	while (width > 0 && width_of(fit, count) > width &&
		(c = least(fit, choices, count)) < count) {
		fit->shown[c] = false;
		ret_spared[spared++] = choices[c].column.header;
	}
	return spared;
}

uint32_t weir_show_least_width(
	const json_t *rows, const struct weir_show_choice *choices, uint32_t count) {
	const char *spared[WEIR_SHOW_COLUMNS_MAX];
	struct fit fit;

	fit_columns(&fit, rows, choices, count, 1, spared);
	return (uint32_t)width_of(&fit, count);
}

static uint32_t print_fitted(FILE *out, const json_t *measured, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, const char *nothing, uint32_t width,
	const char *ret_spared[WEIR_SHOW_COLUMNS_MAX]) {
	struct weir_show_column columns[WEIR_SHOW_COLUMNS_MAX] = {{0}};
	struct fit fit;
	uint32_t spared = fit_columns(&fit, measured, choices, count, width, ret_spared), n = 0;

	for (uint32_t c = 0; c < count; c++) {
		if (fit.shown[c]) {
			columns[n++] = choices[c].column;
		}
	}
	weir_show_table(out, rows, columns, n, nothing);
	return spared;
}

void weir_show_fitted(FILE *out, const json_t *all, const json_t *rows,
	const struct weir_show_choice *choices, uint32_t count, const char *nothing,
	uint32_t width) {
	const char *spared[WEIR_SHOW_COLUMNS_MAX];

	print_fitted(out, all, rows, choices, count, nothing, width, spared);
}

void weir_show_narrow(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing, uint32_t width) {
	const char *spared[WEIR_SHOW_COLUMNS_MAX];
	uint32_t n = print_fitted(out, rows, rows, choices, count, nothing, width, spared), c;
	size_t used = 0;

	for (c = 0; c < n && json_array_size(rows) > 0; c++) {
		const char *before = c == 0 ? "too narrow for " : ", ";
		size_t bytes = strlen(before) + strlen(spared[c]);

		if (c > 0 && used + bytes + 1 > width) {
			before = ",\n";
			used = 0;
		}
		fprintf(out, "%s%s", before, spared[c]);
		used += bytes;
	}
	if (c > 0) {
		fputc('\n', out);
	}
}

void weir_show_list(FILE *out, const json_t *rows, const struct weir_show_choice *choices,
	uint32_t count, const char *nothing) {
	struct weir_show_choice all[WEIR_SHOW_COLUMNS_MAX];
	uint32_t width = weir_show_width(out);

	memcpy(all, choices, count * sizeof(*choices));
	for (uint32_t c = 0; width == 0 && c < count; c++) {
		all[c].plain = NULL;
	}
	weir_show_narrow(out, rows, all, count, nothing, width);
}
