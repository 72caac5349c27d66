// SPDX-License-Identifier: BSD-3-Clause
//
// Handover between the two processes: file descriptors, takeover, and invalid or missing answers.
#include "handover_lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fingerprint.h"

#define CROWD 200 // number of connections

TEST(control_gets_the_segment_and_its_end_is_detected) {
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

TEST(killed_control_is_followed_by_another) {
	struct lab *f = *state;

	for (uint64_t round = 1; round <= 20; round++) {
		pid_t pid = start_control(f);

		serve_until(f, pid);
		wait_for_publication(f, round);
		stop(pid);
	}
	serve_until(f, 0);
}

TEST(second_control_gets_the_pid_of_the_attached_one) {
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

static int listen_to_connections(void) {
	const struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

// The child sends the last reference to a connection and exits. A close() of this connection would
// wait for 60 s.
static void send_lingering(int connection, int listener) {
	const struct linger linger = {.l_onoff = 1, .l_linger = 60};
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);
	static char data[1 << 16];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct iovec part = {.iov_base = data, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (getsockname(listener, (struct sockaddr *)&address, &bytes) ||
		connect(fd, (struct sockaddr *)&address, bytes) ||
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger))) {
		_exit(1);
	}
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0) {
	}
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	_exit(sendmsg(connection, &message, 0) == 1 ? 0 : 1);
}

TEST(descriptors_of_control_do_not_delay_the_dataplane) {
	struct lab *f = *state;
	int listener = listen_to_connections();
	pid_t pid = fork();
	uint64_t start;

	if (pid == 0) {
		struct weir_handover handover;
		char why[200] = "";
		int connection = -1;

		if (weir_handover_connect(f->dir, &handover, &connection, why, sizeof(why))) {
			_exit(1);
		}
		send_lingering(connection, listener);
	}
	serve_until(f, pid);
	assert_int_equal(wait_exit(pid), 0);
	start = now_ms();
	assert_int_equal(weir_handover_serve(f->server, &f->offer), 0);
	assert_true(now_ms() - start < DEADLINE_MS);
	close(listener);
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

// Connects as the client. A child process, which shares the listening socket, is the server.
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
		// The client must detect that the server closes the connection.
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

TEST(descriptors_arrive_at_their_ports) {
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

TEST(sixteen_steered_ports_fit_in_one_message) {
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

TEST(many_connections_do_not_block_the_server) {
	struct lab *f = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fds[CROWD];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	for (unsigned int i = 0; i < CROWD; i++) {
		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		// There are more connections than one call serves. Some may be refused, because
		// the accept queue may be shorter (net.core.somaxconn).
		if (connect(fds[i], (struct sockaddr *)&address, sizeof(address)) != 0) {
			assert_int_equal(errno, EAGAIN);
		}
	}
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(weir_handover_serve(f->server, &f->offer), getpid());
	}
	// Data from the attached process is ignored.
	assert_int_equal(send(fds[0], "hello", 5, MSG_NOSIGNAL), 5);
	assert_int_equal(weir_handover_serve(f->server, &f->offer), getpid());
	for (unsigned int i = 0; i < CROWD; i++) {
		close(fds[i]);
	}
	serve_until(f, 0);
}

TEST(peer_that_left_before_it_was_served_is_ignored) {
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

// --- errors that a control process may get ---------------------------------------------------

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

TEST(missing_dataplane_is_reported) {
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

// If the client has too few free descriptors for all received descriptors, it reports this.
TEST(lack_of_descriptors_is_reported) {
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

TEST(silent_dataplane_times_out) {
	struct lab *f = *state;
	char why[200] = "";
	uint64_t start = now_ms();

	assert_int_equal(connect_to(f, why, sizeof(why)), -ETIMEDOUT);
	assert_true(now_ms() - start < DEADLINE_MS);
	assert_non_null(strstr(why, "does not reply"));
}

// Acts as a foreign server: sends `bytes` bytes of an answer with n descriptors, or only closes the
// connection.
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

TEST(invalid_answers_are_refused_and_leak_nothing) {
	struct lab *f = *state;
	struct { // the message, as in handover.c
		uint64_t magic, fingerprint;
		uint32_t abi, error, pid, vip_maps, steered, reserved;
	} good = {WEIR_SEGMENT_MAGIC, weir_layout_fingerprint(), WEIR_SEGMENT_ABI, 0, 0, 2, 1, 0},
	  bad;

	weir_handover_server_free(f->server);
	f->server = NULL;
	answer_like(f, &good, 0, 0, -EPROTO); // the server closes the connection
	answer_like(f, &good, sizeof(good) - 1, 3, -EPROTO);
	answer_like(f, &good, sizeof(good), 0, -EPROTO);
	answer_like(f, &good, sizeof(good), 1, -EPROTO);
	answer_like(f, &good, sizeof(good), 2, -EPROTO);
	answer_like(f, &good, sizeof(good), 4, -EPROTO);
	// more descriptors than the client can receive
	answer_like(f, &good, sizeof(good), 40, -EPROTO);
	bad = good;
	bad.magic++;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.abi++;
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad.fingerprint = 0;
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
	bad.steered = 4; // a steered port beyond vip_maps
	answer_like(f, &bad, sizeof(bad), 3, -EPROTO);
	bad = good;
	bad.error = EBUSY;
	answer_like(f, &bad, sizeof(bad), 3, -EBUSY); // a refusal that contains descriptors
	bad.error = EPERM;
	answer_like(f, &bad, sizeof(bad), 3, -EPERM);
}
