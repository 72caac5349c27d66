// SPDX-License-Identifier: BSD-3-Clause
//
// Handover over a real socket in a directory of its own, with forked control processes.
#include "segment_lab.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fingerprint.h"
#include "handover.h"

#define DEADLINE_MS 10000
#define MEMBER 4242 // uid and gid of somebody who is not to attach
#define CROWD 200 // connections
#define CONTROL 4243 // uid and gid of a weir-control

struct lab {
	char dir[64];
	char path[96];
	struct weir_segment *segment;
	struct weir_handover_server *server;
	struct weir_handover offer;
	int map_fds[2];
	unsigned int open_fds;
};

static unsigned int count_fds(void) {
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL) {
		n++;
	}
	closedir(dir);
	return n;
}

static int listen_for(struct lab *f, uid_t control_user, gid_t group) {
	const struct weir_handover_params params = {
		.run_dir = f->dir, .control_user = control_user, .group = group};

	return weir_handover_listen(&params, &f->server);
}

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->open_fds = count_fds();
	snprintf(f->dir, sizeof(f->dir), "/tmp/weir-handover-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/%s", f->dir, WEIR_HANDOVER_SOCKET);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	f->offer.statistics_fd = f->segment->statistics_fd;
	f->offer.tables_fd = f->segment->tables_fd;
	f->offer.vip_maps = 3;
	for (unsigned int i = 0; i < 2; i++) {
		f->map_fds[i] = memfd_create("map", MFD_CLOEXEC);
		assert_int_equal(ftruncate(f->map_fds[i], 1000 + i), 0);
	}
	for (unsigned int i = 0; i < WEIR_PORTS_MAX; i++) {
		f->offer.vip_map_fd[i] = -1;
	}
	f->offer.vip_map_fd[0] = f->map_fds[0];
	f->offer.vip_map_fd[2] = f->map_fds[1];
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;
	unsigned int expected = f->open_fds;

	weir_handover_server_free(f->server);
	weir_segment_free(f->segment);
	close(f->map_fds[0]);
	close(f->map_fds[1]);
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	assert_int_equal(count_fds(), expected);
	return 0;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Serve until somebody in particular is attached (0 = nobody).
static void serve_until(struct lab *f, pid_t wanted) {
	uint64_t end = now_ms() + DEADLINE_MS;
	int attached;

	do {
		struct pollfd poll_fds[2];
		int fds[2];
		int n = weir_handover_server_fds(f->server, fds);

		for (int i = 0; i < n; i++) {
			poll_fds[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
		}
		poll(poll_fds, (nfds_t)n, 20);
		attached = weir_handover_serve(f->server, &f->offer);
		assert_true(attached >= 0);
		assert_true(now_ms() < end);
	} while (attached != wanted);
}

static void stop(pid_t pid) {
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static int wait_exit(pid_t pid) {
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// Serve while a child runs; its exit code.
static int serve_while(struct lab *f, pid_t pid) {
	uint64_t end = now_ms() + DEADLINE_MS;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_true(weir_handover_serve(f->server, &f->offer) >= 0);
		assert_true(now_ms() < end);
		poll(NULL, 0, 5);
	}
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// A control process: attach, publish a selection, say so by control_pid, stay until killed.
static pid_t start_control(struct lab *f) {
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct weir_segment *segment = NULL;
		struct weir_writer *writer = NULL;
		struct weir_handover handover;
		char why[200];
		int connection;

		if (weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why)) != 0 ||
			weir_segment_attach(handover.statistics_fd, handover.tables_fd, &segment,
				why, sizeof(why)) != 0 ||
			weir_writer_open(segment, &writer) != 0) {
			fprintf(stderr, "child: %s\n", why);
			_exit(1);
		}
		if (weir_writer_publish(writer, fixture_selection_root(1),
			    fixture_selection(writer, 1, 4, 251)) != 0) {
			_exit(2);
		}
		for (;;) {
			pause();
		}
	}
	return pid;
}

static void wait_for_publication(struct lab *f, uint64_t publications) {
	uint64_t end = now_ms() + DEADLINE_MS;

	while (__atomic_load_n(&f->segment->notes->publications, __ATOMIC_ACQUIRE) < publications) {
		assert_true(now_ms() < end);
		poll(NULL, 0, 2);
	}
}

static void control_gets_the_segment_and_its_end_is_noticed(void **state) {
	struct lab *f = *state;
	int fds[2];
	pid_t pid;

	assert_int_equal(weir_handover_serve(f->server, &f->offer), 0);
	assert_int_equal(weir_handover_server_fds(f->server, fds), 1);
	pid = start_control(f);
	serve_until(f, pid);
	assert_int_equal(weir_handover_server_fds(f->server, fds), 2);
	wait_for_publication(f, 1);
	assert_true(f->segment->roots->selection[1] != 0);
	assert_int_equal(weir_handover_serve(f->server, &f->offer), pid);
	stop(pid);
	assert_int_equal(weir_handover_serve(f->server, &f->offer), 0);
	assert_int_equal(weir_handover_server_fds(f->server, fds), 1);
}

static void killed_control_is_followed_by_another(void **state) {
	struct lab *f = *state;

	for (uint64_t round = 1; round <= 20; round++) {
		pid_t pid = start_control(f);

		serve_until(f, pid);
		wait_for_publication(f, round);
		stop(pid);
	}
	serve_until(f, 0);
}

static void second_control_is_told_who_is_attached(void **state) {
	struct lab *f = *state;
	pid_t first = start_control(f), second;
	char expected[80];

	serve_until(f, first);
	snprintf(expected, sizeof(expected), "another weir-control (pid %d) is attached",
		(int)first);
	second = fork();
	assert_true(second >= 0);
	if (second == 0) {
		struct weir_handover handover = {.statistics_fd = -7, .tables_fd = -7};
		char why[200] = "";
		int connection = -7;
		int r = weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why));

		_exit(r == -EBUSY && strstr(why, expected) != NULL && connection == -7 &&
					handover.statistics_fd == -7 && handover.tables_fd == -7
				? 0
				: 1);
	}
	assert_int_equal(serve_while(f, second), 0);
	assert_int_equal(weir_handover_serve(f->server, &f->offer), first);
	stop(first);
	serve_until(f, 0);
}

static bool same_file(int a, int b) {
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

struct caller {
	const char *dir;
	struct weir_handover handover;
	int connection;
	int error;
	char why[200];
};

// The caller's side in this process: the server is served by a child that shares its socket.
static void call(struct lab *f, struct caller *caller) {
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		for (;;) {
			weir_handover_serve(f->server, &f->offer);
			poll(NULL, 0, 5);
		}
	}
	caller->error = weir_handover_connect(
		f->dir, &caller->handover, &caller->connection, caller->why, sizeof(caller->why));
	if (caller->error == 0) {
		// The server's end ends: we must see it.
		struct pollfd poll_fd = {.fd = caller->connection, .events = POLLIN};
		char byte;

		assert_int_equal(poll(&poll_fd, 1, 0), 0);
		stop(pid);
		assert_int_equal(poll(&poll_fd, 1, DEADLINE_MS), 1);
		assert_true(recv(caller->connection, &byte, 1, 0) <= 0);
	} else {
		stop(pid);
	}
}

static void descriptors_arrive_at_their_ports(void **state) {
	struct lab *f = *state;
	struct caller caller = {0};

	call(f, &caller);
	assert_int_equal(caller.error, 0);
	assert_int_equal(caller.handover.vip_maps, 3);
	assert_true(same_file(caller.handover.statistics_fd, f->segment->statistics_fd));
	assert_true(same_file(caller.handover.tables_fd, f->segment->tables_fd));
	assert_true(same_file(caller.handover.vip_map_fd[0], f->map_fds[0]));
	assert_int_equal(caller.handover.vip_map_fd[1], -1);
	assert_true(same_file(caller.handover.vip_map_fd[2], f->map_fds[1]));
	for (unsigned int i = 3; i < WEIR_PORTS_MAX; i++) {
		assert_int_equal(caller.handover.vip_map_fd[i], -1);
	}
	assert_int_equal(fcntl(caller.handover.statistics_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(caller.handover.tables_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(caller.connection, F_GETFD), FD_CLOEXEC);
	close(caller.connection);
	close(caller.handover.statistics_fd);
	close(caller.handover.tables_fd);
	close(caller.handover.vip_map_fd[0]);
	close(caller.handover.vip_map_fd[2]);
}

static void sixteen_steered_ports_fit_in_one_message(void **state) {
	struct lab *f = *state;
	struct caller caller = {0};

	f->offer.vip_maps = WEIR_PORTS_MAX;
	for (unsigned int i = 0; i < WEIR_PORTS_MAX; i++) {
		f->offer.vip_map_fd[i] = f->map_fds[i % 2];
	}
	call(f, &caller);
	assert_int_equal(caller.error, 0);
	for (unsigned int i = 0; i < WEIR_PORTS_MAX; i++) {
		assert_true(same_file(caller.handover.vip_map_fd[i], f->map_fds[i % 2]));
		close(caller.handover.vip_map_fd[i]);
	}
	close(caller.handover.statistics_fd);
	close(caller.handover.tables_fd);
	close(caller.connection);
}

static void crowd_at_the_door_does_not_hold_the_server(void **state) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fds[CROWD];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	for (unsigned int i = 0; i < CROWD; i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		// A longer queue than one call serves; it may be shorter (net.core.somaxconn).
		if (connect(fds[i], (struct sockaddr *)&address, sizeof(address)) != 0) {
			assert_int_equal(errno, EAGAIN);
		}
	}
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(weir_handover_serve(f->server, &f->offer), getpid());
	}
	// What the attached one sends does not matter.
	assert_int_equal(send(fds[0], "hello", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(weir_handover_serve(f->server, &f->offer), getpid());
	for (unsigned int i = 0; i < CROWD; i++) {
		close(fds[i]);
	}
	serve_until(f, 0);
}

static void who_left_before_he_was_served_is_no_trouble(void **state) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	for (unsigned int i = 0; i < 5; i++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		close(fd);
	}
	serve_until(f, 0);
}

// --- the socket file --------------------------------------------------------------------------

static void stop_server(struct lab *f) {
	weir_handover_server_free(f->server);
	f->server = NULL;
}

static void expect_socket(const struct lab *f, uid_t uid, gid_t gid, mode_t mode) {
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, mode);
	assert_int_equal(st.st_uid, uid);
	assert_int_equal(st.st_gid, gid);
}

static void socket_is_for_controls_user_and_root(void **state) {
	struct lab *f = *state;

	if (getuid() != 0) {
		expect_socket(f, getuid(), getgid(), 0600);
		return;
	}
	expect_socket(f, 0, 0, 0660);
	stop_server(f);
	// Whatever the group: its members have no business here.
	assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
	expect_socket(f, CONTROL, 0, 0660);
}

// Become somebody, with a group besides.
static bool become(uid_t uid, gid_t group) {
	return setgroups(1, &group) == 0 && setgid(uid) == 0 && setuid(uid) == 0;
}

// In a child of that user: what weir_handover_connect returns, and a word of why. 0 = as expected.
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
		r = weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why));
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

static void member_of_the_group_cannot_even_connect(void **state) {
	struct lab *f = *state;

	if (getuid() != 0) {
		skip(); // nobody else to become
	}
	assert_int_equal(chmod(f->dir, 0755), 0);
	stop_server(f);
	assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
	assert_int_equal(wait_exit(start_attempt(f, MEMBER, -EACCES, "--control-user 4242")), 0);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, 0, NULL)), 0);
	serve_until(f, 0);
	assert_int_equal(serve_while(f, start_attempt(f, 0, 0, NULL)), 0);
}

// The mode may have been changed by hand, or by a hostile process of control's user.
static void peer_of_another_user_gets_no_descriptor(void **state) {
	struct weir_handover_refusals refusals;
	struct lab *f = *state;
	pid_t pid;

	if (getuid() != 0) {
		skip();
	}
	assert_int_equal(chmod(f->dir, 0755), 0);
	stop_server(f);
	assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
	assert_int_equal(chmod(f->path, 0666), 0);
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
	// Nobody but root, where no user is named.
	stop_server(f);
	assert_int_equal(listen_for(f, (uid_t)-1, MEMBER), 0);
	assert_int_equal(chmod(f->path, 0666), 0);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, -EPERM, "4243")), 0);
	assert_int_equal(serve_while(f, start_attempt(f, 0, 0, NULL)), 0);
	// Neither is he told of the one that is attached.
	serve_until(f, 0);
	pid = start_control(f);
	serve_until(f, pid);
	assert_int_equal(serve_while(f, start_attempt(f, CONTROL, -EPERM, "4243")), 0);
	stop(pid);
}

// Connect as fast as it goes, until killed.
static pid_t start_flood(struct lab *f, uid_t uid) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t pid = fork();

	assert_true(pid >= 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	if (pid == 0 && become(uid, MEMBER)) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // when the test fails
		for (;;) {
			int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

			(void)connect(fd, (struct sockaddr *)&address, sizeof(address));
			close(fd);
		}
	}
	return pid;
}

static void flood_of_refused_peers_keeps_nobody_out(void **state) {
	struct weir_handover_refusals refusals;
	struct lab *f = *state;
	uint64_t end;
	pid_t flood;

	if (getuid() != 0) {
		skip();
	}
	assert_int_equal(chmod(f->dir, 0755), 0);
	stop_server(f);
	assert_int_equal(listen_for(f, CONTROL, MEMBER), 0);
	assert_int_equal(chmod(f->path, 0666), 0);
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

// A file that others can open can be locked by them; the directory can be opened.
static void lock_cannot_be_taken_by_others(void **state) {
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

// Control connects as soon as the socket appears: it must not find one that is not its own yet.
static void socket_never_refuses_its_user(void **state) {
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
		prctl(PR_SET_PDEATHSIG, SIGKILL); // when the test fails
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

// What a dataplane leaves that died before its socket had its name.
static void unnamed_socket_is_replaced(void **state) {
	struct lab *f = *state;
	char early[128];

	stop_server(f);
	snprintf(early, sizeof(early), "%s.new", f->path);
	assert_int_equal(mknod(early, S_IFSOCK | 0600, 0), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
	assert_int_equal(access(early, F_OK), -1);
}

static void squatters_socket_is_replaced(void **state) {
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
	// One that is ours and listens is another dataplane.
	stop_server(f);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), -EADDRINUSE);
	close(fd);
	assert_int_equal(unlink(f->path), 0);
}

static void live_socket_is_left_alone_and_a_stale_one_replaced(void **state) {
	struct lab *f = *state;
	const struct weir_handover_params params = {
		.run_dir = f->dir, .control_user = (uid_t)-1, .group = (gid_t)-1};
	struct weir_handover_server *second = NULL;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	assert_int_equal(weir_handover_listen(&params, &second), -EADDRINUSE);
	assert_null(second);
	serve_until(f, 0); // the probe came and went
	weir_handover_server_free(f->server);
	f->server = NULL;
	// What a killed dataplane leaves.
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(listen_for(f, (uid_t)-1, (gid_t)-1), 0);
}

static void other_file_of_that_name_is_not_removed(void **state) {
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

static void missing_directory_and_overlong_path_are_refused(void **state) {
	struct weir_handover_server *server = NULL;
	struct weir_handover handover;
	char path[200], why[300] = "";
	struct weir_handover_params params = {
		.run_dir = path, .control_user = (uid_t)-1, .group = (gid_t)-1};
	int connection;

	(void)state;
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(weir_handover_listen(&params, &server), -ENAMETOOLONG);
	assert_int_equal(weir_handover_connect(path, &handover, &connection, why, sizeof(why)),
		-ENAMETOOLONG);
	params.run_dir = "/nonexistent/weir";
	assert_int_equal(weir_handover_listen(&params, &server), -ENOENT);
	weir_handover_server_free(NULL);
}

// --- what a control process may meet ------------------------------------------------------------

static int connect_to(struct lab *f, char *why, size_t why_bytes) {
	struct weir_handover handover = {.statistics_fd = -7, .tables_fd = -7};
	int connection = -7;
	int r = weir_handover_connect(f->dir, &handover, &connection, why, why_bytes);

	assert_true(r < 0);
	assert_int_equal(handover.statistics_fd, -7);
	assert_int_equal(handover.tables_fd, -7);
	assert_int_equal(connection, -7);
	return r;
}

static void no_dataplane_is_said_so(void **state) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char why[200] = "";
	int fd;

	weir_handover_server_free(f->server);
	f->server = NULL;
	assert_int_equal(connect_to(f, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "is it running?"));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(connect_to(f, why, sizeof(why)), -ECONNREFUSED);
	assert_int_equal(unlink(f->path), 0);
}

// As many descriptors as there are free places, and one more, are not enough for all that come.
static void lack_of_descriptors_is_said_so(void **state) {
	struct lab *f = *state;
	struct rlimit before, limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int spare = 1; spare <= 4; spare++) {
		struct caller caller = {0};
		int next = dup(f->segment->tables_fd);

		close(next);
		limit = before;
		limit.rlim_cur = (rlim_t)(next + spare);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		call(f, &caller);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(caller.error, -EMFILE);
		assert_non_null(strstr(caller.why, "Too many open files"));
	}
}

static void silent_dataplane_is_given_up(void **state) {
	struct lab *f = *state;
	char why[200] = "";
	uint64_t start = now_ms();

	assert_int_equal(connect_to(f, why, sizeof(why)), -ETIMEDOUT);
	assert_true(now_ms() - start < DEADLINE_MS);
	assert_non_null(strstr(why, "does not reply"));
}

// A server that is none of ours: sends `bytes` of an answer with n descriptors, or just hangs up.
static void answer_like(
	struct lab *f, const void *answer, size_t bytes, unsigned int n, int expected) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char why[200] = "";
	int listener;
	pid_t pid;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		union {
			char bytes[CMSG_SPACE(40 * sizeof(int))];
			struct cmsghdr align;
		} control = {{0}};
		struct iovec iov = {.iov_base = (void *)answer, .iov_len = bytes};
		struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
		int fd = accept(listener, NULL, NULL);

		if (n > 0) {
			struct cmsghdr *header;

			message.msg_control = control.bytes;
			message.msg_controllen = CMSG_SPACE(n * sizeof(int));
			header = CMSG_FIRSTHDR(&message);
			header->cmsg_level = SOL_SOCKET;
			header->cmsg_type = SCM_RIGHTS;
			header->cmsg_len = CMSG_LEN(n * sizeof(int));
			for (unsigned int i = 0; i < n; i++) {
				memcpy(CMSG_DATA(header) + i * sizeof(int),
					&f->segment->statistics_fd, sizeof(int));
			}
		}
		if (bytes > 0) {
			sendmsg(fd, &message, MSG_NOSIGNAL);
		}
		_exit(0);
	}
	close(listener);
	assert_int_equal(connect_to(f, why, sizeof(why)), expected);
	assert_true(why[0] != '\0');
	assert_int_equal(wait_exit(pid), 0);
	assert_int_equal(unlink(f->path), 0);
}

static void broken_answers_are_refused_and_leak_nothing(void **state) {
	struct lab *f = *state;
	struct { // as in handover.c
		uint64_t magic, fingerprint;
		uint32_t abi, error, pid, vip_maps, steered, reserved;
	} good = {WEIR_SEGMENT_MAGIC, weir_layout_fingerprint(), WEIR_SEGMENT_ABI, 0, 0, 2, 1, 0},
	  bad;

	weir_handover_server_free(f->server);
	f->server = NULL;
	answer_like(f, &good, 0, 0, -EPROTO); // hangs up
	answer_like(f, &good, sizeof(good) - 1, 3, -EPROTO);
	answer_like(f, &good, sizeof(good), 0, -EPROTO);
	answer_like(f, &good, sizeof(good), 1, -EPROTO);
	answer_like(f, &good, sizeof(good), 2, -EPROTO);
	answer_like(f, &good, sizeof(good), 4, -EPROTO);
	answer_like(f, &good, sizeof(good), 40, -EPROTO); // more than there is room for
	bad = good;
	bad.magic++;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.abi++;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.fingerprint++;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.error = ENOENT;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.vip_maps = 17;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.vip_maps = UINT32_MAX;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.steered = 4; // a port beyond vip_maps
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.error = EBUSY;
	answer_like(f, &bad, sizeof(bad), 3, -EBUSY); // with descriptors all the same
	bad.error = EPERM;
	answer_like(f, &bad, sizeof(bad), 3, -EPERM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(control_gets_the_segment_and_its_end_is_noticed),
		TEST(killed_control_is_followed_by_another),
		TEST(second_control_is_told_who_is_attached),
		TEST(descriptors_arrive_at_their_ports),
		TEST(sixteen_steered_ports_fit_in_one_message),
		TEST(crowd_at_the_door_does_not_hold_the_server),
		TEST(who_left_before_he_was_served_is_no_trouble),
		TEST(socket_is_for_controls_user_and_root),
		TEST(member_of_the_group_cannot_even_connect),
		TEST(peer_of_another_user_gets_no_descriptor),
		TEST(flood_of_refused_peers_keeps_nobody_out),
		TEST(lock_cannot_be_taken_by_others),
		TEST(socket_never_refuses_its_user),
		TEST(unnamed_socket_is_replaced),
		TEST(squatters_socket_is_replaced),
		TEST(live_socket_is_left_alone_and_a_stale_one_replaced),
		TEST(other_file_of_that_name_is_not_removed),
		TEST(missing_directory_and_overlong_path_are_refused),
		TEST(no_dataplane_is_said_so),
		TEST(lack_of_descriptors_is_said_so),
		TEST(silent_dataplane_is_given_up),
		TEST(broken_answers_are_refused_and_leak_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
