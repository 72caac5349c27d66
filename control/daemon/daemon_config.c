// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "change_costs.h"
#include "change_renames.h"
#include "change_vips.h"
#include "checks.h"
#include "daemon_private.h"
#include "plural.h"
#include "steer_map.h"

#define COLLECT_MS 50
#define RETRY_NS 1000000000ull // time until a retry after memory or descriptors were exhausted
#define REASON_BYTES 320
#define LEAVING_NS 60000000000ull // time between checks for expired keys in the VIP maps

static int update_maps(struct weir_daemon *daemon, const struct weir_config *config,
	struct weir_steer_map_changes *changes, char *why, size_t why_bytes) {
	return weir_steer_map_update(daemon->handover->vip_map_fd, daemon->handover->vip_maps,
		config, (uint32_t)(weir_daemon_now_ns() / 1000000000), changes, why, why_bytes);
}

// Updates the VIP maps for the binds of the configuration, and for removed binds that are still in
// the service table, which are added as one more service. removed: number of removed binds. Returns
// 0 or negative errno, for example if there are too many binds.
static int update_maps_with_removed(struct weir_daemon *daemon, uint32_t removed,
	struct weir_steer_map_changes *changes, char *why, size_t why_bytes) {
	struct weir_config config = *weir_reload_config(daemon->reload);
	struct weir_config_service *services = calloc(config.service_count + 1, sizeof(*services));
	struct weir_config_bind *binds = calloc(removed, sizeof(*binds));
	int r = -ENOMEM;

	if (services != NULL && binds != NULL) {
		memcpy(services, config.services, config.service_count * sizeof(*services));
		services[config.service_count++] = (struct weir_config_service){.binds = binds,
			.bind_count = weir_tables_removed_binds(
				daemon->tables, WEIR_SERVICE_NONE, binds, removed)};
		config.services = services;
		r = update_maps(daemon, &config, changes, why, why_bytes);
	}
	free(binds);
	free(services);
	return r;
}

// Update the VIP maps. Returns 0 or negative errno (logged; the caller retries).
static int steer(struct weir_daemon *daemon) {
	uint32_t removed = daemon->tables != NULL ? weir_tables_removed_count(daemon->tables) : 0;
	const struct weir_handover *handover = daemon->handover;
	struct weir_steer_map_changes changes;
	char why[256] = "", text[sizeof(daemon->steer_why)];
	int r;

	daemon->steered_removed = removed;
	if (handover->vip_maps == 0) {
		daemon->steer_why[0] = '\0';
		daemon->leaving_ns = 0;
		return 0;
	}
	r = removed > 0 ? update_maps_with_removed(daemon, removed, &changes, why, sizeof(why)) : 0;
	// If there are no removed binds, or if they could not be added, update the maps without
	// them. Packets of their open TCP connections then still reach the dataplane, if the maps
	// have room for leaving ports (steer_map.h).
	if (removed == 0 || r < 0) {
		why[0] = '\0';
		r = update_maps(
			daemon, weir_reload_config(daemon->reload), &changes, why, sizeof(why));
	}
	if (r < 0) {
		if (why[0] == '\0') {
			snprintf(why, sizeof(why), "%s", strerror(-r));
		}
		snprintf(text, sizeof(text), "XDP VIP maps: %s", why);
		if (strcmp(text, daemon->steer_why) != 0) {
			weir_log_write(daemon->log, WEIR_LOG_ERROR, "%s", text);
		}
		memcpy(daemon->steer_why, text, sizeof(text));
		return r;
	}
	daemon->steer_why[0] = '\0';
	daemon->leaving_ns = changes.leaving > 0 ? weir_daemon_now_ns() + LEAVING_NS : 0;
	if (changes.added + changes.deleted > 0) {
		weir_log_write(daemon->log, WEIR_LOG_INFO,
			"XDP VIP maps: entries added: %u, deleted: %u, in total: %u, of which %u "
			"for open connections of removed binds",
			changes.added, changes.deleted, changes.keys + changes.leaving,
			changes.leaving);
	}
	return 0;
}

void weir_daemon_steer(struct weir_daemon *daemon) {
	if (daemon->handover != NULL) {
		daemon->steer_due = steer(daemon) < 0;
	}
}

static void collect_due(uv_timer_t *timer) {
	struct weir_daemon *daemon = timer->data;
	bool more = weir_estimates_collect(daemon->estimates, weir_daemon_now_ns());

	// Use at least 1 ms: with 0 ms, libuv would run this timer again before it polls any
	// descriptor.
	uv_timer_start(timer, collect_due, more ? 1 : COLLECT_MS, COLLECT_MS);
}

// Start and stop estimates as the services need them. Returns 0 or -ENOMEM (logged).
static int update_estimates(struct weir_daemon *daemon, const struct weir_config *config) {
	int r = weir_estimates_follow(
		daemon->estimates, daemon->tables, config, weir_daemon_now_ns());

	weir_drains_follow(&daemon->drains, daemon->tables);
	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"out of memory: service times and weights of some backends are unknown");
	}
	weir_probed_agents_update(daemon->probed_agents);
	if (daemon->segment == NULL || !weir_estimates_measures(daemon->estimates)) {
		uv_timer_stop(&daemon->collect);
	} else if (!uv_is_active((uv_handle_t *)&daemon->collect)) {
		uv_timer_start(&daemon->collect, collect_due, COLLECT_MS, COLLECT_MS);
	}
	return r;
}

void weir_daemon_update_estimates(struct weir_daemon *daemon) {
	(void)update_estimates(daemon, weir_reload_config(daemon->reload));
}

// Returns whether a retry can succeed: the error means that memory or descriptors are exhausted.
static bool may_retry(int error) {
	return error == -ENOMEM || error == -ENOBUFS || error == -EMFILE || error == -ENFILE ||
	       error == -EAGAIN;
}

// Configures health checks and the modules that they need. The order of the calls matters, because
// each call uses the results of the calls before it. Returns 0 or negative errno.
static int configure_checks(struct weir_daemon *daemon, const struct weir_config *config) {
	int r = weir_states_configure(daemon->states, daemon->tables, config);

	if (r == 0) {
		r = weir_reports_configure(daemon->reports, daemon->tables, config);
	}
	if (r == 0) {
		r = weir_checks_configure(daemon->health, daemon->states, daemon->tables, config);
	}
	return r < 0 ? r
		     : weir_probed_agents_configure(daemon->probed_agents, daemon->tables, config);
}

// Configure checks, agents and next hops of backends. Returns 0 or negative errno (logged).
static int configure_backends(struct weir_daemon *daemon, const struct weir_config *config) {
	int checks = configure_checks(daemon, config);
	int next_hops = weir_next_hops_configure(daemon->next_hops, daemon->tables, config);

	daemon->steer_why[0] = '\0'; // a failure to update the VIP maps is logged again
	if (checks < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR, "cannot update the health checks: %s",
			strerror(-checks));
	}
	if (next_hops < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR, "cannot update the next hops: %s",
			strerror(-next_hops));
	}
	return checks < 0 ? checks : next_hops;
}

// Configures all modules that use the configuration, except the tables, canaries and sheds. If a
// module fails, the remaining modules are still configured, except modules that need its results.
// If memory or descriptors were exhausted, a retry configures all these modules again.
static void configure_all(struct weir_daemon *daemon, const struct weir_config *config) {
	bool again = may_retry(configure_backends(daemon, config));
	int r, rejections;

	weir_steals_configure(daemon->steals, config->workers.steal);
	if (daemon->notify != NULL) {
		weir_notify_configure(daemon->notify, &config->notify);
	}
	again |= may_retry(update_estimates(daemon, config));
	r = weir_outliers_follow(daemon->outliers, daemon->tables, config);
	rejections = weir_rejections_follow(daemon->rejections, daemon->tables, config);
	r = r < 0 ? r : rejections;
	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"out of memory: backends are not ejected until a retry succeeds");
	}
	again |= may_retry(r);
	r = weir_flow_steals_configure(daemon->flow_steals, daemon->tables, config);
	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"out of memory: connections are not moved to other backends until a retry "
			"succeeds");
	}
	again |= may_retry(r);
	daemon->follow_ns = again ? weir_daemon_now_ns() + RETRY_NS : 0;
}

void weir_daemon_configure_again(struct weir_daemon *daemon) {
	if (daemon->follow_ns != 0 && weir_daemon_now_ns() >= daemon->follow_ns) {
		configure_all(daemon, weir_reload_config(daemon->reload));
		daemon->dirty = true;
	}
}

static uint64_t publications(const struct weir_daemon *daemon) {
	return daemon->segment != NULL ? weir_counter_read(&daemon->segment->notes->publications)
				       : 0;
}

// Stores how many services and backends of the configuration have no id yet, and logs this the
// first time. An id becomes free when the flows of a removed service or backend have ended.
static void note_waiting(struct weir_daemon *daemon) {
	uint32_t waiting = weir_tables_waiting(daemon->tables, &daemon->retry);
	char why[sizeof(daemon->config_why)] = "";

	daemon->retry_ns = 0;
	if (waiting > 0) {
		daemon->retry = true;
		snprintf(why, sizeof(why),
			"%u service%s or backend%s wait%s until the flows of removed services or "
			"backends end (limits: segment.max_services, segment.max_backends)",
			waiting, weir_plural(waiting), weir_plural(waiting),
			waiting == 1 ? "s" : "");
		if (daemon->config_why[0] == '\0') {
			weir_log_write(daemon->log, WEIR_LOG_WARN,
				"part of the configuration is not published yet: %s", why);
		}
	}
	memcpy(daemon->config_why, why, sizeof(why));
}

int weir_daemon_apply(
	struct weir_daemon *daemon, const struct weir_config *config, char *why, size_t why_bytes) {
	uint64_t started = weir_daemon_now_ns();
	uint64_t before = publications(daemon);
	int r;

	// the configuration is published when the first dataplane is attached
	if (daemon->tables == NULL) {
		weir_probed_agents_read_keys(daemon->probed_agents, config);
		return 0;
	}
	weir_daemon_set_time(daemon);
	r = weir_tables_apply(daemon->tables, config, why, why_bytes);
	if (r < 0) {
		if (why[0] == '\0') {
			snprintf(why, why_bytes, "%s", strerror(-r));
		}
		return r;
	}
	daemon->applied = daemon->segment != NULL;
	note_waiting(daemon);
	if (publications(daemon) != before) {
		weir_daemon_record_publication(daemon, started);
	}
	configure_all(daemon, config);
	weir_canaries_follow(daemon->canaries, daemon->tables);
	weir_sheds_follow(daemon->sheds, daemon->tables);
	weir_daemon_publish(daemon);
	return 0;
}

void weir_daemon_store(struct weir_daemon *daemon) {
	const bool failed_before = daemon->store_failed;
	int r;

	if (!daemon->applied) {
		return;
	}
	r = weir_reload_store(daemon->reload, daemon->run_dir);
	daemon->store_failed = r < 0;
	if (r < 0 && !failed_before) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"cannot store the configuration in use in %s: %s; weir-control retries "
			"every second",
			daemon->run_dir, strerror(-r));
	}
}

// Returns whether a later attempt to apply the same configuration can succeed.
static bool may_apply_later(int error) {
	return error == -EBUSY || error == -ENOMEM;
}

// Called at the start of this process if its configuration does not fit the running dataplane.
// Applies the configuration that an earlier process has applied last. Returns 0 or negative errno.
static int apply_stored(struct weir_daemon *daemon, const char *why) {
	const char *file = weir_reload_file_in_use(daemon->reload);
	struct weir_reload_plan plan;
	char reason[REASON_BYTES] = "";
	int r = weir_reload_plan_stored(daemon->reload, daemon->run_dir, &plan);

	if (r == 0) {
		r = weir_daemon_apply(daemon, plan.config, reason, sizeof(reason));
	}
	if (r == 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"%s does not fit the running weir-dataplane: %s; the configuration that "
			"was in use before weir-control was started stays in use",
			file, why);
		snprintf(daemon->file_why, sizeof(daemon->file_why),
			"%s does not fit the running weir-dataplane: %s; the previous "
			"configuration is in use",
			file, why);
		daemon->reload_refused = true;
		weir_reload_commit(daemon->reload, &plan);
	} else if (r != -ENOENT && !may_apply_later(r)) {
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"cannot use the stored configuration, %s/" WEIR_RELOAD_STORED ": %s",
			daemon->run_dir, reason[0] != '\0' ? reason : strerror(-r));
	}
	weir_reload_plan_fini(&plan);
	return r;
}

int weir_daemon_reload_file(struct weir_daemon *daemon, const struct weir_audit_who *who) {
	struct weir_reload_plan plan;
	char why[REASON_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
	struct weir_audit_event event = {
		.who = *who, .command = "config.reload", .before = "", .after = after};
	int r = weir_daemon_reload(daemon, NULL, &plan, why, sizeof(why));

	if (r < 0) {
		event.code = "refused";
		event.after = "";
		event.why = why;
	} else {
		weir_audit_difference(&plan.difference, after, sizeof(after));
	}
	event.object = weir_reload_file(daemon->reload);
	weir_audit_add(daemon->audit, &event);
	weir_reload_plan_fini(&plan);
	return r;
}

int weir_daemon_reload_once(struct weir_daemon *daemon, uint64_t epoch) {
	const struct weir_audit_who self = {
		.known = true, .uid = geteuid(), .gid = getegid(), .pid = getpid()};

	if (daemon->reload_epoch == epoch) {
		return -EALREADY;
	}
	daemon->reload_epoch = epoch;
	return weir_daemon_reload_file(daemon, &self);
}

// Replaces a configuration that does not fit the attached dataplane by one that fits. Returns 0 or
// negative errno.
static int replace_unfit(struct weir_daemon *daemon, const char *why) {
	int r = weir_tables_config(daemon->tables) == NULL
			? apply_stored(daemon, why)
			: weir_daemon_reload_once(daemon, daemon->epoch);

	if (r == 0) {
		weir_daemon_steer(daemon);
		weir_daemon_notify_status(daemon);
	}
	return r;
}

void weir_daemon_keep_unapplied(struct weir_daemon *daemon, int error, const char *why) {
	bool is_new = strcmp(why, daemon->config_why) != 0;

	if (!may_apply_later(error)) {
		error = replace_unfit(daemon, why);
		if (error == 0) {
			return;
		}
	}
	daemon->retry = may_apply_later(error);
	daemon->retry_ns = error == -ENOMEM ? weir_daemon_now_ns() + RETRY_NS : 0;
	snprintf(daemon->config_why, sizeof(daemon->config_why), "%s", why);
	if (is_new) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			daemon->retry ? "the configuration is not published yet: %s"
				      : "the configuration does not fit the running "
					"weir-dataplane: %s",
			why);
	}
	weir_daemon_update_estimates(daemon);
}

void weir_daemon_retry(struct weir_daemon *daemon) {
	char why[sizeof(daemon->config_why)] = "";
	bool helps;
	int r;

	if (!daemon->retry || weir_daemon_now_ns() < daemon->retry_ns ||
		(weir_tables_waiting(daemon->tables, &helps) > 0
				? !helps
				: weir_tables_wait(daemon->tables))) {
		return;
	}
	r = weir_daemon_apply(daemon, weir_reload_config(daemon->reload), why, sizeof(why));
	if (r == 0 && daemon->retry) {
		return; // some services or backends still wait for an id
	}
	if (r == 0) {
		weir_log_write(daemon->log, WEIR_LOG_INFO,
			"the whole configuration is now published to weir-dataplane");
		weir_daemon_steer(daemon);
		weir_daemon_notify_status(daemon);
		if (daemon->file_why[0] != '\0') {
			(void)weir_daemon_reload_once(daemon, daemon->epoch);
		}
	} else if (r != -EBUSY) {
		weir_daemon_keep_unapplied(daemon, r, why);
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

// Logs the changes that wait for a restart of the dataplane. Logs nothing if out of memory.
static void log_waiting(struct weir_daemon *daemon) {
	struct weir_difference waiting;
	char line[1024];

	if (weir_reload_waiting(daemon->reload, &waiting) < 0) {
		return;
	}
	for (uint32_t i = 0; i < waiting.count; i++) {
		weir_log_write(daemon->log, WEIR_LOG_WARN, "%s",
			weir_change_format(&waiting.change[i], line, sizeof(line)));
	}
	weir_difference_fini(&waiting);
}

void weir_daemon_take_running(struct weir_daemon *daemon, uint64_t epoch) {
	const bool waited = weir_reload_waits(daemon->reload);
	int unread;
	int r = weir_reload_take_running(
		daemon->reload, daemon->run_dir, epoch, daemon->epoch != 0, &unread);

	if (unread < 0 && unread != -ENOENT) { // no file: weir-dataplane is an earlier version
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"cannot read the running configuration of weir-dataplane in %s: %s; "
			"assuming the configuration in %s",
			daemon->run_dir, strerror(-unread),
			weir_reload_file_in_use(daemon->reload));
	}
	if (r < 0) {
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"cannot load the running settings of weir-dataplane: %s", strerror(-r));
		return;
	}
	log_waiting(daemon);
	if (waited && !weir_reload_waits(daemon->reload)) {
		weir_log_write(daemon->log, WEIR_LOG_INFO,
			"weir-dataplane restarted: its new settings are active");
	}
}

// Adds the number of open flows to the warning that a change of hash_seed breaks flows.
static void count_flows_of_seed(
	const struct weir_daemon *daemon, struct weir_config_errors *errors) {
	for (uint32_t i = 0; daemon->segment != NULL && i < errors->warning_count; i++) {
		struct weir_config_error *warning = &errors->warning[i];
		size_t used = strlen(warning->reason);

		if (strcmp(warning->path, "instance.hash_seed") == 0) {
			snprintf(warning->reason + used, sizeof(warning->reason) - used,
				" (open flows now: %llu)",
				(unsigned long long)weir_restart_cost(
					daemon->tables, daemon->segment)
					.open);
		}
	}
}

int weir_daemon_plan(struct weir_daemon *daemon, const char *file, struct weir_reload_plan *plan) {
	int r = weir_reload_plan(daemon->reload, file, plan);
	const struct weir_change_costs_of of = {.tables = daemon->tables,
		.segment = daemon->segment,
		.from = weir_reload_config(daemon->reload),
		.to = plan->config,
		.keeping_canary = weir_canaries_keeping,
		.canaries = daemon->canaries};

	count_flows_of_seed(daemon, &plan->errors);
	// If out of memory, the costs of some changes are missing.
	if (r == 0 && (weir_change_costs(&of, &plan->difference) < 0 ||
			      weir_change_renames_warn(&of, &plan->difference, &plan->errors) < 0 ||
			      weir_change_vips_warn(of.from, of.to, &plan->errors) < 0)) {
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"out of memory: the effects of some changes on flows are not known");
	}
	if (r == 0 && weir_reload_plan_taken_back(daemon->reload, plan) < 0) {
		weir_log_write(daemon->log, WEIR_LOG_WARN,
			"out of memory: the pending changes that the reload reverts are not "
			"known");
	}
	return r;
}

static int plan_and_apply(struct weir_daemon *daemon, const char *file,
	struct weir_reload_plan *plan, char *why, size_t why_bytes) {
	int r = weir_daemon_plan(daemon, file, plan);
	char reason[REASON_BYTES] = "";

	why[0] = '\0';
	if (r < 0) {
		log_errors(daemon->log, plan->file != NULL ? plan->file : "?", &plan->errors);
		snprintf(why, why_bytes, "%s; nothing was changed",
			weir_reload_explain(plan, r, daemon->user, reason, sizeof(reason)));
		return r;
	}
	r = weir_daemon_apply(daemon, plan->config, reason, sizeof(reason));
	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", plan->file, reason);
	}
	return r;
}

int weir_daemon_reload(struct weir_daemon *daemon, const char *file, struct weir_reload_plan *plan,
	char *why, size_t why_bytes) {
	char line[1024];
	int r;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
		(unsigned long long)(weir_daemon_now_ns() / 1000));
	r = plan_and_apply(daemon, file, plan, why, why_bytes);
	daemon->reload_refused = r < 0;
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
		if (strcmp(plan->file, weir_reload_file(daemon->reload)) != 0) {
			weir_log_write(daemon->log, WEIR_LOG_WARN,
				"%s is in use until weir-control restarts or reloads without a "
				"file; weir-control then reads %s",
				plan->file, weir_reload_file(daemon->reload));
		}
		daemon->reloaded_ms = weir_daemon_wall_ms();
		daemon->file_why[0] = '\0';
		weir_reload_commit(daemon->reload, plan);
		weir_daemon_store(daemon);
		weir_daemon_steer(daemon);
	}
	sd_notify(0, "READY=1");
	weir_daemon_notify_status(daemon);
	return r;
}
