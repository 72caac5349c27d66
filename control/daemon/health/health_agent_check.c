// SPDX-License-Identifier: BSD-3-Clause
#include "health_agent_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct weir_health_agent_check {
	struct weir_health_stream stream; // must be the first member
	struct weir_agent_check *words;
	struct weir_report report;
	char request[256 + 1]; // request line with its line end
	char line[WEIR_AGENT_CHECK_LINE_BYTES];
	size_t bytes; // number of bytes in line
};

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

static bool take(struct weir_health_stream *stream, const char *data, size_t bytes,
	struct weir_health_stream_result *ret) {
	struct weir_health_agent_check *probe = (struct weir_health_agent_check *)stream;
	char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES] = "";

	(void)data; // the bytes are already in `line`
	probe->bytes += bytes;
	stream->room.base += bytes;
	stream->room.len -= bytes;
	if (weir_agent_check_read(
		    probe->words, probe->line, probe->bytes, &probe->report, complaint) == 0) {
		ret->outcome = WEIR_PROBE_PASSED;
		ret->report = &probe->report;
		describe(probe, complaint, ret->detail, sizeof(ret->detail));
		return true;
	}
	if (stream->room.len > 0) {
		return false;
	}
	snprintf(ret->detail, sizeof(ret->detail), "reply line is too long");
	return true;
}

static void closed(struct weir_health_stream *stream, struct weir_health_stream_result *ret) {
	(void)stream;
	snprintf(ret->detail, sizeof(ret->detail), "connection closed before a complete line");
}

int weir_health_agent_check_start(uv_loop_t *loop, const struct weir_probe_params *params,
	struct weir_agent_check *words, struct weir_health_stream **ret) {
	static const struct weir_health_stream_type type = {.take = take, .closed = closed};
	struct weir_health_agent_check *probe = calloc(1, sizeof(*probe));
	const char *send = params->check->send;
	int r;

	if (probe == NULL) {
		return -ENOMEM;
	}
	probe->words = words;
	snprintf(probe->request, sizeof(probe->request), "%s%s", send, send[0] != '\0' ? "\n" : "");
	probe->stream.request = uv_buf_init(probe->request, (unsigned int)strlen(probe->request));
	probe->stream.room = uv_buf_init(probe->line, sizeof(probe->line));
	r = weir_health_stream_start(&probe->stream, loop, &type, params);
	if (r == 0) {
		*ret = &probe->stream;
	}
	return r;
}
