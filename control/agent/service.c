// SPDX-License-Identifier: BSD-3-Clause
#include "service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "meter_helper.h"
#include "run.h"
#include "steal_helper.h"

#define WHY_BYTES 320
#define APPLICATION_INTERVALS 4 // the application's report expires after this many intervals

// --- turns --------------------------------------------------------------------------------

// The service's cgroup may appear after the agent has started, and disappear.
static void log_cgroup(struct weir_service *service, bool no_cpu) {
	const struct weir_agent_options *options = service->options;

	if (options->cgroup_count == 0 || no_cpu == service->no_cpu) {
		return;
	}
	service->no_cpu = no_cpu;
	weir_log_write(service->log, no_cpu ? WEIR_LOG_WARN : WEIR_LOG_INFO, "--cgroup %s%s: %s",
		options->cgroups[0], options->cgroup_count > 1 ? " and others" : "",
		no_cpu ? "no CPU time found there, so none is reported; check the path, and that "
			 "the service runs"
		       : "CPU time found");
}

static void on_turn(uv_timer_t *timer) {
	struct weir_service *service = timer->data;
	uint64_t now_ms = weir_service_now_ms(service);
	uint32_t wants;

	weir_log_limit_tick(service->log_limit);
	weir_balancers_expire(&service->balancers, now_ms);
	wants = weir_balancers_wants(&service->balancers);
	weir_load_set_wants(&service->load, wants);
	weir_service_meter_turn(service, wants);
	if (service->orca != NULL) {
		weir_orca_poll_want(service->orca, wants != 0);
	}
	if (weir_load_needs_tick(wants)) {
		weir_load_tick(&service->load, now_ms);
		log_cgroup(service, weir_load_lacks_cpu(&service->load));
	}
}

static void take_application(void *context, const struct weir_report *report) {
	struct weir_service *service = context;

	weir_load_take_application(&service->load, report, weir_service_now_ms(service));
}

// --- signals ------------------------------------------------------------------------------

static void on_stop(uv_signal_t *handle, int number) {
	struct weir_service *service = handle->data;
	const struct weir_drain *drain = &service->drain;

	if (service->stopping || number == SIGINT || drain->state == WEIR_DRAIN_DONE ||
		drain->state == WEIR_DRAIN_DEADLINE) {
		weir_log_write(service->log, WEIR_LOG_INFO, "signal %d: stopping", number);
		uv_stop(&service->loop);
		return;
	}
	service->stopping = true;
	// From here on any exit is intended: the next process starts without the saved state.
	weir_service_save_state(service, WEIR_HEALTH_WORD_NONE);
	if (drain->state == WEIR_DRAIN_NONE) {
		weir_service_lame_duck(service, service->options->interval_ms, "SIGTERM");
	} // a running drain keeps its interval
	sd_notifyf(0, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
		(unsigned long long)(drain->deadline_ms - weir_service_now_ms(service) + 5000) *
			1000);
}

static void on_hangup(uv_signal_t *handle, int number) {
	struct weir_service *service = handle->data;
	char why[WHY_BYTES] = "";

	(void)number;
	if (weir_agent_keys_read(
		    service->options->key_file, geteuid(), &service->keys, why, sizeof(why))) {
		weir_log_write(service->log, WEIR_LOG_ERROR, "keeping the previous keys: %s", why);
	} else {
		weir_log_write(service->log, WEIR_LOG_INFO, "%u keys read from %s",
			service->keys.count, service->options->key_file);
	}
}

// --- warm-up ------------------------------------------------------------------------------

static void on_warm(uv_process_t *process, int64_t status, int signal_number) {
	struct weir_service *service = process->data;

	uv_close((uv_handle_t *)process, NULL);
	if (service->word != WEIR_HEALTH_WORD_STARTING) {
		return;
	}
	if (status == 0 && signal_number == 0) {
		weir_service_ready(service, "warm-up complete");
	} else {
		weir_log_write(service->log, WEIR_LOG_ERROR,
			"--warm-up: the command failed (exit %d, signal %d): state stays "
			"\"starting\" until weir-agent ready",
			(int)status, signal_number);
	}
}

static int warm_up(struct weir_service *service) {
	char shell[] = "/bin/sh", option[] = "-c";
	char *arguments[] = {shell, option, (char *)(uintptr_t)service->options->warm_up, NULL};
	uv_stdio_container_t stdio[3] = {
		{.flags = UV_IGNORE},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
		{.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
	};
	const uv_process_options_t options = {
		.exit_cb = on_warm,
		.file = shell,
		.args = arguments,
		.stdio_count = 3,
		.stdio = stdio,
	};

	service->warm_up.data = service;
	return uv_spawn(&service->loop, &service->warm_up, &options);
}

// --- loop ---------------------------------------------------------------------------------

static void start_signal(
	struct weir_service *service, uv_signal_t *handle, int number, uv_signal_cb callback) {
	uv_signal_init(&service->loop, handle);
	handle->data = service;
	uv_signal_start(handle, callback, number);
}

static int start_orca(struct weir_service *service) {
	const struct weir_orca_poll_params params = {
		.url = service->options->orca_url,
		.interval_ms = service->options->orca_interval_ms,
		.log = service->log,
		.take = take_application,
		.context = service,
	};

	return params.url == NULL ? 0
				  : weir_orca_poll_create(&service->loop, &params, &service->orca);
}

static int start(struct weir_service *service) {
	int r = weir_service_state_start(service);

	if (r == 0) {
		r = weir_service_local_start(service);
	}
	if (r == 0) {
		r = weir_service_meter_start(service);
	}
	if (r == 0) {
		r = weir_service_steal_start(service);
	}
	if (r == 0) {
		r = start_orca(service);
	}
	if (r == 0 && service->options->warm_up != NULL) {
		r = warm_up(service);
	}
	return r;
}

static int loop(struct weir_service *service) {
	int r;

	uv_timer_init(&service->loop, &service->turn);
	service->turn.data = service;
	uv_timer_start(&service->turn, on_turn, WEIR_LOAD_TICK_MS, WEIR_LOAD_TICK_MS);
	start_signal(service, &service->term, SIGTERM, on_stop);
	start_signal(service, &service->interrupt, SIGINT, on_stop);
	start_signal(service, &service->hangup, SIGHUP, on_hangup);
	r = start(service);
	if (r == 0) {
		sd_notify(0, "READY=1");
		uv_run(&service->loop, UV_RUN_DEFAULT);
	}
	return r;
}

// Close only our own handles; other modules close theirs.
static void close_handle(uv_handle_t *handle, void *context) {
	if (handle->data == context && !uv_is_closing(handle)) {
		uv_close(handle, NULL);
	}
}

static void stop(struct weir_service *service) {
	if (uv_is_active((const uv_handle_t *)&service->warm_up)) {
		uv_process_kill(&service->warm_up, SIGTERM);
	}
	weir_orca_poll_close(service->orca);
	weir_service_meter_stop(service);
	weir_service_steal_stop(service);
	weir_service_local_stop(service);
	uv_walk(&service->loop, close_handle, service);
	uv_run(&service->loop, UV_RUN_DEFAULT);
	uv_loop_close(&service->loop);
}

// --- start and end ------------------------------------------------------------------------

static int open_sockets(struct weir_service *service, char *why, size_t why_bytes) {
	int r = weir_datagrams_open(service->options->udp_port, &service->datagrams);

	if (r == -EADDRINUSE) {
		snprintf(why, why_bytes,
			"UDP port %u is in use: is weir-agent running already? (--udp-port)",
			service->options->udp_port);
	} else if (r) {
		snprintf(why, why_bytes, "cannot listen on UDP port %u: %s",
			service->options->udp_port, strerror(-r));
	}
	if (r == 0) {
		r = weir_service_local_open(service, why, why_bytes);
	}
	if (r == 0) {
		weir_service_saved_open(service);
	}
	return r;
}

static int start_helper(struct weir_service *service, char *why, size_t why_bytes) {
	const struct weir_meter_params params = {
		.ports = service->options->ports,
		.port_count = service->options->port_count,
		.connections = service->options->connections,
	};
	int r;

	if (params.port_count == 0) {
		return 0; // nothing to measure
	}
	r = weir_meter_helper_start(&params, &service->meter.helper);
	if (r) {
		snprintf(why, why_bytes, "cannot start the helper process: %s", strerror(-r));
	}
	return r;
}

// After the other helper, whose connection this one must not inherit.
static int start_steal_helper(struct weir_service *service, char *why, size_t why_bytes) {
	const struct weir_steal_helper_params params = {
		.ports = service->options->ports,
		.port_count = service->options->port_count,
		.user = &service->run_as,
		.parents = service->meter.helper,
	};
	int r;

	if (!service->options->allow_steal) {
		return 0;
	}
	if (!weir_privileges_has(CAP_NET_ADMIN)) {
		snprintf(why, why_bytes,
			"--allow-steal needs CAP_NET_ADMIN; run as root, or with "
			"config/systemd/weir-agent-steal.conf");
		return -EPERM;
	}
	r = weir_steal_helper_start(&params, &service->steal.helper);
	if (r) {
		snprintf(why, why_bytes, "cannot start the helper process for steals: %s",
			strerror(-r));
	}
	return r;
}

// All steps that need root, then drop privileges.
static int prepare(struct weir_service *service, char *why, size_t why_bytes) {
	const struct weir_agent_options *options = service->options;
	int r = weir_privileges_resolve(
		options->user, NULL, NULL, &service->run_as, why, why_bytes);

	if (r == 0) { // before sockets and keys exist: the helpers must not inherit them, or hold
		      // the port
		r = start_helper(service, why, why_bytes);
	}
	if (r == 0) {
		r = start_steal_helper(service, why, why_bytes);
	}
	if (r == 0) {
		r = weir_agent_keys_read(
			options->key_file, service->run_as.uid, &service->keys, why, why_bytes);
		if (r == -ENOENT) {
			snprintf(why, why_bytes,
				"--key-file: %s does not exist; copy it from the balancers, or "
				"create it: weir-agent key generate",
				options->key_file);
		}
	}
	if (r == 0) {
		r = open_sockets(service, why, why_bytes);
	}
	if (r == 0) {
		r = weir_privileges_drop(&service->run_as);
		if (r) {
			snprintf(why, why_bytes, "cannot drop privileges: %s", strerror(-r));
		}
	}
	return r;
}

static void begin_as(struct weir_service *service, enum weir_health_word word, const char *why) {
	service->serial = 1;
	service->word = word;
	snprintf(service->why, sizeof(service->why), "%s", why);
}

static int init(struct weir_service *service) {
	const struct weir_agent_options *options = service->options;
	const struct weir_load_params params = {
		.ports = options->ports,
		.port_count = options->port_count,
		.cpu = &service->cpu,
		.max_active_flows = options->max_active_flows,
		.application_ms = options->orca_interval_ms * APPLICATION_INTERVALS,
	};
	int r;

	service->cpu = (struct weir_cpu_source){
		.cgroup_count = options->cgroup_count, .proc_root = "/proc", .sys_root = "/sys"};
	memcpy(service->cpu.cgroup, options->cgroups, sizeof(service->cpu.cgroup));
	r = weir_load_init(&service->load, &params);
	if (r) {
		return r;
	}
	r = uv_loop_init(&service->loop);
	if (r) {
		weir_load_fini(&service->load);
		return r;
	}
	service->number = weir_agent_random_number();
	service->started_ms = uv_now(&service->loop);
	if (weir_service_saved_state(service) == WEIR_HEALTH_WORD_LAME_DUCK) {
		begin_as(service, WEIR_HEALTH_WORD_LAME_DUCK, "restored after an agent crash");
	} else if (options->warm_up != NULL) {
		begin_as(service, WEIR_HEALTH_WORD_STARTING, "warming up");
	} else {
		begin_as(service, WEIR_HEALTH_WORD_READY, "started");
	}
	return 0;
}

static void log_started(struct weir_service *service) {
	struct weir_cpu_usage usage;

	weir_log_write(service->log, WEIR_LOG_INFO,
		"weir-agent (pid %d, user %d): answering on UDP port %u, %u keys, %u service "
		"ports; %s",
		(int)getpid(), (int)geteuid(), service->options->udp_port, service->keys.count,
		service->options->port_count, service->why);
	log_cgroup(service, weir_cpu_usage_read(&service->cpu, &usage) < 0);
}

static void fini(struct weir_service *service) {
	weir_datagrams_close(&service->datagrams);
	if (service->local.fd >= 0) {
		close(service->local.fd);
	}
	if (service->meter.helper >= 0) {
		close(service->meter.helper);
	}
	if (service->steal.helper >= 0) {
		close(service->steal.helper);
	}
	if (service->note >= 0) {
		close(service->note);
	}
	weir_agent_keys_wipe(&service->keys);
}

int weir_service_run(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_log_limit *limit) {
	struct weir_service *service = calloc(1, sizeof(*service));
	char why[WHY_BYTES] = "out of memory";
	int r = service == NULL ? -ENOMEM : weir_agent_crypto_start();

	if (r == 0) {
		service->options = options;
		service->log = log;
		service->log_limit = limit;
		service->datagrams = (struct weir_datagrams){.fd = {-1, -1}};
		service->local.fd = service->meter.helper = service->note = -1;
		service->steal.helper = service->steal.handshakes.fd = -1;
		r = prepare(service, why, sizeof(why));
		if (r == 0) {
			r = init(service);
			snprintf(why, sizeof(why), "cannot start: %s", strerror(-r));
		}
		if (r == 0) {
			log_started(service);
			r = loop(service);
			snprintf(why, sizeof(why), "cannot start: %s", strerror(-r));
			stop(service);
			if (r == 0) { // otherwise the next process must restore the same state
				weir_service_save_state(service, WEIR_HEALTH_WORD_NONE);
			}
			weir_load_fini(&service->load);
		}
		fini(service);
	}
	if (r) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
	}
	free(service);
	return r ? WEIR_AGENT_REFUSED : WEIR_AGENT_DONE;
}
