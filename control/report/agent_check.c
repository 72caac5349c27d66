// SPDX-License-Identifier: BSD-3-Clause
#include "agent_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "health_state.h"

#define WEIGHT_MOST 256 // maximum of N in weight:N

struct word { // a part of the line; not NUL-terminated
	const char *text;
	size_t bytes;
};

enum class { HEALTH, ADMINISTRATION };

static const struct known {
	const char *word;
	enum class class;
	enum weir_health_word means;
} known_words[] = {
	{"up", HEALTH, WEIR_HEALTH_WORD_READY},
	{"down", HEALTH, WEIR_HEALTH_WORD_DOWN},
	{"fail", HEALTH, WEIR_HEALTH_WORD_DOWN},
	{"stopped", HEALTH, WEIR_HEALTH_WORD_DOWN},
	{"ready", ADMINISTRATION, WEIR_HEALTH_WORD_READY},
	{"drain", ADMINISTRATION, WEIR_HEALTH_WORD_LAME_DUCK},
	{"maint", ADMINISTRATION, WEIR_HEALTH_WORD_DOWN},
};

struct line {
	struct weir_agent_check *check;
	struct weir_report *report;
	const struct known *said[2]; // last known word of each class in the line; NULL = none
	char *complaint;
};

__attribute__((format(printf, 2, 3))) static void complain(
	struct line *line, const char *format, ...) {
	va_list arguments;

	if (line->complaint[0] != '\0') {
		return;
	}
	va_start(arguments, format);
	vsnprintf(line->complaint, WEIR_AGENT_CHECK_COMPLAINT_BYTES, format, arguments);
	va_end(arguments);
	for (char *c = line->complaint; *c != '\0'; c++) {
		if (*c < ' ' || *c > '~') {
			*c = '?';
		}
	}
}

// Returns the text that follows the prefix in a word, or NULL if the word does not begin with the
// prefix.
static const char *after(const struct word *word, const char *prefix) {
	size_t bytes = strlen(prefix);

	return word->bytes >= bytes && strncasecmp(word->text, prefix, bytes) == 0
		       ? word->text + bytes
		       : NULL;
}

// Reads the digits of a number, and returns its value. *rest: the first character that is not a
// digit, or `end`. The value is a double, so a long number does not overflow.
static double read_digits(const char *digits, const char *end, const char **rest) {
	double value = 0;

	while (digits < end && *digits >= '0' && *digits <= '9') {
		value = value * 10 + (*digits++ - '0');
	}
	*rest = digits;
	return value;
}

// Reads a weight, N% or N. If a line contains several weights, the last weight replaces the earlier
// weights. If the last weight is invalid, the report has no weight.
static void read_weight(struct line *line, const struct word *word, const char *digits) {
	const char *end = word->text + word->bytes, *rest;
	double value = read_digits(digits, end, &rest);
	bool percent = end - rest == 1 && *rest == '%';
	enum weir_report_field field =
		percent ? WEIR_REPORT_BIT_WEIGHT_PERCENT : WEIR_REPORT_BIT_WEIGHT;

	line->report->given &= ~(WEIR_REPORT(WEIGHT) | WEIR_REPORT(WEIGHT_PERCENT));
	if (rest == digits) {
		complain(line, "%.*s: not a number", (int)word->bytes, word->text);
	} else if (rest != end && !percent) {
		complain(line, "%.*s: trailing garbage", (int)word->bytes, word->text);
	} else if ((!percent && value > WEIGHT_MOST) ||
		   !weir_report_set(line->report, field, value)) {
		complain(line, "%.*s: too large", (int)word->bytes, word->text);
	}
}

static void read_maxconn(struct line *line, const struct word *word, const char *digits) {
	const char *end = word->text + word->bytes, *rest;
	double value = read_digits(digits, end, &rest);

	line->report->given &= ~WEIR_REPORT(MAX_ACTIVE);
	if (rest == digits) {
		complain(line, "%.*s: not a number", (int)word->bytes, word->text);
	} else if (rest != end) {
		complain(line, "%.*s: trailing garbage", (int)word->bytes, word->text);
	} else if (!weir_report_set(line->report, WEIR_REPORT_BIT_MAX_ACTIVE, value)) {
		complain(line, "%.*s: too large", (int)word->bytes, word->text);
	}
}

static void read_word(struct line *line, const struct word *word) {
	const char *digits;

	for (size_t i = 0; i < sizeof(known_words) / sizeof(known_words[0]); i++) {
		const char *rest = after(word, known_words[i].word);

		if (rest == word->text + word->bytes) {
			line->said[known_words[i].class] = &known_words[i];
			return;
		}
	}
	if ((digits = after(word, "weight:")) != NULL) {
		read_weight(line, word, digits);
	} else if ((digits = after(word, "maxconn:")) != NULL) {
		read_maxconn(line, word, digits);
	} else if (word->text[0] >= '0' && word->text[0] <= '9' &&
		   memchr(word->text, '%', word->bytes) != NULL) {
		read_weight(line, word, word->text);
	} else {
		complain(line, "unknown word %.*s", (int)word->bytes, word->text);
	}
}

static bool is_separator(char c) {
	return c == ' ' || c == '\t' || c == ',';
}

// Reads the words before the description. Returns the start of the description (after the '#'), or
// `end` if there is none.
static const char *read_words(struct line *line, const char *at, const char *end) {
	while (at < end && *at != '#') {
		struct word word = {.text = at};

		while (at < end && !is_separator(*at)) {
			at++;
		}
		word.bytes = (size_t)(at - word.text);
		if (word.bytes > 0) {
			read_word(line, &word);
		}
		while (at < end && is_separator(*at)) {
			at++;
		}
	}
	return at < end ? at + 1 : end;
}

// Sets the state and the reason of the report from the words of the line and from earlier words.
// Down takes precedence over lame duck, and lame duck over ready.
static void conclude(struct line *line, const char *description, const char *end) {
	struct weir_agent_check *check = line->check;
	const struct known *health = line->said[HEALTH],
			   *administration = line->said[ADMINISTRATION];
	char why[2 * WEIR_REPORT_WHY_BYTES];
	int bytes;

	if (health != NULL) {
		check->health = (uint8_t)health->means;
	}
	if (administration != NULL) {
		check->administration = (uint8_t)administration->means;
	}
	if (health == NULL || (administration != NULL && administration->means > health->means)) {
		health = administration;
	}
	if (health != NULL) {
		line->report->word = check->health > check->administration ? check->health
									   : check->administration;
	}
	while (description < end && is_separator(*description)) {
		description++;
	}
	bytes = snprintf(why, sizeof(why), "%s%s%.*s", health != NULL ? health->word : "",
		health != NULL && description < end ? ": " : "",
		(int)(end - description < WEIR_REPORT_WHY_BYTES ? end - description
								: WEIR_REPORT_WHY_BYTES),
		description);
	weir_report_set_why(line->report, why, (size_t)bytes);
}

_Static_assert(WEIR_HEALTH_WORD_READY < WEIR_HEALTH_WORD_LAME_DUCK &&
		       WEIR_HEALTH_WORD_LAME_DUCK < WEIR_HEALTH_WORD_DOWN,
	"the more severe state must have the higher number");

int weir_agent_check_read(struct weir_agent_check *check, const char *text, size_t bytes,
	struct weir_report *ret, char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES]) {
	struct line line = {.check = check, .report = ret, .complaint = complaint};
	const char *end = text, *description;

	while (end < text + bytes && *end != '\n' && *end != '\r') {
		end++;
	}
	if (end == text + bytes) {
		return -ENODATA;
	}
	memset(ret, 0, sizeof(*ret));
	complaint[0] = '\0';
	description = read_words(&line, text, end);
	conclude(&line, description, end);
	weir_report_check(ret);
	return 0;
}
