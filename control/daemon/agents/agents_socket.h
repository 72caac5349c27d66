// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' sockets: one UDP socket for each family, and datagrams in batches: thousands a second
// would spend most of their time in system calls otherwise.
//
// Threads: that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent_message.h"
#include "config.h"

struct weir_agents_sockets;

struct weir_agents_socket_events {
	// A datagram came. bytes: valid during the call; count: of the whole datagram, whatever its
	// length, but bytes beyond WEIR_AGENT_MESSAGE_BYTES are not there.
	void (*received)(void *context, const struct weir_address *address, uint16_t port,
		const uint8_t *bytes, size_t count);
	// What the loop has received at once was handed over.
	void (*received_all)(void *context);
	// A datagram of the batch could not be sent: -EAGAIN (no room now), or another errno.
	void (*unsent)(void *context, void *owner, int error);
	void *context;
};

int weir_agents_sockets_create(uv_loop_t *loop, const struct weir_agents_socket_events *events,
	struct weir_agents_sockets **ret); // 0 or -ENOMEM
// Open the socket of a family, unless it is. Returns 0, also where the kernel does not have the
// family: its datagrams are unsent then, with -EAFNOSUPPORT; or negative errno.
int weir_agents_sockets_open(struct weir_agents_sockets *sockets, uint8_t family);

// Memory for the next datagram of the batch; a full batch is sent first. Its family was opened.
uint8_t *weir_agents_sockets_add(struct weir_agents_sockets *sockets,
	const struct weir_address *address, uint16_t port, void *owner);
// Send the batch. Calls unsent, which must not add.
void weir_agents_sockets_flush(struct weir_agents_sockets *sockets);
// Take what has come so far, as much as others of the loop can wait for. Returns whether there may
// be more.
bool weir_agents_sockets_read(struct weir_agents_sockets *sockets);

void weir_agents_sockets_free(struct weir_agents_sockets *sockets); // closes with the loop
