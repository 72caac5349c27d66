// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the text that a command prints for an answer of weir-control.
#pragma once

#include "cli_lab.h"
#include "show.h"

static inline void expect_shown(void (*show)(const struct weir_cli *, json_t *), const char *word,
	const char *json, const char *expected) {
	json_t *result = json_loads(json, JSON_DECODE_ANY, NULL);
	const struct weir_cli_options options = {0};
	struct weir_cli cli = {
		.options = &options, .words = &word, .count = word != NULL ? 1 : 0, .err = stderr};
	char *text;
	size_t bytes;

	assert_non_null(result);
	cli.out = open_memstream(&text, &bytes);
	show(&cli, result);
	fclose(cli.out);
	assert_string_equal(text, expected);
	assert_null(strstr(text, " \n"));
	free(text);
	json_decref(result);
}
