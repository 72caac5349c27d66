// SPDX-License-Identifier: BSD-3-Clause
//
// Socket dumps: requests from the kernel a list of the sockets on some ports (inet_diag over
// netlink, sock_diag(7)), and reads the list. The kernel writes one part of the list for each read.
// The reader can wait for any length of time between two reads. If sockets open or close during
// this time, these and other sockets may be missing or appear twice.
//
// Threads: any; no state. No logging.
#pragma once

#include <linux/inet_diag.h>
#include <stddef.h>
#include <stdint.h>

// Buffer size of a read. The kernel never writes a larger part of the list.
#define WEIR_SOCKET_DUMP_BYTES 32768

struct weir_socket_query {
	uint8_t family; // AF_INET; AF_INET6: also IPv4 connections of dual-stack sockets
	uint8_t protocol; // IPPROTO_TCP, IPPROTO_UDP
	uint32_t states; // 1 << TCP_...
	uint8_t attribute; // INET_DIAG_..., 0 = none
	const uint16_t *ports; // local ports, host order
	// With up to 64 ports, the kernel filters by port. With more ports, the kernel lists all
	// sockets.
	uint32_t port_count;
};

struct weir_socket { // valid only during the call of weir_socket_take
	const struct inet_diag_msg *message;
	uint32_t port; // index of the socket's local port in query.ports
	const void *attribute; // attribute that the query requested; NULL = none
	size_t attribute_bytes;
};

typedef void (*weir_socket_take)(void *context, const struct weir_socket *socket);

// Request a dump. sequence: sequence number of all messages of this dump, which must differ from
// the sequence number of the previous dump on this netlink socket. Returns 0 or negative errno
// (-EBUSY: the previous dump was not read to its end).
int weir_socket_dump_request(int fd, const struct weir_socket_query *query, uint32_t sequence);

// Returns an attribute of a message, or NULL. bytes: length of the message with its attributes, at
// least sizeof(*message). type: INET_DIAG_... *ret_bytes: length of the attribute.
const void *weir_socket_attribute(
	const struct inet_diag_msg *message, size_t bytes, uint16_t type, size_t *ret_bytes);

// Parse the data of one read, and call `take` for each socket. data: aligned to 4 bytes; its
// content may be invalid. Returns 1 at the end of the dump, 0 if more reads follow, or a negative
// errno of the kernel (-ENOENT: the module of the protocol is not loaded).
int weir_socket_dump_parse(const struct weir_socket_query *query, const void *data, size_t bytes,
	uint32_t sequence, weir_socket_take take, void *context);
