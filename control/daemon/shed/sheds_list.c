// SPDX-License-Identifier: BSD-3-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "plural.h"
#include "sheds_private.h"

#define TEXT_BYTES 640

// --- texts ----------------------------------------------------------------------------------

const char *weir_shed_state_name(enum weir_shed_state state) {
	static const char *const names[] = {
#define X(name, key) [WEIR_SHED_##name] = key,
		WEIR_SHED_STATES(X)
#undef X
	};

	return names[state];
}

bool weir_shed_is_running(const struct weir_shed *shed) {
	return shed->state <= WEIR_SHED_STOPPING;
}

const char *weir_shed_describe(const struct weir_shed *shed, char *buffer, size_t bytes) {
	snprintf(buffer, bytes, "%s, %llu connection%s ended, %llu above the mean, at most %g/s",
		weir_shed_state_name((enum weir_shed_state)shed->state),
		(unsigned long long)shed->ended, weir_plural(shed->ended),
		(unsigned long long)shed->level.above, shed->terms.rate);
	return buffer;
}

void weir_shed_note(struct weir_shed *shed, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(shed->why, sizeof(shed->why), format, arguments);
	va_end(arguments);
}

// Log an event of a shed, and record it in the history of its backend.
static void record(const struct weir_sheds *sheds, const struct weir_shed *shed,
	enum weir_log_level level, const char *text) {
	int id = sheds->tables == NULL
			 ? -1
			 : weir_tables_backend_find(sheds->tables, shed->service, shed->backend);

	weir_log_event(sheds->of.log, level,
		&(struct weir_log_fields){
			.service = shed->service, .backend = shed->backend, .reason = text},
		"shed %s/%s: %s", shed->service, shed->backend, text);
	if (id >= 0) {
		weir_states_record(sheds->of.states, (uint16_t)id, "shed", text);
	}
}

// --- the list -------------------------------------------------------------------------------

const struct weir_shed *weir_sheds_find(
	const struct weir_sheds *sheds, const char *service, const char *backend) {
	for (uint32_t i = 0; i < sheds->count; i++) {
		const struct weir_shed *shed = sheds->shed[i];

		if (!shed->terms.dry_run && strcmp(shed->service, service) == 0 &&
			strcmp(shed->backend, backend) == 0) {
			return shed;
		}
	}
	return NULL;
}

void weir_sheds_forget(struct weir_sheds *sheds, const struct weir_shed *shed) {
	for (uint32_t i = 0; i < sheds->count; i++) {
		if (sheds->shed[i] == shed) {
			free(sheds->shed[i]);
			sheds->shed[i] = sheds->shed[--sheds->count];
			return;
		}
	}
}

struct weir_shed *weir_sheds_add(struct weir_sheds *sheds) {
	struct weir_shed *shed = calloc(1, sizeof(*shed));

	if (shed != NULL && sheds->count == sheds->room) {
		uint32_t room = sheds->room * 2 + 8;
		struct weir_shed **grown = realloc(sheds->shed, room * sizeof(*grown));

		if (grown == NULL) {
			free(shed);
			return NULL;
		}
		sheds->shed = grown;
		sheds->room = room;
	}
	if (shed != NULL) {
		sheds->shed[sheds->count++] = shed;
	}
	return shed;
}

// --- begins and ends ------------------------------------------------------------------------

void weir_shed_begin(struct weir_sheds *sheds, struct weir_shed *shed) {
	weir_shed_begun begun = shed->begun;
	char text[TEXT_BYTES];

	shed->begun = NULL;
	snprintf(text, sizeof(text),
		"started: %llu flows, mean %llu, %llu above it; at most %g connections a second "
		"(%s)",
		(unsigned long long)shed->first.flows, (unsigned long long)shed->first.mean,
		(unsigned long long)shed->first.above, shed->terms.rate,
		weir_agent_shed_method_name(shed->method));
	record(sheds, shed, WEIR_LOG_INFO, text);
	begun(shed->context, shed);
}

// Record the end of a shed that had begun, for the user who started it.
static void record_end(
	const struct weir_sheds *sheds, const struct weir_shed *shed, const char *before) {
	char object[WEIR_AUDIT_OBJECT_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
	char text[TEXT_BYTES];
	const struct weir_audit_event event = {.who = shed->who,
		.command = "shed.end",
		.object = object,
		.before = before,
		.after = after,
		.why = shed->why[0] != '\0' ? shed->why : NULL};

	snprintf(object, sizeof(object), "%s/%s", shed->service, shed->backend);
	weir_shed_describe(shed, after, sizeof(after));
	snprintf(text, sizeof(text), "%s%s%s", after, shed->why[0] != '\0' ? ": " : "", shed->why);
	weir_audit_add(sheds->of.audit, &event);
	record(sheds, shed, shed->state == WEIR_SHED_FAILED ? WEIR_LOG_WARN : WEIR_LOG_INFO, text);
}

void weir_shed_end(struct weir_sheds *sheds, struct weir_shed *shed, enum weir_shed_state state) {
	weir_shed_begun begun = shed->begun;
	char before[WEIR_AUDIT_VALUE_BYTES];

	weir_shed_describe(shed, before, sizeof(before));
	shed->state = (uint8_t)state;
	shed->ended_ms = weir_wall_ms();
	shed->begun = NULL;
	if (begun == NULL) {
		record_end(sheds, shed, before);
		return;
	}
	begun(shed->context, shed);
	if (shed->terms.dry_run || (state == WEIR_SHED_FAILED && shed->gone == 0)) {
		weir_sheds_forget(sheds, shed); // it never ran
	}
}
