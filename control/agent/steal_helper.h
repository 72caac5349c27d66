// SPDX-License-Identifier: BSD-3-Clause
//
// Steal helper: a child process that removes handshakes which have not ended, with CAP_NET_ADMIN
// and no other capability, as the agent's user. So the process that reads datagrams needs none, and
// all that it could have removed are handshakes at the service's ports. It ends with its parent.
//
// Threads: one. No logging.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "handshake.h"
#include "privileges.h"

struct weir_steal_helper_params {
	const uint16_t *ports; // VIP ports, host order; others are refused
	uint32_t port_count;
	const struct weir_agent_user *user; // who it becomes
	int parents; // a descriptor of the parent that it must not keep, or -1
};

struct weir_steal_helper_request {
	uint32_t number; // comes back; not 0
	struct weir_handshake_flow flow;
	uint64_t deadline_ms; // CLOCK_MONOTONIC; nothing is removed from then on
};

enum weir_steal_helper_step { WEIR_STEAL_HELPER_PRIVILEGES, WEIR_STEAL_HELPER_SOCKET };

struct weir_steal_helper_answer {
	uint32_t number; // 0 = to no request: the helper cannot begin, and ends
	enum weir_steal_helper_step step; // with number 0: what has failed
	int error; // 0 or negative errno: -ETIME (the deadline), -EPERM, -EOPNOTSUPP, ...
	bool removed;
	struct weir_handshake found; // what is there now, without an error
};

// Fork it. *ret: our end of the connection, non-blocking; closing it ends the child.
// Before any thread is started. Returns 0 or negative errno.
int weir_steal_helper_start(const struct weir_steal_helper_params *params, int *ret);

// Each request gets one answer. Returns 0 or negative errno: -EAGAIN (too many at once), -EPIPE.
int weir_steal_helper_ask(int fd, const struct weir_steal_helper_request *request);

// Returns 0, -EAGAIN (no answer yet), -EPIPE (the helper has ended), or another negative errno.
int weir_steal_helper_answer(int fd, struct weir_steal_helper_answer *ret);
