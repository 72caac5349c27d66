// SPDX-License-Identifier: BSD-3-Clause
//
// Agents' sockets: one UDP socket for each address family. Sends and receives datagrams in batches:
// with thousands of datagrams per second, one system call per datagram would take most of the CPU
// time.
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
	// Called for each received datagram. bytes: valid during the call. count: length of the
	// whole datagram; if it is above WEIR_AGENT_MESSAGE_BYTES, `bytes` may be truncated.
	void (*received)(void *context, const struct weir_address *address, uint16_t port,
		const uint8_t *bytes, size_t count);
	// Called after the event loop has read a readable socket; weir_agents_sockets_read does not
	// call it.
	void (*received_all)(void *context);
	// Called for a datagram of the batch that could not be sent. owner: the argument of
	// weir_agents_sockets_add. bytes: result of weir_agents_sockets_add. error: -EAGAIN if the
	// send buffer is full, or another negative errno.
	void (*unsent)(void *context, void *owner, const uint8_t *bytes, int error);
	void *context;
};

int weir_agents_sockets_create(uv_loop_t *loop, const struct weir_agents_socket_events *events,
	struct weir_agents_sockets **ret); // 0 or -ENOMEM
// Opens the socket of an address family, unless it is open already. Returns 0 or negative errno.
// Also returns 0 if the kernel does not support the family; sending then fails with -EAFNOSUPPORT.
int weir_agents_sockets_open(struct weir_agents_sockets *sockets, uint8_t family);

// Adds a datagram to the batch, and returns the memory for its bytes. owner: passed to `unsent`. A
// full batch is sent first, which may call `unsent`. Call weir_agents_sockets_open for the family
// of the address before.
uint8_t *weir_agents_sockets_add(struct weir_agents_sockets *sockets,
	const struct weir_address *address, uint16_t port, void *owner);
// Send the batches of both families. Calls `unsent` for each datagram that could not be sent;
// `unsent` must not call weir_agents_sockets_add.
void weir_agents_sockets_flush(struct weir_agents_sockets *sockets);
// Reads the received datagrams of both sockets, up to a limit for each call. Returns whether more
// datagrams may be waiting.
bool weir_agents_sockets_read(struct weir_agents_sockets *sockets);

// Free the sockets. The libuv handles are closed in the next iterations of the loop. NULL is
// allowed.
void weir_agents_sockets_free(struct weir_agents_sockets *sockets);
