// SPDX-License-Identifier: BSD-3-Clause
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 4096

void weir_text_add(struct weir_text *text, const char *data, size_t bytes) {
	if (text->room - text->bytes < bytes && !text->failed) {
		size_t room = text->room > 0 ? 2 * text->room : ROOM_FIRST;
		char *grown;

		while (room - text->bytes < bytes) {
			room *= 2;
		}
		grown = realloc(text->data, room);
		if (grown == NULL) {
			text->failed = true;
		} else {
			text->data = grown;
			text->room = room;
		}
	}
	if (!text->failed && bytes > 0) {
		memcpy(text->data + text->bytes, data, bytes);
		text->bytes += bytes;
	}
}

void weir_text_string(struct weir_text *text, const char *string) {
	weir_text_add(text, string, strlen(string));
}

void weir_text_integer(struct weir_text *text, long long number) {
	char digits[24], *at = digits + sizeof(digits);
	unsigned long long left =
		number < 0 ? 0ull - (unsigned long long)number : (unsigned long long)number;

	do {
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (number < 0) {
		*--at = '-';
	}
	weir_text_add(text, at, (size_t)(digits + sizeof(digits) - at));
}

void weir_text_real(struct weir_text *text, double number) {
	char digits[40];
	int n = snprintf(digits, sizeof(digits), "%.12g", number);

	weir_text_add(text, digits, (size_t)n);
}

void weir_text_escaped(struct weir_text *text, const char *string, bool quotes) {
	for (const char *at = string; *at != '\0'; at++) {
		if (*at == '\n') {
			weir_text_string(text, "\\n");
		} else if (*at == '\\' || (*at == '"' && quotes)) {
			weir_text_add(text, "\\", 1);
			weir_text_add(text, at, 1);
		} else {
			weir_text_add(text, (unsigned char)*at < 0x20 ? "?" : at, 1);
		}
	}
}
