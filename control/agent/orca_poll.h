// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA poll: reads the application's load over HTTP periodically while a balancer requests values.
// The response has the ORCA load report in its headers, or as a JSON body.
//
// Threads: the event loop's; the HTTP request runs in libuv's pool.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "log.h"
#include "report.h"

struct weir_orca_poll;

#define WEIR_ORCA_POLL_TIMEOUT_MS 1000 // maximum duration of a request

typedef void (*weir_orca_take)(void *context, const struct weir_report *report);

struct weir_orca_poll_params {
	const char *url; // must outlive the poll
	uint32_t interval_ms;
	const struct weir_log *log;
	weir_orca_take take; // called with each validated report
	void *context;
};

// Returns 0 or negative errno. *ret: the poll, which the caller closes with weir_orca_poll_close.
int weir_orca_poll_create(
	uv_loop_t *loop, const struct weir_orca_poll_params *params, struct weir_orca_poll **ret);
// Stop the poll. The event loop frees the poll later. NULL is allowed.
void weir_orca_poll_close(struct weir_orca_poll *poll);

// wanted: whether a balancer requests values. If not, the response to a request in progress is
// ignored.
void weir_orca_poll_want(struct weir_orca_poll *poll, bool wanted);

// Returns the state as text: "ok", "not wanted" (no balancer requests values, or there was no
// response yet), or the error of the last request.
const char *weir_orca_poll_state(const struct weir_orca_poll *poll);
