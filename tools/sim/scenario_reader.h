// SPDX-License-Identifier: BSD-3-Clause
//
// Reader of scenarios: fills structs from JSON by tables of keys, and says what is wrong with line,
// path and reason. Unlike the configuration a scenario has numbers with fractions, and variants
// whose values come from two places of the file.
// Internal to the reading of scenarios: scenario.c, scenario_keys.c and weir-sim keys.
//
// Threads: one reader is used by one thread.
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "json_position.h"
#include "scenario.h"

enum weir_sim_key_kind {
	WEIR_SIM_KEY_INTEGER, // uint32_t
	WEIR_SIM_KEY_NUMBER, // double
	WEIR_SIM_KEY_MS, // milliseconds, may have a fraction; uint64_t nanoseconds
	WEIR_SIM_KEY_BOOLEAN,
	WEIR_SIM_KEY_NAME, // [a-z0-9][a-z0-9_-]*
	WEIR_SIM_KEY_TEXT,
	WEIR_SIM_KEY_CHOICE, // uint32_t
	WEIR_SIM_KEY_NUMBERS, // struct weir_sim_numbers
	WEIR_SIM_KEY_OBJECT,
	WEIR_SIM_KEY_LIST, // of objects: a pointer, allocated, and a uint32_t count
	WEIR_SIM_KEY_ELSEWHERE, // read by scenario.c
};

struct weir_sim_choice {
	const char *name; // NULL ends the list
	uint32_t value;
};

struct weir_sim_key {
	const char *key;
	enum weir_sim_key_kind kind;
	size_t offset, offset2; // of the field; of a list's count
	double min, max; // of values, of the number of elements
	const char *fallback; // default as JSON; NULL = required
	const struct weir_sim_choice *choices;
	const struct weir_sim_keys *object;
	const char *meaning; // one sentence
};

struct weir_sim_reader {
	const struct weir_json_index *positions;
	struct weir_sim_problems *problems;
	int variant; // its values are looked for in variants[variant] first; -1 = none
	bool out_of_memory;
};

// Where a value stands: a chain to the root.
struct weir_sim_at {
	const struct weir_sim_at *parent; // NULL = the root
	const char *key; // NULL = an element
	uint32_t index;
};

struct weir_sim_keys {
	const char *name; // of the object, for people
	const struct weir_sim_key *key;
	uint32_t count;
	size_t bytes; // of the struct
	bool open; // unknown keys are no mistake here
	// What the rows cannot say. Called when all rows were good.
	void (*check)(
		struct weir_sim_reader *reader, const struct weir_sim_at *at, const void *object);
};

// The root, with everything that a variant may replace; and what stands beside it in a file.
extern const struct weir_sim_keys weir_sim_scenario_keys;
extern const struct weir_sim_keys weir_sim_file_keys;

// Read an object into `into`, which is zeroed. Problems are added. Keys of `beside` are no
// mistake; NULL = there are none. Returns whether all was good.
bool weir_sim_read_object(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const struct weir_sim_keys *keys, const struct weir_sim_keys *beside, json_t *json,
	void *into);

// Free what reading allocated inside of an object.
void weir_sim_keys_free(const struct weir_sim_keys *keys, void *object);

// Add a problem with a value, or with its member `key` (NULL = the value itself).
void weir_sim_problem_add(struct weir_sim_reader *reader, const struct weir_sim_at *at,
	const char *key, const char *format, ...) __attribute__((format(printf, 4, 5)));
// Add one of the file as a whole.
void weir_sim_problem_add_file(struct weir_sim_reader *reader, int line, int column,
	const char *format, ...) __attribute__((format(printf, 4, 5)));
