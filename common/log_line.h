// SPDX-License-Identifier: BSD-3-Clause
//
// Encodes a log record as bytes; used by log.c only. Keeps no state; reads the time of day.
//
// The result is one line of text, one JSON object on one line, or one journal datagram. The
// contents of the message and of the fields cannot add a field. Control characters, invalid UTF-8,
// line and paragraph separators, byte order marks, and marks that change the text direction become
// '?'. Long text is truncated; a character that is cut becomes '?' or is left out. A field for
// which the buffer has no room is left out.
//
// Threads: any.
#pragma once

#include <stddef.h>

#include "log.h"

// Maximum length of a line. The maximum is not greater than PIPE_BUF, so that a write to a pipe
// writes the whole line or nothing.
#define WEIR_LOG_LINE_BYTES 4096
#define WEIR_LOG_DATAGRAM_BYTES 8192
#define WEIR_LOG_MESSAGE_BYTES 2048
#define WEIR_LOG_FIELD_BYTES 512

// Replace the unsafe characters of a text in place. A tab becomes a space.
void weir_log_clean(char *text);

// Encode a record as a line of text, as a line with one JSON object, or as a journal datagram.
// message: must already be sanitized (weir_log_clean). Each function returns the length of the
// record in bytes. The record may end without a NUL.
size_t weir_log_text_line(
	enum weir_log_level level, const char *message, char buffer[WEIR_LOG_LINE_BYTES]);
size_t weir_log_json_line(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *message, char buffer[WEIR_LOG_LINE_BYTES]);
size_t weir_log_datagram(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *identifier, const char *message, char buffer[WEIR_LOG_DATAGRAM_BYTES]);
