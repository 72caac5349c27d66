// SPDX-License-Identifier: BSD-3-Clause
//
// docs/reference/agent-protocol.md, which the tests of this folder hold against the code.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *document;

static inline void assert_documented(const char *text) {
	if (strstr(document, text) == NULL) {
		fail_msg("not in the document: %s", text);
	}
}

// From the arguments of main, or exit.
static inline void read_document(int argc, char **argv) {
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;

	document = calloc(1, 65536);
	if (file == NULL || document == NULL || fread(document, 1, 65535, file) == 0) {
		fprintf(stderr, "usage: %s docs/reference/agent-protocol.md\n", argv[0]);
		exit(1);
	}
	fclose(file);
}
