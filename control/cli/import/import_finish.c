// SPDX-License-Identifier: BSD-3-Clause
//
// Finishes an import: writes the configuration as text that weir-control accepts, and sorts the
// notes in the order of the source.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "import_refused.h"

// --- order --------------------------------------------------------------------------------

struct numbered {
	json_t *note;
	json_int_t line;
	size_t file, place; // number of the file, in the order of the notes; index of the note
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

// Sort the notes by file and line, because some notes are added only at the end of a service.
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
		"ports", "comment", "the interface that receives packets to the VIPs", "name",
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

// Validate the text like weir-control. Returns true if the text is valid. If parts are invalid,
// leaves them out and returns false: the caller then prints and validates again. If no invalid part
// can be left out, adds errors and returns true. If out of memory, sets `failed`.
static bool is_final(
	struct weir_import *import, const struct weir_import_place *source, const char *text) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	int r = weir_config_parse(text, strlen(text), &config, &errors);
	bool final = r >= 0;

	if (r == -ENOMEM) {
		import->failed = true;
	}
	if (r < 0 && !import->failed && !weir_import_leave_out_refused(import, &errors)) {
		final = true;
		for (uint32_t i = 0; i < errors.count; i++) {
			weir_import_error(import, &(struct weir_import_place){.file = source->file},
				"invalid value for %s of the configuration: %s",
				errors.error[i].path, errors.error[i].reason);
		}
	}
	weir_config_errors_fini(&errors);
	weir_config_free(config);
	return final;
}

static char *print(struct weir_import *import) {
	json_t *config = whole(import);
	char *text = config != NULL ? json_dumps(config, JSON_INDENT(2) | JSON_ENSURE_ASCII) : NULL;

	json_decref(config);
	import->failed |= text == NULL;
	return text;
}

char *weir_import_finish(struct weir_import *import, const struct weir_import_place *source) {
	const struct weir_import_place file = {.file = source->file};
	bool final = false;
	char *text = NULL;

	while (!final && !import->failed && json_array_size(import->errors) == 0) {
		free(text);
		text = NULL;
		if (json_array_size(import->services) == 0) {
			weir_import_error(import, source, "no virtual service %s",
				json_array_size(import->notes) > 0
					? "that Weir can import; see the notes"
					: "found; check whether this is the right file");
			break;
		}
		text = print(import);
		final = text != NULL && is_final(import, source, text);
	}
	if (final && json_array_size(import->errors) == 0) {
		weir_import_note(import, &file, WEIR_IMPORT_ADJUST, "ports",
			"the source has no interface, CPU cores or hash seed: set "
			"ports[0].device (iface=), workers.cores, and the same instance.hash_seed "
			"on all balancers");
	}
	sort_notes(import);
	if (import->failed || json_array_size(import->errors) > 0) {
		free(text);
		return NULL;
	}
	return text;
}
