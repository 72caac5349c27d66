// SPDX-License-Identifier: BSD-3-Clause
//
// Findings: the results of `weirctl doctor` and `weir-agent doctor`, as a table or as JSON.
//
// Threads: a list is used by one thread. No logging.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Name, and text of both outputs. The worst level sets the exit status.
#define WEIR_FINDING_LEVELS(X) \
	X(OK, "ok") \
	X(NOTICE, "notice") \
	X(WARNING, "warning") \
	X(FAULT, "fault")

enum weir_finding_level {
#define X(name, text) WEIR_FINDING_##name,
	WEIR_FINDING_LEVELS(X)
#undef X
		WEIR_FINDING_LEVEL_COUNT
};

struct weir_finding {
	enum weir_finding_level level;
	const char *check; // borrowed: its name in the table of checks
	char subject[96]; // what was checked
	char found[448];
	char cure[320]; // a shell command; "" = none
};

struct weir_findings { // zeroed at first
	struct weir_finding *list;
	uint32_t count, room;
	const char *check; // for findings added from now on
	bool out_of_memory; // out of memory: the list is incomplete
};

void weir_findings_fini(struct weir_findings *findings);

// Add a finding without a remedy.
void weir_findings_add(struct weir_findings *findings, enum weir_finding_level level,
	const char *subject, const char *format, ...) __attribute__((format(printf, 4, 5)));
// The command that fixes the finding added last.
void weir_findings_cure(struct weir_findings *findings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

enum weir_finding_level weir_findings_worst(const struct weir_findings *findings);
// 0 nothing above notice, 1 warnings, 2 faults.
int weir_findings_exit(const struct weir_findings *findings);

// Print the table; a command is a line of its own that begins with "$ ".
void weir_findings_print(const struct weir_findings *findings, FILE *out);
// {worst, findings: [{level, check, subject, found, cure}]}; owned by the caller. NULL = out of
// memory.
json_t *weir_findings_json(const struct weir_findings *findings);
