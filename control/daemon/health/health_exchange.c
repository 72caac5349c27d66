// SPDX-License-Identifier: BSD-3-Clause
#include "health_exchange.h"

#include <stdio.h>
#include <stdlib.h>

#include "health_match.h"

struct weir_health_exchange {
	struct weir_health_stream stream; // must be the first member
	struct weir_health_match match;
	char room[1024];
};

// Describes an answer that does not contain the expected bytes. when: why no more bytes are read,
// such as ", timeout"; "" = the answer differs, or the server closed the connection.
static void describe(const struct weir_health_match *match, const char *when,
	struct weir_health_stream_result *ret) {
	weir_health_match_failed(match, when, ret->detail, sizeof(ret->detail));
}

static bool take(struct weir_health_stream *stream, const char *data, size_t bytes,
	struct weir_health_stream_result *ret) {
	struct weir_health_match *match = &((struct weir_health_exchange *)stream)->match;

	switch (weir_health_match_take(match, data, bytes)) {
	case WEIR_HEALTH_MATCH_FOUND:
		ret->outcome = WEIR_PROBE_PASSED;
		weir_health_match_passed(match, ret->detail, sizeof(ret->detail));
		return true;
	case WEIR_HEALTH_MATCH_OTHER:
		describe(match, "", ret);
		return true;
	default:
		if (match->bytes < WEIR_HEALTH_EXCHANGE_BYTES) {
			return false;
		}
		describe(match, " in 64 KiB", ret);
		return true;
	}
}

static void closed(struct weir_health_stream *stream, struct weir_health_stream_result *ret) {
	const struct weir_health_match *match = &((struct weir_health_exchange *)stream)->match;

	if (match->bytes == 0) {
		snprintf(ret->detail, sizeof(ret->detail), "connection closed without an answer");
	} else {
		describe(match, "", ret);
	}
}

static void expire(struct weir_health_stream *stream, struct weir_health_stream_result *ret) {
	const struct weir_health_match *match = &((struct weir_health_exchange *)stream)->match;

	if (match->bytes > 0) {
		describe(match, ", timeout", ret);
	} else if (stream->connected) {
		snprintf(ret->detail, sizeof(ret->detail), "connected, no answer for %u ms",
			stream->params.check->timeout_ms);
	}
}

int weir_health_exchange_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_stream **ret) {
	static const struct weir_health_stream_type type = {
		.take = take, .closed = closed, .expire = expire};
	struct weir_health_exchange *exchange = calloc(1, sizeof(*exchange));
	const uint8_t *bytes;
	int r;

	if (exchange == NULL) {
		return -ENOMEM;
	}
	weir_health_match_expect(&exchange->match, params->check);
	exchange->stream.room = uv_buf_init(exchange->room, sizeof(exchange->room));
	exchange->stream.request.len = weir_config_bytes_to_send(params->check, &bytes);
	exchange->stream.request.base = (char *)(uintptr_t)bytes;
	r = weir_health_stream_start(&exchange->stream, loop, &type, params);
	if (r == 0) {
		*ret = &exchange->stream;
	}
	return r;
}
