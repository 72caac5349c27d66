// SPDX-License-Identifier: BSD-3-Clause
#include "meter_helper.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper_process.h"
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

// The child: a request is one byte, a response one message.
static void serve(int fd, const void *params) {
	static const cap_value_t kept[] = {CAP_BPF, CAP_PERFMON};
	struct weir_meter_program *program = NULL;
	char request;

	// Ignore a missing capability: loading reports the error.
	(void)weir_privileges_keep(kept, 2);
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

int weir_meter_helper_start(const struct weir_meter_params *params, int *ret) {
	return weir_helper_start("weir-agent-bpf", serve, params, ret);
}

int weir_meter_helper_send(int fd, bool load) {
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
