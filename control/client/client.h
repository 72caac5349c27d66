// SPDX-License-Identifier: BSD-3-Clause
//
// Client of the control socket (docs/reference/control-api.md): one JSON object per line in each
// direction. Used by weirctl and weir-metrics. No call waits longer than its timeout.
//
// Threads: a client is used by one thread.
#pragma once

#include <jansson.h>
#include <stddef.h>

#define WEIR_CLIENT_REQUEST_MAX (32u << 10) // limit of weir-control in bytes, with the line end
#define WEIR_CLIENT_ANSWER_MAX (64u << 20)

struct weir_client;

// Connect to RUN_DIR/control/control.sock. timeout_ms: timeout of this call and of the following
// calls. why gets one line with the error and, in most cases, the remedy. Returns 0, -ENOENT or
// -ECONNREFUSED (weir-control is not running), -EACCES, -ETIMEDOUT, -ENAMETOOLONG, or another
// negative errno.
int weir_client_connect(
	const char *run_dir, int timeout_ms, struct weir_client **ret, char *why, size_t why_bytes);
void weir_client_free(struct weir_client *client); // NULL is allowed

// Set the timeout of the following calls.
void weir_client_set_timeout(struct weir_client *client, int timeout_ms);

// Send a request and wait for the reply, an object whose "ok" is true or false (owned by the
// caller). Returns 0, -ETIMEDOUT, -ECONNRESET (weir-control closed the connection), -EPROTO
// (invalid reply), -EMSGSIZE (request too long; nothing was sent), -EFBIG (reply too long), or
// another negative errno. After any error except -EMSGSIZE the connection is unusable: further
// calls return the same error immediately. why gets one line with the error.
int weir_client_call(struct weir_client *client, const json_t *request, json_t **ret, char *why,
	size_t why_bytes);
