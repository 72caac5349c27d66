// SPDX-License-Identifier: BSD-3-Clause
//
// Handshakes: looks up one TCP flow in the kernel by its addresses and ports (inet_diag), and
// removes a handshake that is not complete. Finds only sockets in this network namespace.
//
// After a SYN the kernel keeps a request socket, until the client's ACK turns it into a connection.
// SOCK_DESTROY removes a request socket without sending a packet. For a connection, SOCK_DESTROY
// would send an RST to the client. Therefore SOCK_DESTROY is not used if the lookup has found a
// connection.
//
// Threads: one. No logging. Blocks until the kernel responds, which is immediate. Lookups need no
// privilege, removal needs CAP_NET_ADMIN.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// After this time since a SYN+ACK, a handshake is settled: no ACK of the client is in flight any
// more. Linux retransmits the SYN+ACK after one second at the earliest; then this time begins
// again.
#define WEIR_HANDSHAKE_SETTLED_MS 500

struct weir_handshake_flow {
	uint8_t family; // 4 or 6
	uint8_t client[16], vip[16]; // addresses of this family
	uint16_t client_port, vip_port; // host order
};

enum weir_handshake_state {
	// There is no socket for the flow, and no listening socket for its SYN.
	WEIR_HANDSHAKE_NO_LISTENER,
	// There is no socket for the flow, but there is a listening socket for its SYN.
	WEIR_HANDSHAKE_NONE,
	WEIR_HANDSHAKE_BEGUN, // a request socket
	WEIR_HANDSHAKE_OVER, // any other socket: a connection, which may already be closed
};

struct weir_handshake {
	enum weir_handshake_state state;
	uint32_t settled_ms; // BEGUN: minimum time since the last SYN+ACK
	uint32_t cookie[2]; // BEGUN: the kernel's identifier of the socket
};

struct weir_handshakes {
	int fd; // netlink; -1 = not open
	uint32_t sequence; // sequence number of the last request
};

// Open the netlink socket. Returns 0 or negative errno.
int weir_handshakes_open(struct weir_handshakes *ret);
void weir_handshakes_close(struct weir_handshakes *handshakes);

// Look up a flow. Returns 0 or negative errno.
int weir_handshake_look(struct weir_handshakes *handshakes, const struct weir_handshake_flow *flow,
	struct weir_handshake *ret);

// Remove the handshake of a flow, if it is settled. *ret: the state of the flow after the removal,
// or the state that prevents it. *ret_removed: true if a handshake was removed and the state is
// NONE now. Returns 0 or negative errno (-EPERM, -EOPNOTSUPP: not supported by the kernel). If
// another error is returned, such as -ETIMEDOUT, a handshake may have been removed.
//
// If the client's ACK arrives in the microseconds between lookup and removal, the kernel cannot
// distinguish the new connection from the handshake, and resets the connection. Connections that
// are established before or after this time are not affected.
int weir_handshake_remove(struct weir_handshakes *handshakes,
	const struct weir_handshake_flow *flow, struct weir_handshake *ret, bool *ret_removed);
