// SPDX-License-Identifier: BSD-3-Clause
#include "log_line.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STAMP_BYTES 48

struct field {
	const char *key, *journal_key;
	size_t offset; // offset of the member in struct weir_log_fields
};

static const struct field known_fields[] = {
#define X(name, key) {#name, key, offsetof(struct weir_log_fields, name)},
	WEIR_LOG_FIELDS(X)
#undef X
};

#define FIELD_COUNT (sizeof(known_fields) / sizeof(known_fields[0]))

static const char *const level_names[] = {
#define X(name, key, priority) [WEIR_LOG_##name] = (key),
	WEIR_LOG_LEVELS(X)
#undef X
};

static const int priorities[] = {
#define X(name, key, priority) [WEIR_LOG_##name] = (priority),
	WEIR_LOG_LEVELS(X)
#undef X
};

// --- characters ---------------------------------------------------------------------------

// Decodes the first character of a text into *ret. Returns the length of the character in bytes, or
// 0 if the text does not begin with valid UTF-8 (RFC 3629).
static size_t take_character(const unsigned char *text, uint32_t *ret) {
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t bytes = text[0] < 0x80                      ? 1
		       : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
		       : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
		       : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
							   : 0;
	uint32_t character = bytes == 1 ? text[0] : text[0] & (0x7fu >> bytes);

	for (size_t i = 1; i < bytes; i++) {
		if ((text[i] & 0xc0) != 0x80) { // also rejects the final NUL
			return 0;
		}
		character = character << 6 | (text[i] & 0x3f);
	}
	if (bytes == 0 || character < least[bytes] || character > 0x10ffff ||
		(character >= 0xd800 && character < 0xe000)) {
		return 0;
	}
	*ret = character;
	return bytes;
}

// Returns whether a character must be replaced: a control character, a line or paragraph separator,
// a mark that changes the text direction, or a byte order mark.
static bool is_unwanted(uint32_t c) {
	return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

void weir_log_clean(char *text) {
	unsigned char *at = (unsigned char *)text;

	while (*at != '\0') {
		uint32_t character = 0;
		size_t bytes = take_character(at, &character);

		if (bytes == 0) {
			*at++ = '?';
		} else if (character == '\t') {
			*at++ = ' ';
		} else {
			if (is_unwanted(character)) {
				memset(at, '?', bytes);
			}
			at += bytes;
		}
	}
}

// Writes the sanitized text of a field. Returns buffer, or NULL if the field is not set.
static const char *field_text(const struct weir_log_fields *fields, const struct field *field,
	char buffer[WEIR_LOG_FIELD_BYTES]) {
	const char *text = NULL;

	if (fields != NULL) {
		memcpy(&text, (const char *)fields + field->offset, sizeof(text));
	}
	if (text == NULL || text[0] == '\0') {
		return NULL;
	}
	snprintf(buffer, WEIR_LOG_FIELD_BYTES, "%s", text);
	weir_log_clean(buffer);
	return buffer;
}

static const char *stamp(char buffer[STAMP_BYTES]) {
	struct timespec now;
	struct tm utc;
	size_t used;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	used = strftime(buffer, STAMP_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(buffer + used, STAMP_BYTES - used, ".%03ldZ", now.tv_nsec / 1000000);
	return buffer;
}

// --- text ---------------------------------------------------------------------------------

size_t weir_log_text_line(
	enum weir_log_level level, const char *message, char buffer[WEIR_LOG_LINE_BYTES]) {
	char time[STAMP_BYTES];
	int n = snprintf(buffer, WEIR_LOG_LINE_BYTES, "%s %-5s %s\n", stamp(time),
		level_names[level], message);

	if (n >= WEIR_LOG_LINE_BYTES) {
		n = WEIR_LOG_LINE_BYTES - 1;
		buffer[n - 1] = '\n';
	}
	return (size_t)n;
}

// --- JSON ---------------------------------------------------------------------------------

// Adds `,"key":"text"` at index `used` of the buffer. Truncates the text, so that at most `limit`
// bytes of the buffer are used. Returns the new value of `used`.
static size_t add_json(char *buffer, size_t used, size_t limit, const char *key, const char *text) {
	int n = snprintf(buffer + used, limit - used, "%s\"%s\":\"", used > 1 ? "," : "", key);

	if (n < 0 || used + (size_t)n + 1 >= limit) {
		return used; // the buffer has no room for the key
	}
	used += (size_t)n;
	while (*text != '\0') {
		uint32_t character;
		size_t bytes = take_character((const unsigned char *)text, &character);
		bool escaped = *text == '"' || *text == '\\';

		if (bytes == 0 || used + bytes + escaped + 1 > limit) {
			break;
		}
		if (escaped) {
			buffer[used++] = '\\';
		}
		memcpy(buffer + used, text, bytes);
		used += bytes;
		text += bytes;
	}
	buffer[used++] = '"';
	return used;
}

size_t weir_log_json_line(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *message, char buffer[WEIR_LOG_LINE_BYTES]) {
	const size_t end = WEIR_LOG_LINE_BYTES - 2; // maximum length of the text before "}\n"
	char time[STAMP_BYTES], text[WEIR_LOG_FIELD_BYTES];
	size_t used = 1;

	buffer[0] = '{';
	used = add_json(buffer, used, end, "time", stamp(time));
	used = add_json(buffer, used, end, "level", level_names[level]);
	used = add_json(buffer, used, used + WEIR_LOG_MESSAGE_BYTES + 16, "message", message);
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		if (field_text(fields, &known_fields[i], text) != NULL) {
			used = add_json(buffer, used, end, known_fields[i].key, text);
		}
	}
	buffer[used++] = '}';
	buffer[used++] = '\n';
	return used;
}

// --- the journal --------------------------------------------------------------------------

// Adds "KEY=text\n" at index `used` of the buffer, and returns the new value of `used`. Sanitized
// text has no line end, so it cannot start another field.
static size_t add_datagram(char *buffer, size_t used, const char *key, const char *text) {
	int n = snprintf(buffer + used, WEIR_LOG_DATAGRAM_BYTES - used, "%s=%s\n", key, text);

	return n < 0 || used + (size_t)n >= WEIR_LOG_DATAGRAM_BYTES ? used : used + (size_t)n;
}

size_t weir_log_datagram(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *identifier, const char *message, char buffer[WEIR_LOG_DATAGRAM_BYTES]) {
	char text[WEIR_LOG_FIELD_BYTES], priority[8];
	size_t used;

	snprintf(priority, sizeof(priority), "%d", priorities[level]);
	used = add_datagram(buffer, 0, "PRIORITY", priority);
	used = add_datagram(buffer, used, "SYSLOG_IDENTIFIER", identifier);
	used = add_datagram(buffer, used, "MESSAGE", message);
	for (size_t i = 0; i < FIELD_COUNT; i++) {
		if (field_text(fields, &known_fields[i], text) != NULL) {
			used = add_datagram(buffer, used, known_fields[i].journal_key, text);
		}
	}
	return used;
}
