// SPDX-License-Identifier: BSD-3-Clause
#include "scenario_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

#define PROBLEMS_MAX 100u
#define NS_PER_MS 1e6
#define KEYS_MAX 64u

static void write_path(const struct weir_sim_at *at, char *path, size_t bytes) {
	size_t used;

	if (at->parent == NULL) {
		path[0] = '\0';
		return;
	}
	write_path(at->parent, path, bytes);
	used = strlen(path);
	if (at->key != NULL) {
		snprintf(path + used, bytes - used, "%s%s", used > 0 ? "." : "", at->key);
	} else {
		snprintf(path + used, bytes - used, "[%u]", at->index);
	}
}

// The value of a path, in the variant or in what it is a variant of. What is in neither stands
// where its parent does.
static uint32_t find_node(struct weir_sim_reader *reader, char *path, size_t bytes) {
	char inside[sizeof(((struct weir_sim_problem *)NULL)->path)];
	char shorter[sizeof(inside)];
	uint32_t node;

	snprintf(shorter, sizeof(shorter), "%s", path);
	for (;;) {
		char *dot;

		snprintf(inside, sizeof(inside), "variants[%d]%s%.100s", reader->variant,
			shorter[0] != '\0' ? "." : "", shorter);
		node = reader->variant >= 0 ? weir_json_find(reader->positions, inside)
					    : WEIR_JSON_NO_NODE;
		if (node != WEIR_JSON_NO_NODE) {
			snprintf(inside, sizeof(inside), "variants[%d]%s%.120s", reader->variant,
				path[0] != '\0' ? "." : "", path);
			snprintf(path, bytes, "%s", inside);
			return node;
		}
		node = weir_json_find(reader->positions, shorter);
		if (node != WEIR_JSON_NO_NODE || shorter[0] == '\0') {
			return node;
		}
		dot = strrchr(shorter, '.');
		if (dot == NULL) {
			dot = shorter;
		}
		*dot = '\0';
	}
}

static bool known_problem(
	const struct weir_sim_problems *problems, const struct weir_sim_problem *problem) {
	for (uint32_t i = 0; i < problems->count; i++) {
		if (problems->problem[i].line == problem->line &&
			strcmp(problems->problem[i].path, problem->path) == 0 &&
			strcmp(problems->problem[i].reason, problem->reason) == 0) {
			return true;
		}
	}
	return false;
}

static void add(struct weir_sim_reader *reader, struct weir_sim_problem *problem,
	const char *format, va_list arguments) {
	struct weir_sim_problems *problems = reader->problems;

	vsnprintf(problem->reason, sizeof(problem->reason), format, arguments);
	for (char *c = problem->reason; *c != '\0'; c++) {
		*c = *c >= 0x20 && *c < 0x7f ? *c : '?';
	}
	for (char *c = problem->path; *c != '\0'; c++) {
		*c = *c >= 0x20 && *c < 0x7f ? *c : '?';
	}
	if (problems->count >= PROBLEMS_MAX || known_problem(problems, problem)) {
		return;
	}
	if (problems->problem == NULL) {
		problems->problem = calloc(PROBLEMS_MAX, sizeof(*problem));
		if (problems->problem == NULL) {
			reader->out_of_memory = true;
			return;
		}
	}
	problems->problem[problems->count++] = *problem;
}

void weir_sim_problem_add(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const char *key, const char *format, ...) {
	struct weir_sim_at member = {.parent = at, .key = key};
	struct weir_sim_problem problem = {0};
	uint32_t node;
	va_list arguments;

	write_path(key != NULL ? &member : at, problem.path, sizeof(problem.path));
	node = find_node(reader, problem.path, sizeof(problem.path));
	if (node != WEIR_JSON_NO_NODE) {
		const struct weir_json_node *value = &reader->positions->node[node];

		problem.line = (int)(value->key_line > 0 ? value->key_line : value->line);
		problem.column = (int)(value->key_line > 0 ? value->key_column : value->column);
	}
	va_start(arguments, format);
	add(reader, &problem, format, arguments);
	va_end(arguments);
}

void weir_sim_problem_add_file(
	struct weir_sim_reader *reader, int line, int column, const char *format, ...) {
	struct weir_sim_problem problem = {.line = line, .column = column};
	va_list arguments;

	va_start(arguments, format);
	add(reader, &problem, format, arguments);
	va_end(arguments);
}

static const char *kind_of(const json_t *json) {
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a number";
	case JSON_REAL:
		return "a number with a fraction or exponent";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	default:
		return "null";
	}
}

static bool wrong_kind(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const json_t *json, const char *wanted) {
	weir_sim_problem_add(reader, at, NULL, "must be %s, not %s", wanted, kind_of(json));
	return false;
}

static bool read_number(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, const json_t *json, double *ret) {
	bool whole = key->kind == WEIR_SIM_KEY_INTEGER;
	double value;

	if (!json_is_number(json) || (whole && !json_is_integer(json))) {
		return wrong_kind(reader, at, json, whole ? "a whole number" : "a number");
	}
	value = json_number_value(json);
	if (!(value >= key->min && value <= key->max)) {
		weir_sim_problem_add(reader, at, NULL, "%.10g is out of range; use %.10g to %.10g",
			value, key->min, key->max);
		return false;
	}
	*ret = value;
	return true;
}

static bool read_string(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, const json_t *json, char *field) {
	size_t room = key->kind == WEIR_SIM_KEY_NAME ? WEIR_SIM_NAME_BYTES : WEIR_SIM_TEXT_BYTES;
	const char *text = json_string_value(json);
	size_t bytes;

	if (text == NULL) {
		return wrong_kind(reader, at, json, "a string");
	}
	bytes = strlen(text);
	if (bytes >= room || (key->kind == WEIR_SIM_KEY_NAME && bytes == 0)) {
		weir_sim_problem_add(
			reader, at, NULL, "has %zu characters; use at most %zu", bytes, room - 1);
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		bool good = key->kind == WEIR_SIM_KEY_NAME
				    ? islower((unsigned char)text[i]) ||
					      isdigit((unsigned char)text[i]) ||
					      (i > 0 && strchr("-_", text[i]) != NULL)
				    : text[i] >= 0x20 && text[i] < 0x7f;

		if (!good) {
			weir_sim_problem_add(reader, at, NULL,
				key->kind == WEIR_SIM_KEY_NAME
					? "may have small letters, digits, '-' and '_' only"
					: "may have printable ASCII characters only");
			return false;
		}
	}
	memcpy(field, text, bytes + 1);
	return true;
}

static bool read_choice(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, const json_t *json, uint32_t *field) {
	const char *text = json_string_value(json);
	char all[240] = "";

	if (text == NULL) {
		return wrong_kind(reader, at, json, "a string");
	}
	for (const struct weir_sim_choice *choice = key->choices; choice->name != NULL; choice++) {
		size_t used = strlen(all);

		if (strcmp(choice->name, text) == 0) {
			*field = choice->value;
			return true;
		}
		snprintf(
			all + used, sizeof(all) - used, "%s%s", used > 0 ? ", " : "", choice->name);
	}
	weir_sim_problem_add(
		reader, at, NULL, "\"%.40s\" is not known here; use one of: %s", text, all);
	return false;
}

static bool wrong_length(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, size_t count, double most) {
	if (count >= 1 && (double)count <= most) {
		return false;
	}
	if (key->kind == WEIR_SIM_KEY_LIST && count == 0 && key->min <= 0) {
		return false;
	}
	weir_sim_problem_add(reader, at, NULL,
		"has %zu elements; give at most %g, and one at least", count, most);
	return true;
}

static bool read_numbers(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, json_t *json, struct weir_sim_numbers *field) {
	bool good = true;
	json_t *element;
	size_t i;

	if (!json_is_array(json)) {
		return wrong_kind(reader, at, json, "an array of numbers");
	}
	if (wrong_length(reader, at, key, json_array_size(json), WEIR_SIM_NUMBERS_MAX)) {
		return false;
	}
	field->count = (uint32_t)json_array_size(json);
	json_array_foreach (json, i, element) {
		struct weir_sim_at where = {.parent = at, .index = (uint32_t)i};

		good &= read_number(reader, &where, key, element, &field->value[i]);
	}
	return good;
}

static bool read_list(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, json_t *json, char *into) {
	size_t count = json_array_size(json), i;
	uint32_t kept = (uint32_t)count;
	bool good = true;
	json_t *element;
	char *list;

	if (!json_is_array(json)) {
		return wrong_kind(reader, at, json, "an array");
	}
	if (wrong_length(reader, at, key, count, key->max)) {
		return false;
	}
	list = calloc(count > 0 ? count : 1, key->object->bytes);
	if (list == NULL) {
		reader->out_of_memory = true;
		return false;
	}
	memcpy(into + key->offset, &list, sizeof(list));
	memcpy(into + key->offset2, &kept, sizeof(kept));
	json_array_foreach (json, i, element) {
		struct weir_sim_at where = {.parent = at, .index = (uint32_t)i};

		good &= weir_sim_read_object(
			reader, &where, key->object, NULL, element, list + i * key->object->bytes);
	}
	return good;
}

static bool read_value(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, json_t *json, char *into) {
	void *field = into + key->offset;
	double value = 0;

	switch (key->kind) {
	case WEIR_SIM_KEY_INTEGER:
	case WEIR_SIM_KEY_NUMBER:
	case WEIR_SIM_KEY_MS:
		if (!read_number(reader, at, key, json, &value)) {
			return false;
		}
		if (key->kind == WEIR_SIM_KEY_INTEGER) {
			*(uint32_t *)field = (uint32_t)value;
		} else if (key->kind == WEIR_SIM_KEY_NUMBER) {
			*(double *)field = value;
		} else {
			*(uint64_t *)field = (uint64_t)llround(value * NS_PER_MS);
		}
		return true;
	case WEIR_SIM_KEY_BOOLEAN:
		*(bool *)field = json_is_true(json);
		return json_is_boolean(json) || wrong_kind(reader, at, json, "true or false");
	case WEIR_SIM_KEY_CHOICE:
		return read_choice(reader, at, key, json, field);
	case WEIR_SIM_KEY_NUMBERS:
		return read_numbers(reader, at, key, json, field);
	case WEIR_SIM_KEY_OBJECT:
		return weir_sim_read_object(reader, at, key->object, NULL, json, field);
	case WEIR_SIM_KEY_LIST:
		return read_list(reader, at, key, json, into);
	case WEIR_SIM_KEY_ELSEWHERE:
		return true;
	default:
		return read_string(reader, at, key, json, field);
	}
}

static bool read_absent(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_key *key, char *into) {
	struct weir_sim_at member = {.parent = at, .key = key->key};
	json_t *json;
	bool good;

	if (key->fallback == NULL) {
		weir_sim_problem_add(reader, at, NULL, "\"%s\" is missing; add it", key->key);
		return false;
	}
	json = json_loads(key->fallback, JSON_DECODE_ANY, NULL);
	good = json != NULL && read_value(reader, &member, key, json, into);
	json_decref(json);
	return good;
}

static const struct weir_sim_key *find_key(const struct weir_sim_keys *keys, const char *name) {
	for (uint32_t i = 0; keys != NULL && i < keys->count; i++) {
		if (strcmp(keys->key[i].key, name) == 0) {
			return &keys->key[i];
		}
	}
	return NULL;
}

static void unknown_key(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_keys *keys, const struct weir_sim_keys *beside, const char *name) {
	const char *names[KEYS_MAX];
	uint32_t count = 0;
	const char *nearest;

	for (uint32_t i = 0; i < keys->count && count < KEYS_MAX; i++) {
		names[count++] = keys->key[i].key;
	}
	for (uint32_t i = 0; beside != NULL && i < beside->count && count < KEYS_MAX; i++) {
		names[count++] = beside->key[i].key;
	}
	nearest = weir_nearest(name, names, count);
	if (nearest != NULL) {
		weir_sim_problem_add(
			reader, at, name, "unknown key; did you mean \"%s\"?", nearest);
	} else {
		weir_sim_problem_add(reader, at, name,
			"unknown key; weir-sim keys names those of %s", keys->name);
	}
}

bool weir_sim_read_object(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_keys *keys, const struct weir_sim_keys *beside, json_t *json,
	void *into) {
	bool good = true;
	const char *name;
	json_t *value;

	if (!json_is_object(json)) {
		return wrong_kind(reader, at, json, "an object");
	}
	json_object_foreach (json, name, value) {
		if (!keys->open && find_key(keys, name) == NULL && find_key(beside, name) == NULL) {
			unknown_key(reader, at, keys, beside, name);
			good = false;
		}
	}
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_sim_key *key = &keys->key[i];
		struct weir_sim_at member = {.parent = at, .key = key->key};

		value = json_object_get(json, key->key);
		good &= value != NULL ? read_value(reader, &member, key, value, into)
				      : read_absent(reader, at, key, into);
	}
	if (good && keys->check != NULL) {
		uint32_t before = reader->problems->count;

		keys->check(reader, at, into);
		good = reader->problems->count == before;
	}
	return good;
}

void weir_sim_keys_free(const struct weir_sim_keys *keys, void *object) {
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct weir_sim_key *key = &keys->key[i];
		char *field = (char *)object + key->offset;
		uint32_t count;
		char *list;

		if (key->kind == WEIR_SIM_KEY_OBJECT) {
			weir_sim_keys_free(key->object, field);
		} else if (key->kind == WEIR_SIM_KEY_LIST) {
			memcpy(&list, field, sizeof(list));
			memcpy(&count, (char *)object + key->offset2, sizeof(count));
			for (uint32_t k = 0; list != NULL && k < count; k++) {
				weir_sim_keys_free(key->object, list + k * key->object->bytes);
			}
			free(list);
		}
	}
}
