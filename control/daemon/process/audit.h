// SPDX-License-Identifier: BSD-3-Clause
//
// Audit: records changes and refused requests, with the user, the time, and the values before and
// after the change. Writes each change to the log, regardless of the log level, and keeps the
// latest records in memory until this process exits.
//
// Refusals have separate entries, so that users without permission cannot evict the entries of
// changes. Repeated refusals (same user, command, outcome, object and reason) share one entry with
// a count, and are logged at most once per WEIR_AUDIT_REPEAT_MS. Objects and reasons can contain
// names from requests, so a user who sends requests with many different names could evict the
// refusals of other users. Therefore each user has at most WEIR_AUDIT_REASONS entries with the same
// command and outcome; a new refusal replaces the oldest of them.
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config_difference.h"
#include "log.h"

// Maximum numbers of entries: changes, refusals, and refusals of one user with the same command and
// outcome. A new entry replaces the oldest.
#define WEIR_AUDIT_CHANGES 256
#define WEIR_AUDIT_REFUSALS 64
#define WEIR_AUDIT_REASONS 8
#define WEIR_AUDIT_ENTRIES (WEIR_AUDIT_CHANGES + WEIR_AUDIT_REFUSALS)
#define WEIR_AUDIT_REPEAT_MS 10000

#define WEIR_AUDIT_OBJECT_BYTES 192
#define WEIR_AUDIT_VALUE_BYTES 320
#define WEIR_AUDIT_WHY_BYTES 1024 // holds the longest error text of the API and of a reload

struct weir_audit_who { // the user, as the kernel reports it
	bool known; // false: a signal, whose sender is unknown
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

struct weir_audit_event { // an event to record; long texts are truncated
	struct weir_audit_who who;
	const char *command; // "backend.drain"
	const char *object; // "web/web-1"; for an unknown object, the text of the request
	const char *before, *after; // "" = none
	const char *code; // code of a refusal; NULL = done
	const char *why; // reason of a refusal, or why a change is not published yet; NULL = none
};

// An entry of the audit. Texts may be truncated within a UTF-8 character, and may contain any byte.
struct weir_audit_entry {
	uint64_t serial; // serial number, greater in newer entries; 0 = free
	uint64_t time_ms; // since 1970
	uint64_t logged_ms; // time of the last log line for this entry, monotonic
	uint32_t times; // number of equal refusals; the other fields describe the last of them
	// Number of refusals since the last log line. Includes refusals with other objects or
	// reasons for which this entry was used before.
	uint32_t unlogged;
	struct weir_audit_who who;
	char command[32];
	char object[WEIR_AUDIT_OBJECT_BYTES];
	char before[WEIR_AUDIT_VALUE_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
	char outcome[16]; // "done", or the code of the refusal
	char why[WEIR_AUDIT_WHY_BYTES];
};

struct weir_audit;

// Creates an empty audit. log: borrowed. clock_ms: returns monotonic milliseconds; NULL =
// CLOCK_MONOTONIC is used. Returns 0 or -ENOMEM.
int weir_audit_create(
	const struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_audit **ret);
void weir_audit_free(struct weir_audit *audit); // NULL is allowed

void weir_audit_add(struct weir_audit *audit, const struct weir_audit_event *event);
// Lists all entries, the oldest first. *ret is valid until the next weir_audit_add. Returns the
// number of entries.
uint32_t weir_audit_list(
	const struct weir_audit *audit, const struct weir_audit_entry *ret[WEIR_AUDIT_ENTRIES]);

// Writes the changes of a reload as one line, such as "2 changes: add ...; change ...". Returns
// buffer.
const char *weir_audit_difference(
	const struct weir_difference *difference, char *buffer, size_t bytes);
