// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include "daemon_options.h"
#include "help_text.h"

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_control_options, member)

static const struct weir_option rows[] = {
	{.name = "config",
		.kind = WEIR_OPTION_TEXT,
		.required = true,
		.value = "FILE",
		.help = "configuration file, the same as weir-dataplane's",
		.min = 1,
		FIELD(config)},
	{.name = "run-dir",
		.kind = WEIR_OPTION_TEXT,
		.value = "DIR",
		.help = "directory of the sockets",
		.fallback = WEIR_RUN_DIR_DEFAULT,
		.min = 1,
		.max = WEIR_RUN_DIR_MAX,
		FIELD(run_dir)},
	{.name = "user",
		.kind = WEIR_OPTION_TEXT,
		.value = "USER",
		.help = "user to run as; started as root: weir if it exists, otherwise nobody",
		FIELD(user)},
	{.name = "group",
		.kind = WEIR_OPTION_TEXT,
		.value = "GROUP",
		.help = "group to run as, whose members may look with weirctl; started as root: "
			"weir if it exists, otherwise the user's group",
		FIELD(group)},
	{.name = "admin-group",
		.kind = WEIR_OPTION_TEXT,
		.value = "GROUP",
		.help = "group of the users who may also make changes",
		.fallback = WEIR_ADMIN_GROUP_DEFAULT ", if it exists",
		FIELD(admin_group)},
	{.name = "data-path-checks",
		.kind = WEIR_OPTION_FLAG,
		.help = "make health checks via the data path possible: a device weir-check and "
			"policy rules; needs root, or CAP_NET_ADMIN and CAP_NET_RAW at the start",
		FIELD(data_path_checks)},
	{.name = "check-dataplane",
		.kind = WEIR_OPTION_FLAG,
		.help = "only check whether this version serves the dataplane that runs: exit "
			"status 0 if it does or none runs, else 1; changes nothing",
		FIELD(check_dataplane)},
	{WEIR_OPTION_LOG_LEVEL, FIELD(log_level)},
	{WEIR_OPTION_LOG_FORMAT, FIELD(log_format)},
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};

static const struct weir_help help = {
	.usage = "weir-control --config FILE [OPTION]...",
	.about = "Check the health of backends, decide which get new flows, and publish tables to "
		 "weir-dataplane.",
	.notes = "SIGHUP reloads the configuration; an invalid one is rejected and the running one "
		 "stays.\nExit status: 0 terminated by SIGTERM or SIGINT, 1 runtime failure, 2 "
		 "invalid usage or configuration.",
	.examples = "weir-control --config /etc/weir/weir.json --group weir",
};

const char *weir_control_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

int weir_control_options_parse(
	int argc, char **argv, struct weir_control_options *ret, char *why, size_t why_bytes) {
	struct weir_control_options options = {
		.run_dir = WEIR_RUN_DIR_DEFAULT, .log_level = WEIR_LOG_INFO};
	struct weir_command_line line;
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);

	if (r < 0) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	*ret = options;
	return 0;
}
