// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the settings of a subset.
#include "config_lab.h"

#define SUBSET(text) CONFIG("", SERVICE("\"subset\": {" text "},", BIND, BACKEND))

static struct weir_config_subset parse(const char *text) {
	struct weir_config *config = parse_good(text);
	struct weir_config_subset subset = config->services[0].subset;

	weir_config_free(config);
	return subset;
}

TEST(defaults) {
	struct weir_config_subset subset = parse(CONFIG("", SERVICE("", BIND, BACKEND)));

	assert_int_equal(subset.algorithm, WEIR_SUBSET_NONE);
	assert_int_equal(subset.size, 0);
	assert_int_equal(subset.mode, WEIR_SUBSET_MODE_SPREAD);
	assert_int_equal(subset.client, WEIR_SUBSET_CLIENT_GROUP);
	assert_int_equal(subset.salt, 0);
}

TEST(settings_are_read) {
	struct weir_config_subset subset =
		parse(SUBSET("\"algorithm\": \"deterministic\", \"size\": 65535, \"mode\": "
			     "\"exact\", \"client\": \"worker\", \"salt\": 4294967295"));

	assert_int_equal(subset.algorithm, WEIR_SUBSET_DETERMINISTIC);
	assert_int_equal(subset.size, 65535);
	assert_int_equal(subset.mode, WEIR_SUBSET_MODE_EXACT);
	assert_int_equal(subset.client, WEIR_SUBSET_CLIENT_WORKER);
	assert_int_equal(subset.salt, UINT32_MAX);
}

TEST(every_name) {
	for (int i = 0; i < WEIR_SUBSET_ALGORITHM_COUNT; i++) {
		for (int j = 0; j < WEIR_SUBSET_CLIENT_COUNT; j++) {
			struct weir_config_subset subset;
			char text[1024];

			snprintf(text, sizeof(text),
				SUBSET("\"size\": 1, \"algorithm\": \"%s\", \"client\": \"%s\""),
				weir_subset_name((enum weir_subset_algorithm)i),
				weir_subset_client_name((enum weir_subset_client)j));
			subset = parse(text);
			assert_int_equal(subset.algorithm, i);
			assert_int_equal(subset.client, j);
		}
	}
}

// Algorithm "none" disables subsetting. The other keys keep their values, so that subsetting can be
// enabled again.
TEST(none_keeps_the_other_keys) {
	struct weir_config_subset subset =
		parse(SUBSET("\"algorithm\": \"none\", \"size\": 20, \"mode\": \"exact\""));

	assert_int_equal(subset.algorithm, WEIR_SUBSET_NONE);
	parse(SUBSET("\"algorithm\": \"none\""));
}

TEST(incompatible_settings_are_errors) {
	expect_one_error(
		SUBSET("\"algorithm\": \"random\""), "services[0].subset", "needs \"size\"");
	expect_one_error(SUBSET("\"size\": 20"), "services[0].subset", "\"algorithm\" is missing");
	expect_one_error(SUBSET("\"algorithm\": \"random\", \"size\": 0"),
		"services[0].subset.size", "out of range");
	expect_one_error(SUBSET("\"algorithm\": \"random\", \"size\": 65536"),
		"services[0].subset.size", "out of range");
	expect_one_error(SUBSET("\"algorithm\": \"random\", \"size\": 2, \"mode\": \"spread\""),
		"services[0].subset.mode", "not used by algorithm \"random\"");
}
