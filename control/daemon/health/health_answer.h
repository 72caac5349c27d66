// SPDX-License-Identifier: BSD-3-Clause
//
// Answer: what an HTTP probe reads, and what follows from it. Fed by health_http.c as parts of the
// answer arrive; keeps no part of it.
//
// A header "X-Weir-State: WORD" is the backend's own word: ready, starting, lame-duck or down. An
// answer with starting or lame-duck passes whatever its status, because the backend serves; one
// with down fails. Load comes from the headers of ORCA, if the check is told to take it.
//
// Threads: any; no I/O, no allocation.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health_grpc.h"
#include "health_probe.h"
#include "orca.h"

#define WEIR_HEALTH_BODY_BYTES 65536 // what is read of a body at most

struct weir_health_answer {
	const struct weir_config_health_check *check;
	size_t body_bytes; // so far
	bool enough; // nothing that follows could change the judgement
	uint8_t matched; // first bytes of check->body that the body so far ends with
	bool found; // check->body
	int status; // of the last status line; 0 = not read
	struct weir_report report; // from the headers
	char complaint[WEIR_ORCA_WHY_BYTES]; // of the first load that was refused; "" = none was
	int grpc_status; // -1 = none was sent
	char grpc_message[48];
	uint8_t grpc[WEIR_GRPC_ANSWER_BYTES]; // first bytes of the body, of type grpc
	uint8_t border[256]; // of the first n bytes of check->body: length of the longest one
};

// check: borrowed
void weir_health_answer_init(
	struct weir_health_answer *answer, const struct weir_config_health_check *check);

// A header with its end of line, a status line (what follows belongs to another answer), or the
// empty line at the end of the headers. Returns whether more of the answer is wanted.
bool weir_health_answer_header(struct weir_health_answer *answer, const char *line, size_t bytes);

// The next bytes of the body. Returns whether more of it is wanted.
bool weir_health_answer_body(struct weir_health_answer *answer, const char *data, size_t bytes);

// At the end: completes the report. detail: one line, such as "HTTP 200".
enum weir_probe_outcome weir_health_answer_judge(
	struct weir_health_answer *answer, long status, char *detail, size_t bytes);
