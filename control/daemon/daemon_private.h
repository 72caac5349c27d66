// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the files of the daemon: daemon.c (start and end, the dataplane, timers),
// daemon_config.c (applies, retries and reloads the configuration), daemon_publish.c (publications
// and their durations).
//
// Threads: one.
#pragma once

#include "daemon.h"

// daemon_config.c: apply a configuration to the tables and to health checks, neighbours and
// estimates. Returns 0, even if parts of the configuration are delayed, or negative errno with a
// line in why.
int weir_daemon_apply(
	struct weir_daemon *daemon, const struct weir_config *config, char *why, size_t why_bytes);
// daemon_config.c: note that the configuration in use does not fit the newly attached dataplane.
// The tables in its segment stay in use. If replaced tables occupy the memory, applying is retried
// when they are reclaimed; if this process is out of memory, every second. Otherwise a smaller
// configuration may fit.
void weir_daemon_keep_unapplied(struct weir_daemon *daemon, int error, const char *why);
// daemon_config.c: apply the configuration if a retry is due.
void weir_daemon_retry(struct weir_daemon *daemon);
// daemon_config.c: configure health checks, agents, neighbours, estimates and ejections again if a
// retry is due, a second after a lack of memory or descriptors.
void weir_daemon_configure_again(struct weir_daemon *daemon);
// daemon_config.c: take the dataplane's part of the configuration from a newly started dataplane.
// Call before its epoch is stored.
void weir_daemon_take_running(struct weir_daemon *daemon, uint64_t epoch);
// daemon_config.c: update the VIP maps of the steer programs.
void weir_daemon_steer(struct weir_daemon *daemon);

// daemon_publish.c: set the time of the tables, if there are any.
void weir_daemon_set_time(struct weir_daemon *daemon);
// daemon_publish.c: send a status line to systemd.
void weir_daemon_notify_status(const struct weir_daemon *daemon);
// daemon_publish.c: record the duration of a publication that began at started_ns, and start to
// measure its grace period.
void weir_daemon_record_publication(struct weir_daemon *daemon, uint64_t started_ns);
// daemon_publish.c: publish marked changes, unless it is too early or the last publication failed.
void weir_daemon_publish_dirty(struct weir_daemon *daemon);
// daemon_publish.c: rebuild stale selections, for half a millisecond at a time and at most half of
// the time.
void weir_daemon_build(struct weir_daemon *daemon);
