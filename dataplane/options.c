// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon_options.h"
#include "help_text.h"
#include "terminal.h"

#define STEER_OBJECT_VARIABLE "WEIR_STEER_OBJECT"

#define FIELD(member) WEIR_OPTION_FIELD(struct weir_dataplane_options, member)

static const struct weir_option rows[] = {
	WEIR_OPTION_ROW(TEXT, "config", "FILE", "configuration file, also used by weir-control",
		FIELD(config), .required = true, .min = 1),
	WEIR_OPTION_ROW(TEXT, "run-dir", "DIR", "directory of the socket for weir-control",
		FIELD(run_dir), .fallback = WEIR_RUN_DIR_DEFAULT, .min = 1,
		.max = WEIR_RUN_DIR_MAX),
	WEIR_OPTION_ROW(TEXT, "group", "GROUP", "group that may read the run directory",
		FIELD(group), .fallback = WEIR_GROUP_DEFAULT ", if it exists"),
	WEIR_OPTION_ROW(TEXT, "control-user", "USER",
		"user of weir-control; only this user and root may attach", FIELD(control_user),
		.fallback = WEIR_USER_DEFAULT ", if it exists"),
	WEIR_OPTION_ROW(TEXT, "eal", "'ARG...'", "additional DPDK EAL arguments", FIELD(eal)),
	WEIR_OPTION_ROW(TEXT, "steer-object", "PATH",
		"XDP program that redirects VIP traffic of AF_XDP ports, or \"none\" for the "
		"driver's own program, which redirects all traffic; WEIR_STEER_OBJECT in the "
		"environment "
		"sets the default",
		FIELD(steer_object), .fallback = WEIR_STEER_OBJECT),
	WEIR_OPTION_ROW(FLAG, "telemetry", NULL,
		"serve DPDK's telemetry socket, with commands such as /weir/workers, for "
		"dpdk-telemetry.py; only root can connect",
		FIELD(telemetry)),
	{WEIR_OPTION_LOG_LEVEL, FIELD(log_level)},
	{WEIR_OPTION_LOG_FORMAT, FIELD(log_format)},
};

static const struct weir_option_list list = {.row = rows, .count = sizeof(rows) / sizeof(rows[0])};

static const struct weir_help help = {
	.usage = "weir-dataplane --config FILE [OPTION]...",
	.about = "Forward packets for VIPs to backends, using tables that weir-control publishes.",
	.notes = "Exit status: 0 terminated by SIGTERM or SIGINT, 1 runtime failure, 2 invalid "
		 "usage or configuration.",
	.examples = "weir-dataplane --config /etc/weir/weir.json --group weir",
};

const char *weir_dataplane_help(char *buffer, size_t bytes) {
	return weir_help_text(&list, &help, buffer, bytes);
}

// Returns whether a value of --steer-object is valid. The path must not contain a comma, because it
// becomes a device argument of DPDK, and commas separate device arguments.
static bool is_steer_object(const char *path) {
	return path[0] != '\0' && strchr(path, ',') == NULL;
}

int weir_dataplane_options_parse(
	int argc, char **argv, struct weir_dataplane_options *ret, char *why, size_t why_bytes) {
	const char *steer_object = getenv(STEER_OBJECT_VARIABLE);
	struct weir_dataplane_options options = {
		.run_dir = WEIR_RUN_DIR_DEFAULT,
		.eal = "",
		.steer_object = steer_object != NULL ? steer_object : WEIR_STEER_OBJECT,
		.log_level = WEIR_LOG_INFO,
	};
	struct weir_command_line line;
	char shown[64];
	int r = weir_command_line_parse(&list, argc, argv, &options, &line, why, why_bytes);

	if (r < 0) {
		return r;
	}
	options.help = line.help;
	options.version = line.version;
	if (!line.help && !line.version && !is_steer_object(options.steer_object)) {
		snprintf(why, why_bytes,
			"--steer-object or " STEER_OBJECT_VARIABLE
			": \"%s\" is not valid: use a path without commas, or \"none\"",
			weir_terminal_text(options.steer_object, shown, sizeof(shown)));
		return -EINVAL;
	}
	*ret = options;
	return 0;
}
