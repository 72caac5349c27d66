// SPDX-License-Identifier: BSD-3-Clause
#include "config_types.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "plural.h"

#define WEIR_CONFIG_WORD_BYTES 256
#define CORE_MAX 1023 // highest CPU number

static bool read_name(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	size_t bytes = text != NULL ? strlen(text) : 0;
	char shown[WEIR_JSON_SHOWN];

	for (size_t i = 0; i < bytes; i++) {
		bool alphanumeric = (text[i] & 0x80) == 0 && isalnum((unsigned char)text[i]);

		if (!alphanumeric && (i == 0 || strchr("._-", text[i]) == NULL)) {
			weir_json_error(reader, place,
				"name \"%s\" is not allowed; use letters, digits, '.', '_' and "
				"'-', and begin with a letter or digit",
				weir_printable(text, shown, sizeof(shown)));
			return false;
		}
	}
	if (text != NULL && (bytes == 0 || bytes >= WEIR_CONFIG_NAME_BYTES)) {
		weir_json_error(reader, place, "name has %zu characters; use 1 to %d", bytes,
			WEIR_CONFIG_NAME_BYTES - 1);
		return false;
	}
	if (text != NULL) {
		memcpy(into + key->offset, text, bytes + 1);
	}
	return text != NULL;
}

static void format_name(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	snprintf(text, bytes, "%s", from + key->offset);
}

// Reads one port. If the value is a range, the error message names the keys for a range, port_first
// and port_last.
static bool read_port(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	unsigned int first, last;
	char more;

	if (json_is_string(json) &&
		sscanf(json_string_value(json), "%5u-%5u%c", &first, &last, &more) == 2) {
		weir_json_error(reader, place,
			"is a range; use \"port_first\": %u, \"port_last\": %u instead", first,
			last);
		return false;
	}
	return weir_json_type_integer.read(reader, place, key, json, into);
}

static void format_port(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	weir_json_type_integer.format(key, from, text, bytes);
}

static bool read_address(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const uint8_t family = key->type == &weir_config_type_prefix4 ? 4
			       : key->type == &weir_config_type_ipv6  ? 6
								      : 0;
	const char *text = weir_json_string(reader, place, key, json);
	struct weir_address address;
	char shown[WEIR_JSON_SHOWN];

	if (text == NULL) {
		return false;
	}
	weir_printable(text, shown, sizeof(shown));
	if (weir_address_parse(text, &address)) {
		weir_json_error(reader, place,
			"\"%s\" is not an IP address; use numeric form, such as %s, without prefix "
			"length or port",
			shown, family == 6 ? "2001:db8::1" : "192.0.2.1");
		return false;
	}
	if (family && address.family != family) {
		weir_json_error(reader, place,
			"\"%s\" is an IPv%d address; expected an IPv%d address", shown,
			address.family, family);
		return false;
	}
	memcpy(into + key->offset, &address, sizeof(address));
	return true;
}

static void format_address(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	struct weir_address address;

	memcpy(&address, from + key->offset, sizeof(address));
	if (address.family == 0) {
		snprintf(text, bytes, "none");
	} else {
		weir_address_format(&address, text, bytes);
	}
}

static bool refuse_prefix4(
	struct weir_json_reader *reader, const struct weir_json_place *place, const char *text) {
	char shown[WEIR_JSON_SHOWN];

	weir_json_error(reader, place,
		"\"%s\" is neither an IPv4 address nor a prefix of %d to 32 bits, such as "
		"192.0.2.64/28",
		weir_printable(text, shown, sizeof(shown)), 32 - WEIR_CONFIG_SOURCE_BITS_MAX);
	return false;
}

// Reads "192.0.2.64/28": the address, and the number of its low bits that vary from flow to flow
// (here 4). Without a prefix length, no bits vary.
static bool read_prefix4(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	const char *slash = text != NULL ? strchr(text, '/') : NULL;
	char shown[WEIR_JSON_SHOWN], address_text[INET_ADDRSTRLEN] = "";
	struct weir_address address;
	unsigned int length = 32;
	uint32_t host;

	if (slash == NULL) {
		return text != NULL &&
		       (weir_address_parse(text, &address) < 0
				       ? refuse_prefix4(reader, place, text)
				       : read_address(reader, place, key, json, into));
	}
	if ((size_t)(slash - text) < sizeof(address_text)) {
		memcpy(address_text, text, (size_t)(slash - text));
	}
	if (slash[1] >= '1' && slash[1] <= '9' && strlen(slash + 1) <= 2 &&
		strspn(slash + 1, "0123456789") == strlen(slash + 1)) {
		length = (unsigned int)strtoul(slash + 1, NULL, 10);
	} else {
		length = 0;
	}
	if (weir_address_parse(address_text, &address) || address.family != 4 || length > 32 ||
		length < 32 - WEIR_CONFIG_SOURCE_BITS_MAX) {
		return refuse_prefix4(reader, place, text);
	}
	host = ((uint32_t)address.bytes[2] << 8 | address.bytes[3]) & ((1u << (32 - length)) - 1);
	if (host != 0) {
		weir_json_error(reader, place,
			"\"%s\" has host bits set; write the first address of the prefix",
			weir_printable(text, shown, sizeof(shown)));
		return false;
	}
	memcpy(into + key->offset, &address, sizeof(address));
	weir_json_store(into + key->offset2, key->type->bytes2, 32 - length);
	return true;
}

static void format_prefix4(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	uint64_t host = weir_json_load(from + key->offset2, key->type->bytes2);
	size_t used;

	format_address(key, from, text, bytes);
	used = strlen(text);
	if (host > 0) {
		snprintf(text + used, bytes - used, "/%" PRIu64, 32 - host);
	}
}

static bool read_mac(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	char shown[WEIR_JSON_SHOWN];
	uint8_t mac[6];
	bool good = text != NULL && strlen(text) == 17;

	if (text == NULL) {
		return false;
	}
	for (int i = 0; good && i < 6; i++) {
		const char digits[3] = {text[i * 3], text[i * 3 + 1], '\0'};

		good = isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1]) &&
		       text[i * 3 + 2] == (i < 5 ? ':' : '\0');
		mac[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	if (!good) {
		weir_json_error(reader, place,
			"\"%s\" is not a MAC address; write it as 02:00:5e:10:00:01",
			weir_printable(text, shown, sizeof(shown)));
		return false;
	}
	memcpy(into + key->offset, mac, sizeof(mac));
	*(bool *)(into + key->offset2) = true;
	return true;
}

static void format_mac(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	const uint8_t *mac = (const uint8_t *)from + key->offset;

	if (*(const bool *)(from + key->offset2)) {
		snprintf(text, bytes, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2],
			mac[3], mac[4], mac[5]);
	} else {
		snprintf(text, bytes, "none");
	}
}

static bool read_seed(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	char shown[WEIR_JSON_SHOWN];
	size_t digits;

	if (text == NULL) {
		return false;
	}
	digits = strlen(text) > 2 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
	if (strncmp(text, "0x", 2) != 0 || digits == 0 || digits > 16 || text[digits + 2] != '\0') {
		weir_json_error(reader, place,
			"\"%s\" is not a seed; write \"0x\" and 1 to 16 hexadecimal digits",
			weir_printable(text, shown, sizeof(shown)));
		return false;
	}
	weir_json_store(into + key->offset, key->bytes, strtoull(text, NULL, 16));
	return true;
}

static void format_seed(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	snprintf(text, bytes, "0x%" PRIx64, weir_json_load(from + key->offset, key->bytes));
}

static bool read_cores(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const size_t count = json_array_size(json);
	struct weir_json_key core = {
		.type = &weir_json_type_integer, .bytes = sizeof(uint16_t), .max = CORE_MAX};
	bool good = true;
	json_t *element;
	size_t i;

	if (!json_is_array(json)) {
		return weir_json_wrong_type(reader, place, key, json, "an array of CPU numbers");
	}
	if ((double)count < key->min || (double)count > key->max) {
		weir_json_error(reader, place, "has %zu element%s; list %.0f to %.0f CPU numbers",
			count, weir_plural(count), key->min, key->max);
		return false;
	}
	json_array_foreach (json, i, element) {
		struct weir_json_place at = weir_json_place_element(place, (uint32_t)i);

		core.offset = key->offset + i * sizeof(uint16_t);
		good &= core.type->read(reader, &at, &core, element, into);
	}
	weir_json_store(into + key->offset2, key->type->bytes2, count);
	return good;
}

static void format_cores(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	uint64_t count = weir_json_load(from + key->offset2, key->type->bytes2);
	size_t used = 0;

	text[0] = '\0';
	for (uint64_t i = 0; i < count && used < bytes; i++) {
		const char *core = from + key->offset + i * sizeof(uint16_t);

		used += (size_t)snprintf(text + used, bytes - used, "%s%" PRIu64, i ? "," : "",
			weir_json_load(core, sizeof(uint16_t)));
	}
}

// Appends a word and its NUL to the text of a command. *used: bytes of the text that are in use.
static bool read_word(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *text, size_t *used) {
	struct weir_json_key word = {.type = &weir_json_type_text,
		.bytes = WEIR_CONFIG_WORD_BYTES,
		.max = WEIR_CONFIG_WORD_BYTES - 1};
	char value[WEIR_CONFIG_WORD_BYTES];
	size_t length;

	if (!word.type->read(reader, place, &word, json, value)) {
		return false;
	}
	if (*used == 0 && value[0] != '/') {
		weir_json_error(reader, place,
			"is not an absolute path; begin it with \"/\", such as "
			"\"/usr/local/bin/NAME\"");
		return false;
	}
	length = strlen(value) + 1;
	if (length > key->bytes - *used) {
		weir_json_error(
			reader, place, "the command is too long; use at most %u bytes", key->bytes);
		return false;
	}
	memcpy(text + *used, value, length);
	*used += length;
	return true;
}

static bool read_command(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const size_t count = json_array_size(json);
	size_t used = 0, i;
	json_t *element;

	if (!json_is_array(json)) {
		return weir_json_wrong_type(reader, place, key, json,
			"an array of the path of a program and its arguments");
	}
	if ((double)count < key->min || (double)count > key->max) {
		weir_json_error(reader, place,
			"has %zu element%s; list the path of a program and at most %.0f arguments",
			count, weir_plural(count), key->max - 1);
		return false;
	}
	json_array_foreach (json, i, element) {
		struct weir_json_place at = weir_json_place_element(place, (uint32_t)i);

		if (!read_word(reader, &at, key, element, into + key->offset, &used)) {
			return false;
		}
	}
	weir_json_store(into + key->offset2, key->type->bytes2, count);
	return true;
}

static bool read_number(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	double value = json_number_value(json);

	if (!json_is_number(json)) {
		return weir_json_wrong_type(reader, place, key, json, "a number");
	}
	if (!(value >= key->min && value <= key->max)) {
		weir_json_error(reader, place, "%g is out of range; use %g to %g", value, key->min,
			key->max);
		return false;
	}
	memcpy(into + key->offset, &value, sizeof(value));
	return true;
}

static void format_number(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	double value;

	memcpy(&value, from + key->offset, sizeof(value));
	for (int digits = 6; digits <= 17; digits++) { // 17 digits are exact
		snprintf(text, bytes, "%.*g", digits, value);
		if (strtod(text, NULL) == value) {
			break;
		}
	}
}

static bool read_weight(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	bool is_auto = json_is_string(json) && strcmp(json_string_value(json), "auto") == 0;
	char shown[WEIR_JSON_SHOWN];

	if (is_auto) {
		weir_json_store(into + key->offset, key->bytes, WEIR_CONFIG_WEIGHT_DEFAULT);
	} else if (json_is_string(json)) {
		weir_json_error(reader, place,
			"\"%s\" is not a weight; use a number from %.0f to %.0f, or \"auto\"",
			weir_printable(json_string_value(json), shown, sizeof(shown)), key->min,
			key->max);
		return false;
	} else if (!json_is_integer(json)) {
		return weir_json_wrong_type(reader, place, key, json, "an integer or \"auto\"");
	} else if (!weir_json_type_integer.read(reader, place, key, json, into)) {
		return false;
	}
	*(bool *)(into + key->offset2) = is_auto;
	return true;
}

static void format_weight(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	if (*(const bool *)(from + key->offset2)) {
		snprintf(text, bytes, "auto");
	} else {
		weir_json_type_integer.format(key, from, text, bytes);
	}
}

static bool read_payload(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	size_t bytes = text != NULL ? strlen(text) : 0;

	if (text == NULL) {
		return false;
	}
	if (bytes == 0) {
		weir_json_error(reader, place, "is empty; give at least 1 character");
		return false;
	}
	if ((double)bytes > key->max) {
		weir_json_error(reader, place, "has %zu byte%s; use %.0f to %.0f bytes", bytes,
			weir_plural(bytes), key->min, key->max);
		return false;
	}
	for (size_t i = 0; i < bytes; i++) {
		if ((text[i] < 0x20 || text[i] > 0x7e) && strchr("\t\r\n", text[i]) == NULL) {
			weir_json_error(reader, place,
				"byte %zu is not printable ASCII, \\t, \\r or \\n; for "
				"other bytes use \"%s_hex\"",
				i + 1, key->key);
			return false;
		}
	}
	memcpy(into + key->offset, text, bytes + 1);
	return true;
}

// Writes a text with the escapes of JSON.
static void escape(const char *raw, char *text, size_t bytes) {
	static const char plain[] = "\t\r\n\"\\", escaped[] = "trn\"\\";
	size_t used = 0;

	for (; *raw != '\0' && used + 3 < bytes; raw++) {
		const char *special = strchr(plain, *raw);

		if (special != NULL) {
			text[used++] = '\\';
		}
		text[used++] = special != NULL ? escaped[special - plain] : *raw;
	}
	text[used] = '\0';
}

static void format_payload(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	escape(from + key->offset, text, bytes);
}

// Writes the words of a command. Empty words, and words with a space, a quote or a backslash, are
// in quotes.
static void format_command(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	uint64_t count = weir_json_load(from + key->offset2, key->type->bytes2);
	const char *word = from + key->offset;
	char shown[2 * WEIR_CONFIG_WORD_BYTES];
	size_t used = 0;

	text[0] = '\0';
	for (uint64_t i = 0; i < count && used < bytes; i++) {
		const char *quote =
			word[strcspn(word, " \"\\")] != '\0' || *word == '\0' ? "\"" : "";

		escape(word, shown, sizeof(shown));
		used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s", i > 0 ? " " : "",
			quote, shown, quote);
		word += strlen(word) + 1;
	}
}

static int hex_digit(char c) {
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : -1;
}

static bool read_hex_bytes(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, json_t *json, char *into) {
	const char *text = weir_json_string(reader, place, key, json);
	struct weir_config_bytes read = {.count = 0};
	size_t count = 0;

	if (text == NULL) {
		return false;
	}
	for (const char *c = text + strspn(text, " "); *c != '\0'; c += 2 + strspn(c + 2, " ")) {
		const int high = hex_digit(c[0]), low = high >= 0 ? hex_digit(c[1]) : -1;

		if (low < 0) {
			weir_json_error(reader, place,
				"character %zu is not a hexadecimal digit; write two digits "
				"for each byte, such as \"00 1f\"",
				(size_t)(c - text) + (high >= 0) + 1);
			return false;
		}
		if (count < sizeof(read.byte)) {
			read.byte[count] = (uint8_t)(high << 4 | low);
		}
		count++;
	}
	if (count == 0 || count > sizeof(read.byte)) {
		weir_json_error(reader, place, "has %zu bytes; use 1 to %zu bytes", count,
			sizeof(read.byte));
		return false;
	}
	read.count = (uint8_t)count;
	memcpy(into + key->offset, &read, sizeof(read));
	return true;
}

static void format_hex_bytes(
	const struct weir_json_key *key, const char *from, char *text, size_t bytes) {
	const struct weir_config_bytes *value = (const void *)(from + key->offset);
	size_t used = 0;

	text[0] = '\0';
	for (uint8_t i = 0; i < value->count && used < bytes; i++) {
		used += (size_t)snprintf(text + used, bytes - used, "%02x", value->byte[i]);
	}
}

const struct weir_json_type weir_config_type_payload = {
	.name = "text", .read = read_payload, .format = format_payload};
const struct weir_json_type weir_config_type_hex_bytes = {
	.name = "hex_bytes", .read = read_hex_bytes, .format = format_hex_bytes};
const struct weir_json_type weir_config_type_command = {.name = "command",
	.read = read_command,
	.format = format_command,
	.bytes2 = sizeof(uint32_t)};
const struct weir_json_type weir_config_type_weight = {
	.name = "weight", .read = read_weight, .format = format_weight, .bytes2 = sizeof(bool)};
const struct weir_json_type weir_config_type_number = {
	.name = "number", .read = read_number, .format = format_number};
const struct weir_json_type weir_config_type_name = {
	.name = "name", .read = read_name, .format = format_name};
const struct weir_json_type weir_config_type_port = {
	.name = "integer", .read = read_port, .format = format_port};
const struct weir_json_type weir_config_type_address = {
	.name = "address", .read = read_address, .format = format_address};
const struct weir_json_type weir_config_type_prefix4 = {.name = "prefix4",
	.read = read_prefix4,
	.format = format_prefix4,
	.bytes2 = sizeof(uint8_t)};
const struct weir_json_type weir_config_type_ipv6 = {
	.name = "ipv6", .read = read_address, .format = format_address};
const struct weir_json_type weir_config_type_mac = {
	.name = "mac", .read = read_mac, .format = format_mac, .bytes2 = sizeof(bool)};
const struct weir_json_type weir_config_type_seed = {
	.name = "seed", .read = read_seed, .format = format_seed};
const struct weir_json_type weir_config_type_cores = {
	.name = "cores", .read = read_cores, .format = format_cores, .bytes2 = sizeof(uint32_t)};
