// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: fills structs from JSON by tables of keys. Each key has its type, range and default in
// one row (config_keys.c), so that the schema and the documentation can be checked against them.
// Internal to config/: used by config.c, config_keys.c and the checks in config_ports.c and
// config_services.c.
//
// Threads: one reader is used by one thread.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "json_position.h"
#include "nearest.h"

#define WEIR_CONFIG_ERRORS_MAX 1000 // one more says how many were left out

enum weir_key_kind {
	WEIR_KEY_INTEGER, // min..max; field of 2, 4 or 8 bytes
	WEIR_KEY_BOOLEAN,
	WEIR_KEY_NAME, // [A-Za-z0-9][A-Za-z0-9._-]*
	WEIR_KEY_TEXT, // min..max bytes of printable text
	WEIR_KEY_CHOICE, // one of choices
	WEIR_KEY_ADDRESS, // struct weir_address; IPv4 or IPv6
	WEIR_KEY_IPV4, // the same, IPv4 only
	WEIR_KEY_IPV6, // the same, IPv6 only
	WEIR_KEY_MAC, // 6 bytes, and a bool that it is there
	WEIR_KEY_SEED, // "0x" and up to 16 hexadecimal digits
	WEIR_KEY_CORES, // list of integers into a fixed array
	WEIR_KEY_OBJECT, // keys of `object`
	WEIR_KEY_LIST, // min..max objects, allocated
	WEIR_KEY_IGNORED, // text for people and editors
};

struct weir_key_choice {
	const char *name;
	uint32_t value;
};

struct weir_key_object;

struct weir_key {
	const char *key;
	enum weir_key_kind kind;
	bool required, nullable;
	uint16_t bytes; // size of the field
	size_t offset; // of the field in the struct
	size_t offset2; // MAC: the bool; CORES, LIST: the uint32_t count
	uint64_t min, max;
	const char *fallback; // default as JSON; NULL = none, the field stays 0
	const struct weir_key_choice *choices; // ends with a NULL name
	bool versioned; // other choices come with later versions
	const struct weir_key_object *object; // OBJECT, LIST
};

// Where in the document a value stands: a chain from the value to the root.
struct weir_place {
	const struct weir_place *parent; // NULL = the root
	const char *key; // NULL = an element of an array
	uint32_t index;
	uint32_t node; // json_position.h
};

struct weir_reader {
	const struct weir_json_index *positions; // NULL while there are none
	struct weir_config_errors *errors;
	uint32_t left_out; // errors beyond WEIR_CONFIG_ERRORS_MAX
	bool out_of_memory;
};

// What was read of one object: bit i is the i-th key of its table.
struct weir_keys_read {
	const struct weir_key_object *object;
	uint64_t present; // the key is in the file
	uint64_t valid; // the field holds a good value, be it the default
};

struct weir_key_object {
	const char *name; // as in $defs of the schema
	const struct weir_key *key;
	uint32_t count;
	uint32_t bytes; // size of an element of a list
	const char *const *later; // keys that are not in this version; NULL-terminated or NULL
	bool has_line;
	size_t line_offset; // of `int line`
	// What the table cannot say. Called after all keys were read.
	void (*check)(struct weir_reader *reader, const struct weir_place *place, void *into,
		const struct weir_keys_read *read);
};

// Read an object into `into`, which is zeroed. Errors are added to the reader.
void weir_reader_object(struct weir_reader *reader, const struct weir_place *place,
	const struct weir_key_object *object, json_t *json, void *into);

// Whether a key was in the file; whether its field can be used.
bool weir_key_present(const struct weir_keys_read *read, const char *key);
bool weir_key_valid(const struct weir_keys_read *read, const char *key);

// Add an error at a place; at one of its members, or at the place itself when it is not there; at
// the file as a whole. `line` 0 in the last = none.
void weir_reader_error(struct weir_reader *reader, const struct weir_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
void weir_reader_error_at(struct weir_reader *reader, const struct weir_place *place,
	const char *key, const char *format, ...) __attribute__((format(printf, 4, 5)));
void weir_reader_error_file(struct weir_reader *reader, int line, int column, const char *format,
	...) __attribute__((format(printf, 4, 5)));
// Order the errors by position and say how many were left out.
void weir_reader_finish(struct weir_reader *reader);

// The place of a member or element of a place.
struct weir_place weir_place_member(
	const struct weir_reader *reader, const struct weir_place *parent, const char *key);
struct weir_place weir_place_element(
	const struct weir_reader *reader, const struct weir_place *parent, uint32_t index);

// Text of the file in a form that is safe in a message: printable ASCII, at most bytes - 1.
const char *weir_printable(const char *text, char *buffer, size_t bytes);
