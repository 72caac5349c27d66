// SPDX-License-Identifier: BSD-3-Clause
//
// Shed helper: a child process that lists the connections of a service and ends idle connections.
// The child runs as the agent's user, with CAP_NET_ADMIN and no other capability. Therefore the
// process that reads datagrams needs no capability, and long lists of sockets do not delay its
// answers. With a hook, the helper has no capability, and only returns the connections to pass to
// the hook. The helper exits when its parent exits.
//
// The helper ends connections only at the agent's ports, and only connections that have been idle
// for at least WEIR_AGENT_SHED_IDLE_LEAST_MS. The helper leaves at least `keep` of the connections
// that were open when it last listed the sockets. Connections that clients have closed since then
// still count as open.
//
// Threads: one. No logging.
#pragma once

#include "privileges.h"
#include "shed_pick.h"

#define WEIR_SHED_BATCH 256u // maximum number of connections to end in a request
#define WEIR_SHED_LOOK_MS 1000u // minimum time between two lists of the sockets for an order

struct weir_shed_helper_params {
	const uint16_t *ports; // permitted ports, host order
	uint32_t port_count;
	const struct weir_run_as *user; // user to switch to
	bool hook;
};

struct weir_shed_helper_request {
	uint32_t number; // ID of the request, which the answer repeats; not 0
	// ID of the order. If it differs from the ID in the previous request, the order is new, and
	// the helper lists the sockets again.
	uint32_t order;
	struct weir_agent_shed_bind binds[WEIR_AGENT_SHED_BINDS];
	uint8_t bind_count;
	uint32_t idle_ms, keep;
	uint32_t count; // maximum connections to end now, up to WEIR_SHED_BATCH
	uint64_t deadline_ms; // CLOCK_MONOTONIC; after this time no connection is ended
};

enum weir_shed_helper_step { WEIR_SHED_HELPER_PRIVILEGES, WEIR_SHED_HELPER_START };

struct weir_shed_helper_answer {
	uint32_t number; // ID of the request; 0 = the helper failed to start, and exits
	enum weir_shed_helper_step step; // if number is 0: the step that failed
	int error; // 0 or negative errno: -EPERM, -EOPNOTSUPP, ...
	// Numbers for the answer to the order, from the last list of the sockets. Since then, the
	// helper has subtracted the connections that it has ended from `connections`, and the
	// connections that it has picked from `candidates`.
	uint32_t connections, candidates, leaving;
	uint32_t ended; // connections ended; with a hook, number of connections in `connection`
	struct weir_shed_connection connection[WEIR_SHED_BATCH]; // connections to pass to the hook;
								 // unused without a hook
};

// Fork the helper. *ret: the parent's end of the connection, non-blocking; closing this descriptor
// terminates the child. Call this function before any thread is started. Returns 0 or negative
// errno.
int weir_shed_helper_start(const struct weir_shed_helper_params *params, int *ret);

// Send a request; each request gets one answer. Returns 0 or negative errno: -EAGAIN, -EPIPE (the
// helper has exited).
int weir_shed_helper_send(int fd, const struct weir_shed_helper_request *request);

// Receive the answer to a request. Returns 0, -EAGAIN (no answer yet), -EPIPE (the helper has
// exited), or another negative errno.
int weir_shed_helper_answer(int fd, struct weir_shed_helper_answer *ret);
