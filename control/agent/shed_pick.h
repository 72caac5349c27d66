// SPDX-License-Identifier: BSD-3-Clause
//
// Shed pick: which connections of a service may be ended, and in what sequence. A connection is
// idle if nothing is unsent, unacknowledged or unread in either direction, no data was sent or
// received for a time, and the server was the last to send. For SOCK_DESTROY, idle connections are
// picked, the longest idle first: these need the least. For the hook, all connections are picked,
// the most recently used first, because an application can only end a connection gracefully with
// its next answer.
//
// Threads: one. Pure: uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "socket_dump.h"

#define WEIR_SHED_PICKED_MOST 16384u // candidates that a look keeps
// Maximum time in which a hook may have a connection closed after it got it. For this time the
// connection counts as leaving, so that no other is passed in its place; then it may be passed
// again.
#define WEIR_SHED_HANDED_MS 300000u

struct weir_shed_connection {
	uint8_t family; // AF_INET or AF_INET6, of the socket
	struct inet_diag_sockid id;
	uint32_t idle_ms; // time without data in either direction
};

struct weir_shed_handed { // a connection that was passed to the hook
	uint64_t cookie, at_ms;
	bool open; // the present look has found it
};

struct weir_shed_pick { // zeroed = empty
	// Criteria for candidates; set before weir_shed_pick_begin.
	const struct weir_agent_shed_bind *binds;
	uint8_t bind_count;
	uint32_t idle_ms; // minimum idle time; ignored with `hook`
	bool hook;

	uint32_t connections; // connections of the binds
	uint32_t candidates; // those that may be ended now
	uint32_t leaving; // connections of the binds that were passed to the hook
	uint32_t picked, next; // number of picked connections; index of the next to end
	struct weir_shed_connection *connection; // [WEIR_SHED_PICKED_MOST]
	// Of all services, [handed_count], ascending by cookie.
	struct weir_shed_handed *handed;
	uint32_t handed_count;
};

// Returns 0 or -ENOMEM.
int weir_shed_pick_init(struct weir_shed_pick *pick);
void weir_shed_pick_fini(struct weir_shed_pick *pick);

// Call this before a dump of the sockets. Removes the entries of connections that were passed to
// the hook at least WEIR_SHED_HANDED_MS ago.
void weir_shed_pick_begin(struct weir_shed_pick *pick, uint64_t now_ms);
// Take a socket of a dump of ESTABLISHED sockets with INET_DIAG_INFO: a weir_socket_take, context:
// the pick. The dump must have the connections of all services: those that it lacks have closed. If
// there are more candidates than room, the kernel's sequence decides, which is random.
void weir_shed_pick_take(void *context, const struct weir_socket *socket);
// End a look: sort the candidates, and forget connections that were passed to the hook and have
// closed. complete: the dump was; otherwise none is forgotten.
void weir_shed_pick_end(struct weir_shed_pick *pick, bool complete);

// Returns the next candidate, or NULL. Each candidate is returned once.
const struct weir_shed_connection *weir_shed_pick_next(struct weir_shed_pick *pick);
// Record that a candidate was passed to the hook. Returns false if there is no room: then it must
// not be passed.
bool weir_shed_pick_hand(struct weir_shed_pick *pick, const struct weir_shed_connection *connection,
	uint64_t now_ms);

// Returns whether a socket is a connection to one of these binds.
bool weir_shed_is_of(const struct weir_agent_shed_bind *binds, uint8_t bind_count, uint8_t family,
	const struct inet_diag_sockid *id);
// Returns whether a socket is idle for at least idle_ms. info: its INET_DIAG_INFO. *ret: its idle
// time.
bool weir_shed_is_idle(const struct inet_diag_msg *message, const void *info, size_t info_bytes,
	uint32_t idle_ms, uint32_t *ret);
