// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>

#include "health_answer.h"

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

void weir_health_answer_init(
	struct weir_health_answer *answer, const struct weir_config_health_check *check) {
	answer->check = check;
	answer->body_bytes = 0;
	answer->enough = false;
	answer->matched = 0;
	answer->found = check->body[0] == '\0';
	prepare(answer);
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
	const struct weir_health_answer *answer, long status, char *detail, size_t bytes) {
	const struct weir_config_health_check *check = answer->check;

	if (status < check->status_first || status > check->status_last || answer->found) {
		snprintf(detail, bytes, "HTTP %ld", status);
		return status >= check->status_first && status <= check->status_last
			       ? WEIR_PROBE_PASSED
			       : WEIR_PROBE_FAILED;
	}
	snprintf(detail, bytes, "HTTP %ld, body without \"%.60s\"", status, check->body);
	return WEIR_PROBE_FAILED;
}
