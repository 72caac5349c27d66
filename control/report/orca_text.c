// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA as text and as JSON: readers for these two formats.
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "orca_private.h"

#define NUMBER_BYTES_MOST 64

// --- decimal numbers ---

static const char *skip_digits(const char *at, const char *end) {
	while (at < end && *at >= '0' && *at <= '9') {
		at++;
	}
	return at;
}

// Returns the end of the decimal number at the start of a text, or NULL if the text does not begin
// with a decimal number. Other forms that strtod accepts are not decimal numbers: returns NULL for
// "nan" and "infinity", and the end of the "0" for "0x1p3".
static const char *skip_number(const char *at, const char *end) {
	const char *digits = at + (at < end && (*at == '-' || *at == '+'));

	at = skip_digits(digits, end);
	if (at < end && *at == '.') {
		digits = at + 1;
		at = skip_digits(digits, end);
	}
	if (at == digits) {
		return NULL;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		digits = at + 1;
		digits += digits < end && (*digits == '-' || *digits == '+');
		at = skip_digits(digits, end);
		if (at == digits) {
			return NULL;
		}
	}
	return at;
}

int orca_read_decimal(const char *text, size_t bytes, double *ret) {
	char copy[NUMBER_BYTES_MOST + 1];

	if (bytes > NUMBER_BYTES_MOST || skip_number(text, text + bytes) != text + bytes) {
		return -EINVAL;
	}
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	// a number that is too large becomes infinite; the caller refuses it
	*ret = strtod(copy, NULL);
	return 0;
}

// --- text ---

static struct orca_name trim(const char *at, const char *end) {
	while (at < end && (*at == ' ' || *at == '\t')) {
		at++;
	}
	while (end > at && (end[-1] == ' ' || end[-1] == '\t')) {
		end--;
	}
	return (struct orca_name){at, (size_t)(end - at)};
}

// Read a pair whose name is NAME (a number field) or MAP.NAME (an entry of a map field). Returns 0
// or -EINVAL.
static int take_pair(struct orca *orca, struct orca_name name, struct orca_name digits) {
	const char *dot = memchr(name.text, '.', name.bytes);
	enum orca_field field = orca_number_field(name);
	double value;

	if (orca_read_decimal(digits.text, digits.bytes, &value) != 0) {
		return orca_complain(orca, "bad number %.*s", (int)name.bytes, name.text);
	}
	if (field != 0) {
		return orca_take_number(orca, field, value);
	}
	if (dot != NULL) {
		struct orca_name map = {name.text, (size_t)(dot - name.text)};
		struct orca_name inner = {dot + 1, name.bytes - map.bytes - 1};

		field = orca_map_field(map);
		if (field != 0 && inner.bytes > 0) {
			return orca_take_named(orca, field, inner, value);
		}
	}
	return orca_complain(orca, "unsupported %.*s", (int)name.bytes, name.text);
}

static int read_pair(struct orca *orca, const char *at, const char *end) {
	const char *middle = at;
	struct orca_name name, digits;

	while (middle < end && *middle != '=' && *middle != ':') {
		middle++;
	}
	name = trim(at, middle);
	digits = trim(middle < end ? middle + 1 : end, end);
	if (name.bytes == 0 || digits.bytes == 0) {
		return orca_complain(orca, "empty name or value");
	}
	return take_pair(orca, name, digits);
}

int orca_read_text(struct orca *orca, const char *text, size_t bytes) {
	const char *end = text + bytes;
	int r;

	do {
		const char *comma = memchr(text, ',', (size_t)(end - text));
		const char *next = comma != NULL ? comma : end;

		r = read_pair(orca, text, next);
		text = comma != NULL ? comma + 1 : NULL;
	} while (r == 0 && text != NULL);
	return r;
}

// --- JSON ---

// Reads a number of the JSON form, which may be a string: the JSON form of protocol buffers encodes
// 64-bit integers as strings.
static int json_double(const json_t *value, double *ret) {
	if (json_is_string(value)) {
		return orca_read_decimal(json_string_value(value), json_string_length(value), ret);
	}
	if (!json_is_number(value)) {
		return -EINVAL;
	}
	*ret = json_number_value(value);
	return 0;
}

static int take_map(struct orca *orca, enum orca_field map, json_t *object) {
	const char *key;
	json_t *member;
	double value;
	int r = 0;

	if (!json_is_object(object)) {
		return orca_complain(orca, "%s is not an object", orca_field_name(map));
	}
	json_object_foreach (object, key, member) {
		if (json_double(member, &value) != 0) {
			return orca_complain(orca, "bad number %s.%s", orca_field_name(map), key);
		}
		r = orca_take_named(orca, map, (struct orca_name){key, strlen(key)}, value);
		if (r != 0) {
			break;
		}
	}
	return r;
}

static int take_member(struct orca *orca, const char *key, json_t *member) {
	struct orca_name name = {key, strlen(key)};
	enum orca_field field = orca_number_field(name);
	double value;

	if (json_is_null(member)) {
		return 0;
	}
	if (field != 0) {
		return json_double(member, &value) == 0 ? orca_take_number(orca, field, value)
							: orca_complain(orca, "bad number %s", key);
	}
	field = orca_map_field(name);
	return field != 0 ? take_map(orca, field, member)
			  : orca_complain(orca, "unsupported %s", key);
}

int orca_read_json(struct orca *orca, const char *text, size_t bytes, json_t **ret_json) {
	json_error_t error;
	json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error), *member;
	const char *key;
	int r = 0;

	*ret_json = root;
	if (!json_is_object(root)) {
		return orca_complain(
			orca, "bad JSON: %s", root == NULL ? error.text : "not an object");
	}
	json_object_foreach (root, key, member) {
		r = take_member(orca, key, member);
		if (r != 0) {
			break;
		}
	}
	return r;
}
