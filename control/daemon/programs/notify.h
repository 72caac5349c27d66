// SPDX-License-Identifier: BSD-3-Clause
//
// Notify: runs the program of `notify` in the configuration for each change of a service (up, down)
// and of the state of a backend. One program runs at a time, and at most 20 start per second. If
// several changes of the same object wait, only the last change is reported, and only if its state
// differs from the last reported state. Changes of services are reported before changes of
// backends.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "log.h"
#include "programs.h"

struct weir_notify;

struct weir_notify_event { // strings are copied
	const char *service;
	const char *backend; // NULL = an event of the service
	const char *address; // address of the backend; NULL for a service
	const char *from, *to; // states; for a service "up" and "down"
	const char *why;
	uint32_t eligible, backends, quorum; // numbers of the service; 0 for a backend
	uint64_t time_ms; // since 1970
};

// programs: borrowed; NULL = programs cannot run. Returns 0 or negative errno.
int weir_notify_create(uv_loop_t *loop, struct weir_programs *programs, struct weir_log *log,
	struct weir_notify **ret);
// Frees `notify`. Call weir_programs_close before the loop runs again; otherwise the result of a
// running program is passed to freed memory. Afterwards, run the loop, so that the handles can
// close. NULL is allowed.
void weir_notify_close(struct weir_notify *notify);

// Uses these settings, which are copied. Discards waiting changes that these settings do not
// report; a program that is running continues. Logs a warning if the helper process has not
// started, or if the file of the program is not found.
void weir_notify_configure(struct weir_notify *notify, const struct weir_config_notify *settings);

// Report a change of the service or backend with this id. Do nothing if the configuration has no
// `notify` program. weir_notify_backend also does nothing if notify.backends is false.
void weir_notify_service(
	struct weir_notify *notify, uint16_t id, const struct weir_notify_event *event);
void weir_notify_backend(
	struct weir_notify *notify, uint16_t id, const struct weir_notify_event *event);
