// SPDX-License-Identifier: BSD-3-Clause
#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

#define TICK_MS 100
#define SECOND_MS 1000
#define COLLECT_MS 50
#define GRACE_LOOK_MS 1
#define RETRY_NS 1000000000ull // without memory
#define PUBLISH_SHARE 4
#define GRACE_SPIN_NS 20000 // workers that poll pass within a microsecond: worth a short look
#define WHY_BYTES 320
#define NS_PER_MS 1000000u

uint64_t weir_daemon_now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void say_status(const struct weir_daemon *daemon) {
	const struct weir_config *config = weir_reload_config(daemon->reload);

	sd_notifyf(0, "STATUS=%u service%s, %s%s", config->service_count,
		config->service_count == 1 ? "" : "s",
		daemon->segment != NULL ? "dataplane attached" : "waiting for weir-dataplane",
		weir_daemon_unpublished(daemon) != NULL ? ", not published yet" : "");
}

// --- publication --------------------------------------------------------------------------

static bool grace_is_over(struct weir_daemon *daemon) {
	if (!weir_writer_passed(weir_tables_writer(daemon->tables), daemon->grace_mark)) {
		return false;
	}
	daemon->last_grace_us = (weir_daemon_now_ns() - daemon->grace_since_ns) / 1000;
	daemon->grace_since_ns = 0;
	uv_timer_stop(&daemon->grace);
	return true;
}

static void grace_due(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	if (daemon->segment == NULL || daemon->grace_since_ns == 0) {
		uv_timer_stop(timer);
		return;
	}
	grace_is_over(daemon);
}

// A publication has taken the time since started_ns: record it, and start to measure the grace
// period.
static void note_publication(struct weir_daemon *daemon, uint64_t started_ns) {
	uint64_t now = weir_daemon_now_ns();

	daemon->last_publish_us = (now - started_ns) / 1000;
	daemon->published_ns = now;
	if (daemon->grace_since_ns != 0) {
		return; // one is being measured
	}
	daemon->grace_since_ns = now;
	daemon->grace_mark = weir_writer_mark(weir_tables_writer(daemon->tables));
	while (weir_daemon_now_ns() - now < GRACE_SPIN_NS) {
		if (grace_is_over(daemon)) {
			return;
		}
	}
	uv_timer_start(&daemon->grace, grace_due, GRACE_LOOK_MS, GRACE_LOOK_MS);
}

const char *weir_daemon_unpublished(const struct weir_daemon *daemon) {
	if (daemon->segment == NULL) {
		return NULL;
	}
	return daemon->config_why[0] != '\0'    ? daemon->config_why
	       : daemon->publish_why[0] != '\0' ? daemon->publish_why
						: weir_watch_unsteered(daemon->watch);
}

static void note_failure(struct weir_daemon *daemon, int error) {
	char why[sizeof(daemon->publish_why)];

	snprintf(why, sizeof(why), "%s",
		error == -ENOSPC ? "the segment's heap is full (segment.heap_bytes)"
		: error == -EBUSY
			? "the segment's heap is full of replaced tables, which a worker still uses"
			: strerror(-error));
	if (strcmp(why, daemon->publish_why) != 0) {
		memcpy(daemon->publish_why, why, sizeof(why));
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"cannot publish: %s; the previous tables stay in use", why);
		say_status(daemon);
	}
}

static void note_success(struct weir_daemon *daemon) {
	if (daemon->publish_why[0] != '\0') {
		daemon->publish_why[0] = '\0';
		weir_log_write(daemon->log, WEIR_LOG_INFO, "all changes are published");
		say_status(daemon);
	}
}

int weir_daemon_publish(struct weir_daemon *daemon) {
	uint64_t started = weir_daemon_now_ns();
	int r;

	if (daemon->segment == NULL) {
		// Everything is published again once a dataplane is attached.
		daemon->dirty = daemon->tables != NULL && weir_tables_publish(daemon->tables) < 0;
		weir_watch_pace(daemon->watch);
		return -ENOTCONN;
	}
	r = weir_tables_publish(daemon->tables);
	daemon->dirty = r < 0;
	if (r < 0) {
		note_failure(daemon, r);
		return r;
	}
	note_success(daemon);
	if (r > 0) {
		note_publication(daemon, started);
	}
	// The set of backends in use may have changed.
	weir_watch_pace(daemon->watch);
	return weir_tables_config(daemon->tables) != NULL ? 0 : -EAGAIN;
}

// Publish before the loop waits again. A mass failure brings many changes, each in its own
// iteration of the loop: publications are then limited to 1 / PUBLISH_SHARE of the time.
static void on_changed(void *context) {
	struct weir_daemon *daemon = context;

	daemon->dirty = true;
}

static void publish_due(uv_timer_t *timer) {
	(void)timer; // it has woken the loop, which publishes in after_wait or before_wait
}

static void publish_dirty(struct weir_daemon *daemon) {
	uint64_t now, next;

	if (!daemon->dirty || daemon->publish_why[0] != '\0') {
		return; // what has failed is tried again every tick
	}
	now = weir_daemon_now_ns();
	next = daemon->published_ns + (PUBLISH_SHARE - 1) * daemon->last_publish_us * 1000;
	if (now >= next) {
		weir_daemon_publish(daemon);
	} else if (!uv_is_active((uv_handle_t *)&daemon->publish)) {
		uv_timer_start(&daemon->publish, publish_due, (next - now) / 1000000 + 1, 0);
	}
}

static void before_wait(uv_prepare_t *prepare) {
	publish_dirty(prepare->data);
}

static void after_wait(uv_check_t *check) {
	publish_dirty(check->data);
}

static void steer(struct weir_daemon *daemon) {
	if (daemon->handover != NULL) {
		daemon->steer_due = weir_watch_steer(daemon->watch, daemon->handover,
					    weir_reload_config(daemon->reload)) < 0;
	}
}

// --- estimates ----------------------------------------------------------------------------

static void collect_due(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	weir_estimates_collect(daemon->estimates, weir_daemon_now_ns());
}

static void follow(struct weir_daemon *daemon, const struct weir_config *config) {
	weir_drains_follow(&daemon->drains, daemon->tables);
	if (weir_estimates_follow(daemon->estimates, daemon->tables, config, weir_daemon_now_ns()) <
		0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"out of memory: service times and weights of some backends are unknown");
	}
	if (daemon->segment == NULL || !weir_estimates_measures(daemon->estimates)) {
		uv_timer_stop(&daemon->collect);
	} else if (!uv_is_active((uv_handle_t *)&daemon->collect)) {
		uv_timer_start(&daemon->collect, collect_due, COLLECT_MS, COLLECT_MS);
	}
}

void weir_daemon_follow(struct weir_daemon *daemon) {
	follow(daemon, weir_reload_config(daemon->reload));
}

// --- configuration ------------------------------------------------------------------------

static uint64_t publications(const struct weir_daemon *daemon) {
	return daemon->segment != NULL ? weir_counter_read(&daemon->segment->notes->publications)
				       : 0;
}

// What has no id in the segment yet gets one when those that have left are free.
static void note_waiting(struct weir_daemon *daemon) {
	uint32_t waiting = weir_tables_waiting(daemon->tables, &daemon->retry);
	char why[sizeof(daemon->config_why)] = "";

	daemon->retry_ns = 0;
	if (waiting > 0) {
		daemon->retry = true;
		snprintf(why, sizeof(why),
			"%u services and backends wait for ids of the segment, which become free "
			"when the flows of removed ones have ended",
			waiting);
		if (daemon->config_why[0] == '\0') {
			weir_log_write(daemon->log, WEIR_LOG_WARN,
				"the configuration is not published as a whole yet: %s", why);
		}
	}
	memcpy(daemon->config_why, why, sizeof(why));
}

static void on_measured(void *context) {
	struct weir_daemon *daemon = context;

	weir_daemon_follow(daemon);
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

// Apply the configuration in use to the tables and to health checks, neighbours and estimates.
static int apply(
	struct weir_daemon *daemon, const struct weir_config *config, char *why, size_t why_bytes) {
	uint64_t started = weir_daemon_now_ns();
	uint64_t before = publications(daemon);
	int r;

	if (daemon->tables == NULL) {
		return 0; // the first dataplane will get it
	}
	r = weir_tables_apply(daemon->tables, config, why, why_bytes);
	if (r < 0) {
		if (why[0] == '\0') {
			snprintf(why, why_bytes, "%s", strerror(-r));
		}
		return r;
	}
	note_waiting(daemon);
	if (publications(daemon) != before) {
		note_publication(daemon, started);
	}
	weir_watch_configure(daemon->watch, daemon->tables, config);
	follow(daemon, config);
	if (weir_outliers_follow(daemon->outliers, daemon->tables, config) < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR, "out of memory: no backend is ejected");
	}
	weir_daemon_publish(daemon);
	return 0;
}

// The configuration in use does not fit the dataplane that was attached just now: what is in its
// segment stays in use. When only replaced tables are in the way it is applied as soon as they are
// not, and without memory it is tried every second; else a smaller configuration may fit.
static void keep_unapplied(struct weir_daemon *daemon, int error, const char *why) {
	bool is_new = strcmp(why, daemon->config_why) != 0;

	daemon->retry = error == -EBUSY || error == -ENOMEM;
	daemon->retry_ns = error == -ENOMEM ? weir_daemon_now_ns() + RETRY_NS : 0;
	snprintf(daemon->config_why, sizeof(daemon->config_why), "%s", why);
	if (is_new) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			daemon->retry ? "the configuration is not published yet: %s"
				      : "the configuration does not fit the running "
					"weir-dataplane: %s",
			why);
	}
	weir_daemon_follow(daemon);
}

static void retry_configuration(struct weir_daemon *daemon) {
	char why[sizeof(daemon->config_why)] = "";
	bool helps;
	int r;

	if (!daemon->retry || weir_daemon_now_ns() < daemon->retry_ns ||
		(weir_tables_waiting(daemon->tables, &helps) > 0
				? !helps
				: weir_tables_wait(daemon->tables))) {
		return;
	}
	r = apply(daemon, weir_reload_config(daemon->reload), why, sizeof(why));
	if (r == 0 && daemon->retry) {
		return; // some wait still
	}
	if (r == 0) {
		weir_log_write(daemon->log, WEIR_LOG_INFO, "the configuration is published");
		steer(daemon);
		say_status(daemon);
	} else if (r != -EBUSY) {
		keep_unapplied(daemon, r, why);
	}
}

static void log_errors(
	struct weir_log *log, const char *file, const struct weir_config_errors *errors) {
	char line[1024];

	for (uint32_t i = 0; i < errors->count; i++) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s",
			weir_config_error_format(file, &errors->error[i], line, sizeof(line)));
	}
}

void weir_daemon_log_warnings(
	struct weir_log *log, const char *file, const struct weir_config_errors *errors) {
	char line[1024];

	for (uint32_t i = 0; i < errors->warning_count; i++) {
		weir_log_write(log, WEIR_LOG_WARN, "%s",
			weir_config_error_format(file, &errors->warning[i], line, sizeof(line)));
	}
}

static int plan_and_apply(struct weir_daemon *daemon, const char *file,
	struct weir_reload_plan *plan, char *why, size_t why_bytes) {
	int r = weir_reload_plan(daemon->reload, file, plan);

	why[0] = '\0';
	if (r < 0) {
		log_errors(daemon->log, plan->file != NULL ? plan->file : "?", &plan->errors);
		if (r == -EACCES) {
			snprintf(why, why_bytes,
				"user %s cannot read %s: grant the user or its group read access",
				daemon->user, plan->file);
		} else {
			snprintf(why, why_bytes, "%s has %u error%s; nothing was changed",
				plan->file != NULL ? plan->file : "the file", plan->errors.count,
				plan->errors.count == 1 ? "" : "s");
		}
		return r;
	}
	return apply(daemon, plan->config, why, why_bytes);
}

int weir_daemon_reload(struct weir_daemon *daemon, const char *file, struct weir_reload_plan *plan,
	char *why, size_t why_bytes) {
	char line[1024];
	int r;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)(weir_daemon_now_ns() / 1000));
	r = plan_and_apply(daemon, file, plan, why, why_bytes);
	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR, "reload refused: %s", why);
	} else {
		weir_daemon_log_warnings(daemon->log, plan->file, &plan->errors);
		for (uint32_t i = 0; i < plan->difference.count; i++) {
			weir_log_write(daemon->log, WEIR_LOG_INFO, "reload: %s",
				weir_change_format(
					&plan->difference.change[i], line, sizeof(line)));
		}
		weir_log_write(daemon->log, WEIR_LOG_INFO, "reload of %s: %u change%s", plan->file,
			plan->difference.count, plan->difference.count == 1 ? "" : "s");
		weir_reload_commit(daemon->reload, plan);
		steer(daemon);
	}
	sd_notify(0, "READY=1");
	say_status(daemon);
	return r;
}

static void on_hangup(uv_signal_t *signal, int number) {
	struct weir_daemon *daemon = signal->data;
	struct weir_reload_plan plan;
	char why[WHY_BYTES];

	(void)number;
	weir_daemon_reload(daemon, NULL, &plan, why, sizeof(why));
	weir_reload_plan_fini(&plan);
}

static void on_stop(uv_signal_t *signal, int number) {
	struct weir_daemon *daemon = signal->data;

	weir_log_write(daemon->log, WEIR_LOG_INFO, "stopping (%s); dataplane keeps forwarding",
		number == SIGTERM ? "SIGTERM" : "SIGINT");
	sd_notify(0, "STOPPING=1");
	uv_stop(&daemon->loop);
}

// --- the dataplane ------------------------------------------------------------------------

static void compare_ports(struct weir_daemon *daemon) {
	const struct weir_config *config = weir_reload_config(daemon->reload);
	const struct weir_segment *segment = daemon->segment;

	for (uint32_t i = 0; i < segment->ports || i < config->port_count; i++) {
		const char *runs = i < segment->ports ? segment->header->port[i].name : "nothing";
		const char *file = i < config->port_count ? config->ports[i].name : "nothing";

		if (strncmp(runs, file, WEIR_NAME_BYTES) != 0) {
			weir_log_write(daemon->log, WEIR_LOG_WARN,
				"port %u is %.63s in weir-dataplane and %s in %s: restart "
				"weir-dataplane",
				i, runs, file, weir_reload_file(daemon->reload));
		}
	}
}

// Returns 0 when the tables are bound to the segment, though perhaps not all published yet.
static int bind_tables(
	struct weir_daemon *daemon, struct weir_segment *segment, char *why, size_t why_bytes) {
	int r;

	if (daemon->tables != NULL) {
		r = weir_tables_rebind(daemon->tables, segment);
	} else {
		r = weir_tables_open(segment, &daemon->tables);
	}
	if (r < 0 && (daemon->tables == NULL || weir_tables_segment(daemon->tables) != segment)) {
		snprintf(why, why_bytes, "cannot use the segment of epoch %016llx: %s",
			(unsigned long long)segment->epoch, strerror(-r));
		return r;
	}
	daemon->dirty = r < 0;
	return 0;
}

static int on_attached(void *context, struct weir_segment *segment,
	const struct weir_handover *handover, char *why, size_t why_bytes) {
	struct weir_daemon *daemon = context;
	bool restarted = segment->epoch != daemon->epoch;
	bool adopting =
		restarted && __atomic_load_n(&segment->notes->service_ids, __ATOMIC_ACQUIRE) != 0;
	int r = bind_tables(daemon, segment, why, why_bytes);

	if (r < 0) {
		return r;
	}
	if (restarted && daemon->epoch != 0 && weir_reload_dataplane_started(daemon->reload)) {
		weir_log_write(daemon->log, WEIR_LOG_INFO,
			"weir-dataplane restarted: its new settings are active");
	}
	if (adopting) {
		weir_watch_forget(daemon->watch); // what is checked goes by ids: they may be others
	}
	daemon->segment = segment;
	daemon->handover = handover;
	daemon->epoch = segment->epoch;
	weir_samples_init(&daemon->samples, segment);
	weir_recent_fini(&daemon->recent);
	weir_log_write(daemon->log, WEIR_LOG_INFO,
		"attached to weir-dataplane (pid %u, epoch %016llx, %u worker%s, %u port%s)%s",
		segment->header->dataplane_pid, (unsigned long long)segment->epoch,
		segment->workers, segment->workers == 1 ? "" : "s", segment->ports,
		segment->ports == 1 ? "" : "s", adopting ? ", existing tables adopted" : "");
	why[0] = '\0';
	r = apply(daemon, weir_reload_config(daemon->reload), why, why_bytes);
	if (r < 0) {
		keep_unapplied(daemon, r, why);
	}
	weir_recent_take(&daemon->recent, segment, weir_tables_backend_ids(daemon->tables),
		segment->max_services);
	compare_ports(daemon);
	steer(daemon);
	say_status(daemon);
	return 0;
}

static void detach(struct weir_daemon *daemon) {
	weir_lookups_abandon(daemon->lookups);
	weir_comparison_abandon(&daemon->comparisons, "weir-dataplane has gone");
	uv_timer_stop(&daemon->grace);
	uv_timer_stop(&daemon->collect);
	daemon->grace_since_ns = 0;
	daemon->retry = false;
	daemon->config_why[0] = '\0';
	daemon->publish_why[0] = '\0';
	daemon->segment = NULL;
	daemon->handover = NULL;
	if (daemon->tables != NULL) {
		weir_tables_rebind(daemon->tables, NULL);
	}
}

static void on_lost(void *context) {
	struct weir_daemon *daemon = context;

	detach(daemon);
	say_status(daemon);
}

// --- timers -------------------------------------------------------------------------------

static void tell_refusals(struct weir_daemon *daemon) {
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
			: refusal.kind == WEIR_UPDATE_ROW     ? "headers"
							      : "service table",
			name != NULL ? name : "a removed id",
			refusal.restored ? "the one before is published again"
					 : "it is built again");
	}
}

static void on_tick(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	if (daemon->tables != NULL) {
		weir_tables_clock(daemon->tables, weir_daemon_now_ns() / 1000000);
	}
	if (daemon->segment != NULL) {
		tell_refusals(daemon);
		if (daemon->publish_why[0] != '\0') {
			weir_daemon_publish(daemon);
		} else {
			weir_tables_tick(daemon->tables);
		}
		retry_configuration(daemon);
		if (daemon->publish_why[0] == '\0') { // else it may take new flows still
			daemon->dirty |= weir_drains_tick(
				&daemon->drains, daemon->tables, weir_daemon_now_ns(), daemon->log);
		}
		weir_recent_take_slice(&daemon->recent, daemon->segment,
			weir_tables_backend_ids(daemon->tables), daemon->segment->max_services);
	}
}

static void on_second(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;

	weir_log_limit_tick(daemon->log_limit);
	daemon->dirty |= weir_estimates_second(daemon->estimates, weir_daemon_now_ns());
	daemon->dirty |= weir_outliers_second(daemon->outliers, weir_daemon_now_ns() / NS_PER_MS);
	weir_watch_pace(daemon->watch);
	weir_watch_second(daemon->watch);
	if (daemon->segment != NULL) {
		weir_samples_take(&daemon->samples, daemon->segment);
		if (daemon->steer_due) {
			steer(daemon);
			say_status(daemon);
		}
	}
}

// --- life ---------------------------------------------------------------------------------

static void start_handles(struct weir_daemon *daemon) {
	uv_loop_t *loop = &daemon->loop;

	uv_timer_init(loop, &daemon->tick);
	uv_timer_init(loop, &daemon->second);
	uv_timer_init(loop, &daemon->grace);
	uv_timer_init(loop, &daemon->publish);
	uv_timer_init(loop, &daemon->collect);
	uv_prepare_init(loop, &daemon->before_wait);
	uv_check_init(loop, &daemon->after_wait);
	uv_signal_init(loop, &daemon->hangup);
	uv_signal_init(loop, &daemon->terminate);
	uv_signal_init(loop, &daemon->interrupt);
	daemon->tick.data = daemon->second.data = daemon->grace.data = daemon;
	daemon->publish.data = daemon->collect.data = daemon;
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

int weir_daemon_init(struct weir_daemon *daemon, const char *run_dir, const char *user,
	struct weir_log *log, struct weir_reload *reload) {
	struct weir_dataplane_events events = {
		.attached = on_attached, .lost = on_lost, .context = daemon};
	const char *failed = "loop";
	int r;

	*daemon = (struct weir_daemon){.log = log, .user = user, .reload = reload};
	signal(SIGPIPE, SIG_IGN); // a client that goes away is an error code, not our end
	r = uv_loop_init(&daemon->loop);
	if (r < 0) {
		goto log_failure;
	}
	start_handles(daemon);
	failed = "log";
	r = weir_log_limit_create(log, NULL, &daemon->log_limit);
	if (r < 0) {
		goto close_loop;
	}
	failed = "estimates";
	r = weir_estimates_create(&daemon->estimates);
	if (r < 0) {
		goto close_loop;
	}
	failed = "health checks, agents and neighbours";
	r = weir_watch_create(
		&daemon->loop, log, daemon->estimates, on_changed, daemon, &daemon->watch);
	if (r < 0) {
		goto close_loop;
	}
	failed = "outliers";
	r = weir_outliers_create(log, weir_watch_states(daemon->watch), &daemon->outliers);
	if (r < 0) {
		goto close_loop;
	}
	failed = "flow lookups";
	r = weir_lookups_create(&daemon->loop, &daemon->lookups);
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

void weir_daemon_run(struct weir_daemon *daemon) {
	sd_notify(0, "READY=1");
	say_status(daemon);
	uv_run(&daemon->loop, UV_RUN_DEFAULT);
}

void weir_daemon_fini(struct weir_daemon *daemon) {
	uv_handle_t *handles[] = {(uv_handle_t *)&daemon->tick, (uv_handle_t *)&daemon->second,
		(uv_handle_t *)&daemon->grace, (uv_handle_t *)&daemon->publish,
		(uv_handle_t *)&daemon->collect, (uv_handle_t *)&daemon->before_wait,
		(uv_handle_t *)&daemon->after_wait, (uv_handle_t *)&daemon->hangup,
		(uv_handle_t *)&daemon->terminate, (uv_handle_t *)&daemon->interrupt};

	if (daemon->dirty) {
		weir_daemon_publish(daemon);
	}
	detach(daemon);
	weir_dataplane_link_free(daemon->link);
	weir_lookups_free(daemon->lookups);
	weir_watch_free(daemon->watch);
	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		uv_close(handles[i], NULL);
	}
	uv_run(&daemon->loop, UV_RUN_DEFAULT); // until every handle is closed
	weir_outliers_free(daemon->outliers);
	weir_estimates_free(daemon->estimates);
	weir_recent_fini(&daemon->recent);
	weir_drains_fini(&daemon->drains);
	weir_tables_free(daemon->tables);
	weir_log_limit_free(daemon->log_limit);
	uv_loop_close(&daemon->loop);
}
