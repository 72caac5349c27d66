// SPDX-License-Identifier: BSD-3-Clause
//
// Reads docs/reference/agent-protocol.md. The tests in this folder compare it with the code.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static char *document;

static inline void assert_documented(const char *text) {
	if (strstr(document, text) == NULL) {
		fail_msg("not in the document: %s", text);
	}
}

TEST_ARGUMENT(document_path);

static inline int read_document(__attribute__((unused)) void **state) {
	FILE *file = fopen(document_path, "r");

	document = calloc(1, 65536);
	if (file == NULL || document == NULL || fread(document, 1, 65535, file) == 0) {
		perror(document_path);
		return -1;
	}
	return fclose(file);
}

static inline int free_document(__attribute__((unused)) void **state) {
	free(document);
	return 0;
}

TEST_GROUP(read_document, free_document);
