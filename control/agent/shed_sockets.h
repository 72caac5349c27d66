// SPDX-License-Identifier: BSD-3-Clause
//
// Shed sockets: lists the connections at the service's ports (inet_diag over netlink), and ends
// idle connections with SOCK_DESTROY: the client gets an RST, and the server's next read or write
// fails. Only connections in this network namespace are found.
//
// Threads: one. No logging. Blocks until the kernel has responded. Listing needs no privilege;
// ending a connection needs CAP_NET_ADMIN.
#pragma once

#include "shed_pick.h"

struct weir_shed_sockets {
	int fd; // netlink; -1 = not open
	uint32_t sequence; // sequence number of the last request
};

// Open the netlink socket. Returns 0 or negative errno.
int weir_shed_sockets_open(struct weir_shed_sockets *ret);
void weir_shed_sockets_close(struct weir_shed_sockets *sockets);

// Lists all established connections at these ports, and selects the candidates to end. pick: the
// caller sets the criteria; the function adds the candidates. Returns 0 or negative errno.
int weir_shed_sockets_look(struct weir_shed_sockets *sockets, const uint16_t *ports,
	uint32_t port_count, struct weir_shed_pick *pick, uint64_t now_ms);

// End a connection if it is still idle. idle_ms: minimum idle time. *ret_ended: whether the
// connection was ended. Data that arrives in the microseconds between the last check and the RST is
// lost, as with any RST. Returns 0 or negative errno (-EPERM; -EOPNOTSUPP: not supported by the
// kernel).
int weir_shed_sockets_end(struct weir_shed_sockets *sockets,
	const struct weir_shed_connection *connection, uint32_t idle_ms, bool *ret_ended);
