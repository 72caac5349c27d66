// SPDX-License-Identifier: BSD-3-Clause
#include "option.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "plural.h"
#include "terminal.h"

#define WORDS_MAX 32
#define LIST_BYTES 512
#define SHOWN_BYTES 64 // maximum bytes of a value in a message

bool weir_option_has_value(const struct weir_option *option) {
	return option->kind != WEIR_OPTION_FLAG && option->kind != WEIR_OPTION_CONSTANT;
}

const char *weir_option_words(const struct weir_option_word *words, char *buffer, size_t bytes) {
	size_t used = 0;

	buffer[0] = '\0';
	for (const struct weir_option_word *word = words; word->name != NULL; word++) {
		const char *before = word == words ? "" : word[1].name != NULL ? ", " : " or ";
		int n = snprintf(buffer + used, bytes - used, "%s%s", before, word->name);

		used += (size_t)n < bytes - used ? (size_t)n : bytes - used - 1;
	}
	return buffer;
}

// --- messages -----------------------------------------------------------------------------

// Writes the message `--name: "value" REASON` to why. Returns -EINVAL.
static int refuse(const struct weir_option *option, const char *value, const char *reason,
	char *why, size_t why_bytes) {
	char shown[SHOWN_BYTES];

	snprintf(why, why_bytes, "--%s: \"%s\" %s", option->name,
		weir_terminal_text(value, shown, sizeof(shown)), reason);
	return -EINVAL;
}

static int refuse_number(const struct weir_option *option, const char *value, bool is_number,
	char *why, size_t why_bytes) {
	char reason[128];

	if (option->kind == WEIR_OPTION_REAL) {
		snprintf(reason, sizeof(reason), "%s; use %.15g to %.15g",
			is_number ? "is out of range" : "is not a number", option->least,
			option->most);
	} else if (option->kind == WEIR_OPTION_SECONDS) {
		snprintf(reason, sizeof(reason), "%s; use %.15g to %.15g seconds",
			is_number ? "is out of range"
				  : "is not a duration such as 500ms, 30s, 5m or 2h",
			(double)option->min / 1000, (double)option->max / 1000);
	} else {
		snprintf(reason, sizeof(reason), "%s%s; use %llu to %llu",
			is_number ? "is out of range" : "is not a whole number",
			!is_number && option->kind == WEIR_OPTION_SCALED ? " such as 500, 64k or 2M"
									 : "",
			(unsigned long long)option->min, (unsigned long long)option->max);
	}
	return refuse(option, value, reason, why, why_bytes);
}

static int refuse_word(
	const struct weir_option *option, const char *value, char *why, size_t why_bytes) {
	const char *names[WORDS_MAX], *near;
	char list[LIST_BYTES], reason[LIST_BYTES + 64];
	uint32_t count = 0;

	while (count < WORDS_MAX && option->words[count].name != NULL) {
		names[count] = option->words[count].name;
		count++;
	}
	near = weir_nearest(value, names, count);
	if (near != NULL) {
		snprintf(reason, sizeof(reason), "is not known; did you mean \"%s\"?", near);
	} else {
		snprintf(reason, sizeof(reason), "is not known; use %s",
			weir_option_words(option->words, list, sizeof(list)));
	}
	return refuse(option, value, reason, why, why_bytes);
}

// --- values -------------------------------------------------------------------------------

static void store(const struct weir_option *option, void *options, uint64_t number) {
	uint8_t *field = (uint8_t *)options + option->field;
	uint8_t u8 = (uint8_t)number;
	uint16_t u16 = (uint16_t)number;
	uint32_t u32 = (uint32_t)number;

	switch (option->field_bytes) {
	case sizeof(u8):
		memcpy(field, &u8, sizeof(u8));
		break;
	case sizeof(u16):
		memcpy(field, &u16, sizeof(u16));
		break;
	case sizeof(u32):
		memcpy(field, &u32, sizeof(u32));
		break;
	default:
		memcpy(field, &number, sizeof(number));
	}
}

struct unit {
	const char *name; // suffix; NULL ends a list
	double times;
};

static const struct unit plain[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {NULL, 0}};
static const struct unit durations[] = { // units of durations, in milliseconds
	{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {NULL, 0}};

// Read a decimal number with at most one point, followed by one of these units. *ret: the number,
// multiplied by the factor of the unit. Returns 0 or -EINVAL.
static int read_real(const char *text, const struct unit *units, double *ret) {
	size_t digits = strspn(text, "0123456789.");
	long double value;
	char *end;

	if (digits == 0) {
		return -EINVAL;
	}
	value = strtold(text, &end);
	if (end != text + digits) {
		// The text is not a number, such as "1.2.3" or ".", or has a form that only strtold
		// accepts, such as "1e3" or "0x10".
		return -EINVAL;
	}
	for (; units->name != NULL; units++) {
		if (strcmp(units->name, end) == 0) {
			// Multiply as long double: in double, 4.1 * 1e6 is less than 4100000.
			*ret = (double)(value * units->times);
			return 0;
		}
	}
	return -EINVAL;
}

static int set_whole(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	unsigned long long number;
	char *end;

	if (value[0] == '\0' || value[strspn(value, "0123456789")] != '\0') {
		return refuse_number(option, value, false, why, why_bytes);
	}
	errno = 0;
	number = strtoull(value, &end, 10);
	if (errno != 0 || number < option->min || number > option->max) {
		return refuse_number(option, value, true, why, why_bytes);
	}
	store(option, options, number);
	return 0;
}

static int set_real(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	bool is_real = option->kind == WEIR_OPTION_REAL;
	bool is_seconds = option->kind == WEIR_OPTION_SECONDS;
	double least = is_real ? option->least : (double)option->min;
	double most = is_real ? option->most : (double)option->max;
	double number;

	if (read_real(value, is_seconds ? durations : plain, &number) < 0) {
		return refuse_number(option, value, false, why, why_bytes);
	}
	if (number < least || number > most) {
		return refuse_number(option, value, true, why, why_bytes);
	}
	if (option->kind == WEIR_OPTION_SCALED && number != (double)(uint64_t)number) {
		return refuse_number(option, value, false, why, why_bytes);
	}
	if (is_real) {
		memcpy((uint8_t *)options + option->field, &number, sizeof(number));
	} else {
		store(option, options, (uint64_t)(number + 0.5));
	}
	return 0;
}

static int set_word(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	for (const struct weir_option_word *word = option->words; word->name != NULL; word++) {
		if (strcmp(word->name, value) == 0) {
			store(option, options, (uint64_t)word->number);
			return 0;
		}
	}
	return refuse_word(option, value, why, why_bytes);
}

static int set_text(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	size_t bytes = strlen(value);

	if (bytes < option->min || (option->max > 0 && bytes > option->max)) {
		if (bytes == 0) {
			snprintf(why, why_bytes, "--%s: is empty; use --%s %s", option->name,
				option->name, option->value);
		} else {
			snprintf(why, why_bytes, "--%s: has %zu byte%s; use %llu to %llu bytes",
				option->name, bytes, weir_plural(bytes),
				(unsigned long long)option->min, (unsigned long long)option->max);
		}
		return -EINVAL;
	}
	memcpy((uint8_t *)options + option->field, &value, sizeof(value));
	return 0;
}

int weir_option_set(const struct weir_option *option, const char *value, void *options, char *why,
	size_t why_bytes) {
	const bool yes = true;
	char reason[256] = "";
	int r;

	switch (option->kind) {
	case WEIR_OPTION_FLAG:
		memcpy((uint8_t *)options + option->field, &yes, sizeof(yes));
		return 0;
	case WEIR_OPTION_CONSTANT:
		store(option, options, (uint64_t)option->constant);
		return 0;
	case WEIR_OPTION_TEXT:
		return set_text(option, value, options, why, why_bytes);
	case WEIR_OPTION_NUMBER:
		return set_whole(option, value, options, why, why_bytes);
	case WEIR_OPTION_SCALED:
	case WEIR_OPTION_REAL:
	case WEIR_OPTION_SECONDS:
		return set_real(option, value, options, why, why_bytes);
	case WEIR_OPTION_WORD:
		return set_word(option, value, options, why, why_bytes);
	case WEIR_OPTION_CUSTOM:
		r = option->take(option, value, options, reason, sizeof(reason));
		return r < 0 ? refuse(option, value, reason, why, why_bytes) : 0;
	case WEIR_OPTION_HEADING:
		break;
	}
	return -EINVAL;
}
