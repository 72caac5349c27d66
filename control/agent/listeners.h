// SPDX-License-Identifier: BSD-3-Clause
//
// Listeners: what the kernel says of the TCP sockets at a service's ports (inet_diag, over
// netlink), in our network namespace. Needs no privilege.
//
// Threads: one. No logging.
#pragma once

#include <stdint.h>

struct weir_listeners_queue {
	uint32_t sockets; // that listen; 0 = nobody does
	uint32_t length; // connections in the accept queue of the fullest of them
	uint32_t limit; // of that one
};

// Returns a netlink socket, or negative errno.
int weir_listeners_open(void);

// The accept queues of the sockets that listen at these ports. Returns 0 or negative errno.
int weir_listeners_queue(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_queue *ret);

struct weir_listeners_connections {
	uint32_t open; // not over: those in an accept queue, and those that still have something to
		       // deliver, too
	uint32_t half_open; // the handshake is not over: a client's, or forged
};

// The connections of these ports. It walks over all sockets of the host. Returns 0 or negative
// errno.
int weir_listeners_connections(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_connections *ret);
