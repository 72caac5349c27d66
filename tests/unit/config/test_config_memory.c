// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the parser when memory runs out, for each of its allocations.
#include <errno.h>

#include "config_lab.h"
#include "starved.h"

// Parses while only the first 0, 1, 2, ... allocations succeed, until parsing needs no more. If an
// allocation fails, the parser must return -ENOMEM and no result. Returns the number of allocations
// needed.
static long starve(const char *text, int expected) {
	for (long n = 0;; n++) {
		struct weir_config *config = (void *)&config;
		struct weir_config_errors errors;
		int r;

		starved_after(n);
		r = weir_config_parse(text, strlen(text), &config, &errors);
		starved_after(-1);
		if (r != -ENOMEM) {
			assert_int_equal(r, expected);
			weir_config_errors_fini(&errors);
			if (r == 0) {
				weir_config_free(config);
			}
			return n;
		}
		assert_ptr_equal(config, &config);
		weir_config_errors_fini(&errors);
	}
}

TEST(parse_survives_each_failed_allocation) {
	assert_true(starve(CONFIG("", SERVICE("", BIND, BACKEND)), 0) > 5);
}

TEST(warnings_survive_each_failed_allocation) {
	assert_true(starve(
		CONFIG("", SERVICE("", BIND,
				   JSON({"name": "a", "address": "10.0.0.1", "weight": 0},
					{"name": "b", "address": "10.0.0.1", "weight": 0}))),
				   0) > 8);
}

TEST(errors_survive_each_failed_allocation) {
	assert_true(
		starve(CONFIG("\"instance\": {\"name\": \"\"}, \"x\": 1,",
			       SERVICE("\"table_size\": 4,", BIND ", " BIND, BACKEND ", " BACKEND)),
			-EINVAL) > 5);
}

// Own checks take a copy of the URLs of the service.
TEST(own_checks_survive_each_failed_allocation) {
	assert_true(starve(CONFIG(
		"", SERVICE("\"health_check\": {\"type\": \"http\", \"urls\": [{\"path\": "
			    "\"/a\"}]},",
			    BIND,
			    JSON({"name": "a", "address": "10.0.0.1",
						"health_check": {"type": "http"}},
					       {"name": "b", "address": "10.0.0.2",
						"health_check": {"type": "http", "urls": []}},
					       {"name": "c", "address": "10.0.0.3",
						"health_check": {"type": "tcp"}}))),
					    0) > 8);
}
