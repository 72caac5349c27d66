// SPDX-License-Identifier: BSD-3-Clause
//
// The weir-dataplane process, with AF_XDP on a veth and a tap, in a separate network namespace. The
// test acts as control at the hand-over socket.
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "config_running.h"
#include "device_lab.h"
#include "handover.h"
#include "segment.h"
#include "test.h"

#define DEADLINE_S 20
#define AF_XDP_PORT "{\"name\":\"wan\",\"device\":\"net_af_xdp0,iface=mn0\",\"vlan\":7}"
#define TAP_PORT \
	"{\"name\":\"lan\",\"device\":\"net_null0\",\"exception\":\"net_tap0,iface=mntap\"}"

struct lab {
	char directory[32];
	char config[64];
	char run_dir[64];
	char log[64];
	const char *group; // group of the process's files
	uid_t user; // user that the process is started as
};

static int open_namespace(void **state) {
	(void)state;
	return geteuid() == 0 && unshare(CLONE_NEWNET) < 0 ? -1 : 0;
}

static void write_config(struct lab *lab, const char *ports, unsigned long flows) {
	FILE *file = fopen(lab->config, "w");

	assert_non_null(file);
	fprintf(file,
		"{\"ports\":[%s],\"workers\":{\"cores\":[0,0]},"
		"\"flow_table\":{\"flows_per_worker\":%lu},"
		"\"segment\":{\"heap_bytes\":16777216},\"services\":[]}\n",
		ports, flows);
	fclose(file);
}

static int open_lab(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	*state = lab;
	if (lab == NULL || geteuid() != 0) {
		return 0; // the test skips itself
	}
	lab->group = "0";
	snprintf(lab->directory, sizeof(lab->directory), "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(lab->directory));
	snprintf(lab->config, sizeof(lab->config), "%s/weir.json", lab->directory);
	snprintf(lab->run_dir, sizeof(lab->run_dir), "%s/run", lab->directory);
	snprintf(lab->log, sizeof(lab->log), "%s/log", lab->directory);
	write_config(lab, AF_XDP_PORT "," TAP_PORT, 4096);
	SHELL("ip link add mn0 type veth peer name mn1");
	SHELL("ip link set mn0 up && ip link set mn1 up");
	return 0;
}

static int close_lab(void **state) {
	struct lab *lab = *state;

	if (geteuid() == 0) {
		SHELL("ip link del mn0");
		SHELL("rm -r %s", lab->directory);
	}
	free(lab);
	return 0;
}

// --- the process --------------------------------------------------------------------------

// Under AddressSanitizer, a process that leaks memory exits with an error. Memory that
// the AF_XDP driver and its libraries do not free is ignored.
static void forgive_the_driver(struct lab *lab) {
	char path[64], options[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/leaks", lab->directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("leak:librte_net_af_xdp\nleak:librte_net_tap\n", file);
	fclose(file);
	snprintf(options, sizeof(options), "suppressions=%s:print_suppressions=0", path);
	setenv("LSAN_OPTIONS", options, 1);
	setenv("ASAN_OPTIONS", "fast_unwind_on_malloc=0", 1);
}

static pid_t spawn_with_log(struct lab *lab, const char *run_dir, int log) {
	const char *binary = getenv("WEIR_DATAPLANE");
	pid_t pid;

	assert_non_null(binary);
	forgive_the_driver(lab);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (dup2(log, STDERR_FILENO) < 0 ||
			setresuid(lab->user, lab->user, lab->user) < 0) {
			_exit(99);
		}
		execl(binary, binary, "--config", lab->config, "--run-dir", run_dir, "--group",
			lab->group, "--control-user", "root", "--steer-object",
			getenv("WEIR_STEER_OBJECT"), NULL);
		_exit(99);
	}
	return pid;
}

static pid_t spawn(struct lab *lab, const char *run_dir) {
	pid_t pid;
	int log;

	unlink(lab->log); // may contain the driver's message about an earlier program
	log = open(lab->log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(log >= 0);
	pid = spawn_with_log(lab, run_dir, log);
	close(log);
	return pid;
}

static const char *log_text(struct lab *lab) {
	static char text[16384];
	FILE *file = fopen(lab->log, "r");
	size_t n;

	assert_non_null(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	return text;
}

static void check_log(struct lab *lab, const char *what) {
	if (strstr(log_text(lab), what) == NULL) {
		fail_msg("no \"%s\" in the log:\n%s", what, log_text(lab));
	}
}

static double now_s(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void nap(void) {
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static int exit_status(struct lab *lab, pid_t pid) {
	double deadline = now_s() + DEADLINE_S;
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (now_s() > deadline) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			fail_msg("still runs:\n%s", log_text(lab));
		}
		nap();
	}
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void wait_ready(struct lab *lab, pid_t pid) {
	double deadline = now_s() + DEADLINE_S;

	while (access(lab->log, R_OK) < 0 || strstr(log_text(lab), " ready: ") == NULL) {
		if (now_s() > deadline || waitpid(pid, NULL, WNOHANG) != 0) {
			kill(pid, SIGKILL);
			fail_msg("not ready:\n%s", log_text(lab));
		}
		nap();
	}
}

static uint32_t xdp_program(void) {
	uint32_t id = 0;

	assert_int_equal(bpf_xdp_query_id((int)if_nametoindex("mn0"), 0, &id), 0);
	return id;
}

static void check_nothing_left(struct lab *lab) {
	struct weir_config *runs;
	char path[128];

	snprintf(path, sizeof(path), "%s/" WEIR_HANDOVER_SOCKET, lab->run_dir);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(weir_config_running_read(lab->run_dir, 0, &runs), -ENOENT);
	assert_int_equal(xdp_program(), 0);
	assert_int_equal(if_nametoindex("mntap"), 0);
}

static void stop(struct lab *lab, pid_t pid, int sig) {
	assert_int_equal(kill(pid, sig), 0);
	assert_int_equal(exit_status(lab, pid), 0);
	check_log(lab, "ended");
	check_nothing_left(lab);
}

// --- tests --------------------------------------------------------------------------------

TEST_GROUP(open_namespace);
TEST_EACH(open_lab, close_lab);

TEST(control_receives_segment_and_vip_map) {
	struct lab *lab = *state;
	struct weir_handover handover;
	struct weir_segment *segment;
	struct weir_config *runs;
	int connection;
	char why[256], byte;
	uint64_t beat;
	pid_t pid;

	device_lab_need_root();
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	assert_int_equal(
		weir_handover_connect(lab->run_dir, &handover, &connection, why, sizeof(why)), 0);
	assert_int_equal(weir_segment_attach(handover.statistics_fd, handover.tables_fd, &segment,
				 why, sizeof(why)),
		0);
	assert_int_equal(segment->workers, 2);
	assert_int_equal(segment->ports, 2);
	assert_int_equal(segment->header->dataplane_pid, pid);
	assert_int_equal(weir_config_running_read(lab->run_dir, segment->epoch, &runs), 0);
	assert_int_equal(runs->ports[0].vlan, 7);
	weir_config_free(runs);
	assert_string_equal(segment->header->port[0].kernel_interface, "mn0");
	assert_int_equal(segment->header->port[0].kernel_ifindex, if_nametoindex("mn0"));
	assert_int_equal(segment->header->port[0].steered, 1);
	assert_int_equal(segment->header->port[0].vlan, 7);
	assert_string_equal(segment->header->port[1].kernel_interface, "mntap");
	assert_int_equal(segment->header->port[1].steered, 0);
	assert_int_equal(handover.vip_maps, 2);
	assert_true(handover.vip_map_fd[0] >= 0);
	assert_int_equal(handover.vip_map_fd[1], -1);
	assert_int_not_equal(xdp_program(), 0);
	for (unsigned int w = 0; w < 2; w++) {
		double deadline = now_s() + DEADLINE_S;

		beat = weir_counter_read(&segment->worker_counters[w].heartbeat_ns);
		while (weir_counter_read(&segment->worker_counters[w].heartbeat_ns) == beat) {
			assert_true(now_s() < deadline);
			nap();
		}
	}
	check_log(lab, "weir-control attached (pid");
	stop(lab, pid, SIGTERM);
	// Control detects that the process has exited, because the connection is closed.
	assert_int_equal(read(connection, &byte, 1), 0);
	close(connection);
	close(handover.vip_map_fd[0]);
	weir_segment_free(segment);
}

TEST(a_second_process_is_refused_and_the_first_continues) {
	struct lab *lab = *state;
	struct lab second = *lab;
	pid_t pid, other;

	device_lab_need_root();
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	snprintf(second.log, sizeof(second.log), "%s/log2", lab->directory);
	other = spawn(&second, lab->run_dir);
	assert_int_equal(exit_status(&second, other), 1);
	check_log(&second, "another weir-dataplane is running in this run directory");
	// A second dataplane in another run directory, but on the same interface.
	snprintf(second.run_dir, sizeof(second.run_dir), "%s/run2", lab->directory);
	other = spawn(&second, second.run_dir);
	assert_int_equal(exit_status(&second, other), 1);
	check_log(&second, "interface mn0 is used by another weir-dataplane");
	assert_int_not_equal(xdp_program(), 0);
	stop(lab, pid, SIGINT);
}

TEST(after_a_kill_it_starts_again_at_once) {
	struct lab *lab = *state;
	struct weir_config *runs;
	pid_t pid;

	device_lab_need_root();
	for (unsigned int i = 0; i < 3; i++) {
		pid = spawn(lab, lab->run_dir);
		wait_ready(lab, pid);
		if (i > 0) {
			check_log(lab, "detached stale XDP program");
		}
		// Only this process has a file with its running configuration. The files of
		// the killed processes have been removed.
		assert_int_equal(weir_config_running_read(lab->run_dir, 0, &runs), 0);
		weir_config_free(runs);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_not_equal(xdp_program(), 0);
	}
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	stop(lab, pid, SIGTERM);
}

// The file has the hash_seed, which members of the group must not read.
TEST(without_root_only_its_user_reads_the_running_configuration) {
	struct lab *lab = *state;
	bool is_own;
	pid_t pid;

	device_lab_need_root();
	lab->user = 4242;
	write_config(lab, "{\"name\":\"wan\",\"device\":\"net_null0\"}", 4096);
	SHELL("chown %u %s", (unsigned int)lab->user, lab->directory);
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	is_own = shell_runs("test $(stat -c %%a %s/dataplane-*.json) = 600", lab->run_dir);
	stop(lab, pid, SIGTERM);
	assert_true(is_own);
}

TEST(sighup_does_not_end_it) {
	struct lab *lab = *state;
	double deadline = now_s() + DEADLINE_S;
	pid_t pid;

	device_lab_need_root();
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	assert_int_equal(kill(pid, SIGHUP), 0);
	while (strstr(log_text(lab), "SIGHUP ignored") == NULL) {
		assert_true(now_s() < deadline);
		nap();
	}
	stop(lab, pid, SIGTERM);
}

// Returns the resident memory of a process, in KiB.
static unsigned long resident_kib(pid_t pid) {
	char path[64], line[128];
	unsigned long kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		(void)sscanf(line, "VmRSS: %lu", &kib);
	}
	fclose(file);
	return kib;
}

// When the signal arrives, the process has allocated some of the 2 GB for its tables.
TEST(sigterm_ends_it_before_it_has_its_memory) {
	struct lab *lab = *state;
	double deadline = now_s() + DEADLINE_S;
	pid_t pid;

	device_lab_need_root();
	write_config(lab, "{\"name\":\"wan\",\"device\":\"net_null0\"}", 33554432);
	pid = spawn(lab, lab->run_dir);
	while (resident_kib(pid) < 300000 && now_s() < deadline) {
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	// Stop the process, so that it cannot finish its allocations before SIGTERM is pending.
	kill(pid, SIGSTOP);
	kill(pid, SIGTERM);
	kill(pid, SIGCONT);
	assert_int_equal(exit_status(lab, pid), 0);
	check_log(lab, "received TERM");
	check_log(lab, "ended\n");
	assert_null(strstr(log_text(lab), "ready:"));
	check_nothing_left(lab);
}

// The signal is pending when the process starts. The process must exit before it opens its ports.
TEST(sigterm_ends_it_while_dpdk_starts) {
	struct lab *lab = *state;
	sigset_t set;
	pid_t pid;

	device_lab_need_root();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL); // the new process inherits the mask
	pid = spawn(lab, lab->run_dir);
	kill(pid, SIGTERM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	assert_int_equal(exit_status(lab, pid), 0);
	check_log(lab, "ended\n");
	assert_null(strstr(log_text(lab), "ready:"));
	check_nothing_left(lab);
}

TEST(closed_log_does_not_end_it) {
	struct lab *lab = *state;
	double deadline = now_s() + DEADLINE_S;
	char socket[128];
	int log[2];
	pid_t pid;

	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(pipe(log), 0);
	close(log[0]);
	pid = spawn_with_log(lab, lab->run_dir, log[1]);
	close(log[1]);
	snprintf(socket, sizeof(socket), "%s/" WEIR_HANDOVER_SOCKET, lab->run_dir);
	while (access(socket, F_OK) < 0 && now_s() < deadline && waitpid(pid, NULL, WNOHANG) == 0) {
		nap();
	}
	assert_int_equal(access(socket, F_OK), 0);
	kill(pid, SIGTERM);
	assert_int_equal(exit_status(lab, pid), 0);
}

TEST(all_threads_have_dropped_their_capabilities) {
	struct lab *lab = *state;
	char command[256];
	pid_t pid;

	device_lab_need_root();
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	snprintf(command, sizeof(command),
		"! grep -h CapPrm /proc/%d/task/*/status | grep -v 0000000000001000", (int)pid);
	SHELL("%s", command);
	SHELL("! grep -h NoNewPrivs /proc/%d/task/*/status | grep -v '1$'", (int)pid);
	stop(lab, pid, SIGTERM);
}

TEST(an_invalid_configuration_is_reported_line_by_line) {
	struct lab *lab = *state;
	pid_t pid;

	device_lab_need_root();
	write_config(lab, JSON({"name":"wan"},{"name":"lan","device":"net_null0","mtu":1}), 4096);
	pid = spawn(lab, lab->run_dir);
	assert_int_equal(exit_status(lab, pid), 2);
	check_log(lab, "weir.json:1:");
	check_log(lab, "ports[0]: \"device\" is missing");
	check_log(lab, "ports[1].mtu");
	check_nothing_left(lab);
}

TEST(warnings_of_the_configuration_are_logged) {
	struct lab *lab = *state;
	FILE *file = fopen(lab->config, "w");
	pid_t pid;

	device_lab_need_root();
	assert_non_null(file);
	fprintf(file,
		"{\"ports\":[" AF_XDP_PORT "],\n\"segment\":{\"heap_bytes\":16777216},\n"
		"\"flow_table\":{\"flows_per_worker\":4096},\n\"services\":[{\"name\":\"web\","
		"\"binds\":[{\"address\":\"198.51.100.10\",\"protocol\":\"tcp\",\"port\":80}],\n"
		"\"backends\":[{\"name\":\"a\",\"address\":\"10.0.0.1\",\"weight\":0}]}]}\n");
	fclose(file);
	pid = spawn(lab, lab->run_dir);
	wait_ready(lab, pid);
	check_log(lab, "Z warn  ");
	check_log(lab, "weir.json:1:1: instance.hash_seed: is the default");
	check_log(lab, "weir.json:5:12: services[0].backends: all weights are 0");
	stop(lab, pid, SIGTERM);
}

TEST(failed_starts_give_a_reason_and_leave_no_files) {
	struct lab *lab = *state;
	pid_t pid;

	device_lab_need_root();
	write_config(lab, AF_XDP_PORT, 1ul << 28); // 10 GiB for each worker
	SHELL("sed -i 's/\\[0,0\\]/[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]/' %s", lab->config);
	pid = spawn(lab, lab->run_dir);
	assert_int_equal(exit_status(lab, pid), 1);
	check_log(lab, "MiB needed");
	check_log(lab, "lower flow_table.flows_per_worker");
	check_nothing_left(lab);
	write_config(lab,
		AF_XDP_PORT ",{\"name\":\"x\",\"device\":\"net_af_packet0,iface=no-such-if\"}",
		4096);
	pid = spawn(lab, lab->run_dir);
	assert_int_equal(exit_status(lab, pid), 1);
	check_log(lab, "port x: device net_af_packet0: no such interface: no-such-if");
	check_nothing_left(lab);
	write_config(lab, AF_XDP_PORT, 4096);
	SHELL("sed -i 's/\\[0,0\\]/[0,1023]/' %s", lab->config);
	pid = spawn(lab, lab->run_dir);
	assert_int_equal(exit_status(lab, pid), 1);
	check_log(lab, "workers.cores[1]: CPU 1023");
	check_nothing_left(lab);
}

// An invalid value of an option is a usage error; no file or device is opened.
TEST(unknown_group_is_a_usage_error) {
	struct lab *lab = *state;

	if (geteuid() != 0) {
		skip();
	}
	lab->group = "no-such-group";
	assert_int_equal(exit_status(lab, spawn(lab, lab->run_dir)), 2);
	check_log(lab, "weir-dataplane: --group no-such-group: no such group");
	assert_int_equal(access(lab->run_dir, F_OK), -1);
}
