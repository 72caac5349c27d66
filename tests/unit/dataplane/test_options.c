// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_options.h"
#include "help_text.h"
#include "test.h"

#define WORDS 16

// Parse words up to the first NULL.
static int parse(struct weir_dataplane_options *ret, char *why, ...) {
	char *argv[WORDS] = {(char *)(uintptr_t)"weir-dataplane"};
	va_list words;
	int argc = 1;

	va_start(words, why);
	while ((argv[argc] = va_arg(words, char *)) != NULL) {
		argc++;
	}
	va_end(words);
	return weir_dataplane_options_parse(argc, argv, ret, why, 256);
}

TEST(defaults_hold_for_what_is_not_given) {
	struct weir_dataplane_options options;
	char why[256];

	unsetenv("WEIR_STEER_OBJECT");
	assert_int_equal(parse(&options, why, "--config", "weir.json", NULL), 0);
	assert_string_equal(options.config, "weir.json");
	assert_string_equal(options.run_dir, WEIR_RUN_DIR_DEFAULT);
	assert_null(options.group);
	assert_string_equal(options.eal, "");
	assert_non_null(strstr(options.steer_object, "steer.bpf.o"));
	assert_int_equal(options.log_level, WEIR_LOG_INFO);
	assert_false(options.version || options.help || options.telemetry);
}

TEST(every_option_is_taken) {
	struct weir_dataplane_options options;
	char why[256];

	assert_int_equal(parse(&options, why, "--config=c", "--run-dir=r", "--group=g",
				 "--eal=--vdev=net_null0 -v", "--steer-object=s", "--telemetry",
				 "--log-level=debug", NULL),
		0);
	assert_string_equal(options.config, "c");
	assert_string_equal(options.run_dir, "r");
	assert_string_equal(options.group, "g");
	assert_string_equal(options.eal, "--vdev=net_null0 -v");
	assert_string_equal(options.steer_object, "s");
	assert_true(options.telemetry);
	assert_int_equal(options.log_level, WEIR_LOG_DEBUG);
}

TEST(environment_replaces_steer_object) {
	struct weir_dataplane_options options;
	char why[256];

	setenv("WEIR_STEER_OBJECT", "/from/environment", 1);
	assert_int_equal(parse(&options, why, "--config=c", NULL), 0);
	assert_string_equal(options.steer_object, "/from/environment");
	assert_int_equal(parse(&options, why, "--config=c", "--steer-object=none", NULL), 0);
	assert_string_equal(options.steer_object, WEIR_STEER_OBJECT_NONE);
	unsetenv("WEIR_STEER_OBJECT");
}

TEST(help_and_version_need_no_config) {
	struct weir_dataplane_options options;
	char help[WEIR_HELP_BYTES];
	char why[256];

	assert_int_equal(parse(&options, why, "--help", NULL), 0);
	assert_true(options.help);
	assert_int_equal(parse(&options, why, "--version", NULL), 0);
	assert_true(options.version);
	assert_non_null(strstr(
		weir_dataplane_help(help, sizeof(help)), "Example: weir-dataplane --config"));
	for (const char *const *name = (const char *const[]){"--config FILE", "--run-dir DIR",
		     "--group GROUP", "--eal 'ARG...'", "--steer-object PATH", "--telemetry",
		     "--log-level LEVEL", "--log-format FORMAT", "(default: info)", "--version",
		     "--help", NULL};
		*name != NULL; name++) {
		assert_non_null(strstr(help, *name));
	}
}

TEST(mistakes_are_reported) {
	struct weir_dataplane_options options = {.config = "before"};
	char run_dir[256];
	char why[256];

	assert_int_equal(parse(&options, why, NULL), -EINVAL);
	assert_non_null(strstr(why, "--config"));
	assert_int_equal(parse(&options, why, "--config", NULL), -EINVAL);
	assert_string_equal(why, "--config needs a value; use --config FILE");
	assert_int_equal(parse(&options, why, "--config=c", "--speed=9", NULL), -EINVAL);
	assert_non_null(strstr(why, "--speed"));
	assert_int_equal(parse(&options, why, "--config=c", "more", NULL), -EINVAL);
	assert_non_null(strstr(why, "more"));
	assert_int_equal(parse(&options, why, "--config=c", "--log-level=loud", NULL), -EINVAL);
	assert_non_null(strstr(why, "loud"));
	assert_int_equal(parse(&options, why, "--config=c", "--steer-object=a,b=c", NULL), -EINVAL);
	assert_non_null(strstr(why, "--steer-object"));
	memset(run_dir, 'r', sizeof(run_dir));
	memcpy(run_dir, "--run-dir=", 10);
	run_dir[sizeof(run_dir) - 1] = '\0';
	assert_int_equal(parse(&options, why, "--config=c", run_dir, NULL), -EINVAL);
	assert_non_null(strstr(why, "--run-dir"));
	assert_string_equal(options.config, "before");
}
