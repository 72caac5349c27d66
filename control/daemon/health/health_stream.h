// SPDX-License-Identifier: BSD-3-Clause
//
// Stream: base of probes over TCP. Connects, sends the request, and passes the received bytes to
// the type of the probe, until they decide the outcome or the timeout has passed. Then resets the
// connection. A reset leaves no TIME_WAIT on this host, and no half-closed connection on the
// backend.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "health_probe.h"

struct weir_health_stream_result {
	enum weir_probe_outcome outcome; // FAILED before a callback, which can set another outcome
	char detail[96];
	const struct weir_report *report; // member of the probe's struct; NULL = none
};

struct weir_health_stream;

struct weir_health_stream_type {
	// Returns whether the received bytes decide the outcome; *ret is then set. NULL = the probe
	// passes when it has connected; the other callbacks must then be NULL.
	bool (*take)(struct weir_health_stream *stream, const char *data, size_t bytes,
		struct weir_health_stream_result *ret);
	// Sets the detail if the backend has closed the connection.
	void (*closed)(struct weir_health_stream *stream, struct weir_health_stream_result *ret);
	// Changes the detail after the timeout; NULL = the detail stays "timeout after 500 ms".
	void (*expire)(struct weir_health_stream *stream, struct weir_health_stream_result *ret);
};

// First member of the struct of a probe. The struct must be allocated with calloc. The type sets
// the buffers before the start, unless it only connects.
struct weir_health_stream {
	uv_buf_t request; // sent when connected; length 0 = nothing is sent
	uv_buf_t room; // where the next bytes are received; `take` may change it; never empty
	uv_tcp_t socket;
	uv_timer_t timer;
	uv_connect_t connect;
	uv_write_t write;
	const struct weir_health_stream_type *type;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	unsigned int open_handles;
	bool connected;
	bool ended;
	// Negative errno: the backend reset the connection before or while the request was sent;
	// otherwise 0.
	int reset;
};

// Starts to connect. Returns 0, or negative errno; `done` is then not called. Frees the struct of
// the probe on failure, or when the probe has ended.
int weir_health_stream_start(struct weir_health_stream *stream, uv_loop_t *loop,
	const struct weir_health_stream_type *type, const struct weir_probe_params *params);

// Cancels the probe without calling done. Its libuv handles are closed in the next iterations of
// the loop.
void weir_health_stream_cancel(struct weir_health_stream *stream);
