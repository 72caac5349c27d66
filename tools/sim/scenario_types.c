// SPDX-License-Identifier: BSD-3-Clause
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "scenario.h"
#include "scenario_keys.h"

#define NS_PER_MS 1e6

static bool read_double(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, const json_t *json, double *ret) {
	bool whole = key->type == &weir_sim_type_whole;
	double value = 0;

	if (!json_is_number(json) || (whole && !json_is_integer(json))) {
		return weir_json_wrong_type(
			reader, place, key, json, whole ? "a whole number" : "a number");
	}
	value = json_number_value(json);
	if (!(value >= key->min && value <= key->max)) {
		weir_json_error(reader, place, "%.10g is out of range; use %.10g to %.10g", value,
			key->min, key->max);
		return false;
	}
	*ret = value;
	return true;
}

static bool read_whole(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	double value = 0;

	if (!read_double(reader, place, key, json, &value)) {
		return false;
	}
	weir_json_store(into + key->offset, sizeof(uint32_t), (uint64_t)value);
	return true;
}

static bool read_number(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	double value = 0;

	if (!read_double(reader, place, key, json, &value)) {
		return false;
	}
	memcpy(into + key->offset, &value, sizeof(value));
	return true;
}

static bool read_ms(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	double value = 0;

	if (!read_double(reader, place, key, json, &value)) {
		return false;
	}
	weir_json_store(into + key->offset, sizeof(uint64_t), (uint64_t)llround(value * NS_PER_MS));
	return true;
}

static bool read_name(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	size_t bytes = text != NULL ? strlen(text) : 0;

	if (text == NULL) {
		return false;
	}
	if (bytes == 0 || bytes >= WEIR_SIM_NAME_BYTES) {
		weir_json_error(reader, place, "has %zu characters; use 1 to %d", bytes,
			WEIR_SIM_NAME_BYTES - 1);
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= 0x80 ||
			(!islower(c) && !isdigit(c) && (i == 0 || strchr("-_", c) == NULL))) {
			weir_json_error(reader, place,
				"must begin with a lowercase letter or a digit, and contain only "
				"these, '-' and '_'");
			return false;
		}
	}
	memcpy(into + key->offset, text, bytes + 1);
	return true;
}

static bool read_numbers(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	struct weir_sim_numbers *field = (struct weir_sim_numbers *)(void *)(into + key->offset);
	const size_t count = json_array_size(json);
	bool good = true;
	json_t *element;
	size_t i;

	if (!json_is_array(json)) {
		return weir_json_wrong_type(reader, place, key, json, "an array of numbers");
	}
	if (count == 0 || count > WEIR_SIM_NUMBERS_MAX) {
		weir_json_error(reader, place, "has %zu elements; give 1 to %u elements", count,
			WEIR_SIM_NUMBERS_MAX);
		return false;
	}
	field->count = (uint32_t)count;
	json_array_foreach (json, i, element) {
		struct weir_json_place at = weir_json_place_element(place, (uint32_t)i);

		good &= read_double(reader, &at, key, element, &field->value[i]);
	}
	return good;
}

static bool read_elsewhere(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	(void)reader;
	(void)place;
	(void)key;
	(void)json;
	(void)into;
	return true;
}

const struct weir_json_type weir_sim_type_whole = {.name = "integer", .read = read_whole};
const struct weir_json_type weir_sim_type_number = {.name = "number", .read = read_number};
const struct weir_json_type weir_sim_type_ms = {.name = "ms", .read = read_ms};
const struct weir_json_type weir_sim_type_name = {.name = "name", .read = read_name};
const struct weir_json_type weir_sim_type_numbers = {.name = "numbers", .read = read_numbers};
const struct weir_json_type weir_sim_type_elsewhere = {.name = "elsewhere", .read = read_elsewhere};
