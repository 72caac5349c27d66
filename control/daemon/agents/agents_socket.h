// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' sockets: one UDP socket for each family. Datagrams are sent and received in batches: with
// thousands of datagrams per second, one system call per datagram would take most of the time.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent_message.h"
#include "config.h"

struct weir_agents_sockets;

struct weir_agents_socket_events {
	// A datagram was received. bytes: valid during the call; count: length of the whole
	// datagram, even if it is longer than WEIR_AGENT_MESSAGE_BYTES, the maximum that can be
	// read.
	void (*received)(void *context, const struct weir_address *address, uint16_t port,
		const uint8_t *bytes, size_t count);
	// All datagrams of this iteration of the loop were delivered.
	void (*received_all)(void *context);
	// A datagram of the batch could not be sent. error: -EAGAIN (send buffer full), or another
	// errno.
	void (*unsent)(void *context, void *owner, int error);
	void *context;
};

int weir_agents_sockets_create(uv_loop_t *loop, const struct weir_agents_socket_events *events,
	struct weir_agents_sockets **ret); // 0 or -ENOMEM
// Open the socket of a family, unless the socket is open. Returns 0, also if the kernel does not
// support the family (sending then fails with -EAFNOSUPPORT), or negative errno.
int weir_agents_sockets_open(struct weir_agents_sockets *sockets, uint8_t family);

// Returns memory for the next datagram of the batch; a full batch is sent first. Call
// weir_agents_sockets_open for the address's family before.
uint8_t *weir_agents_sockets_add(struct weir_agents_sockets *sockets,
	const struct weir_address *address, uint16_t port, void *owner);
// Send the batch. Calls `unsent` for failures; `unsent` must not call weir_agents_sockets_add.
void weir_agents_sockets_flush(struct weir_agents_sockets *sockets);
// Read the received datagrams, up to the limit for one iteration of the loop. Returns whether there
// may be more datagrams.
bool weir_agents_sockets_read(struct weir_agents_sockets *sockets);

// Closes handles in the next iterations of the loop.
void weir_agents_sockets_free(struct weir_agents_sockets *sockets);
