// SPDX-License-Identifier: BSD-3-Clause
//
// The types that any table of keys may use (json_reader.h), except objects and lists.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "json_reader.h"
#include "nearest.h"
#include "plural.h"

#define CHOICES_BYTES 192 // maximum length of the list of choices in a message
#define CHOICES_MOST 32 // maximum number of choices that are suggested
#define MEANT_BYTES 64 // size of a suggestion
#define SUGGEST_FROM 5 // with fewer choices, the list is enough

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

bool weir_json_wrong_type(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, const json_t *json, const char *wanted) {
	weir_json_error(reader, place, "must be %s%s, not %s", wanted,
		key != NULL && key->nullable ? " or null" : "", article(json));
	return false;
}

const char *weir_json_string(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, const json_t *json) {
	if (!json_is_string(json)) {
		weir_json_wrong_type(reader, place, key, json, "a string");
		return NULL;
	}
	return json_string_value(json);
}

void weir_json_store(void *field, size_t bytes, uint64_t value) {
	uint8_t value8 = (uint8_t)value;
	uint16_t value16 = (uint16_t)value;
	uint32_t value32 = (uint32_t)value;

	switch (bytes) {
	case sizeof(value8):
		memcpy(field, &value8, sizeof(value8));
		break;
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

uint64_t weir_json_load(const void *field, size_t bytes) {
	uint8_t value8;
	uint16_t value16;
	uint32_t value32;
	uint64_t value;

	switch (bytes) {
	case sizeof(value8):
		memcpy(&value8, field, sizeof(value8));
		return value8;
	case sizeof(value16):
		memcpy(&value16, field, sizeof(value16));
		return value16;
	case sizeof(value32):
		memcpy(&value32, field, sizeof(value32));
		return value32;
	default:
		memcpy(&value, field, sizeof(value));
		return value;
	}
}

static bool is_number_in_quotes(const json_t *json) {
	size_t bytes = json_string_length(json); // 0 if the value is not a string

	return bytes > 0 && bytes <= 20 && strspn(json_string_value(json), "0123456789") == bytes;
}

// Returns whether a value is a string such as "1s" or "500 ms".
static bool is_number_with_unit(const json_t *json) {
	const char *text = json_string_value(json); // NULL if the value is not a string
	size_t digits = text != NULL ? strspn(text, "0123456789") : 0;

	return digits > 0 && text[digits] != '\0';
}

static bool read_integer(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	json_int_t value;

	if (is_number_in_quotes(json)) {
		weir_json_error(reader, place,
			"must be an integer, not a string; remove the quotes around %.20s",
			json_string_value(json));
		return false;
	}
	if (is_number_with_unit(json) && key->unit != NULL) {
		weir_json_error(reader, place,
			"must be an integer, not a string; write the number of %s, without quotes "
			"or a unit",
			strcmp(key->unit, "ms") == 0 ? "milliseconds" : key->unit);
		return false;
	}
	if (!json_is_integer(json)) {
		return weir_json_wrong_type(reader, place, key, json, "an integer");
	}
	value = json_integer_value(json);
	if (value < 0 || (double)value < key->min || (double)value > key->max) {
		weir_json_error(reader, place,
			"%" JSON_INTEGER_FORMAT " is out of range; use %.0f to %.0f", value,
			key->min, key->max);
		return false;
	}
	weir_json_store(into + key->offset, key->bytes, (uint64_t)value);
	return true;
}

static void format_integer(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	const uint64_t value = weir_json_load(from + key->offset, key->bytes);

	if (key->nullable && (double)value < key->min) {
		snprintf(text, bytes, "none");
	} else {
		snprintf(text, bytes, "%" PRIu64, value);
	}
}

static bool read_boolean(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	if (!json_is_boolean(json)) {
		return weir_json_wrong_type(reader, place, key, json, "true or false");
	}
	*(bool *)(into + key->offset) = json_is_true(json);
	return true;
}

static void format_boolean(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", *(const bool *)(from + key->offset) ? "true" : "false");
}

static bool read_text(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	size_t bytes = text != NULL ? strlen(text) : 0;

	if (text == NULL) {
		return false;
	}
	if (bytes == 0 && key->min > 0) {
		weir_json_error(reader, place, "is empty; give at least %.0f character%s", key->min,
			key->min > 1 ? "s" : "");
		return false;
	}
	if ((double)bytes < key->min || (double)bytes > key->max) {
		weir_json_error(reader, place, "has %zu byte%s; use %.0f to %.0f bytes", bytes,
			weir_plural(bytes), key->min, key->max);
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < 0x20 || text[i] > 0x7e) {
			weir_json_error(reader, place,
				"byte %zu is not printable ASCII; use plain letters, digits and "
				"punctuation",
				i + 1);
			return false;
		}
	}
	memcpy(into + key->offset, text, bytes + 1);
	return true;
}

static void format_text(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", from + key->offset);
}

static bool read_choice(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	char all[CHOICES_BYTES] = "", shown[WEIR_JSON_SHOWN], meant[MEANT_BYTES] = "";
	const char *same = NULL; // choice that differs from the text only in upper and lower case
	const char *names[CHOICES_MOST], *nearest;
	uint32_t count = 0;
	size_t used = 0;

	if (text == NULL) {
		return false;
	}
	for (const struct weir_json_choice *choice = key->choices; choice->name != NULL; choice++) {
		if (strcmp(choice->name, text) == 0) {
			weir_json_store(into + key->offset, key->bytes, choice->value);
			return true;
		}
		if (strcasecmp(choice->name, text) == 0) {
			same = choice->name;
		}
		if (used < sizeof(all)) {
			used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
				used ? ", " : "", choice->name);
		}
		if (count < CHOICES_MOST) {
			names[count++] = choice->name;
		}
	}
	weir_printable(text, shown, sizeof(shown));
	nearest = key->meant != NULL      ? key->meant(text)
		  : count >= SUGGEST_FROM ? weir_nearest(text, names, count)
					  : NULL;
	if (nearest != NULL) {
		snprintf(meant, sizeof(meant), "did you mean \"%s\"? ", nearest);
	}
	if (same != NULL) {
		weir_json_error(reader, place, "unknown value \"%s\"; write \"%s\"", shown, same);
	} else if (key->versioned) {
		weir_json_error(reader, place,
			"\"%s\" is not supported by this version; %ssupported: %s", shown, meant,
			all);
	} else {
		weir_json_error(
			reader, place, "unknown value \"%s\"; %suse one of: %s", shown, meant, all);
	}
	return false;
}

static bool is_choice(const struct weir_json_choice *choices, uint32_t value) {
	while (choices->name != NULL && choices->value != value) {
		choices++;
	}
	return choices->name != NULL;
}

static void format_choice(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	uint64_t value = weir_json_load(from + key->offset, key->bytes);

	snprintf(text, bytes, "%s",
		key->nullable && !is_choice(key->choices, (uint32_t)value)
			? "none"
			: weir_json_choice_name(key->choices, (uint32_t)value));
}

const char *weir_json_choice_name(const struct weir_json_choice *choices, uint32_t value) {
	for (; choices->name != NULL; choices++) {
		if (choices->value == value) {
			return choices->name;
		}
	}
	return "unknown";
}

static bool read_ignored(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	(void)into;
	return weir_json_string(reader, place, key, json) != NULL;
}

const struct weir_json_type weir_json_type_integer = {
	.name = "integer", .read = read_integer, .format = format_integer};
const struct weir_json_type weir_json_type_boolean = {
	.name = "boolean", .read = read_boolean, .format = format_boolean};
const struct weir_json_type weir_json_type_text = {
	.name = "text", .read = read_text, .format = format_text};
const struct weir_json_type weir_json_type_choice = {
	.name = "choice", .read = read_choice, .format = format_choice};
const struct weir_json_type weir_json_type_ignored = {.name = "ignored", .read = read_ignored};
