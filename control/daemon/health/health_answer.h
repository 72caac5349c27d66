// SPDX-License-Identifier: BSD-3-Clause
//
// Answer: parses the response to an HTTP probe and determines the outcome of the probe.
// health_http.c passes the parts of the response when they arrive. Of the body, only the first
// bytes of a gRPC answer, or the bytes that health_body.h needs, are stored.
//
// The header "X-Weir-State: WORD" contains the state that the backend reports: ready, starting,
// lame-duck or down. An answer with the state starting or lame-duck passes with any HTTP status and
// body, because the backend serves requests. An answer with the state down fails. An unknown state
// is only shown in the detail. The load is read from ORCA headers if the check is
// configured with orca.
//
// Threads: any; no I/O.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health_body.h"
#include "health_grpc.h"
#include "health_probe.h"
#include "orca.h"

struct weir_health_answer {
	const struct weir_config_health_check *check;
	struct weir_health_body body; // types http and https
	bool enough; // no further part is read
	int status; // HTTP status of the last status line; 0 = none, or not valid
	struct weir_report report; // report read from the headers
	bool has_unknown_state; // a header X-Weir-State contained an unknown state
	char unknown_state[24 + 1]; // start of the first unknown state, printable ASCII
	char complaint[WEIR_ORCA_WHY_BYTES]; // error in the first invalid load report; "" = none
	bool has_load; // there was a valid load report, perhaps without a value that Weir uses
	int grpc_status; // -1 = not received
	char grpc_message[48];
	uint8_t grpc[WEIR_GRPC_ANSWER_BYTES]; // type grpc: first bytes of the body
	size_t grpc_bytes; // type grpc: length of the body so far
};

// check: borrowed.
void weir_health_answer_init(
	struct weir_health_answer *answer, const struct weir_config_health_check *check);
// All zero is allowed. May be called again.
void weir_health_answer_fini(struct weir_health_answer *answer);

// Processes one line of the response, with its end of line: a status line, a header, or the empty
// line after the headers. A status line begins a new answer. Returns whether to read more of the
// answer.
bool weir_health_answer_header(struct weir_health_answer *answer, const char *line, size_t bytes);

// Process the next bytes of the body. Returns whether to read more of the body.
bool weir_health_answer_body(struct weir_health_answer *answer, const char *data, size_t bytes);

// Determine the outcome from the complete answer, and complete the report. detail: one line, such
// as "HTTP 200". The report's `why` is the reason for its state; without a state, it describes an
// unknown state.
enum weir_probe_outcome weir_health_answer_judge(
	struct weir_health_answer *answer, long status, char *detail, size_t bytes);
