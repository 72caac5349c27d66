// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "append.h"
#include "health_answer.h"
#include "health_state.h"

static void begin_report(struct weir_health_answer *answer) {
	answer->report = (struct weir_report){.word = WEIR_HEALTH_WORD_NONE};
	answer->complaint[0] = '\0';
	answer->has_unknown_state = false;
	answer->has_load = false;
	answer->grpc_status = -1;
	answer->grpc_message[0] = '\0';
}

void weir_health_answer_init(
	struct weir_health_answer *answer, const struct weir_config_health_check *check) {
	answer->check = check;
	answer->grpc_bytes = 0;
	answer->enough = false;
	answer->status = 0;
	begin_report(answer);
	weir_health_body_init(&answer->body, &check->url);
}

void weir_health_answer_fini(struct weir_health_answer *answer) {
	weir_health_body_fini(&answer->body);
}

// Returns whether the trimmed value equals this word, ignoring case.
static bool is_word(const char *value, size_t bytes, const char *word) {
	return bytes == strlen(word) && strncasecmp(value, word, bytes) == 0;
}

// Keeps the start of the first unknown state. Bytes that are not printable ASCII become '?'.
static void keep_unknown_state(struct weir_health_answer *answer, const char *value, size_t bytes) {
	const size_t most = sizeof(answer->unknown_state) - 1, n = bytes < most ? bytes : most;

	if (answer->has_unknown_state) {
		return;
	}
	for (size_t i = 0; i < n; i++) {
		answer->unknown_state[i] = value[i] >= ' ' && value[i] <= '~' ? value[i] : '?';
	}
	answer->unknown_state[n] = '\0';
	answer->has_unknown_state = true;
}

static void take_state(struct weir_health_answer *answer, const char *value, size_t bytes) {
	for (unsigned int word = WEIR_HEALTH_WORD_NONE + 1; word < WEIR_HEALTH_WORD_COUNT; word++) {
		if (is_word(value, bytes, weir_health_word_name((enum weir_health_word)word))) {
			answer->report.word = (uint8_t)word;
			return;
		}
	}
	keep_unknown_state(answer, value, bytes);
}

static void take_load(struct weir_health_answer *answer, const char *line, size_t bytes) {
	char why[WEIR_ORCA_WHY_BYTES];
	int r = weir_orca_header(line, bytes, &answer->report, why);

	answer->has_load |= r > 0;
	if (r < 0 && answer->complaint[0] == '\0') {
		memcpy(answer->complaint, why, sizeof(answer->complaint));
	}
}

// Reads the status of gRPC, which is in the trailers. libcurl passes trailers as headers.
static void take_grpc_status(struct weir_health_answer *answer, const char *value, size_t bytes) {
	int status = 0;

	for (size_t i = 0; i < bytes && i < 3; i++) {
		if (value[i] < '0' || value[i] > '9') {
			return;
		}
		status = status * 10 + (value[i] - '0');
	}
	answer->grpc_status = bytes > 0 ? status : -1;
}

static bool is_space(char c) {
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Parse a status line: "HTTP/1.1 200 OK", "HTTP/2 200". Returns the status, 0 = invalid.
static int read_status(const char *line, size_t bytes) {
	const char *digit = memchr(line, ' ', bytes), *end = line + bytes;
	int status = 0;

	for (int i = 0; digit != NULL && i < 3; i++) {
		digit++;
		if (digit == end || *digit < '0' || *digit > '9') {
			return 0;
		}
		status = status * 10 + (*digit - '0');
	}
	return status;
}

// Returns whether the headers alone determine the outcome. The headers are not sufficient if the
// response is interim (1xx), if the check is of type gRPC (the body contains the result), or if the
// status is good and the check tests the body.
static bool is_decided(const struct weir_health_answer *answer) {
	const struct weir_config_health_check *check = answer->check;
	bool good = answer->status >= check->url.status_first &&
		    answer->status <= check->url.status_last;

	return check->type != WEIR_CHECK_GRPC && answer->status >= 200 &&
	       (!weir_config_tests_body(&check->url) || !good);
}

static void take_field(struct weir_health_answer *answer, const char *line, size_t bytes) {
	const char *colon = memchr(line, ':', bytes), *value, *end = line + bytes;
	size_t name_bytes;

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
	} else if (is_word(line, name_bytes, "grpc-status")) {
		take_grpc_status(answer, value, (size_t)(end - value));
	} else if (is_word(line, name_bytes, "grpc-message")) {
		snprintf(answer->grpc_message, sizeof(answer->grpc_message), "%.*s",
			(int)(end - value), value);
	} else if (answer->check->orca) {
		take_load(answer, line, bytes);
	}
}

bool weir_health_answer_header(struct weir_health_answer *answer, const char *line, size_t bytes) {
	if (bytes >= 5 && memcmp(line, "HTTP/", 5) == 0) {
		begin_report(answer);
		answer->status = read_status(line, bytes);
	} else if (bytes > 0 && (line[0] == '\r' || line[0] == '\n')) {
		answer->enough |= is_decided(answer);
	} else {
		take_field(answer, line, bytes);
	}
	return !answer->enough;
}

static bool take_grpc(struct weir_health_answer *answer, const char *data, size_t bytes) {
	if (answer->grpc_bytes < sizeof(answer->grpc)) {
		size_t room = sizeof(answer->grpc) - answer->grpc_bytes;

		memcpy(answer->grpc + answer->grpc_bytes, data, bytes < room ? bytes : room);
	}
	answer->grpc_bytes += bytes;
	return answer->grpc_bytes <= WEIR_HEALTH_BODY_BYTES;
}

bool weir_health_answer_body(struct weir_health_answer *answer, const char *data, size_t bytes) {
	answer->enough = !(answer->check->type == WEIR_CHECK_GRPC
				   ? take_grpc(answer, data, bytes)
				   : weir_health_body_take(&answer->body, data, bytes));
	return !answer->enough;
}

// Describes an unknown state. For a common word of other programs, suggests the state to use.
static void describe_unknown_state(
	const struct weir_health_answer *answer, char *text, size_t bytes) {
	static const struct {
		const char *word;
		enum weir_health_word means;
	} others[] = {
		{"up", WEIR_HEALTH_WORD_READY},
		{"healthy", WEIR_HEALTH_WORD_READY},
		{"drain", WEIR_HEALTH_WORD_LAME_DUCK},
		{"draining", WEIR_HEALTH_WORD_LAME_DUCK},
		{"lameduck", WEIR_HEALTH_WORD_LAME_DUCK},
		{"lame_duck", WEIR_HEALTH_WORD_LAME_DUCK},
		{"maint", WEIR_HEALTH_WORD_DOWN},
		{"maintenance", WEIR_HEALTH_WORD_DOWN},
		{"fail", WEIR_HEALTH_WORD_DOWN},
		{"stopped", WEIR_HEALTH_WORD_DOWN},
	};
	const char *state = answer->unknown_state;
	int used = snprintf(text, bytes, "X-Weir-State: unknown state \"%s\"", state);

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcasecmp(state, others[i].word) == 0) {
			snprintf(text + used, bytes - (size_t)used, ", use \"%s\"",
				weir_health_word_name(others[i].means));
		}
	}
}

// Appends the description of the unknown state to the detail, if there is an unknown state.
static void append_unknown_state(
	const struct weir_health_answer *answer, char *detail, size_t bytes) {
	char text[96];

	if (answer->has_unknown_state) {
		describe_unknown_state(answer, text, sizeof(text));
		weir_append(detail, bytes, "; %s", text);
	}
}

// Appends the error in the load report, if there is one.
static void describe_load(const struct weir_health_answer *answer, char *detail, size_t bytes) {
	if (answer->complaint[0] != '\0') {
		weir_append(detail, bytes, "; invalid load report: %.60s", answer->complaint);
	} else if (answer->has_load && answer->report.given == 0) {
		weir_append(detail, bytes, "; load report without a value that Weir uses");
	}
}

static enum weir_probe_outcome judge_grpc(
	const struct weir_health_answer *answer, long status, char *detail, size_t bytes) {
	int serving;

	if (status != 200) {
		snprintf(detail, bytes, "HTTP %ld, not gRPC", status);
		append_unknown_state(answer, detail, bytes);
		return WEIR_PROBE_FAILED;
	}
	if (answer->grpc_status != 0) {
		snprintf(detail, bytes, "%s%s%s",
			answer->grpc_status < 0 ? "response has no grpc-status"
						: weir_grpc_status_name(answer->grpc_status),
			answer->grpc_message[0] != '\0' ? ": " : "", answer->grpc_message);
		append_unknown_state(answer, detail, bytes);
		return WEIR_PROBE_FAILED;
	}
	serving = answer->grpc_bytes <= sizeof(answer->grpc)
			  ? weir_grpc_answer(answer->grpc, answer->grpc_bytes)
			  : -1;
	snprintf(detail, bytes, "%s",
		serving < 0 ? "response is not a grpc.health.v1 message"
			    : weir_grpc_serving_name(serving));
	append_unknown_state(answer, detail, bytes);
	describe_load(answer, detail, bytes);
	return serving == WEIR_GRPC_SERVING ? WEIR_PROBE_PASSED : WEIR_PROBE_FAILED;
}

static enum weir_probe_outcome judge_http(
	struct weir_health_answer *answer, long status, char *detail, size_t bytes) {
	const struct weir_config_health_check *check = answer->check;
	bool good = status >= check->url.status_first && status <= check->url.status_last;
	enum weir_probe_outcome outcome = good ? WEIR_PROBE_PASSED : WEIR_PROBE_FAILED;

	if (!good && status < 400) { // the server reports no error: name the expected range as well
		snprintf(detail, bytes, "HTTP %ld, expected %u to %u", status,
			check->url.status_first, check->url.status_last);
	} else {
		snprintf(detail, bytes, "HTTP %ld", status);
	}
	if (good) {
		outcome = weir_health_body_judge(&answer->body, detail, bytes);
	}
	append_unknown_state(answer, detail, bytes);
	if (outcome == WEIR_PROBE_PASSED || !good) {
		describe_load(answer, detail, bytes);
	}
	return outcome;
}

enum weir_probe_outcome weir_health_answer_judge(
	struct weir_health_answer *answer, long status, char *detail, size_t bytes) {
	enum weir_health_word word = (enum weir_health_word)answer->report.word;

	if (word != WEIR_HEALTH_WORD_NONE) {
		snprintf(detail, bytes, "HTTP %ld, %s", status, weir_health_word_name(word));
		weir_report_set_why(&answer->report, detail, strlen(detail));
	} else if (answer->has_unknown_state) {
		describe_unknown_state(answer, detail, bytes);
		weir_report_set_why(&answer->report, detail, strlen(detail));
	}
	if (word != WEIR_HEALTH_WORD_NONE && word != WEIR_HEALTH_WORD_READY) {
		append_unknown_state(answer, detail, bytes);
		return word == WEIR_HEALTH_WORD_DOWN ? WEIR_PROBE_FAILED : WEIR_PROBE_PASSED;
	}
	return answer->check->type == WEIR_CHECK_GRPC ? judge_grpc(answer, status, detail, bytes)
						      : judge_http(answer, status, detail, bytes);
}
