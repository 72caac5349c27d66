// SPDX-License-Identifier: BSD-3-Clause
//
// replay-vectors: replays recorded traces, choice by choice, through Weir's code. Where Weir
// intentionally differs from the recorded program, the trace is replayed through a model of that
// program.
//
// To add a format, write a file replay_<format>.c with a recogniser and a replayer, and add a line
// to REPLAY_FORMATS. A format is recognised by the keys of its data. Use the name of a file or of a
// case only for information that its data lacks.
//
// Rules for a replayer: call replay_begin and replay_end for each case, even if its data is
// invalid. An unknown key is a failure; a case without any check is a failure, too.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

// X(name): replay_<name>_recognise and replay_<name>. The first format that recognises a file
// replays it.
#define REPLAY_FORMATS(X) \
	X(poolifier) \
	X(statistics) \
	X(schedules) \
	X(slow_start) \
	X(dask) \
	X(rsspp) \
	X(least_loaded) \
	X(capability) \
	X(maglev) \
	X(prequal) \
	X(reports) \
	X(subsetting)

#define REPLAY_NONE (-1) // no choice; null in the trace files

struct replay {
	const char *file;
	bool verbose;
	unsigned long passed; // number of passed cases
	unsigned long failed;
	char name[200]; // name of the current case
	bool case_failed;
	unsigned long checks; // checks in the current case
};

#define X(name) \
	bool replay_##name##_recognise(const json_t *root); \
	void replay_##name(struct replay *replay, const json_t *root);
REPLAY_FORMATS(X)
#undef X

// Start and end a case. Only its first failure is reported.
void replay_begin(struct replay *replay, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void replay_end(struct replay *replay);

// Replays each element of a list in the file as a case, named after the list and the index of the
// element.
void replay_each(struct replay *replay, const json_t *root, const char *list,
	void (*one)(struct replay *replay, const json_t *vector));

// A file with unknown keys at its top level is one failed case.
void replay_root(struct replay *replay, const json_t *root, const char *keys);

// Fail the case for a reason other than a comparison.
void replay_fail(struct replay *replay, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

// Comparisons. index < 0 = not an element of a list. Each function returns whether the comparison
// holds.
bool replay_check(
	struct replay *replay, const char *what, long index, long long expected, long long got);
bool replay_check_text(
	struct replay *replay, const char *what, long index, const char *expected, const char *got);
// tolerance is relative to the expected value, or absolute if the expected value is below 1.
bool replay_check_real(struct replay *replay, const char *what, long index, double expected,
	double got, double tolerance);

// Reading. A value of the wrong type fails the case; an absent value is replaced by the default.
// `keys` are the permitted keys of an object in addition to comments (name, description, note ...),
// separated by spaces; returns false, and fails the case, if the object has another key.
bool replay_known_keys(struct replay *replay, const json_t *object, const char *keys);
bool replay_is_comment(const char *key);
bool replay_has(const json_t *object, const char *key);
double replay_real(struct replay *replay, const json_t *object, const char *key, double otherwise);
uint32_t replay_uint(
	struct replay *replay, const json_t *object, const char *key, uint32_t otherwise);
const char *replay_text(
	struct replay *replay, const json_t *object, const char *key, const char *otherwise);
// NULL when absent or not an array.
const json_t *replay_list(struct replay *replay, const json_t *object, const char *key);

// Returns the key in an element of a list of choices, or REPLAY_NONE for null. If the element is
// not a valid key, the case fails and the result is below REPLAY_NONE.
long replay_key(struct replay *replay, const json_t *value);

// Returns the largest element of a list of keys, or -1.
long replay_largest(const json_t *list);

// Reads a list of numbers >= 0 into a new array of *ret_count elements, which the caller frees.
// Returns NULL if the list is absent, empty or invalid.
double *replay_reals(
	struct replay *replay, const json_t *object, const char *key, uint32_t *ret_count);

// value * unit as whole nanoseconds, at least 0 and at most the maximum of a signed 64-bit number.
uint64_t replay_ns(double value, double unit);

// calloc or exit.
void *replay_alloc(size_t bytes);
