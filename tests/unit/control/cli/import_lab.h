// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of weirctl import: imports a text in the format of another load balancer.
#pragma once

#include "cli_lab.h"

#include <errno.h>
#include <jansson.h>

#include "config.h"
#include "import.h"
#include "ipvs.h"
#include "keepalived.h"

#define FILE_NAME "source"
#define IPVS_NOTES 2 // every import from IPVS has two notes: about ports and health checks

struct lab {
	struct weir_import import;
	char *text; // text of the result, or NULL
	json_t *config;
};

static inline int no_file(void *context, const char *from, const char *pattern, unsigned int n,
	char **ret_name, char **ret_text, size_t *ret_bytes) {
	(void)context;
	(void)from;
	if (strcmp(pattern, "self") == 0 && n == 0) {
		*ret_name = strdup("self");
		*ret_text = strdup("include self\n");
		*ret_bytes = strlen(*ret_text);
		return 0;
	}
	if (strcmp(pattern, "many") == 0) {
		*ret_name = strdup("many");
		*ret_text = strdup("");
		return 0;
	}
	return strcmp(pattern, "long") == 0 ? -ENAMETOOLONG : -ENOENT;
}

static inline struct lab import(const char *text, bool keepalived, const char *id) {
	const struct weir_keepalived_files files = {.open = no_file, .id = id};
	const struct weir_import_place source = {.file = FILE_NAME};
	struct lab lab = {0};

	assert_int_equal(weir_import_init(&lab.import), 0);
	if (keepalived) {
		weir_import_keepalived(&lab.import, &files, FILE_NAME, text, strlen(text));
	} else {
		weir_import_ipvs(&lab.import, FILE_NAME, text, strlen(text));
	}
	lab.text = weir_import_finish(&lab.import, &source);
	assert_false(lab.import.failed);
	if (lab.text != NULL) {
		struct weir_config_errors errors;
		struct weir_config *config;

		assert_int_equal(
			weir_config_parse(lab.text, strlen(lab.text), &config, &errors), 0);
		weir_config_errors_fini(&errors);
		weir_config_free(config);
		lab.config = json_loads(lab.text, 0, NULL);
	}
	return lab;
}

static inline void done(struct lab *lab) {
	json_decref(lab->config);
	free(lab->text);
	weir_import_fini(&lab->import);
}

static inline const json_t *service(const struct lab *lab, size_t n) {
	return json_array_get(json_object_get(lab->config, "services"), n);
}

// Returns a backend of the first service, or NULL.
static inline const json_t *backend(const struct lab *lab, size_t n) {
	return json_array_get(json_object_get(service(lab, 0), "backends"), n);
}

static inline const char *policy(const struct lab *lab, size_t n) {
	return json_string_value(
		json_object_get(json_object_get(service(lab, n), "policy"), "name"));
}

static inline bool has_row(const json_t *rows, const char *key, int line, const char *part) {
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		if (json_integer_value(json_object_get(row, "line")) == line &&
			strstr(json_string_value(json_object_get(row, key)), part) != NULL) {
			return true;
		}
	}
	return false;
}

static inline void expect_note(const struct lab *lab, int line, const char *part) {
	if (!has_row(lab->import.notes, "why", line, part) &&
		!has_row(lab->import.notes, "what", line, part)) {
		fail_msg("no note of line %d has \"%s\": %s", line, part,
			json_dumps(lab->import.notes, JSON_INDENT(1)));
	}
}

static inline size_t notes_of_kind(const struct lab *lab, const char *kind) {
	const json_t *row;
	size_t i, count = 0;

	json_array_foreach (lab->import.notes, i, row) {
		count += strcmp(json_string_value(json_object_get(row, "kind")), kind) == 0;
	}
	return count;
}

static inline const char *text_in(const json_t *object, const char *name) {
	return json_string_value(json_object_get(object, name));
}

static inline json_int_t number_in(const json_t *object, const char *name) {
	return json_integer_value(json_object_get(object, name));
}

struct refusal {
	const char *text;
	int line;
	const char *reason;
};

static inline void expect_refusals(const struct refusal *refusals, size_t count, bool keepalived) {
	for (size_t i = 0; i < count; i++) {
		struct lab lab = import(refusals[i].text, keepalived, NULL);

		assert_null(lab.text);
		if (!has_row(lab.import.errors, "reason", refusals[i].line, refusals[i].reason)) {
			fail_msg("%s: %s", refusals[i].text, json_dumps(lab.import.errors, 0));
		}
		done(&lab);
	}
}
