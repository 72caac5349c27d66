// SPDX-License-Identifier: BSD-3-Clause
#include "daemon.h"

#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "checks.h"
#include "daemon_private.h"
#include "takeovers.h"

#define TICK_MS WEIR_BUCKET_TICK_MS
#define SECOND_MS 1000
#define NS_PER_MS 1000000u

static void on_measured(void *context) {
	struct weir_daemon *daemon = context;

	weir_daemon_update_estimates(daemon);
	(void)weir_daemon_publish(daemon);
}

struct weir_comparisons *weir_daemon_comparisons(struct weir_daemon *daemon) {
	struct weir_comparison *current = daemon->comparisons.current;

	daemon->comparisons = (struct weir_comparisons){.loop = &daemon->loop,
		.tables = daemon->tables,
		.segment = daemon->segment,
		.estimates = daemon->estimates,
		.changed = on_measured,
		.context = daemon,
		.current = current};
	return &daemon->comparisons;
}

const struct weir_stalls *weir_daemon_stalls(struct weir_daemon *daemon) {
	if (weir_stalls_check(&daemon->stalls, daemon->log, weir_daemon_now_ns())) {
		weir_daemon_notify_status(daemon);
	}
	return &daemon->stalls;
}

// --- timers -------------------------------------------------------------------------------

static void log_refusals(struct weir_daemon *daemon) {
	struct weir_tables_refusal refusal;

	while (weir_tables_refused(daemon->tables, &refusal)) {
		const char *name = refusal.kind == WEIR_UPDATE_SELECTION
					   ? weir_tables_service_name(daemon->tables, refusal.id)
				   : refusal.kind == WEIR_UPDATE_ROW
					   ? weir_tables_backend_name(daemon->tables, refusal.id)
					   : "all services";

		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"worker %u refused the new %s of %s: %s", refusal.worker,
			refusal.kind == WEIR_UPDATE_SELECTION ? "selection"
			: refusal.kind == WEIR_UPDATE_ROW     ? "tunnel headers"
							      : "service table",
			name != NULL ? name : "a removed id",
			refusal.restored ? "the previous version is published again"
					 : "a new version is built");
	}
}

static void on_tick(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	weir_daemon_set_time(daemon);
	weir_daemon_configure_again(daemon);
	weir_daemon_read_links(daemon);
	weir_rejections_tick(daemon->rejections, weir_daemon_now_ns() / NS_PER_MS);
	if (daemon->segment != NULL) {
		(void)weir_daemon_stalls(daemon);
		log_refusals(daemon);
		if (daemon->publish_why[0] != '\0') {
			weir_daemon_publish(daemon);
		} else {
			weir_tables_tick(daemon->tables);
		}
		weir_daemon_retry(daemon);
		weir_steals_tick(daemon->steals);
		weir_quorums_tick(&daemon->quorums, daemon->tables);
		weir_recent_take_slice(&daemon->recent, daemon->segment,
			weir_tables_backend_ids(daemon->tables), daemon->segment->max_services);
	}
	weir_takeovers_note(daemon->log, daemon->states, daemon->tables);
	// Advance no drain after a failed publication, because draining backends then still get new
	// flows.
	if (daemon->tables != NULL && daemon->publish_why[0] == '\0') {
		const struct weir_drains_of of = {
			.tables = daemon->tables, .states = daemon->states, .log = daemon->log};

		daemon->dirty |= weir_drains_tick(&daemon->drains, &of, weir_daemon_now_ns());
	}
}

static void on_second(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	weir_log_limit_tick(daemon->log_limit);
	weir_next_hops_second(daemon->next_hops);
	daemon->dirty |= weir_estimates_second(daemon->estimates, weir_daemon_now_ns());
	daemon->dirty |= weir_outliers_second(daemon->outliers, weir_daemon_now_ns() / NS_PER_MS);
	weir_checks_pace(daemon->health, daemon->tables);
	weir_checks_second(&daemon->checks_log, daemon->log, daemon->health, daemon->tables,
		weir_daemon_now_ns() / NS_PER_MS);
	weir_probed_agents_second(daemon->probed_agents);
	weir_reports_second(daemon->reports, weir_daemon_now_ns() / NS_PER_MS);
	daemon->dirty |= weir_canaries_second(daemon->canaries, weir_daemon_now_ns() / NS_PER_MS,
		!daemon->dirty && daemon->publish_why[0] == '\0');
	weir_sheds_second(daemon->sheds, weir_daemon_now_ns() / NS_PER_MS);
	weir_daemon_store(daemon);
	if (daemon->segment != NULL) {
		weir_samples_take(&daemon->samples, daemon->segment);
		weir_recent_log_untracked(&daemon->recent, daemon->segment,
			&weir_reload_config(daemon->reload)->flow_table, daemon->log);
		if (daemon->steer_due ||
			weir_tables_removed_count(daemon->tables) != daemon->steered_removed ||
			(daemon->leaving_ns != 0 && weir_daemon_now_ns() >= daemon->leaving_ns)) {
			weir_daemon_steer(daemon);
			weir_daemon_notify_status(daemon);
		}
	}
}

// --- start and end ------------------------------------------------------------------------

static void on_changed(void *context) {
	struct weir_daemon *daemon = context;

	daemon->dirty = true;
}

static void before_wait(uv_prepare_t *prepare) {
	weir_daemon_publish_dirty(prepare->data);
	weir_daemon_build(prepare->data);
}

static void after_wait(uv_check_t *check) {
	weir_daemon_publish_dirty(check->data);
}

static void on_hangup(uv_signal_t *signal, int number) {
	const struct weir_audit_who unknown = {.known = false};

	(void)number;
	(void)weir_daemon_reload_file(signal->data, &unknown);
}

static void on_stop(uv_signal_t *signal, int number) {
	struct weir_daemon *daemon = signal->data;

	weir_log_write(daemon->log, WEIR_LOG_INFO, "stopping (%s); dataplane keeps forwarding",
		number == SIGTERM ? "SIGTERM" : "SIGINT");
	sd_notify(0, "STOPPING=1");
	uv_stop(&daemon->loop);
}

static void start_handles(struct weir_daemon *daemon) {
	uv_loop_t *loop = &daemon->loop;

	uv_timer_init(loop, &daemon->tick);
	uv_timer_init(loop, &daemon->second);
	uv_timer_init(loop, &daemon->grace);
	uv_timer_init(loop, &daemon->publish);
	uv_timer_init(loop, &daemon->build);
	uv_timer_init(loop, &daemon->collect);
	uv_prepare_init(loop, &daemon->before_wait);
	uv_check_init(loop, &daemon->after_wait);
	uv_signal_init(loop, &daemon->hangup);
	uv_signal_init(loop, &daemon->terminate);
	uv_signal_init(loop, &daemon->interrupt);
	daemon->tick.data = daemon->second.data = daemon->grace.data = daemon;
	daemon->publish.data = daemon->build.data = daemon->collect.data = daemon;
	daemon->before_wait.data = daemon->after_wait.data = daemon;
	daemon->hangup.data = daemon->terminate.data = daemon->interrupt.data = daemon;
	uv_timer_start(&daemon->tick, on_tick, TICK_MS, TICK_MS);
	uv_timer_start(&daemon->second, on_second, SECOND_MS, SECOND_MS);
	uv_prepare_start(&daemon->before_wait, before_wait);
	uv_check_start(&daemon->after_wait, after_wait);
	uv_signal_start(&daemon->hangup, on_hangup, SIGHUP);
	uv_signal_start(&daemon->terminate, on_stop, SIGTERM);
	uv_signal_start(&daemon->interrupt, on_stop, SIGINT);
}

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct weir_daemon *daemon = context;

	weir_states_set_verdict(daemon->states, backend, verdict, detail);
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	struct weir_daemon *daemon = context;

	weir_reports_take(daemon->reports, backend, report, source);
}

static void on_recheck(void *context, uint16_t backend) {
	struct weir_daemon *daemon = context;

	weir_health_restart(daemon->health, backend);
	weir_agents_hasten(daemon->agents, backend);
}

static bool on_failed(void *context, uint16_t backend, uint64_t took_ms, uint32_t timeout_ms,
	char *why, size_t bytes) {
	struct weir_daemon *daemon = context;
	const uint64_t now_ms = weir_daemon_now_ns() / NS_PER_MS;
	const struct weir_links_failure failure = {
		.way = weir_next_hops_way(daemon->next_hops, backend),
		.began_ms = now_ms - took_ms,
		.timeout_ms = timeout_ms,
	};

	weir_links_update(&daemon->links, weir_daemon_links_of(daemon), failure.way.port, now_ms);
	return weir_links_excuse(&daemon->links, &failure, why, bytes);
}

// Create the modules that keep the states of backends. Returns 0 or negative errno.
static int create_backends(struct weir_daemon *daemon) {
	uv_loop_t *loop = &daemon->loop;
	int r = weir_states_create(daemon->log, on_changed, daemon, &daemon->states);

	if (r == 0) {
		r = weir_reports_create(
			daemon->states, daemon->estimates, on_changed, daemon, &daemon->reports);
	}
	if (r == 0) {
		r = weir_health_create(loop, on_health, on_report, daemon, &daemon->health);
	}
	if (r == 0) {
		weir_health_on_failed(daemon->health, on_failed);
		r = weir_probed_agents_create(loop, daemon->log, daemon->health, daemon->reports,
			on_failed, daemon, &daemon->probed_agents);
	}
	if (r < 0) {
		return r;
	}
	daemon->agents = weir_probed_agents_of(daemon->probed_agents);
	weir_states_on_recheck(daemon->states, on_recheck);
	daemon->quorums = (struct weir_quorums){
		.log = daemon->log, .states = daemon->states, .context = daemon};
	return weir_next_hops_create(loop, daemon->log, daemon->states, daemon->health, on_changed,
		daemon, &daemon->next_hops);
}

// Create the modules for ejection. Returns 0 or negative errno.
static int create_outliers(struct weir_daemon *daemon) {
	int r = weir_outliers_create(daemon->log, daemon->states, &daemon->outliers);

	return r < 0 ? r : weir_rejections_create(daemon->outliers, &daemon->rejections);
}

static int create_canaries(struct weir_daemon *daemon) {
	const struct weir_canaries_of of = {.log = daemon->log,
		.audit = daemon->audit,
		.states = daemon->states,
		.reports = daemon->reports,
		.agents = daemon->probed_agents,
		.run_dir = daemon->run_dir};

	return weir_canaries_create(&of, &daemon->canaries);
}

static int create_sheds(struct weir_daemon *daemon) {
	const struct weir_sheds_of of = {.log = daemon->log,
		.audit = daemon->audit,
		.states = daemon->states,
		.agents = daemon->agents};

	return weir_sheds_create(&of, &daemon->sheds);
}

// Creates the modules that send requests of API clients to the workers. Returns 0 or negative
// errno.
static int create_lookups(struct weir_daemon *daemon) {
	int r;

	weir_mailboxes_init(&daemon->mailboxes, &daemon->loop, uv_hrtime());
	r = weir_lookups_create(&daemon->loop, &daemon->mailboxes, &daemon->lookups);
	if (r == 0) {
		r = weir_flow_lists_create(&daemon->loop, &daemon->mailboxes, &daemon->flow_lists);
	}
	return r < 0 ? r : weir_captures_create(&daemon->loop, daemon->audit, &daemon->captures);
}

// Creates the filter that limits repeated log lines, and the audit. Returns 0 or negative errno.
static int create_log(struct weir_daemon *daemon) {
	int r = weir_log_limit_create(daemon->log, NULL, &daemon->log_limit);

	return r < 0 ? r : weir_audit_create(daemon->log, NULL, &daemon->audit);
}

int weir_daemon_init(struct weir_daemon *daemon, const char *run_dir, const char *user,
	struct weir_log *log, struct weir_reload *reload) {
	struct weir_dataplane_events events = {.attached = weir_daemon_on_attached,
		.lost = weir_daemon_on_lost,
		.refused = weir_daemon_on_refused,
		.context = daemon};
	const char *failed = "loop";
	int r;

	*daemon = (struct weir_daemon){.log = log,
		.run_dir = run_dir,
		.user = user,
		.reload = reload,
		.started_ms = weir_daemon_wall_ms()};
	daemon->reloaded_ms = daemon->started_ms;
	signal(SIGPIPE, SIG_IGN); // writing to a closed connection returns an error
	r = uv_loop_init(&daemon->loop);
	if (r < 0) {
		goto log_failure;
	}
	start_handles(daemon);
	failed = "log";
	r = create_log(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "estimates";
	r = weir_estimates_create(&daemon->estimates);
	if (r < 0) {
		goto close_loop;
	}
	failed = "health checks, agents and neighbours";
	r = create_backends(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "outliers";
	r = create_outliers(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "canaries";
	r = create_canaries(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "sheds";
	r = create_sheds(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "flow lookups";
	r = create_lookups(daemon);
	if (r < 0) {
		goto close_loop;
	}
	failed = "steals";
	r = weir_steals_create(&daemon->mailboxes, log, &daemon->steals);
	if (r < 0) {
		goto close_loop;
	}
	failed = "steals of flows";
	r = weir_flow_steals_create(&daemon->loop, log, &daemon->mailboxes, daemon->reports,
		daemon->agents, &daemon->flow_steals);
	if (r < 0) {
		goto close_loop;
	}
	failed = "dataplane link";
	r = weir_dataplane_link_create(&daemon->loop, run_dir, log, &events, &daemon->link);
	if (r < 0) {
		goto close_loop;
	}
	return 0;
close_loop:
	weir_daemon_fini(daemon);
log_failure:
	weir_log_write(log, WEIR_LOG_ERROR, "cannot start: %s: %s", failed, strerror(-r));
	return r;
}

static void on_data_path_lost(void *context, const char *device) {
	struct weir_daemon *daemon = context;

	weir_log_write(daemon->log, WEIR_LOG_ERROR,
		"device %s was removed: health checks via the data path have no result until "
		"weir-control is restarted",
		device);
}

int weir_daemon_set_data_path(struct weir_daemon *daemon, struct weir_data_path_tunnel *tunnel) {
	return weir_health_set_data_path(daemon->health, tunnel, on_data_path_lost);
}

void weir_daemon_run(struct weir_daemon *daemon) {
	sd_notify(0, "READY=1");
	weir_daemon_notify_status(daemon);
	uv_run(&daemon->loop, UV_RUN_DEFAULT);
}

void weir_daemon_fini(struct weir_daemon *daemon) {
	uv_handle_t *handles[] = {(uv_handle_t *)&daemon->tick, (uv_handle_t *)&daemon->second,
		(uv_handle_t *)&daemon->grace, (uv_handle_t *)&daemon->publish,
		(uv_handle_t *)&daemon->build, (uv_handle_t *)&daemon->collect,
		(uv_handle_t *)&daemon->before_wait, (uv_handle_t *)&daemon->after_wait,
		(uv_handle_t *)&daemon->hangup, (uv_handle_t *)&daemon->terminate,
		(uv_handle_t *)&daemon->interrupt};

	if (daemon->dirty) {
		weir_daemon_publish(daemon);
	}
	weir_daemon_store(daemon);
	weir_daemon_detach(daemon);
	weir_canaries_free(daemon->canaries);
	weir_sheds_free(daemon->sheds);
	weir_dataplane_link_free(daemon->link);
	weir_mailboxes_fini(&daemon->mailboxes);
	weir_lookups_free(daemon->lookups);
	weir_flow_lists_free(daemon->flow_lists);
	weir_captures_free(daemon->captures);
	weir_steals_free(daemon->steals);
	weir_next_hops_free(daemon->next_hops);
	weir_probed_agents_free(daemon->probed_agents);
	weir_health_free(daemon->health);
	weir_reports_free(daemon->reports);
	weir_states_free(daemon->states);
	weir_flow_steals_free(daemon->flow_steals);
	weir_notify_close(daemon->notify);
	weir_programs_close(daemon->programs);
	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		uv_close(handles[i], NULL);
	}
	uv_run(&daemon->loop, UV_RUN_DEFAULT); // run the loop until every handle is closed
	weir_rejections_free(daemon->rejections);
	weir_outliers_free(daemon->outliers);
	weir_estimates_free(daemon->estimates);
	weir_recent_fini(&daemon->recent);
	weir_quorums_fini(&daemon->quorums);
	weir_tables_free(daemon->tables);
	weir_audit_free(daemon->audit);
	weir_log_limit_free(daemon->log_limit);
	uv_loop_close(&daemon->loop);
}
