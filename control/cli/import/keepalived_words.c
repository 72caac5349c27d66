// SPDX-License-Identifier: BSD-3-Clause
//
// Parses words of a keepalived statement: numbers, seconds and settings of checkers. Adds notes
// about unhandled and ignored statements.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keepalived_private.h"

#define TEXT_BYTES 80 // bytes of the text of a statement in a note
#define WHY_BYTES 200
#define MOST_MS 3600000 // maximum duration in the settings of health checks
#define RETRIES_MOST 254

const char *weir_keepalived_word(
	const struct weir_keepalived_statement *statement, unsigned int n) {
	return n < statement->count ? statement->word[n] : "";
}

const char *weir_keepalived_text(
	const struct weir_keepalived_statement *statement, char *buffer, size_t bytes) {
	size_t used = 0;

	buffer[0] = '\0';
	for (unsigned int i = 0; i < statement->count; i++) {
		int r = snprintf(
			buffer + used, bytes - used, "%s%s", i > 0 ? " " : "", statement->word[i]);

		if (r < 0 || (size_t)r >= bytes - used) {
			snprintf(buffer + bytes - 4, 4, "...");
			break;
		}
		used += (size_t)r;
	}
	return buffer;
}

void weir_keepalived_ignored(struct weir_import *import,
	const struct weir_keepalived_statement *statement, const char *format, ...) {
	char what[TEXT_BYTES], why[WHY_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	weir_import_note(import, &statement->place, WEIR_IMPORT_ADJUST,
		weir_keepalived_text(statement, what, sizeof(what)),
		"keepalived and the import ignore this statement: %s", why);
}

void weir_keepalived_note(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_rest *rest) {
	const char *keyword = statement->word[0];
	char what[TEXT_BYTES];

	weir_keepalived_text(statement, what, sizeof(what));
	for (; rest->name != NULL; rest++) {
		if (strcmp(rest->name, keyword) == 0) {
			if (rest->why != NULL) {
				weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT,
					what, "%s", rest->why);
			}
			return;
		}
	}
	weir_import_note(import, &statement->place, WEIR_IMPORT_LEFT_OUT, what,
		"weirctl does not support this keyword of keepalived");
}

bool weir_keepalived_number(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint64_t least, uint64_t most,
	uint64_t *ret) {
	uint64_t number;

	if (!weir_import_number(weir_keepalived_word(statement, 1), most, &number) ||
		number < least) {
		weir_keepalived_ignored(import, statement, "use a number from %llu to %llu",
			(unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*ret = number;
	return true;
}

bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t least_ms, uint32_t *ret_ms) {
	const char *text = weir_keepalived_word(statement, 1);
	char what[TEXT_BYTES];
	double seconds = -1;

	if (text[0] != '\0' && strlen(text) < 20 && text[strspn(text, "0123456789.")] == '\0') {
		char *end;

		seconds = strtod(text, &end);
		seconds = *end == '\0' ? seconds : -1;
	}
	if (seconds < 0 || (least_ms > 0 && seconds <= 0)) {
		weir_keepalived_ignored(import, statement, "use a number of seconds%s",
			least_ms > 0 ? ", more than 0" : "");
		return false;
	}
	if (seconds * 1000 > MOST_MS) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS,
			weir_keepalived_text(statement, what, sizeof(what)),
			"above the maximum of Weir; using %d s", MOST_MS / 1000);
		seconds = MOST_MS / 1000.0;
	}
	*ret_ms = (uint32_t)(seconds * 1000 + 0.5);
	*ret_ms = *ret_ms < least_ms ? least_ms : *ret_ms;
	return true;
}

static void read_retries(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t least,
	struct weir_keepalived_defaults *defaults) {
	char what[TEXT_BYTES];
	uint64_t number;

	if (!weir_keepalived_number(import, statement, least, UINT32_MAX, &number)) {
		return;
	}
	if (number > RETRIES_MOST) {
		weir_import_note(import, &statement->place, WEIR_IMPORT_DIFFERS,
			weir_keepalived_text(statement, what, sizeof(what)),
			"above the maximum of Weir; using %d", RETRIES_MOST);
		number = RETRIES_MOST;
	}
	defaults->retries = (uint32_t)number;
	defaults->has_retries = true;
}

bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t retry_least,
	struct weir_keepalived_defaults *defaults) {
	const char *keyword = statement->word[0];

	if (strcmp(keyword, "delay_loop") == 0) {
		(void)weir_keepalived_seconds(import, statement, 1, &defaults->delay_ms);
	} else if (strcmp(keyword, "connect_timeout") == 0) {
		(void)weir_keepalived_seconds(import, statement, 1, &defaults->timeout_ms);
	} else if (strcmp(keyword, "delay_before_retry") == 0) {
		defaults->has_retry_delay |=
			weir_keepalived_seconds(import, statement, 0, &defaults->retry_delay_ms);
	} else if (strcmp(keyword, "retry") == 0) {
		read_retries(import, statement, retry_least, defaults);
	} else if (strcmp(keyword, "virtualhost") == 0) {
		defaults->host = weir_keepalived_word(statement, 1);
	} else {
		return false;
	}
	return true;
}
