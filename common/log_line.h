// SPDX-License-Identifier: BSD-3-Clause
//
// How a record of the log becomes bytes, for log.c alone. Pure, but for the time of day.
//
// Whatever a message or a field contains, the result is one line of text, one JSON object on one
// line, or one datagram of the journal whose fields are those that were given: control characters,
// bytes that are not UTF-8, and characters that begin a line or turn its direction are replaced
// by '?', and what is too long is cut between characters.
//
// Threads: any.
#pragma once

#include <stddef.h>

#include "log.h"

// At most PIPE_BUF, so that a pipe that has room at all takes a line as a whole.
#define WEIR_LOG_LINE_BYTES 4096
#define WEIR_LOG_DATAGRAM_BYTES 8192
#define WEIR_LOG_MESSAGE_BYTES 2048
#define WEIR_LOG_FIELD_BYTES 512

// Replace in place what is named above. A tab becomes a space.
void weir_log_clean(char *text);

// Each returns how many bytes of the buffer are used; there is no final NUL. message has been
// cleaned.
size_t weir_log_text_line(
	enum weir_log_level level, const char *message, char buffer[WEIR_LOG_LINE_BYTES]);
size_t weir_log_json_line(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *message, char buffer[WEIR_LOG_LINE_BYTES]);
size_t weir_log_datagram(enum weir_log_level level, const struct weir_log_fields *fields,
	const char *identifier, const char *message, char buffer[WEIR_LOG_DATAGRAM_BYTES]);
