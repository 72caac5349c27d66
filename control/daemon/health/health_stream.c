// SPDX-License-Identifier: BSD-3-Clause
#include "health_stream.h"

#include <stdio.h>
#include <stdlib.h>

#include "health_connect.h"

static void closed(uv_handle_t *handle) {
	struct weir_health_stream *stream = handle->data;

	if (--stream->open_handles == 0) {
		free(stream);
	}
}

static void end(struct weir_health_stream *stream) {
	stream->ended = true;
	uv_close((uv_handle_t *)&stream->timer, closed);
	if (!stream->connected || uv_tcp_close_reset(&stream->socket, closed)) {
		uv_close((uv_handle_t *)&stream->socket, closed);
	}
}

static void finish(
	struct weir_health_stream *stream, const struct weir_health_stream_result *result) {
	end(stream);
	stream->params.done(
		stream->params.context, result->outcome, result->detail, result->report);
}

static void fail(struct weir_health_stream *stream, int error) {
	struct weir_health_stream_result result = {.outcome = weir_probe_outcome_of(error)};

	snprintf(result.detail, sizeof(result.detail), "%s", uv_strerror(error));
	finish(stream, &result);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_stream *stream = timer->data;
	struct weir_health_stream_result result = {.outcome = WEIR_PROBE_FAILED};
	uint64_t more_ms =
		weir_probe_deadline_extend(&stream->deadline, timer->loop, stream->params.check);

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	snprintf(result.detail, sizeof(result.detail), "timeout after %u ms",
		stream->params.check->timeout_ms);
	if (stream->type->expire != NULL) {
		stream->type->expire(stream, &result);
	}
	finish(stream, &result);
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct weir_health_stream *stream = handle->data;

	(void)suggested;
	*buffer = stream->room;
}

static void on_read(uv_stream_t *socket, ssize_t bytes, const uv_buf_t *buffer) {
	struct weir_health_stream *stream = socket->data;
	struct weir_health_stream_result result = {.outcome = WEIR_PROBE_FAILED};

	if (stream->ended || bytes == 0) {
		return;
	}
	if (bytes < 0) {
		int error = stream->reset != 0 ? stream->reset
					       : weir_health_read_error(&stream->socket, bytes);

		if (error != 0) {
			fail(stream, error);
			return;
		}
		stream->type->closed(stream, &result);
	} else if (!stream->type->take(stream, buffer->base, (size_t)bytes, &result)) {
		return;
	}
	finish(stream, &result);
}

// Handles the result of a write. The kernel reports a reset of the connection only once. If this
// write gets the error, a later read finds only the end of the connection.
static void on_written(uv_write_t *write, int status) {
	struct weir_health_stream *stream = write->data;

	if (status == -ECONNRESET && !stream->ended && stream->reset == 0) {
		stream->reset = status;
	}
}

static void on_connect(uv_connect_t *connect, int status) {
	struct weir_health_stream *stream = connect->data;
	uv_stream_t *socket = (uv_stream_t *)&stream->socket;
	int r;

	if (stream->ended) {
		return; // closing the socket cancelled the request
	}
	if (!weir_health_was_connected(status)) {
		fail(stream, status);
		return;
	}
	stream->connected = true;
	stream->reset = status;
	if (stream->type->take == NULL) {
		finish(stream, &(struct weir_health_stream_result){.detail = "connected"});
		return;
	}
	r = uv_read_start(socket, allocate, on_read);
	if (!r && stream->request.len > 0) {
		r = uv_write(&stream->write, socket, &stream->request, 1, on_written);
	}
	if (r) {
		fail(stream, r);
	}
}

int weir_health_stream_start(struct weir_health_stream *stream, uv_loop_t *loop,
	const struct weir_health_stream_type *type, const struct weir_probe_params *params) {
	int r = uv_tcp_init(loop, &stream->socket);

	if (r) {
		free(stream);
		return r;
	}
	uv_timer_init(loop, &stream->timer);
	stream->type = type;
	stream->params = *params;
	stream->open_handles = 2;
	stream->socket.data = stream->timer.data = stream;
	stream->connect.data = stream->write.data = stream;
	r = weir_health_connect(&stream->connect, &stream->socket, params, on_connect);
	if (r) {
		end(stream);
		return r;
	}
	uv_timer_start(&stream->timer, on_timeout,
		weir_probe_deadline_init(&stream->deadline, loop, params->check), 0);
	return 0;
}

void weir_health_stream_cancel(struct weir_health_stream *stream) {
	end(stream);
}
