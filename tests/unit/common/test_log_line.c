// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the format of log records as JSON and in the journal. The text of a record must not be able
// to forge another record.
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "log_line.h"
#include "test.h"

static const struct row {
	const char *text, *cleaned;
} rows[] = {
	{"", ""},
	{"web/web-1: \"healthy\" \\ 100 %", "web/web-1: \"healthy\" \\ 100 %"},
	{"a\tb\nc\rd\x1b[2J\x7f", "a b?c?d?[2J?"},
	{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
	{"\xc2\x9b"
	 "31m",
		"??31m"}, // control sequence introducer (CSI)
	{"\xe2\x80\xa8"
	 "x\xe2\x80\xa9",
		"???x???"}, // separators of lines and paragraphs
	{"\xe2\x80\xae"
	 "x\xe2\x81\xa6",
		"???x???"}, // bidirectional control characters
	{"\xc3(", "?("}, // no UTF-8 continuation byte
	{"\xc3", "?"}, // truncated UTF-8 sequence
	{"\xf0\x9f\x98", "???"},
	{"\xc0\xaf\xe0\x80\xaf", "?????"}, // overlong UTF-8 sequences
	{"\xed\xa0\x80", "???"}, // UTF-16 surrogate
	{"\xf4\x90\x80\x80\xff\xfe", "??????"},
};

TEST(clean_replaces_characters_that_forge_or_confuse) {
	char text[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "%s", rows[i].text);
		weir_log_clean(text);
		assert_string_equal(text, rows[i].cleaned);
	}
}

static json_t *object_of(const struct weir_log_fields *fields, const char *message) {
	char line[WEIR_LOG_LINE_BYTES], cleaned[WEIR_LOG_MESSAGE_BYTES];
	size_t bytes;
	json_t *object;

	snprintf(cleaned, sizeof(cleaned), "%s", message);
	weir_log_clean(cleaned);
	bytes = weir_log_json_line(WEIR_LOG_WARN, fields, cleaned, line);
	assert_in_range(bytes, 2, PIPE_BUF);
	assert_ptr_equal(memchr(line, '\n', bytes), line + bytes - 1);
	object = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(object);
	return object;
}

static const char *text_of(const json_t *object, const char *name) {
	return json_string_value(json_object_get(object, name));
}

TEST(json_has_time_level_message_and_fields) {
	struct weir_log_fields fields = {
		.service = "web", .backend = "web-1", .reason = "says \"no\\\"", .port = ""};
	json_t *object = object_of(&fields, "backend web/web-1: refusing");

	assert_int_equal(json_object_size(object), 6);
	assert_int_equal(strlen(text_of(object, "time")), strlen("2026-01-01T00:00:00.000Z"));
	assert_string_equal(text_of(object, "level"), "warn");
	assert_string_equal(text_of(object, "message"), "backend web/web-1: refusing");
	assert_string_equal(text_of(object, "service"), "web");
	assert_string_equal(text_of(object, "backend"), "web-1");
	assert_string_equal(text_of(object, "reason"), "says \"no\\\"");
	json_decref(object);
	object = object_of(NULL, "");
	assert_int_equal(json_object_size(object), 3);
	json_decref(object);
}

TEST(any_bytes_make_one_object_of_bounded_size) {
	char long_text[6000];
	unsigned int seed = 20261124;

	for (int i = 0; i < 3000; i++) {
		struct weir_log_fields fields = {.service = long_text,
			.backend = long_text + 1,
			.reason = long_text + 2,
			.before = long_text + 3,
			.after = long_text + 4,
			.object = long_text + 5};
		size_t length = 8 + (size_t)rand_r(&seed) % (sizeof(long_text) - 9);

		for (size_t j = 0; j < length; j++) {
			static const char often[] = "\"\\\n=\xc3\xa9\xe2\x82\xac";

			long_text[j] = rand_r(&seed) % 2 == 0
					       ? often[(size_t)rand_r(&seed) % (sizeof(often) - 1)]
					       : (char)(1 + rand_r(&seed) % 255);
		}
		long_text[length] = '\0';
		json_decref(object_of(&fields, long_text));
	}
}

// --- the journal --------------------------------------------------------------------------

struct journal { // a socket that replaces journald's socket
	char dir[32], path[64];
	int fd;
	int stream; // replaces a stderr that systemd has connected to the journal
	struct weir_log log;
	unsigned int lost;
	char text[WEIR_LOG_DATAGRAM_BYTES + 1];
};

static void bind_journal(struct journal *journal) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", journal->path);
	journal->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(journal->fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static int setup(void **state) {
	struct journal *journal = calloc(1, sizeof(*journal));
	struct stat status;
	char stream[64];
	FILE *file = tmpfile();

	strcpy(journal->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(journal->dir));
	snprintf(journal->path, sizeof(journal->path), "%s/socket", journal->dir);
	bind_journal(journal);
	journal->stream = dup(fileno(file));
	fclose(file);
	assert_int_equal(fstat(journal->stream, &status), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)status.st_dev,
		(uintmax_t)status.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	journal->log = (struct weir_log){.fd = journal->stream,
		.level = WEIR_LOG_INFO,
		.lost = &journal->lost,
		.journal_path = journal->path};
	weir_log_open(&journal->log, WEIR_LOG_FORMAT_AUTO);
	assert_int_equal(journal->log.sink, WEIR_LOG_JOURNAL);
	*state = journal;
	return 0;
}

static int teardown(void **state) {
	struct journal *journal = *state;

	weir_log_close(&journal->log);
	close(journal->fd);
	close(journal->stream);
	unlink(journal->path);
	rmdir(journal->dir);
	unsetenv("JOURNAL_STREAM");
	free(journal);
	return 0;
}

static const char *received(struct journal *journal) {
	ssize_t n = recv(journal->fd, journal->text, WEIR_LOG_DATAGRAM_BYTES, 0);

	journal->text[n > 0 ? n : 0] = '\0';
	return journal->text;
}

static off_t stream_bytes(const struct journal *journal) {
	struct stat status;

	assert_int_equal(fstat(journal->stream, &status), 0);
	return status.st_size;
}

TEST(journal_gets_fields_and_no_forged_ones, setup, teardown) {
	struct journal *journal = *state;
	struct weir_log_fields fields = {.service = "web",
		.backend = "web-1\nPRIORITY=0",
		.reason = "refused\nMESSAGE=all is well"};
	char expected[512];

	weir_log_event(&journal->log, WEIR_LOG_WARN, &fields, "backend %s\n_UID=0", "web");
	snprintf(expected, sizeof(expected),
		"PRIORITY=4\nSYSLOG_IDENTIFIER=%s\nMESSAGE=backend web?_UID=0\nWEIR_SERVICE=web\n"
		"WEIR_BACKEND=web-1?PRIORITY=0\nWEIR_REASON=refused?MESSAGE=all is well\n",
		program_invocation_short_name);
	assert_string_equal(received(journal), expected);
	assert_int_equal(stream_bytes(journal), 0);
}

// A message and fields of the maximum length are not truncated.
TEST(journal_accepts_the_longest_record, setup, teardown) {
	struct journal *journal = *state;
	char text[5000];
	struct weir_log_fields fields;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
#define X(name, key) fields.name = text;
	WEIR_LOG_FIELDS(X)
#undef X
	weir_log_event(&journal->log, WEIR_LOG_INFO, &fields, "%s", text);
	assert_in_range(strlen(received(journal)), WEIR_LOG_MESSAGE_BYTES, WEIR_LOG_DATAGRAM_BYTES);
	assert_non_null(strstr(journal->text, "\nWEIR_SERVICE=xxx"));
	assert_int_equal(journal->text[strlen(journal->text) - 1], '\n');
}

// No process reads from the journal's socket. This test blocks forever if logging waits until the
// socket has room.
TEST(slow_journal_is_not_waited_for, setup, teardown) {
	struct journal *journal = *state;
	unsigned int count = 0;
	bool reported = false;

	while (journal->lost == 0) {
		weir_log_write(&journal->log, WEIR_LOG_INFO, "line %u", count++);
		assert_true(count < 100000);
	}
	assert_int_equal(stream_bytes(journal), 0);
	while (received(journal)[0] != '\0') {
	}
	weir_log_write(&journal->log, WEIR_LOG_INFO, "there is room");
	assert_int_equal(journal->lost, 0);
	while (received(journal)[0] != '\0') {
		reported = reported || strstr(journal->text, "MESSAGE=log: 1 line dropped") != NULL;
	}
	assert_true(reported);
}

TEST(missing_journal_gets_text_on_its_stream, setup, teardown) {
	struct journal *journal = *state;
	off_t bytes;

	close(journal->fd);
	weir_log_write(&journal->log, WEIR_LOG_INFO, "refused");
	bytes = stream_bytes(journal);
	assert_true(bytes > 0);
	unlink(journal->path);
	weir_log_write(&journal->log, WEIR_LOG_INFO, "no such socket");
	assert_true(stream_bytes(journal) > bytes);
	assert_int_equal(journal->lost, 0);
	bind_journal(journal); // simulates a restart of journald
	weir_log_write(&journal->log, WEIR_LOG_INFO, "back");
	assert_non_null(strstr(received(journal), "MESSAGE=back\n"));
}

TEST(sink_is_the_journal_only_if_stderr_is, setup, teardown) {
	struct journal *journal = *state;
	struct weir_log log = {.fd = journal->fd};
	static const char *const wrong[] = {"", "x", "1", "1:", "0:0", "99999999999999999999:1"};

	weir_log_open(&log, WEIR_LOG_FORMAT_AUTO); // stderr is not the journal's stream
	assert_int_equal(log.sink, WEIR_LOG_TEXT);
	log.fd = journal->stream;
	weir_log_open(&log, WEIR_LOG_FORMAT_TEXT);
	assert_int_equal(log.sink, WEIR_LOG_TEXT);
	weir_log_open(&log, WEIR_LOG_FORMAT_JSON);
	assert_int_equal(log.sink, WEIR_LOG_JSON);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("JOURNAL_STREAM", wrong[i], 1);
		weir_log_open(&log, WEIR_LOG_FORMAT_AUTO);
		assert_int_equal(log.sink, WEIR_LOG_TEXT);
	}
	weir_log_close(&log);
}
