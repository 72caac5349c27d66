// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change_costs.h"
#include "change_renames.h"
#include "change_vips.h"
#include "checks.h"
#include "daemon_private.h"
#include "plural.h"
#include "steer_map.h"

#define COLLECT_MS 50
#define RETRY_NS 1000000000ull // time until a retry after memory or descriptors were exhausted
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
			changes.added, changes.deleted, changes.total, changes.leaving);
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

// Reads the settings that wait for a restart of the dataplane again, because the file may have been
// edited before the dataplane was started. If the file has errors, the settings stay.
static void read_waiting_again(struct weir_daemon *daemon) {
	const char *file = weir_reload_file(daemon->reload);
	struct weir_reload_plan plan;

	if (!weir_reload_waits(daemon->reload) ||
		strcmp(weir_reload_file_in_use(daemon->reload), file) != 0) {
		return;
	}
	if (weir_reload_plan(daemon->reload, file, &plan) == 0) {
		weir_reload_take_waiting(daemon->reload, &plan);
	}
	weir_reload_plan_fini(&plan);
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
	if (unread == 0) {
		read_waiting_again(daemon);
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
			const struct weir_restart_cost cost =
				weir_restart_cost(daemon->tables, daemon->segment);

			snprintf(warning->reason + used, sizeof(warning->reason) - used,
				" (open flows %s: %llu)", cost.recount ? "counted so far" : "now",
				(unsigned long long)cost.open);
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
