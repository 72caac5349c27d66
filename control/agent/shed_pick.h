// SPDX-License-Identifier: BSD-3-Clause
//
// Shed pick: decides which connections of a service may be ended, and in which order. A connection
// is idle if three conditions hold: the server's socket has no unsent, unacknowledged or unread
// data; no data was sent or received for a time; the server sent the last data, or there was no
// data. For SOCK_DESTROY, only idle connections are picked. The connections that were idle for the
// longest time come first, because they are the least likely to be used again. For the hook, all
// connections are picked. The most recently used connections come first: an application can end a
// connection gracefully only with the next response on it.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent_message.h"
#include "socket_dump.h"

#define WEIR_SHED_PICKED_MOST 16384u // maximum number of candidates that a scan stores
// Time within which the application can close a connection that was passed to the hook. During this
// time the connection counts as leaving, so that no other connection is passed in its place. After
// this time, the connection may be passed to the hook again.
#define WEIR_SHED_HANDED_MS 300000u

struct weir_shed_connection {
	uint8_t family; // AF_INET or AF_INET6, of the socket
	struct inet_diag_sockid id;
	uint32_t idle_ms; // time without data in either direction
};

struct weir_shed_handed { // a connection that was passed to the hook
	uint64_t cookie, at_ms;
	bool open; // the current scan has found the connection
};

struct weir_shed_pick { // zeroed = empty
	// Criteria for candidates; set before weir_shed_pick_begin.
	const struct weir_agent_shed_bind *binds;
	uint8_t bind_count;
	uint32_t idle_ms; // minimum idle time; ignored with `hook`
	bool hook;

	uint64_t last; // cookie of the last socket; 0 = none
	uint32_t connections; // connections of the binds
	uint32_t candidates; // connections of the binds that may be ended now
	uint32_t leaving; // connections of the binds that were passed to the hook
	uint32_t picked, next; // number of picked connections; index of the next connection to end
	struct weir_shed_connection *connection; // [WEIR_SHED_PICKED_MOST]
	// The connections of all services that were passed to the hook: handed_count elements,
	// sorted by cookie.
	struct weir_shed_handed *handed;
	uint32_t handed_count;
};

// Allocate the tables. Returns 0 or -ENOMEM.
int weir_shed_pick_init(struct weir_shed_pick *pick);
void weir_shed_pick_fini(struct weir_shed_pick *pick);

// Call this function before a dump of the sockets. Removes the entries of connections that were
// passed to the hook at least WEIR_SHED_HANDED_MS ago.
void weir_shed_pick_begin(struct weir_shed_pick *pick, uint64_t now_ms);
// Process a socket of a dump. A callback of type weir_socket_take; context: struct weir_shed_pick.
// The dump must list the ESTABLISHED sockets of all services, with INET_DIAG_INFO; a connection
// that the dump does not list counts as closed. At most WEIR_SHED_PICKED_MOST candidates are
// stored: the first candidates of the dump. The kernel lists sockets in random order.
void weir_shed_pick_take(void *context, const struct weir_socket *socket);
// End a scan: sort the candidates, and discard the connections that were passed to the hook and
// have closed. complete: whether the dump was complete; if not, no connection is discarded.
void weir_shed_pick_end(struct weir_shed_pick *pick, bool complete);

// Returns the next candidate, or NULL. Each candidate is returned once.
const struct weir_shed_connection *weir_shed_pick_next(struct weir_shed_pick *pick);
// Record that a candidate is passed to the hook. Returns false if there is no room for the record:
// the caller must then not pass the candidate.
bool weir_shed_pick_hand(struct weir_shed_pick *pick, const struct weir_shed_connection *connection,
	uint64_t now_ms);

// Returns whether a socket is a connection to one of these binds.
bool weir_shed_is_of(const struct weir_agent_shed_bind *binds, uint8_t bind_count, uint8_t family,
	const struct inet_diag_sockid *id);
// Returns whether a socket is idle, for at least idle_ms. info: its INET_DIAG_INFO. *ret: the time
// since data was last sent or received, in milliseconds; unchanged if info is too short.
bool weir_shed_is_idle(const struct inet_diag_msg *message, const void *info, size_t info_bytes,
	uint32_t idle_ms, uint32_t *ret);
