// SPDX-License-Identifier: BSD-3-Clause
//
// Listeners: the kernel's view of the sockets at a service's ports (inet_diag over netlink), in
// this network namespace. Needs no privilege.
//
// Threads: one. No logging.
#pragma once

#include <stdint.h>

struct weir_listeners_queue {
	uint32_t sockets; // listening sockets; 0 = none
	uint32_t length; // connections in the fullest accept queue
	uint32_t limit; // limit of that queue
};

// Returns a netlink socket, or negative errno.
int weir_listeners_open(void);

// How many sockets listen at each of these ports, of one protocol: IPPROTO_TCP, or IPPROTO_UDP,
// where these are the sockets that are bound and not connected. Sockets that are closed meanwhile
// may hide others. Returns 0 or negative errno (-ENOENT: the kernel lacks the protocol's module),
// with which ret_counts are undefined.
int weir_listeners_count(
	int fd, uint8_t protocol, const uint16_t *ports, uint32_t port_count, uint32_t *ret_counts);

// The accept queues of the sockets that listen at these ports. Returns 0 or negative errno.
int weir_listeners_queue(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_queue *ret);

struct weir_listeners_connections {
	uint32_t open; // established or closing: includes those in an accept queue, and those with
		       // data left to send
	uint32_t half_open; // handshake incomplete: of a client, or forged
};

// The connections of these ports. It walks over all sockets of the host. Returns 0 or negative
// errno.
int weir_listeners_connections(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_connections *ret);
