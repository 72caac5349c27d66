// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA (Open Request Cost Aggregation): load in the headers of an HTTP response, or in a body of
// JSON, as a report. docs/reference/agent-protocol.md says which of its fields mean what to Weir.
//
//   endpoint-load-metrics: TEXT cpu_utilization=0.3, rps_fractional=10, named_metrics.queue=4
//   endpoint-load-metrics: JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 4}}
//   endpoint-load-metrics: BIN <base64 of a protocol buffer>
//   endpoint-load-metrics-bin: <the same>
//   X-Load-Balancing-Endpoint-Weight: 0 to 1000      Google Cloud's, and kube-proxy's
//
// All or nothing: numbers that are not finite, that are negative or too large where Weir uses them,
// unknown or repeated or empty names, and broken syntax refuse the whole value.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>

#include "report.h"

#define WEIR_ORCA_BYTES_MOST 16384 // of a value, or a body
#define WEIR_ORCA_NAMES_MOST 64 // named metrics, costs and utilizations
#define WEIR_ORCA_WHY_BYTES 96 // as long as it ever gets

// Both add what they read to *ret, instead of what it has of the same fields.

// A header of an HTTP response, with or without the end of its line; the name in any case. Returns
// 1 if it was read, 0 if it is another header, or -EINVAL with one line in why: *ret is unchanged.
int weir_orca_header(
	const char *line, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]);

// A body that is an ORCA message in JSON. Returns 0, or -EINVAL as above.
int weir_orca_json(
	const char *text, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]);
