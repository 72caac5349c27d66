// SPDX-License-Identifier: BSD-3-Clause
#include "import.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_BYTES 512
#define FILE_BYTES 256 // of a name in a note

static const char *const kind_names[] = {
#define X(name, text) [WEIR_IMPORT_##name] = text,
	WEIR_IMPORT_KINDS(X)
#undef X
};

int weir_import_init(struct weir_import *import) {
	*import = (struct weir_import){.instance = json_object(),
		.timeouts = json_object(),
		.services = json_array(),
		.lines = json_array(),
		.notes = json_array(),
		.errors = json_array(),
		.names = json_object(),
		.binds = json_object()};
	return import->instance == NULL || import->timeouts == NULL || import->services == NULL ||
			       import->lines == NULL || import->notes == NULL ||
			       import->errors == NULL || import->names == NULL ||
			       import->binds == NULL
		       ? -ENOMEM
		       : 0;
}

void weir_import_fini(struct weir_import *import) {
	json_decref(import->instance);
	json_decref(import->timeouts);
	json_decref(import->services);
	json_decref(import->lines);
	json_decref(import->notes);
	json_decref(import->errors);
	json_decref(import->names);
	json_decref(import->binds);
}

// --- notes and errors ---------------------------------------------------------------------

// Text of the source, which may contain any byte. In JSON it becomes ASCII.
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
	if (json_array_append_new(
		    import->notes, json_pack("{s:s, s:o, s:i, s:o, s:o}", "kind", kind_names[kind],
					   "file", printable(place->file), "line", place->line,
					   "what", printable(what), "why", printable(why))) < 0) {
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

// --- order --------------------------------------------------------------------------------

struct numbered {
	json_t *note;
	json_int_t line;
	size_t file, place; // in source order
};

static int by_place(const void *a, const void *b) {
	const struct numbered *left = a, *right = b;

	if (left->file != right->file) {
		return left->file < right->file ? -1 : 1;
	}
	if ((left->line == 0) != (right->line == 0)) { // entries without a line come last
		return left->line == 0 ? 1 : -1;
	}
	if (left->line != right->line) {
		return left->line < right->line ? -1 : 1;
	}
	return left->place < right->place ? -1 : 1;
}

// Notes that are found only at the end of a service are sorted to their lines.
static void sort_notes(struct weir_import *import) {
	size_t count = json_array_size(import->notes), i;
	struct numbered *list = calloc(count + 1, sizeof(*list));
	json_t *files = json_object(), *sorted = json_array(), *note;

	if (list == NULL || files == NULL || sorted == NULL) {
		import->failed = true;
	} else {
		json_array_foreach (import->notes, i, note) {
			const char *file = json_string_value(json_object_get(note, "file"));
			json_int_t known = (json_int_t)json_object_size(files);

			if (json_object_get(files, file) == NULL) {
				json_object_set_new(files, file, json_integer(known));
			}
			list[i] = (struct numbered){.note = note,
				.line = json_integer_value(json_object_get(note, "line")),
				.file = (size_t)json_integer_value(json_object_get(files, file)),
				.place = i};
		}
		qsort(list, count, sizeof(*list), by_place);
		for (i = 0; i < count; i++) {
			json_array_append(sorted, list[i].note);
		}
		json_decref(import->notes);
		import->notes = json_incref(sorted);
	}
	free(list);
	json_decref(files);
	json_decref(sorted);
}

// --- the configuration --------------------------------------------------------------------

static void limit_of(json_t *segment, const char *key, size_t needed, size_t usual) {
	if (needed > usual) {
		json_object_set_new(segment, key, json_integer((json_int_t)needed));
	}
}

static json_t *whole(struct weir_import *import) {
	json_t *segment = json_object();
	json_t *config = json_pack("{s:O*, s:[{s:s, s:s, s:s}], s:{s:[i]}, s:{s:O}, s:o, s:O}",
		"instance", json_object_size(import->instance) > 0 ? import->instance : NULL,
		"ports", "comment", "the interface that packets to the VIPs arrive at", "name",
		"wan", "device", "net_af_xdp0,iface=eth0", "workers", "cores", 0, "flow_table",
		"timeout_ms", import->timeouts, "segment", segment, "services", import->services);

	if (config == NULL) {
		return NULL;
	}
	limit_of(segment, "max_services", json_array_size(import->services), 1024);
	limit_of(segment, "max_backends", import->backends, 16384);
	if (json_object_size(segment) == 0) {
		json_object_del(config, "segment");
	}
	if (json_object_size(import->timeouts) == 0) {
		json_object_del(config, "flow_table");
	}
	return config;
}

// The generated configuration is validated by the daemon's own reader; a configuration with errors
// is not printed.
static void check(
	struct weir_import *import, const struct weir_import_place *source, const char *text) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	int r = weir_config_parse(text, strlen(text), &config, &errors);

	if (r == -ENOMEM) {
		import->failed = true;
	}
	for (uint32_t i = 0; r < 0 && i < errors.count; i++) {
		const struct weir_config_error *error = &errors.error[i];
		struct weir_import_place place = *source;
		unsigned int service;

		place.line = 0;
		if (sscanf(error->path, "services[%u]", &service) == 1) {
			const json_t *line = json_array_get(import->lines, service);

			place.file = json_string_value(json_object_get(line, "file"));
			place.line = (int)json_integer_value(json_object_get(line, "line"));
		}
		weir_import_error(import, &place, "as %s of Weir: %s", error->path, error->reason);
	}
	weir_config_errors_fini(&errors);
	weir_config_free(config);
}

char *weir_import_finish(struct weir_import *import, const struct weir_import_place *source) {
	json_t *config;
	char *text = NULL;

	if (json_array_size(import->errors) == 0 && json_array_size(import->services) == 0) {
		weir_import_error(
			import, source, "no virtual service that Weir can import; see the notes");
	}
	if (json_array_size(import->errors) > 0) {
		sort_notes(import);
		return NULL;
	}
	weir_import_note(import, &(struct weir_import_place){.file = source->file},
		WEIR_IMPORT_ADJUST, "ports",
		"the source does not name an interface: set iface= of ports[0].device, "
		"workers.cores and, equal on all balancers, instance.hash_seed");
	sort_notes(import);
	config = whole(import);
	if (config != NULL) {
		text = json_dumps(config, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		json_decref(config);
	}
	if (text != NULL) {
		check(import, source, text);
	} else {
		import->failed = true;
	}
	if (import->failed || json_array_size(import->errors) > 0) {
		free(text);
		return NULL;
	}
	return text;
}
