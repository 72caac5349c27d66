// SPDX-License-Identifier: BSD-3-Clause
//
// Programs run by the helper process: results, output, timeouts, limits, and the end of each
// process.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "programs.h"
#include "programs_message.h"
#include "test.h"

#define DEADLINE_MS 20000
#define HELPERS 24

struct lab {
	uv_loop_t loop;
	struct weir_log log;
	unsigned int lost_lines;
	struct weir_programs *programs;
	char folder[64];
};

struct outcome {
	unsigned int calls;
	struct weir_program_result result;
};

// One for each test. They are started before libuv is used, as in weir-control: a process that is
// forked later would close descriptors that libuv shares between loops.
static int helpers[HELPERS];
static unsigned int used;

static int start_helpers(void **state) {
	struct weir_run_as run_as = {.uid = getuid(), .gid = getgid()};
	sigset_t all, before;
	int r = 0;

	(void)state;
	// As if weir-control was started by a process that blocks signals: a helper process that
	// does not get SIGCHLD never sees the end of a program.
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	for (unsigned int i = 0; r == 0 && i < HELPERS; i++) {
		r = weir_programs_start(&run_as, &helpers[i]);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

TEST_GROUP(start_helpers);

static void set_up(struct lab *lab) {
	*lab = (struct lab){.log = {.fd = STDERR_FILENO}, .folder = "/tmp/weir-programs-XXXXXX"};
	lab->log.lost = &lab->lost_lines;
	assert_non_null(mkdtemp(lab->folder));
	uv_loop_init(&lab->loop);
	assert_true(used < HELPERS);
	assert_int_equal(
		weir_programs_create(&lab->loop, helpers[used++], &lab->log, &lab->programs), 0);
}

static void tear_down(struct lab *lab) {
	char command[128];

	weir_programs_close(lab->programs);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	snprintf(command, sizeof(command), "rm -rf %s", lab->folder);
	assert_int_equal(system(command), 0);
}

static void done(void *context, const struct weir_program_result *result) {
	struct outcome *outcome = context;

	outcome->calls++;
	outcome->result = *result;
}

static void give_up(uv_timer_t *timer) {
	(void)timer;
	fail_msg("no result within %d ms", DEADLINE_MS);
}

static void wait_for(struct lab *lab, const struct outcome *outcome, unsigned int calls) {
	uv_timer_t timer;

	uv_timer_init(&lab->loop, &timer);
	uv_timer_start(&timer, give_up, DEADLINE_MS, 0);
	while (outcome->calls < calls) {
		uv_run(&lab->loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&timer, NULL);
	uv_run(&lab->loop, UV_RUN_NOWAIT);
}

static int start(struct lab *lab, const char *script, uint32_t timeout_ms, struct outcome *outcome,
	uint64_t *id) {
	const char *const arguments[] = {"/bin/sh", "-c", script, "sh", "first word", NULL};
	const char *const variables[] = {"WEIR_SERVICE=web", "EMPTY=", NULL};

	return weir_programs_run(lab->programs,
		&(struct weir_program){
			.arguments = arguments, .variables = variables, .timeout_ms = timeout_ms},
		done, outcome, id);
}

// Runs a shell script and writes its result as text.
static const char *run(struct lab *lab, const char *script, uint32_t timeout_ms) {
	static char text[512];
	struct outcome outcome = {0};
	uint64_t id;

	assert_int_equal(start(lab, script, timeout_ms, &outcome, &id), 0);
	wait_for(lab, &outcome, 1);
	weir_program_describe(&outcome.result, timeout_ms, text, sizeof(text));
	return text;
}

TEST(exit_status_and_first_line_are_returned) {
	struct lab lab;
	const char *text;

	set_up(&lab);
	assert_string_equal(run(&lab, "exit 0", 5000), "exit status 0");
	assert_string_equal(run(&lab, "echo one; echo two; exit 3", 5000), "exit status 3: one");
	assert_string_equal(run(&lab, "echo error >&2", 5000), "exit status 0: error");
	assert_string_equal(run(&lab, "kill -TERM $$", 5000), "ended by signal 15 (Terminated)");
	// a long line neither blocks the program nor fills memory
	text = run(&lab, "head -c 1000000 /dev/zero | tr '\\0' x; exit 4", 5000);
	assert_memory_equal(text, "exit status 4: xxx", 18);
	assert_int_equal(strlen(text), strlen("exit status 4: ") + WEIR_PROGRAM_OUTPUT_BYTES - 1);
	tear_down(&lab);
}

TEST(programs_get_words_and_a_small_environment) {
	struct lab lab;

	set_up(&lab);
	setenv("SECRET_OF_THE_PARENT", "1", 1);
	assert_string_equal(
		run(&lab, "echo \"$1,$WEIR_SERVICE,${EMPTY-unset},$SECRET_OF_THE_PARENT\"", 5000),
		"exit status 0: first word,web,,");
	assert_string_equal(run(&lab, "pwd", 5000), "exit status 0: /");
	assert_string_equal(run(&lab, "env | sort | cut -d= -f1 | tr '\\n' ' '", 5000),
		"exit status 0: EMPTY PATH PWD WEIR_SERVICE ");
	// standard input is empty, and no other descriptor is inherited; no pipeline, because the
	// shell may still have its pipe open
	assert_string_equal(
		run(&lab, "cat; ls -m /proc/$$/fd; true", 5000), "exit status 0: 0, 1, 2");
	assert_string_equal(
		run(&lab, "grep -c 'SigIgn:.*[1-9a-f]' /proc/$$/status", 5000), "exit status 1: 0");
	tear_down(&lab);
}

TEST(programs_have_no_privileges) {
	struct lab lab;

	set_up(&lab);
	assert_string_equal(run(&lab, "grep NoNewPrivs /proc/self/status | tr -d '\\t'", 5000),
		"exit status 0: NoNewPrivs:1");
	if (getuid() == 0) { // without a change of the user, root keeps no capability either
		assert_string_equal(run(&lab, "grep CapEff /proc/self/status | tr -d '\\t'", 5000),
			"exit status 0: CapEff:0000000000000000");
	}
	tear_down(&lab);
}

// The kernel refuses to start a file whose capabilities the process may not have.
TEST(programs_get_no_privileges_from_their_files) {
	struct lab lab;
	char command[256], path[128];
	cap_t caps = cap_from_text("cap_net_raw=ep");

	set_up(&lab);
	snprintf(path, sizeof(path), "%s/grep", lab.folder);
	snprintf(command, sizeof(command), "chmod 755 %s && cp /bin/grep %s", lab.folder, path);
	assert_int_equal(system(command), 0);
	if (getuid() == 0 && cap_set_file(path, caps) == 0) {
		snprintf(command, sizeof(command), "%s Cap /proc/self/status || exit 3", path);
		assert_memory_equal(run(&lab, command, 5000), "exit status 3", 13);
	}
	cap_free(caps);
	tear_down(&lab);
}

TEST(timeout_kills_the_process_group) {
	struct lab lab;
	struct stat file;
	char script[256], path[128];

	set_up(&lab);
	snprintf(path, sizeof(path), "%s/late", lab.folder);
	snprintf(script, sizeof(script), "(sleep 1; touch %s) & echo begun; sleep 30", path);
	assert_string_equal(run(&lab, script, 300), "killed after 300 ms: begun");
	usleep(1500000);
	assert_int_equal(stat(path, &file), -1); // its child was killed, too
	tear_down(&lab);
}

struct life {
	struct outcome outcome;
	int64_t ended_ms; // since the boot
};

static void on_end_of_life(void *context, const struct weir_program_result *result) {
	struct life *life = context;
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	life->ended_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	done(&life->outcome, result);
}

// Programs that are requested at once are started one after another. The timeout of each begins
// with its own start, which the program reads in ticks of 10 ms.
TEST(timeout_begins_with_the_start_of_the_program) {
	static const char script[] =
		"read -r line </proc/$$/stat; set -- $line; echo ${22}; exec sleep 60";
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	static struct life lives[WEIR_PROGRAMS_MAX];
	const long tick_ms = 1000 / sysconf(_SC_CLK_TCK);
	const uint32_t timeout_ms = 3000;
	struct lab lab;
	uint64_t id;

	set_up(&lab);
	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		assert_int_equal(weir_programs_run(lab.programs,
					 &(struct weir_program){
						 .arguments = arguments, .timeout_ms = timeout_ms},
					 on_end_of_life, &lives[i], &id),
			0);
	}
	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		const char *begun = lives[i].outcome.result.output;

		wait_for(&lab, &lives[i].outcome, 1);
		assert_int_equal(lives[i].outcome.result.end, WEIR_PROGRAM_TIMED_OUT);
		if (begun[0] != '\0') { // otherwise killed before it has read its start
			assert_true(lives[i].ended_ms - atol(begun) * tick_ms >= timeout_ms);
		}
	}
	tear_down(&lab);
}

TEST(result_does_not_wait_for_children) {
	struct lab lab;

	set_up(&lab); // the child holds standard output open
	assert_string_equal(run(&lab, "sleep 15 & echo done", 12000), "exit status 0: done");
	tear_down(&lab);
}

// Runs a script that leaves a child behind, which creates a file after 0.5 s.
static bool rest_continues(struct lab *lab, bool kill_rest) {
	char script[256], path[128];
	const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
	struct outcome outcome = {0};
	struct stat file;
	uint64_t id;

	snprintf(path, sizeof(path), "%s/rest", lab->folder);
	snprintf(script, sizeof(script), "(sleep 0.5; touch %s) & exit 0", path);
	assert_int_equal(
		weir_programs_run(lab->programs,
			&(struct weir_program){
				.arguments = arguments, .timeout_ms = 5000, .kill_rest = kill_rest},
			done, &outcome, &id),
		0);
	wait_for(lab, &outcome, 1);
	assert_int_equal(outcome.result.end, WEIR_PROGRAM_EXITED);
	for (int ms = 0; ms < (kill_rest ? 1000 : DEADLINE_MS); ms += 50) {
		if (stat(path, &file) == 0) {
			return true;
		}
		usleep(50000);
	}
	return false;
}

TEST(rest_of_the_group_is_killed_if_wanted) {
	struct lab lab;

	set_up(&lab);
	assert_false(rest_continues(&lab, true));
	assert_true(rest_continues(&lab, false));
	tear_down(&lab);
}

// Without a free descriptor, the helper process answers, and runs programs again later.
TEST(helper_survives_a_lack_of_descriptors) {
	struct lab lab;
	struct rlimit limit, few = {.rlim_cur = 3};
	int pid;

	set_up(&lab);
	pid = atoi(run(&lab, "echo $PPID", 5000) + strlen("exit status 0: "));
	assert_true(pid > 1);
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &limit), 0);
	few.rlim_max = limit.rlim_max;
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &few, NULL), 0);
	assert_string_equal(run(&lab, "exit 0", 5000), "cannot start: Too many open files");
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &limit, NULL), 0);
	assert_string_equal(run(&lab, "exit 3", 5000), "exit status 3");
	tear_down(&lab);
}

TEST(problem_is_that_there_is_no_helper) {
	struct lab lab;

	set_up(&lab);
	assert_null(weir_programs_problem(lab.programs));
	assert_non_null(strstr(weir_programs_problem(NULL), "could not start"));
	tear_down(&lab);
}

TEST(cancelled_program_is_killed_without_a_call) {
	struct lab lab;
	struct outcome outcome = {0};
	char script[256], path[128];
	struct stat file;
	uint64_t id;

	set_up(&lab);
	snprintf(path, sizeof(path), "%s/late", lab.folder);
	snprintf(script, sizeof(script), "sleep 1; touch %s", path);
	assert_int_equal(start(&lab, script, 5000, &outcome, &id), 0);
	weir_programs_cancel(lab.programs, id);
	weir_programs_cancel(lab.programs, id); // ended: does nothing
	weir_programs_cancel(lab.programs, 0);
	assert_string_equal(run(&lab, "sleep 1.5", 5000), "exit status 0");
	assert_int_equal(outcome.calls, 0);
	assert_int_equal(stat(path, &file), -1);
	tear_down(&lab);
}

static const char *start_file(struct lab *lab, const char *path) {
	const char *const arguments[] = {path, NULL};
	static char text[512];
	struct outcome outcome = {0};
	uint64_t id;

	assert_int_equal(weir_programs_run(lab->programs,
				 &(struct weir_program){.arguments = arguments, .timeout_ms = 5000},
				 done, &outcome, &id),
		0);
	wait_for(lab, &outcome, 1);
	weir_program_describe(&outcome.result, 5000, text, sizeof(text));
	return text;
}

TEST(unusable_files_are_not_run) {
	struct lab lab;
	char path[128];
	int fd;

	set_up(&lab);
	snprintf(path, sizeof(path), "%s/script", lab.folder);
	assert_string_equal(start_file(&lab, path), "cannot start: No such file or directory");
	assert_string_equal(start_file(&lab, lab.folder), "cannot start: not a regular file");
	fd = open(path, O_CREAT | O_WRONLY, 0755);
	assert_true(write(fd, "#!/bin/sh\necho ran\n", 19) == 19);
	close(fd);
	assert_string_equal(start_file(&lab, path), "exit status 0: ran");
	assert_int_equal(chmod(path, 0644), 0);
	assert_string_equal(start_file(&lab, path), "cannot start: Permission denied");
	assert_int_equal(chmod(path, 0777), 0);
	assert_memory_equal(start_file(&lab, path), "cannot start: users other than root", 35);
	if (getuid() == 0) {
		assert_int_equal(chmod(path, 0755), 0);
		assert_int_equal(chown(path, 1234, 0), 0);
		assert_memory_equal(
			start_file(&lab, path), "cannot start: users other than root", 35);
		assert_int_equal(chmod(path, 0775), 0);
		assert_int_equal(chown(path, 0, 1234), 0);
		assert_memory_equal(
			start_file(&lab, path), "cannot start: users other than root", 35);
	}
	tear_down(&lab);
}

TEST(number_and_size_are_limited) {
	static char long_word[WEIR_PROGRAM_TEXT_BYTES];
	struct lab lab;
	struct outcome outcome = {0};
	uint64_t id;

	set_up(&lab);
	for (unsigned int i = 0; i < WEIR_PROGRAMS_MAX; i++) {
		assert_int_equal(start(&lab, "sleep 1; exit 7", 10000, &outcome, &id), 0);
	}
	assert_int_equal(start(&lab, "exit 0", 1000, &outcome, &id), -EBUSY);
	wait_for(&lab, &outcome, WEIR_PROGRAMS_MAX);
	assert_int_equal(outcome.calls, WEIR_PROGRAMS_MAX);
	assert_int_equal(outcome.result.status, 7);
	memset(long_word, 'x', sizeof(long_word) - 1);
	assert_int_equal(start(&lab, long_word, 1000, &outcome, &id), -E2BIG);
	assert_string_equal(run(&lab, "exit 0", 5000), "exit status 0");
	tear_down(&lab);
}

TEST(death_of_the_helper_ends_all_runs) {
	struct lab lab;
	struct outcome outcome = {0};
	uint64_t id;
	int pid;

	set_up(&lab);
	assert_int_equal(start(&lab, "sleep 3", 10000, &outcome, &id), 0);
	assert_int_equal(start(&lab, "sleep 3", 10000, &outcome, &id), 0);
	pid = atoi(run(&lab, "echo $PPID", 5000) + strlen("exit status 0: "));
	assert_true(pid > 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	while (start(&lab, "exit 0", 1000, &outcome, &id) == 0) {
		usleep(1000); // until a request cannot be sent
	}
	assert_non_null(weir_programs_problem(lab.programs));
	wait_for(&lab, &outcome, 2);
	assert_int_equal(outcome.result.end, WEIR_PROGRAM_LOST);
	assert_string_equal(weir_programs_problem(lab.programs), outcome.result.output);
	assert_int_equal(start(&lab, "exit 0", 1000, &outcome, &id), -EPIPE);
	tear_down(&lab);
}

TEST(programs_end_after_the_connection) {
	struct lab lab;
	struct outcome outcome = {0};
	char script[256], path[128];
	struct stat file;
	uint64_t id;

	set_up(&lab);
	snprintf(path, sizeof(path), "/tmp/weir-programs-late-%d", (int)getpid());
	snprintf(script, sizeof(script), "sleep 0.5; touch %s", path);
	assert_int_equal(start(&lab, script, 10000, &outcome, &id), 0);
	tear_down(&lab);
	for (int ms = 0; stat(path, &file) < 0; ms += 50) {
		assert_true(ms < DEADLINE_MS);
		usleep(50000);
	}
	unlink(path);
	assert_int_equal(outcome.calls, 0);
}

TEST(broken_requests_are_rejected) {
	static struct weir_program_request request;
	const char *const arguments[] = {"/bin/true", "a", NULL};
	struct weir_program_words words;
	int bytes = weir_program_pack(
		&(struct weir_program){.arguments = arguments, .timeout_ms = 1}, 9, &request);

	assert_true(bytes > 0);
	assert_int_equal(weir_program_unpack(&request, (size_t)bytes, &words), 0);
	assert_string_equal(words.arguments[1], "a");
	assert_null(words.arguments[2]);
	assert_null(words.variables[0]);
	for (int short_of = 0; short_of < bytes; short_of++) {
		assert_int_equal(weir_program_unpack(&request, (size_t)short_of, &words), -EBADMSG);
	}
	request.arguments = 65535;
	assert_int_equal(weir_program_unpack(&request, (size_t)bytes, &words), -EBADMSG);
}
