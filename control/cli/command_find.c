// SPDX-License-Identifier: BSD-3-Clause
//
// Finds a command by its two words, or lists existing commands.
#include "commands.h"

#include <string.h>

#include "terminal.h"

#define NAMES_MAX 64 // maximum number of names

// Collect the names of all objects (object = NULL), or the verbs of one object. Returns the number
// of names.
static uint32_t list_names(const char *object, const char *names[NAMES_MAX]) {
	uint32_t count = 0;

	for (int i = 0; i < weir_cli_command_count && count < NAMES_MAX; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];
		const char *name = object != NULL ? command->verb : command->object;

		if ((object == NULL || strcmp(command->object, object) == 0) && name != NULL &&
			(count == 0 || strcmp(names[count - 1], name) != 0)) {
			names[count++] = name;
		}
	}
	return count;
}

// Write into why that a verb needs an object before it. If the next word is an object that has this
// verb, suggest that command; otherwise list all objects that have the verb. Returns false if the
// word is not a verb.
static bool explain_verb(const char *word, const char *next, char *why, size_t why_bytes) {
	size_t used = (size_t)snprintf(why, why_bytes, "\"%s\" needs an object before it: ", word);
	bool found = false;

	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];

		if (command->verb == NULL || strcmp(command->verb, word) != 0) {
			continue;
		}
		if (next != NULL && strcmp(command->object, next) == 0) {
			snprintf(why, why_bytes,
				"unknown command \"%s %s\"; did you mean \"%s %s\"?", word, next,
				next, word);
			return true;
		}
		if (used < why_bytes) {
			used += (size_t)snprintf(why + used, why_bytes - used, "%s%s %s",
				found ? ", " : "", command->object, word);
		}
		found = true;
	}
	return found;
}

// Verbs of other programs, each with the verb of Weir that has the same meaning.
static const struct {
	const char *verb, *meant;
} foreign_verbs[] = {
	{"undrain", "ready"},
	{"enable", "ready"},
	{"up", "ready"},
	{"disable", "maintenance"},
	{"maint", "maintenance"},
	{"down", "maintenance"},
	{"list", "show"},
	{"get", "show"},
};

// Returns the verb in names[] that has the same meaning as a verb of another program, or NULL.
static const char *find_meant(const char *verb, const char *const names[], uint32_t count) {
	for (size_t i = 0; i < sizeof(foreign_verbs) / sizeof(foreign_verbs[0]); i++) {
		for (uint32_t k = 0; strcmp(foreign_verbs[i].verb, verb) == 0 && k < count; k++) {
			if (strcmp(foreign_verbs[i].meant, names[k]) == 0) {
				return names[k];
			}
		}
	}
	return NULL;
}

// Write into why which verbs an object has. verb: NULL = no verb was given; otherwise an unknown
// verb.
static void explain_object(const char *object, const char *verb, char *why, size_t why_bytes) {
	const char *names[NAMES_MAX];
	uint32_t count = list_names(object, names);
	char what[64];
	size_t used;

	if (verb != NULL) {
		snprintf(what, sizeof(what), "%s verb", object);
		weir_cli_unknown(
			what, verb, find_meant(verb, names, count), names, count, why, why_bytes);
		return;
	}
	used = (size_t)snprintf(why, why_bytes, "\"%s\" needs a verb: ", object);
	for (uint32_t i = 0; i < count && used < why_bytes; i++) {
		used += (size_t)snprintf(
			why + used, why_bytes - used, "%s%s", i > 0 ? ", " : "", names[i]);
	}
}

const struct weir_cli_command *weir_cli_command_find(
	const char *object, const char *verb, char *why, size_t why_bytes) {
	const char *names[NAMES_MAX];
	bool known = false;

	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];

		if (strcmp(command->object, object) != 0) {
			continue;
		}
		known = true;
		if (command->verb == NULL || (verb != NULL && strcmp(command->verb, verb) == 0)) {
			return command;
		}
	}
	if (known) {
		explain_object(object, verb, why, why_bytes);
	} else if (!explain_verb(object, verb, why, why_bytes)) {
		weir_cli_unknown(
			"object", object, NULL, names, list_names(NULL, names), why, why_bytes);
	}
	return NULL;
}
