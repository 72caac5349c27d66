// SPDX-License-Identifier: BSD-3-Clause
//
// Unit tests that register themselves and are run by cmocka. A file of tests contains
//
// 	TEST(name) { ... }
// 	TEST(name, setup, teardown) { ... }	with a separate setup and teardown
// 	TEST_EACH(setup, teardown);		for each TEST(name) of the file
// 	TEST_GROUP(setup, teardown);		once for the file; several groups are nested
// 	TEST_ARGUMENT(name);			a command-line argument, static const char *name
//
// A teardown may be omitted. A test gets the same `state` as its setup.
//
// A program may consist of many files. It runs the tests of one file, in the order of their lines:
//
// 	PROGRAM FILE [ARGUMENT...]	FILE as in test_FILE.c
// 	PROGRAM --list			each file and test
//
// FILE is omitted if the program has only one file.
//
// If the environment has TEST_FILTER, only tests that match this pattern run.
#pragma once

// Headers required before cmocka.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum test_kind { TEST_CASE, TEST_FIXTURE, TEST_GROUP_FIXTURE, TEST_WORD };

struct test {
	enum test_kind kind;
	const char *name, *file;
	int line;
	CMUnitTestFunction run;
	const char **word;
	CMFixtureFunction fixture[2]; // setup, teardown
	struct test *next;
};

// JSON({"name": "%s"}) turns its argument into a string. White space between tokens becomes one
// space.
#define JSON(...) #__VA_ARGS__

// Called by constructors. test is borrowed.
void test_add(struct test *test);

#define TEST_ADD(id, ...) \
	__attribute__((constructor)) static void test_add_##id(void) { \
		static struct test test = { \
			.name = #id, .file = __BASE_FILE__, .line = __LINE__, __VA_ARGS__}; \
\
		test_add(&test); \
	}

#define TEST(id, ...) \
	static void id(void **state); \
	TEST_ADD(id, .kind = TEST_CASE, .run = id, .fixture = {__VA_ARGS__}) \
	static void id(__attribute__((unused)) void **state)

#define TEST_EACH(...) \
	TEST_ADD(each, .kind = TEST_FIXTURE, .fixture = {__VA_ARGS__}) \
	struct test

#define TEST_GROUP(s, ...) \
	TEST_ADD(group_##s, .kind = TEST_GROUP_FIXTURE, .fixture = {s, ##__VA_ARGS__}) \
	struct test

#define TEST_ARGUMENT(id) \
	static const char *id; \
	TEST_ADD(id, .kind = TEST_WORD, .word = &id) \
	struct test
