// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nearest.h"

static void nearest_suggests_only_what_is_near(void **state) {
	static const char *const keys[] = {
		"name", "address", "weight", "health_check", "table_size"};
	static const struct {
		const char *word, *nearest;
	} cases[] = {
		{"adress", "address"},
		{"nmae", "name"},
		{"weigth", "weight"},
		{"healthcheck", "health_check"},
		{"tablesize", "table_size"},
		{"Name", "name"},
		{"bananas", NULL},
		{"", NULL},
		{"x", NULL},
		{"ab", NULL},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "a",
			NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *nearest = weir_nearest(cases[i].word, keys, 5);

		if (cases[i].nearest != NULL) {
			assert_non_null(nearest);
			assert_string_equal(nearest, cases[i].nearest);
		} else {
			assert_null(nearest);
		}
	}
}

static void nearest_of_nothing(void **state) {
	(void)state;
	assert_null(weir_nearest("name", NULL, 0));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nearest_suggests_only_what_is_near),
		cmocka_unit_test(nearest_of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
