// SPDX-License-Identifier: BSD-3-Clause
//
// Audit: records changes and refused requests with user, time, and values before and after. Each
// record is a line of the log, whatever its level, and an entry here until this process ends.
//
// Refusals have separate entries, so that users without permission cannot evict changes. Refusals
// of a command for the same object and reason are one entry of a user with a count, and one line
// per WEIR_AUDIT_REPEAT_MS at most. Both may contain names of the request, so those of a command
// and an outcome have at most WEIR_AUDIT_REASONS entries of a user, the newest.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config_difference.h"
#include "log.h"

#define WEIR_AUDIT_CHANGES 256 // kept; the oldest is replaced
#define WEIR_AUDIT_REFUSALS 64
#define WEIR_AUDIT_REASONS 8
#define WEIR_AUDIT_ENTRIES (WEIR_AUDIT_CHANGES + WEIR_AUDIT_REFUSALS)
#define WEIR_AUDIT_REPEAT_MS 10000

#define WEIR_AUDIT_OBJECT_BYTES 192
#define WEIR_AUDIT_VALUE_BYTES 320
#define WEIR_AUDIT_WHY_BYTES 256

struct weir_audit_who { // as the kernel reports it
	bool known; // false: a signal, whose sender is unknown
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

struct weir_audit_event { // long texts are truncated
	struct weir_audit_who who;
	const char *command; // "backend.drain"
	const char *object; // "web/web-1"; as requested if it does not exist
	const char *before, *after; // "" = none
	const char *code; // of the refusal; NULL = done
	const char *why; // of the refusal, or of not being published yet; NULL = none
};

struct weir_audit_entry { // texts may end within a character, and contain any byte
	uint64_t serial; // 0 = free; later ones are greater
	uint64_t time_ms; // since 1970
	uint64_t logged_ms; // monotonic
	uint32_t times; // above 1: a repeated refusal; the other fields are of the last one
	uint32_t unlogged; // refusals, with those of replaced reasons, since the last line
	struct weir_audit_who who;
	char command[32];
	char object[WEIR_AUDIT_OBJECT_BYTES];
	char before[WEIR_AUDIT_VALUE_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
	char outcome[16]; // "done", or the code
	char why[WEIR_AUDIT_WHY_BYTES];
};

struct weir_audit;

// log: borrowed. clock_ms: monotonic milliseconds; NULL for CLOCK_MONOTONIC. Returns 0 or -ENOMEM.
int weir_audit_create(
	const struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_audit **ret);
void weir_audit_free(struct weir_audit *audit); // NULL is allowed

void weir_audit_add(struct weir_audit *audit, const struct weir_audit_event *event);
// List all entries, oldest first; valid until the next weir_audit_add. Returns their number.
uint32_t weir_audit_list(
	const struct weir_audit *audit, const struct weir_audit_entry *ret[WEIR_AUDIT_ENTRIES]);

// The changes of a reload in one line: "2 changes: add ...; change ...". Returns buffer.
const char *weir_audit_difference(
	const struct weir_difference *difference, char *buffer, size_t bytes);
