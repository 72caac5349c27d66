// SPDX-License-Identifier: BSD-3-Clause
//
// A captured packet as the stages of the dataplane decided about it, for people and as JSON.
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_TRACE_PACKETS 10 // unless --packets says otherwise

// What the configuration says of the packet's service and backend; NULL: not known.
struct weir_trace_known {
	json_t *service; // row of service.show
	json_t *backend; // row of backend.show
};

// Add "headers", what the bytes say, and "stages", an array of {stage, text} in the packet's order.
void weir_trace_explain(json_t *packet, const struct weir_trace_known *known);

// Print a packet that was explained, on lines of 80 columns where names allow it. before_ns: time
// of the packet before, 0 = none.
void weir_trace_print(FILE *out, const json_t *packet, int64_t before_ns);
