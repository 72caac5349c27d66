// SPDX-License-Identifier: BSD-3-Clause
//
// weir-control: checks backends, decides which backends get new flows, and publishes tables for
// weir-dataplane.
#include <errno.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accounts.h"
#include "api.h"
#include "api_commands.h"
#include "api_socket.h"
#include "daemon.h"
#include "daemon_options.h"
#include "data_path_tunnel.h"
#include "handover.h"
#include "help_text.h"
#include "options.h"
#include "path_mtu.h"
#include "ping_sockets.h"
#include "privileges.h"
#include "programs.h"
#include "run_dir.h"
#include "standard_output.h"
#include "weir_version.h"

#define EXIT_USAGE 2
#define WHY_BYTES 320
#define MMAP_FROM_BYTES (1 << 20)
#define SCRIPT_USER "weir-script"
#define LINE_BYTES 5120 // enough for a path and an error

static void print_errors(const struct weir_log *log, const char *file, int error,
	const struct weir_config_errors *errors) {
	char line[LINE_BYTES];

	for (uint32_t i = 0; i < errors->count; i++) {
		weir_log_plain(log, "%s",
			weir_config_error_format(file, &errors->error[i], line, sizeof(line)));
	}
	if (errors->count == 0) {
		weir_log_plain(log, "%s: %s", file, strerror(-error));
	}
}

static int make_directories(
	const char *run_dir, const struct weir_run_as *run_as, struct weir_log *log) {
	uid_t uid = run_as->change ? run_as->uid : (uid_t)-1;
	gid_t gid = run_as->change ? run_as->gid : (gid_t)-1;
	char why[WHY_BYTES] = "";
	int r = weir_run_dir_make(run_dir, uid, gid, log, why, sizeof(why));

	if (r == 0) {
		r = weir_run_dir_make_control(run_dir, uid, gid, why, sizeof(why));
	}
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
	}
	return r;
}

// Checks that this user can enter the run directory. Also warns if a later reload could not read
// the configuration.
static int check_access(const struct weir_control_options *options,
	const struct weir_run_as *run_as, struct weir_log *log, const struct weir_reload *reload) {
	if (access(options->run_dir, X_OK) < 0) {
		weir_log_write(log, WEIR_LOG_ERROR,
			"user %s cannot enter run directory %s: start weir-dataplane and "
			"weir-control with the same --group, or set the group of the directory to "
			"the group of weir-control, and its mode to 750",
			run_as->user, options->run_dir);
		return -EACCES;
	}
	if (access(weir_reload_file(reload), R_OK) < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"user %s cannot read %s: reloads fail until the user can read the file",
			run_as->user, weir_reload_file(reload));
	}
	return 0;
}

// The sockets that are opened with privileges, before the privileges are dropped.
struct sockets {
	struct weir_icmp_sockets path_mtu, unreachable;
	struct weir_data_path_tunnel tunnel;
	struct weir_ping_sockets ping;
};

// Opens the tunnel for health checks via the data path. Returns 0, even without a tunnel if the
// configuration does not need the tunnel. Otherwise returns negative errno (logged).
static int open_tunnel(const struct weir_run_as *run_as, struct weir_data_path_tunnel *tunnel,
	struct weir_log *log, struct weir_reload *reload) {
	char why[WHY_BYTES] = "";
	int r = weir_data_path_tunnel_open(run_as->uid, tunnel, why, sizeof(why));

	if (r < 0) {
		int needed = weir_reload_without_data_path(reload);

		weir_log_write(log, needed < 0 ? WEIR_LOG_ERROR : WEIR_LOG_WARN,
			"%s%scannot run health checks via the data path: %s%s",
			needed < 0 ? weir_reload_file(reload) : "", needed < 0 ? ": " : "", why,
			r == -EPERM || r == -EACCES
				? "; start as root, or with CAP_NET_ADMIN and CAP_NET_RAW"
				: "");
		return needed;
	}
	weir_log_write(log, WEIR_LOG_INFO,
		"health checks via the data path: device %s, source ports %u to %u, table %u",
		tunnel->name, tunnel->port_first, tunnel->port_first + WEIR_DATA_PATH_PORTS - 1,
		tunnel->table);
	if (tunnel->ipv6_error < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"health checks via the data path to IPv6 VIPs have no result: %s: %s",
			tunnel->name, strerror(-tunnel->ipv6_error));
	}
	return 0;
}

static int open_sockets(const struct weir_control_options *options,
	const struct weir_run_as *run_as, struct sockets *sockets, struct weir_log *log,
	struct weir_reload *reload) {
	int r = weir_path_mtu_open(&sockets->path_mtu);

	if (r == 0) {
		r = weir_unreachable_open(&sockets->unreachable);
	}
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_WARN,
			"cannot receive ICMP errors (%s): smaller path MTUs to backends, and "
			"backends that reject tunnel packets, are not detected; start as root or "
			"with CAP_NET_RAW",
			strerror(-r));
	}
	r = weir_ping_sockets_open(&sockets->ping);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_INFO,
			"cannot send ICMP echo requests (%s): health checks of type \"ping\" would "
			"have no result; start as root, with CAP_NET_RAW, or with a group in "
			"net.ipv4.ping_group_range",
			strerror(-r));
	}
	return options->data_path_checks ? open_tunnel(run_as, &sockets->tunnel, log, reload) : 0;
}

static void close_sockets(struct sockets *sockets) {
	weir_icmp_close(&sockets->path_mtu);
	weir_icmp_close(&sockets->unreachable);
	weir_data_path_tunnel_close(&sockets->tunnel);
	weir_ping_sockets_close(&sockets->ping);
}

// Passes the sockets to the modules that use them.
static int hand_over(struct sockets *sockets, struct weir_daemon *daemon, struct weir_log *log) {
	int r = weir_health_set_ping(daemon->health, &sockets->ping);

	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "cannot start: health checks of type ping: %s",
			strerror(-r));
		return r;
	}
	weir_next_hops_listen(daemon->next_hops, &sockets->path_mtu);
	weir_rejections_listen(daemon->rejections, &sockets->unreachable);
	if (sockets->tunnel.device >= 0) {
		r = weir_daemon_set_data_path(daemon, &sockets->tunnel);
	}
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR,
			"cannot start: health checks via the data path: %s", strerror(-r));
	}
	return r;
}

static int serve(struct weir_daemon *daemon, struct weir_api_socket *socket, gid_t admin_group,
	struct weir_log *log) {
	struct weir_api *api;
	int r = weir_api_create(&daemon->loop, socket->fd, weir_api_dispatch, daemon, &api);

	socket->fd = -1; // owned by the API
	if (r < 0) {
		weir_log_write(
			log, WEIR_LOG_ERROR, "cannot start: control socket: %s", strerror(-r));
		return r;
	}
	weir_api_set_admin_group(api, admin_group);
	weir_daemon_run(daemon);
	weir_api_close(api, NULL);
	return 0;
}

// Starts the helper process that runs programs of the configuration. If it cannot start,
// weir-control continues without it. Returns 0, or negative errno (logged) if this process cannot
// run programs as the given user.
static int start_programs(
	const struct weir_control_options *options, struct weir_log *log, int *ret) {
	const char *user = options->script_user;
	struct weir_run_as run_as;
	char why[WHY_BYTES] = "";
	int r;

	if (user == NULL && geteuid() == 0) {
		user = getpwnam(SCRIPT_USER) != NULL ? SCRIPT_USER : "nobody";
	}
	r = weir_privileges_resolve(user, NULL, NULL, &run_as, why, sizeof(why));
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "--script-user: %s", why);
		return r;
	}
	r = weir_programs_start(&run_as, ret);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_WARN, "cannot run programs of the configuration: %s",
			strerror(-r));
	}
	return 0;
}

static int run(const struct weir_control_options *options, const struct weir_run_as *run_as,
	gid_t admin_group, struct weir_log *log, struct weir_reload *reload) {
	struct sockets sockets = {.path_mtu = {.ipv4 = -1, .ipv6 = -1},
		.unreachable = {.ipv4 = -1, .ipv6 = -1},
		.tunnel = WEIR_DATA_PATH_TUNNEL_NONE,
		.ping = WEIR_PING_SOCKETS_NONE};
	struct weir_api_socket socket;
	struct weir_daemon daemon;
	char why[WHY_BYTES] = "";
	int helper = -1, r;

	r = make_directories(options->run_dir, run_as, log);
	if (r < 0) {
		return r;
	}
	// Check for another weir-control before opening the tunnel: opening the tunnel adds policy
	// rules, which stay after the exit of this process.
	r = weir_api_socket_check(options->run_dir, why, sizeof(why));
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
		return r;
	}
	r = start_programs(options, log, &helper);
	if (r < 0) {
		return r;
	}
	r = open_sockets(options, run_as, &sockets, log, reload);
	if (r < 0) {
		goto close_sockets;
	}
	r = weir_privileges_drop(run_as);
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "cannot run as user %s: %s", run_as->user,
			strerror(-r));
		goto close_sockets;
	}
	r = check_access(options, run_as, log, reload);
	if (r < 0) {
		goto close_sockets;
	}
	r = weir_api_socket_open(options->run_dir, &socket, why, sizeof(why));
	if (r < 0) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
		goto close_sockets;
	}
	weir_log_write(log, WEIR_LOG_INFO, "weir-control %s (pid %d, user %s), configuration %s",
		WEIR_VERSION, (int)getpid(), run_as->user, weir_reload_file(reload));
	r = weir_daemon_init(&daemon, options->run_dir, run_as->user, log, reload);
	if (r < 0) {
		goto close_api_socket;
	}
	r = weir_daemon_set_programs(&daemon, helper);
	helper = -1; // owned by the daemon
	if (r == 0) {
		r = hand_over(&sockets, &daemon, log);
	}
	if (r == 0) {
		r = serve(&daemon, &socket, admin_group, log);
	}
	weir_daemon_fini(&daemon);
close_api_socket:
	weir_api_socket_close(&socket);
close_sockets:
	close_sockets(&sockets);
	if (helper >= 0) {
		close(helper);
	}
	return r;
}

static int finish_output(void) {
	return weir_standard_output_finish("weir-control", stdout, stderr) ? EXIT_SUCCESS
									   : EXIT_FAILURE;
}

// Prints whether this version supports the running dataplane. Returns the exit status. Works even
// while another weir-control is attached to the dataplane.
static int check_dataplane(const char *run_dir) {
	struct weir_handover handover; // the descriptors close at exit
	char why[WHY_BYTES] = "";
	int connection;
	int r = weir_handover_connect(run_dir, &handover, &connection, why, sizeof(why));

	if (r == -ENOENT || r == -ECONNREFUSED || r == -ECONNRESET) {
		printf("no weir-dataplane is running\n");
	} else if (r == 0 || r == -EBUSY) {
		printf("weir-control " WEIR_VERSION " supports the running weir-dataplane\n");
	} else {
		fprintf(stderr, "weir-control: %s\n", why[0] != '\0' ? why : strerror(-r));
		return EXIT_FAILURE;
	}
	return finish_output();
}

// Makes glibc allocate large arrays with mmap. Each reload allocates arrays with an element for
// every id; most elements are unused. If an array has its own mapping, only its used pages occupy
// memory, and free() unmaps it. By default, glibc raises its mmap threshold when free() unmaps an
// array, and later arrays are in the heap: calloc() then writes the whole array, and the heap does
// not shrink. The trim threshold is raised because its default is below the 416 KiB that one
// request allocates.
static void keep_large_arrays_out_of_heap(void) {
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM_BYTES);
	mallopt(M_TRIM_THRESHOLD, 2 * MMAP_FROM_BYTES);
}

int main(int argc, char **argv) {
	struct weir_config_errors errors;
	struct weir_control_options options;
	struct weir_run_as run_as;
	gid_t admin_group;
	struct weir_reload *reload;
	unsigned int lost_lines = 0;
	struct weir_log log = {.fd = STDERR_FILENO, .lost = &lost_lines};
	char why[WHY_BYTES], help[WEIR_HELP_BYTES];
	int r;

	keep_large_arrays_out_of_heap();
	weir_standard_output_claim();
	signal(SIGPIPE, SIG_IGN); // the process that reads the log can exit before this process
	if (weir_control_options_parse(argc, argv, &options, why, sizeof(why)) < 0) {
		fprintf(stderr, "weir-control: %s\nTry: weir-control --help\n", why);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		fputs(options.help ? weir_control_help(help, sizeof(help))
				   : "weir-control " WEIR_VERSION "\n",
			stdout);
		return finish_output();
	}
	if (options.check_dataplane) {
		return check_dataplane(options.run_dir);
	}
	weir_log_open(&log, options.log_format);
	if (weir_privileges_resolve(options.user, options.group, WEIR_GROUP_DEFAULT, &run_as, why,
		    sizeof(why)) < 0 ||
		weir_account_group("admin-group", options.admin_group, WEIR_ADMIN_GROUP_DEFAULT,
			&admin_group, why, sizeof(why)) < 0) {
		weir_log_plain(&log, "weir-control: %s", why);
		return EXIT_USAGE;
	}
	r = weir_reload_create(options.config, options.data_path_checks, &reload, &errors);
	if (r < 0) {
		print_errors(&log, options.config, r, &errors);
		weir_config_errors_fini(&errors);
		return EXIT_USAGE;
	}
	log.level = options.log_level;
	if (run_as.fallback) {
		weir_log_write(&log, WEIR_LOG_WARN,
			"there is no user " WEIR_USER_DEFAULT
			", so this process runs as %s, which weir-dataplane refuses unless it was "
			"started with --control-user %s: create the user (useradd --system "
			"--user-group " WEIR_USER_DEFAULT
			") and restart both daemons, or set --user of weir-control and "
			"--control-user of weir-dataplane",
			run_as.user, run_as.user);
	}
	weir_daemon_log_warnings(&log, options.config, &errors);
	weir_config_errors_fini(&errors);
	r = run(&options, &run_as, admin_group, &log, reload);
	weir_reload_free(reload);
	weir_log_close(&log);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
