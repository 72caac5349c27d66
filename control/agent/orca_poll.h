// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA poll: asks the application for its load over HTTP, again and again, while somebody wants to
// know: ORCA in the headers of the response, or as a JSON body.
//
// Threads: the event loop's; the request itself runs in libuv's pool.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "log.h"
#include "report.h"

struct weir_orca_poll;

typedef void (*weir_orca_take)(void *context, const struct weir_report *report);

struct weir_orca_poll_params {
	const char *url; // valid as long as the poll
	uint32_t interval_ms;
	const struct weir_log *log;
	weir_orca_take take; // a report that was checked
	void *context;
};

// Returns 0 or negative errno.
int weir_orca_poll_create(
	uv_loop_t *loop, const struct weir_orca_poll_params *params, struct weir_orca_poll **ret);
// Frees itself when the loop has run down. NULL is fine.
void weir_orca_poll_close(struct weir_orca_poll *poll);

void weir_orca_poll_want(struct weir_orca_poll *poll, bool wanted);

// "ok", "not wanted", or what is wrong with the last response.
const char *weir_orca_poll_state(const struct weir_orca_poll *poll);
