// SPDX-License-Identifier: BSD-3-Clause
#include "meter_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "privileges.h"

struct message { // from the helper; a loaded program comes with its descriptor
	int error;
	bool loaded;
	char why[192];
};

static int send_answer(int fd, const struct message *message, int passed) {
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec data = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};

	if (passed >= 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &passed, sizeof(passed));
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

// The child's loop: one byte per request, one message per answer.
static void serve(int fd, const struct weir_meter_params *params) {
	struct weir_meter_program *program = NULL;
	char request;

	while (read(fd, &request, 1) == 1) {
		struct message message = {0};

		if (request == 'l' && program == NULL) {
			message.error =
				weir_meter_load(params, &program, message.why, sizeof(message.why));
		} else if (request == 'u') {
			weir_meter_unload(program);
			program = NULL;
		}
		message.loaded = program != NULL;
		if (send_answer(fd, &message, program != NULL ? weir_meter_fd(program) : -1)) {
			break;
		}
	}
	weir_meter_unload(program);
}

static void be_helper(int fd, const struct weir_meter_params *params) {
	prctl(PR_SET_NAME, "weir-agent-bpf");
	signal(SIGTERM,
		SIG_IGN); // sent to the whole process group; the parent decides when the helper
			  // ends
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	// A failure needs no report here: the privilege was absent, or loading reports the error.
	(void)weir_agent_privileges_keep_bpf();
	serve(fd, params);
}

int weir_meter_helper_start(const struct weir_meter_params *params, int *ret) {
	int fds[2], r;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		return -errno;
	}
	child = fork();
	if (child < 0) {
		r = -errno;
		close(fds[0]);
		close(fds[1]);
		return r;
	}
	if (child == 0) {
		close(fds[0]);
		be_helper(fds[1], params);
		_exit(0);
	}
	close(fds[1]);
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK)) {
		r = -errno;
		close(fds[0]);
		return r;
	}
	*ret = fds[0];
	return 0;
}

int weir_meter_helper_ask(int fd, bool load) {
	return send(fd, load ? "l" : "u", 1, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int weir_meter_helper_answer(int fd, struct weir_meter_answer *ret) {
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct message message = {0};
	struct iovec data = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr header = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *passed = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

	if (n <= 0) {
		return n < 0 ? -errno : -EPIPE;
	}
	*ret = (struct weir_meter_answer){
		.loaded = message.loaded, .error = message.error, .fd = -1};
	memcpy(ret->why, message.why, sizeof(ret->why) - 1);
	if (passed != NULL && passed->cmsg_type == SCM_RIGHTS) {
		memcpy(&ret->fd, CMSG_DATA(passed), sizeof(ret->fd));
	}
	return 0;
}
