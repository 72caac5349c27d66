// SPDX-License-Identifier: BSD-3-Clause
#include "json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "plural.h"

// A member of an object, before it is read.
struct member {
	json_t *json; // NULL = not in the file
	uint32_t node;
};

static int find_key(const struct weir_json_object *object, const char *name) {
	for (uint32_t i = 0; i < object->count; i++) {
		if (strcmp(object->key[i].key, name) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static bool is_later(const struct weir_json_object *object, const char *name) {
	for (const char *const *later = object->later; later != NULL && *later; later++) {
		if (strcmp(*later, name) == 0) {
			return true;
		}
	}
	return false;
}

// Returns the known key that is most similar to an unknown key, or NULL.
static const char *near_key(const struct weir_json_object *object, const char *name) {
	const char *names[2 * WEIR_JSON_KEYS_MAX];
	uint32_t count = 0;

	for (; object != NULL; object = object->beside) {
		for (uint32_t i = 0; i < object->count && count < 2 * WEIR_JSON_KEYS_MAX; i++) {
			names[count++] = object->key[i].key;
		}
	}
	return weir_nearest(name, names, count);
}

static void list_keys(const struct weir_json_object *object, char *text, size_t bytes) {
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < object->count && used < bytes; i++) {
		if (object->key[i].type != &weir_json_type_ignored) {
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
				used ? ", " : "", object->key[i].key);
		}
	}
}

static void unknown_key(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *object) {
	const char *near = near_key(object, place->key);
	char all[224], shown[WEIR_JSON_SHOWN];

	weir_printable(place->key, shown, sizeof(shown));
	if (is_later(object, place->key)) {
		weir_json_error_key(reader, place,
			"key \"%s\" is not supported by this version; remove it", shown);
	} else if (reader->help != NULL && near != NULL) {
		weir_json_error_key(reader, place, "unknown key; did you mean \"%s\"?", near);
	} else if (reader->help != NULL) {
		weir_json_error_key(
			reader, place, "unknown key; %s %s", reader->help, object->name);
	} else if (near != NULL) {
		weir_json_error_key(
			reader, place, "unknown key \"%s\"; did you mean \"%s\"?", shown, near);
	} else {
		list_keys(object, all, sizeof(all));
		weir_json_error_key(
			reader, place, "unknown key \"%s\"; known keys: %s", shown, all);
	}
}

// Match the members of an object with the rows of its table, and report unknown members.
static void find_members(struct weir_json_reader *reader, const struct weir_json_place *place,
	struct weir_json_keys_read *read, json_t *json, struct member *member) {
	const struct weir_json_object *object = read->object;
	struct weir_json_place at = {.parent = place, .node = WEIR_JSON_NO_NODE};
	const char *name;
	json_t *value;

	// jansson keeps members in the order of the document, unless the object was merged from two
	// objects.
	if (reader->positions != NULL && reader->overlay_path == NULL) {
		at.node = weir_json_first(reader->positions, place->node);
	}
	json_object_foreach (json, name, value) {
		int i = find_key(object, name);

		at.key = name;
		if (i >= 0) {
			member[i] = (struct member){value, at.node};
			read->present |= 1ull << i;
		} else if (!object->open &&
			   (object->beside == NULL || find_key(object->beside, name) < 0)) {
			unknown_key(reader, &at, object);
			read->good = false;
		}
		if (at.node != WEIR_JSON_NO_NODE) {
			at.node = weir_json_sibling(reader->positions, place->node, at.node);
		}
	}
}

static bool read_value(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	if (key->nullable && json_is_null(json)) {
		return true;
	}
	return key->type->read(reader, place, key, json, into);
}

static void read_default(
	struct weir_json_reader *reader, const struct weir_json_key *key, char *into) {
	if (key->type == &weir_json_type_struct) {
		for (uint32_t i = 0; i < key->object->count; i++) {
			read_default(reader, &key->object->key[i], into + key->offset);
		}
	} else if (key->fallback != NULL) {
		const struct weir_json_place nowhere = {.node = WEIR_JSON_NO_NODE};
		json_t *json = json_loads(key->fallback, JSON_DECODE_ANY, NULL);

		// All defaults are valid, so reading a default fails only if memory runs out.
		if (json == NULL || !read_value(reader, &nowhere, key, json, into)) {
			reader->out_of_memory = true;
		}
		json_decref(json);
	}
}

static void read_key(struct weir_json_reader *reader, const struct weir_json_place *place,
	struct weir_json_keys_read *read, uint32_t i, const struct member *member, char *into) {
	const struct weir_json_key *key = &read->object->key[i];
	const struct weir_json_place at = {.parent = place, .key = key->key, .node = member->node};
	bool good = true;

	if (member->json != NULL) {
		good = read_value(reader, &at, key, member->json, into);
	} else if (key->required) {
		weir_json_error(reader, place, "\"%s\" is missing; add it", key->key);
		good = false;
	} else {
		read_default(reader, key, into);
	}
	read->valid |= (uint64_t)good << i;
	read->good &= good;
}

// Returns whether the text is a choice of the first key, such as the name of a policy.
static bool has_choice(const struct weir_json_object *object, const char *text) {
	const struct weir_json_choice *choice = object->count > 0 ? object->key[0].choices : NULL;

	while (choice != NULL && choice->name != NULL && strcmp(choice->name, text) != 0) {
		choice++;
	}
	return choice != NULL && choice->name != NULL;
}

bool weir_json_read(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *object, json_t *json, void *into) {
	struct weir_json_keys_read read = {.object = object, .good = true};
	struct member member[WEIR_JSON_KEYS_MAX] = {0};
	const uint32_t before = reader->found;

	if (json_is_string(json) && has_choice(object, json_string_value(json))) {
		weir_json_error(reader, place,
			"must be an object, not a string; write {\"%s\": \"%s\"}",
			object->key[0].key, json_string_value(json));
		return false;
	}
	if (!json_is_object(json)) {
		return weir_json_wrong_type(reader, place, NULL, json, "an object");
	}
	if (object->has_line && reader->positions != NULL &&
		place->node < reader->positions->count) {
		int line = (int)reader->positions->node[place->node].line;

		memcpy((char *)into + object->line_offset, &line, sizeof(line));
	}
	for (uint32_t i = 0; i < object->count; i++) {
		member[i].node = WEIR_JSON_NO_NODE;
	}
	find_members(reader, place, &read, json, member);
	for (uint32_t i = 0; i < object->count; i++) {
		read_key(reader, place, &read, i, &member[i], into);
	}
	if (object->check != NULL) {
		object->check(reader, place, into, &read);
	}
	return reader->found == before && !reader->out_of_memory;
}

static bool read_struct(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	return weir_json_read(reader, place, key->object, json, into + key->offset);
}

static bool read_list(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const struct weir_json_object *object = key->object;
	const bool walk = reader->positions != NULL && reader->overlay_path == NULL;
	size_t count = json_array_size(json), i;
	struct weir_json_place at = {.parent = place, .node = WEIR_JSON_NO_NODE};
	bool good = true;
	json_t *element;
	char *list;

	if (!json_is_array(json)) {
		return weir_json_wrong_type(reader, place, key, json, "an array");
	}
	if ((double)count < key->min || (double)count > key->max) {
		weir_json_error(reader, place, "has %zu element%s; give %.0f to %.0f", count,
			weir_plural(count), key->min, key->max);
		return false;
	}
	list = calloc(count ? count : 1, object->bytes);
	if (list == NULL) {
		reader->out_of_memory = true;
		return false;
	}
	memcpy(into + key->offset, &list, sizeof(list));
	weir_json_store(into + key->offset2, key->type->bytes2, count);
	json_array_foreach (json, i, element) {
		at.index = (uint32_t)i;
		if (walk) {
			at.node =
				i == 0 ? weir_json_first(reader->positions, place->node)
				       : weir_json_sibling(reader->positions, place->node, at.node);
		}
		good &= weir_json_read(reader, &at, object, element, list + i * object->bytes);
	}
	return good;
}

static bool read_optional(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	char *object = calloc(1, key->object->bytes);

	if (object == NULL) {
		reader->out_of_memory = true;
		return false;
	}
	memcpy(into + key->offset, &object, sizeof(object));
	return weir_json_read(reader, place, key->object, json, object);
}

const struct weir_json_type weir_json_type_optional = {.name = "object", .read = read_optional};
const struct weir_json_type weir_json_type_struct = {.name = "object", .read = read_struct};
const struct weir_json_type weir_json_type_list = {
	.name = "list", .read = read_list, .bytes2 = sizeof(uint32_t)};

void weir_json_free(const struct weir_json_object *object, void *from) {
	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_json_key *key = &object->key[i];
		char *field = (char *)from + key->offset;
		uint32_t count;
		char *list;

		if (key->type == &weir_json_type_struct) {
			weir_json_free(key->object, field);
		} else if (key->type == &weir_json_type_list) {
			memcpy(&list, field, sizeof(list));
			memcpy(&count, (char *)from + key->offset2, sizeof(count));
			for (uint32_t k = 0; list != NULL && k < count; k++) {
				weir_json_free(key->object, list + k * key->object->bytes);
			}
			free(list);
		} else if (key->type == &weir_json_type_optional) {
			memcpy(&list, field, sizeof(list));
			if (list != NULL) {
				weir_json_free(key->object, list);
			}
			free(list);
		}
	}
}

const struct weir_json_key *weir_json_find_key(
	const struct weir_json_object *object, const char *key) {
	int i = find_key(object, key);

	return i >= 0 ? &object->key[i] : NULL;
}

bool weir_json_present(const struct weir_json_keys_read *read, const char *key) {
	int i = find_key(read->object, key);

	return i >= 0 && (read->present & 1ull << i);
}

bool weir_json_valid(const struct weir_json_keys_read *read, const char *key) {
	int i = find_key(read->object, key);

	return i >= 0 && (read->valid & 1ull << i);
}
