// SPDX-License-Identifier: BSD-3-Clause
#include "meter_helper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper_process.h"
#include "privileges.h"

enum { LOAD = 'l', UNLOAD = 'u', WATCH = 'w' }; // requests

#define FDS 2

struct message { // message from the helper; the descriptors of a loaded program are attached
	char request;
	bool loaded;
	int error;
	char why[192];
};

union fd_space {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(FDS * sizeof(int))];
};

static int send_answer(int fd, const struct message *message, const int *fds, size_t fd_count) {
	union fd_space control = {0};
	struct iovec data = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
	struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};

	if (fd_count > 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
	}
	return sendmsg(fd, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int answer_meter(int fd, struct message *message, const struct weir_meter_program *program) {
	int passed = program != NULL ? weir_meter_fd(program) : -1;

	message->loaded = program != NULL;
	return send_answer(fd, message, &passed, program != NULL ? 1 : 0);
}

static int answer_watch(int fd, struct message *message, const struct weir_meter_params *params) {
	struct weir_listen_program program;
	int r;

	message->error = weir_listen_load(
		params->ports, params->port_count, &program, message->why, sizeof(message->why));
	if (message->error) {
		return send_answer(fd, message, NULL, 0);
	}
	message->loaded = true;
	r = send_answer(fd, message, (const int[FDS]){program.ring, program.attachment}, FDS);
	weir_listen_unload(&program); // the receiver has descriptors of the program
	return r;
}

// Serve requests in the child, until the parent closes the connection. A request is one byte, and a
// response is one struct message.
static void serve(int fd, const void *params) {
	static const cap_value_t kept[] = {CAP_BPF, CAP_PERFMON};
	struct weir_meter_program *program = NULL;
	char request;
	int r = 0;

	// Ignore a missing capability: loading the program reports the error.
	(void)weir_privileges_keep(kept, 2);
	while (r == 0 && read(fd, &request, 1) == 1) {
		struct message message = {.request = request};

		if (request == WATCH) {
			r = answer_watch(fd, &message, params);
			continue;
		}
		if (request == LOAD && program == NULL) {
			message.error =
				weir_meter_load(params, &program, message.why, sizeof(message.why));
		} else if (request == UNLOAD) {
			weir_meter_unload(program);
			program = NULL;
		}
		r = answer_meter(fd, &message, program);
	}
	weir_meter_unload(program);
}

int weir_meter_helper_start(const struct weir_meter_params *params, int *ret) {
	return weir_helper_start("weir-agent-bpf", serve, params, ret);
}

static int send_request(int fd, char request) {
	return send(fd, &request, 1, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int weir_meter_helper_send(int fd, bool load) {
	return send_request(fd, load ? LOAD : UNLOAD);
}

// Receive a message of the helper. fds: gets the received descriptors; -1 = none. Returns 0 or
// negative errno.
static int receive(int fd, struct message *ret, int fds[static FDS]) {
	union fd_space control = {0};
	struct iovec data = {.iov_base = ret, .iov_len = sizeof(*ret)};
	struct msghdr header = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *passed = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

	if (n <= 0) {
		return n < 0 ? -errno : -EPIPE;
	}
	ret->why[sizeof(ret->why) - 1] = '\0';
	for (size_t i = 0; i < FDS; i++) {
		fds[i] = -1;
		if (passed != NULL && passed->cmsg_type == SCM_RIGHTS &&
			passed->cmsg_len >= CMSG_LEN((i + 1) * sizeof(int))) {
			memcpy(&fds[i], CMSG_DATA(passed) + i * sizeof(int), sizeof(int));
		}
	}
	return 0;
}

int weir_meter_helper_answer(int fd, struct weir_meter_answer *ret) {
	struct message message = {0};
	struct weir_listen_program late;
	int fds[FDS], r = receive(fd, &message, fds);

	if (r) {
		return r;
	}
	// a late answer: weir_meter_helper_watch no longer waits for it
	if (message.request == WATCH) {
		late = (struct weir_listen_program){fds[0], fds[1]};
		weir_listen_unload(&late);
		return -EAGAIN;
	}
	*ret = (struct weir_meter_answer){
		.loaded = message.loaded, .error = message.error, .fd = fds[0]};
	memcpy(ret->why, message.why, sizeof(ret->why));
	return 0;
}

int weir_meter_helper_watch(
	int fd, int timeout_ms, struct weir_listen_program *ret, char *why, size_t why_bytes) {
	struct pollfd answer = {.fd = fd, .events = POLLIN};
	struct message message = {0};
	struct weir_listen_program program;
	int fds[FDS] = {-1, -1}, r = send_request(fd, WATCH);

	if (r == 0) {
		r = poll(&answer, 1, timeout_ms) == 1 ? receive(fd, &message, fds) : -ETIMEDOUT;
	}
	if (r) {
		snprintf(why, why_bytes, "no response from the helper process: %s", strerror(-r));
		return r;
	}
	if (message.error) {
		snprintf(why, why_bytes, "%s", message.why);
		return message.error;
	}
	program = (struct weir_listen_program){.ring = fds[0], .attachment = fds[1]};
	// At the limit of open descriptors, the kernel passes only some of the descriptors.
	if (program.ring < 0 || program.attachment < 0) {
		weir_listen_unload(&program);
		snprintf(why, why_bytes, "cannot receive all descriptors of the BPF program: %s",
			strerror(EMFILE));
		return -EMFILE;
	}
	*ret = program;
	return 0;
}
