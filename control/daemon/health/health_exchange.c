// SPDX-License-Identifier: BSD-3-Clause
#include "health_exchange.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "health_connect.h"
#include "health_match.h"

#define BUFFER_BYTES 1024
#define DETAIL_BYTES 96

struct weir_health_exchange {
	uv_tcp_t socket;
	uv_timer_t timer;
	uv_connect_t connect;
	uv_write_t write;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	struct weir_health_match match;
	unsigned int open_handles;
	bool connected;
	bool ended;
	int reset; // negative errno: the connection was already reset when connecting completed
	char buffer[BUFFER_BYTES];
};

static void closed(uv_handle_t *handle) {
	struct weir_health_exchange *exchange = handle->data;

	if (--exchange->open_handles == 0) {
		free(exchange);
	}
}

static void end(struct weir_health_exchange *exchange) {
	exchange->ended = true;
	uv_close((uv_handle_t *)&exchange->timer, closed);
	if (!exchange->connected || uv_tcp_close_reset(&exchange->socket, closed)) {
		uv_close((uv_handle_t *)&exchange->socket, closed);
	}
}

static void finish(struct weir_health_exchange *exchange, enum weir_probe_outcome outcome,
	const char *detail) {
	weir_probe_fn done = exchange->params.done;
	void *context = exchange->params.context;

	end(exchange);
	done(context, outcome, detail, NULL);
}

static void fail(struct weir_health_exchange *exchange, int error) {
	finish(exchange, weir_probe_outcome_of(error), uv_strerror(error));
}

// --- the answer ---------------------------------------------------------------------------

// Fails because the answer does not contain the expected bytes. when: what ended the answer; "" =
// it has other bytes, or the server closed the connection.
static void fail_answer(struct weir_health_exchange *exchange, const char *when) {
	char detail[DETAIL_BYTES];

	weir_health_match_failed(&exchange->match, when, detail, sizeof(detail));
	finish(exchange, WEIR_PROBE_FAILED, detail);
}

static void pass(struct weir_health_exchange *exchange) {
	char detail[DETAIL_BYTES];

	weir_health_match_passed(&exchange->match, detail, sizeof(detail));
	finish(exchange, WEIR_PROBE_PASSED, detail);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_exchange *exchange = timer->data;
	const uint32_t timeout_ms = exchange->params.check->timeout_ms;
	uint64_t more_ms = weir_probe_deadline_extend(
		&exchange->deadline, timer->loop, exchange->params.check);
	char text[64];

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	if (exchange->match.bytes > 0) {
		fail_answer(exchange, ", timeout");
		return;
	}
	snprintf(text, sizeof(text), "%s %u ms",
		exchange->connected ? "connected, no answer for" : "timeout after", timeout_ms);
	finish(exchange, WEIR_PROBE_FAILED, text);
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct weir_health_exchange *exchange = handle->data;

	(void)suggested;
	*buffer = uv_buf_init(exchange->buffer, sizeof(exchange->buffer));
}

// Handles the end of the connection. A reset before the answer is decided is reported as a reset.
static void end_answer(struct weir_health_exchange *exchange, ssize_t reported) {
	int error = exchange->reset != 0 ? exchange->reset
					 : weir_health_read_error(&exchange->socket, reported);

	if (error != 0) {
		fail(exchange, error);
	} else if (exchange->match.bytes == 0) {
		finish(exchange, WEIR_PROBE_FAILED, "connection closed without an answer");
	} else {
		fail_answer(exchange, "");
	}
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
	struct weir_health_exchange *exchange = stream->data;

	if (exchange->ended || bytes == 0) {
		return;
	}
	if (bytes < 0) {
		end_answer(exchange, bytes);
		return;
	}
	switch (weir_health_match_take(&exchange->match, buffer->base, (size_t)bytes)) {
	case WEIR_HEALTH_MATCH_FOUND:
		pass(exchange);
		break;
	case WEIR_HEALTH_MATCH_OTHER:
		fail_answer(exchange, "");
		break;
	default:
		if (exchange->match.bytes >= WEIR_HEALTH_EXCHANGE_BYTES) {
			fail_answer(exchange, " in 64 KiB");
		}
	}
}

// Handles the result of a write. The kernel reports a reset of the connection only once. If this
// write gets the error, a later read finds only the end of the connection.
static void on_written(uv_write_t *write, int status) {
	struct weir_health_exchange *exchange = write->data;

	if (status == -ECONNRESET && !exchange->ended && exchange->reset == 0) {
		exchange->reset = status;
	}
}

static void on_connect(uv_connect_t *connect, int status) {
	struct weir_health_exchange *exchange = connect->data;
	const uint8_t *bytes;
	uv_buf_t sent;
	int r;

	if (exchange->ended) {
		return; // closing the socket cancelled the request
	}
	if (!weir_health_was_connected(status)) {
		fail(exchange, status);
		return;
	}
	exchange->connected = true;
	exchange->reset = status;
	sent.len = weir_config_bytes_to_send(exchange->params.check, &bytes);
	sent.base = (char *)(uintptr_t)bytes;
	r = uv_read_start((uv_stream_t *)&exchange->socket, allocate, on_read);
	if (!r && sent.len > 0) {
		exchange->write.data = exchange;
		r = uv_write(
			&exchange->write, (uv_stream_t *)&exchange->socket, &sent, 1, on_written);
	}
	if (r) {
		fail(exchange, r);
	}
}

// --- start and end ------------------------------------------------------------------------

int weir_health_exchange_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_health_exchange **ret) {
	struct weir_health_exchange *exchange = calloc(1, sizeof(*exchange));
	int r;

	if (exchange == NULL) {
		return -ENOMEM;
	}
	exchange->params = *params;
	weir_health_match_expect(&exchange->match, params->check);
	r = uv_tcp_init(loop, &exchange->socket);
	if (r) {
		free(exchange);
		return r;
	}
	uv_timer_init(loop, &exchange->timer);
	exchange->open_handles = 2;
	exchange->socket.data = exchange;
	exchange->timer.data = exchange;
	exchange->connect.data = exchange;
	r = weir_health_connect(&exchange->connect, &exchange->socket, params, on_connect);
	if (r) {
		end(exchange);
		return r;
	}
	uv_timer_start(&exchange->timer, on_timeout,
		weir_probe_deadline_init(&exchange->deadline, loop, params->check), 0);
	*ret = exchange;
	return 0;
}

void weir_health_exchange_cancel(struct weir_health_exchange *exchange) {
	end(exchange);
}
