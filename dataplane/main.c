// SPDX-License-Identifier: BSD-3-Clause
//
// weir-dataplane: forwards packets for VIPs to backends, using the tables that weir-control
// publishes.
//
// The main thread sets everything up, then serves the hand-over socket, watches the workers and
// waits for signals; only workers process packets.
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>

#include "accounts.h"
#include "attachment.h"
#include "capabilities.h"
#include "clocks.h"
#include "config.h"
#include "config_running.h"
#include "daemon_options.h"
#include "dataplane.h"
#include "dpdk_log.h"
#include "eal.h"
#include "handover.h"
#include "help_text.h"
#include "log_limit.h"
#include "memory.h"
#include "options.h"
#include "plan.h"
#include "run_dir.h"
#include "standard_output.h"
#include "start_watch.h"
#include "steer_attach.h"
#include "telemetry.h"
#include "watchdog.h"
#include "weir_version.h"

#define EXIT_USAGE 2
#define WHY_BYTES 512
#define LINE_BYTES 5120 // the path of a file, and an error
// Maximum wait in an iteration of the main loop, and minimum time between two checks of the
// dataplane
#define TURN_MS 100
#define PORTS_MS 500 // minimum time between two readings of the ports' statistics
#define LISTEN_TRIES 10
#define LISTEN_PAUSE_MS 100
#define REFUSALS_LOG_MS 60000 // minimum time between two log lines about refused processes

struct context {
	const struct weir_dataplane_options *options;
	const struct weir_config *config;
	const char *running; // text of the running configuration (weir_config_running_text)
	const struct weir_log *log;
	struct weir_log_limit *log_limit; // suppresses repeated lines of `log`
	struct weir_plan plan;
	struct weir_memory memory;
	struct weir_handover_server *server;
	struct weir_handover_params handover;
	int signals; // signalfd
	struct weir_attachment attachment; // weir-control
	int serve_error; // result of the last weir_handover_serve: negative errno, or 0
	uint64_t refusals_logged_ms; // time of the last log line about refused processes; 0 = never
};

static int fail(const struct context *context, int error, const char *why) {
	weir_log_write(context->log, WEIR_LOG_ERROR, "%s", why[0] != '\0' ? why : strerror(-error));
	return error;
}

// --- the main loop ------------------------------------------------------------------------

// Reads and logs the pending signals. Returns true at the first SIGTERM or SIGINT: the process must
// exit.
static bool take_signal(const struct context *context) {
	struct signalfd_siginfo info;

	while (read(context->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo != SIGHUP) {
			weir_log_write(context->log, WEIR_LOG_INFO,
				"received %s from pid %u: stopping",
				sigabbrev_np((int)info.ssi_signo), info.ssi_pid);
			return true;
		}
		weir_log_write(context->log, WEIR_LOG_WARN,
			"SIGHUP ignored: reload services with \"weirctl config reload\"; other "
			"changes need a restart of weir-dataplane");
	}
	return false;
}

// Logs how many attempts to attach were refused. Logs at most one line per minute, because any
// local process can try to attach any number of times.
static void log_refusals(struct context *context) {
	uint64_t now = weir_monotonic_ms();
	struct weir_handover_refusals refusals;

	if (context->refusals_logged_ms != 0 &&
		now - context->refusals_logged_ms < REFUSALS_LOG_MS) {
		return;
	}
	weir_handover_take_refusals(context->server, &refusals);
	if (refusals.count == 0) {
		return;
	}
	weir_log_write(context->log, WEIR_LOG_WARN,
		"refused to attach pid %d of user %u (attempts refused so far: %" PRIu64
		"): only root and --control-user can attach",
		(int)refusals.last_pid, (unsigned int)refusals.last_uid, refusals.total);
	context->refusals_logged_ms = now;
}

// Returns whether weir-control has published a service table: without it, no packet is forwarded.
static bool has_tables(const struct weir_dataplane *dataplane) {
	return __atomic_load_n(
		       &weir_dataplane_segment(dataplane)->roots->services, __ATOMIC_ACQUIRE) != 0;
}

static void serve_control(struct context *context, const struct weir_dataplane *dataplane) {
	int pid = weir_handover_serve(context->server, weir_dataplane_offer(dataplane));

	log_refusals(context);
	if (pid < 0) {
		if (pid != context->serve_error) {
			weir_log_write(context->log, WEIR_LOG_WARN, "hand-over socket: %s",
				strerror(-pid));
		}
		context->serve_error = pid;
		return;
	}
	context->serve_error = 0;
	weir_attachment_update(&context->attachment, context->log, pid, has_tables(dataplane),
		weir_monotonic_ms());
}

static void wait_for_event(const struct context *context) {
	struct pollfd fds[3] = {{.fd = context->signals, .events = POLLIN}};
	int server[2];
	int n = weir_handover_server_fds(context->server, server);

	for (int i = 0; i < n; i++) {
		fds[1 + i] = (struct pollfd){.fd = server[i], .events = POLLIN};
	}
	// Do not poll the socket after an error: a connection that cannot be accepted stays
	// readable, and poll would return immediately.
	if (context->serve_error != 0) {
		fds[1].fd = -1;
	}
	// The result is not needed, because the caller checks all descriptors.
	(void)poll(fds, (nfds_t)(1 + n), TURN_MS);
}

// Runs the main loop until a SIGTERM or SIGINT arrives or an error occurs. Returns 0 after a
// signal, or negative errno (logged): the process must be restarted.
static int main_loop(struct context *context, struct weir_dataplane *dataplane) {
	struct weir_watchdog watchdog;
	uint64_t watchdog_us = 0;
	uint64_t notified_ms = weir_monotonic_ms();
	uint64_t checked_ms = notified_ms;
	uint64_t ports_ms = 0;
	int r = 0;

	weir_watchdog_init(&watchdog, weir_dataplane_segment(dataplane), context->log, notified_ms);
	(void)sd_watchdog_enabled(0, &watchdog_us);
	while (r == 0 && !take_signal(context)) {
		uint64_t now;
		bool running;

		wait_for_event(context);
		serve_control(context, dataplane);
		now = weir_monotonic_ms();
		if (now - checked_ms < TURN_MS) {
			continue;
		}
		checked_ms = now;
		running = weir_watchdog_check(&watchdog, now);
		if (running && watchdog_us != 0 && (now - notified_ms) * 1000 >= watchdog_us / 4) {
			sd_notify(0, "WATCHDOG=1");
			notified_ms = now;
		}
		weir_dataplane_follow(dataplane);
		weir_dataplane_update_queue_tables(dataplane, now * 1000000);
		if (now - ports_ms >= PORTS_MS) {
			weir_dataplane_read_ports(dataplane, now * 1000000);
			weir_log_limit_tick(context->log_limit);
			ports_ms = now;
		}
		r = weir_dataplane_watch_links(dataplane);
	}
	return r;
}

// --- set-up -------------------------------------------------------------------------------

// Returns whether any device belongs to the kernel, so that CAP_NET_ADMIN must be kept
// (capabilities.h).
static bool has_kernel_devices(const struct weir_plan *plan) {
	for (uint32_t d = 0; d < plan->devices; d++) {
		const struct weir_devargs *devargs = &plan->device[d].devargs;

		if (weir_devargs_is(devargs, "net_af_xdp") || weir_devargs_is(devargs, "net_tap") ||
			weir_devargs_is(devargs, "net_af_packet") ||
			weir_devargs_is(devargs, "net_virtio_user")) {
			return true;
		}
	}
	return false;
}

// Write the running configuration to a file for weir-control. weir-control cannot attach before
// this call. Without the file, weir-control assumes that its own configuration is running.
static void write_running(const struct context *context, const struct weir_dataplane *dataplane) {
	const struct weir_handover_params *params = &context->handover;
	const bool is_root = geteuid() == 0;
	// A weir-control that runs as root reads the file as a member of root's group, because it
	// has no capability that bypasses the file's mode.
	int r = weir_config_running_write(params->run_dir, weir_dataplane_segment(dataplane)->epoch,
		is_root ? params->control_user : (uid_t)-1, is_root ? 0 : (gid_t)-1,
		context->running);

	if (r < 0) {
		weir_log_write(context->log, WEIR_LOG_WARN,
			"cannot write the running configuration into %s: %s; weir-control and "
			"weirctl doctor cannot report which changes need a restart",
			params->run_dir, strerror(-r));
	}
}

static bool stops(void *context) {
	return take_signal(context);
}

// Ends the process when a SIGTERM or SIGINT arrives while DPDK starts. Only the hand-over socket
// must be closed; the next weir-dataplane removes the files of DPDK, as after a crash.
static void end_early(void *argument) {
	struct context *context = argument;

	if (take_signal(context)) {
		weir_handover_server_free(context->server);
		weir_log_write(context->log, WEIR_LOG_INFO, "ended");
		_exit(EXIT_SUCCESS);
	}
}

// Opens the dataplane, runs it until a signal or an error, and closes it. Call when DPDK has
// started.
static int run_open(struct context *context) {
	struct weir_dataplane *dataplane;
	int r = weir_dataplane_open(context->config, &context->plan, context->log, &dataplane);

	if (r < 0) {
		return r;
	}
	write_running(context, dataplane);
	r = weir_memory_take(stops, context);
	if (r == -ECANCELED || (r == 0 && take_signal(context))) {
		r = 0;
		goto close_dataplane;
	}
	if (r < 0) {
		(void)fail(context, r, "not enough memory: lower flow_table.flows_per_worker");
		goto close_dataplane;
	}
	r = weir_capabilities_drop_everywhere(has_kernel_devices(&context->plan));
	if (r < 0) {
		(void)fail(context, r, "cannot drop privileges");
		goto close_dataplane;
	}
	r = weir_dataplane_start(dataplane);
	if (r < 0) {
		goto close_dataplane;
	}
	weir_log_write(context->log, WEIR_LOG_INFO,
		"ready: %u port%s, %u worker%s of %u flows, %" PRIu64 " MiB %s",
		context->config->port_count, context->config->port_count == 1 ? "" : "s",
		context->config->workers.count, context->config->workers.count == 1 ? "" : "s",
		context->config->flow_table.flows_per_worker, context->memory.bytes >> 20,
		context->memory.huge_pages ? "in huge pages" : "in ordinary pages");
	weir_telemetry_begin(weir_dataplane_segment(dataplane), context->config);
	sd_notify(0, "READY=1");
	r = main_loop(context, dataplane);
	weir_telemetry_end();
	sd_notify(0, "STOPPING=1");
close_dataplane:
	weir_dataplane_close(dataplane, false);
	return r;
}

// Logs DPDK's file prefix, which dpdk-telemetry.py needs to find DPDK's telemetry socket. The
// prefix is the last component of the path of the run-time directory.
static void log_telemetry(const struct context *context) {
	const char *directory = rte_eal_get_runtime_dir();
	const char *slash = strrchr(directory, '/');

	weir_log_write(context->log, WEIR_LOG_INFO, "telemetry: dpdk-telemetry.py -f %s",
		slash != NULL ? slash + 1 : directory);
}

static int run_eal(struct context *context) {
	struct weir_eal_params params = {
		.config = context->config,
		.plan = &context->plan,
		.memory = &context->memory,
		.run_dir = context->options->run_dir,
		.extra = context->options->eal,
		.telemetry = context->options->telemetry,
		.log_level = context->log->level,
	};
	char why[WHY_BYTES] = "";
	struct weir_start_watch watch;
	char **arguments;
	int count = weir_eal_arguments(&params, &arguments, why, sizeof(why));
	int r;

	if (count < 0) {
		return fail(context, count, why);
	}
	for (int i = 1; i < count; i++) {
		weir_log_write(context->log, WEIR_LOG_DEBUG, "DPDK argument %s", arguments[i]);
	}
	weir_steer_take_messages(context->log);
	r = weir_dpdk_log_take(context->log);
	if (r == 0 && params.telemetry) {
		r = weir_telemetry_register();
	}
	if (r == 0) {
		r = weir_start_watch_begin(&watch, context->signals, end_early, context);
	}
	if (r == 0) {
		r = weir_eal_init(count, arguments, why, sizeof(why));
		weir_start_watch_end(&watch);
	} else {
		snprintf(why, sizeof(why), "cannot prepare the start of DPDK: %s", strerror(-r));
	}
	if (r < 0) {
		(void)fail(context, r, why);
	} else {
		if (params.telemetry) {
			log_telemetry(context);
		}
		r = run_open(context);
		weir_eal_fini();
	}
	weir_eal_arguments_free(arguments);
	return r;
}

static int plan(struct context *context) {
	struct weir_memory_facts facts;
	char why[WHY_BYTES] = "";
	int r = weir_plan_make(
		context->config, context->options->steer_object, &context->plan, why, sizeof(why));

	if (r == 0) {
		r = weir_memory_facts(&facts);
		if (r < 0) {
			snprintf(why, sizeof(why), "cannot read /proc/meminfo: %s", strerror(-r));
		}
	}
	if (r == 0) {
		r = weir_memory_choose(&context->plan, &facts, &context->memory, why, sizeof(why));
	}
	if (r < 0) {
		return fail(context, r, why);
	}
	if (why[0] != '\0') {
		weir_log_write(context->log, WEIR_LOG_WARN, "%s", why);
	}
	return 0;
}

// Opens the hand-over socket. If another dataplane holds the run directory, retries for about a
// second: a killed dataplane holds it until the kernel has freed the memory of the dataplane.
static int listen_with_retries(
	const struct weir_handover_params *params, struct weir_handover_server **ret) {
	const struct timespec pause = {.tv_nsec = LISTEN_PAUSE_MS * 1000000};
	int r = weir_handover_listen(params, ret);

	for (unsigned int i = 0; i < LISTEN_TRIES && r == -EADDRINUSE; i++) {
		nanosleep(&pause, NULL);
		r = weir_handover_listen(params, ret);
	}
	return r;
}

// Creates the run directory, and opens the hand-over socket in the directory. Call before DPDK
// starts: the call fails if another dataplane uses this run directory.
static int listen_for_control(struct context *context) {
	struct weir_handover_params params = context->handover;
	const char *run_dir = params.run_dir;
	char why[WHY_BYTES] = "";
	int r = weir_run_dir_make(
		run_dir, params.control_user, params.group, context->log, why, sizeof(why));

	// A weir-control that is not started as root cannot create its directory in a directory
	// that root owns.
	if (r == 0 && geteuid() == 0 && params.control_user != (uid_t)-1) {
		r = weir_run_dir_make_control(
			run_dir, params.control_user, params.group, why, sizeof(why));
	}
	if (r == 0) {
		r = listen_with_retries(&params, &context->server);
		snprintf(why, sizeof(why), "%s/" WEIR_HANDOVER_SOCKET ": %s", run_dir,
			r == -EADDRINUSE ? "another weir-dataplane is running in this run directory"
					 : strerror(-r));
	}
	return r < 0 ? fail(context, r, why) : 0;
}

static int open_signals(struct context *context) {
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	// Block signals before any thread exists, so that all threads inherit the mask and only the
	// signalfd receives signals.
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
		return -errno;
	}
	context->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return context->signals < 0 ? -errno : 0;
}

static int run(struct context *context) {
	char why[WHY_BYTES];
	int r = weir_capabilities_freeze();

	if (r == 0) {
		r = open_signals(context);
	}
	if (r < 0) {
		snprintf(
			why, sizeof(why), "cannot set up signals and privileges: %s", strerror(-r));
		return fail(context, r, why);
	}
	weir_log_write(context->log, WEIR_LOG_INFO,
		"weir-dataplane %s (pid %d), instance %s, configuration %s", WEIR_VERSION,
		(int)getpid(), context->config->instance.name, context->options->config);
	r = listen_for_control(context);
	if (r < 0) {
		goto close_signals;
	}
	// A killed weir-dataplane may have left the file with its running configuration.
	weir_config_running_remove(context->handover.run_dir);
	r = plan(context);
	if (r == 0) {
		r = run_eal(context);
	}
	weir_config_running_remove(context->handover.run_dir);
	weir_handover_server_free(context->server);
	if (r == 0) {
		weir_log_write(context->log, WEIR_LOG_INFO, "ended");
	}
close_signals:
	close(context->signals);
	return r;
}

// Prints the errors in the configuration, without timestamps. Each error begins with FILE:LINE:COL,
// so that an editor can jump to the error. If there are none, prints the errno `error`.
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

static void log_warnings(
	struct weir_log *log, const char *file, const struct weir_config_errors *errors) {
	char line[LINE_BYTES];

	for (uint32_t i = 0; i < errors->warning_count; i++) {
		weir_log_write(log, WEIR_LOG_WARN, "%s",
			weir_config_error_format(file, &errors->warning[i], line, sizeof(line)));
	}
}

// Reads the configuration from the file in the options. *ret_running: the text of the running
// configuration, for weir-control; NULL if out of memory. Logs errors and warnings. Returns 0 or
// negative errno.
static int read_config(const struct weir_dataplane_options *options, struct weir_log *log,
	struct weir_config **ret, char **ret_running) {
	struct weir_config_errors errors;
	char *text;
	int r = weir_config_read_text(options->config, ret, &text, &errors);

	if (r < 0) {
		print_errors(log, options->config, r, &errors);
	} else {
		log->level = options->log_level;
		log_warnings(log, options->config, &errors);
		*ret_running = weir_config_running_text(text, strlen(text));
		free(text);
	}
	weir_config_errors_fini(&errors);
	return r;
}

// Finds the ids of the user that may attach and of the group that may read the run directory.
// Returns 0 or negative errno with one line in why.
static int resolve(const struct weir_dataplane_options *options, struct weir_handover_params *ret,
	char *why, size_t why_bytes) {
	int r = weir_account_group(
		"group", options->group, WEIR_GROUP_DEFAULT, &ret->group, why, why_bytes);

	if (r == 0) {
		r = weir_account_user("control-user", options->control_user, WEIR_USER_DEFAULT,
			&ret->control_user, why, why_bytes);
	}
	ret->run_dir = options->run_dir;
	return r;
}

int main(int argc, char **argv) {
	struct weir_dataplane_options options;
	struct weir_config *config;
	char *running;
	unsigned int lost_lines = 0;
	struct weir_log log = {.fd = STDERR_FILENO, .lost = &lost_lines};
	struct context *context;
	char why[WHY_BYTES], help[WEIR_HELP_BYTES];
	struct weir_handover_params handover;
	int r;

	weir_standard_output_claim();
	signal(SIGPIPE, SIG_IGN); // do not exit if the process that reads the log exits
	if (weir_dataplane_options_parse(argc, argv, &options, why, sizeof(why)) < 0) {
		fprintf(stderr, "weir-dataplane: %s\nTry: weir-dataplane --help\n", why);
		return EXIT_USAGE;
	}
	if (options.help || options.version) {
		fputs(options.help ? weir_dataplane_help(help, sizeof(help))
				   : "weir-dataplane " WEIR_VERSION "\n",
			stdout);
		return weir_standard_output_finish("weir-dataplane", stdout, stderr) ? EXIT_SUCCESS
										     : EXIT_FAILURE;
	}
	weir_log_open(&log, options.log_format);
	if (resolve(&options, &handover, why, sizeof(why)) < 0) {
		weir_log_plain(&log, "weir-dataplane: %s", why);
		return EXIT_USAGE;
	}
	if (read_config(&options, &log, &config, &running) < 0) {
		return EXIT_USAGE;
	}
	context = calloc(1, sizeof(*context));
	if (running == NULL || context == NULL ||
		weir_log_limit_create(&log, NULL, &context->log_limit) < 0) {
		weir_log_plain(&log, "weir-dataplane: out of memory");
		free(context);
		free(running);
		weir_config_free(config);
		return EXIT_FAILURE;
	}
	context->options = &options;
	context->config = config;
	context->running = running;
	context->log = &log;
	context->handover = handover;
	r = run(context);
	weir_log_limit_free(context->log_limit);
	free(context);
	free(running);
	weir_config_free(config);
	weir_log_close(&log);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
