// SPDX-License-Identifier: BSD-3-Clause
//
// Listeners: lists the sockets at a service's ports in this network namespace (inet_diag over
// netlink). Needs no privilege.
//
// Threads: one. No logging. fd: from weir_socket_diag_open.
#pragma once

#include <stdint.h>

#include "socket_diag.h"

struct weir_listeners_queue {
	uint32_t sockets; // number of listening sockets; 0 = none
	uint32_t length; // connections in the fullest accept queue
	uint32_t limit; // limit of that queue
};

// Count the sockets that listen at each of these ports. protocol: IPPROTO_TCP or IPPROTO_UDP. For
// UDP, bound sockets that are not connected are counted. If sockets are closed during the call, the
// kernel may leave out other sockets, so the counts may be too low. Returns 0 or negative errno
// (-ENOENT: the kernel module of the protocol is not loaded); after an error ret_counts is
// undefined.
int weir_listeners_count(
	int fd, uint8_t protocol, const uint16_t *ports, uint32_t port_count, uint32_t *ret_counts);

// Read the accept queues of the sockets that listen at these ports. Returns 0 or negative errno.
int weir_listeners_queue(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_queue *ret);

struct weir_listeners_connections {
	uint32_t open; // established or closing: includes connections in an accept queue or with
		       // data left to send
	uint32_t half_open; // connections with an incomplete handshake, also from forged SYNs
};

// Count the connections to these ports. The kernel scans all sockets of the host. Returns 0 or
// negative errno.
int weir_listeners_connections(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_connections *ret);
