// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "captured.h"
#include "cli_lab.h"

#define START \
	"{\"ok\": true, \"result\": {\"capture\": 7, \"workers\": 1, \"ports\": [\"wan\", " \
	"\"lan\"]}}"
#define STOPPED(lost, limited) \
	"{\"ok\": true, \"result\": {\"packets\": 9, \"lost\": " #lost ", \"limited\": " #limited \
	"}}"
#define PACKET(port, verdict) \
	"{\"time_ns\": 1795382264092013700, \"worker\": 0, \"port\": \"" port \
	"\", \"length\": 1500, \"data\": \"AP8Q\", " verdict "}"
#define FORWARD \
	"\"action\": \"forward\", \"choice\": \"new\", \"service\": \"web\", \"backend\": " \
	"\"web-2\", \"out_port\": \"lan\""
#define DROP "\"action\": \"drop\", \"reason\": \"no_backend\", \"service\": \"web\""
#define READ(ended, packets) \
	"{\"ok\": true, \"result\": {\"packets\": [" packets \
	"], \"lost\": 3, \"limited\": 5, \"more\": false, \"ended\": " ended "}}"
#define TWO PACKET("wan", FORWARD) ", " PACKET("lan", DROP)

// The answers to the requests of one capture.
#define ANSWERS(read, stop) \
	{{"capture.start", START}, {"capture.read", read}, {"capture.stop", stop}, {0}}

struct lab {
	struct server *server;
	char folder[64], file[96];
};

static void start(struct lab *lab, const struct server_answer *answers) {
	lab->server = server_start(SERVER_ANSWER, answers);
	strcpy(lab->folder, "/tmp/weirctl-capture-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	snprintf(lab->file, sizeof(lab->file), "%s/file", lab->folder);
}

static void stop(struct lab *lab) {
	server_stop(lab->server);
	unlink(lab->file);
	assert_int_equal(rmdir(lab->folder), 0);
}

static struct outcome capture(struct lab *lab, const char *option, const char *file) {
	return option != NULL ? RUN(server_folder(lab->server), "capture", "start", (char *)option,
					(char *)file)
			      : RUN(server_folder(lab->server), "capture", "start", (char *)file);
}

// Reads a file. Returns the number of bytes, and writes a NUL after them.
static size_t read_file(const char *name, char *data, size_t bytes) {
	FILE *file = fopen(name, "r");
	size_t n;

	assert_non_null(file);
	n = fread(data, 1, bytes - 1, file);
	data[n] = '\0';
	fclose(file);
	return n;
}

// Returns the number of blocks of this type. Checks that all blocks are complete.
static int count_blocks(const char *data, size_t bytes, uint32_t type) {
	size_t at = 0;
	int count = 0;

	while (at < bytes) {
		uint32_t word[2];

		assert_true(at + sizeof(word) <= bytes);
		memcpy(word, data + at, sizeof(word));
		assert_true(word[1] >= 12 && word[1] <= bytes - at);
		count += word[0] == type;
		at += word[1];
	}
	return count;
}

static bool file_has(const char *data, size_t bytes, const char *text) {
	return memmem(data, bytes, text, strlen(text)) != NULL;
}

// --- the file -----------------------------------------------------------------------------------

TEST(packets_are_written_with_their_verdicts) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"packets\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct stat status;
	struct lab lab;
	char data[4096], expected[160];
	size_t bytes;

	start(&lab, answers);
	outcome = capture(&lab, "--packets=2", lab.file);
	assert_int_equal(outcome.status, 0);
	snprintf(expected, sizeof(expected), "%s: 2 packets, 3 lost, 5 over the rate limit\n",
		lab.file);
	assert_string_equal(outcome.out, expected);
	assert_string_equal(outcome.err, "");
	assert_int_equal(stat(lab.file, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	bytes = read_file(lab.file, data, sizeof(data));
	assert_int_equal(count_blocks(data, bytes, 0x0a0d0d0a), 1);
	assert_int_equal(count_blocks(data, bytes, 1), 2);
	assert_int_equal(count_blocks(data, bytes, 6), 2);
	assert_true(file_has(data, bytes, "forward to web-2 of web (new flow) on lan"));
	assert_true(file_has(data, bytes, "drop: no_backend, service web"));
	assert_true(file_has(data, bytes, "filter: none"));
	free_outcome(&outcome);
	stop(&lab);
}

TEST(a_port_added_later_gets_an_interface) {
	static const struct server_answer answers[] = ANSWERS(
		READ("\"packets\"", PACKET("new", DROP) ", " PACKET("new", DROP)), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;
	char data[4096];
	size_t bytes;

	start(&lab, answers);
	outcome = capture(&lab, NULL, lab.file);
	assert_int_equal(outcome.status, 0);
	bytes = read_file(lab.file, data, sizeof(data));
	assert_int_equal(count_blocks(data, bytes, 1), 3);
	assert_true(file_has(data, bytes, "new"));
	free_outcome(&outcome);
	stop(&lab);
}

TEST(standard_output_has_only_the_file) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"packets\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;

	start(&lab, answers);
	outcome = capture(&lab, NULL, "-");
	assert_int_equal(outcome.status, 0);
	assert_memory_equal(outcome.out, "\x0a\x0d\x0d\x0a", 4);
	assert_string_equal(
		outcome.err, "standard output: 2 packets, 3 lost, 5 over the rate limit\n");
	free_outcome(&outcome);
	stop(&lab);
}

TEST(json_shows_the_numbers) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"packets\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;
	json_t *json;

	start(&lab, answers);
	outcome = capture(&lab, "--json", lab.file);
	json = json_loads(outcome.out, 0, NULL);
	assert_string_equal(json_string_value(json_object_get(json, "file")), lab.file);
	assert_int_equal(json_integer_value(json_object_get(json, "packets")), 2);
	assert_int_equal(json_integer_value(json_object_get(json, "lost")), 3);
	assert_int_equal(json_integer_value(json_object_get(json, "limited")), 5);
	assert_string_equal(json_string_value(json_object_get(json, "ended")), "packets");
	json_decref(json);
	free_outcome(&outcome);
	stop(&lab);
}

TEST(existing_files_are_kept) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"packets\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;
	char data[64], link[128];
	FILE *file;

	start(&lab, answers);
	file = fopen(lab.file, "w");
	fputs("precious", file);
	fclose(file);
	outcome = capture(&lab, NULL, lab.file);
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.err, "the file exists; --force replaces it");
	assert_string_equal(server_request(lab.server), ""); // no capture was started
	free_outcome(&outcome);
	// A symbolic link is not followed, not even with --force.
	snprintf(link, sizeof(link), "%s.link", lab.file);
	assert_int_equal(symlink(lab.file, link), 0);
	outcome = capture(&lab, NULL, link);
	assert_int_equal(outcome.status, 1);
	free_outcome(&outcome);
	outcome = capture(&lab, "--force", link);
	assert_int_equal(outcome.status, 0);
	free_outcome(&outcome);
	assert_int_equal(read_file(lab.file, data, sizeof(data)), 8);
	assert_string_equal(data, "precious");
	unlink(link);
	stop(&lab);
}

TEST(force_replaces_the_file_with_owner_only_access) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"packets\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct stat status;
	struct lab lab;
	FILE *file;

	start(&lab, answers);
	file = fopen(lab.file, "w");
	fputs("x", file);
	fclose(file);
	assert_int_equal(chmod(lab.file, 0666), 0);
	outcome = capture(&lab, "--force", lab.file);
	assert_int_equal(outcome.status, 0);
	assert_int_equal(stat(lab.file, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_true(status.st_size > 100);
	free_outcome(&outcome);
	stop(&lab);
}

TEST(unwritable_files_are_reported) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;

	start(&lab, answers);
	outcome = capture(&lab, NULL, "/nonexistent/file");
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.err, "weirctl: /nonexistent/file: No such file or directory\n");
	expect_contains(server_request(lab.server), "capture.stop");
	free_outcome(&outcome);
	outcome = capture(&lab, NULL, "/dev/full");
	assert_int_equal(outcome.status, 1);
	expect_contains(outcome.err, "weirctl: /dev/full: No space left on device\n");
	expect_contains(server_request(lab.server), "capture.stop");
	free_outcome(&outcome);
	stop(&lab);
}

// --- requests -----------------------------------------------------------------------------------

TEST(options_become_the_filter) {
	static const struct server_answer answers[] = {
		{"capture.start", "{\"ok\": false, \"code\": \"refused\", \"error\": \"no\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "capture", "start", "--service=web",
		"--backend=web-2", "--drop-reason=tx_full", "--drop-reason=no_backend",
		"--action=drop", "--action=reply", "--client=192.0.2.0/24",
		"--destination=198.51.100.10", "--protocol=tcp", "--port=80", "-", "--snaplen=64");
	json_t *request = json_loads(server_request(server), 0, NULL);
	json_t *expected =
		json_pack("{s:s, s:i, s:i, s:{s:s, s:s, s:[ss], s:[ss], s:s, s:s, s:s, s:i}}",
			"command", "capture.start", "snaplen", 64, "rate", 10000, "filter",
			"service", "web", "backend", "web-2", "reasons", "no_backend", "tx_full",
			"actions", "reply", "drop", "client", "192.0.2.0/24", "destination",
			"198.51.100.10", "protocol", "tcp", "destination_port", 80);

	assert_non_null(expected);
	assert_true(json_equal(request, expected));
	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err, "weirctl: refused: no\n");
	assert_string_equal(outcome.out, "");
	json_decref(expected);
	json_decref(request);
	free_outcome(&outcome);
	server_stop(server);
}

TEST(backend_may_be_named_with_its_service) {
	static const struct server_answer answers[] = {
		{"capture.start", "{\"ok\": false, \"code\": \"refused\", \"error\": \"no\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(
		server_folder(server), "capture", "start", "--backend=web/web-2", "/nonexistent/f");

	expect_contains(
		server_request(server), "\"filter\":{\"service\":\"web\",\"backend\":\"web-2\"}");
	free_outcome(&outcome);
	server_stop(server);
	outcome =
		RUN("/nonexistent", "capture", "start", "--backend=web/web-2", "--service=we", "f");
	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "and --service name different services");
	free_outcome(&outcome);
}

TEST(no_options_give_no_filter) {
	static const struct server_answer answers[] = {
		{"capture.start", "{\"ok\": false, \"code\": \"refused\", \"error\": \"no\"}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	struct outcome outcome = RUN(server_folder(server), "capture", "start", "--rate=5",
		"--packets=8", "/nonexistent/file");

	assert_string_equal(server_request(server),
		JSON({"command":"capture.start","snaplen":128,"rate":5,"packets":8}));
	free_outcome(&outcome);
	server_stop(server);
}

TEST(help_lists_the_drop_reasons) {
	struct outcome outcome = RUN("/nonexistent", "capture", "start", "--help");

	for (uint32_t i = 0; i < weir_captured_reason_count; i++) {
		expect_contains(outcome.out, weir_captured_reasons[i]);
	}
	expect_contains(outcome.out, "; may be repeated");
	free_outcome(&outcome);
}

TEST(invalid_options_are_usage_errors) {
	static const struct {
		char *option;
		const char *why;
	} cases[] = {
		{"--drop-reason=no-backend", "did you mean \"no_backend\"?"},
		{"--drop-reason=zzzzzzzzzzz", "\"weirctl capture start --help\" lists"},
		{"--action=dropp", "did you mean \"drop\"?"},
		{"--action=eat", "use forward, reply, kernel, drop or offer"},
		{"--protocol=ipv6-routing", "use tcp, udp or icmp"},
		{"--port=0", "use 1 to 65535"},
		{"--snaplen=63", "use 64 to 1536"},
		{"--rate=0", "--rate: use a whole number from 1 to 1000000"},
		{"--rate=1e9", "is not a rate"},
		{"--rate=99999999999999999999", "--rate: use a whole number from 1 to 1000000"},
		{"--packets=0", "use 1 to 1000000000"},
		{"--duration=x", "is not a duration"},
		{"--backend=web-1", "--backend needs --service or the form SERVICE/NAME"},
		{"--backend=web/", "expected NAME or SERVICE/NAME"},
		{"--backend=/web-1", "expected NAME or SERVICE/NAME"},
		{"--backend=web/web-1/x", "expected NAME or SERVICE/NAME"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome outcome =
			RUN("/nonexistent", "capture", "start", cases[i].option, "f");

		assert_int_equal(outcome.status, 2);
		expect_contains(outcome.err, cases[i].why);
		free_outcome(&outcome);
	}
}

// --- end of a capture ------------------------------------------------------------------------

TEST(a_duration_ends_it) {
	static const struct server_answer answers[] = ANSWERS(READ("null", ""), STOPPED(4, 6));
	struct outcome outcome;
	struct lab lab;

	start(&lab, answers);
	outcome = capture(&lab, "--duration=0.1", lab.file);
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, ": 0 packets, 4 lost, 6 over the rate limit\n");
	assert_string_equal(
		server_request(lab.server), JSON({"command":"capture.stop","capture":7}));
	free_outcome(&outcome);
	stop(&lab);
}

TEST(the_end_of_the_dataplane_is_reported) {
	static const struct server_answer answers[] =
		ANSWERS(READ("\"no-dataplane\"", TWO), STOPPED(0, 0));
	struct outcome outcome;
	struct lab lab;
	char data[4096];

	start(&lab, answers);
	outcome = capture(&lab, NULL, lab.file);
	assert_int_equal(outcome.status, 1);
	assert_string_equal(outcome.err, "weirctl: weir-control ended the capture: weir-dataplane "
					 "has exited or was restarted\n");
	expect_contains(outcome.out, ": 2 packets, 3 lost, 5 over the rate limit\n");
	assert_int_equal(count_blocks(data, read_file(lab.file, data, sizeof(data)), 6), 2);
	free_outcome(&outcome);
	stop(&lab);
}

TEST(invalid_answers_do_no_harm) {
	static const char *const reads[] = {
		"{\"ok\": true, \"result\": []}\n{\"ok\": true, \"result\": []}\n" READ(
			"\"packets\"", ""),
		READ("\"packets\"",
			"7, null, {}, [], {\"port\": 5, \"data\": \"====\", \"length\": -1}"),
		"{\"ok\": true, \"result\": {\"packets\": {\"a\": 1}, \"ended\": \"packets\"}}",
	};

	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		const struct server_answer answers[] = ANSWERS(reads[i], STOPPED(0, 0));
		struct outcome outcome;
		struct lab lab;
		char data[4096];

		start(&lab, answers);
		outcome = capture(&lab, "--duration=5", lab.file);
		assert_int_equal(outcome.status, 0);
		count_blocks(data, read_file(lab.file, data, sizeof(data)), 6);
		free_outcome(&outcome);
		stop(&lab);
	}
}

// Runs a capture in a separate process. Its error messages go to the file `err`. most: limit of
// file sizes in bytes, to simulate a full disk; 0 = no limit.
static pid_t capture_beside(struct lab *lab, const char *err, rlim_t most) {
	char *argv[] = {"weirctl", "--timeout=500", "capture", "start", lab->file, NULL};
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit limit = {.rlim_cur = most, .rlim_max = RLIM_INFINITY};
		FILE *file = fopen(err, "w");
		int r;

		if (most > 0) {
			signal(SIGXFSZ, SIG_IGN);
			setrlimit(RLIMIT_FSIZE, &limit);
		}
		r = weir_cli_main(5, argv, server_folder(lab->server), file, file);

		fclose(file);
		_exit(r);
	}
	return pid;
}

static void wait_for_packets(const char *file) {
	const struct timespec pause = {.tv_nsec = 1000000};
	struct stat status;

	for (int i = 0; i < 10000; i++) {
		if (stat(file, &status) == 0 && status.st_size > 500) {
			return;
		}
		nanosleep(&pause, NULL);
	}
	fail_msg("no packets came");
}

static void expect_exit(pid_t pid, int expected) {
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), expected);
}

TEST(an_interrupt_stops_it_and_keeps_the_file) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 1));
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	static char data[1 << 20];

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct lab lab;
		char err[128];
		pid_t pid;

		start(&lab, answers);
		snprintf(err, sizeof(err), "%s.err", lab.file);
		pid = capture_beside(&lab, err, 0);
		wait_for_packets(lab.file);
		kill(pid, signals[i]);
		expect_exit(pid, 0);
		assert_string_equal(
			server_request(lab.server), JSON({"command":"capture.stop","capture":7}));
		read_file(err, data, sizeof(data));
		expect_contains(data, " packets, 0 lost, 1 over the rate limit\n");
		unlink(err);
		stop(&lab);
	}
}

TEST(an_interrupt_ends_the_wait_for_a_reader) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 1));
	const struct timespec pause = {.tv_nsec = 1000000};
	struct lab lab;
	char err[128], text[512];
	pid_t pid;

	start(&lab, answers);
	snprintf(err, sizeof(err), "%s.err", lab.file);
	assert_int_equal(mkfifo(lab.file, 0600), 0);
	pid = capture_beside(&lab, err, 0);
	while (strstr(server_request(lab.server), "capture.start") == NULL) {
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGINT);
	expect_exit(pid, 1);
	assert_string_equal(
		server_request(lab.server), JSON({"command":"capture.stop","capture":7}));
	read_file(err, text, sizeof(text));
	expect_contains(text, "/file: the pipe has no reader\n");
	unlink(err);
	stop(&lab);
}

// weirctl has read two packets before the interrupt. At the end, the pipe must contain both packets
// completely.
TEST(an_interrupt_ends_the_wait_for_a_stopped_reader) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 1));
	const struct timespec pause = {.tv_nsec = 1000000};
	static char data[1 << 17];
	int reader, held = 0;
	struct lab lab;
	char err[128];
	ssize_t bytes;
	pid_t pid;

	start(&lab, answers);
	snprintf(err, sizeof(err), "%s.err", lab.file);
	assert_int_equal(mkfifo(lab.file, 0600), 0);
	reader = open(lab.file, O_RDONLY | O_NONBLOCK);
	pid = capture_beside(&lab, err, 0);
	while (held < fcntl(reader, F_GETPIPE_SZ) - 8192) {
		nanosleep(&pause, NULL);
		assert_int_equal(ioctl(reader, FIONREAD, &held), 0);
	}
	kill(pid, SIGINT);
	expect_exit(pid, 0);
	assert_string_equal(
		server_request(lab.server), JSON({"command":"capture.stop","capture":7}));
	bytes = read(reader, data, sizeof(data));
	assert_true(bytes >= held);
	assert_true(count_blocks(data, (size_t)bytes, 6) > 100);
	close(reader);
	unlink(err);
	stop(&lab);
}

TEST(the_end_of_the_daemon_leaves_a_complete_file) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 0));
	static char data[1 << 24];
	struct lab lab;
	char err[128];
	pid_t pid;

	start(&lab, answers);
	snprintf(err, sizeof(err), "%s.err", lab.file);
	pid = capture_beside(&lab, err, 0);
	wait_for_packets(lab.file);
	server_stop(lab.server);
	expect_exit(pid, 3);
	assert_true(count_blocks(data, read_file(lab.file, data, sizeof(data)), 6) >= 2);
	read_file(err, data, sizeof(data));
	expect_contains(data, "weirctl: weir-control closed the connection");
	expect_contains(data, " packets, 3 lost, 5 over the rate limit\n");
	unlink(err);
	unlink(lab.file);
	assert_int_equal(rmdir(lab.folder), 0);
}

// The limit of the file size is reached at different positions: in the file headers, or in packets
// of 200 bytes and more.
TEST(a_full_file_ends_after_a_complete_packet) {
	static const struct server_answer answers[] = ANSWERS(READ("null", TWO), STOPPED(0, 0));

	for (rlim_t most = 1000; most < 1500; most += 41) {
		struct lab lab;
		char data[4096], err[128];
		size_t bytes;
		pid_t pid;

		start(&lab, answers);
		snprintf(err, sizeof(err), "%s.err", lab.file);
		pid = capture_beside(&lab, err, most);
		expect_exit(pid, 1);
		bytes = read_file(lab.file, data, sizeof(data));
		assert_true(bytes <= most && bytes > most - 250);
		assert_true(count_blocks(data, bytes, 6) >= 2);
		read_file(err, data, sizeof(data));
		expect_contains(data, "/file: File too large\n");
		unlink(err);
		stop(&lab);
	}
}
