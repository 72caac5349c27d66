// SPDX-License-Identifier: BSD-3-Clause
#include "replay.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char comments[] = "name desc description note comment source clock how expect";

void *replay_alloc(size_t bytes) {
	void *memory = calloc(1, bytes > 0 ? bytes : 1);

	if (memory == NULL) {
		fprintf(stderr, "out of memory\n");
		exit(EXIT_FAILURE);
	}
	return memory;
}

uint64_t replay_ns(double value, double unit) {
	double ns = value * unit;

	return ns > 0 ? (uint64_t)llround(fmin(ns, 9e18)) : 0;
}

void replay_begin(struct replay *replay, const char *format, ...) {
	va_list args;

	va_start(args, format);
	vsnprintf(replay->name, sizeof(replay->name), format, args);
	va_end(args);
	replay->case_failed = false;
	replay->checks = 0;
}

void replay_end(struct replay *replay) {
	if (!replay->case_failed && replay->checks == 0) {
		replay_fail(replay, "there is nothing to check");
	}
	if (replay->case_failed) {
		replay->failed++;
		return;
	}
	replay->passed++;
	if (replay->verbose) {
		printf("%s: %s: ok, %lu checks\n", replay->file, replay->name, replay->checks);
	}
}

static bool is_first_failure(struct replay *replay) {
	bool first = !replay->case_failed;

	replay->case_failed = true;
	return first;
}

void replay_fail(struct replay *replay, const char *format, ...) {
	va_list args;

	if (!is_first_failure(replay)) {
		return;
	}
	printf("%s: %s: ", replay->file, replay->name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

static void tell(struct replay *replay, const char *what, long index) {
	printf("%s: %s: %s", replay->file, replay->name, what);
	if (index >= 0) {
		printf("[%ld]", index);
	}
}

static void format_number(long long value) {
	if (value == REPLAY_NONE) {
		printf("none");
	} else {
		printf("%lld", value);
	}
}

bool replay_check(
	struct replay *replay, const char *what, long index, long long expected, long long got) {
	replay->checks++;
	if (expected == got) {
		return true;
	}
	if (is_first_failure(replay)) {
		tell(replay, what, index);
		printf(": expected ");
		format_number(expected);
		printf(", got ");
		format_number(got);
		printf("\n");
	}
	return false;
}

bool replay_check_text(struct replay *replay, const char *what, long index, const char *expected,
	const char *got) {
	replay->checks++;
	if (strcmp(expected, got) == 0) {
		return true;
	}
	if (is_first_failure(replay)) {
		tell(replay, what, index);
		printf(": expected \"%s\", got \"%s\"\n", expected, got);
	}
	return false;
}

bool replay_check_real(struct replay *replay, const char *what, long index, double expected,
	double got, double tolerance) {
	double scale = fmax(1, fabs(expected));

	replay->checks++;
	if (fabs(expected - got) <= tolerance * scale) {
		return true;
	}
	if (is_first_failure(replay)) {
		tell(replay, what, index);
		printf(": expected %.17g, got %.17g\n", expected, got);
	}
	return false;
}

// --- reading ----------------------------------------------------------------------------------

static bool is_listed(const char *list, const char *key) {
	size_t length = strlen(key);

	for (const char *at = strstr(list, key); at != NULL; at = strstr(at + 1, key)) {
		if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) {
			return true;
		}
	}
	return false;
}

bool replay_is_comment(const char *key) {
	return is_listed(comments, key);
}

bool replay_known_keys(struct replay *replay, const json_t *object, const char *keys) {
	const char *key;
	json_t *value;

	if (!json_is_object(object)) {
		replay_fail(replay, "a case must be an object");
		return false;
	}
	json_object_foreach ((json_t *)object, key, value) {
		if (!is_listed(keys, key) && !replay_is_comment(key)) {
			replay_fail(replay, "unknown key \"%s\"", key);
			return false;
		}
	}
	return true;
}

void replay_each(struct replay *replay, const json_t *root, const char *list,
	void (*one)(struct replay *replay, const json_t *vector)) {
	const json_t *vector;
	size_t i;

	json_array_foreach (json_object_get(root, list), i, vector) {
		replay_begin(replay, "%s %zu", list, i);
		one(replay, vector);
		replay_end(replay);
	}
}

void replay_root(struct replay *replay, const json_t *root, const char *keys) {
	replay_begin(replay, "file");
	if (!replay_known_keys(replay, root, keys)) {
		replay_end(replay);
	}
}

bool replay_has(const json_t *object, const char *key) {
	return json_object_get(object, key) != NULL;
}

double replay_real(struct replay *replay, const json_t *object, const char *key, double otherwise) {
	const json_t *value = json_object_get(object, key);

	if (value == NULL) {
		return otherwise;
	}
	if (!json_is_number(value)) {
		replay_fail(replay, "\"%s\" is no number", key);
		return otherwise;
	}
	return json_number_value(value);
}

uint32_t replay_uint(
	struct replay *replay, const json_t *object, const char *key, uint32_t otherwise) {
	const json_t *value = json_object_get(object, key);

	if (value == NULL) {
		return otherwise;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > INT32_MAX) {
		replay_fail(replay, "\"%s\" is no whole number >= 0", key);
		return otherwise;
	}
	return (uint32_t)json_integer_value(value);
}

const char *replay_text(
	struct replay *replay, const json_t *object, const char *key, const char *otherwise) {
	const json_t *value = json_object_get(object, key);

	if (value == NULL) {
		return otherwise;
	}
	if (!json_is_string(value)) {
		replay_fail(replay, "\"%s\" is no text", key);
		return otherwise;
	}
	return json_string_value(value);
}

const json_t *replay_list(struct replay *replay, const json_t *object, const char *key) {
	const json_t *value = json_object_get(object, key);

	if (value == NULL) {
		return NULL;
	}
	if (!json_is_array(value)) {
		replay_fail(replay, "\"%s\" is no list", key);
		return NULL;
	}
	return value;
}

long replay_key(struct replay *replay, const json_t *value) {
	if (json_is_null(value)) {
		return REPLAY_NONE;
	}
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		json_integer_value(value) > UINT16_MAX) {
		replay_fail(replay, "a choice is neither a key nor null");
		return REPLAY_NONE - 1;
	}
	return (long)json_integer_value(value);
}

long replay_largest(const json_t *list) {
	const json_t *value;
	long largest = -1;
	size_t i;

	json_array_foreach (list, i, value) {
		if (json_is_integer(value) && json_integer_value(value) > largest) {
			largest = (long)json_integer_value(value);
		}
	}
	return largest;
}

double *replay_reals(
	struct replay *replay, const json_t *object, const char *key, uint32_t *ret_count) {
	const json_t *list = replay_list(replay, object, key);
	const json_t *value;
	double *reals;
	size_t i;

	if (list == NULL || json_array_size(list) == 0) {
		return NULL;
	}
	reals = replay_alloc(json_array_size(list) * sizeof(reals[0]));
	json_array_foreach (list, i, value) {
		if (!json_is_number(value) || json_number_value(value) < 0) {
			replay_fail(replay, "\"%s\" is no list of numbers >= 0", key);
			free(reals);
			return NULL;
		}
		reals[i] = json_number_value(value);
	}
	*ret_count = (uint32_t)json_array_size(list);
	return reals;
}
