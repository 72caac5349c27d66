// SPDX-License-Identifier: BSD-3-Clause
#include "nearest.h"
#include "test.h"

TEST(nearest_suggests_only_what_is_near) {
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
		{"healthy", "health_check"}, // the names begin with the same letters
		{"addr", "address"},
		{"tables_and_chairs", NULL},
		{"bananas", NULL},
		{"", NULL},
		{"x", NULL},
		{"ab", NULL},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "a",
			NULL},
	};

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

TEST(nearest_of_nothing) {
	assert_null(weir_nearest("name", NULL, 0));
}
