// SPDX-License-Identifier: BSD-3-Clause
//
// Notifications: arguments and variables of the program, the order of changes, changes that wait,
// failures, and reloads.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "notify.h"
#include "test.h"

#define DEADLINE_MS 20000
#define HELPERS 16

struct lab {
	uv_loop_t loop;
	struct weir_log log;
	unsigned int lost_lines;
	struct weir_programs *programs;
	struct weir_notify *notify;
	struct weir_config_notify settings;
	char folder[64], script[128], out[128], gate[128], log_path[128];
};

static int helpers[HELPERS];
static unsigned int used;

static int start_helpers(void **state) {
	struct weir_run_as run_as = {.uid = getuid(), .gid = getgid()};

	(void)state;
	for (unsigned int i = 0; i < HELPERS; i++) {
		if (weir_programs_start(&run_as, &helpers[i]) < 0) {
			return -1;
		}
	}
	return 0;
}

TEST_GROUP(start_helpers);

static void set_command(struct lab *lab, const char *path, const char *argument) {
	size_t length = strlen(path) + 1;

	memcpy(lab->settings.command.text, path, length);
	memcpy(lab->settings.command.text + length, argument, strlen(argument) + 1);
	lab->settings.command.words = 2;
}

// A program that waits for the gate, and appends its arguments and some variables to a file.
static void write_script(const struct lab *lab) {
	FILE *file = fopen(lab->script, "w");

	assert_non_null(file);
	fprintf(file,
		"#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.02; done\n"
		"echo \"$* | $WEIR_EVENT $WEIR_SERVICE $WEIR_BACKEND $WEIR_ADDRESS $WEIR_PREVIOUS "
		"to "
		"$WEIR_STATE: $WEIR_REASON $WEIR_ELIGIBLE/$WEIR_BACKENDS/$WEIR_QUORUM "
		"$WEIR_TIME_MS\" >>%s\n[ \"$4\" != fails ] || { echo broken; exit 9; }\n",
		lab->gate, lab->out);
	fclose(file);
	assert_int_equal(chmod(lab->script, 0755), 0);
}

static void open_gate(const struct lab *lab) {
	fclose(fopen(lab->gate, "w"));
}

static void set_up(struct lab *lab) {
	*lab = (struct lab){.folder = "/tmp/weir-notify-XXXXXX",
		.settings = {.timeout_ms = 10000, .backends = true}};
	assert_non_null(mkdtemp(lab->folder));
	snprintf(lab->script, sizeof(lab->script), "%s/script", lab->folder);
	snprintf(lab->out, sizeof(lab->out), "%s/out", lab->folder);
	snprintf(lab->gate, sizeof(lab->gate), "%s/gate", lab->folder);
	snprintf(lab->log_path, sizeof(lab->log_path), "%s/log", lab->folder);
	lab->log =
		(struct weir_log){.fd = fileno(fopen(lab->log_path, "w")), .level = WEIR_LOG_INFO};
	lab->log.lost = &lab->lost_lines;
	write_script(lab);
	set_command(lab, lab->script, "first");
	uv_loop_init(&lab->loop);
	assert_true(used < HELPERS);
	assert_int_equal(
		weir_programs_create(&lab->loop, helpers[used++], &lab->log, &lab->programs), 0);
	assert_int_equal(weir_notify_create(&lab->loop, lab->programs, &lab->log, &lab->notify), 0);
	weir_notify_configure(lab->notify, &lab->settings);
}

static void close_notify(struct lab *lab) {
	weir_notify_close(lab->notify);
	weir_programs_close(lab->programs);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	close(lab->log.fd);
}

// No program of the lab is running any more.
static void remove_files(const struct lab *lab) {
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", lab->folder);
	assert_int_equal(system(command), 0);
}

static void tear_down(struct lab *lab) {
	close_notify(lab);
	remove_files(lab);
}

static void backend(
	struct lab *lab, uint16_t id, const char *name, const char *from, const char *to) {
	weir_notify_backend(lab->notify, id,
		&(struct weir_notify_event){.service = "web",
			.backend = name,
			.address = "192.0.2.1",
			.from = from,
			.to = to,
			.why = "timeout",
			.time_ms = 5});
}

static void service(struct lab *lab, const char *from, const char *to, uint32_t eligible) {
	weir_notify_service(lab->notify, 0,
		&(struct weir_notify_event){.service = "web",
			.from = from,
			.to = to,
			.why = "few",
			.eligible = eligible,
			.backends = 3,
			.quorum = 2,
			.time_ms = 7});
}

static const char *read_file(const char *path) {
	static char text[16384];
	FILE *file = fopen(path, "r");
	size_t n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file != NULL) {
		fclose(file);
	}
	text[n] = '\0';
	return text;
}

static unsigned int lines_of(const char *text) {
	unsigned int n = 0;

	for (; *text != '\0'; text++) {
		n += *text == '\n';
	}
	return n;
}

static void on_look(uv_timer_t *timer) {
	(void)timer;
}

// Runs the loop until the file has this number of lines.
static const char *wait_for_lines(struct lab *lab, const char *path, unsigned int lines) {
	uv_timer_t timer;

	uv_timer_init(&lab->loop, &timer);
	uv_timer_start(&timer, on_look, 5, 5);
	for (uint64_t begun = uv_hrtime(); lines_of(read_file(path)) < lines;) {
		uv_run(&lab->loop, UV_RUN_ONCE);
		assert_true(uv_hrtime() - begun < DEADLINE_MS * UINT64_C(1000000));
	}
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&lab->loop, UV_RUN_NOWAIT);
	return read_file(path);
}

TEST(arguments_and_variables_describe_the_change) {
	struct lab lab;

	set_up(&lab);
	open_gate(&lab);
	service(&lab, "up", "down", 1);
	backend(&lab, 3, "web-1", "healthy", "refusing");
	assert_string_equal(wait_for_lines(&lab, lab.out, 2),
		"first service web down | service web   up to down: few 1/3/2 7\n"
		"first backend web web-1 refusing | backend web web-1 192.0.2.1 healthy to "
		"refusing: timeout // 5\n");
	tear_down(&lab);
}

// While the first program waits for the gate, the backends change their states many times.
TEST(only_the_last_of_waiting_changes_is_reported) {
	struct lab lab;
	const char *text;

	set_up(&lab);
	service(&lab, "up", "down", 0);
	uv_run(&lab.loop, UV_RUN_NOWAIT); // the program of the service is running
	for (unsigned int i = 0; i < 100; i++) {
		backend(&lab, 1, "web-1", i % 2 == 0 ? "healthy" : "refusing",
			i % 2 == 0 ? "refusing" : "healthy"); // ends as it began
		backend(&lab, 2, "web-2", i % 2 == 0 ? "refusing" : "healthy",
			i % 2 == 0 ? "healthy" : "refusing");
	}
	backend(&lab, 2, "web-2", "refusing", "healthy");
	service(&lab, "down", "up", 3);
	open_gate(&lab);
	text = wait_for_lines(&lab, lab.out, 3);
	assert_string_equal(text, "first service web down | service web   up to down: few 0/3/2 7\n"
				  "first service web up | service web   down to up: few 3/3/2 7\n"
				  "first backend web web-2 healthy | backend web web-2 192.0.2.1 "
				  "refusing to healthy: timeout // 5\n");
	backend(&lab, 9, "web-9", "healthy", "lame"); // nothing of web-1 was left
	assert_int_equal(lines_of(wait_for_lines(&lab, lab.out, 4)), 4);
	tear_down(&lab);
}

TEST(id_of_another_object_does_not_replace_its_change) {
	struct lab lab;
	const char *text;

	set_up(&lab);
	service(&lab, "up", "down", 0);
	uv_run(&lab.loop, UV_RUN_NOWAIT);
	backend(&lab, 1, "old", "healthy", "refusing");
	backend(&lab, 1, "new", "starting", "healthy");
	backend(&lab, 1, "new", "healthy", "refusing");
	open_gate(&lab);
	text = wait_for_lines(&lab, lab.out, 3);
	assert_non_null(strstr(text, "first backend web old refusing |"));
	assert_non_null(strstr(
		text, "first backend web new refusing | backend web new 192.0.2.1 starting to"));
	assert_int_equal(lines_of(text), 3);
	tear_down(&lab);
}

TEST(failures_are_logged_and_the_next_change_runs) {
	struct lab lab;

	set_up(&lab);
	open_gate(&lab);
	backend(&lab, 1, "fails", "healthy", "refusing");
	backend(&lab, 2, "web-2", "healthy", "refusing");
	wait_for_lines(&lab, lab.out, 2);
	assert_non_null(strstr(wait_for_lines(&lab, lab.log_path, 1),
		"for backend web/fails, refusing: exit status 9: broken"));
	set_command(&lab, "/nonexistent/program", "");
	weir_notify_configure(lab.notify, &lab.settings);
	assert_non_null(strstr(wait_for_lines(&lab, lab.log_path, 2),
		"notify: /nonexistent/program: No such file or directory"));
	backend(&lab, 2, "web-2", "refusing", "healthy");
	assert_non_null(strstr(
		wait_for_lines(&lab, lab.log_path, 3), "cannot start: No such file or directory"));
	tear_down(&lab);
}

TEST(settings_can_leave_out_backends_and_all) {
	struct lab lab;

	set_up(&lab);
	open_gate(&lab);
	lab.settings.backends = false;
	weir_notify_configure(lab.notify, &lab.settings);
	backend(&lab, 1, "web-1", "healthy", "refusing");
	service(&lab, "up", "down", 0);
	wait_for_lines(&lab, lab.out, 1);
	service(&lab, "down", "up", 0); // waits when the reload removes the program
	lab.settings.command.words = 0;
	weir_notify_configure(lab.notify, &lab.settings);
	backend(&lab, 1, "web-1", "healthy", "refusing");
	for (int i = 0; i < 40; i++) {
		uv_run(&lab.loop, UV_RUN_NOWAIT);
		usleep(5000);
	}
	assert_int_equal(lines_of(read_file(lab.out)), 1);
	assert_string_equal(read_file(lab.log_path), "");
	tear_down(&lab);
}

// A reload while a program runs: its failure names that program and its timeout, and changes that
// wait are not reported later, when they may no longer be true.
TEST(reload_forgets_waiting_changes_but_not_what_runs) {
	struct lab lab;
	struct weir_config_notify none = {.timeout_ms = 60000};
	const char *text;

	set_up(&lab);
	backend(&lab, 1, "fails", "healthy", "refusing");
	uv_run(&lab.loop, UV_RUN_NOWAIT);
	backend(&lab, 2, "web-2", "healthy", "refusing");
	service(&lab, "up", "down", 0);
	weir_notify_configure(lab.notify, &none);
	backend(&lab, 2, "web-2", "refusing", "healthy"); // not reported: there is no program
	open_gate(&lab);
	text = wait_for_lines(&lab, lab.log_path, 1);
	assert_non_null(strstr(text, lab.script));
	assert_non_null(strstr(text, "exit status 9: broken"));
	weir_notify_configure(lab.notify, &lab.settings);
	backend(&lab, 3, "web-3", "healthy", "refusing");
	text = wait_for_lines(&lab, lab.out, 2);
	assert_non_null(strstr(text, "first backend web web-3 refusing |"));
	tear_down(&lab);
}

TEST(reload_without_backends_forgets_theirs_alone) {
	struct lab lab;

	set_up(&lab);
	service(&lab, "up", "down", 0);
	uv_run(&lab.loop, UV_RUN_NOWAIT);
	backend(&lab, 1, "web-1", "healthy", "refusing");
	service(&lab, "down", "up", 3);
	backend(&lab, 2, "web-2", "healthy", "refusing");
	lab.settings.backends = false;
	weir_notify_configure(lab.notify, &lab.settings);
	lab.settings.backends = true;
	weir_notify_configure(lab.notify, &lab.settings);
	backend(&lab, 2, "web-2", "refusing", "healthy");
	open_gate(&lab);
	assert_non_null(
		strstr(wait_for_lines(&lab, lab.out, 3), "first backend web web-2 healthy |"));
	assert_null(strstr(read_file(lab.out), "web-1"));
	tear_down(&lab);
}

TEST(without_a_helper_the_reason_is_logged) {
	struct lab lab;
	struct weir_programs *programs;

	set_up(&lab);
	programs = lab.programs;
	weir_notify_close(lab.notify);
	assert_int_equal(weir_notify_create(&lab.loop, NULL, &lab.log, &lab.notify), 0);
	weir_notify_configure(lab.notify, &lab.settings);
	service(&lab, "up", "down", 0);
	assert_non_null(strstr(wait_for_lines(&lab, lab.log_path, 2),
		"for service web, down: the process that runs programs could not start"));
	lab.programs = programs;
	tear_down(&lab);
}

// Returns the process id of the helper process.
static pid_t helper_of(struct lab *lab) {
	FILE *file = fopen(lab->script, "w");
	pid_t pid;

	assert_non_null(file);
	fprintf(file, "#!/bin/sh\necho $PPID >>%s\n", lab->out);
	fclose(file);
	service(lab, "up", "down", 0);
	pid = atoi(wait_for_lines(lab, lab->out, 1));
	assert_true(pid > 1);
	return pid;
}

// A program without an end, such as one that waits for a file system, delays the next ones, but
// does not stop them for ever. Here the helper process is stopped.
TEST(program_that_does_not_end_is_given_up) {
	struct lab lab;
	pid_t helper;

	set_up(&lab);
	helper = helper_of(&lab);
	lab.settings.timeout_ms = 100;
	weir_notify_configure(lab.notify, &lab.settings);
	assert_int_equal(kill(helper, SIGSTOP), 0);
	backend(&lab, 1, "web-1", "healthy", "refusing");
	// this program, or that of helper_of, if its result was not sent yet
	assert_non_null(strstr(wait_for_lines(&lab, lab.log_path, 1),
		"the program does not end although it was killed"));
	lab.settings.timeout_ms = 10000;
	weir_notify_configure(lab.notify, &lab.settings);
	assert_int_equal(kill(helper, SIGCONT), 0);
	backend(&lab, 2, "web-2", "healthy", "refusing");
	wait_for_lines(&lab, lab.out, 2);
	tear_down(&lab);
}

// When many backends fail, their changes do not delay that of the service.
TEST(services_go_before_backends) {
	struct lab lab;
	char name[16];

	set_up(&lab);
	backend(&lab, 0, "web-0", "healthy", "refusing");
	uv_run(&lab.loop, UV_RUN_NOWAIT); // its program is running
	for (uint16_t i = 1; i < 100; i++) {
		snprintf(name, sizeof(name), "web-%u", i);
		backend(&lab, i, name, "healthy", "refusing");
	}
	service(&lab, "up", "down", 0);
	open_gate(&lab);
	assert_non_null(strstr(wait_for_lines(&lab, lab.out, 2), "\nfirst service web down"));
	tear_down(&lab);
}

// 20 programs start per second.
TEST(starts_are_limited) {
	struct lab lab;
	uint64_t begun;

	set_up(&lab);
	open_gate(&lab);
	begun = uv_hrtime();
	for (uint16_t i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "web-%u", i);
		backend(&lab, i, name, "healthy", "refusing");
	}
	wait_for_lines(&lab, lab.out, 20);
	assert_true((uv_hrtime() - begun) / 1000000 >= 19 * 50 - 20);
	tear_down(&lab);
}

static void ignore(void *context, const struct weir_program_result *result) {
	(void)context;
	(void)result;
}

// Other programs use all runs for a moment.
TEST(busy_helper_delays_a_change) {
	static const char *const words[] = {"/bin/sleep", "0.2", NULL}, *const none[] = {NULL};
	const struct weir_program program = {
		.arguments = words, .variables = none, .timeout_ms = 5000};
	struct lab lab;

	set_up(&lab);
	open_gate(&lab);
	while (weir_programs_run(lab.programs, &program, ignore, NULL, NULL) == 0) {
	}
	service(&lab, "up", "down", 1);
	assert_string_equal(wait_for_lines(&lab, lab.out, 1),
		"first service web down | service web   up to down: few 1/3/2 7\n");
	tear_down(&lab);
}

TEST(close_ends_waiting_changes_and_no_running_program) {
	struct lab lab;
	uint64_t begun;

	set_up(&lab);
	service(&lab, "up", "down", 0);
	uv_run(&lab.loop, UV_RUN_NOWAIT);
	backend(&lab, 1, "web-1", "healthy", "refusing");
	close_notify(&lab);
	open_gate(&lab);
	for (begun = uv_hrtime(); lines_of(read_file(lab.out)) == 0; usleep(5000)) {
		assert_true(uv_hrtime() - begun < DEADLINE_MS * UINT64_C(1000000));
	}
	assert_string_equal(read_file(lab.out),
		"first service web down | service web   up to down: few 0/3/2 7\n");
	remove_files(&lab);
}
