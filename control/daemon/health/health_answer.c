// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "health_answer.h"
#include "health_state.h"

// Knuth, Morris and Pratt: a text that arrives in parts is searched without keeping any.
static void prepare(struct weir_health_answer *answer) {
	const char *text = answer->check->body;
	size_t n = strlen(text);
	uint8_t k = 0;

	answer->border[0] = 0;
	for (size_t i = 1; i < n; i++) {
		while (k > 0 && text[i] != text[k]) {
			k = answer->border[k - 1];
		}
		k += text[i] == text[k];
		answer->border[i] = k;
	}
}

static bool find(struct weir_health_answer *answer, const char *data, size_t bytes) {
	const char *text = answer->check->body;

	for (size_t i = 0; i < bytes; i++) {
		while (answer->matched > 0 && data[i] != text[answer->matched]) {
			answer->matched = answer->border[answer->matched - 1];
		}
		answer->matched += data[i] == text[answer->matched];
		if (text[answer->matched] == '\0') {
			return true;
		}
	}
	return false;
}

static void begin_report(struct weir_health_answer *answer) {
	answer->report = (struct weir_report){.word = WEIR_HEALTH_WORD_NONE};
	answer->complaint[0] = '\0';
}

void weir_health_answer_init(
	struct weir_health_answer *answer, const struct weir_config_health_check *check) {
	answer->check = check;
	answer->body_bytes = 0;
	answer->enough = false;
	answer->matched = 0;
	answer->found = check->body[0] == '\0';
	begin_report(answer);
	prepare(answer);
}

// Whether the value, without spaces around it, is this word, in any case.
static bool is_word(const char *value, size_t bytes, const char *word) {
	return bytes == strlen(word) && strncasecmp(value, word, bytes) == 0;
}

static void take_state(struct weir_health_answer *answer, const char *value, size_t bytes) {
	for (unsigned int word = WEIR_HEALTH_WORD_NONE + 1; word < WEIR_HEALTH_WORD_COUNT; word++) {
		if (is_word(value, bytes, weir_health_word_name((enum weir_health_word)word))) {
			answer->report.word = (uint8_t)word;
		}
	}
}

static void take_load(struct weir_health_answer *answer, const char *line, size_t bytes) {
	char why[WEIR_ORCA_WHY_BYTES];

	if (weir_orca_header(line, bytes, &answer->report, why) < 0 &&
		answer->complaint[0] == '\0') {
		memcpy(answer->complaint, why, sizeof(answer->complaint));
	}
}

static bool is_space(char c) {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void weir_health_answer_header(struct weir_health_answer *answer, const char *line, size_t bytes) {
	const char *colon = memchr(line, ':', bytes), *value, *end = line + bytes;
	size_t name_bytes;

	if (bytes >= 5 && memcmp(line, "HTTP/", 5) == 0) {
		begin_report(answer);
		return;
	}
	if (colon == NULL) {
		return;
	}
	name_bytes = (size_t)(colon - line);
	value = colon + 1;
	while (value < end && is_space(*value)) {
		value++;
	}
	while (end > value && is_space(end[-1])) {
		end--;
	}
	if (is_word(line, name_bytes, "X-Weir-State")) {
		take_state(answer, value, (size_t)(end - value));
	} else if (answer->check->orca) {
		take_load(answer, line, bytes);
	}
}

bool weir_health_answer_body(struct weir_health_answer *answer, const char *data, size_t bytes) {
	size_t room = WEIR_HEALTH_BODY_BYTES - answer->body_bytes;
	bool all = bytes <= room;

	if (!answer->found) {
		answer->found = find(answer, data, all ? bytes : room);
		answer->enough = answer->found;
	}
	answer->body_bytes += all ? bytes : room;
	answer->enough |= !all;
	return !answer->enough;
}

enum weir_probe_outcome weir_health_answer_judge(
	struct weir_health_answer *answer, long status, char *detail, size_t bytes) {
	const struct weir_config_health_check *check = answer->check;
	enum weir_health_word word = (enum weir_health_word)answer->report.word;
	bool good = status >= check->status_first && status <= check->status_last;

	if (word != WEIR_HEALTH_WORD_NONE) {
		snprintf(detail, bytes, "HTTP %ld, %s", status, weir_health_word_name(word));
		weir_report_set_why(&answer->report, detail, strlen(detail));
	}
	if (word != WEIR_HEALTH_WORD_NONE && word != WEIR_HEALTH_WORD_READY) {
		return word == WEIR_HEALTH_WORD_DOWN ? WEIR_PROBE_FAILED : WEIR_PROBE_PASSED;
	}
	if (good && !answer->found) {
		snprintf(detail, bytes, "HTTP %ld, body without \"%.60s\"", status, check->body);
		return WEIR_PROBE_FAILED;
	}
	snprintf(detail, bytes, "HTTP %ld%s%.60s", status,
		answer->complaint[0] != '\0' ? "; load refused: " : "", answer->complaint);
	return good ? WEIR_PROBE_PASSED : WEIR_PROBE_FAILED;
}
