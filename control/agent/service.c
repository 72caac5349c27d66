// SPDX-License-Identifier: BSD-3-Clause
#include "service.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "announcement.h"
#include "capacity_demand.h"
#include "commands.h"
#include "listeners.h"
#include "local_socket.h"
#include "meter_demand.h"
#include "plural.h"
#include "port_watch.h"
#include "probes.h"
#include "resources.h"
#include "run.h"
#include "saved_state.h"
#include "service_words.h"
#include "shed.h"
#include "status.h"
#include "steal_answers.h"
#include "tcp_looks.h"
#include "warm_up.h"

#define WHY_BYTES 320
// The application's report expires after this number of intervals (--orca-interval) plus the
// maximum duration of a request.
#define APPLICATION_INTERVALS 4

struct service {
	const struct weir_agent_options *options;
	struct weir_log *log;
	struct weir_log_limit *log_limit; // limits repeated lines of `log`
	struct weir_agent_resources resources;

	struct weir_cpu_source cpu;
	struct weir_load load;
	struct weir_balancers balancers;
	struct weir_probes probes;
	struct weir_announcement announcement;
	struct weir_meter_demand meter;
	struct weir_capacity_demand capacity;
	struct weir_port_watch watch;
	struct weir_tcp_looks tcp;
	struct weir_steal_answers steals;
	struct weir_shed shed;
	struct weir_commands commands;
	struct weir_local_socket local;
	struct weir_service_words words;
	struct weir_orca_poll *orca; // NULL = no --orca-url

	uv_loop_t loop;
	uv_signal_t term, interrupt, hangup;
	// runs every WEIR_LOAD_TICK_MS, for the measured values, the expiry of balancers and the
	// log
	uv_timer_t turn;
	struct weir_warm_up warm_up;
	uint64_t number; // random number of this process
	uint64_t started_ms;
	bool no_cpu; // it was logged that the cgroup has no CPU time
};

// --- load ---------------------------------------------------------------------------------

// Logs when the CPU time of the cgroup becomes available or unavailable. no_cpu: the CPU time is
// unavailable now. The cgroup of the service may be created after the agent has started, and may be
// removed.
static void log_cgroup(struct service *service, bool no_cpu) {
	const struct weir_agent_options *options = service->options;

	if (options->cgroup_count == 0 || no_cpu == service->no_cpu) {
		return;
	}
	service->no_cpu = no_cpu;
	weir_log_write(service->log, no_cpu ? WEIR_LOG_WARN : WEIR_LOG_INFO, "--cgroup %s%s: %s",
		options->cgroups[0], options->cgroup_count > 1 ? " and others" : "",
		no_cpu ? "no CPU time found in the directory, so none is reported; check the "
			 "path, and whether the service runs"
		       : "CPU time found");
}

static void set_wants(void *context, uint32_t wants) {
	struct service *service = context;

	weir_load_set_wants(&service->load, wants);
	weir_capacity_demand_set(&service->capacity, &service->loop, wants, uv_now(&service->loop));
	weir_meter_demand_set(&service->meter, wants, uv_now(&service->loop));
	weir_tcp_looks_want(&service->tcp, (wants & WEIR_AGENT_TCP_FIGURES) != 0);
}

static void on_turn(uv_timer_t *timer) {
	struct service *service = timer->data;
	uint64_t now_ms = uv_now(&service->loop);
	uint32_t wants;

	weir_log_limit_tick(service->log_limit);
	weir_balancers_expire(&service->balancers, now_ms);
	wants = weir_balancers_wants(&service->balancers);
	set_wants(service, wants);
	if (service->orca != NULL) {
		weir_orca_poll_want(service->orca, wants != 0);
	}
	if (weir_load_needs_tick(wants)) {
		weir_load_tick(&service->load, now_ms);
		log_cgroup(service, weir_load_lacks_cpu(&service->load));
	}
}

static void take_application(void *context, const struct weir_report *report) {
	struct service *service = context;

	weir_load_take_application(&service->load, report, uv_now(&service->loop));
}

// --- state --------------------------------------------------------------------------------

static void fill_answer(void *context, uint32_t wants, struct weir_agent_answer *answer) {
	struct service *service = context;
	const struct weir_announcement *announcement = &service->announcement;

	answer->serial = announcement->serial;
	answer->word = (uint8_t)announcement->word;
	memcpy(answer->why, announcement->why, sizeof(answer->why));
	weir_load_fill(&service->load, wants, uv_now(&service->loop), answer);
	weir_watched_ports_fill(&service->watch.ports, wants, answer);
}

static void announce_ports(void *context) {
	struct service *service = context;

	weir_announcement_ports(&service->announcement);
}

static void notify(void *context, const struct weir_balancer *balancer) {
	struct service *service = context;

	weir_probes_notify(&service->probes, balancer);
}

static enum weir_agent_refusal take_steal(
	void *context, const struct weir_agent_steal *steal, const struct weir_path *path) {
	struct service *service = context;

	return weir_steal_answers_take(&service->steals, steal, path);
}

static enum weir_agent_refusal take_shed(
	void *context, const struct weir_agent_shed *order, const struct weir_path *path) {
	struct service *service = context;

	return weir_shed_take(&service->shed, order, path);
}

static void count_connections(void *context, uint32_t *ret_open, uint32_t *ret_half_open) {
	struct service *service = context;
	struct weir_listeners_connections connections = {.open = UINT32_MAX};

	if (service->options->port_count == 0) {
		connections.open = 0; // no TCP ports: a drain waits only for acknowledgements
	} else if (service->load.listeners >= 0) {
		(void)weir_listeners_connections(service->load.listeners, service->options->ports,
			service->options->port_count, &connections);
	}
	*ret_open = connections.open;
	*ret_half_open = connections.half_open;
}

static void on_drained(void *context) {
	struct service *service = context;

	if (service->announcement.final) {
		uv_stop(&service->loop);
	}
}

static json_t *status(void *context) {
	struct service *service = context;
	const struct weir_status_parts parts = {
		.now_ms = uv_now(&service->loop),
		.started_ms = service->started_ms,
		.announcement = &service->announcement,
		.balancers = &service->balancers,
		.load = &service->load,
		.meter = service->meter.reader,
		.capacity = &service->capacity,
		.watch = &service->watch,
		.tcp = &service->tcp,
		.probes = &service->probes,
		.steals = &service->steals,
		.shed = &service->shed,
		.words = &service->words.words,
		.orca = service->orca,
	};

	return weir_status_make(&parts);
}

// --- signals ------------------------------------------------------------------------------

static void on_stop(uv_signal_t *handle, int number) {
	struct service *service = handle->data;
	const uint64_t interval_ms = service->options->interval_ms;
	const uint64_t deadline_ms = uv_now(&service->loop) + interval_ms;
	struct weir_drain *drain = &service->announcement.drain;

	if (service->announcement.final || number == SIGINT ||
		(drain->state == WEIR_DRAIN_DEADLINE && drain->interval_ms > 0 &&
			drain->interval_ms >= interval_ms)) {
		weir_log_write(service->log, WEIR_LOG_INFO, "signal %d: stopping", number);
		uv_stop(&service->loop);
		return;
	}
	weir_announcement_is_final(&service->announcement);
	if (!weir_drain_is_running(drain)) { // connections may have been opened since it was done
		weir_announcement_lame_duck(&service->announcement, interval_ms, false, "SIGTERM");
	} else if (drain->deadline_ms > deadline_ms) {
		drain->deadline_ms = deadline_ms;
	}
	sd_notifyf(0, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%llu",
		(unsigned long long)(interval_ms + 5000) * 1000);
}

// Block or unblock SIGHUP (how: SIG_BLOCK, SIG_UNBLOCK). SIGHUP is blocked while the process
// starts: a request to reload the keys then stays pending, and does not terminate the process.
static void set_hangup(int how) {
	sigset_t hangup;

	sigemptyset(&hangup);
	sigaddset(&hangup, SIGHUP);
	sigprocmask(how, &hangup, NULL);
}

static void on_hangup(uv_signal_t *handle, int number) {
	struct service *service = handle->data;
	char why[WHY_BYTES] = "";

	(void)number;
	weir_capacity_demand_reload(&service->capacity);
	if (weir_agent_keys_read(service->options->key_file, service->resources.key_owner,
		    &service->resources.keys, why, sizeof(why))) {
		weir_log_write(service->log, WEIR_LOG_ERROR,
			"key file not reloaded, keeping the previous keys: %s", why);
	} else {
		weir_log_write(service->log, WEIR_LOG_INFO, "%u key%s read from %s",
			service->resources.keys.count, weir_plural(service->resources.keys.count),
			service->options->key_file);
	}
}

// --- event loop ---------------------------------------------------------------------------

static void start_signal(
	struct service *service, uv_signal_t *handle, int number, uv_signal_cb callback) {
	uv_signal_init(&service->loop, handle);
	handle->data = service;
	uv_signal_start(handle, callback, number);
}

static int start_orca(struct service *service) {
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

static int start_steals(struct service *service) {
	const struct weir_steal_answers_params params = {
		.log = service->log,
		.keys = &service->resources.keys,
		.datagrams = &service->resources.datagrams,
		.number = service->number,
		.started_ms = service->started_ms,
		.allowed = service->options->allow_steal,
		.ports = service->options->ports,
		.port_count = service->options->port_count,
	};
	int helper = service->resources.steal_helper;

	service->resources.steal_helper = -1;
	return weir_steal_answers_start(&service->loop, &params, helper, &service->steals);
}

static int start_shed(struct service *service) {
	const struct weir_shed_params params = {
		.log = service->log,
		.keys = &service->resources.keys,
		.datagrams = &service->resources.datagrams,
		.number = service->number,
		.started_ms = service->started_ms,
		.method = weir_agent_options_shed(service->options),
		.hook = service->options->shed_hook,
		.ports = service->options->ports,
		.port_count = service->options->port_count,
	};
	int helper = service->resources.shed_helper;

	service->resources.shed_helper = -1;
	return weir_shed_start(&service->loop, &params, helper, &service->shed);
}

static int start_probes(struct service *service) {
	const struct weir_probes_params params = {
		.keys = &service->resources.keys,
		.datagrams = &service->resources.datagrams,
		.balancers = &service->balancers,
		.tcp = &service->tcp,
		.number = service->number,
		.started_ms = service->started_ms,
		.udp_port = service->options->udp_port,
		.fill = fill_answer,
		.requested = set_wants,
		.steal = take_steal,
		.shed = take_shed,
		.context = service,
	};

	return weir_probes_start(&service->loop, &params, &service->probes);
}

static int start_watch(struct service *service) {
	const struct weir_port_watch_params params = {
		.log = service->log,
		.tcp_ports = service->options->ports,
		.tcp_count = service->options->port_count,
		.udp_ports = service->options->ports_udp,
		.udp_count = service->options->port_udp_count,
		.grace_ms = service->options->grace_ms,
		.helper = service->resources.meter_helper,
		.saved = service->resources.saved,
		.changed = announce_ports,
		.context = service,
	};

	return weir_port_watch_start(&service->loop, &params, &service->watch);
}

static int start_tcp(struct service *service) {
	const struct weir_tcp_looks_params params = {
		.log = service->log,
		.ports = service->options->ports,
		.port_count = service->options->port_count,
	};

	return weir_tcp_looks_start(&service->loop, &params, &service->tcp);
}

static int start_commands(struct service *service) {
	service->commands = (struct weir_commands){
		.announcement = &service->announcement, .status = status, .context = service};
	return weir_local_socket_start(&service->loop, service->resources.local_fd,
		weir_commands_answer, &service->commands, &service->local);
}

static int start_announcement(struct service *service) {
	const struct weir_announcement_params params = {
		.log = service->log,
		.balancers = &service->balancers,
		.saved = service->resources.saved,
		.notify = notify,
		.connections = count_connections,
		.drained = on_drained,
		.context = service,
	};

	return weir_announcement_start(
		&service->loop, &params, service->options->warm_up != NULL, &service->announcement);
}

static int start(struct service *service) {
	// Start the port watch first, so that the first answer contains the states of the ports.
	int r = start_watch(service);

	weir_capacity_demand_start(service->log, &service->load, service->resources.capacity_cache,
		&service->capacity);

	if (r == 0) {
		r = weir_service_words_start(&service->loop, service->log,
			&service->options->services, &service->resources.listeners, &service->watch,
			&service->announcement, &service->words);
	}
	if (r == 0) {
		r = start_tcp(service);
	}
	if (r == 0) {
		r = start_probes(service);
	}
	if (r == 0) {
		r = start_commands(service);
	}
	if (r == 0) {
		r = weir_meter_demand_start(&service->loop, service->log, &service->load,
			service->resources.meter_helper, &service->meter);
	}
	if (r == 0) {
		r = start_steals(service);
	}
	if (r == 0) {
		r = start_shed(service);
	}
	if (r == 0) {
		r = start_orca(service);
	}
	if (r == 0 && service->options->warm_up != NULL) {
		r = weir_warm_up_start(&service->loop, service->options->warm_up, service->log,
			&service->announcement, &service->warm_up);
	}
	return r;
}

static void log_started(struct service *service) {
	uint32_t ports = service->options->port_count + service->options->port_udp_count;
	struct weir_cpu_usage usage;

	weir_log_write(service->log, WEIR_LOG_INFO,
		"weir-agent (pid %d, user %d): answering on UDP port %u, %u key%s, %u service "
		"port%s; %s",
		(int)getpid(), (int)geteuid(), service->options->udp_port,
		service->resources.keys.count, weir_plural(service->resources.keys.count), ports,
		weir_plural(ports), service->announcement.why);
	log_cgroup(service, weir_cpu_usage_read(&service->cpu, &usage) < 0);
}

static int loop(struct service *service) {
	int r = start_announcement(service);

	uv_timer_init(&service->loop, &service->turn);
	service->turn.data = service;
	uv_timer_start(&service->turn, on_turn, WEIR_LOAD_TICK_MS, WEIR_LOAD_TICK_MS);
	start_signal(service, &service->term, SIGTERM, on_stop);
	start_signal(service, &service->interrupt, SIGINT, on_stop);
	start_signal(service, &service->hangup, SIGHUP, on_hangup);
	set_hangup(SIG_UNBLOCK);
	if (r == 0) {
		log_started(service);
		r = start(service);
	}
	if (r == 0) {
		sd_notify(0, "READY=1");
		uv_run(&service->loop, UV_RUN_DEFAULT);
	}
	return r;
}

// Close a handle if it belongs to this file; the other modules close their own handles.
static void close_handle(uv_handle_t *handle, void *context) {
	if (handle->data == context && !uv_is_closing(handle)) {
		uv_close(handle, NULL);
	}
}

static void stop(struct service *service) {
	weir_warm_up_stop(&service->warm_up);
	weir_service_words_stop(&service->words);
	weir_orca_poll_close(service->orca);
	weir_port_watch_stop(&service->watch);
	weir_meter_demand_stop(&service->meter);
	weir_capacity_demand_stop(&service->capacity);
	weir_tcp_looks_stop(&service->tcp);
	weir_steal_answers_stop(&service->steals);
	weir_shed_stop(&service->shed);
	weir_local_socket_stop(&service->local);
	weir_probes_stop(&service->probes);
	weir_announcement_stop(&service->announcement);
	uv_walk(&service->loop, close_handle, service);
	uv_run(&service->loop, UV_RUN_DEFAULT);
	uv_loop_close(&service->loop);
}

// --- start and end ------------------------------------------------------------------------

static int init(struct service *service) {
	const struct weir_agent_options *options = service->options;
	const struct weir_load_params params = {
		.ports = options->ports,
		.port_count = options->port_count,
		.cpu = &service->cpu,
		.max_active_flows = options->max_active_flows,
		.application_ms = options->orca_interval_ms * APPLICATION_INTERVALS +
				  WEIR_ORCA_POLL_TIMEOUT_MS,
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
	return 0;
}

// Runs the service until its event loop ends.
static int run(struct service *service) {
	int r = init(service);

	if (r) {
		return r;
	}
	r = loop(service);
	stop(service);
	// After a failure, the saved state stays for the next process.
	if (r == 0) {
		weir_saved_state_write(service->resources.saved, WEIR_HEALTH_WORD_NONE);
	}
	weir_load_fini(&service->load);
	return r;
}

int weir_service_run(const struct weir_agent_options *options, struct weir_log *log,
	struct weir_log_limit *limit) {
	struct service *service = calloc(1, sizeof(*service));
	char why[WHY_BYTES] = "out of memory";
	int r = service == NULL ? -ENOMEM : weir_agent_crypto_start();

	set_hangup(SIG_BLOCK);
	if (r == 0) {
		service->options = options;
		service->log = log;
		service->log_limit = limit;
		r = weir_agent_resources_open(options, log, &service->resources, why, sizeof(why));
	}
	if (r == 0) {
		r = run(service);
		snprintf(why, sizeof(why), "cannot start: %s", strerror(-r));
		weir_agent_resources_close(&service->resources);
	}
	if (r) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s", why);
	}
	free(service);
	return r ? WEIR_AGENT_REFUSED : WEIR_AGENT_DONE;
}
