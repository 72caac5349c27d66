// SPDX-License-Identifier: BSD-3-Clause
//
// Reports from backends: agent-check lines, with the results of HAProxy 2.6, and ORCA headers.
#include <stdio.h>
#include <string.h>

#include "agent_check.h"
#include "health_state.h"
#include "orca.h"
#include "replay.h"

#define CONFIGURED 100 // weight of the backend before each line
#define TOLERANCE 1e-12

bool replay_reports_recognise(const json_t *root) {
	return replay_has(root, "agent_check") || replay_has(root, "orca");
}

static uint8_t word_of(const char *name) {
	static const struct {
		const char *name;
		enum weir_health_word word;
	} words[] = {
		{"up", WEIR_HEALTH_WORD_READY},
		{"down", WEIR_HEALTH_WORD_DOWN},
		{"ready", WEIR_HEALTH_WORD_READY},
		{"drain", WEIR_HEALTH_WORD_LAME_DUCK},
		{"maint", WEIR_HEALTH_WORD_DOWN},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, name) == 0) {
			return (uint8_t)words[i].word;
		}
	}
	return name[0] == '\0' ? (uint8_t)WEIR_HEALTH_WORD_NONE : UINT8_MAX;
}

// --- agent check: the results of HAProxy ---

struct said {
	struct weir_agent_check agent;
	struct weir_report report;
	char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES];
	bool complete;
};

static void check_haproxy(struct replay *replay, const json_t *vector, const struct said *said) {
	const json_t *seen = json_object_get(vector, "haproxy_2_6");
	const char *status = "no check";
	// HAProxy 2.6 did not support "weight:".
	bool supports_weight = strstr(replay_text(replay, vector, "line", ""), "weight:") == NULL;
	char limit[32] = "";

	if (said->agent.administration == WEIR_HEALTH_WORD_DOWN) {
		status = "MAINT";
	} else if (said->agent.health == WEIR_HEALTH_WORD_DOWN) {
		status = "DOWN (agent)";
	} else if (said->agent.administration == WEIR_HEALTH_WORD_LAME_DUCK) {
		status = "DRAIN (agent)";
	}
	replay_check_text(replay, "status", -1, replay_text(replay, seen, "status", "?"), status);
	replay_check_real(replay, "its weight", -1, replay_real(replay, seen, "weight", -1),
		supports_weight ? weir_report_weight(&said->report, CONFIGURED) : CONFIGURED,
		TOLERANCE);
	if ((said->report.given & WEIR_REPORT(MAX_ACTIVE)) != 0) {
		snprintf(limit, sizeof(limit), "%.0f", said->report.max_active_flows);
	}
	replay_check_text(
		replay, "its maxconn", -1, replay_text(replay, seen, "maxconn", "?"), limit);
}

// --- agent check: the contents of the line ---

// Checks the last health word and the last administrative word of the line. The reason of the
// report begins with the health word, unless the administrative word determined the result.
static void check_words(struct replay *replay, const json_t *parsed, const struct said *said) {
	const char *health = replay_text(replay, parsed, "health", "");
	const char *word = replay_text(replay, parsed, "health_word", "");
	const char *administration = replay_text(replay, parsed, "admin", "");

	replay_check(replay, "health", -1, word_of(health), said->agent.health);
	replay_check(
		replay, "administration", -1, word_of(administration), said->agent.administration);
	if (word[0] != '\0' && word_of(health) >= word_of(administration)) {
		replay_check(replay, word, -1, 0, strncmp(said->report.why, word, strlen(word)));
	}
}

static void check_values(struct replay *replay, const json_t *parsed, const struct said *said) {
	const uint32_t weights = WEIR_REPORT(WEIGHT) | WEIR_REPORT(WEIGHT_PERCENT);
	uint32_t given = said->report.given;

	replay_check(replay, "a weight", -1, replay_has(parsed, "weight"), (given & weights) != 0);
	if (replay_has(parsed, "weight")) {
		replay_check_real(replay, "weight", -1, replay_real(replay, parsed, "weight", -1),
			weir_report_weight(&said->report, CONFIGURED), TOLERANCE);
	}
	replay_check(replay, "a limit", -1, replay_has(parsed, "maxconn"),
		(given & WEIR_REPORT(MAX_ACTIVE)) != 0);
	if (replay_has(parsed, "maxconn")) {
		replay_check_real(replay, "limit", -1, replay_real(replay, parsed, "maxconn", -1),
			said->report.max_active_flows, TOLERANCE);
	}
}

// Checks that the text `got` ends with the expected text. `got` begins with the word to which the
// expected text refers.
static void check_end(
	struct replay *replay, const char *what, const char *expected, const char *got) {
	size_t all = strlen(got), end = strlen(expected);

	replay_check_text(replay, what, -1, expected,
		all > end && expected[0] != '\0' ? got + all - end : got);
}

static void check_remarks(struct replay *replay, const json_t *parsed, const struct said *said) {
	const char *unknown = replay_text(replay, parsed, "unknown_word", NULL);
	const char *broken = replay_text(replay, parsed, "weight_error", NULL);
	const char *description = replay_text(replay, parsed, "description", NULL);
	char complaint[128] = "";

	if (unknown != NULL) {
		snprintf(complaint, sizeof(complaint), "unknown word %s", unknown);
	}
	if (broken != NULL) {
		check_end(replay, "complaint", broken, said->complaint);
	} else {
		replay_check_text(replay, "complaint", -1, complaint, said->complaint);
	}
	if (description != NULL) {
		check_end(replay, "description", description, said->report.why);
	}
}

static void replay_line(struct replay *replay, const json_t *vector) {
	const json_t *parsed = json_object_get(vector, "parsed");
	const char *line = replay_text(replay, vector, "line", "");
	struct said said = {0};

	if (!replay_known_keys(replay, vector, "line haproxy_2_6 parsed") ||
		!replay_known_keys(replay, json_object_get(vector, "haproxy_2_6"),
			"status weight maxconn agent") ||
		!replay_known_keys(replay, parsed,
			"health health_word admin weight maxconn unknown_word weight_error "
			"description error")) {
		return;
	}
	said.complete = weir_agent_check_read(
				&said.agent, line, strlen(line), &said.report, said.complaint) == 0;
	replay_check_text(replay, "error", -1, replay_text(replay, parsed, "error", ""),
		said.complete ? "" : "incomplete line");
	check_haproxy(replay, vector, &said);
	check_words(replay, parsed, &said);
	check_values(replay, parsed, &said);
	check_remarks(replay, parsed, &said);
}

// --- ORCA ---

static double value_of(
	struct replay *replay, const json_t *parsed, const char *first, const char *second) {
	double value = replay_real(replay, parsed, first, 0);

	return value > 0 ? value : replay_real(replay, parsed, second, 0);
}

static void check_report(
	struct replay *replay, const json_t *parsed, const struct weir_report *report) {
	replay_check_real(replay, "requests", -1, value_of(replay, parsed, "rps_fractional", "rps"),
		report->requests_per_second, TOLERANCE);
	replay_check_real(replay, "errors", -1, replay_real(replay, parsed, "eps", 0),
		report->errors_per_second, TOLERANCE);
	replay_check_real(replay, "utilization", -1,
		value_of(replay, parsed, "application_utilization", "cpu_utilization"),
		report->utilization, TOLERANCE);
}

static void replay_header(struct replay *replay, const json_t *vector) {
	const json_t *parsed = json_object_get(vector, "parsed");
	struct weir_report report = {0};
	char line[1024], why[WEIR_ORCA_WHY_BYTES] = "";
	int r;

	if (!replay_known_keys(replay, vector, "header value parsed") ||
		!replay_known_keys(replay, parsed,
			"cpu_utilization mem_utilization rps rps_fractional eps "
			"application_utilization named_metrics request_cost utilization error")) {
		return;
	}
	snprintf(line, sizeof(line), "%s: %s", replay_text(replay, vector, "header", ""),
		replay_text(replay, vector, "value", ""));
	r = weir_orca_header(line, strlen(line), &report, why);
	replay_check(replay, "result", -1, replay_has(parsed, "error") ? -1 : 1, r < 0 ? -1 : r);
	replay_check_text(
		replay, "error", -1, replay_text(replay, parsed, "error", ""), r < 0 ? why : "");
	check_report(replay, parsed, &report);
}

void replay_reports(struct replay *replay, const json_t *root) {
	const json_t *vector;
	size_t i;

	replay_root(replay, root, "agent_check orca");
	json_array_foreach (json_object_get(root, "agent_check"), i, vector) {
		replay_begin(replay, "agent_check[%zu]", i);
		replay_line(replay, vector);
		replay_end(replay);
	}
	json_array_foreach (json_object_get(root, "orca"), i, vector) {
		replay_begin(replay, "orca[%zu]", i);
		replay_header(replay, vector);
		replay_end(replay);
	}
}
