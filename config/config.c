// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config_keys.h"
#include "text_file.h"

// Reports an error at a byte offset of the text.
static void error_at(
	struct weir_json_reader *reader, const char *text, const char *at, const char *reason) {
	const char *line = text;
	int lines = 1;

	for (const char *c = text; c < at; c++) {
		if (*c == '\n') {
			line = c + 1;
			lines++;
		}
	}
	weir_json_error_file(reader, lines, (int)(at - line) + 1, "%s", reason);
}

// Reports a comma in front of the closing bracket at which jansson has found an error.
static bool has_last_comma(
	struct weir_json_reader *reader, const json_error_t *error, const char *text) {
	int at = error->position - 1;

	if (at < 1 || (text[at] != '}' && text[at] != ']')) {
		return false;
	}
	do {
		at--;
	} while (at > 0 && strchr(" \t\r\n", text[at]) != NULL);
	if (text[at] != ',') {
		return false;
	}
	error_at(reader, text, text + at,
		"not valid JSON: there is no value after this comma; remove the comma; nothing "
		"else was checked");
	return true;
}

static void syntax_error(
	struct weir_json_reader *reader, const json_error_t *error, const char *text) {
	char shown[160];

	weir_printable(error->text, shown, sizeof(shown));
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0) {
		weir_json_error_file(reader, 1, 1,
			"starts with a byte order mark (BOM); save the file as UTF-8 without BOM");
		return;
	}
	if (has_last_comma(reader, error, text)) {
		return;
	}
	switch (json_error_code(error)) {
	case json_error_duplicate_key:
		weir_json_error_file(
			reader, error->line, error->column, "%s; keep one of the two", shown);
		return;
	case json_error_null_character:
	case json_error_null_byte_in_key:
		weir_json_error_file(reader, error->line, error->column,
			"\"\\u0000\" is not allowed in strings; remove it");
		return;
	default:
		weir_json_error_file(reader, error->line, error->column,
			"not valid JSON: %s; %s; nothing else was checked", shown,
			strstr(shown, "near '/") != NULL ? "comments go into a \"comment\" key"
							 : "correct it");
	}
}

// Reports a NUL byte in the text. jansson does not detect a NUL byte after a number.
static bool has_nul(struct weir_json_reader *reader, const char *text, size_t bytes) {
	const char *nul = memchr(text, '\0', bytes);

	if (nul != NULL) {
		error_at(reader, text, nul, "contains a NUL byte; use a text file in UTF-8");
	}
	return nul != NULL;
}

static int read_document(struct weir_json_reader *reader, const struct weir_json_object *keys,
	const char *text, size_t bytes, struct weir_config *config) {
	struct weir_json_index index;
	const struct weir_json_place root = {.node = 0};
	json_error_t error;
	json_t *json;
	int r;

	if (has_nul(reader, text, bytes)) {
		return -EINVAL;
	}
	json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
	if (json == NULL) {
		// jansson leaves the text empty when its own allocation fails.
		if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0') {
			return -ENOMEM;
		}
		syntax_error(reader, &error, text);
		return -EINVAL;
	}
	r = weir_json_index_init(&index, text, bytes);
	if (r == -EINVAL) {
		weir_json_error_file(reader, 0, 0, "not valid JSON; fix it");
	}
	if (r) {
		goto free_json;
	}
	reader->positions = &index;
	weir_json_read(reader, &root, keys, json, config);
	if (reader->errors->count == 0) {
		weir_config_warn(reader, &root, config);
	}
	reader->positions = NULL;
	weir_json_index_fini(&index);
	if (reader->out_of_memory) {
		r = -ENOMEM;
	} else if (reader->errors->count > 0) {
		r = -EINVAL;
	}
free_json:
	json_decref(json);
	return r;
}

int weir_config_parse_keys(const struct weir_json_object *keys, const char *text, size_t bytes,
	struct weir_config **ret, struct weir_config_errors *errors) {
	struct weir_json_reader reader = {.errors = errors};
	struct weir_config *config = calloc(1, keys->bytes);
	int r;

	*errors = (struct weir_config_errors){0};
	if (config == NULL) {
		return -ENOMEM;
	}
	r = read_document(&reader, keys, text, bytes, config);
	weir_json_finish(&reader);
	if (r) {
		weir_config_free(config);
		return r;
	}
	*ret = config;
	return 0;
}

const struct weir_config_service *weir_config_find_service(
	const struct weir_config *config, const char *name) {
	for (uint32_t i = 0; config != NULL && i < config->service_count; i++) {
		if (strcmp(config->services[i].name, name) == 0) {
			return &config->services[i];
		}
	}
	return NULL;
}

int weir_config_parse(const char *text, size_t bytes, struct weir_config **ret,
	struct weir_config_errors *errors) {
	return weir_config_parse_keys(&weir_config_keys, text, bytes, ret, errors);
}

typedef int (*read_file)(const char *file, size_t most, char **ret, size_t *ret_bytes);

// ret_text: gets the text, which the caller frees; NULL = not needed.
static int read_by(read_file read, const char *file, struct weir_config **ret, char **ret_text,
	struct weir_config_errors *errors) {
	struct weir_json_reader reader = {.errors = errors};
	size_t bytes = 0;
	char *text = NULL;
	int r;

	*errors = (struct weir_config_errors){0};
	r = read(file, WEIR_CONFIG_FILE_BYTES_MAX, &text, &bytes);
	if (r == -EINVAL) {
		weir_json_error_file(&reader, 0, 0, "not a regular file");
	} else if (r) {
		weir_json_error_file(&reader, 0, 0, "cannot read: %s", strerror(-r));
	}
	if (r) {
		return r;
	}
	r = weir_config_parse(text, bytes, ret, errors);
	if (r == 0 && ret_text != NULL) {
		*ret_text = text;
	} else {
		free(text);
	}
	return r;
}

int weir_config_read(
	const char *file, struct weir_config **ret, struct weir_config_errors *errors) {
	return read_by(weir_text_file_read, file, ret, NULL, errors);
}

int weir_config_read_text(const char *file, struct weir_config **ret, char **ret_text,
	struct weir_config_errors *errors) {
	return read_by(weir_text_file_read, file, ret, ret_text, errors);
}

int weir_config_read_regular(const char *file, struct weir_config **ret, char **ret_text,
	struct weir_config_errors *errors) {
	return read_by(weir_text_file_read_regular, file, ret, ret_text, errors);
}

void weir_config_free(struct weir_config *config) {
	if (config != NULL) {
		weir_json_free(&weir_config_keys, config);
		free(config);
	}
}

const char *weir_config_policy_misfit(
	const struct weir_config_service *service, enum weir_policy name) {
	return service->hash_fields != WEIR_HASH_FIELDS_TUPLE && name != WEIR_POLICY_MAGLEV
		       ? "hash_fields"
		       : weir_config_unfit_key(&weir_config_policy_keys, &service->policy, name);
}
