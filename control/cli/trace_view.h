// SPDX-License-Identifier: BSD-3-Clause
//
// A captured packet with the decision of each stage of the dataplane, as text and as JSON.
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_TRACE_PACKETS 10 // default of --packets

// The configuration of the packet's service and backend; NULL: unknown.
struct weir_trace_known {
	json_t *service; // row of service.show
	json_t *backend; // row of backend.show
};

// Add "headers", a description of the bytes, and "stages", an array of {stage, text} in the
// packet's order.
void weir_trace_explain(json_t *packet, const struct weir_trace_known *known);

// Print an explained packet, on lines of 80 columns where names allow it. before_ns: time of the
// previous packet, 0 = none.
void weir_trace_print(FILE *out, const json_t *packet, int64_t before_ns);
