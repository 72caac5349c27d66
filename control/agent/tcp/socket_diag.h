// SPDX-License-Identifier: BSD-3-Clause
//
// Socket diagnosis: lists the sockets on some ports of this network namespace, and looks up or ends
// one socket, with requests to the kernel (sock_diag(7)).
//
// Threads: any; no state. No logging. A call blocks until the kernel responds; a read of the
// response fails after one second.
#pragma once

#include "socket_dump.h"

// Open a netlink socket. Returns the file descriptor, or negative errno.
int weir_socket_diag_open(void);

// List the sockets of both address families; query.family is ignored. sequence: sequence number of
// the first of two dumps; the second dump gets sequence + 1. Both numbers must differ from the
// number of the previous request on this netlink socket. take: called for each socket. Needs no
// privilege.
// Returns 0 or negative errno (-ENOENT: the kernel module of the protocol is not loaded).
int weir_socket_diag_list(int fd, struct weir_socket_query query, uint32_t sequence,
	weir_socket_take take, void *context);

// Called with a socket that the kernel has found. bytes: length of the message with its attributes,
// for weir_socket_attribute.
typedef void (*weir_socket_found)(void *context, const struct inet_diag_msg *message, size_t bytes);

// Send a request about one socket, and read the response up to its acknowledgement. type:
// SOCK_DIAG_BY_FAMILY (look up) or SOCK_DESTROY, which needs CAP_NET_ADMIN. Returns 0 or negative
// errno: -ENOENT (no such socket), -ESTALE (the socket has another cookie), -EPERM, -EOPNOTSUPP
// (not supported by the kernel), -ETIMEDOUT (no acknowledgement), ...
int weir_socket_diag_request(int fd, uint16_t type, const struct inet_diag_req_v2 *request,
	uint32_t sequence, weir_socket_found found, void *context);
