// SPDX-License-Identifier: BSD-3-Clause
//
// Runs weirctl inside the test: arguments in, exit status and both outputs out.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"

struct outcome {
	int status;
	char *out, *err;
};

// argv without the program's name, ends with NULL. run_dir NULL = none.
static inline struct outcome run_weirctl(const char *run_dir, char *const *arguments) {
	struct outcome outcome = {0};
	size_t out_bytes, err_bytes;
	FILE *out = open_memstream(&outcome.out, &out_bytes);
	FILE *err = open_memstream(&outcome.err, &err_bytes);
	char *argv[16] = {"weirctl"};
	int argc = 1;

	while (arguments[argc - 1] != NULL) {
		argv[argc] = arguments[argc - 1];
		argc++;
	}
	outcome.status = weir_cli_main(argc, argv, run_dir, out, err);
	fclose(out);
	fclose(err);
	return outcome;
}

static inline void free_outcome(struct outcome *outcome) {
	free(outcome->out);
	free(outcome->err);
}

#define RUN(run_dir, ...) run_weirctl(run_dir, (char *const[]){__VA_ARGS__, NULL})

static inline void expect_contains(const char *text, const char *part) {
	if (strstr(text, part) == NULL) {
		fail_msg("\"%s\" is not in:\n%s", part, text);
	}
}
