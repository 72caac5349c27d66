// SPDX-License-Identifier: BSD-3-Clause
//
// Body: tests the body of a response against body, body_regex, body_sha256 or body_md5 of a URL.
// The body arrives in parts. It is stored only for body_regex, at most WEIR_HEALTH_BODY_BYTES.
//
// Threads: any; no I/O. Allocates memory only for body_regex.
#pragma once

#include <nettle/md5.h>
#include <nettle/sha2.h>

#include "config.h"
#include "health_match.h"
#include "health_probe.h"

// Maximum number of bytes of a body that are searched for a text or a regular expression.
#define WEIR_HEALTH_BODY_BYTES 65536

struct weir_health_body {
	const struct weir_config_url *url; // borrowed
	size_t bytes; // number of bytes searched or kept so far
	bool found; // the body contains the text
	bool failed; // out of memory
	char *kept; // with body_regex: the first `bytes` of the body, in `room` bytes
	size_t room;
	union {
		struct weir_health_match match; // search for the text
		struct sha256_ctx sha256;
		struct md5_ctx md5;
	};
};

void weir_health_body_init(struct weir_health_body *body, const struct weir_config_url *url);
// All zero is allowed. May be called again.
void weir_health_body_fini(struct weir_health_body *body);

// Processes the next bytes of the body. Returns false if no further byte can change the outcome.
bool weir_health_body_take(struct weir_health_body *body, const char *data, size_t bytes);

// Determines the outcome from the whole body, or from the part that was sufficient. detail: if the
// body is wrong, this function appends a text such as ", body ..."; if memory ran out, it replaces
// the detail.
enum weir_probe_outcome weir_health_body_judge(
	struct weir_health_body *body, char *detail, size_t bytes);
