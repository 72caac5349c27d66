// SPDX-License-Identifier: BSD-3-Clause
//
// Datagrams: the agent's UDP sockets, one for each address family. The source of an answer is the
// address that the probe was sent to, even if this address is a VIP.
//
// Threads: one. Never blocks.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "balancers.h"

#define WEIR_DATAGRAM_SOCKETS 2

struct weir_datagrams {
	int fd[WEIR_DATAGRAM_SOCKETS]; // IPv4, IPv6; -1 = closed, or the host has no IPv6
};

// Open the sockets at this UDP port. Returns 0 or negative errno (-EADDRINUSE, ...).
int weir_datagrams_open(uint16_t port, struct weir_datagrams *ret);
void weir_datagrams_close(struct weir_datagrams *datagrams);

// Receive a datagram. The first `room` bytes are stored in `data`, its addresses in *ret. Returns
// the full length of the datagram, or negative errno: -EAGAIN = no datagram is waiting.
int weir_datagrams_receive(int fd, uint8_t *data, size_t room, struct weir_path *ret);

// Send a datagram from path->own to path->peer, or drop it if it cannot be sent now. Returns 0 or
// negative errno.
int weir_datagrams_send(const struct weir_datagrams *datagrams, const uint8_t *data, size_t bytes,
	const struct weir_path *path);
