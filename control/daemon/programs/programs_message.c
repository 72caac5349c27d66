// SPDX-License-Identifier: BSD-3-Clause
#include "programs_message.h"

#include <errno.h>
#include <string.h>

#define HEAD_BYTES offsetof(struct weir_program_request, text)

// Appends words to the text of a request. Returns their number, or -E2BIG.
static int append(const char *const *words, struct weir_program_request *request, size_t *bytes) {
	int count = 0;

	for (; words != NULL && words[count] != NULL; count++) {
		size_t length = strlen(words[count]) + 1;

		if (length > sizeof(request->text) - *bytes) {
			return -E2BIG;
		}
		memcpy(request->text + *bytes, words[count], length);
		*bytes += length;
	}
	return count;
}

int weir_program_pack(
	const struct weir_program *program, uint64_t id, struct weir_program_request *ret) {
	size_t bytes = 0;
	int arguments = append(program->arguments, ret, &bytes);
	int variables = arguments < 0 ? arguments : append(program->variables, ret, &bytes);

	if (variables < 0 || arguments + variables > (int)WEIR_PROGRAM_WORDS_MAX) {
		return -E2BIG;
	}
	ret->id = id;
	ret->timeout_ms = program->timeout_ms;
	ret->kill_rest = program->kill_rest;
	ret->arguments = (uint16_t)arguments;
	ret->variables = (uint16_t)variables;
	return (int)(HEAD_BYTES + bytes);
}

// Finds `count` words. Returns the text after them, or NULL.
static char *find(char *text, const char *end, uint16_t count, char **ret) {
	for (uint16_t i = 0; i < count; i++) {
		char *nul = memchr(text, '\0', (size_t)(end - text));

		if (nul == NULL) {
			return NULL;
		}
		ret[i] = text;
		text = nul + 1;
	}
	ret[count] = NULL;
	return text;
}

int weir_program_unpack(
	struct weir_program_request *request, size_t bytes, struct weir_program_words *ret) {
	const char *end = (const char *)request + bytes;
	char *text = request->text;

	if (bytes < HEAD_BYTES || bytes > sizeof(*request) ||
		request->arguments + request->variables > (int)WEIR_PROGRAM_WORDS_MAX) {
		return -EBADMSG;
	}
	text = find(text, end, request->arguments, ret->arguments);
	if (text == NULL || find(text, end, request->variables, ret->variables) == NULL) {
		return -EBADMSG;
	}
	return 0;
}
