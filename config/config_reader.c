// SPDX-License-Identifier: BSD-3-Clause
#include "config_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 48 // bytes of a text value repeated in a message

static bool read_object(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object, json_t *json, void *into);

static const char *article(const json_t *json) {
	switch (json_typeof(json)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a number with a fraction or exponent";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	default:
		return "null";
	}
}

static bool wrong_type(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const json_t *json, const char *wanted) {
	weir_reader_error(reader, place, "must be %s%s, not %s", wanted,
		key->nullable ? " or null" : "", article(json));
	return false;
}

static void store_integer(void *field, uint16_t bytes, uint64_t value) {
	uint16_t value16 = (uint16_t)value;
	uint32_t value32 = (uint32_t)value;

	switch (bytes) {
	case sizeof(value16):
		memcpy(field, &value16, sizeof(value16));
		break;
	case sizeof(value32):
		memcpy(field, &value32, sizeof(value32));
		break;
	default:
		memcpy(field, &value, sizeof(value));
	}
}

static bool read_integer(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const json_t *json, void *field, uint16_t bytes) {
	json_int_t value;

	if (!json_is_integer(json)) {
		return wrong_type(reader, place, key, json, "an integer");
	}
	value = json_integer_value(json);
	if (value < 0 || (uint64_t)value < key->min || (uint64_t)value > key->max) {
		weir_reader_error(reader, place,
			"%" JSON_INTEGER_FORMAT " is out of range; use %" PRIu64 " to %" PRIu64,
			value, key->min, key->max);
		return false;
	}
	store_integer(field, bytes, (uint64_t)value);
	return true;
}

static bool read_name(
	struct weir_reader *reader, const struct weir_place *place, const char *text, char *field) {
	size_t bytes = strlen(text);
	char shown[SHOWN];

	for (size_t i = 0; i < bytes; i++) {
		bool alphanumeric = (text[i] & 0x80) == 0 && isalnum((unsigned char)text[i]);

		if (!alphanumeric && (i == 0 || !strchr("._-", text[i]))) {
			weir_reader_error(reader, place,
				"name \"%s\" is not allowed; use letters, digits, '.', '_' and "
				"'-', a letter or digit first",
				weir_printable(text, shown, sizeof(shown)));
			return false;
		}
	}
	if (bytes == 0 || bytes >= WEIR_CONFIG_NAME_BYTES) {
		weir_reader_error(reader, place, "name has %zu characters; use 1 to %d", bytes,
			WEIR_CONFIG_NAME_BYTES - 1);
		return false;
	}
	memcpy(field, text, bytes + 1);
	return true;
}

static bool read_text(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const char *text, char *field) {
	size_t bytes = strlen(text);

	if (bytes == 0 && key->min > 0) {
		weir_reader_error(reader, place, "is empty; give at least %" PRIu64 " character%s",
			key->min, key->min > 1 ? "s" : "");
		return false;
	}
	if (bytes < key->min || bytes > key->max) {
		weir_reader_error(reader, place,
			"has %zu bytes; use %" PRIu64 " to %" PRIu64 " bytes", bytes, key->min,
			key->max);
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < 0x20 || text[i] > 0x7e) {
			weir_reader_error(reader, place,
				"byte %zu is not printable ASCII; use plain letters, digits and "
				"punctuation",
				i + 1);
			return false;
		}
	}
	memcpy(field, text, bytes + 1);
	return true;
}

static bool read_choice(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const char *text, void *field) {
	char all[192] = "", shown[SHOWN];
	size_t used = 0;

	for (const struct weir_key_choice *choice = key->choices; choice->name; choice++) {
		if (strcmp(choice->name, text) == 0) {
			if (key->bytes == 1) {
				*(uint8_t *)field = (uint8_t)choice->value;
			} else {
				store_integer(field, key->bytes, choice->value);
			}
			return true;
		}
		if (used < sizeof(all)) {
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
				used ? ", " : "", choice->name);
		}
	}
	weir_printable(text, shown, sizeof(shown));
	if (key->versioned) {
		weir_reader_error(reader, place,
			"\"%s\" is not in this version; this version has: %s", shown, all);
	} else {
		weir_reader_error(
			reader, place, "\"%s\" is not known here; use one of: %s", shown, all);
	}
	return false;
}

static bool read_address(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const char *text, struct weir_address *field) {
	const uint8_t family = key->kind == WEIR_KEY_IPV4 ? 4 : key->kind == WEIR_KEY_IPV6 ? 6 : 0;
	struct weir_address address;
	char shown[SHOWN];

	weir_printable(text, shown, sizeof(shown));
	if (weir_address_parse(text, &address)) {
		weir_reader_error(reader, place,
			"\"%s\" is not an IP address; write it in numbers, such as %s, without "
			"prefix length or port",
			shown, family == 6 ? "2001:db8::1" : "192.0.2.1");
		return false;
	}
	if (family && address.family != family) {
		weir_reader_error(reader, place,
			"\"%s\" is an IPv%d address; an IPv%d address is "
			"needed here",
			shown, address.family, family);
		return false;
	}
	*field = address;
	return true;
}

static bool read_mac(struct weir_reader *reader, const struct weir_place *place, const char *text,
	uint8_t field[6], bool *present) {
	uint8_t mac[6];
	char shown[SHOWN];
	bool good = strlen(text) == 17;

	for (int i = 0; good && i < 6; i++) {
		const char digits[3] = {text[i * 3], text[i * 3 + 1], '\0'};

		good = isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1]) &&
		       text[i * 3 + 2] == (i < 5 ? ':' : '\0');
		mac[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	if (!good) {
		weir_reader_error(reader, place,
			"\"%s\" is not a MAC address; write it as 02:00:5e:10:00:01",
			weir_printable(text, shown, sizeof(shown)));
		return false;
	}
	memcpy(field, mac, sizeof(mac));
	*present = true;
	return true;
}

static bool read_seed(struct weir_reader *reader, const struct weir_place *place, const char *text,
	uint64_t *field) {
	size_t digits = strlen(text) > 2 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
	char shown[SHOWN];

	if (strncmp(text, "0x", 2) != 0 || digits == 0 || digits > 16 || text[digits + 2] != '\0') {
		weir_reader_error(reader, place,
			"\"%s\" is not a seed; write \"0x\" and 1 to 16 hexadecimal digits",
			weir_printable(text, shown, sizeof(shown)));
		return false;
	}
	*field = strtoull(text, NULL, 16);
	return true;
}

static bool read_cores(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, json_t *json, char *into) {
	const struct weir_key core = {.max = 1023};
	uint16_t *field = (uint16_t *)(void *)(into + key->offset);
	bool good = true;
	size_t i;
	json_t *element;

	if (!json_is_array(json)) {
		return wrong_type(reader, place, key, json, "an array of CPU numbers");
	}
	if (json_array_size(json) < key->min || json_array_size(json) > key->max) {
		weir_reader_error(reader, place,
			"has %zu elements; list %" PRIu64 " to %" PRIu64 " CPU numbers",
			json_array_size(json), key->min, key->max);
		return false;
	}
	json_array_foreach (json, i, element) {
		struct weir_place at = weir_place_element(reader, place, (uint32_t)i);

		good &= read_integer(reader, &at, &core, element, &field[i], sizeof(*field));
	}
	store_integer(into + key->offset2, sizeof(uint32_t), json_array_size(json));
	return good;
}

static bool read_list(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, json_t *json, char *into) {
	const struct weir_key_object *object = key->object;
	size_t count = json_array_size(json), i;
	struct weir_place at = {.parent = place, .node = WEIR_JSON_NO_NODE};
	bool good = true;
	json_t *element;
	char *list;

	if (!json_is_array(json)) {
		return wrong_type(reader, place, key, json, "an array");
	}
	if (count < key->min || count > key->max) {
		weir_reader_error(reader, place, "has %zu elements; give %" PRIu64 " to %" PRIu64,
			count, key->min, key->max);
		return false;
	}
	list = calloc(count ? count : 1, object->bytes);
	if (!list) {
		reader->out_of_memory = true;
		return false;
	}
	memcpy(into + key->offset, &list, sizeof(list));
	store_integer(into + key->offset2, sizeof(uint32_t), count);
	json_array_foreach (json, i, element) {
		at.index = (uint32_t)i;
		if (reader->positions) {
			at.node =
				i == 0 ? weir_json_first(reader->positions, place->node)
				       : weir_json_sibling(reader->positions, place->node, at.node);
		}
		good &= read_object(reader, &at, object, element, list + i * object->bytes);
	}
	return good;
}

// A value that has to be a string.
static bool read_string(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, const json_t *json, char *into) {
	const char *text = json_string_value(json);
	char *field = into + key->offset;

	if (!text) {
		return wrong_type(reader, place, key, json, "a string");
	}
	switch (key->kind) {
	case WEIR_KEY_NAME:
		return read_name(reader, place, text, field);
	case WEIR_KEY_TEXT:
		return read_text(reader, place, key, text, field);
	case WEIR_KEY_CHOICE:
		return read_choice(reader, place, key, text, field);
	case WEIR_KEY_ADDRESS:
	case WEIR_KEY_IPV4:
	case WEIR_KEY_IPV6:
		return read_address(reader, place, key, text, (struct weir_address *)field);
	case WEIR_KEY_MAC:
		return read_mac(
			reader, place, text, (uint8_t *)field, (bool *)(into + key->offset2));
	case WEIR_KEY_SEED:
		return read_seed(reader, place, text, (uint64_t *)(void *)field);
	default: // WEIR_KEY_IGNORED
		return true;
	}
}

static bool read_value(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key *key, json_t *json, char *into) {
	if (key->nullable && json_is_null(json)) {
		return true;
	}
	switch (key->kind) {
	case WEIR_KEY_INTEGER:
		return read_integer(reader, place, key, json, into + key->offset, key->bytes);
	case WEIR_KEY_BOOLEAN:
		if (!json_is_boolean(json)) {
			return wrong_type(reader, place, key, json, "true or false");
		}
		*(bool *)(into + key->offset) = json_is_true(json);
		return true;
	case WEIR_KEY_CORES:
		return read_cores(reader, place, key, json, into);
	case WEIR_KEY_OBJECT:
		return read_object(reader, place, key->object, json, into + key->offset);
	case WEIR_KEY_LIST:
		return read_list(reader, place, key, json, into);
	default:
		return read_string(reader, place, key, json, into);
	}
}

static void read_default(struct weir_reader *reader, const struct weir_key *key, char *into) {
	if (key->kind == WEIR_KEY_OBJECT) {
		for (uint32_t i = 0; i < key->object->count; i++) {
			read_default(reader, &key->object->key[i], into + key->offset);
		}
	} else if (key->fallback) {
		json_t *json = json_loads(key->fallback, JSON_DECODE_ANY, NULL);

		// Without memory for its own default nothing can be read.
		if (!json || !read_value(reader, &(struct weir_place){.key = key->key}, key, json,
				     into)) {
			reader->out_of_memory = true;
		}
		json_decref(json);
	}
}

static int find_key(const struct weir_key_object *object, const char *name) {
	for (uint32_t i = 0; i < object->count; i++) {
		if (strcmp(object->key[i].key, name) == 0) {
			return (int)i;
		}
	}
	return -1;
}

static void unknown_key(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object) {
	const char *names[64];
	const char *nearest;
	char all[224] = "", shown[SHOWN];
	size_t used = 0;

	weir_printable(place->key, shown, sizeof(shown));
	for (const char *const *later = object->later; later && *later; later++) {
		if (strcmp(*later, place->key) == 0) {
			weir_reader_error(reader, place,
				"key \"%s\" is not in this version; remove it", shown);
			return;
		}
	}
	for (uint32_t i = 0; i < object->count; i++) {
		names[i] = object->key[i].key;
		if (object->key[i].kind != WEIR_KEY_IGNORED) {
			used += (size_t)snprintf(
				all + used, sizeof(all) - used, "%s%s", used ? ", " : "", names[i]);
		}
	}
	nearest = weir_nearest(place->key, names, object->count);
	if (nearest) {
		weir_reader_error(
			reader, place, "unknown key \"%s\"; did you mean \"%s\"?", shown, nearest);
	} else {
		weir_reader_error(reader, place, "unknown key \"%s\"; known here: %s", shown, all);
	}
}

// Report at the key, not at its value.
static void unknown_key_at(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object) {
	uint32_t before = reader->errors->count;

	unknown_key(reader, place, object);
	if (reader->errors->count > before && reader->positions &&
		place->node < reader->positions->count) {
		struct weir_config_error *error = &reader->errors->error[before];

		error->line = (int)reader->positions->node[place->node].key_line;
		error->column = (int)reader->positions->node[place->node].key_column;
	}
}

static bool fill_absent(struct weir_reader *reader, const struct weir_place *place,
	struct weir_keys_read *read, char *into) {
	const struct weir_key_object *object = read->object;
	bool good = true;

	for (uint32_t i = 0; i < object->count; i++) {
		const struct weir_key *key = &object->key[i];

		if (read->present & 1ull << i) {
			continue;
		}
		if (key->required) {
			weir_reader_error(reader, place, "\"%s\" is missing; add it", key->key);
			good = false;
		} else {
			read_default(reader, key, into);
			read->valid |= 1ull << i;
		}
	}
	return good;
}

static bool read_object(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object, json_t *json, void *into) {
	struct weir_keys_read read = {.object = object};
	struct weir_place at = {.parent = place, .node = WEIR_JSON_NO_NODE};
	bool good = true;
	const char *name;
	json_t *value;

	if (!json_is_object(json)) {
		weir_reader_error(reader, place, "must be an object, not %s", article(json));
		return false;
	}
	if (object->has_line && reader->positions && place->node < reader->positions->count) {
		int line = (int)reader->positions->node[place->node].line;

		memcpy((char *)into + object->line_offset, &line, sizeof(line));
	}
	if (reader->positions) {
		at.node = weir_json_first(reader->positions, place->node);
	}
	json_object_foreach (json, name, value) {
		int i = find_key(object, name);

		at.key = name;
		if (i < 0) {
			unknown_key_at(reader, &at, object);
			good = false;
		} else {
			read.present |= 1ull << i;
			if (read_value(reader, &at, &object->key[i], value, into)) {
				read.valid |= 1ull << i;
			} else {
				good = false;
			}
		}
		if (reader->positions) {
			at.node = weir_json_sibling(reader->positions, place->node, at.node);
		}
	}
	good &= fill_absent(reader, place, &read, into);
	if (object->check) {
		object->check(reader, place, into, &read);
	}
	return good;
}

void weir_reader_object(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object, json_t *json, void *into) {
	read_object(reader, place, object, json, into);
}

bool weir_key_present(const struct weir_keys_read *read, const char *key) {
	int i = find_key(read->object, key);

	return i >= 0 && (read->present & 1ull << i);
}

bool weir_key_valid(const struct weir_keys_read *read, const char *key) {
	int i = find_key(read->object, key);

	return i >= 0 && (read->valid & 1ull << i);
}
