// SPDX-License-Identifier: BSD-3-Clause
//
// Tests weir-control as a process: start, configuration, signals and exit.
#include "daemon_lab.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "handover.h"

#define WEB(weight) \
	"{\"name\": \"web\", \"binds\": [{\"address\": \"198.51.100.10\", \"protocol\": \"tcp\", " \
	"\"port\": 80}], \"table_size\": 251, \"backends\": [" \
	"{\"name\": \"web-1\", \"address\": \"10.0.0.11\", \"weight\": " weight "}, " \
	"{\"name\": \"web-2\", \"address\": \"10.0.0.12\"}]}"

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab_init(lab);
	lab_write_config(lab, WEB("100"));
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	lab_fini(*state);
	free(*state);
	return 0;
}

static bool exists(const char *dir, const char *name) {
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

static json_int_t weight_of_web_1(const struct lab *lab) {
	json_t *holder = NULL;
	json_int_t weight = json_integer_value(
		json_object_get(lab_backend(lab, &holder, "web", "web-1"), "weight"));

	json_decref(holder);
	return weight;
}

TEST_GROUP(lab_own_network);
TEST_EACH(setup, teardown);

TEST(invalid_configuration_is_refused_with_every_error) {
	struct lab *lab = *state;

	lab_write(lab->config, "{\"ports\": [],\n \"colour\": 1,\n \"services\": [{}]}\n");
	lab_spawn(lab, NULL);
	assert_int_equal(lab_wait_exit(lab), 2);
	assert_true(lab_log_has(lab, "weir.json:1:"));
	assert_true(lab_log_has(lab, ": ports: "));
	assert_true(lab_log_has(lab, "weir.json:2:"));
	assert_true(lab_log_has(lab, "weir.json:3:"));
	assert_true(lab_log_has(lab, ": services[0]: "));
	assert_false(exists(lab->dir, "run")); // no directory was created
}

TEST(missing_configuration_is_refused) {
	struct lab *lab = *state;

	unlink(lab->config);
	lab_spawn(lab, NULL);
	assert_int_equal(lab_wait_exit(lab), 2);
	assert_true(lab_log_has(lab, "No such file"));
}

TEST(invalid_usage_is_refused) {
	struct lab *lab = *state;

	lab_spawn(lab, "--colour", NULL);
	assert_int_equal(lab_wait_exit(lab), 2);
	assert_true(lab_log_has(lab, "unknown option --colour"));
	lab_spawn(lab, "--user", "no-such-user", NULL);
	assert_int_equal(lab_wait_exit(lab), 2);
	assert_true(lab_log_has(lab, "no such user"));
}

TEST(second_process_is_refused_with_the_pid_of_the_first) {
	struct lab *lab = *state;
	struct lab second = *lab;
	char expected[64];

	lab_start(lab);
	second.control = 0;
	lab_spawn(&second, "--user", "root", "--group", "root", NULL);
	assert_int_equal(lab_wait_exit(&second), 1);
	snprintf(expected, sizeof(expected), "weir-control (pid %d) is already running",
		(int)lab->control);
	assert_true(lab_log_has(lab, expected));
	// the running process is not affected
	assert_string_equal(lab_code(lab, JSON({"command": "version"})), "ok");
	assert_int_equal(lab_stop(lab), 0);
}

TEST(sigterm_ends_it_and_leaves_no_files) {
	struct lab *lab = *state;

	lab_start(lab);
	assert_true(exists(lab->run_dir, "control/control.sock"));
	assert_int_equal(lab_stop(lab), 0);
	assert_false(exists(lab->run_dir, "control/control.sock"));
	assert_false(exists(lab->run_dir, "control/control.pid"));
}

TEST(sigkill_leaves_a_socket_that_the_next_one_replaces) {
	struct lab *lab = *state;

	lab_start(lab);
	lab_kill(lab);
	assert_true(exists(lab->run_dir, "control/control.sock"));
	lab_start(lab);
	assert_int_equal(lab_stop(lab), 0);
}

TEST(it_waits_for_the_dataplane) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_start(lab);
	assert_false(lab_attached(lab));
	assert_string_equal(lab_code(lab, JSON({"command": "backend.show"})), "no-dataplane");
	assert_string_equal(lab_code(lab, JSON({"command": "worker.show"})), "no-dataplane");
	assert_string_equal(lab_code(lab, JSON({"command": "flow.steals"})), "no-dataplane");
	LAB_UNTIL(lab_log_has(lab, "waiting for weir-dataplane"));
	dataplane = lab_dataplane_start(lab, 2);
	LAB_UNTIL(lab_attached(lab));
	assert_string_equal(lab_code(lab, JSON({"command": "backend.show"})), "ok");
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

TEST(sighup_reads_the_configuration_again) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_start(lab);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	lab_write_config(lab, WEB("50"));
	kill(lab->control, SIGHUP);
	LAB_UNTIL(weight_of_web_1(lab) == 50);
	assert_true(lab_log_has(lab, "reload: change service web backend web-1 weight: 100 -> 50"));
	// Warnings of the first configuration and of the reloaded configuration.
	assert_true(lab_log_has(lab, "Z warn  "));
	assert_true(lab_log_has(lab, "instance.hash_seed: is the default"));
	assert_false(lab_log_has(lab, "all weights are 0"));
	lab_write_config(lab, WEB("50") ", {\"name\": \"idle\", \"binds\": [{\"address\": "
					"\"198.51.100.99\", \"protocol\": \"tcp\", \"port\": 80}], "
					"\"table_size\": 251, \"backends\": [{\"name\": \"a\", "
					"\"address\": \"10.0.0.99\", \"weight\": 0}]}");
	kill(lab->control, SIGHUP);
	LAB_UNTIL(lab_log_has(lab, "services[1].backends: all weights are 0"));
	lab_write_config(lab, WEB("50"));
	kill(lab->control, SIGHUP);
	LAB_UNTIL(weight_of_web_1(lab) == 50);
	// An invalid configuration changes nothing, and the reason is logged.
	lab_write(lab->config, JSON({"ports": []}));
	kill(lab->control, SIGHUP);
	LAB_UNTIL(lab_log_has(lab, "reload refused"));
	assert_true(lab_log_has(lab, "weir.json:1:"));
	assert_int_equal(weight_of_web_1(lab), 50);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

TEST(configuration_may_change_before_the_first_dataplane) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;

	lab_start(lab);
	lab_write_config(lab, WEB("9"));
	json_decref(lab_result(lab, JSON({"command": "config.reload"})));
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	assert_int_equal(weight_of_web_1(lab), 9);
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}

// weir-control is started as root. It continues as another user, and still does all its work.
TEST(root_privileges_are_dropped) {
	struct lab *lab = *state;
	struct lab_dataplane *dataplane;
	char path[160], status[4096];
	struct stat st;
	ssize_t n;
	int fd;

	if (geteuid() != 0 || getgrnam("nogroup") == NULL) {
		skip(); // the tests of privileges.c cover this for other users
	}
	lab_spawn(lab, "--user", "nobody", "--group", "nogroup", NULL);
	LAB_UNTIL(lab_log_has(lab, "waiting for weir-dataplane"));
	snprintf(path, sizeof(path), "/proc/%d/status", (int)lab->control);
	fd = open(path, O_RDONLY);
	n = read(fd, status, sizeof(status) - 1);
	close(fd);
	status[n > 0 ? n : 0] = '\0';
	assert_null(strstr(status, "Uid:\t0"));
	assert_null(strstr(status, "Gid:\t0"));
	assert_non_null(strstr(status, "CapEff:\t0000000000000000"));
	assert_non_null(strstr(status, "CapPrm:\t0000000000000000"));
	assert_non_null(strstr(status, "NoNewPrivs:\t1"));
	snprintf(path, sizeof(path), "%s/control/control.sock", lab->run_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_int_equal(st.st_gid, getgrnam("nogroup")->gr_gid);
	snprintf(path, sizeof(path), "%s/control/control.pid", lab->run_dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	// The dataplane starts later, and a second time. It passes the segment to the user of
	// --control-user.
	for (int i = 0; i < 2; i++) {
		dataplane = lab_dataplane_start(lab, 1);
		LAB_UNTIL(lab_attached(lab));
		lab_dataplane_stop(dataplane);
		LAB_UNTIL(!lab_attached(lab));
	}
	// A file that only root can read gives a clear error, and nothing changes.
	assert_int_equal(chmod(lab->config, 0600), 0);
	assert_string_equal(lab_code(lab, JSON({"command": "config.reload"})), "refused");
	assert_true(lab_log_has(lab, "user nobody cannot read"));
	assert_int_equal(lab_stop(lab), 0);
	assert_false(exists(lab->run_dir, "control/control.sock"));
}

TEST(inaccessible_run_dir_is_reported_at_once) {
	struct lab *lab = *state;

	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(mkdir(lab->run_dir, 0700), 0);
	lab_spawn(lab, "--user", "nobody", "--group", "nogroup", NULL);
	assert_int_equal(lab_wait_exit(lab), 1);
	assert_true(lab_log_has(lab, "cannot enter run directory"));
}

// --- systemd ------------------------------------------------------------------------------

// Wait for a notification with this text.
static bool notified(int fd, const char *text) {
	char message[1024];
	ssize_t n;

	while ((n = recv(fd, message, sizeof(message) - 1, MSG_DONTWAIT)) > 0) {
		message[n] = '\0';
		if (strstr(message, text) != NULL) {
			return true;
		}
	}
	return false;
}

TEST(systemd_is_notified) {
	struct lab *lab = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", lab->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	lab_start(lab);
	unsetenv("NOTIFY_SOCKET");
	LAB_UNTIL(notified(fd, "READY=1"));
	LAB_UNTIL(notified(fd, "STATUS=1 service, waiting for weir-dataplane"));
	kill(lab->control, SIGHUP);
	LAB_UNTIL(notified(fd, "RELOADING=1"));
	LAB_UNTIL(notified(fd, "READY=1"));
	kill(lab->control, SIGTERM);
	LAB_UNTIL(notified(fd, "STOPPING=1"));
	assert_int_equal(lab_wait_exit(lab), 0);
	close(fd);
}

// --- an incompatible segment --------------------------------------------------------------

TEST(segment_of_another_version_is_refused_and_the_next_one_accepted) {
	struct weir_port_info port = {.name = "wan", .mtu = 1500};
	struct weir_segment_params params = {.workers = 1,
		.ports = 1,
		.max_services = 4,
		.max_backends = 16,
		.heap_bytes = 1 << 20,
		.port_info = &port};
	struct lab *lab = *state;
	const struct weir_handover_params where = {
		.run_dir = lab->run_dir, .control_user = (uid_t)-1, .group = (gid_t)-1};
	struct weir_handover_server *server;
	struct weir_handover offer = {0};
	struct lab_dataplane *dataplane;
	struct weir_segment *segment;

	lab_start(lab);
	assert_int_equal(weir_segment_create(&params, &segment), 0);
	segment->header->abi = 999;
	offer.statistics_fd = segment->statistics_fd;
	offer.tables_fd = segment->tables_fd;
	assert_int_equal(weir_handover_listen(&where, &server), 0);
	LAB_UNTIL((weir_handover_serve(server, &offer),
		lab_log_has(lab, "cannot attach to weir-dataplane")));
	assert_true(lab_log_has(lab, "999"));
	assert_false(lab_attached(lab));
	weir_handover_server_free(server);
	weir_segment_free(segment);
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	lab_stop(lab);
	lab_dataplane_stop(dataplane);
}
