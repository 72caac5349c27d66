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

#define WEIR_SUBJECT_BYTES 128 // "service/backend", each name of the maximum length

// Levels of findings, the least severe first. X(NAME, "text in the table and in JSON").
#define WEIR_FINDING_LEVELS(X) \
	X(OK, "ok") \
	X(NOTICE, "notice") \
	X(WARNING, "warning") \
	X(FAULT, "fault")

// Start of a cure that adds an IPv4 VIP to lo. Without these settings, the host would answer ARP
// requests for a VIP in its subnet, and get the packets of all clients.
#define WEIR_CURE_ARP \
	"sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 && "

enum weir_finding_level {
#define X(name, text) WEIR_FINDING_##name,
	WEIR_FINDING_LEVELS(X)
#undef X
		WEIR_FINDING_LEVEL_COUNT
};

struct weir_finding {
	enum weir_finding_level level;
	const char *check; // name of the check, borrowed
	char subject[WEIR_SUBJECT_BYTES]; // the object that was checked
	char found[640];
	char cure[352]; // a shell command; "" = none
};

struct weir_findings { // initialize to zero
	struct weir_finding *list;
	uint32_t count, room;
	const char *check; // name of the check that the next findings belong to
	bool out_of_memory; // out of memory: the list is incomplete
};

void weir_findings_fini(struct weir_findings *findings);

// Adds a finding without a command.
void weir_findings_add(struct weir_findings *findings, enum weir_finding_level level,
	const char *subject, const char *format, ...) __attribute__((format(printf, 4, 5)));
// Sets the command that fixes the problem of the last added finding.
void weir_findings_cure(struct weir_findings *findings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

// Merges findings with the same level, the same command and, apart from numbers and durations, the
// same text, such as a fault of a host that is a backend of several services. Findings without a
// command are not merged. The merged finding names as many subjects as fit, and contains the number
// of the remaining subjects. first: index of the first finding to merge; earlier findings are
// unchanged.
void weir_findings_group(struct weir_findings *findings, uint32_t first);

// Limits findings above OK with the same level and, apart from words with digits, such as
// addresses, the same text: keeps the first WEIR_FINDINGS_ALIKE, and adds a finding with the number
// of the others. Other findings are unchanged. first: index of the first finding to limit.
#define WEIR_FINDINGS_ALIKE 32u
void weir_findings_limit(struct weir_findings *findings, uint32_t first);

enum weir_finding_level weir_findings_worst(const struct weir_findings *findings);
// Returns the exit status: 0 if no finding is worse than a notice, 1 for warnings, 2 for faults or
// if out of memory.
int weir_findings_exit(const struct weir_findings *findings);

// Prints the table. A command is printed on a separate line, after "$ ".
void weir_findings_print(const struct weir_findings *findings, FILE *out);
// Returns the findings as JSON: {worst, findings: [{level, check, subject, found, cure}]}, owned by
// the caller. If out of memory, returns NULL and sets out_of_memory.
json_t *weir_findings_json(struct weir_findings *findings);
