// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the tests of the configuration: a small valid configuration with placeholders, and
// functions that check the errors of a text.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "test.h"

#define PORTS "\"ports\": [{\"name\": \"wan\", \"device\": \"net_null0\"}]"
#define BIND "{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", \"port\": 80}"
#define BACKEND "{\"name\": \"web-1\", \"address\": \"10.0.0.11\"}"
#define SERVICE(extra, binds, backends) \
	"{\"name\": \"web\"," extra "\"binds\": [" binds "], \"backends\": [" backends "]}"
#define CONFIG(root, services) "{" root PORTS ", \"services\": [" services "]}"

// Parse a text that must be valid.
static inline struct weir_config *parse_good(const char *text) {
	struct weir_config_errors errors;
	struct weir_config *config = NULL;
	int r = weir_config_parse(text, strlen(text), &config, &errors);

	for (uint32_t i = 0; i < errors.count; i++) {
		print_error("%d:%d: %s: %s\n", errors.error[i].line, errors.error[i].column,
			errors.error[i].path, errors.error[i].reason);
	}
	assert_int_equal(r, 0);
	assert_int_equal(errors.count, 0);
	weir_config_errors_fini(&errors);
	return config;
}

// Parse a text that must have exactly one error, at `path`, with `reason` in its text.
static inline void expect_one_error(const char *text, const char *path, const char *reason) {
	struct weir_config *config = (void *)&config;
	struct weir_config_errors errors;
	int r = weir_config_parse(text, strlen(text), &config, &errors);

	assert_int_equal(r, -22);
	assert_ptr_equal(config, &config);
	assert_int_equal(errors.count, 1);
	assert_string_equal(errors.error[0].path, path);
	if (strstr(errors.error[0].reason, reason) == NULL) {
		fail_msg("\"%s\" is not in \"%s\"", reason, errors.error[0].reason);
	}
	assert_true(errors.error[0].line >= 1 && errors.error[0].column >= 1);
	weir_config_errors_fini(&errors);
}
