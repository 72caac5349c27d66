// SPDX-License-Identifier: BSD-3-Clause
//
// Tests reports of backends in answers to checks. A server on the event loop of the test sends the
// answers. Runs in a network namespace of this process. Needs root.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health.h"
#include "watch_lab.h"

#define PORT 8300
#define BACKEND 3

struct lab {
	uv_loop_t loop;
	uv_tcp_t server;
	const char *answer; // answer of the server; NULL = it closes the connection
	size_t answer_bytes; // bytes of the answer; 0: the answer is text
	bool waits; // the server waits for a line, and keeps the connection
	char received[512]; // data sent to the server
	struct weir_health *health;
	struct weir_config_health_check check;
	enum weir_health_word word; // state in the last report of the backend
	int verdicts, reports, checks;
	enum weir_health_verdict verdict;
	struct weir_report report;
	char source[16];
};

// --- the server -----------------------------------------------------------------------------

static void free_handle(uv_handle_t *handle) {
	free(handle);
}

static void allocate(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
	struct lab *lab = handle->data;

	(void)size;
	memset(lab->received, 0, sizeof(lab->received));
	*buffer = uv_buf_init(lab->received, sizeof(lab->received) - 1);
}

static void on_rest(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
	(void)buffer;
	if (bytes < 0) {
		uv_close((uv_handle_t *)stream, free_handle);
	}
}

// An HTTP/2 client sends further data. If the server closed the connection before reading this
// data, the client would lose the answer.
static void on_written(uv_write_t *request, int status) {
	const struct lab *lab = request->handle->data;

	if (status < 0 || lab->answer_bytes == 0 ||
		uv_read_start(request->handle, allocate, on_rest) < 0) {
		uv_close((uv_handle_t *)request->handle, free_handle);
	}
	free(request);
}

static void answer(struct lab *lab, uv_stream_t *stream) {
	uv_write_t *request = calloc(1, sizeof(*request));
	size_t bytes = lab->answer_bytes > 0 ? lab->answer_bytes : strlen(lab->answer);
	uv_buf_t text = uv_buf_init((char *)lab->answer, (unsigned int)bytes);

	uv_write(request, stream, &text, 1, on_written);
}

static void on_read(uv_stream_t *stream, ssize_t bytes, const uv_buf_t *buffer) {
	struct lab *lab = stream->data;

	(void)buffer;
	uv_read_stop(stream);
	if (bytes < 0 || lab->answer == NULL) {
		uv_close((uv_handle_t *)stream, free_handle);
	} else {
		answer(lab, stream);
	}
}

static void on_connection(uv_stream_t *server, int status) {
	struct lab *lab = server->data;
	uv_tcp_t *stream = calloc(1, sizeof(*stream));

	assert_int_equal(status, 0);
	uv_tcp_init(&lab->loop, stream);
	stream->data = lab;
	uv_accept(server, (uv_stream_t *)stream);
	lab->checks++;
	if (lab->waits) {
		uv_read_start((uv_stream_t *)stream, allocate, on_read);
	} else if (lab->answer != NULL) {
		answer(lab, (uv_stream_t *)stream);
	} else {
		uv_close((uv_handle_t *)stream, free_handle);
	}
}

// --- the lab --------------------------------------------------------------------------------

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct lab *lab = context;

	(void)detail;
	assert_int_equal(backend, BACKEND);
	lab->verdicts++;
	lab->verdict = verdict;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	struct lab *lab = context;

	assert_int_equal(backend, BACKEND);
	lab->reports++;
	lab->report = *report;
	strncpy(lab->source, source, sizeof(lab->source) - 1);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct sockaddr_in address;

	uv_loop_init(&lab->loop);
	uv_ip4_addr("127.0.0.1", PORT, &address);
	uv_tcp_init(&lab->loop, &lab->server);
	lab->server.data = lab;
	lab->waits = true;
	assert_int_equal(uv_tcp_bind(&lab->server, (struct sockaddr *)&address, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&lab->server, 16, on_connection), 0);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	lab->check = (struct weir_config_health_check){
		.type = WEIR_CHECK_HTTP,
		.url.path = "/",
		.url.status_first = 200,
		.url.status_last = 399,
		.interval_ms = 20,
		.timeout_ms = 500,
		.rise = 2,
		.fall = 3,
	};
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	uv_close((uv_handle_t *)&lab->server, NULL);
	watch_lab_close(&lab->loop);
	free(lab);
	return 0;
}

static void configure_as(struct lab *lab, bool alongside) {
	struct weir_health_target target = {
		.alongside = alongside,
		.backend = BACKEND,
		.port = PORT,
		.address = watch_lab_address("127.0.0.1"),
		.check = &lab->check,
		.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
		.word = lab->word,
	};

	assert_int_equal(weir_health_configure(lab->health, &target, 1), 0);
}

static void configure(struct lab *lab) {
	configure_as(lab, false);
}

static bool has_report(void *context) {
	return ((struct lab *)context)->reports > 0;
}

static bool has_verdict(void *context) {
	return ((struct lab *)context)->verdicts > 0;
}

static struct weir_health_status status_of(struct lab *lab) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, BACKEND, false, &status), 0);
	return status;
}

// Change the server's answer to this text, and wait for the next report.
static struct weir_report say(struct lab *lab, const char *text) {
	lab->answer = text;
	watch_lab_idle(&lab->loop, 60); // until a check that started before the change has ended
	lab->reports = 0;
	watch_lab_run(&lab->loop, has_report, lab, 5000, text);
	return lab->report;
}

static void expect_silence(struct lab *lab, const char *text) {
	lab->answer = text;
	watch_lab_idle(&lab->loop, 60);
	lab->reports = 0;
	lab->checks = 0;
	watch_lab_idle(&lab->loop, 200);
	assert_in_range(lab->checks, 3, 20);
	assert_int_equal(lab->reports, 0);
}

#define HTTP(status, headers) "HTTP/1.1 " status "\r\n" headers "Content-Length: 0\r\n\r\n"

// --- HTTP -----------------------------------------------------------------------------------

TEST_GROUP(watch_lab_enter);
TEST_EACH(setup, teardown);

TEST(lame_duck_of_a_503_passes) {
	struct lab *lab = *state;

	lab->answer = HTTP("200 OK", "");
	configure(lab);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(lab->reports, 0);
	lab->verdicts = 0;
	assert_int_equal(say(lab, HTTP("503 Draining", "X-Weir-State: lame-duck\r\n")).word,
		WEIR_HEALTH_WORD_LAME_DUCK);
	assert_string_equal(lab->source, "http");
	assert_string_equal(status_of(lab).detail, "HTTP 503, lame-duck");
	watch_lab_idle(&lab->loop, 200); // time for more than `fall` checks
	assert_int_equal(lab->verdicts, 0);
	assert_true(lab->reports > 1); // the state is reported again
}

// With invalid UTF-8, the JSON row could not be created. Escape sequences could change the state of
// a terminal.
TEST(detail_of_a_hostile_server_is_printable) {
	static const char answer[] = // HTTP/2: SETTINGS, and HEADERS of a whole response
		"\0\0\0\4\0\0\0\0\0"
		"\0\0\x26\1\5\0\0\0\1\x88"
		"\0\x0bgrpc-status\2"
		"12\0\x0cgrpc-message\6no\xff\xc3\x9b.";
	struct lab *lab = *state;

	lab->check.type = WEIR_CHECK_GRPC;
	lab->answer = answer;
	lab->answer_bytes = sizeof(answer) - 1;
	configure(lab);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_string_equal(status_of(lab).detail, "UNIMPLEMENTED: no???.");
}

TEST(state_is_withdrawn_by_an_answer_without_it) {
	struct lab *lab = *state;

	lab->answer = HTTP("503 Draining", "X-Weir-State: lame-duck\r\n");
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "lame-duck");
	// An answer with a failing status does not withdraw the announced state.
	expect_silence(lab, HTTP("500 Oops", ""));
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	// The failed check has discarded the announced state, so there is no state to withdraw.
	expect_silence(lab, HTTP("200 OK", ""));
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(say(lab, HTTP("503 Draining", "X-Weir-State: starting\r\n")).word,
		WEIR_HEALTH_WORD_STARTING);
	lab->answer = HTTP("200 OK", "");
	lab->verdicts = 0;
	do {
		lab->reports = 0;
		watch_lab_run(&lab->loop, has_report, lab, 5000, "ready");
	} while (lab->report.word == WEIR_HEALTH_WORD_STARTING);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	assert_string_equal(lab->report.why, "answer has no X-Weir-State header");
	expect_silence(lab, HTTP("200 OK", "")); // withdrawn only once
	assert_int_equal(lab->verdicts, 0);
}

// An answer with an unknown state withdraws the state as an answer without the header does. The
// reason in the history names the unknown state.
TEST(state_is_withdrawn_by_an_unknown_one) {
	struct lab *lab = *state;

	lab->answer = HTTP("200 OK", "X-Weir-State: lame-duck\r\n");
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "lame-duck");
	lab->answer = HTTP("200 OK", "X-Weir-State: drain\r\n");
	do {
		lab->reports = 0;
		watch_lab_run(&lab->loop, has_report, lab, 5000, "ready");
	} while (lab->report.word == WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	assert_string_equal(
		lab->report.why, "X-Weir-State: unknown state \"drain\", use \"lame-duck\"");
	assert_string_equal(status_of(lab).detail,
		"HTTP 200; X-Weir-State: unknown state \"drain\", use \"lame-duck\"");
}

// A state that was announced before a reload, or to an earlier control process, is withdrawn.
TEST(state_is_withdrawn_by_another_check) {
	struct lab *lab = *state;

	lab->answer = HTTP("200 OK", "X-Weir-State: lame-duck\r\n");
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "lame-duck");
	lab->check.interval_ms = 30;
	configure(lab);
	lab->answer = HTTP("200 OK", "");
	do {
		lab->reports = 0;
		watch_lab_run(&lab->loop, has_report, lab, 5000, "ready");
	} while (lab->report.word == WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
	lab->word = WEIR_HEALTH_WORD_LAME_DUCK;
	lab->reports = 0;
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "ready");
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	assert_string_equal(lab->report.why, "answer has no X-Weir-State header");
}

TEST(down_is_reported_again_while_checks_fail) {
	struct lab *lab = *state;

	lab->answer = HTTP("200 OK", "X-Weir-State: down\r\n");
	configure(lab);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	lab->reports = 0;
	watch_lab_run(&lab->loop, has_report, lab, 5000, "down");
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_DOWN);
	assert_string_equal(lab->report.why, "HTTP 200, down");
}

TEST(load_is_requested_and_passed_on) {
	struct lab *lab = *state;

	lab->check.orca = true;
	lab->answer = HTTP("200 OK", "endpoint-load-metrics: TEXT cpu_utilization=0.5\r\n");
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "load");
	assert_int_equal(lab->report.given, WEIR_REPORT(UTILIZATION));
	assert_true(lab->report.utilization == 0.5);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_NONE);
	assert_non_null(strstr(lab->received, "\r\nendpoint-load-metrics-format: TEXT\r\n"));
	lab->check.orca = false; // a changed check
	configure(lab);
	expect_silence(lab, lab->answer);
	assert_null(strstr(lab->received, "endpoint-load-metrics-format"));
}

// --- agent-check ----------------------------------------------------------------------------

static void use_agent_check(struct lab *lab, bool alongside) {
	lab->check.type = WEIR_CHECK_AGENT_CHECK;
	lab->waits = false;
	configure_as(lab, alongside);
}

TEST(agent_check_reports_words_and_numbers) {
	struct lab *lab = *state;
	struct weir_report report;

	lab->answer = "up 75% maxconn:30\n";
	use_agent_check(lab, false);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	report = lab->report;
	assert_int_equal(report.word, WEIR_HEALTH_WORD_READY);
	assert_int_equal(report.given, WEIR_REPORT(WEIGHT_PERCENT) | WEIR_REPORT(MAX_ACTIVE));
	assert_true(report.weight_percent == 75);
	assert_true(report.max_active_flows == 30);
	assert_string_equal(lab->source, "agent-check");
	assert_string_equal(status_of(lab).detail, "reply \"up 75% maxconn:30\"");
	// Any line passes the check, but "up" does not end the state lame-duck.
	lab->verdicts = 0;
	assert_int_equal(say(lab, "drain # deploy\r\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(say(lab, "down # disk\n").word, WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(say(lab, "ready\n").word, WEIR_HEALTH_WORD_DOWN);
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_READY);
	expect_silence(lab, "garbage\n");
	assert_int_equal(lab->verdicts, 0);
}

TEST(agent_check_without_a_complete_line_fails) {
	struct lab *lab = *state;
	static char endless[4096];

	memset(endless, 'x', sizeof(endless) - 1);
	lab->answer = "drain";
	use_agent_check(lab, false);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_string_equal(status_of(lab).detail, "connection closed before a complete line");
	expect_silence(lab, endless);
	assert_string_equal(status_of(lab).detail, "reply line is too long");
	expect_silence(lab, NULL);
	assert_int_equal(lab->reports, 0);
}

TEST(agent_check_sends_its_line) {
	struct lab *lab = *state;

	strcpy(lab->check.send, "state of web");
	lab->answer = "ready\n";
	lab->check.type = WEIR_CHECK_AGENT_CHECK;
	configure(lab);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "ready");
	assert_string_equal(lab->received, "state of web\n");
}

TEST(silent_agent_times_out) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 20;
	lab->answer = "ready\n"; // the agent would answer only after it gets a line
	lab->check.type = WEIR_CHECK_AGENT_CHECK;
	configure(lab);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_string_equal(status_of(lab).detail, "timeout after 20 ms");
}

// If the agent cannot be reached, the backend does not fail. HAProxy does the same.
TEST(agent_check_alongside_gives_no_verdict) {
	struct lab *lab = *state;
	struct weir_health_status status;

	lab->answer = "drain\n";
	use_agent_check(lab, true);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "drain");
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(weir_health_status(lab->health, BACKEND, false, &status), -ENOENT);
	expect_silence(lab, NULL);
	assert_int_equal(weir_health_status(lab->health, BACKEND, true, &status), 0);
	assert_false(status.passed);
	assert_int_equal(lab->verdicts, 0);
}

TEST(drain_remains_after_a_reload) {
	struct lab *lab = *state;

	lab->answer = "drain\n";
	use_agent_check(lab, true);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "drain");
	lab->check.interval_ms = 30;
	configure_as(lab, true);
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(say(lab, "ready\n").word, WEIR_HEALTH_WORD_READY);
}

// The process that reported the drain has exited, so a failed check discards the drain.
TEST(drain_is_dropped_when_the_check_fails) {
	struct lab *lab = *state;
	struct weir_config_health_check http = lab->check;
	struct weir_health_target targets[2];

	lab->check.type = WEIR_CHECK_AGENT_CHECK;
	http.type = WEIR_CHECK_TCP;
	for (int i = 0; i < 2; i++) {
		targets[i] = (struct weir_health_target){
			.backend = BACKEND,
			.port = i == 0 ? 9 : PORT, // the service itself is down
			.address = watch_lab_address("127.0.0.1"),
			.check = i == 0 ? &http : &lab->check,
			.alongside = i == 1,
			.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
		};
	}
	lab->waits = false;
	lab->answer = "drain\n";
	http.fall = 10;
	assert_int_equal(weir_health_configure(lab->health, targets, 2), 0);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "drain");
	lab->answer = "up\n";
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_LAME_DUCK);
	watch_lab_run(&lab->loop, has_verdict, lab, 5000, "verdict");
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_READY);
}

// An operator overrules the drain that the agent announced. If the agent announces a drain
// again, the drain takes effect again.
TEST(drain_is_dropped_when_it_is_overruled) {
	struct lab *lab = *state;

	lab->answer = "drain\n";
	use_agent_check(lab, true);
	watch_lab_run(&lab->loop, has_report, lab, 5000, "drain");
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	weir_health_clear_words(lab->health, BACKEND);
	assert_int_equal(say(lab, "up\n").word, WEIR_HEALTH_WORD_READY);
	assert_int_equal(say(lab, "drain\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	weir_health_clear_words(lab->health, BACKEND);
	assert_int_equal(say(lab, "drain\n").word, WEIR_HEALTH_WORD_LAME_DUCK);
	weir_health_clear_words(lab->health, BACKEND + 1); // an unknown backend
}
