// SPDX-License-Identifier: BSD-3-Clause
#include "audit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "log_line.h"

#define LINE_BYTES WEIR_LOG_MESSAGE_BYTES
#define WHO_BYTES 80
#define MORE_BYTES 24 // size of "; and 4294967295 more"

struct weir_audit {
	const struct weir_log *log;
	uint64_t (*clock_ms)(void);
	uint64_t serial; // serial number of the last entry
	struct weir_audit_entry changes[WEIR_AUDIT_CHANGES];
	struct weir_audit_entry refusals[WEIR_AUDIT_REFUSALS];
};

int weir_audit_create(
	const struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_audit **ret) {
	struct weir_audit *audit = calloc(1, sizeof(*audit));

	if (audit == NULL) {
		return -ENOMEM;
	}
	audit->log = log;
	audit->clock_ms = clock_ms != NULL ? clock_ms : weir_monotonic_ms;
	*ret = audit;
	return 0;
}

void weir_audit_free(struct weir_audit *audit) {
	free(audit);
}

// --- log line -----------------------------------------------------------------------------

static const char *who_text(const struct weir_audit_who *who, char *buffer) {
	if (!who->known) {
		snprintf(buffer, WHO_BYTES, "SIGHUP");
	} else {
		snprintf(buffer, WHO_BYTES, "uid %u, gid %u, pid %d", (unsigned int)who->uid,
			(unsigned int)who->gid, (int)who->pid);
	}
	return buffer;
}

static void emit(const struct weir_audit *audit, const struct weir_audit_entry *entry,
	enum weir_log_level level, const char *line) {
	char uid[16] = "", gid[16] = "", pid[16] = "";
	const struct weir_log_fields fields = {.command = entry->command,
		.object = entry->object,
		.before = entry->before,
		.after = entry->after,
		.outcome = entry->outcome,
		.reason = entry->why,
		.peer_uid = uid,
		.peer_gid = gid,
		.peer_pid = pid};

	if (entry->who.known) {
		snprintf(uid, sizeof(uid), "%u", (unsigned int)entry->who.uid);
		snprintf(gid, sizeof(gid), "%u", (unsigned int)entry->who.gid);
		snprintf(pid, sizeof(pid), "%d", (int)entry->who.pid);
	}
	weir_log_emit(audit->log, level, &fields, line);
}

static void log_entry(const struct weir_audit *audit, const struct weir_audit_entry *entry) {
	const bool done = strcmp(entry->outcome, "done") == 0;
	const char *arrow = entry->before[0] != '\0' && done ? " -> " : "";
	char line[LINE_BYTES], who[WHO_BYTES], times[48] = "";

	if (entry->unlogged > 1) {
		snprintf(times, sizeof(times), ", %u refusals since the last log line",
			entry->unlogged);
	}
	snprintf(line, sizeof(line), "audit: %s%s%s: %s%s%s%s%s (%s)%s", entry->command,
		entry->object[0] != '\0' ? " " : "", entry->object, done ? entry->before : "",
		arrow, done ? entry->after : entry->outcome, entry->why[0] != '\0' ? ": " : "",
		entry->why, who_text(&entry->who, who), times);
	emit(audit, entry, done ? WEIR_LOG_INFO : WEIR_LOG_WARN, line);
}

// --- entries ------------------------------------------------------------------------------

// Returns a free entry, or the oldest entry if no entry is free.
static struct weir_audit_entry *oldest(struct weir_audit_entry *entries, uint32_t count) {
	struct weir_audit_entry *found = &entries[0];

	for (uint32_t i = 1; i < count; i++) {
		found = entries[i].serial < found->serial ? &entries[i] : found;
	}
	return found;
}

static bool is_alike(const struct weir_audit_entry *entry, const struct weir_audit_event *event) {
	return entry->serial != 0 && entry->who.known == event->who.known &&
	       entry->who.uid == event->who.uid && strcmp(entry->command, event->command) == 0 &&
	       strcmp(entry->outcome, event->code) == 0;
}

// Returns whether a refusal has the same object and reason as an entry, whose texts may be
// truncated.
static bool is_repeated(
	const struct weir_audit_entry *entry, const struct weir_audit_event *event) {
	return strncmp(entry->object, event->object, sizeof(entry->object) - 1) == 0 &&
	       strncmp(entry->why, event->why != NULL ? event->why : "", sizeof(entry->why) - 1) ==
		       0;
}

// Returns the entry to reuse for a refusal, or NULL. It is the entry of the same user for the same
// refusal or, if the user already has WEIR_AUDIT_REASONS entries with this command and outcome, the
// oldest of these entries.
static struct weir_audit_entry *find_repeated(
	struct weir_audit *audit, const struct weir_audit_event *event) {
	struct weir_audit_entry *found = NULL;
	uint32_t alike = 0;

	for (uint32_t i = 0; i < WEIR_AUDIT_REFUSALS; i++) {
		struct weir_audit_entry *entry = &audit->refusals[i];

		if (!is_alike(entry, event)) {
			continue;
		}
		if (is_repeated(entry, event)) {
			return entry;
		}
		alike++;
		found = found == NULL || entry->serial < found->serial ? entry : found;
	}
	return alike >= WEIR_AUDIT_REASONS ? found : NULL;
}

static void fill(struct weir_audit *audit, struct weir_audit_entry *entry,
	const struct weir_audit_event *event) {
	entry->serial = ++audit->serial;
	entry->time_ms = weir_wall_ms();
	entry->who = event->who;
	snprintf(entry->command, sizeof(entry->command), "%s", event->command);
	snprintf(entry->object, sizeof(entry->object), "%s", event->object);
	snprintf(entry->before, sizeof(entry->before), "%s", event->before);
	snprintf(entry->after, sizeof(entry->after), "%s", event->after);
	snprintf(entry->outcome, sizeof(entry->outcome), "%s",
		event->code != NULL ? event->code : "done");
	snprintf(entry->why, sizeof(entry->why), "%s", event->why != NULL ? event->why : "");
}

static void add_refusal(struct weir_audit *audit, const struct weir_audit_event *event) {
	struct weir_audit_entry *entry = find_repeated(audit, event);
	uint64_t now = audit->clock_ms();

	if (entry == NULL) {
		entry = oldest(audit->refusals, WEIR_AUDIT_REFUSALS);
		entry->times = entry->unlogged = 0;
		entry->logged_ms = now - WEIR_AUDIT_REPEAT_MS;
	} else if (!is_repeated(entry, event)) {
		// Reuse the entry for this refusal, but do not reset logged_ms, which limits the
		// rate of log lines.
		entry->times = 0;
	}
	fill(audit, entry, event);
	entry->times += entry->times < UINT32_MAX;
	entry->unlogged += entry->unlogged < UINT32_MAX;
	if (now - entry->logged_ms >= WEIR_AUDIT_REPEAT_MS) {
		log_entry(audit, entry);
		entry->unlogged = 0;
		entry->logged_ms = now;
	}
}

void weir_audit_add(struct weir_audit *audit, const struct weir_audit_event *event) {
	struct weir_audit_entry *entry;

	if (event->code != NULL) {
		add_refusal(audit, event);
		return;
	}
	entry = oldest(audit->changes, WEIR_AUDIT_CHANGES);
	fill(audit, entry, event);
	entry->times = entry->unlogged = 1;
	log_entry(audit, entry);
}

static int by_serial(const void *a, const void *b) {
	const struct weir_audit_entry *const *left = a, *const *right = b;

	return (*left)->serial < (*right)->serial ? -1 : 1;
}

uint32_t weir_audit_list(
	const struct weir_audit *audit, const struct weir_audit_entry *ret[WEIR_AUDIT_ENTRIES]) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < WEIR_AUDIT_ENTRIES; i++) {
		const struct weir_audit_entry *entry =
			i < WEIR_AUDIT_CHANGES ? &audit->changes[i]
					       : &audit->refusals[i - WEIR_AUDIT_CHANGES];

		if (entry->serial != 0) {
			ret[count++] = entry;
		}
	}
	qsort(ret, count, sizeof(*ret), by_serial);
	return count;
}

const char *weir_audit_difference(
	const struct weir_difference *difference, char *buffer, size_t bytes) {
	char line[WEIR_AUDIT_VALUE_BYTES];
	size_t used = (size_t)snprintf(
		buffer, bytes, "%u change%s", difference->count, difference->count == 1 ? "" : "s");

	for (uint32_t i = 0; i < difference->count; i++) {
		weir_change_format(&difference->change[i], line, sizeof(line));
		if (used + strlen(line) + 2 + MORE_BYTES >= bytes) {
			snprintf(buffer + used, bytes - used, "; and %u more",
				difference->count - i);
			break;
		}
		used += (size_t)snprintf(
			buffer + used, bytes - used, "%s%s", i == 0 ? ": " : "; ", line);
	}
	return buffer;
}
