// SPDX-License-Identifier: BSD-3-Clause
//
// Access to the handover: the owner and mode of the socket, peers of other users, and files that
// other processes have left.
#include "handover_lab.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MEMBER 4242 // uid and gid of a user who must not attach
#define CONTROL 4243 // uid and gid of a weir-control

static void expect_socket(const struct lab *f, uid_t uid, gid_t gid, mode_t mode) {
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, mode);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
}

TEST(socket_is_for_the_user_of_control_and_root) {
	struct lab *f = *state;

	if (getuid() != 0) {
		expect_socket(f, getuid(), getgid(), 0600);
		return;
	}
	expect_socket(f, 0, 0, 0660);
	stop_server(f);
	// Even if a group is configured, its members have no access.
	assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
	expect_socket(f, CONTROL, 0, 0660);
}

// Changes the process to this user, with `group` as supplementary group.
static bool become(uid_t uid, gid_t group) {
	return setgroups(1, &group) == 0 && setgid(uid) == 0 && setuid(uid) == 0;
}

// Starts a child as this user. The child calls weir_handover_connect. It exits with 0 if the result
// is as expected and the reason contains `word`.
static pid_t start_attempt(struct lab *f, uid_t uid, int expected, const char *word) {
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct weir_handover handover = {.statistics_fd = -7, .tables_fd = -7};
		unsigned int open_before;
		char why[300] = "";
		int connection = -7, r;

		if (!become(uid, MEMBER)) {
			_exit(2);
		}
		open_before = count_fds();
		do { // repeat if the server got too little CPU time to reply in time
			r = weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why));
		} while (r == -ETIMEDOUT && expected == 0);
		if (r != expected || (word != NULL && strstr(why, word) == NULL)) {
			fprintf(stderr, "child: %d, not %d: %s\n", r, expected, why);
			_exit(1);
		}
		_exit(r < 0 && (handover.tables_fd != -7 || connection != -7 ||
				       count_fds() != open_before)
				? 3
				: 0);
	}
	return pid;
}

// Listens again, with this user as control's user. Other users can search the directory.
static void listen_anew(struct lab *f, uid_t control_user) {
	assert_int_equal(chmod(f->dir, 0755), 0);
	stop_server(f);
	assert_int_equal(listen_for(f, control_user, MEMBER), 0);
}

// Listens again, with this user as control's user. Every user can connect to the socket.
static void listen_anew_to_all(struct lab *f, uid_t control_user) {
	listen_anew(f, control_user);
	assert_int_equal(chmod(f->path, 0666), 0);
}

TEST(member_of_the_group_cannot_even_connect) {
	struct lab *f = *state;

	if (getuid() != 0) {
		skip(); // the test cannot change to other users
	}
	listen_anew(f, CONTROL);
	assert_int_equal(wait_exit(start_attempt(f, MEMBER, -EACCES, "--control-user 4242")), 0);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, 0, NULL)), 0);
	serve_until(f, 0);
	assert_int_equal(serve_while(f, start_attempt(f, 0, 0, NULL)), 0);
}

// An operator, or a hostile process of control's user, may have changed the mode of the socket.
TEST(peer_of_another_user_gets_no_descriptor) {
	struct weir_handover_refusals refusals;
	struct lab *f = *state;
	pid_t pid;

	if (getuid() != 0) {
		skip();
	}
	listen_anew_to_all(f, CONTROL);
	weir_handover_take_refusals(f->server, &refusals);
	assert_int_equal(refusals.total, 0);
	pid = start_attempt(f, MEMBER, -EPERM, "--control-user 4242");
	assert_int_equal(serve_while(f, pid), 0);
	weir_handover_take_refusals(f->server, &refusals);
	assert_int_equal(refusals.count, 1);
	assert_int_equal(refusals.total, 1);
	assert_int_equal(refusals.last_uid, MEMBER);
	assert_int_equal(refusals.last_pid, pid);
	weir_handover_take_refusals(f->server, &refusals);
	assert_int_equal(refusals.count, 0);
	assert_int_equal(refusals.total, 1);
	// If no user is configured, only root may attach.
	listen_anew_to_all(f, (uid_t)-1);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, -EPERM, "4243")), 0);
	assert_int_equal(serve_while(f, start_attempt(f, 0, 0, NULL)), 0);
	// The peer does not get the pid of the attached process either.
	serve_until(f, 0);
	pid = start_control(f);
	serve_until(f, pid);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, -EPERM, "4243")), 0);
	stop(pid);
}

// Starts a process that connects as fast as possible until it is killed.
static pid_t start_flood(struct lab *f, uid_t uid) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t pid = fork();

	assert_true(pid >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	if (pid == 0 && become(uid, MEMBER)) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // ends this process when the test fails
		for (;;) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			(void)connect(fd, (struct sockaddr *)&address, sizeof(address));
			close(fd);
		}
	}
	return pid;
}

TEST(flood_of_refused_peers_does_not_exclude_others) {
	struct weir_handover_refusals refusals;
	struct lab *f = *state;
	uint64_t end;
	pid_t flood;

	if (getuid() != 0) {
		skip();
	}
	listen_anew_to_all(f, CONTROL);
	flood = start_flood(f, MEMBER);
	end = now_ms() + DEADLINE_MS;
	do {
		assert_true(now_ms() < end);
		assert_int_equal(weir_handover_serve(f->server, &f->offer), 0);
		weir_handover_take_refusals(f->server, &refusals);
	} while (refusals.total < 2000);
	for (unsigned int i = 0; i < 5; i++) {
		pid_t pid = start_attempt(f, CONTROL, 0, NULL);
		int status;

		end = now_ms() + DEADLINE_MS;
		while (waitpid(pid, &status, WNOHANG) == 0) {
			assert_true(weir_handover_serve(f->server, &f->offer) >= 0);
			assert_true(now_ms() < end);
		}
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		while (weir_handover_serve(f->server, &f->offer) != 0) {
			assert_true(now_ms() < end);
		}
	}
	stop(flood);
}

// Other users can search the directory. If they could open the lock file, they could also lock it.
TEST(lock_cannot_be_taken_by_others) {
	struct lab *f = *state;
	char path[128];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/dataplane.lock", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	stop_server(f);
	assert_int_equal(access(path, F_OK), -1);
	fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	close(fd);
}

// Control connects as soon as the socket exists, so the socket must already belong to control's
// user.
TEST(socket_never_refuses_its_user) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t pid;
	int status;

	if (getuid() != 0) {
		skip();
	}
	assert_int_equal(chmod(f->dir, 0755), 0);
	stop_server(f);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0 && become(CONTROL, CONTROL)) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // ends this process when the test fails
		for (;;) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 &&
				errno == EACCES) {
				_exit(1);
			}
			close(fd);
		}
	}
	for (unsigned int i = 0; i < 2000; i++) {
		assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
		stop_server(f);
	}
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	stop(pid);
}

// A dataplane has died before it renamed its socket to the final name, and has left files.
TEST(unnamed_socket_is_replaced) {
	struct lab *f = *state;
	char early[128];

	stop_server(f);
	snprintf(early, sizeof(early), "%s.new", f->path);
	assert_int_equal(mknod(early, S_IFSOCK | 0600, 0), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	assert_int_equal(access(early, F_OK), -1);
}

TEST(foreign_socket_is_replaced) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (getuid() != 0) {
		skip();
	}
	stop_server(f);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(chown(f->path, MEMBER, MEMBER), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	expect_socket(f, 0, 0, 0660);
	close(fd);
	// If a socket of the same user is listening, it belongs to another dataplane.
	stop_server(f);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), -EADDRINUSE);
	close(fd);
	assert_int_equal(unlink(f->path), 0);
}

TEST(live_socket_is_kept_and_a_stale_one_replaced) {
	struct lab *f = *state;
	const struct weir_handover_params params = {
		.run_dir = f->dir, .control_user = (uid_t)-1, .group = (gid_t)-1};
	struct weir_handover_server *second = NULL;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	assert_int_equal(weir_handover_listen(&params, &second), -EADDRINUSE);
	assert_null(second);
	serve_until(f, 0); // the probe has connected and closed
	weir_handover_server_free(f->server);
	f->server = NULL;
	// Leave a socket, as a killed dataplane does.
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
}

TEST(other_file_of_that_name_is_not_removed) {
	struct lab *f = *state;
	int fd;

	weir_handover_server_free(f->server);
	f->server = NULL;
	fd = open(f->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), -EEXIST);
	assert_int_equal(unlink(f->path), 0);
	assert_null(f->server);
}

TEST(missing_directory_and_overlong_path_are_refused) {
	struct weir_handover_server *server = NULL;
	struct weir_handover handover;
	char path[200], why[300] = "";
	struct weir_handover_params params = {
		.run_dir = path, .control_user = (uid_t)-1, .group = (gid_t)-1};
	int connection;

	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(weir_handover_listen(&params, &server), -ENAMETOOLONG);
	assert_int_equal(weir_handover_connect(path, &handover, &connection, why, sizeof(why)),
		-ENAMETOOLONG);
	params.run_dir = "/nonexistent/weir";
	assert_int_equal(weir_handover_listen(&params, &server), -ENOENT);
	weir_handover_server_free(NULL);
}
