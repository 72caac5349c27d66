// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "daemon_private.h"

#define RETRY_NS 1000000000ull // time until a retry after memory was exhausted
#define THEN_RELOADS "weir-control reloads the file" // because weir_daemon.file_why is set

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

// Returns the limits of the dataplane: of the running one, or of the last one if none is attached.
static struct weir_config_segment limits_of(
	const struct weir_daemon *daemon, const struct weir_reload_plan *plan) {
	const struct weir_segment *segment = daemon->segment;

	return segment == NULL ? plan->config->segment
			       : (struct weir_config_segment){.max_services = segment->max_services,
					 .max_backends = segment->max_backends,
					 .heap_bytes = segment->heap_bytes};
}

// Returns whether a configuration that does not fit needs more ids; false = more memory.
static bool lacks_ids(const struct weir_daemon *daemon, const struct weir_config *config) {
	char why[WEIR_DAEMON_REASON_BYTES];

	return weir_tables_check_ids(daemon->tables, config, why, sizeof(why)) == -ENOSPC;
}

// Adds to the end of why, the reason why the configuration of a plan does not fit, whether a
// restart of weir-dataplane helps: its file, from which weir-dataplane starts too, has larger
// limits. ids: the configuration needs more ids; false = more memory. then: what follows the
// restart.
static void add_remedy(const struct weir_daemon *daemon, const struct weir_reload_plan *plan,
	bool ids, const char *then, char *why, size_t why_bytes) {
	const struct weir_config *file = plan->as_read != NULL ? plan->as_read : plan->config;
	const struct weir_config_segment limits = limits_of(daemon, plan);
	const size_t used = strlen(why);

	if (strcmp(plan->file, weir_reload_file(daemon->reload)) == 0 &&
		(ids ? file->segment.max_services > limits.max_services ||
					file->segment.max_backends > limits.max_backends
		     : file->segment.heap_bytes > limits.heap_bytes)) {
		snprintf(why + used, why_bytes - used,
			"; the file has larger limits: restart weir-dataplane, then %s", then);
	}
}

// Stores that the file is not in use, and why.
static void note_unfit(struct weir_daemon *daemon, const char *file, const char *why) {
	snprintf(daemon->file_why, sizeof(daemon->file_why),
		"%s does not fit %s: %s; the previous configuration is in use", file,
		daemon->segment != NULL ? "the running weir-dataplane" : "the last weir-dataplane",
		why);
}

// Called when a reload was refused for lack of ids or memory. Adds to `reason` whether a restart of
// weir-dataplane helps. weir-control then reloads the file when a dataplane is started.
static void note_too_large(struct weir_daemon *daemon, const struct weir_reload_plan *plan,
	char *reason, size_t reason_bytes) {
	add_remedy(
		daemon, plan, lacks_ids(daemon, plan->config), THEN_RELOADS, reason, reason_bytes);
	if (strcmp(plan->file, weir_reload_file(daemon->reload)) == 0) {
		note_unfit(daemon, plan->file, reason);
		// without a segment, the epoch is that of an earlier dataplane
		if (daemon->segment != NULL) {
			daemon->reload_epoch = daemon->epoch;
		}
	}
}

// Called when a reload was refused because of the file, with the reason. A file that did not fit
// has other faults now.
static void note_faulty(
	struct weir_daemon *daemon, const struct weir_reload_plan *plan, const char *reason) {
	if (daemon->file_why[0] != '\0' && plan->file != NULL &&
		strcmp(plan->file, weir_reload_file(daemon->reload)) == 0) {
		snprintf(daemon->file_why, sizeof(daemon->file_why),
			"%s; the previous configuration is in use", reason);
	}
}

void weir_daemon_warn_too_large(struct weir_daemon *daemon, struct weir_reload_plan *plan) {
	struct weir_config_error warning = {.path = "segment"};
	char reason[WEIR_DAEMON_REASON_BYTES] = "";

	if (daemon->tables == NULL || weir_tables_check_ids(daemon->tables, plan->config, reason,
					      sizeof(reason)) != -ENOSPC) {
		return;
	}
	add_remedy(daemon, plan, true, "reload the file", reason, sizeof(reason));
	snprintf(warning.reason, sizeof(warning.reason), "a reload of this file is refused: %s",
		reason);
	(void)weir_config_add_warning(&plan->errors, &warning);
}

static void log_errors(
	struct weir_log *log, const char *file, const struct weir_config_errors *errors) {
	char line[1024];

	for (uint32_t i = 0; i < errors->count; i++) {
		weir_log_write(log, WEIR_LOG_ERROR, "%s",
			weir_config_error_format(file, &errors->error[i], line, sizeof(line)));
	}
}

static int plan_and_apply(struct weir_daemon *daemon, const char *file,
	struct weir_reload_plan *plan, char *why, size_t why_bytes) {
	int r = weir_daemon_plan(daemon, file, plan);
	char reason[WEIR_DAEMON_REASON_BYTES] = "";

	why[0] = '\0';
	if (r < 0) {
		log_errors(daemon->log, plan->file != NULL ? plan->file : "?", &plan->errors);
		weir_reload_explain(plan, r, daemon->user, reason, sizeof(reason));
		if (r != -ENOMEM) {
			note_faulty(daemon, plan, reason);
		}
		snprintf(why, why_bytes, "%s; nothing was changed", reason);
		return r;
	}
	r = weir_daemon_apply(daemon, plan->config, reason, sizeof(reason));
	if (r == -ENOSPC) {
		note_too_large(daemon, plan, reason, sizeof(reason));
	}
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

_Static_assert(WEIR_AUDIT_WHY_BYTES >= WEIR_DAEMON_REASON_BYTES, "the audit would cut reasons");

int weir_daemon_reload_file(struct weir_daemon *daemon, const struct weir_audit_who *who) {
	struct weir_reload_plan plan;
	char why[WEIR_DAEMON_REASON_BYTES], after[WEIR_AUDIT_VALUE_BYTES];
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

// Called at the start of this process if its configuration does not fit the running dataplane.
// Applies the configuration that an earlier process has applied last. Returns 0 or negative errno.
static int apply_stored(struct weir_daemon *daemon, const char *why) {
	const char *file = weir_reload_file_in_use(daemon->reload);
	struct weir_reload_plan plan;
	char reason[WEIR_DAEMON_REASON_BYTES] = "", unfit[WEIR_DAEMON_REASON_BYTES];
	const bool ids = lacks_ids(daemon, weir_reload_config(daemon->reload));
	int r = weir_reload_plan_stored(daemon->reload, daemon->run_dir, &plan);

	if (r == 0) {
		r = weir_daemon_apply(daemon, plan.config, reason, sizeof(reason));
	}
	if (r == 0) {
		snprintf(unfit, sizeof(unfit), "%s", why);
		add_remedy(daemon, &plan, ids, THEN_RELOADS, unfit, sizeof(unfit));
		weir_log_write(daemon->log, WEIR_LOG_ERROR,
			"%s does not fit the running weir-dataplane: %s; the configuration that "
			"was in use before weir-control was started stays in use",
			file, unfit);
		note_unfit(daemon, file, unfit);
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
