// SPDX-License-Identifier: BSD-3-Clause
//
// What the files of the daemon share: daemon.c (life, the dataplane, timers), daemon_config.c (the
// configuration: applied, tried again, reloaded), daemon_publish.c (publications and how long they
// take).
//
// Threads: one.
#pragma once

#include "daemon.h"

// daemon_config.c: apply a configuration to the tables and to health checks, neighbours and
// estimates. Returns 0 (also when parts of it wait), or negative errno with a line in why.
int weir_daemon_apply(
	struct weir_daemon *daemon, const struct weir_config *config, char *why, size_t why_bytes);
// daemon_config.c: the configuration in use does not fit the dataplane that was attached just now:
// what is in its segment stays in use. When only replaced tables are in the way it is applied as
// soon as they are not, and without memory it is tried every second; else a smaller configuration
// may fit.
void weir_daemon_keep_unapplied(struct weir_daemon *daemon, int error, const char *why);
// daemon_config.c: apply it if it is time to try again.
void weir_daemon_retry(struct weir_daemon *daemon);
// daemon_config.c: health checks, agents, neighbours, estimates and ejections that could not follow
// the configuration, for lack of memory or descriptors, are tried again a second later.
void weir_daemon_follow_again(struct weir_daemon *daemon);
// daemon_config.c: update the VIP maps of the steer programs.
void weir_daemon_steer(struct weir_daemon *daemon);

// daemon_publish.c: pass the time to the tables, if there are any.
void weir_daemon_tell_time(struct weir_daemon *daemon);
// daemon_publish.c: one line for systemd on what runs.
void weir_daemon_say_status(const struct weir_daemon *daemon);
// daemon_publish.c: a publication has taken the time since started_ns: record it, and start to
// measure the grace period.
void weir_daemon_note_publication(struct weir_daemon *daemon, uint64_t started_ns);
// daemon_publish.c: publish what is marked, unless it is too early or has failed.
void weir_daemon_publish_dirty(struct weir_daemon *daemon);
// daemon_publish.c: build selections that are to follow changes of backends, for half a millisecond
// at a time and at most half of the time.
void weir_daemon_build(struct weir_daemon *daemon);
