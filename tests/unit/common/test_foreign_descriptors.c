// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "foreign_descriptors.h"
#include "test.h"

#define LINGER_S 60
#define AT_ONCE_S 20
#define SOCKETS 8

struct lab {
	int listener;
	int peer[SOCKETS]; // peers that do not read
	int pair[2];
};

static time_t now_s(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

// Returns a connection whose close() blocks, because the peer does not read the sent data.
static int lingering(const struct lab *lab, int *ret_peer) {
	const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
	static const char data[1 << 16];
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(lab->listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, bytes), 0);
	*ret_peer = accept(lab->listener, NULL, NULL);
	assert_true(*ret_peer >= 0);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0) {
	}
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static int pass(int over, const int *fds, size_t count) {
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SOCKETS * sizeof(int))];
	} control;
	char byte = 'x';
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header;

	memset(&control, 0, sizeof(control));
	header = CMSG_FIRSTHDR(&message);
	*header = (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	return sendmsg(over, &message, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

// Send a message that has the last references to several connections whose close() blocks, because
// their peers do not read the sent data.
static void send_lingering(struct lab *lab) {
	int fds[SOCKETS];

	for (int i = 0; i < SOCKETS; i++) {
		fds[i] = lingering(lab, &lab->peer[i]);
	}
	assert_int_equal(pass(lab->pair[0], fds, SOCKETS), 0);
	for (int i = 0; i < SOCKETS; i++) {
		close(fds[i]);
	}
}

static void open_lab(struct lab *lab, int type) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};

	lab->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(lab->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(lab->listener, SOCKETS), 0);
	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, lab->pair), 0);
}

static void close_lab(struct lab *lab) {
	for (int i = 0; i < SOCKETS; i++) {
		close(lab->peer[i]);
	}
	close(lab->listener);
	close(lab->pair[0]);
}

TEST(foreign_descriptors_do_not_delay_a_read) {
	time_t start = now_s();
	struct lab lab;
	char byte;

	open_lab(&lab, SOCK_STREAM);
	send_lingering(&lab);
	assert_int_equal(weir_foreign_read(lab.pair[1], &byte, 1), 1);
	assert_int_equal(byte, 'x');
	assert_true(now_s() - start < AT_ONCE_S);
	close_lab(&lab);
	close(lab.pair[1]);
}

TEST(foreign_descriptors_do_not_delay_a_message) {
	struct iovec part = {.iov_base = (char[1]){0}, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	time_t start = now_s();
	struct lab lab;

	open_lab(&lab, SOCK_DGRAM);
	send_lingering(&lab);
	assert_int_equal(weir_foreign_recvmsg(lab.pair[1], &message, 0), 1);
	assert_true(now_s() - start < AT_ONCE_S);
	close_lab(&lab);
	close(lab.pair[1]);
}

TEST(foreign_descriptors_do_not_delay_a_close) {
	time_t start = now_s();
	struct lab lab;

	open_lab(&lab, SOCK_STREAM);
	send_lingering(&lab);
	weir_foreign_close(lab.pair[1]);
	assert_true(now_s() - start < AT_ONCE_S);
	close_lab(&lab);
}

TEST(foreign_calls_keep_errno) {
	char byte;

	assert_int_equal(weir_foreign_read(-1, &byte, 1), -1);
	assert_int_equal(errno, EBADF);
}

TEST(foreign_descriptors_are_refused) {
	struct lab lab = {.listener = -1};

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lab.pair), 0);
	weir_foreign_refuse(lab.pair[1]);
	if (getsockopt(lab.pair[1], SOL_SOCKET, 83, &(int){0}, &(socklen_t){sizeof(int)})) {
		skip(); // kernel before 6.16
	}
	assert_int_equal(pass(lab.pair[0], &lab.pair[0], 1), -EPERM);
	assert_int_equal(send(lab.pair[0], "x", 1, 0), 1);
	close(lab.pair[0]);
	close(lab.pair[1]);
}
