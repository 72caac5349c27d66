// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include "daemon_options.h"
#include "help_text.h"

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_control_options, member)

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(TEXT, "config", "FILE",
		"configuration file; use the same file for weir-dataplane", FIELD(config),
		.required = true, .min = 1),
	WEIR_OPTION_ROW(TEXT, "run-dir", "DIR", "directory of the sockets", FIELD(run_dir),
		.fallback = WEIR_RUN_DIR_DEFAULT, .min = 1, .max = WEIR_RUN_DIR_MAX),
	WEIR_OPTION_ROW(TEXT, "user", "USER",
		"user to run as; default when started as root: weir if this user exists, otherwise "
		"the user nobody",
		FIELD(user)),
	WEIR_OPTION_ROW(TEXT, "group", "GROUP",
		"group to run as, whose members have read access with weirctl; default when "
		"started as root: weir if this group exists, otherwise the user's group",
		FIELD(group)),
	WEIR_OPTION_ROW(TEXT, "admin-group", "GROUP", "group whose members may also make changes",
		FIELD(admin_group), .fallback = WEIR_ADMIN_GROUP_DEFAULT ", if it exists"),
	WEIR_OPTION_ROW(TEXT, "script-user", "USER",
		"user to run the programs of notify and of health checks as; default when started "
		"as root: weir-script if this user exists, otherwise the user nobody",
		FIELD(script_user)),
	WEIR_OPTION_ROW(FLAG, "data-path-checks", NULL,
		"enable health checks via the data path, which use policy rules and a network "
		"device named weir-check; needs root, or CAP_NET_ADMIN and CAP_NET_RAW at "
		"startup",
		FIELD(data_path_checks)),
	WEIR_OPTION_ROW(FLAG, "check-dataplane", NULL,
		"only check whether this version supports the running dataplane, and change "
		"nothing; exit status 0: supported, or no dataplane is running, 1: not supported",
		FIELD(check_dataplane)),
	{WEIR_OPTION_LOG_LEVEL, FIELD(log_level)},
	{WEIR_OPTION_LOG_FORMAT, FIELD(log_format)},
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};

static const struct weir_help help = {
	.usage = "weir-control --config FILE [OPTION]...",
	.about = "Check the health of backends, decide which backends get new flows, and publish "
		 "tables to weir-dataplane.",
	.notes = "SIGHUP reloads the configuration; an invalid configuration is rejected, and the "
		 "running configuration remains in use.\nExit status: 0 terminated by SIGTERM or "
		 "SIGINT, 1 runtime failure, 2 invalid usage or configuration.",
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
