// SPDX-License-Identifier: BSD-3-Clause
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

enum option_id { CONFIG = 1, RUN_DIR, USER, GROUP, LOG_LEVEL, VERSION, HELP };

static const struct option options[] = {
	{"config", required_argument, NULL, CONFIG},
	{"run-dir", required_argument, NULL, RUN_DIR},
	{"user", required_argument, NULL, USER},
	{"group", required_argument, NULL, GROUP},
	{"log-level", required_argument, NULL, LOG_LEVEL},
	{"version", no_argument, NULL, VERSION},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

const char *weir_arguments_usage(void) {
	return "Usage: weir-control --config FILE [OPTION...]\n"
	       "Watch the backends, decide who gets new flows, and tell weir-dataplane.\n"
	       "\n"
	       "  --config FILE      the configuration, the same file that weir-dataplane reads\n"
	       "  --run-dir DIR      where the sockets are (" WEIR_RUN_DIR_DEFAULT ")\n"
	       "  --user USER        run as this user; when started as root: weir, else nobody\n"
	       "  --group GROUP      run as this group, which may use weirctl; when started as\n"
	       "                     root: weir, else that of the user\n"
	       "  --log-level LEVEL  error, warn, info or debug (info)\n"
	       "  --version          print the version\n"
	       "  --help             print this\n"
	       "\n"
	       "SIGHUP reads the configuration again; a bad one changes nothing.\n"
	       "Exit status: 0 ended by SIGTERM or SIGINT, 1 cannot run, 2 usage or "
	       "configuration.\n"
	       "\n"
	       "Example: weir-control --config /etc/weir/weir.json --group weir\n";
}

static int check_run_dir(const char *run_dir, char *why, size_t why_bytes) {
	// The longest name in it must still fit a socket address.
	size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/dataplane.sock");

	if (run_dir[0] == '\0' || strlen(run_dir) > most) {
		snprintf(why, why_bytes, "--run-dir: must be 1 to %zu bytes long", most);
		return -EINVAL;
	}
	return 0;
}

int weir_arguments_parse(
	int argc, char **argv, struct weir_arguments *ret, char *why, size_t why_bytes) {
	struct weir_arguments arguments = {
		.run_dir = WEIR_RUN_DIR_DEFAULT, .log_level = WEIR_LOG_INFO};
	int id;

	opterr = 0;
	optind = 0; // start over: tests parse many times
	while ((id = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (id) {
		case CONFIG:
			arguments.config = optarg;
			break;
		case RUN_DIR:
			arguments.run_dir = optarg;
			break;
		case USER:
			arguments.user = optarg;
			break;
		case GROUP:
			arguments.group = optarg;
			break;
		case LOG_LEVEL:
			if (weir_log_level_parse(optarg, &arguments.log_level) < 0) {
				snprintf(why, why_bytes,
					"--log-level %s: must be error, warn, info or debug",
					optarg);
				return -EINVAL;
			}
			break;
		case VERSION:
			arguments.version = true;
			break;
		case HELP:
			arguments.help = true;
			break;
		case ':':
			snprintf(why, why_bytes, "%s needs a value", argv[optind - 1]);
			return -EINVAL;
		default:
			snprintf(why, why_bytes, "unknown option %s", argv[optind - 1]);
			return -EINVAL;
		}
	}
	if (!arguments.help && !arguments.version) {
		if (optind < argc) {
			snprintf(why, why_bytes, "unexpected argument %s", argv[optind]);
			return -EINVAL;
		}
		if (arguments.config == NULL || arguments.config[0] == '\0') {
			snprintf(why, why_bytes, "--config FILE is missing");
			return -EINVAL;
		}
		if (check_run_dir(arguments.run_dir, why, why_bytes) < 0) {
			return -EINVAL;
		}
	}
	*ret = arguments;
	return 0;
}
