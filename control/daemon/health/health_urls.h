// SPDX-License-Identifier: BSD-3-Clause
//
// URLs of an HTTP check: a check with further URLs requests them one after the other, each with its
// own probe, until a request fails or its answer announces a state other than ready.
//
// Threads: only the event loop's thread.
#pragma once

#include "health.h"
#include "health_probe.h"

struct weir_health_urls; // the further URLs of a check that runs; NULL = its first request

// Returns the check for the current request: config, or config with the path and tests of a URL.
const struct weir_config_health_check *weir_health_urls_check(
	const struct weir_health_urls *urls, const struct weir_config_health_check *config);

// Call when a request has passed. Returns 1 if another URL must be requested;
// weir_health_urls_check then returns its check. Returns 0 if no URL is left, or if the answer
// announces a state other than ready. Returns -ENOMEM if out of memory. report: report of the
// answer, or NULL.
int weir_health_urls_advance(struct weir_health_urls **urls,
	const struct weir_config_health_check *config, const char *detail,
	const struct weir_report *report);

// Completes the result of the last request. If the request has not passed, or if its answer
// announces a state other than ready, puts the path of its URL in front of detail; otherwise detail
// becomes the detail of the first answer. report: report of the last answer, or NULL. Returns the
// report of the check, valid until weir_health_urls_free: the report of the first answer, with the
// state of the last answer unless this is none or ready; NULL if `report` is NULL. If urls is NULL,
// returns `report`.
const struct weir_report *weir_health_urls_end(struct weir_health_urls *urls,
	enum weir_probe_outcome outcome, const struct weir_report *report,
	char detail[static WEIR_HEALTH_DETAIL_BYTES]);

void weir_health_urls_free(struct weir_health_urls **urls);
