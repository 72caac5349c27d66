// SPDX-License-Identifier: BSD-3-Clause
#include "import.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 512
#define TIMEOUT_MOST_S 86400

const char *const weir_import_kind_names[] = {
#define X(name, text) [WEIR_IMPORT_##name] = text,
	WEIR_IMPORT_KINDS(X)
#undef X
};

int weir_import_init(struct weir_import *import) {
	*import = (struct weir_import){.instance = json_object(),
		.timeouts = json_object(),
		.services = json_array(),
		.places = json_array(),
		.notes = json_array(),
		.errors = json_array(),
		.names = json_object(),
		.binds = json_object(),
		.hashed = json_object()};
	import->sink = import->notes;
	return import->instance == NULL || import->timeouts == NULL || import->services == NULL ||
			       import->places == NULL || import->notes == NULL ||
			       import->errors == NULL || import->names == NULL ||
			       import->binds == NULL || import->hashed == NULL
		       ? -ENOMEM
		       : 0;
}

void weir_import_fini(struct weir_import *import) {
	json_decref(import->instance);
	json_decref(import->timeouts);
	json_decref(import->services);
	json_decref(import->places);
	json_decref(import->notes);
	json_decref(import->errors);
	json_decref(import->names);
	json_decref(import->binds);
	json_decref(import->hashed);
}

// --- notes and errors ---------------------------------------------------------------------

// Convert text of the source, which may contain any byte, into an ASCII JSON string.
static json_t *printable(const char *text) {
	char copy[REASON_BYTES];

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *c = copy; *c != '\0'; c++) {
		*c = (unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f ? '?' : *c;
	}
	return json_string(copy);
}

void weir_import_note(struct weir_import *import, const struct weir_import_place *place,
	enum weir_import_kind kind, const char *what, const char *format, ...) {
	char why[REASON_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	if (json_array_append_new(import->sink,
		    json_pack("{s:s, s:o, s:i, s:o, s:o}", "kind", weir_import_kind_names[kind],
			    "file", printable(place->file), "line", place->line, "what",
			    printable(what), "why", printable(why))) < 0) {
		import->failed = true;
	}
}

void weir_import_error(struct weir_import *import, const struct weir_import_place *place,
	const char *format, ...) {
	char reason[REASON_BYTES];
	va_list args;

	if (json_array_size(import->errors) >= WEIR_IMPORT_ERRORS_MAX) {
		import->more_errors++;
		return;
	}
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (json_array_append_new(import->errors,
		    json_pack("{s:o, s:i, s:o}", "file", printable(place->file), "line",
			    place->line, "reason", printable(reason))) < 0) {
		import->failed = true;
	}
}

// --- text ---------------------------------------------------------------------------------

json_t *weir_import_place_json(const struct weir_import_place *place) {
	json_t *json = json_pack("{s:s, s:i}", "file", place->file, "line", place->line);

	return json != NULL ? json : json_pack("{s:s, s:i}", "file", "-", "line", place->line);
}

bool weir_import_number(const char *text, uint64_t most, uint64_t *ret) {
	uint64_t number = 0;

	if (text[0] == '\0' || strlen(text) > 18 || text[strspn(text, "0123456789")] != '\0') {
		return false;
	}
	number = strtoull(text, NULL, 10);
	if (number > most) {
		return false;
	}
	*ret = number;
	return true;
}

int weir_import_endpoint(const char *text, struct weir_address *ret, uint16_t *ret_port) {
	char copy[WEIR_IMPORT_TEXT_BYTES + 16];
	char *address = copy, *port = NULL;
	struct weir_address parsed;
	uint64_t number = 0;

	if (strlen(text) >= sizeof(copy)) {
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	if (copy[0] == '[') {
		char *end = strchr(copy, ']');

		if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
			return -EINVAL;
		}
		address = copy + 1;
		port = end[1] == ':' ? end + 2 : NULL;
		*end = '\0';
	} else if (strchr(copy, ':') != NULL && strchr(copy, ':') == strrchr(copy, ':')) {
		port = strchr(copy, ':') + 1;
		port[-1] = '\0';
	}
	if (weir_address_parse(address, &parsed) < 0 ||
		(port != NULL && !weir_import_number(port, UINT16_MAX, &number))) {
		return -EINVAL;
	}
	*ret = parsed;
	*ret_port = (uint16_t)number;
	return 0;
}

// --- timeouts -----------------------------------------------------------------------------

bool weir_import_timeout(struct weir_import *import, const struct weir_import_place *place,
	const char *name, uint64_t seconds) {
	static const char *const names[][2] = {
		{"tcp", "established"}, {"tcpfin", "closing"}, {"udp", "udp"}};
	size_t n = 0;

	while (n < 3 && strcmp(names[n][0], name) != 0) {
		n++;
	}
	if (n == 3) {
		return false;
	}
	if (seconds > TIMEOUT_MOST_S) {
		weir_import_note(import, place, WEIR_IMPORT_DIFFERS, "timeout",
			"%s: above the maximum of Weir; using %d s", name, TIMEOUT_MOST_S);
		seconds = TIMEOUT_MOST_S;
	}
	if (seconds > 0) {
		json_object_set_new(
			import->timeouts, names[n][1], json_integer((json_int_t)seconds * 1000));
	}
	return true;
}
