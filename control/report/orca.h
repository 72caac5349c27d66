// SPDX-License-Identifier: BSD-3-Clause
//
// ORCA (Open Request Cost Aggregation): converts load in HTTP response headers, or in a JSON body,
// to a report. docs/reference/agent-protocol.md describes the fields that Weir uses.
//
//   endpoint-load-metrics: TEXT cpu_utilization=0.3, rps_fractional=10, named_metrics.queue=4
//   endpoint-load-metrics: JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 4}}
//   endpoint-load-metrics: BIN <base64 of a protocol buffer>
//   endpoint-load-metrics-bin: <base64 of a protocol buffer>
//   X-Load-Balancing-Endpoint-Weight: 0 to 1000      (of Google Cloud and kube-proxy)
//
// A header or body is refused as a whole if a number is infinite or NaN, if the number of a
// standard field is negative, if a number that Weir uses is negative or too large, if a field is
// unknown (in BIN, unknown fields are skipped), if a field or a name in a map is repeated, if a
// name is empty, or if the syntax is wrong. Unknown names in a map are ignored.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>

#include "report.h"

#define WEIR_ORCA_BYTES_MOST 16384 // maximum length of a value or body
#define WEIR_ORCA_NAMES_MOST 64 // maximum number of named metrics, costs and utilizations
#define WEIR_ORCA_WHY_BYTES 96 // a longer error message is truncated

// Both functions set the fields of *ret for which they have read a value, and leave all other
// fields of *ret unchanged.

// Reads a header line of an HTTP response, with or without its line end. The case of the header
// name is ignored. Returns 1 if the header was read, or 0 if it is not a load header. On an error,
// returns -EINVAL with one line in why, and *ret is unchanged.
int weir_orca_header(
	const char *line, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]);

// Reads a body that is an ORCA message in JSON. Returns 0. On an error, returns -EINVAL with one
// line in why, and *ret is unchanged.
int weir_orca_json(
	const char *text, size_t bytes, struct weir_report *ret, char why[WEIR_ORCA_WHY_BYTES]);
