// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health_agent_check.h"
#include "health_connect.h"

struct weir_health_agent_check {
	uv_tcp_t socket;
	uv_timer_t timer;
	uv_connect_t connect;
	uv_write_t write;
	struct weir_probe_params params;
	struct weir_probe_deadline deadline;
	struct weir_agent_check *words;
	unsigned int open_handles;
	bool connected;
	bool ended;
	int reset; // negative errno: the connection was already reset when connecting completed
	char request[256 + 1]; // request line with its line end
	char line[WEIR_AGENT_CHECK_LINE_BYTES];
	size_t bytes; // number of bytes in line
};

static void closed(uv_handle_t *handle) {
	struct weir_health_agent_check *probe = handle->data;

	if (--probe->open_handles == 0) {
		free(probe);
	}
}

static void end(struct weir_health_agent_check *probe) {
	probe->ended = true;
	uv_close((uv_handle_t *)&probe->timer, closed);
	if (!probe->connected || uv_tcp_close_reset(&probe->socket, closed)) {
		uv_close((uv_handle_t *)&probe->socket, closed);
	}
}

static void finish(struct weir_health_agent_check *probe, enum weir_probe_outcome outcome,
	const char *detail, const struct weir_report *report) {
	weir_probe_fn done = probe->params.done;
	void *context = probe->params.context;

	end(probe);
	done(context, outcome, detail, report);
}

static void fail(struct weir_health_agent_check *probe, int error) {
	finish(probe, weir_probe_outcome_of(error), uv_strerror(error), NULL);
}

static void on_timeout(uv_timer_t *timer) {
	struct weir_health_agent_check *probe = timer->data;
	uint64_t more_ms =
		weir_probe_deadline_extend(&probe->deadline, timer->loop, probe->params.check);
	char detail[64];

	if (more_ms > 0) {
		uv_timer_start(timer, on_timeout, more_ms, 0);
		return;
	}
	snprintf(detail, sizeof(detail), "timeout after %u ms", probe->params.check->timeout_ms);
	finish(probe, WEIR_PROBE_FAILED, detail, NULL);
}

// --- the line -------------------------------------------------------------------------------

// Describes the reply for users: the line, and the part of the line that is not valid.
static void describe(const struct weir_health_agent_check *probe, const char *complaint,
	char *detail, size_t bytes) {
	size_t shown = 0;
	char text[40];

	while (shown < probe->bytes && shown < sizeof(text) - 1 && probe->line[shown] != '\r' &&
		probe->line[shown] != '\n') {
		char c = probe->line[shown];

		text[shown++] = c >= ' ' && c <= '~' ? c : '?';
	}
	text[shown] = '\0';
	snprintf(detail, bytes, "reply \"%s\"%s%.40s", text, complaint[0] != '\0' ? "; " : "",
		complaint);
}

// Processes the received bytes. Returns true if the line is complete; the probe has then ended.
static bool take_line(struct weir_health_agent_check *probe) {
	char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES] = "", detail[96];
	struct weir_report report;

	if (weir_agent_check_read(probe->words, probe->line, probe->bytes, &report, complaint)) {
		return false;
	}
	describe(probe, complaint, detail, sizeof(detail));
	finish(probe, WEIR_PROBE_PASSED, detail, &report);
	return true;
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct weir_health_agent_check *probe = handle->data;

	(void)suggested;
	*buffer = uv_buf_init(
		probe->line + probe->bytes, (unsigned int)(sizeof(probe->line) - probe->bytes));
}

static void end_line(struct weir_health_agent_check *probe, ssize_t reported) {
	int error =
		probe->reset != 0 ? probe->reset : weir_health_read_error(&probe->socket, reported);

	if (error == 0) {
		finish(probe, WEIR_PROBE_FAILED, "connection closed before a complete line", NULL);
	} else {
		fail(probe, error);
	}
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
	struct weir_health_agent_check *probe = stream->data;

	(void)buffer;
	if (probe->ended || bytes == 0) {
		return;
	}
	if (bytes < 0) {
		end_line(probe, bytes);
	} else {
		probe->bytes += (size_t)bytes;
		if (!take_line(probe) && probe->bytes == sizeof(probe->line)) {
			finish(probe, WEIR_PROBE_FAILED, "reply line is too long", NULL);
		}
	}
}

// Handles the result of a write. The kernel reports a reset of the connection only once. If this
// write gets the error, a later read finds only the end of the connection.
static void on_written(uv_write_t *write, int status) {
	struct weir_health_agent_check *probe = write->data;

	if (status == -ECONNRESET && !probe->ended && probe->reset == 0) {
		probe->reset = status;
	}
}

static void on_connect(uv_connect_t *connect, int status) {
	struct weir_health_agent_check *probe = connect->data;
	uv_buf_t request = uv_buf_init(probe->request, (unsigned int)strlen(probe->request));
	int r;

	if (probe->ended) {
		return; // closing the socket cancelled the request
	}
	if (!weir_health_was_connected(status)) {
		fail(probe, status);
		return;
	}
	probe->connected = true;
	probe->reset = status;
	r = uv_read_start((uv_stream_t *)&probe->socket, allocate, on_read);
	if (!r && request.len > 0) {
		probe->write.data = probe;
		r = uv_write(&probe->write, (uv_stream_t *)&probe->socket, &request, 1, on_written);
	}
	if (r) {
		fail(probe, r);
	}
}

// --- start and end --------------------------------------------------------------------------

int weir_health_agent_check_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_agent_check *words, struct weir_health_agent_check **ret) {
	struct weir_health_agent_check *probe = calloc(1, sizeof(*probe));
	const char *send = params->check->send;
	int r;

	if (probe == NULL) {
		return -ENOMEM;
	}
	probe->params = *params;
	probe->words = words;
	snprintf(probe->request, sizeof(probe->request), "%s%s", send, send[0] != '\0' ? "\n" : "");
	r = uv_tcp_init(loop, &probe->socket);
	if (r) {
		free(probe);
		return r;
	}
	uv_timer_init(loop, &probe->timer);
	probe->open_handles = 2;
	probe->socket.data = probe;
	probe->timer.data = probe;
	probe->connect.data = probe;
	r = weir_health_connect(&probe->connect, &probe->socket, params, on_connect);
	if (r) {
		end(probe);
		return r;
	}
	uv_timer_start(&probe->timer, on_timeout,
		weir_probe_deadline_init(&probe->deadline, loop, params->check), 0);
	*ret = probe;
	return 0;
}

void weir_health_agent_check_cancel(struct weir_health_agent_check *probe) {
	end(probe);
}
