// SPDX-License-Identifier: BSD-3-Clause
//
// Declarations that the files of the daemon share: daemon.c (start and end, timers),
// daemon_attach.c (a dataplane starts, and ends), daemon_config.c (applies the configuration),
// daemon_notify.c (runs programs for changes), daemon_publish.c (publications and their durations),
// daemon_reload.c (reloads, retries, and what is done if a configuration does not fit the running
// dataplane).
//
// Threads: one.
#pragma once

#include "daemon.h"

// daemon_attach.c: callbacks of the link to the dataplane (dataplane_link.h); context: the daemon.
// weir_daemon_on_refused: attaching to a running dataplane has failed.
int weir_daemon_on_attached(void *context, struct weir_segment *segment,
	const struct weir_handover *handover, char *why, size_t why_bytes);
void weir_daemon_on_lost(void *context);
void weir_daemon_on_refused(void *context, int error);
// daemon_attach.c: ends the use of the attached dataplane, if there is one.
void weir_daemon_detach(struct weir_daemon *daemon);
// daemon_attach.c: returns the ports whose links are read; and reads the states of these links.
struct weir_links_of weir_daemon_links_of(const struct weir_daemon *daemon);
void weir_daemon_read_links(struct weir_daemon *daemon);

// daemon_config.c: applies a configuration to the tables and the modules that use it, and publishes
// it. Returns 0, even if parts of the configuration are delayed or publishing fails, or negative
// errno with a line in why.
int weir_daemon_apply(
	struct weir_daemon *daemon, const struct weir_config *config, char *why, size_t why_bytes);
// daemon_reload.c: reloads the configuration file, and adds an audit entry with this user. Returns
// 0 or negative errno (logged).
int weir_daemon_reload_file(struct weir_daemon *daemon, const struct weir_audit_who *who);
// daemon_reload.c: applies the configuration if a retry is due.
void weir_daemon_retry(struct weir_daemon *daemon);
// daemon_config.c: if a retry is due, configures all modules again, except the tables, canaries and
// sheds. A retry is due one second after memory or descriptors were exhausted.
void weir_daemon_configure_again(struct weir_daemon *daemon);
// daemon_config.c: reads the part of the configuration that a newly started dataplane uses. epoch:
// epoch of the dataplane. Call this function before the epoch is stored in daemon->epoch.
void weir_daemon_take_running(struct weir_daemon *daemon, uint64_t epoch);
// daemon_config.c: updates the VIP maps of the steer programs.
void weir_daemon_steer(struct weir_daemon *daemon);

// daemon_publish.c: sets the current time in the tables, if there are any.
void weir_daemon_set_time(struct weir_daemon *daemon);
// daemon_publish.c: sends a status line to systemd.
void weir_daemon_notify_status(const struct weir_daemon *daemon);
// daemon_publish.c: records the duration of a publication that began at started_ns, and starts to
// measure its grace period.
void weir_daemon_record_publication(struct weir_daemon *daemon, uint64_t started_ns);
// daemon_publish.c: publishes changes, unless the previous publication was too recent or has
// failed.
void weir_daemon_publish_dirty(struct weir_daemon *daemon);
// daemon_publish.c: rebuilds stale selections. A call begins no further step after half a
// millisecond, and all calls together take at most half of the loop's time.
void weir_daemon_build(struct weir_daemon *daemon);

// daemon_reload.c: stores the configuration in use for the next weir-control, if it is applied to
// the attached dataplane.
void weir_daemon_store(struct weir_daemon *daemon);
// daemon_reload.c: call this function if weir_daemon_apply has failed for the configuration in use.
// Applying it is retried in two cases: when replaced tables that occupied the memory have been
// reclaimed, and every second while this process is out of memory. In all other cases, only a
// smaller configuration fits the attached dataplane. The function then applies another
// configuration: at the start of this process, the configuration that an earlier process has
// stored; later, the configuration in the file. If this fails too, the tables in the segment stay
// in use, and the reason is logged.
void weir_daemon_keep_unapplied(struct weir_daemon *daemon, int error, const char *why);
// daemon_reload.c: reloads the configuration file, once for each epoch. Returns 0, -EALREADY, or
// another negative errno (logged).
int weir_daemon_reload_once(struct weir_daemon *daemon, uint64_t epoch);
