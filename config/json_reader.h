// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: fills structs from JSON, using tables of keys. A row defines a key: type, range, unit,
// default, and how a changed value takes effect. The reader itself defines no keys: the
// configuration (config_keys.c) and the simulator's scenarios (scenario_keys.c) pass their tables
// and their special types.
//
// Each error has a line, a JSON path, a reason and a remedy. All errors of a file are reported, not
// only the first error, up to WEIR_JSON_ERRORS_MAX.
//
// Threads: a reader is used by one thread. Tables are immutable.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config_error.h"
#include "json_position.h"

// maximum number of errors, and of warnings; if there are more, the last entry gives the number of
// omitted entries
#define WEIR_JSON_ERRORS_MAX 1000
#define WEIR_JSON_KEYS_MAX 64 // maximum keys of an object
#define WEIR_JSON_IDENTITY_BYTES 272

struct weir_json_key;
struct weir_json_object;
struct weir_json_reader;

// Position of a value in the document: a chain from the value to the root.
struct weir_json_place {
	const struct weir_json_place *parent; // NULL = the root
	const char *key; // NULL = an element of an array
	uint32_t index;
	// Node in json_position.h; WEIR_JSON_NO_NODE = looked up when it is needed.
	uint32_t node;
};

// A type of values: how a value is read from JSON, stored in a struct and written as text.
struct weir_json_type {
	const char *name; // name of the type, for programs that print the keys: "integer"
	// Read a value into the struct `into`. Returns whether it is valid; adds errors.
	bool (*read)(struct weir_json_reader *reader, const struct weir_json_place *place,
		const struct weir_json_key *key, json_t *json, char *into);
	// Write the value of the struct `from` as text. NULL: the type is not a single value.
	void (*format)(const struct weir_json_key *key, const char *from, char *text, size_t bytes);
	uint16_t bytes2; // size of the field at offset2
};

// Types of values that any table of keys may use.
extern const struct weir_json_type weir_json_type_integer; // min..max; field of 1, 2, 4 or 8 bytes
extern const struct weir_json_type weir_json_type_boolean; // bool
extern const struct weir_json_type weir_json_type_text; // min..max bytes of printable text; char[]
extern const struct weir_json_type weir_json_type_choice; // one of .choices; an integer or enum
extern const struct weir_json_type weir_json_type_struct; // keys of `object`; a struct
// keys of `object`; a pointer to a struct, NULL if the file lacks the object
extern const struct weir_json_type weir_json_type_optional;
// list of min..max objects; the field is a pointer to an allocated array, offset2: a uint32_t count
extern const struct weir_json_type weir_json_type_list;
extern const struct weir_json_type
	weir_json_type_ignored; // text for readers and editors; not stored

struct weir_json_choice {
	const char *name; // NULL ends the list
	uint32_t value;
};

// How a changed value takes effect.
enum weir_json_needs {
	WEIR_JSON_NEEDS_NOTHING, // a reload applies it
	WEIR_JSON_NEEDS_REBUILD, // a reload applies it, and rebuilds tables
	WEIR_JSON_NEEDS_RESTART, // the program that reads the key must be restarted
};

struct weir_json_key {
	const char *key;
	const struct weir_json_type *type;
	bool required, nullable;
	bool versioned; // later versions accept other choices
	uint16_t bytes; // size of the field
	size_t offset, offset2; // offsets of the field and of a second field in the struct
	double min, max; // whole numbers of up to 53 bits are exact
	const char *unit; // "ms", "bytes", "percent"; NULL = none
	const char *fallback; // default as JSON; NULL = none, the field stays 0
	const struct weir_json_choice *choices;
	// Returns the choice to suggest for an unknown word, such as a word of another program;
	// returns NULL if there is none. If the function is NULL, the nearest choice is suggested,
	// unless the key has fewer than five choices.
	const char *(*meant)(const char *text);
	const struct weir_json_object *object; // keys of a struct or of list elements
	const char *meaning; // one sentence; NULL = only in the documentation

	enum weir_json_needs needs; // for a list: what adding or removing an element needs
	bool names_object; // a difference shows the object's name instead of this key
	bool secret; // a difference hides its values
	// Bits whose meaning the owner of the table defines; the reader ignores them.
	uint8_t read_by, belongs_to;
};

// The keys of an object that were read: bit i belongs to the i-th key of the table.
struct weir_json_keys_read {
	const struct weir_json_object *object;
	uint64_t present; // the key is in the file
	uint64_t valid; // the field holds a valid value, or the default
	bool good; // the object has no error so far
};

struct weir_json_object {
	const char *name;
	const struct weir_json_key *key;
	uint32_t count; // at most WEIR_JSON_KEYS_MAX
	size_t bytes; // size of the struct
	// Keys of later versions, which this version does not have; NULL-terminated, or NULL.
	const char *const *later;
	// Another table, whose keys this JSON object may also have. When the reader reads this
	// table, it ignores the keys of the other table. NULL = none.
	const struct weir_json_object *beside;
	bool open; // unknown keys are allowed
	bool has_line;
	size_t line_offset; // offset of `int line`
	// Checks rules that the table cannot express. Called after all keys were read.
	void (*check)(struct weir_json_reader *reader, const struct weir_json_place *place,
		void *into, const struct weir_json_keys_read *read);

	// For list elements: writes the text that identifies an element. A buffer of
	// WEIR_JSON_IDENTITY_BYTES is large enough.
	void (*identify)(const void *element, char *text, size_t bytes);
	// Writes a description for differences. NULL: an element has none, an object is described
	// by all its values. A buffer of WEIR_JSON_IDENTITY_BYTES is large enough for an element.
	void (*describe)(const void *object, char *text, size_t bytes);
	// If true, a changed order of the elements is a difference. An element with a changed
	// identity, but an unchanged description and index, is treated as renamed.
	bool ordered;
	// Returns whether the file lacks this object. NULL: an absent object gets the defaults.
	bool (*is_absent)(const void *object);
};

struct weir_json_reader {
	const struct weir_json_index *positions; // NULL = the positions are not known
	struct weir_config_errors *errors;
	bool at_keys; // errors have the position of the key instead of the value
	// Remedy for an unknown key, without the object's name, which follows. Example: "weir-sim
	// keys lists the keys of". NULL: the error message lists the keys.
	const char *help;

	// Overlay: an object of the file whose values replace values of the root. A value is read
	// from the object at `overlay_path` (node `overlay`) if the object has the value, otherwise
	// from the root. NULL = no overlay.
	const char *overlay_path;
	uint32_t overlay;

	uint32_t left_out, warnings_left_out; // number of entries beyond WEIR_JSON_ERRORS_MAX
	uint32_t found; // number of errors, including omitted and repeated errors
	bool out_of_memory;
};

// Read an object into `into`, which must be zeroed. Errors are added to the reader. Returns whether
// the object has no errors and memory did not run out (reader->out_of_memory). Release `into` with
// weir_json_free in every case.
bool weir_json_read(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_object *object, json_t *json, void *into);

// Release the memory that weir_json_read allocated for a struct.
void weir_json_free(const struct weir_json_object *object, void *from);

// Returns the row of a key, or NULL.
const struct weir_json_key *weir_json_find_key(
	const struct weir_json_object *object, const char *key);
// weir_json_present returns whether a key is in the file, weir_json_valid whether its field is
// valid.
bool weir_json_present(const struct weir_json_keys_read *read, const char *key);
bool weir_json_valid(const struct weir_json_keys_read *read, const char *key);

// Returns the name of a value; "unknown" if there is none.
const char *weir_json_choice_name(const struct weir_json_choice *choices, uint32_t value);

// Add an error. Its position is
//   weir_json_error       the value at the place
//   weir_json_error_key   the key of the place
//   weir_json_error_at    a member of the place, or the place itself if it lacks the member
//   weir_json_error_file  a line and column of the file; line 0 = the whole file
void weir_json_error(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
void weir_json_error_key(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
void weir_json_error_at(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *key, const char *format, ...) __attribute__((format(printf, 4, 5)));
void weir_json_error_file(struct weir_json_reader *reader, int line, int column, const char *format,
	...) __attribute__((format(printf, 4, 5)));
// Add a warning at a place.
void weir_json_warning(struct weir_json_reader *reader, const struct weir_json_place *place,
	const char *format, ...) __attribute__((format(printf, 3, 4)));
// Sort errors and warnings by position. If entries were omitted, replace the last entry with their
// number.
void weir_json_finish(struct weir_json_reader *reader);

// Returns the place of a member or element of a place.
struct weir_json_place weir_json_place_member(
	const struct weir_json_place *parent, const char *key);
struct weir_json_place weir_json_place_element(
	const struct weir_json_place *parent, uint32_t index);

// --- for types ----------------------------------------------------------------------------

// Add the error "must be WANTED, not ...". Returns false.
bool weir_json_wrong_type(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, const json_t *json, const char *wanted);
// Returns the text of a string, or NULL after an error was added.
const char *weir_json_string(struct weir_json_reader *reader, const struct weir_json_place *place,
	const struct weir_json_key *key, const json_t *json);
// Write or read a field of 1, 2, 4 or 8 bytes.
void weir_json_store(void *field, size_t bytes, uint64_t value);
uint64_t weir_json_load(const void *field, size_t bytes);

// Copy text of the file in a safe form for a message, at most bytes - 1 characters: a byte that is
// not printable ASCII becomes '?', and text that is too long ends with "...". Returns buffer.
#define WEIR_JSON_SHOWN 48 // maximum bytes of a text value in a message
const char *weir_printable(const char *text, char *buffer, size_t bytes);
