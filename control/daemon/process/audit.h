// SPDX-License-Identifier: BSD-3-Clause
//
// Audit: who changed what, when, from what to what, and who was refused. Each record is a line of
// the log, whatever its level, and an entry here, until this process ends.
//
// Who may only look cannot hide anything: refusals have entries of their own, apart from those of
// changes. The same refusal of the same user is one entry with a count, and a line at most every
// WEIR_AUDIT_REPEAT_MS.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config_difference.h"
#include "log.h"

#define WEIR_AUDIT_CHANGES 256 // kept; the oldest gives way
#define WEIR_AUDIT_REFUSALS 64
#define WEIR_AUDIT_ENTRIES (WEIR_AUDIT_CHANGES + WEIR_AUDIT_REFUSALS)
#define WEIR_AUDIT_REPEAT_MS 10000

#define WEIR_AUDIT_OBJECT_BYTES 192
#define WEIR_AUDIT_VALUE_BYTES 320
#define WEIR_AUDIT_WHY_BYTES 256

struct weir_audit_who { // as the kernel reports it
	bool known; // false: a signal, whose sender is not known
	uid_t uid;
	gid_t gid;
	pid_t pid;
};

struct weir_audit_event { // what is too long is cut
	struct weir_audit_who who;
	const char *command; // "backend.drain"
	const char *object; // "web/web-1"; as it was asked for when there is none of that name
	const char *before, *after; // "" = none
	const char *code; // of the refusal; NULL = it was done
	const char *why; // of the refusal, or why the change is not published yet; NULL = nothing
};

struct weir_audit_entry { // texts may end within a character, and hold anything
	uint64_t serial; // 0 = free; later ones are greater
	uint64_t time_ms; // since 1970
	uint64_t logged_ms; // monotonic
	uint32_t times; // above 1: a refusal that was repeated; the rest is of the last one
	uint32_t logged_times; // how many of them were logged
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
void weir_audit_free(struct weir_audit *audit); // NULL is fine

void weir_audit_add(struct weir_audit *audit, const struct weir_audit_event *event);
// All entries, the oldest first; they are good until the next one is added. Returns how many.
uint32_t weir_audit_list(
	const struct weir_audit *audit, const struct weir_audit_entry *ret[WEIR_AUDIT_ENTRIES]);

// What a reload has changed, in one line: "2 changes: add ...; change ...". Returns buffer.
const char *weir_audit_difference(
	const struct weir_difference *difference, char *buffer, size_t bytes);
