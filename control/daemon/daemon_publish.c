// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "checks.h"
#include "clocks.h"
#include "daemon_private.h"
#include "takeovers.h"

#define GRACE_LOOK_MS 1
#define PUBLISH_SHARE 4
#define NS_PER_MS 1000000u
#define BUILD_SLICE_NS 500000 // time for building selections, per iteration of the loop
#define BUILD_AGAIN_NS 100000000 // time until a retry after running out of memory
// Maximum time for which a publication busy-waits for the end of its grace period: polling workers
// complete a grace period within microseconds.
#define GRACE_SPIN_NS 20000

uint64_t weir_daemon_now_ns(void) {
	return weir_monotonic_ns();
}

uint64_t weir_daemon_wall_ms(void) {
	return weir_wall_ms();
}

// Sets the current time in the tables. Call this function in every tick, and before
// weir_tables_publish and weir_tables_apply, because these can run before the next tick after a
// pause of the process.
void weir_daemon_set_time(struct weir_daemon *daemon) {
	if (daemon->tables != NULL) {
		weir_tables_clock(daemon->tables, weir_daemon_now_ns() / NS_PER_MS);
	}
}

void weir_daemon_notify_status(const struct weir_daemon *daemon) {
	const struct weir_config *config = weir_reload_config(daemon->reload);

	sd_notifyf(0, "STATUS=%u service%s, %s%s", config->service_count,
		config->service_count == 1 ? "" : "s",
		daemon->segment == NULL     ? "waiting for weir-dataplane"
		: daemon->stalls.count == 0 ? "dataplane attached"
					    : "dataplane stalled",
		weir_daemon_unpublished(daemon) != NULL ? ", changes not published yet" : "");
}

static void start_grace(struct weir_daemon *daemon) {
	daemon->grace_since_ns = daemon->published_ns;
	daemon->grace_mark = weir_writer_mark(weir_tables_writer(daemon->tables));
}

static bool grace_is_over(struct weir_daemon *daemon) {
	if (!weir_writer_passed(weir_tables_writer(daemon->tables), daemon->grace_mark)) {
		return false;
	}
	daemon->last_grace_us = (weir_daemon_now_ns() - daemon->grace_since_ns) / 1000;
	daemon->grace_us += daemon->last_grace_us;
	daemon->graces++;
	if (daemon->published_ns > daemon->grace_since_ns) {
		// Start another grace period, for the publications after the start of the last
		// grace period.
		start_grace(daemon);
		return false;
	}
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

void weir_daemon_record_publication(struct weir_daemon *daemon, uint64_t started_ns) {
	uint64_t now = weir_daemon_now_ns();

	daemon->last_publish_us = (now - started_ns) / 1000;
	daemon->publish_us += daemon->last_publish_us;
	daemon->published_ns = now;
	if (daemon->grace_since_ns != 0) {
		return; // a grace period is being measured already
	}
	start_grace(daemon);
	while (weir_daemon_now_ns() - now < GRACE_SPIN_NS) {
		if (grace_is_over(daemon)) {
			return;
		}
	}
	uv_timer_start(&daemon->grace, grace_due, GRACE_LOOK_MS, GRACE_LOOK_MS);
}

const char *weir_daemon_unfit(const struct weir_daemon *daemon) {
	return daemon->segment != NULL && !daemon->retry && daemon->config_why[0] != '\0'
		       ? daemon->config_why
		       : NULL;
}

const char *weir_daemon_unpublished(const struct weir_daemon *daemon) {
	if (daemon->segment == NULL) {
		return NULL;
	}
	return daemon->config_why[0] != '\0'    ? daemon->config_why
	       : daemon->publish_why[0] != '\0' ? daemon->publish_why
	       : daemon->build_why[0] != '\0'   ? daemon->build_why
	       : daemon->steer_why[0] != '\0'   ? daemon->steer_why
						: NULL;
}

// Logs a failure if it differs from the last failure. why: publish_why or build_why of the daemon;
// set to the new failure.
static void note_failure(struct weir_daemon *daemon, char why[WEIR_DAEMON_WHY_BYTES], int error) {
	char now[WEIR_DAEMON_WHY_BYTES];

	snprintf(now, sizeof(now), "%s",
		error == -ENOSPC  ? "the memory for tables is full (segment.heap_bytes)"
		: error == -EBUSY ? "the memory for tables is full of replaced tables that a "
				    "worker still uses"
				  : strerror(-error));
	if (strcmp(now, why) != 0) {
		memcpy(why, now, sizeof(now));
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"cannot publish new tables: %s; the previous tables stay in use", why);
		weir_daemon_notify_status(daemon);
	}
}

static void note_success(struct weir_daemon *daemon, char why[WEIR_DAEMON_WHY_BYTES]) {
	if (why[0] == '\0') {
		return;
	}
	why[0] = '\0';
	if (daemon->publish_why[0] == '\0' && daemon->build_why[0] == '\0') {
		weir_log_write(daemon->log, WEIR_LOG_INFO, "all changes are published");
	}
	weir_daemon_notify_status(daemon);
}

int weir_daemon_publish(struct weir_daemon *daemon) {
	uint64_t started = weir_daemon_now_ns();
	int r;

	weir_daemon_set_time(daemon);
	if (daemon->segment == NULL) {
		// When a dataplane is attached, on_attached publishes everything again.
		daemon->dirty = daemon->tables != NULL && weir_tables_publish(daemon->tables) < 0;
		weir_checks_pace(daemon->health, daemon->tables);
		weir_takeovers_note(daemon->log, daemon->states, daemon->tables);
		return -ENOTCONN;
	}
	r = weir_tables_publish(daemon->tables);
	daemon->dirty = r < 0;
	weir_takeovers_note(daemon->log, daemon->states, daemon->tables);
	if (r < 0) {
		note_failure(daemon, daemon->publish_why, r);
		return r;
	}
	note_success(daemon, daemon->publish_why);
	if (r > 0) {
		weir_daemon_record_publication(daemon, started);
	}
	if (weir_tables_far_changed(daemon->tables)) {
		weir_checks_pace(daemon->health, daemon->tables);
	}
	return weir_tables_config(daemon->tables) != NULL ? 0 : -EAGAIN;
}

static void publish_due(uv_timer_t *timer) {
	(void)timer; // wakes the loop, which publishes in after_wait or before_wait
}

// Limits publications to about 1 / PUBLISH_SHARE of the time: if many backends fail, many
// iterations of the loop have changes.
void weir_daemon_publish_dirty(struct weir_daemon *daemon) {
	uint64_t now, next;

	if (!daemon->dirty || daemon->publish_why[0] != '\0') {
		return; // failures are retried every tick
	}
	now = weir_daemon_now_ns();
	next = daemon->published_ns + (PUBLISH_SHARE - 1) * daemon->last_publish_us * 1000;
	if (now >= next) {
		weir_daemon_publish(daemon);
	} else if (!uv_is_active((uv_handle_t *)&daemon->publish)) {
		uv_timer_start(&daemon->publish, publish_due, (next - now) / 1000000 + 1, 0);
	}
}

static void build_due(uv_timer_t *timer) {
	(void)timer; // wakes the loop, which then builds
}

void weir_daemon_build(struct weir_daemon *daemon) {
	uint64_t began = weir_daemon_now_ns(), now = began;
	int r = 1;

	if (daemon->segment == NULL) {
		return;
	}
	if (!weir_tables_is_stale(daemon->tables)) {
		note_success(daemon, daemon->build_why);
		return;
	}
	if (began >= daemon->build_next_ns) {
		while (r > 0 && now - began < BUILD_SLICE_NS) {
			r = weir_tables_build(daemon->tables);
			now = weir_daemon_now_ns();
		}
		daemon->build_next_ns = now + (r < 0 ? BUILD_AGAIN_NS : now - began);
	}
	if (r < 0) {
		note_failure(daemon, daemon->build_why, r);
	} else if (r == 0) {
		note_success(daemon, daemon->build_why);
	}
	if (r != 0 && !uv_is_active((uv_handle_t *)&daemon->build)) {
		uv_timer_start(&daemon->build, build_due,
			now < daemon->build_next_ns ? (daemon->build_next_ns - now) / 1000000 + 1
						    : 1,
			0);
	}
}
