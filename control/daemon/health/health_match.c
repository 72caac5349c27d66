// SPDX-License-Identifier: BSD-3-Clause
#include "health_match.h"

#include <stdio.h>
#include <string.h>

#define HEX_SHOWN 12u // bytes that are shown in hexadecimal digits
#define WANTED_SHOWN 24u // characters of the expected text that are shown
#define SHOWN_BYTES (WEIR_HEALTH_MATCH_SHOWN + 3) // with two quotes and the NUL

// Prepares the search. The Knuth-Morris-Pratt algorithm is used, because it needs no buffer even if
// the answer arrives in parts.
static void prepare(struct weir_health_match *match) {
	const uint8_t *wanted = match->wanted;
	uint8_t k = 0;

	match->border[0] = 0;
	for (size_t i = 1; i < match->wanted_bytes; i++) {
		while (k > 0 && wanted[i] != wanted[k]) {
			k = match->border[k - 1];
		}
		k += wanted[i] == wanted[k];
		match->border[i] = k;
	}
}

void weir_health_match_init(
	struct weir_health_match *match, const void *wanted, size_t wanted_bytes, bool anywhere) {
	match->wanted = wanted;
	match->wanted_bytes = wanted_bytes;
	match->anywhere = anywhere;
	match->hex = false;
	match->matched = 0;
	match->bytes = 0;
	if (anywhere) {
		prepare(match);
	}
}

void weir_health_match_expect(
	struct weir_health_match *match, const struct weir_config_health_check *check) {
	const uint8_t *wanted;
	const size_t bytes = weir_config_bytes_to_expect(check, &wanted);

	weir_health_match_init(match, wanted, bytes, check->match == WEIR_MATCH_SUBSTRING);
	match->hex = check->expect_hex.count > 0;
}

// Searches for the expected bytes anywhere in the answer.
static enum weir_health_match_result search(
	struct weir_health_match *match, const uint8_t *data, size_t bytes) {
	for (size_t i = 0; i < bytes; i++) {
		while (match->matched > 0 && data[i] != match->wanted[match->matched]) {
			match->matched = match->border[match->matched - 1];
		}
		match->matched += data[i] == match->wanted[match->matched];
		if (match->matched == match->wanted_bytes) {
			return WEIR_HEALTH_MATCH_FOUND;
		}
	}
	return WEIR_HEALTH_MATCH_MORE;
}

// Compares the start of the answer with the expected bytes.
static enum weir_health_match_result compare(
	struct weir_health_match *match, const uint8_t *data, size_t bytes) {
	const size_t left = match->wanted_bytes - match->matched, n = bytes < left ? bytes : left;

	if (memcmp(data, match->wanted + match->matched, n) != 0) {
		return WEIR_HEALTH_MATCH_OTHER;
	}
	match->matched += (uint8_t)n;
	return match->matched == match->wanted_bytes ? WEIR_HEALTH_MATCH_FOUND
						     : WEIR_HEALTH_MATCH_MORE;
}

enum weir_health_match_result weir_health_match_take(
	struct weir_health_match *match, const void *data, size_t bytes) {
	if (match->bytes < sizeof(match->first)) {
		const size_t room = sizeof(match->first) - match->bytes;

		memcpy(match->first + match->bytes, data, bytes < room ? bytes : room);
	}
	match->bytes += bytes;
	return match->anywhere ? search(match, data, bytes) : compare(match, data, bytes);
}

// Writes the first line of a text in quotes. Bytes that are not printable ASCII become '?'.
static void quote(const uint8_t *data, size_t bytes, size_t most, char *text, size_t text_bytes) {
	char line[WEIR_HEALTH_MATCH_SHOWN + 1];
	size_t n = 0;

	while (n < bytes && n < most && data[n] != '\r' && data[n] != '\n') {
		line[n] = data[n] >= ' ' && data[n] <= '~' ? (char)data[n] : '?';
		n++;
	}
	line[n] = '\0';
	snprintf(text, text_bytes, "\"%s\"", line);
}

static void show(
	const uint8_t *data, size_t bytes, bool hex, size_t most, char *text, size_t text_bytes) {
	size_t used = 0;

	if (!hex) {
		quote(data, bytes, most, text, text_bytes);
		return;
	}
	text[0] = '\0';
	for (size_t i = 0; i < bytes && i < HEX_SHOWN && used < text_bytes; i++) {
		used += (size_t)snprintf(text + used, text_bytes - used, "%02x", data[i]);
	}
}

static const char *show_answer(const struct weir_health_match *match, char *text, size_t bytes) {
	const size_t most = sizeof(match->first), n = match->bytes < most ? match->bytes : most;

	show(match->first, n, match->hex, most, text, bytes);
	return text;
}

void weir_health_match_passed(const struct weir_health_match *match, char *detail, size_t bytes) {
	char answer[SHOWN_BYTES];

	snprintf(detail, bytes, "answer %s", show_answer(match, answer, sizeof(answer)));
}

void weir_health_match_failed(
	const struct weir_health_match *match, const char *when, char *detail, size_t bytes) {
	char answer[SHOWN_BYTES], wanted[SHOWN_BYTES];

	show(match->wanted, match->wanted_bytes, match->hex, WANTED_SHOWN, wanted, sizeof(wanted));
	snprintf(detail, bytes, "answer %s%s%s%s", show_answer(match, answer, sizeof(answer)),
		match->anywhere ? " without " : " instead of ", wanted, when);
}
