// SPDX-License-Identifier: BSD-3-Clause
#include "server.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "documents.h"

#define ASKERS 8
#define TIMEOUT_MS 5000 // long enough for a loaded machine
#define FIGURES(cpu) "{\"ok\": true, \"result\": {\"control\": {\"cpu_us\": " #cpu "}}}"

static const struct server_answer answers[] = {
	{"metrics.show", FIGURES(1000000) "\n" FIGURES(2000000) "\n" FIGURES(3000000)}, {0}};

static struct weir_log log_of_tests(void) {
	return (struct weir_log){.fd = STDERR_FILENO, .level = WEIR_LOG_ERROR};
}

static bool contains(struct weir_documents *documents, const char *lines) {
	struct weir_document *document = NULL;
	bool found;

	assert_int_equal(weir_documents_get(documents, WEIR_DOCUMENT_TEXT, &document), 0);
	found = memmem(document->data, document->bytes, lines, strlen(lines)) != NULL;
	weir_document_release(document);
	return found;
}

static void *ask(void *documents) {
	return contains(documents, "\nweir_control_cpu_seconds_total 1\n") ? documents : NULL;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Each answer from weir-control has a different value. All concurrent requests get the value of
// the first answer.
TEST(concurrent_requests_share_one_answer) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct weir_log log = log_of_tests();
	struct weir_documents *documents;
	pthread_t threads[ASKERS];

	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	for (int i = 0; i < ASKERS; i++) {
		pthread_create(&threads[i], NULL, ask, documents);
	}
	for (int i = 0; i < ASKERS; i++) {
		void *right = NULL;

		pthread_join(threads[i], &right);
		assert_non_null(right);
	}
	// After a while a new request is sent.
	for (uint64_t end = now_ms() + 15000;
		!contains(documents, "\nweir_control_cpu_seconds_total 2\n");) {
		assert_true(now_ms() < end);
		usleep(20000);
	}
	weir_documents_free(documents);
	server_stop(server);
}

// The page needs further answers. They take 300 ms together, so that the next request for figures
// is not sent within 3 s.
TEST(answers_for_the_page_delay_the_next_request) {
	const struct server_answer list[] = {answers[0], {"*", NULL}, {0}};
	struct server *server = server_start(SERVER_ANSWER, list);
	struct weir_log log = log_of_tests();
	struct weir_documents *documents;
	struct weir_document *document;

	assert_int_equal(
		weir_documents_create(server_folder(server), 100, false, &log, &documents), 0);
	assert_int_equal(weir_documents_get(documents, WEIR_DOCUMENT_STATUS, &document), 0);
	weir_document_release(document);
	usleep(1200000);
	assert_true(contains(documents, "\nweir_control_cpu_seconds_total 1\n"));
	weir_documents_free(documents);
	server_stop(server);
}

TEST(missing_answer_is_reported) {
	static const enum server_mode modes[] = {SERVER_HANG, SERVER_CLOSE, SERVER_DEAF};
	struct weir_log log = log_of_tests();

	for (size_t i = 0; i < 3; i++) {
		struct server *server = server_start(modes[i], answers);
		struct weir_documents *documents;

		assert_int_equal(
			weir_documents_create(server_folder(server), 100, false, &log, &documents),
			0);
		assert_true(contains(documents, "\nweir_control_up 0\n"));
		assert_false(contains(documents, "weir_dataplane_up 0"));
		weir_documents_free(documents);
		server_stop(server);
	}
}

// A scrape may take ten seconds. That is enough for one timeout, but the scrape must not also wait
// for the timeout of a sample.
TEST(after_a_sample_without_an_answer_no_request_waits) {
	struct server *server = server_start(SERVER_HANG, answers);
	struct weir_log log = log_of_tests();
	struct weir_documents *documents;
	uint64_t began;

	assert_int_equal(
		weir_documents_create(server_folder(server), 1000, false, &log, &documents), 0);
	weir_documents_sample(documents);
	began = now_ms();
	assert_true(contains(documents, "\nweir_control_up 0\n"));
	assert_true(now_ms() - began < 900);
	weir_documents_free(documents);
	server_stop(server);
}

// Without weir-dataplane, worker.show answers with an error. Such an answer nevertheless shows that
// weir-control runs.
TEST(a_sample_without_workers_is_an_answer) {
	const struct server_answer list[] = {
		answers[0], {"worker.show", "{\"ok\": false, \"error\": \"not attached\"}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, list);
	struct weir_log log = log_of_tests();
	struct weir_documents *documents;

	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	weir_documents_sample(documents);
	assert_true(contains(documents, "\nweir_control_up 1\n"));
	weir_documents_free(documents);
	server_stop(server);
}

// No scraper sends requests. The next sample detects that weir-control answers again.
TEST(recovery_is_logged_by_the_next_sample) {
	const struct server_answer list[] = {
		answers[0], {"worker.show", "{\"ok\": true, \"result\": []}"}, {0}};
	struct server *server = server_start(SERVER_CLOSE, list);
	struct weir_documents *documents;
	char text[4096] = "";
	struct weir_log log = {.level = WEIR_LOG_INFO};
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	log.fd = fds[1];
	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	weir_documents_sample(documents);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "closed the connection"));
	server_set_mode(server, SERVER_ANSWER);
	for (uint64_t end = now_ms() + 15000; strstr(text, "weir-control answers") == NULL;) {
		assert_true(now_ms() < end);
		usleep(20000);
		weir_documents_sample(documents);
		(void)read(fds[0], text, sizeof(text) - 1);
	}
	weir_documents_free(documents);
	server_stop(server);
	close(fds[0]);
	close(fds[1]);
}

// The second attempt does not use the connection that weir-control closed after its reply.
TEST(refusal_of_the_connection_is_logged) {
	const struct server_answer list[] = {
		{"*", "{\"ok\": false, \"error\": \"too many open connections\"}"}, {0}};
	struct server *server = server_start(SERVER_UNREAD, list);
	struct weir_documents *documents;
	char text[4096] = "";
	struct weir_log log = {.level = WEIR_LOG_INFO};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	log.fd = fds[1];
	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	assert_true(contains(documents, "\nweir_control_up 0\n"));
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "too many open connections"));
	weir_documents_free(documents);
	server_stop(server);
	close(fds[0]);
	close(fds[1]);
}

// weir-metrics runs with another --run-dir than weir-control.
TEST(absent_control_may_run_in_another_directory) {
	struct weir_documents *documents;
	char text[4096] = "";
	struct weir_log log = {.level = WEIR_LOG_INFO};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	log.fd = fds[1];
	assert_int_equal(
		weir_documents_create("/nonexistent", TIMEOUT_MS, false, &log, &documents), 0);
	weir_documents_sample(documents);
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "no /nonexistent/control/control.sock"));
	assert_non_null(strstr(text, "with the --run-dir of the running weir-control"));
	weir_documents_free(documents);
	close(fds[0]);
	close(fds[1]);
}

#define ENTRY(command, outcome) \
	"{\"time_ms\": 5, \"uid\": 4000000077, \"command\": \"" command \
	"\", \"object\": \"" command " " outcome "\", \"outcome\": \"" outcome "\"}"

// The page shows neither the users who made changes nor addresses of clients, because only users
// of the control socket are allowed to see them.
TEST(page_shows_changes_of_the_audit_and_starts) {
	static const struct server_answer list[] = {
		{"metrics.show", "{\"ok\": true, \"result\": {\"control\": {\"started_ms\": 7}, "
				 "\"dataplane\": {\"started_ms\": 8}}}"},
		{"audit.show",
			"{\"ok\": true, \"result\": [" ENTRY("host.drain", "done") ", " ENTRY(
				"vip.ready", "done") ", " ENTRY("backend.drain",
				"forbidden") ", " ENTRY("config.reload",
				"refused") ", " ENTRY("config.reload",
				"forbidden") ", " ENTRY("flow.delete", "done") "]}"},
		{"flow.steals", "{\"ok\": true, \"result\": {\"recent\": [{\"client\": "
				"\"192.0.2.77\", \"client_port\": 4077, \"to\": \"web-2\"}]}}"},
		{"*", "{\"ok\": true, \"result\": []}"}, {0}};
	static const char *const listed[] = {"\"host.drain done\"", "\"vip.ready done\"",
		"\"config.reload refused\"", "{\"time_ms\":7,\"process\":\"weir-control\"}",
		"{\"time_ms\":8,\"process\":\"weir-dataplane\"}", "\"to\":\"web-2\""};
	static const char *const unlisted[] = {"backend.drain", "config.reload forbidden",
		"flow.delete", "uid", "4000000077", "192.0.2.77", "client"};
	struct server *server = server_start(SERVER_ANSWER, list);
	struct weir_log log = log_of_tests();
	struct weir_documents *documents;
	struct weir_document *document;

	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	assert_int_equal(weir_documents_get(documents, WEIR_DOCUMENT_STATUS, &document), 0);
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
		if (memmem(document->data, document->bytes, listed[i], strlen(listed[i])) == NULL) {
			fail_msg("without %s", listed[i]);
		}
	}
	for (size_t i = 0; i < sizeof(unlisted) / sizeof(unlisted[0]); i++) {
		if (memmem(document->data, document->bytes, unlisted[i], strlen(unlisted[i])) !=
			NULL) {
			fail_msg("with %s", unlisted[i]);
		}
	}
	weir_document_release(document);
	weir_documents_free(documents);
	server_stop(server);
}

TEST(sent_document_outlives_a_newer_one) {
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct weir_log log = log_of_tests();
	struct weir_document *old;
	struct weir_documents *documents;

	assert_int_equal(
		weir_documents_create(server_folder(server), TIMEOUT_MS, false, &log, &documents),
		0);
	assert_int_equal(weir_documents_get(documents, WEIR_DOCUMENT_OPENMETRICS, &old), 0);
	weir_documents_free(documents);
	assert_memory_equal(old->data + old->bytes - 6, "# EOF\n", 6);
	weir_document_release(old);
	server_stop(server);
}
