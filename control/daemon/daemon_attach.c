// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "config_running.h"
#include "daemon_private.h"
#include "served.h"

#define NS_PER_MS 1000000u

static void compare_ports(struct weir_daemon *daemon) {
	const struct weir_config *config = weir_reload_config(daemon->reload);
	const struct weir_segment *segment = daemon->segment;

	for (uint32_t i = 0; i < segment->ports || i < config->port_count; i++) {
		const char *runs =
			i < segment->ports ? segment->header->port[i].name : "not configured";
		const char *file =
			i < config->port_count ? config->ports[i].name : "not configured";

		if (strncmp(runs, file, WEIR_NAME_BYTES) != 0) {
			weir_log_write(daemon->log, WEIR_LOG_WARN,
				"port %u is %.63s in weir-dataplane, but %s in %s: restart "
				"weir-dataplane",
				i, runs, file, weir_reload_file_in_use(daemon->reload));
		}
	}
}

// Binds the tables to a segment. Returns 0 if they are bound, even if some tables are not published
// yet; otherwise negative errno with one line in why.
static int bind_tables(
	struct weir_daemon *daemon, struct weir_segment *segment, char *why, size_t why_bytes) {
	int r;

	weir_daemon_set_time(daemon);
	if (daemon->tables != NULL) {
		r = weir_tables_rebind(daemon->tables, segment);
	} else {
		r = weir_tables_open(segment, &daemon->tables);
		if (r == 0) {
			weir_tables_find_hops(
				daemon->tables, weir_next_hops_find, daemon->next_hops);
		}
	}
	if (r < 0 && (daemon->tables == NULL || weir_tables_segment(daemon->tables) != segment)) {
		snprintf(why, why_bytes,
			"cannot use the shared memory of weir-dataplane (epoch %016llx): %s",
			(unsigned long long)segment->epoch,
			r == -ENOSPC
				? "its segment.max_services or segment.max_backends is too small "
				  "for the configuration: raise it and restart weir-dataplane, or "
				  "reload a smaller configuration"
				: strerror(-r));
		return r;
	}
	daemon->dirty = r < 0;
	return 0;
}

// Stops the checks. Call if backend ids, to which the checks refer, can have changed.
static void stop_checks(struct weir_daemon *daemon) {
	weir_health_configure(daemon->health, NULL, 0);
	weir_probed_agents_stop(daemon->probed_agents);
	weir_flow_steals_clear(daemon->flow_steals);
}

// Like bind_tables. If the segment has too few ids for the configuration in use, reloads the file,
// once for each segment, and tries again.
static int bind_or_reload(
	struct weir_daemon *daemon, struct weir_segment *segment, char *why, size_t why_bytes) {
	int r = bind_tables(daemon, segment, why, why_bytes), unread;

	if (r != -ENOSPC || daemon->reload_epoch == segment->epoch) {
		return r;
	}
	// The reload uses the limits of this dataplane. on_attached logs which settings differ.
	(void)weir_reload_take_running(
		daemon->reload, daemon->run_dir, segment->epoch, daemon->epoch != 0, &unread);
	if (weir_daemon_reload_once(daemon, segment->epoch) == 0) {
		r = bind_tables(daemon, segment, why, why_bytes);
		stop_checks(daemon); // the ids in the smaller segment differ
	}
	return r;
}

// Stores that this dataplane is served. Begins or continues the recount of flows if an earlier
// weir-control has served another dataplane, whose flows may still be open. (If this process has,
// the tables have begun the recount.)
static void note_served(struct weir_daemon *daemon, uint64_t epoch) {
	const uint64_t now_ms = weir_daemon_now_ns() / NS_PER_MS;
	uint64_t since_ms;
	int r = weir_served_note(daemon->run_dir, epoch, now_ms, &since_ms);

	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"cannot write %s/" WEIR_SERVED_FILE ": %s", daemon->run_dir, strerror(-r));
	}
	weir_daemon_set_time(daemon);
	if (daemon->epoch == 0 && since_ms != 0) {
		weir_tables_recount_since(daemon->tables, now_ms - since_ms);
	}
}

struct weir_links_of weir_daemon_links_of(const struct weir_daemon *daemon) {
	return (struct weir_links_of){
		.segment = daemon->segment, .config = weir_reload_config(daemon->reload)};
}

void weir_daemon_read_links(struct weir_daemon *daemon) {
	weir_links_read(
		&daemon->links, weir_daemon_links_of(daemon), weir_daemon_now_ns() / NS_PER_MS);
}

int weir_daemon_on_attached(void *context, struct weir_segment *segment,
	const struct weir_handover *handover, char *why, size_t why_bytes) {
	struct weir_daemon *daemon = context;
	bool restarted = segment->epoch != daemon->epoch;
	bool adopting =
		restarted && __atomic_load_n(&segment->notes->service_ids, __ATOMIC_ACQUIRE) != 0;
	int r = bind_or_reload(daemon, segment, why, why_bytes);

	if (r < 0) {
		return r;
	}
	if (restarted) {
		weir_daemon_take_running(daemon, segment->epoch);
		daemon->dataplane_started_ms =
			weir_config_running_started_ms(daemon->run_dir, segment->epoch);
		note_served(daemon, segment->epoch);
	}
	if (adopting) {
		stop_checks(daemon);
	}
	daemon->segment = segment;
	daemon->handover = handover;
	weir_mailboxes_bind(&daemon->mailboxes, segment);
	weir_captures_bind(daemon->captures, segment, daemon->tables);
	daemon->epoch = segment->epoch;
	weir_daemon_read_links(daemon);
	weir_samples_init(&daemon->samples, segment);
	weir_stalls_watch(&daemon->stalls, segment, weir_daemon_now_ns());
	weir_steals_configure(daemon->steals, weir_reload_config(daemon->reload)->workers.steal);
	weir_steals_attach(daemon->steals, segment);
	weir_recent_fini(&daemon->recent);
	weir_log_write(daemon->log, WEIR_LOG_INFO,
		"attached to weir-dataplane (pid %u, epoch %016llx, %u worker%s, %u port%s)%s",
		segment->header->dataplane_pid, (unsigned long long)segment->epoch,
		segment->workers, segment->workers == 1 ? "" : "s", segment->ports,
		segment->ports == 1 ? "" : "s", adopting ? ", existing tables loaded" : "");
	// Configure the next hops before the configuration is applied. Applying the configuration
	// looks up the next hops of new backends. The lookup needs the ports, and the next hops in
	// the existing tables. weir_daemon_apply configures next hops again.
	(void)weir_next_hops_configure(
		daemon->next_hops, daemon->tables, weir_reload_config(daemon->reload));
	why[0] = '\0';
	r = weir_daemon_apply(daemon, weir_reload_config(daemon->reload), why, why_bytes);
	if (r < 0) {
		weir_daemon_keep_unapplied(daemon, r, why);
	} else if (daemon->file_why[0] != '\0') {
		(void)weir_daemon_reload_once(daemon, segment->epoch);
	}
	weir_recent_take(&daemon->recent, segment, weir_tables_backend_ids(daemon->tables),
		segment->max_services);
	compare_ports(daemon);
	weir_daemon_steer(daemon);
	weir_daemon_notify_status(daemon);
	return 0;
}

void weir_daemon_detach(struct weir_daemon *daemon) {
	weir_lookups_abandon(daemon->lookups);
	weir_flow_lists_abandon(daemon->flow_lists);
	weir_captures_bind(daemon->captures, NULL, NULL);
	weir_steals_detach(daemon->steals);
	weir_flow_steals_abandon(daemon->flow_steals);
	weir_sheds_abandon(daemon->sheds, "weir-dataplane exited, or weir-control is stopping");
	weir_comparison_abandon(&daemon->comparisons, "weir-dataplane exited");
	uv_timer_stop(&daemon->grace);
	uv_timer_stop(&daemon->collect);
	daemon->grace_since_ns = 0;
	daemon->applied = false;
	daemon->retry = false;
	daemon->follow_ns = 0;
	daemon->config_why[0] = '\0';
	daemon->publish_why[0] = '\0';
	daemon->build_why[0] = '\0';
	daemon->segment = NULL;
	daemon->handover = NULL;
	weir_stalls_watch(&daemon->stalls, NULL, 0);
	weir_mailboxes_bind(&daemon->mailboxes, NULL);
	if (daemon->tables != NULL) {
		weir_tables_rebind(daemon->tables, NULL);
	}
}

void weir_daemon_on_lost(void *context) {
	struct weir_daemon *daemon = context;

	weir_daemon_detach(daemon);
	weir_daemon_notify_status(daemon);
}

const char *weir_daemon_unattached(const struct weir_daemon *daemon) {
	return daemon->segment == NULL && daemon->link != NULL
		       ? weir_dataplane_link_why(daemon->link)
		       : NULL;
}

static bool program_is_replaced(void) {
	static const char gone[] = " (deleted)";
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	return n >= (ssize_t)sizeof(gone) - 1 &&
	       memcmp(path + n - (sizeof(gone) - 1), gone, sizeof(gone) - 1) == 0;
}

// Called when attaching to a running dataplane has failed. Ends this process if it does not support
// the layout of the segment, and an upgrade has replaced its program file, so that the newly
// installed weir-control is started.
void weir_daemon_on_refused(void *context, int error) {
	struct weir_daemon *daemon = context;

	if (error == -EPROTO && program_is_replaced()) {
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"the program weir-control was replaced on disk: weir-control exits, so "
			"that the new version is started");
		sd_notify(0, "STOPPING=1");
		uv_stop(&daemon->loop);
	}
}
