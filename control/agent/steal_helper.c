// SPDX-License-Identifier: BSD-3-Clause
#include "steal_helper.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>

#include "clocks.h"
#include "helper_process.h"
#include "privileges.h"

static bool is_port(const struct weir_steal_helper_params *params, uint16_t port) {
	for (uint32_t i = 0; i < params->port_count; i++) {
		if (params->ports[i] == port) {
			return true;
		}
	}
	return false;
}

static struct weir_steal_helper_answer serve_one(const struct weir_steal_helper_params *params,
	struct weir_handshakes *handshakes, const struct weir_steal_helper_request *request) {
	struct weir_steal_helper_answer answer = {.number = request->number};

	if (!is_port(params, request->flow.vip_port)) {
		answer.error = -EACCES;
	} else if (request->deadline_ms <= weir_monotonic_ms()) {
		answer.error = -ETIME;
	} else {
		answer.error = weir_handshake_remove(
			handshakes, &request->flow, &answer.found, &answer.removed);
	}
	return answer;
}

// Serve requests in the child until the parent closes the connection.
static void serve(
	int fd, const struct weir_steal_helper_params *params, struct weir_handshakes *handshakes) {
	struct weir_steal_helper_request request;

	while (recv(fd, &request, sizeof(request), MSG_TRUNC) == sizeof(request)) {
		const struct weir_steal_helper_answer answer =
			serve_one(params, handshakes, &request);

		if (send(fd, &answer, sizeof(answer), MSG_NOSIGNAL) < 0) {
			break;
		}
	}
}

static void be_helper(int fd, const void *context) {
	static const cap_value_t kept[] = {CAP_NET_ADMIN};
	const struct weir_steal_helper_params *params = context;
	struct weir_steal_helper_answer failed = {.step = WEIR_STEAL_HELPER_PRIVILEGES};
	struct weir_handshakes handshakes;

	failed.error = weir_privileges_become(params->user, kept, 1);
	if (failed.error == 0) {
		failed.step = WEIR_STEAL_HELPER_SOCKET;
		failed.error = weir_handshakes_open(&handshakes);
	}
	if (failed.error == 0) {
		serve(fd, params, &handshakes);
	} else {
		(void)send(fd, &failed, sizeof(failed), MSG_NOSIGNAL);
	}
}

int weir_steal_helper_start(const struct weir_steal_helper_params *params, int *ret) {
	return weir_helper_start("weir-agent-net", be_helper, params, ret);
}

int weir_steal_helper_send(int fd, const struct weir_steal_helper_request *request) {
	return send(fd, request, sizeof(*request), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int weir_steal_helper_answer(int fd, struct weir_steal_helper_answer *ret) {
	struct weir_steal_helper_answer answer;
	ssize_t n = recv(fd, &answer, sizeof(answer), MSG_TRUNC);

	if (n < 0) {
		return -errno;
	}
	if (n != sizeof(answer)) {
		return -EPIPE;
	}
	*ret = answer;
	return 0;
}
