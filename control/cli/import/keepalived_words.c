// SPDX-License-Identifier: BSD-3-Clause
//
// Words of a keepalived statement: numbers, seconds, settings of checkers, and notes about
// unhandled statements.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keepalived_private.h"

const char *weir_keepalived_word(
	const struct weir_keepalived_statement *statement, unsigned int n) {
	return n < statement->count ? statement->word[n] : "";
}

void weir_keepalived_note(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	const struct weir_keepalived_rest *rest) {
	const char *keyword = statement->word[0];
	char what[WEIR_IMPORT_TEXT_BYTES];

	snprintf(what, sizeof(what), "%.40s%s%.20s", keyword, statement->count > 1 ? " " : "",
		weir_keepalived_word(statement, 1));
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
	const struct weir_keepalived_statement *statement, uint64_t most, uint64_t *ret) {
	if (!weir_import_number(weir_keepalived_word(statement, 1), most, ret)) {
		weir_import_error(import, &statement->place,
			"%s \"%s\": use a number from 0 to %llu", statement->word[0],
			weir_keepalived_word(statement, 1), (unsigned long long)most);
		return false;
	}
	return true;
}

bool weir_keepalived_seconds(struct weir_import *import,
	const struct weir_keepalived_statement *statement, uint32_t most_ms, uint32_t *ret_ms) {
	const char *text = weir_keepalived_word(statement, 1);
	double seconds = -1;

	if (text[0] != '\0' && strlen(text) < 20 && text[strspn(text, "0123456789.")] == '\0') {
		char *end;

		seconds = strtod(text, &end);
		seconds = *end == '\0' ? seconds : -1;
	}
	if (seconds < 0 || seconds * 1000 > most_ms) {
		weir_import_error(import, &statement->place, "%s \"%s\": use seconds from 0 to %u",
			statement->word[0], text, most_ms / 1000);
		return false;
	}
	*ret_ms = (uint32_t)(seconds * 1000 + 0.5);
	return true;
}

bool weir_keepalived_default(struct weir_import *import,
	const struct weir_keepalived_statement *statement,
	struct weir_keepalived_defaults *defaults) {
	const char *keyword = statement->word[0];
	uint64_t number;

	if (strcmp(keyword, "delay_loop") == 0) {
		(void)weir_keepalived_seconds(import, statement, 3600000, &defaults->delay_ms);
	} else if (strcmp(keyword, "connect_timeout") == 0) {
		(void)weir_keepalived_seconds(import, statement, 3600000, &defaults->timeout_ms);
	} else if (strcmp(keyword, "retry") == 0 || strcmp(keyword, "nb_get_retry") == 0) {
		if (weir_keepalived_number(import, statement, 254, &number)) {
			defaults->retries = (uint32_t)number;
			defaults->has_retries = true;
		}
	} else if (strcmp(keyword, "virtualhost") == 0) {
		defaults->host = weir_keepalived_word(statement, 1);
	} else {
		return false;
	}
	return true;
}
