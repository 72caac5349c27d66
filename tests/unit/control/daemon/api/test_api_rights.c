// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the rights of users with the real weir-control. The clients are child processes that change
// to other users. Needs root.
#include "daemon_lab.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

#define MEMBER 4242 // uid of a user with read access
#define ADMINS 4300 // gid of users who may change settings
#define FLOOD 6 // number of processes; together they send more than the loop can serve
#define GROUPS_MANY 200 // more groups than the first getsockopt(SO_PEERGROUPS) has room for

enum outcome { DONE, FORBIDDEN, OTHER_ERROR, NO_ANSWER };

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab_init(lab);
	lab_write_config(lab,
		JSON({"name": "web", "binds": [{"address": "198.51.100.10", "protocol": "tcp",
			"port": 80}], "backends": [{"name": "w-1", "address": "10.0.0.11"}]}));
	if (geteuid() == 0) {
		lab_spawn(lab, "--user", "root", "--group", "root", "--admin-group", "4300", NULL);
		LAB_UNTIL(lab_log_has(lab, "waiting for weir-dataplane"));
	}
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	lab_fini(lab);
	free(lab);
	return 0;
}

// --- peers --------------------------------------------------------------------------------

// The functions below run in a child process with another user, so they must not use assertions.
static int connect_plainly(const struct lab *lab) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = 15};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control/control.sock",
		lab->run_dir);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static enum outcome ask_plainly(const struct lab *lab, const char *request) {
	char answer[65536] = "";
	int fd = connect_plainly(lab);
	size_t bytes = 0;

	if (fd < 0 || send(fd, request, strlen(request), MSG_NOSIGNAL) < 0 ||
		send(fd, "\n", 1, MSG_NOSIGNAL) < 0) {
		return NO_ANSWER;
	}
	while (strchr(answer, '\n') == NULL && bytes < sizeof(answer) - 1) {
		ssize_t n = recv(fd, answer + bytes, sizeof(answer) - 1 - bytes, 0);

		if (n <= 0) {
			return NO_ANSWER;
		}
		bytes += (size_t)n;
	}
	close(fd);
	if (strstr(answer, "\"ok\":true") != NULL) {
		return DONE;
	}
	return strstr(answer, "\"code\":\"forbidden\"") != NULL &&
			       strstr(answer, "--admin-group") != NULL
		       ? FORBIDDEN
		       : OTHER_ERROR;
}

// Change to this user; the first group is the primary group.
static bool become(uid_t uid, const gid_t *groups, size_t count) {
	return setgroups(count - 1, groups + 1) == 0 && setgid(groups[0]) == 0 && setuid(uid) == 0;
}

static enum outcome ask_as(
	struct lab *lab, uid_t uid, const gid_t *groups, size_t count, const char *request) {
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		_exit(become(uid, groups, count) ? (int)ask_plainly(lab, request) : 99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), 99);
	return (enum outcome)WEXITSTATUS(status);
}

// Send a request as a user in the group of the control socket. This group has read access. In this
// lab, the group of the socket is root's group.
static enum outcome ask_as_member(struct lab *lab, const char *request) {
	const gid_t groups[] = {0};

	return ask_as(lab, MEMBER, groups, 1, request);
}

// --- tests --------------------------------------------------------------------------------

static const struct row {
	const char *request;
	bool may_look;
} rows[] = {
	{"{\"command\":\"version\"}", true},
	{"{\"command\":\"service.show\"}", true},
	{"{\"command\":\"service.set\",\"service\":\"web\",\"policy\":null}", false},
	{"{\"command\":\"backend.show\"}", true},
	{"{\"command\":\"backend.drain\",\"backend\":\"w-1\"}", false},
	{"{\"command\":\"backend.ready\",\"backend\":\"w-1\"}", false},
	{"{\"command\":\"backend.maintenance\",\"backend\":\"w-1\"}", false},
	{"{\"command\":\"backend.report\",\"backend\":\"w-1\",\"utilization\":1}", false},
	{"{\"command\":\"weight.set\",\"backend\":\"w-1\",\"weight\":1}", false},
	{"{\"command\":\"subset.show\"}", true},
	{"{\"command\":\"flow.count\"}", true},
	{"{\"command\":\"flow.list\"}", false},
	{"{\"command\":\"flow.delete\",\"protocol\":\"tcp\",\"source\":\"192.0.2.1\","
	 "\"source_port\":1,\"destination\":\"198.51.100.10\",\"destination_port\":80}",
		false},
	{"{\"command\":\"flow.clear\",\"backend\":\"w-1\"}", false},
	{"{\"command\":\"flow.lookup\",\"protocol\":\"tcp\",\"source\":\"192.0.2.1\","
	 "\"source_port\":1,\"destination\":\"198.51.100.10\",\"destination_port\":80}",
		true},
	{"{\"command\":\"worker.show\"}", true},
	{"{\"command\":\"port.show\"}", true},
	{"{\"command\":\"stats.show\"}", true},
	{"{\"command\":\"health.show\"}", true},
	{"{\"command\":\"audit.show\"}", true},
	// config.diff blocks control's loop while it reads and compares a file. If 32 connections
	// requested it all the time, other requests would wait for seconds.
	{"{\"command\":\"config.diff\"}", false},
	{"{\"command\":\"config.diff\",\"path\":null}", false},
	// The user chooses the file, which may be unreadable for this user.
	{"{\"command\":\"config.diff\",\"path\":\"/etc/shadow\"}", false},
	{"{\"command\":\"config.reload\"}", false},
	{"{\"command\":\"config.reload\",\"path\":\"/etc/shadow\"}", false},
	// A capture contains packets of other users.
	{"{\"command\":\"capture.start\"}", false},
	{"{\"command\":\"capture.read\",\"capture\":1}", false},
	{"{\"command\":\"capture.stop\",\"capture\":1}", false},
	{"{\"command\":\"affinity.show\"}", false},
	{"{\"command\":\"affinity.clear\",\"service\":\"web\"}", false},
};

TEST_GROUP(lab_own_network);
TEST_EACH(setup, teardown);

TEST(member_of_the_group_may_read_but_not_change) {
	struct lab *lab = *state;
	const gid_t groups[] = {MEMBER, 0};
	struct lab_dataplane *dataplane;

	if (geteuid() != 0) {
		skip(); // the test cannot change to other users
	}
	dataplane = lab_dataplane_start(lab, 1);
	LAB_UNTIL(lab_attached(lab));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum outcome outcome = ask_as_member(lab, rows[i].request);

		if (outcome != (rows[i].may_look ? DONE : FORBIDDEN)) {
			fail_msg("%s: %d", rows[i].request, (int)outcome);
		}
	}
	assert_int_equal(ask_as(lab, MEMBER, groups, 2, rows[4].request), FORBIDDEN);
	assert_false(lab_log_has(lab, "w-1: ready -> drain"));
	lab_dataplane_stop(dataplane);
}

TEST(other_user_cannot_even_read) {
	struct lab *lab = *state;
	const gid_t groups[] = {MEMBER, ADMINS};

	if (geteuid() != 0) {
		skip();
	}
	assert_int_equal(ask_as(lab, MEMBER, groups, 1, rows[0].request), NO_ANSWER);
	// Members of the admin group must also be in the group of the socket, because the admin
	// group permits changes, but not connections.
	assert_int_equal(ask_as(lab, MEMBER, groups, 2, rows[0].request), NO_ANSWER);
}

TEST(admins_by_either_kind_of_group_may_change) {
	struct lab *lab = *state;
	gid_t groups[GROUPS_MANY] = {0};

	if (geteuid() != 0) {
		skip();
	}
	groups[0] = ADMINS;
	groups[1] = 0;
	assert_int_equal(ask_as(lab, MEMBER, groups, 2, rows[20].request), DONE);
	groups[0] = 0;
	groups[1] = ADMINS;
	assert_int_equal(ask_as(lab, MEMBER, groups, 2, rows[20].request), DONE);
	for (gid_t i = 1; i < GROUPS_MANY; i++) {
		groups[i] = ADMINS - GROUPS_MANY + 1 + i; // the last group is the admin group
	}
	assert_int_equal(ask_as(lab, MEMBER, groups, GROUPS_MANY, rows[20].request), DONE);
	assert_int_equal(ask_as(lab, MEMBER, groups, GROUPS_MANY - 1, rows[20].request), FORBIDDEN);
	assert_int_equal(ask_as(lab, 0, groups, 1, rows[20].request), DONE);
}

TEST(own_user_may_change_without_an_admin_group) {
	struct lab *lab = *state;
	const gid_t groups[] = {65534};

	if (geteuid() != 0 || getgrnam("nogroup") == NULL) {
		skip();
	}
	lab_stop(lab);
	assert_int_equal(unlink(lab->log), 0);
	assert_int_equal(chown(lab->run_dir, 0, 65534), 0); // the directory keeps its group
	lab_spawn(lab, "--user", "nobody", "--group", "nogroup", NULL);
	LAB_UNTIL(lab_log_has(lab, "waiting for weir-dataplane"));
	assert_int_equal(ask_as(lab, MEMBER, groups, 1, rows[20].request), FORBIDDEN);
	assert_int_equal(ask_as(lab, 65534, groups, 1, rows[20].request), DONE);
	assert_int_equal(ask_as(lab, 0, groups, 1, rows[20].request), DONE);
}

// Opens the maximum number of connections, and continuously sends requests through each
// connection.
static void keep_all_places_busy(const struct lab *lab) {
	static const char request[] = "{\"command\":\"version\"}\n";
	int fds[WEIR_API_CLIENTS];
	char answer[4096];

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fds[i] = -1;
	}
	for (;;) {
		for (int i = 0; i < WEIR_API_CLIENTS; i++) {
			fds[i] = fds[i] < 0 ? connect_plainly(lab) : fds[i];
			if (fds[i] >= 0 &&
				(send(fds[i], request, sizeof(request) - 1, MSG_NOSIGNAL) < 0 ||
					recv(fds[i], answer, sizeof(answer), 0) <= 0)) {
				close(fds[i]);
				fds[i] = -1;
			}
		}
	}
}

static void connect_and_leave(const struct lab *lab) {
	for (;;) {
		close(connect_plainly(lab));
	}
}

static pid_t start_member(struct lab *lab, void (*run)(const struct lab *lab)) {
	const gid_t groups[] = {0};
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (become(MEMBER, groups, 1)) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); // ends this process when the test fails
			run(lab);
		}
		_exit(1);
	}
	return pid;
}

static void end_member(pid_t pid) {
	int status;

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status)); // the process ran until it was killed
}

TEST(a6_client_that_may_change_gets_in_if_all_places_are_taken) {
	struct lab *lab = *state;
	pid_t pid;

	if (geteuid() != 0) {
		skip();
	}
	pid = start_member(lab, keep_all_places_busy);
	// All connections are in use, so a further read-only client is refused.
	LAB_UNTIL(ask_as_member(lab, rows[0].request) == OTHER_ERROR);
	for (int i = 0; i < 100; i++) {
		assert_string_equal(lab_code(lab, "%s", rows[0].request), "ok");
	}
	end_member(pid);
}

TEST(a6_flood_of_connections_delays_no_client) {
	struct lab *lab = *state;
	pid_t pid[FLOOD];

	if (geteuid() != 0) {
		skip();
	}
	for (int i = 0; i < FLOOD; i++) {
		pid[i] = start_member(lab, connect_and_leave);
	}
	for (int i = 0; i < 100; i++) {
		uint64_t end = lab_now_ms() + LAB_DEADLINE_MS;

		assert_string_equal(lab_code(lab, "%s", rows[0].request), "ok");
		assert_true(lab_now_ms() < end);
	}
	// Signals are handled in the loop, so a reload shows that the loop runs.
	assert_int_equal(kill(lab->control, SIGHUP), 0);
	LAB_UNTIL(lab_log_has(lab, "reload"));
	for (int i = 0; i < FLOOD; i++) {
		end_member(pid[i]);
	}
}
