// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as reports of a backend without an agent: agent-check lines,
// headers of an HTTP response, and ORCA in all its formats. An accepted report must have valid
// values; a refused report must change nothing and have a reason.
//
// The first byte of an input: A = agent-check lines, H = header line, J = JSON body, T = data
// after TEXT, B = data after BIN, before it is encoded in base64.
#include <errno.h>
#include <sodium.h>

#include "agent_check.h"
#include "fuzz.h"
#include "health_state.h"
#include "orca.h"
#include "orca_private.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	(void)argc;
	(void)argv;
	return sodium_init() < 0;
}

static void check_text(const char *text, size_t room) {
	REQUIRE(strnlen(text, room) < room);
	for (; *text != '\0'; text++) {
		REQUIRE(*text >= ' ' && *text <= '~');
	}
}

static void check_report(const struct weir_report *report) {
	struct weir_report again = *report;

	REQUIRE(weir_report_check(&again) == 0);
	REQUIRE(again.given == report->given && again.word == report->word);
	REQUIRE(report->word < WEIR_HEALTH_WORD_COUNT);
	check_text(report->why, sizeof(report->why));
	for (uint32_t field = 0; field < WEIR_REPORT_FIELD_COUNT; field++) {
		REQUIRE(weir_report_value(&again, field) == weir_report_value(report, field));
	}
	REQUIRE(weir_report_weight(report, 100) >= 0 && weir_report_weight(report, 100) <= 1000);
}

// --- agent check: each line is an answer of one agent ---

static size_t line_bytes(const char *text, size_t bytes) {
	size_t n = 0;

	while (n < bytes && text[n] != '\n' && text[n] != '\r') {
		n++;
	}
	return n < bytes ? n + 1 : n;
}

static void agent_check(const char *text, size_t bytes) {
	struct weir_agent_check agent = {0}, before;
	char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES];
	struct weir_report report = {0};

	while (bytes > 0) {
		size_t n = line_bytes(text, bytes);
		bool complete = text[n - 1] == '\n' || text[n - 1] == '\r';
		int r;

		before = agent;
		r = weir_agent_check_read(&agent, text, n, &report, complaint);
		REQUIRE(r == (complete ? 0 : -ENODATA));
		if (r == 0) {
			check_text(complaint, sizeof(complaint));
			check_report(&report);
			REQUIRE(agent.health <= WEIR_HEALTH_WORD_DOWN &&
				agent.health != WEIR_HEALTH_WORD_LAME_DUCK);
			REQUIRE(agent.administration <= WEIR_HEALTH_WORD_DOWN);
			// If a line announces no health or administrative state, the state of an
			// earlier line remains valid.
			REQUIRE(agent.health != WEIR_HEALTH_WORD_NONE ||
				before.health == WEIR_HEALTH_WORD_NONE);
			REQUIRE(report.word == WEIR_HEALTH_WORD_NONE ||
				report.word >= agent.health);
		} else {
			REQUIRE(memcmp(&agent, &before, sizeof(agent)) == 0);
		}
		text += n;
		bytes -= n;
	}
}

// --- ORCA ---

static bool is_same(const void *a, const void *b, size_t bytes) {
	return memcmp(a, b, bytes) == 0;
}

static void expect_consistent(int r, const struct weir_report *before,
	const struct weir_report *report, const char *why) {
	if (r < 0) {
		REQUIRE(r == -EINVAL && why[0] != '\0');
		check_text(why, WEIR_ORCA_WHY_BYTES);
		REQUIRE(is_same(report, before, sizeof(*before)));
	} else {
		check_report(report);
		REQUIRE((before->given & ~report->given) == 0);
	}
}

static void take_header(const char *prefix, const char *text, size_t bytes) {
	struct weir_report report = {.given = WEIR_REPORT(CPUS), .cpus = 2}, before;
	char why[WEIR_ORCA_WHY_BYTES] = "";
	size_t n = strlen(prefix);
	// a buffer of exact size, so that ASan detects reads beyond its end
	char *line = malloc(n + bytes > 0 ? n + bytes : 1);
	int r;

	REQUIRE(line != NULL);
	memcpy(&before, &report, sizeof(report));
	for (size_t i = 0; i < n; i++) {
		line[i] = prefix[i];
	}
	memcpy(line + n, text, bytes);
	r = weir_orca_header(line, n + bytes, &report, why);
	REQUIRE(r <= 1 && (n == 0 || r != 0));
	expect_consistent(r, &before, &report, why);
	free(line);
}

// Reads from a buffer of exact size, so that ASan detects a read beyond its end.
static void read_binary(const char *text, size_t bytes) {
	char why[WEIR_ORCA_WHY_BYTES] = "";
	struct orca orca = {.why = why};
	uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
	int r;

	REQUIRE(exact != NULL);
	memcpy(exact, text, bytes);
	r = orca_read_binary(&orca, exact, bytes);
	REQUIRE(r == 0 || (r == -EINVAL && why[0] != '\0'));
	for (uint32_t i = 0; i < orca.names; i++) {
		REQUIRE(orca.named[i].name.bytes > 0);
		fuzz_touch((const uint8_t *)orca.named[i].name.text, orca.named[i].name.bytes);
	}
	free(exact);
}

static void take_binary(const char *text, size_t bytes) {
	size_t room = sodium_base64_encoded_len(bytes, sodium_base64_VARIANT_ORIGINAL);
	char *base64 = malloc(room);

	REQUIRE(base64 != NULL);
	sodium_bin2base64(
		base64, room, (const uint8_t *)text, bytes, sodium_base64_VARIANT_ORIGINAL);
	take_header("endpoint-load-metrics: BIN ", base64, strlen(base64));
	free(base64);
	read_binary(text, bytes);
}

static void take_json(const char *text, size_t bytes) {
	struct weir_report report = {.given = WEIR_REPORT(CPUS), .cpus = 2}, before;
	char why[WEIR_ORCA_WHY_BYTES] = "";

	memcpy(&before, &report, sizeof(report));
	expect_consistent(weir_orca_json(text, bytes, &report, why), &before, &report, why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	const char *text = (const char *)data + 1;

	if (bytes == 0) {
		return 0;
	}
	bytes--;
	switch (data[0]) {
	case 'A':
		agent_check(text, bytes);
		break;
	case 'H':
		take_header("", text, bytes);
		break;
	case 'J':
		take_json(text, bytes);
		break;
	case 'T':
		take_header("endpoint-load-metrics: TEXT ", text, bytes);
		break;
	case 'B':
		take_binary(text, bytes);
		break;
	default:
		break;
	}
	return 0;
}
