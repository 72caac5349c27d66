// SPDX-License-Identifier: BSD-3-Clause
//
// weir-control: watches the backends, decides who gets new flows, and tells the dataplane.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "api_commands.h"
#include "api_socket.h"
#include "daemon.h"
#include "privileges.h"
#include "weir_version.h"

#define EXIT_USAGE 2
#define WHY_BYTES 320
#define LINE_BYTES 5120 // a path of the file system, and an error

static void print_errors(const char *file, int error, const struct weir_config_errors *errors) {
	char line[LINE_BYTES];

	for (uint32_t i = 0; i < errors->count; i++) {
		fprintf(stderr, "%s\n",
			weir_config_error_format(file, &errors->error[i], line, sizeof(line)));
	}
	if (errors->count == 0) {
		fprintf(stderr, "%s: %s\n", file, strerror(-error));
	}
}

// What will be needed later is looked at now, while somebody is watching.
static int check_access(const struct weir_arguments *arguments, const struct weir_run_as *run_as,
	struct weir_log *log) {
	if (access(arguments->run_dir, X_OK) < 0) {
		weir_log_write(log, WEIR_LOG_ERROR,
			"user %s cannot enter run directory %s: start weir-dataplane and "
			"weir-control with the same --group, or chgrp and chmod 770 it",
			run_as->user, arguments->run_dir);
		return -EACCES;
	}
	if (access(arguments->config, R_OK) < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"user %s cannot read %s: a reload will be refused until it can",
			run_as->user, arguments->config);
	}
	return 0;
}

static int run(const struct weir_arguments *arguments, const struct weir_run_as *run_as,
	struct weir_log *log, struct weir_reload *reload) {
	struct weir_api_socket socket;
	struct weir_daemon daemon;
	struct weir_api *api;
	char why[WHY_BYTES] = "";
	int r;

	r = weir_privileges_make_run_dir(arguments->run_dir, run_as->gid);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "run directory %s: %s", arguments->run_dir,
			strerror(-r));
		return r;
	}
	r = weir_api_socket_open(arguments->run_dir, run_as->change ? run_as->uid : (uid_t)-1,
		run_as->change ? run_as->gid : (gid_t)-1, &socket, why, sizeof(why));
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
		return r;
	}
	r = weir_privileges_drop(run_as);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "cannot run as user %s: %s", run_as->user,
			strerror(-r));
		goto close_socket;
	}
	r = check_access(arguments, run_as, log);
	if (r < 0) {
		goto close_socket;
	}
	weir_log_write(log, WEIR_LOG_INFO, "weir-control %s (pid %d, user %s), configuration %s",
		WEIR_VERSION, (int)getpid(), run_as->user, arguments->config);
	r = weir_daemon_init(&daemon, arguments->run_dir, run_as->user, log, reload);
	if (r < 0) {
		goto close_socket;
	}
	r = weir_api_create(&daemon.loop, socket.fd, weir_api_dispatch, &daemon, &api);
	socket.fd = -1; // the API's now
	if (r < 0) {
		weir_log_write(
			log, WEIR_LOG_ERROR, "cannot start: control socket: %s", strerror(-r));
	} else {
		weir_daemon_run(&daemon);
		weir_api_close(api, NULL);
	}
	weir_daemon_fini(&daemon);
close_socket:
	weir_api_socket_close(&socket);
	return r;
}

int main(int argc, char **argv) {
	struct weir_config_errors errors;
	struct weir_arguments arguments;
	struct weir_run_as run_as;
	struct weir_reload *reload;
	struct weir_log log = {.fd = STDERR_FILENO};
	char why[WHY_BYTES];
	int r;

	if (weir_arguments_parse(argc, argv, &arguments, why, sizeof(why)) < 0) {
		fprintf(stderr, "weir-control: %s\nTry: weir-control --help\n", why);
		return EXIT_USAGE;
	}
	if (arguments.help || arguments.version) {
		fputs(arguments.help ? weir_arguments_usage() : "weir-control " WEIR_VERSION "\n",
			stdout);
		return EXIT_SUCCESS;
	}
	if (weir_privileges_resolve(arguments.user, arguments.group, &run_as, why, sizeof(why)) <
		0) {
		fprintf(stderr, "weir-control: %s\n", why);
		return EXIT_USAGE;
	}
	r = weir_reload_create(arguments.config, &reload, &errors);
	if (r < 0) {
		print_errors(arguments.config, r, &errors);
		weir_config_errors_fini(&errors);
		return EXIT_USAGE;
	}
	weir_config_errors_fini(&errors);
	log.level = arguments.log_level;
	r = run(&arguments, &run_as, &log, reload);
	weir_reload_free(reload);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
