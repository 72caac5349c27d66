// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "health_connect.h"
#include "health_tcp.h"

struct weir_health_tcp {
	uv_tcp_t socket;
	uv_timer_t timer;
	uv_connect_t connect;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	unsigned int open_handles;
	bool connected;
	bool ended;
};

static void closed(uv_handle_t *handle) {
	struct weir_health_tcp *tcp = handle->data;

	if (--tcp->open_handles == 0) {
		free(tcp);
	}
}

static void end(struct weir_health_tcp *tcp) {
	tcp->ended = true;
	uv_close((uv_handle_t *)&tcp->timer, closed);
	// Reset the connection. A reset leaves no TIME_WAIT on this host, and no half-closed
	// connection on the backend.
	if (!tcp->connected || uv_tcp_close_reset(&tcp->socket, closed)) {
		uv_close((uv_handle_t *)&tcp->socket, closed);
	}
}

static void finish(
	struct weir_health_tcp *tcp, enum weir_probe_outcome outcome, const char *detail) {
	weir_probe_fn done = tcp->params.done;
	void *context = tcp->params.context;

	end(tcp);
	done(context, outcome, detail, NULL);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_tcp *tcp = timer->data;
	uint64_t more_ms =
		weir_probe_deadline_extend(&tcp->deadline, timer->loop, tcp->params.check);
	char detail[64];

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	snprintf(detail, sizeof(detail), "timeout after %u ms", tcp->params.check->timeout_ms);
	finish(tcp, WEIR_PROBE_FAILED, detail);
}

static void on_connect(uv_connect_t *connect, int status) {
	struct weir_health_tcp *tcp = connect->data;

	if (tcp->ended) {
		return; // closing the socket cancelled the request
	}
	if (!weir_health_was_connected(status)) {
		finish(tcp, weir_probe_outcome_of(status), uv_strerror(status));
		return;
	}
	tcp->connected = true;
	finish(tcp, WEIR_PROBE_PASSED, "connected");
}

int weir_health_tcp_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_tcp **ret) {
	struct weir_health_tcp *tcp = calloc(1, sizeof(*tcp));
	int r;

	if (tcp == NULL) {
		return -ENOMEM;
	}
	tcp->params = *params;
	r = uv_tcp_init(loop, &tcp->socket);
	if (r) {
		free(tcp);
		return r;
	}
	uv_timer_init(loop, &tcp->timer);
	tcp->open_handles = 2;
	tcp->socket.data = tcp;
	tcp->timer.data = tcp;
	tcp->connect.data = tcp;
	r = weir_health_connect(&tcp->connect, &tcp->socket, params, on_connect);
	if (r) {
		end(tcp);
		return r;
	}
	uv_timer_start(&tcp->timer, on_timeout,
		weir_probe_deadline_init(&tcp->deadline, loop, params->check), 0);
	*ret = tcp;
	return 0;
}

void weir_health_tcp_cancel(struct weir_health_tcp *tcp) {
	end(tcp);
}
