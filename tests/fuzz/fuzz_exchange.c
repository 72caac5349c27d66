// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz target: arbitrary bytes as a server's answer to a health check, through libcurl: HTTP/1.1,
// HTTP/2, and TLS up to the point at which a key is needed. The probe must call its callback
// once, with a valid report.
//
// The first byte of an input describes the check. Bits 0 and 1: its type (0, 3 = http, 1 = grpc,
// 2 = https). Bit 2: the check reads a load report. Bit 3: the check expects a text in the body.
// The second byte is the number of parts into which the remaining bytes are split. The parts
// arrive one after the other.
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "health_http.h"
#include "health_state.h"

#define TIMEOUT_MS 2000u

struct rig {
	uv_loop_t loop;
	struct weir_health_curl *curl;
	uv_tcp_t listener;
	uint16_t port;
};

static struct rig rig;

struct exchange {
	uv_tcp_t server;
	uv_write_t write;
	const uint8_t *data;
	size_t bytes, part;
	bool server_open, requested;
	unsigned int calls;
	char question[4096];
};

// --- server -------------------------------------------------------------------------------

static void on_closed(uv_handle_t *handle) {
	((struct exchange *)handle->data)->server_open = false;
}

static void close_server(struct exchange *exchange) {
	if (!uv_is_closing((uv_handle_t *)&exchange->server)) {
		uv_close((uv_handle_t *)&exchange->server, on_closed);
	}
}

static void send_part(struct exchange *exchange);

static void on_written(uv_write_t *write, int status) {
	struct exchange *exchange = write->data;

	if (status < 0 || exchange->bytes == 0) {
		close_server(exchange);
	} else {
		send_part(exchange);
	}
}

static void send_part(struct exchange *exchange) {
	size_t n = exchange->part < exchange->bytes ? exchange->part : exchange->bytes;
	uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)exchange->data, (unsigned int)n);

	exchange->data += n;
	exchange->bytes -= n;
	exchange->write.data = exchange;
	if (uv_write(&exchange->write, (uv_stream_t *)&exchange->server, &buffer, 1, on_written)) {
		close_server(exchange);
	}
}

static void allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
	struct exchange *exchange = handle->data;

	(void)suggested;
	*buffer = uv_buf_init(exchange->question, sizeof(exchange->question));
}

static void on_question(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
	struct exchange *exchange = stream->data;

	(void)buffer;
	if (bytes < 0) {
		close_server(exchange);
	} else if (bytes > 0 && !exchange->requested) {
		exchange->requested = true;
		send_part(exchange);
	}
}

static void on_connection(uv_stream_t *listener, int status) {
	struct exchange *exchange = listener->data;

	REQUIRE(status == 0 && !exchange->server_open);
	REQUIRE(uv_tcp_init(&rig.loop, &exchange->server) == 0);
	exchange->server_open = true;
	exchange->server.data = exchange;
	REQUIRE(uv_accept(listener, (uv_stream_t *)&exchange->server) == 0);
	uv_tcp_nodelay(&exchange->server, 1);
	uv_read_start((uv_stream_t *)&exchange->server, allocate, on_question);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
	struct sockaddr_in name = {.sin_family = AF_INET};
	int length = sizeof(name);

	(void)argc;
	(void)argv;
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(uv_loop_init(&rig.loop) == 0);
	REQUIRE(weir_health_curl_create(&rig.loop, &rig.curl) == 0);
	REQUIRE(uv_tcp_init(&rig.loop, &rig.listener) == 0);
	REQUIRE(uv_tcp_bind(&rig.listener, (struct sockaddr *)&name, 0) == 0);
	REQUIRE(uv_listen((uv_stream_t *)&rig.listener, 8, on_connection) == 0);
	REQUIRE(uv_tcp_getsockname(&rig.listener, (struct sockaddr *)&name, &length) == 0);
	rig.port = ntohs(name.sin_port);
	return 0;
}

// --- probe --------------------------------------------------------------------------------

static void on_done(void *context, enum weir_probe_outcome outcome, const char *detail,
	const struct weir_report *report) {
	struct exchange *exchange = context;

	exchange->calls++;
	REQUIRE(outcome == WEIR_PROBE_PASSED || outcome == WEIR_PROBE_FAILED);
	REQUIRE(detail[0] != '\0' && strlen(detail) < 96);
	if (report != NULL) {
		struct weir_report again = *report;

		REQUIRE(weir_report_check(&again) == 0 && again.given == report->given);
		REQUIRE(again.word == report->word && strcmp(again.why, report->why) == 0);
	}
}

static struct weir_config_health_check check_of(uint8_t form) {
	static const enum weir_config_check types[] = {
		WEIR_CHECK_HTTP, WEIR_CHECK_GRPC, WEIR_CHECK_HTTPS, WEIR_CHECK_HTTP};
	struct weir_config_health_check check = {.type = types[form & 3],
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = TIMEOUT_MS,
		.url.path = "/",
		.orca = (form & 4) != 0};

	if ((form & 8) != 0) {
		memcpy(check.url.body, "abcabd", 7);
	}
	return check;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
	struct fuzz_input input = {data, bytes};
	struct weir_config_health_check check = check_of(fuzz_take8(&input));
	size_t parts = fuzz_take8(&input) % 8 + 1u;
	struct exchange exchange = {.data = input.data, .bytes = input.bytes};
	struct weir_probe_params params = {.address = {.bytes = {127, 0, 0, 1}, .family = 4},
		.port = rig.port,
		.check = &check,
		.done = on_done,
		.context = &exchange};
	struct weir_health_http *http;

	exchange.part = exchange.bytes / parts + 1;
	rig.listener.data = &exchange;
	uv_update_time(&rig.loop);
	REQUIRE(weir_health_http_start(rig.curl, &params, &http) == 0);
	while (exchange.calls == 0 || exchange.server_open) {
		uv_run(&rig.loop, UV_RUN_ONCE);
	}
	REQUIRE(exchange.calls == 1);
	return 0;
}
