// SPDX-License-Identifier: BSD-3-Clause
#include "terminal.h"

#include <stdio.h>
#include <string.h>

const char *weir_terminal_text(const char *text, char *buffer, size_t bytes) {
	size_t used = 0;

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		char piece[5];
		size_t length;

		if (c == '\\' && text[1] == 'x') {
			length = (size_t)snprintf(piece, sizeof(piece), "\\\\");
		} else if (c >= 0x20 && c < 0x7f) {
			length = (size_t)snprintf(piece, sizeof(piece), "%c", c);
		} else {
			length = (size_t)snprintf(piece, sizeof(piece), "\\x%02x", c);
		}
		if (used + length + 1 > bytes) {
			if (bytes >= 4) {
				used = used > bytes - 4 ? bytes - 4 : used;
				memcpy(buffer + used, "...", 3);
				used += 3;
			}
			break;
		}
		memcpy(buffer + used, piece, length);
		used += length;
	}
	buffer[used] = '\0';
	return buffer;
}
