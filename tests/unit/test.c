// SPDX-License-Identifier: BSD-3-Clause
//
// The main function of every unit test program; test.h describes it.
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#define GROUPS 4

static struct test *tests; // tests of all files

// Group fixtures of the file whose tests run.
static const struct test *groups[GROUPS];
static unsigned int n_groups, n_set_up;

void test_add(struct test *test) {
	test->next = tests;
	tests = test;
}

// Finds FILE in the path .../test_FILE.c. Returns its length; *begin: its first character.
static size_t file_of(const struct test *test, const char **begin) {
	const char *slash = strrchr(test->file, '/');

	*begin = slash == NULL ? test->file : slash + 1;
	if (strncmp(*begin, "test_", 5) == 0) {
		*begin += 5;
	}
	return strcspn(*begin, ".");
}

static bool is_of(const struct test *test, const char *file) {
	const char *begin;
	size_t length = file_of(test, &begin);

	return strlen(file) == length && memcmp(begin, file, length) == 0;
}

static int by_line(const void *a, const void *b) {
	const struct test *const *left = a, *const *right = b;
	int order = strcmp((*left)->file, (*right)->file);

	return order != 0 ? order : (*left)->line - (*right)->line;
}

// Returns all tests, sorted by file and line. The caller frees the array.
static struct test **sorted(size_t *n) {
	struct test **list, *test;

	*n = 0;
	for (test = tests; test != NULL; test = test->next) {
		(*n)++;
	}
	list = calloc(*n + 1, sizeof(*list));
	if (list == NULL) {
		abort();
	}
	*n = 0;
	for (test = tests; test != NULL; test = test->next) {
		list[(*n)++] = test;
	}
	qsort(list, *n, sizeof(*list), by_line);
	return list;
}

static int set_up_groups(void **state) {
	for (n_set_up = 0; n_set_up < n_groups; n_set_up++) {
		CMFixtureFunction setup = groups[n_set_up]->fixture[0];
		int r = setup == NULL ? 0 : setup(state);

		if (r != 0) {
			return r;
		}
	}
	return 0;
}

static int tear_down_groups(void **state) {
	int result = 0;

	while (n_set_up > 0) {
		CMFixtureFunction teardown = groups[--n_set_up]->fixture[1];
		int r = teardown == NULL ? 0 : teardown(state);

		result = r != 0 ? r : result;
	}
	return result;
}

// Stores the command-line arguments in the variables of TEST_ARGUMENT.
static bool take_arguments(struct test *const *list, size_t n, const char *file, char **words) {
	for (size_t i = 0; i < n; i++) {
		if (list[i]->kind != TEST_WORD || !is_of(list[i], file)) {
			continue;
		}
		if (*words == NULL) {
			fprintf(stderr, "%s needs another argument: %s\n", file, list[i]->name);
			return false;
		}
		*list[i]->word = *words++;
	}
	if (*words != NULL) {
		fprintf(stderr, "%s: one argument too many: %s\n", file, *words);
		return false;
	}
	return true;
}

// Writes the tests of the file, with their fixtures, to cases. Also fills groups.
static size_t choose(
	struct test *const *list, size_t n, const char *file, struct CMUnitTest *cases) {
	const struct test *each = NULL;
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_of(list[i], file) && list[i]->kind == TEST_FIXTURE) {
			each = list[i];
		}
	}
	for (size_t i = 0; i < n; i++) {
		const struct test *test = list[i], *with = test;

		if (!is_of(test, file)) {
			continue;
		}
		if (test->kind == TEST_GROUP_FIXTURE && n_groups < GROUPS) {
			groups[n_groups++] = test;
		}
		if (test->kind != TEST_CASE) {
			continue;
		}
		if (test->fixture[0] == NULL && test->fixture[1] == NULL && each != NULL) {
			with = each;
		}
		cases[chosen++] = (struct CMUnitTest){.name = test->name,
			.test_func = test->run,
			.setup_func = with->fixture[0],
			.teardown_func = with->fixture[1]};
	}
	return chosen;
}

static int run(struct test *const *list, size_t n, const char *file, char **words) {
	struct CMUnitTest *cases = calloc(n, sizeof(*cases));
	size_t chosen;
	int failed = 2;

	if (cases == NULL) {
		abort();
	}
	chosen = choose(list, n, file, cases);
	if (chosen == 0) {
		fprintf(stderr, "there are no tests of %s; --list prints all\n", file);
	} else if (take_arguments(list, n, file, words)) {
		failed = _cmocka_run_group_tests(
			file, cases, chosen, set_up_groups, tear_down_groups);
	}
	free(cases);
	return failed;
}

static int print_all(struct test *const *list, size_t n) {
	for (size_t i = 0; i < n; i++) {
		const char *begin;
		int length = (int)file_of(list[i], &begin);

		if (list[i]->kind == TEST_CASE) {
			printf("%.*s %s\n", length, begin, list[i]->name);
		}
	}
	return 0;
}

int main(int argc, char **argv) {
	size_t n;
	struct test **list = sorted(&n);
	const char *begin, *filter = getenv("TEST_FILTER");
	char *file = NULL;
	int failed = 2;

	// As in weir-control: calloc() of a large array in the heap would write all of it.
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	if (filter != NULL) {
		cmocka_set_test_filter(filter);
	}
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		failed = print_all(list, n);
	} else if (n > 0 && strcmp(list[0]->file, list[n - 1]->file) == 0) {
		size_t length = file_of(list[0], &begin);

		file = strndup(begin, length);
		failed = run(list, n, file, argv + 1);
		free(file);
	} else if (argc > 1) {
		failed = run(list, n, argv[1], argv + 2);
	} else {
		fprintf(stderr, "usage: %s FILE [ARGUMENT...] | --list\n", argv[0]);
	}
	free(list);
	return failed;
}
