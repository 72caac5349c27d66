// SPDX-License-Identifier: BSD-3-Clause
//
// Formats a captured packet with the decision of each stage of the dataplane, as text and as JSON.
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_TRACE_PACKETS 10 // default of --packets

// The configuration of the service and the backend of a packet; NULL: unknown.
struct weir_trace_known {
	json_t *service; // row of service.show
	json_t *backend; // row of backend.show
};

// Add two members to a packet: "headers", a description of its bytes, and "stages", an array of
// {stage, text} in the order of the stages.
void weir_trace_explain(json_t *packet, const struct weir_trace_known *known);

// Print a packet that weir_trace_explain has completed, on lines of at most 80 columns unless names
// are longer. before_ns: time of the previous packet; 0 = none.
void weir_trace_print(FILE *out, const json_t *packet, int64_t before_ns);
