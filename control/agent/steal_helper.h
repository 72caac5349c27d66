// SPDX-License-Identifier: BSD-3-Clause
//
// Steal helper: a child process that removes incomplete handshakes. The child runs as the agent's
// user, with CAP_NET_ADMIN and no other capability. Therefore the process that reads datagrams
// needs no capability. Through the helper, that process can remove only handshakes on the service's
// ports. The helper exits when its parent exits.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "handshake.h"
#include "privileges.h"

struct weir_steal_helper_params {
	const uint16_t *ports; // permitted VIP ports, host order
	uint32_t port_count;
	const struct weir_run_as *user; // user to switch to
};

struct weir_steal_helper_request {
	uint32_t number; // ID of the request, which the answer repeats; not 0
	struct weir_handshake_flow flow;
	uint64_t deadline_ms; // CLOCK_MONOTONIC; after this time no handshake is removed
};

enum weir_steal_helper_step { WEIR_STEAL_HELPER_PRIVILEGES, WEIR_STEAL_HELPER_SOCKET };

struct weir_steal_helper_answer {
	uint32_t number; // ID of the request; 0 = the helper failed to start, and exits
	enum weir_steal_helper_step step; // if number is 0: the step that failed
	int error; // 0 or negative errno: -ETIME (the deadline), -EPERM, -EOPNOTSUPP, ...
	bool removed;
	struct weir_handshake found; // current state of the flow, if there was no error
};

// Fork the helper. *ret: the parent's end of the connection, non-blocking; closing this descriptor
// terminates the child. Call this function before any thread is started. Returns 0 or negative
// errno.
int weir_steal_helper_start(const struct weir_steal_helper_params *params, int *ret);

// Send a request; each request gets one answer. Returns 0 or negative errno: -EAGAIN (too many
// requests pending), -EPIPE (the helper has exited).
int weir_steal_helper_send(int fd, const struct weir_steal_helper_request *request);

// Receive the answer to a request. Returns 0, -EAGAIN (no answer yet), -EPIPE (the helper has
// exited), or another negative errno.
int weir_steal_helper_answer(int fd, struct weir_steal_helper_answer *ret);
