// SPDX-License-Identifier: BSD-3-Clause
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define STEER_OBJECT_VARIABLE "WEIR_STEER_OBJECT"

enum option_id { CONFIG = 1, RUN_DIR, GROUP, EAL, STEER_OBJECT, LOG_LEVEL, VERSION, HELP };

static const struct option options[] = {
	{"config", required_argument, NULL, CONFIG},
	{"run-dir", required_argument, NULL, RUN_DIR},
	{"group", required_argument, NULL, GROUP},
	{"eal", required_argument, NULL, EAL},
	{"steer-object", required_argument, NULL, STEER_OBJECT},
	{"log-level", required_argument, NULL, LOG_LEVEL},
	{"version", no_argument, NULL, VERSION},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

const char *weir_arguments_usage(void) {
	return "Usage: weir-dataplane --config FILE [OPTION...]\n"
	       "Forward packets of the VIPs to backends, as told by weir-control.\n"
	       "\n"
	       "  --config FILE        the configuration, the same file that weir-control reads\n"
	       "  --run-dir DIR        where the socket for weir-control is "
	       "(" WEIR_RUN_DIR_DEFAULT ")\n"
	       "  --group GROUP        may connect to it (weir, where there is such a group)\n"
	       "  --eal 'ARG...'       more arguments for DPDK\n"
	       "  --steer-object PATH  BPF program that takes VIP traffic from AF_XDP ports; "
	       "none:\n"
	       "                       the driver's own, which takes everything\n"
	       "                       (" WEIR_STEER_OBJECT ")\n"
	       "  --log-level LEVEL    error, warn, info or debug (info)\n"
	       "  --version            print the version\n"
	       "  --help               print this\n"
	       "\n"
	       "WEIR_STEER_OBJECT in the environment stands for --steer-object.\n"
	       "Exit status: 0 ended by SIGTERM or SIGINT, 1 cannot run, 2 usage or "
	       "configuration.\n"
	       "\n"
	       "Example: weir-dataplane --config /etc/weir/weir.json --group weir\n";
}

static int refuse(char *why, size_t why_bytes, const char *what, const char *value) {
	snprintf(why, why_bytes, "%s%s", what, value);
	return -EINVAL;
}

static int check(int argc, const struct weir_arguments *arguments, char *why, size_t why_bytes,
	char **argv) {
	// The longest name in the run directory must still fit a socket address.
	size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof("/dataplane.sock");

	if (optind < argc) {
		return refuse(why, why_bytes, "unexpected argument ", argv[optind]);
	}
	if (arguments->config == NULL || arguments->config[0] == '\0') {
		return refuse(why, why_bytes, "--config FILE is missing", "");
	}
	if (arguments->run_dir[0] == '\0' || strlen(arguments->run_dir) > most) {
		snprintf(why, why_bytes, "--run-dir: must be 1 to %zu bytes long", most);
		return -EINVAL;
	}
	if (arguments->steer_object[0] == '\0' || strchr(arguments->steer_object, ',') != NULL) {
		return refuse(why, why_bytes,
			"--steer-object: must be a path without commas, or none", "");
	}
	return 0;
}

static int take(
	int id, struct weir_arguments *arguments, char *why, size_t why_bytes, char **argv) {
	switch (id) {
	case CONFIG:
		arguments->config = optarg;
		return 0;
	case RUN_DIR:
		arguments->run_dir = optarg;
		return 0;
	case GROUP:
		arguments->group = optarg;
		return 0;
	case EAL:
		arguments->eal = optarg;
		return 0;
	case STEER_OBJECT:
		arguments->steer_object = optarg;
		return 0;
	case LOG_LEVEL:
		if (weir_log_level_parse(optarg, &arguments->log_level) == 0) {
			return 0;
		}
		snprintf(why, why_bytes, "--log-level %s: must be error, warn, info or debug",
			optarg);
		return -EINVAL;
	case VERSION:
		arguments->version = true;
		return 0;
	case HELP:
		arguments->help = true;
		return 0;
	case ':':
		snprintf(why, why_bytes, "%s needs a value", argv[optind - 1]);
		return -EINVAL;
	default:
		return refuse(why, why_bytes, "unknown option ", argv[optind - 1]);
	}
}

int weir_arguments_parse(
	int argc, char **argv, struct weir_arguments *ret, char *why, size_t why_bytes) {
	const char *steer_object = getenv(STEER_OBJECT_VARIABLE);
	struct weir_arguments arguments = {
		.run_dir = WEIR_RUN_DIR_DEFAULT,
		.eal = "",
		.steer_object = steer_object != NULL ? steer_object : WEIR_STEER_OBJECT,
		.log_level = WEIR_LOG_INFO,
	};
	int id;
	int r;

	opterr = 0;
	optind = 0; // start over: tests parse many times
	while ((id = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		r = take(id, &arguments, why, why_bytes, argv);
		if (r < 0) {
			return r;
		}
	}
	if (!arguments.help && !arguments.version) {
		r = check(argc, &arguments, why, why_bytes, argv);
		if (r < 0) {
			return r;
		}
	}
	*ret = arguments;
	return 0;
}
