// SPDX-License-Identifier: BSD-3-Clause
//
// Tests probes and checks that run programs, with real shell scripts.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health.h"
#include "probe_lab.h"

#define HELPERS 20
#define DEADLINE_MS 20000
#define BACKENDS 100

struct lab {
	uv_loop_t loop;
	struct weir_log log;
	unsigned int lost_lines;
	struct weir_programs *programs;
	struct weir_health *health; // NULL in tests of single probes
	char folder[64];
	struct weir_config_health_check check;
	struct result result;
	unsigned int calls, reports;
	struct weir_report report; // the last one
};

// One for each test, started before libuv is used, as in weir-control.
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

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	(void)backend;
	(void)verdict;
	(void)detail;
	((struct lab *)context)->calls++;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	struct lab *lab = context;

	(void)backend;
	assert_string_equal(source, "exec");
	lab->reports++;
	lab->report = *report;
}

static void names_of(void *context, uint16_t backend, struct weir_health_names *ret) {
	(void)context;
	*ret = (struct weir_health_names){"web", backend == 7 ? "web-7" : "other"};
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->log = (struct weir_log){.fd = STDERR_FILENO, .lost = &lab->lost_lines};
	strcpy(lab->folder, "/tmp/weir-exec-XXXXXX");
	assert_non_null(mkdtemp(lab->folder));
	lab->check = (struct weir_config_health_check){.type = WEIR_CHECK_EXEC,
		.interval_ms = 50,
		.timeout_ms = 5000,
		.rise = 1,
		.fall = 1};
	uv_loop_init(&lab->loop);
	assert_true(used < HELPERS);
	assert_int_equal(
		weir_programs_create(&lab->loop, helpers[used++], &lab->log, &lab->programs), 0);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	weir_health_set_programs(lab->health, lab->programs, names_of);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	weir_programs_close(lab->programs);
	watch_lab_close(&lab->loop);
	// programs that are killed may still write files
	SHELL("for i in 1 2 3 4 5 6 7 8 9; do rm -rf %s 2>/dev/null && exit 0; sleep 0.3; done; "
	      "exit 1",
		lab->folder);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

// Sets the command of the check to a shell script with two arguments: the folder, and one with
// placeholders.
static void set_script(struct lab *lab, const char *script) {
	const char *const words[] = {
		"/bin/sh", "-c", script, "sh", lab->folder, "{backend}@[{address}]:{port}/{x}"};
	char *text = lab->check.command.text;

	lab->check.command.words = 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		text = stpcpy(text, words[i]) + 1;
		lab->check.command.words++;
	}
}

static void set_file(struct lab *lab, const char *path) {
	snprintf(lab->check.command.text, sizeof(lab->check.command.text), "%s", path);
	lab->check.command.words = 1;
}

static int start(struct lab *lab, struct weir_programs *programs, struct weir_health_exec **ret) {
	const struct weir_health_names names = {"web", "web-1"};
	const struct weir_probe_params params = {.address = watch_lab_address("2001:db8::11"),
		.port = 8080,
		.check = &lab->check,
		.done = probe_done,
		.context = &lab->result};

	lab->result = (struct result){0};
	return weir_health_exec_start(&lab->loop, programs, &names, &params, ret);
}

static void expect_of(struct lab *lab, struct weir_programs *programs,
	enum weir_probe_outcome outcome, const char *detail) {
	struct weir_health_exec *exec;

	assert_int_equal(start(lab, programs, &exec), 0);
	assert_int_equal(lab->result.calls, 0);
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, DEADLINE_MS, detail);
	assert_string_equal(lab->result.detail, detail);
	assert_int_equal(lab->result.outcome, outcome);
	assert_int_equal(lab->result.calls, 1);
}

static void expect(
	struct lab *lab, const char *script, enum weir_probe_outcome outcome, const char *detail) {
	set_script(lab, script);
	expect_of(lab, lab->programs, outcome, detail);
}

// Returns the number of files in the folder of the test.
static unsigned int count_files(const struct lab *lab) {
	DIR *folder = opendir(lab->folder);
	unsigned int count = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL) {
		count++;
	}
	closedir(folder);
	return count - 2;
}

static void touch(const struct lab *lab, const char *name) {
	SHELL("touch %s/%s", lab->folder, name);
}

// Returns the process id of the helper process.
static pid_t helper_of(struct lab *lab) {
	struct weir_health_exec *exec;
	pid_t pid;

	set_script(lab, "echo $PPID");
	assert_int_equal(start(lab, lab->programs, &exec), 0);
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, DEADLINE_MS, "the helper");
	pid = atoi(lab->result.detail + strlen("exit status 0: "));
	assert_true(pid > 1);
	return pid;
}

// --- single probes ------------------------------------------------------------------------

TEST(exec_passes_with_exit_status_0) {
	struct lab *lab = *state;

	expect(lab, "exit 0", WEIR_PROBE_PASSED, "exit status 0");
	expect(lab, "echo fine; echo more", WEIR_PROBE_PASSED, "exit status 0: fine");
	expect(lab, "exit 1", WEIR_PROBE_FAILED, "exit status 1");
	expect(lab, "echo no route >&2; exit 2", WEIR_PROBE_FAILED, "exit status 2: no route");
	expect(lab, "kill -KILL $$", WEIR_PROBE_FAILED, "ended by signal 9 (Killed)");
	assert_false(lab->result.reported);
}

TEST(exec_gets_the_backend) {
	struct lab *lab = *state;

	expect(lab, "echo \"$2\"", WEIR_PROBE_PASSED,
		"exit status 0: web-1@[2001:db8::11]:8080/{x}");
	expect(lab, "echo $WEIR_SERVICE,$WEIR_BACKEND,$WEIR_ADDRESS,$WEIR_PORT,$HOME",
		WEIR_PROBE_PASSED, "exit status 0: web,web-1,2001:db8::11,8080,");
	expect(lab, "env | cut -d= -f1 | sort | tr '\\n' ' '", WEIR_PROBE_PASSED,
		"exit status 0: PATH PWD WEIR_ADDRESS WEIR_BACKEND WEIR_PORT WEIR_SERVICE ");
}

// Sets a command with 90 placeholders in one argument.
static void set_long_argument(struct lab *lab, const char *placeholder) {
	char *text = stpcpy(lab->check.command.text, "/bin/true") + 1;

	for (int i = 0; i < 90; i++) {
		text = stpcpy(text, placeholder);
	}
	lab->check.command.words = 2;
}

TEST(exec_with_too_many_bytes_is_not_started) {
	char name[101];
	const struct weir_health_names names = {name, "web-1"};
	struct lab *lab = *state;
	const struct weir_probe_params params = {.address = watch_lab_address("10.0.0.1"),
		.check = &lab->check,
		.done = probe_done,
		.context = &lab->result};
	struct weir_health_exec *exec;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	set_long_argument(lab, "{address}");
	expect_of(lab, lab->programs, WEIR_PROBE_PASSED, "exit status 0");
	set_long_argument(lab, "{service}");
	assert_int_equal(
		weir_health_exec_start(&lab->loop, lab->programs, &names, &params, &exec), -E2BIG);
}

TEST(exec_that_is_slow_is_killed_with_its_group) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 300;
	expect(lab, "for i in 1 2 3 4 5 6 7 8; do (sleep 1; : >$1/$i) & done; echo begun; wait",
		WEIR_PROBE_FAILED, "killed after 300 ms: begun");
	watch_lab_idle(&lab->loop, 1200);
	assert_int_equal(count_files(lab), 0);
}

// A program that ends leaves no process behind.
TEST(exec_kills_what_the_program_leaves_behind) {
	struct lab *lab = *state;

	expect(lab, "(sleep 0.5; : >$1/late) & exit 0", WEIR_PROBE_PASSED, "exit status 0");
	watch_lab_idle(&lab->loop, 800);
	assert_int_equal(count_files(lab), 0);
}

// Processes that multiply cannot leave the group, so all of them are killed.
TEST(exec_that_forks_without_end_is_killed) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 200;
	expect(lab,
		"many() { n=$1; [ $n -gt 0 ] || return; (many $((n - 1))) & (many $((n - 1))) & "
		"wait; : >$folder/$$; sleep 20; }; folder=$1; many 6",
		WEIR_PROBE_FAILED, "killed after 200 ms");
	// a killed process is listed until its parent has waited for it
	SHELL("for i in $(seq 100); do pgrep -f '[m]any 6' >/dev/null || exit 0; sleep 0.1; done; "
	      "exit 1");
}

TEST(exec_discards_a_flood_of_output) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 500;
	set_script(lab, "yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	expect_of(lab, lab->programs, WEIR_PROBE_FAILED,
		"killed after 500 ms: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
		"xxxx");
	expect(lab, "head -c 1000000 /dev/zero", WEIR_PROBE_PASSED, "exit status 0");
}

TEST(exec_that_cannot_start_has_failed) {
	struct lab *lab = *state;

	set_file(lab, "/nonexistent/check");
	expect_of(lab, lab->programs, WEIR_PROBE_FAILED, "cannot start: No such file or directory");
	set_file(lab, "/etc/passwd");
	expect_of(lab, lab->programs, WEIR_PROBE_FAILED, "cannot start: Permission denied");
	set_file(lab, "/tmp");
	expect_of(lab, lab->programs, WEIR_PROBE_FAILED, "cannot start: not a regular file");
}

TEST(exec_without_a_helper_has_no_result) {
	static const char exited[] =
		"no result: the process that runs programs has exited; restart weir-control";
	struct lab *lab = *state;
	const pid_t helper = helper_of(lab);
	struct weir_health_exec *exec;

	expect_of(lab, NULL, WEIR_PROBE_UNKNOWN,
		"no result: the process that runs programs could not start; restart weir-control");
	set_script(lab, "sleep 2");
	assert_int_equal(start(lab, lab->programs, &exec), 0);
	assert_int_equal(kill(helper, SIGKILL), 0);
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, DEADLINE_MS, exited);
	assert_int_equal(lab->result.outcome, WEIR_PROBE_UNKNOWN);
	assert_string_equal(lab->result.detail, exited);
	expect_of(lab, lab->programs, WEIR_PROBE_UNKNOWN, exited);
}

// If the helper process is stopped, or a program cannot be killed, the probe ends anyway.
TEST(exec_whose_program_does_not_end_has_no_result) {
	struct lab *lab = *state;
	const pid_t helper = helper_of(lab);

	assert_int_equal(kill(helper, SIGSTOP), 0);
	lab->check.timeout_ms = 50;
	expect(lab, "exit 0", WEIR_PROBE_UNKNOWN,
		"no result: the program does not end although it was killed");
	assert_int_equal(kill(helper, SIGCONT), 0);
	lab->check.timeout_ms = 5000;
	expect(lab, "exit 0", WEIR_PROBE_PASSED, "exit status 0");
}

TEST(exec_cancelled_kills_and_calls_nothing) {
	struct lab *lab = *state;
	struct weir_health_exec *exec;

	set_script(lab, "sleep 0.5; : >$1/late");
	assert_int_equal(start(lab, lab->programs, &exec), 0);
	weir_health_exec_cancel(exec);
	assert_int_equal(start(lab, NULL, &exec), 0);
	weir_health_exec_cancel(exec);
	watch_lab_idle(&lab->loop, 900);
	assert_int_equal(lab->result.calls, 0);
	assert_int_equal(count_files(lab), 0);
}

TEST(exec_exit_status_is_a_weight_if_configured) {
	static const struct {
		const char *script, *detail;
		enum weir_probe_outcome outcome;
		int weight; // -1 = none
	} cases[] = {
		{"exit 0", "exit status 0", WEIR_PROBE_PASSED, -1},
		{"exit 1", "exit status 1", WEIR_PROBE_FAILED, -1},
		{"exit 2", "weight 0, exit status 2", WEIR_PROBE_PASSED, 0},
		{"echo half; exit 52", "weight 50, exit status 52: half", WEIR_PROBE_PASSED, 50},
		{"exit 255", "weight 253, exit status 255", WEIR_PROBE_PASSED, 253},
		{"kill -TERM $$", "ended by signal 15 (Terminated)", WEIR_PROBE_FAILED, -1},
	};
	struct lab *lab = *state;

	lab->check.weight_from_exit = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		expect(lab, cases[i].script, cases[i].outcome, cases[i].detail);
		assert_int_equal(lab->result.reported, cases[i].outcome == WEIR_PROBE_PASSED);
		assert_int_equal(
			lab->result.report.given, cases[i].weight < 0 ? 0 : WEIR_REPORT(WEIGHT));
		if (cases[i].weight >= 0) {
			assert_true(lab->result.report.weight == cases[i].weight);
		}
	}
}

// --- checks -------------------------------------------------------------------------------

// Checks n backends. first: index of the first one.
static void configure(struct lab *lab, uint32_t first, uint32_t n) {
	static struct weir_health_target targets[BACKENDS];

	for (uint32_t i = 0; i < n; i++) {
		targets[i] = (struct weir_health_target){.backend = (uint16_t)(7 + first + i),
			.address = watch_lab_address("10.0.0.7"),
			.check = &lab->check,
			.initial = WEIR_HEALTH_VERDICT_UNKNOWN};
	}
	assert_int_equal(weir_health_configure(lab->health, targets, n), 0);
}

static struct weir_health_status status_of(struct lab *lab, uint16_t backend) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, backend, false, &status), 0);
	return status;
}

static bool has_three_passes(void *context) {
	return status_of(context, 7).passes >= 3;
}

static bool is_failing(void *context) {
	return status_of(context, 7).verdict == WEIR_HEALTH_VERDICT_FAILING;
}

TEST(exec_check_has_a_verdict) {
	struct lab *lab = *state;

	set_script(lab, "echo \"$WEIR_SERVICE/$WEIR_BACKEND\"; test ! -e $1/down");
	configure(lab, 0, 1);
	watch_lab_run(&lab->loop, has_three_passes, lab, DEADLINE_MS, "passing");
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_string_equal(status_of(lab, 7).detail, "exit status 0: web/web-7");
	touch(lab, "down");
	watch_lab_run(&lab->loop, is_failing, lab, DEADLINE_MS, "failing");
	assert_string_equal(status_of(lab, 7).detail, "exit status 1: web/web-7");
	assert_int_equal(lab->calls, 2);
	assert_int_equal(lab->reports, 0);
}

// The details of checks are shorter than the texts of programs.
TEST(exec_check_has_the_whole_cure_in_its_detail) {
	struct lab *lab = *state;
	char path[96];

	snprintf(path, sizeof(path), "%s/check", lab->folder);
	touch(lab, "check");
	SHELL("chmod 0777 %s", path);
	set_file(lab, path);
	configure(lab, 0, 1);
	watch_lab_run(&lab->loop, is_failing, lab, DEADLINE_MS, "failing");
	assert_string_equal(status_of(lab, 7).detail,
		"cannot start: users other than root can change the file: chown root:root FILE; "
		"chmod go-w FILE");
}

static bool all_have_results(void *context) {
	for (uint16_t i = 0; i < BACKENDS; i++) {
		if (!status_of(context, (uint16_t)(7 + i)).checked) {
			return false;
		}
	}
	return true;
}

static bool are_late(void *context) {
	uint64_t ms;

	return weir_health_programs_late(((struct lab *)context)->health, -1, &ms) > 0 && ms > 50;
}

// All checks are due at once. Those that wait for longer than the timeout of a program still pass.
TEST(exec_checks_are_limited_and_wait) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 3000; // the last ones begin after 3.6 s
	set_script(lab, "mkdir $1/$$; ls $1 | wc -l >>$1.most; sleep 1.2; rmdir $1/$$");
	configure(lab, 0, BACKENDS);
	watch_lab_run(&lab->loop, are_late, lab, DEADLINE_MS, "late checks");
	watch_lab_run(&lab->loop, all_have_results, lab, DEADLINE_MS, "all results");
	for (uint16_t i = 0; i < BACKENDS; i++) {
		assert_int_equal(status_of(lab, (uint16_t)(7 + i)).fails, 0);
	}
	configure(lab, 0, 0);
	SHELL("most=$(sort -n %s.most | tail -n 1); rm %s.most; test $most -le %u", lab->folder,
		lab->folder, WEIR_HEALTH_PROGRAMS);
}

static bool all_places_are_taken(void *context) {
	return count_files(context) == WEIR_HEALTH_PROGRAMS && are_late(context);
}

static bool last_has_a_result(void *context) {
	return status_of(context, 7 + WEIR_HEALTH_PROGRAMS).checked;
}

// Removed backends leave their places to a check that waits, although no other check ends.
TEST(exec_check_that_waits_starts_when_others_are_removed) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 600000;
	set_script(lab, "test ! -e $1/end || exit 0; : >$1/$$; sleep 600");
	configure(lab, 0, WEIR_HEALTH_PROGRAMS + 1);
	watch_lab_run(&lab->loop, all_places_are_taken, lab, DEADLINE_MS, "a check that waits");
	touch(lab, "end");
	configure(lab, WEIR_HEALTH_PROGRAMS, 1);
	watch_lab_run(&lab->loop, last_has_a_result, lab, DEADLINE_MS, "its result");
}

static bool has_reports(void *context) {
	return ((struct lab *)context)->reports >= 2;
}

static bool has_empty_report(void *context) {
	return ((struct lab *)context)->report.given == 0;
}

// The weight is reported after each check. Exit status 0 withdraws it once.
TEST(exec_check_reports_and_withdraws_a_weight) {
	struct lab *lab = *state;
	uint64_t passes;
	unsigned int reports;

	lab->check.weight_from_exit = true;
	set_script(lab, "test ! -e $1/usual || exit 0; exit 52");
	configure(lab, 0, 1);
	watch_lab_run(&lab->loop, has_reports, lab, DEADLINE_MS, "reports");
	assert_int_equal(lab->report.given, WEIR_REPORT(WEIGHT));
	assert_true(lab->report.weight == 50);
	touch(lab, "usual");
	watch_lab_run(&lab->loop, has_empty_report, lab, DEADLINE_MS, "withdrawal");
	reports = lab->reports;
	passes = status_of(lab, 7).passes;
	watch_lab_idle(&lab->loop, 300);
	assert_true(status_of(lab, 7).passes > passes);
	assert_int_equal(lab->reports, reports);
}

TEST(exec_checks_without_a_helper_are_unchecked) {
	struct lab *lab = *state;

	weir_health_set_programs(lab->health, NULL, names_of);
	set_script(lab, "exit 0");
	configure(lab, 0, 1);
	watch_lab_idle(&lab->loop, 400);
	assert_true(weir_health_unchecked_ms(lab->health, 7) > 0);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_UNKNOWN);
	assert_true(status_of(lab, 7).without_result);
}
