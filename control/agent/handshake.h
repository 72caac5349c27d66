// SPDX-License-Identifier: BSD-3-Clause
//
// Handshakes: what the kernel has of one TCP flow (inet_diag, by its addresses and ports), and the
// removal of a handshake that has not ended. In our network namespace.
//
// A kernel that got a SYN keeps a request socket until the client's ACK comes, which makes it a
// connection; SOCK_DESTROY removes a request socket without a packet. Of a connection it would tell
// the client (RST), so this file destroys none that it has seen to be one.
//
// Threads: one. No logging. Waits for the kernel, which answers at once. Looking needs no
// privilege, removing needs CAP_NET_ADMIN.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// After a SYN+ACK the client's ACK may be under way for so long; Linux repeats the SYN+ACK after a
// second at first, so there is time left before that.
#define WEIR_HANDSHAKE_SETTLED_MS 500

struct weir_handshake_flow {
	uint8_t family; // 4 or 6
	uint8_t client[16], vip[16]; // of that family
	uint16_t client_port, vip_port; // host order
};

enum weir_handshake_state {
	WEIR_HANDSHAKE_NO_LISTENER, // nothing, and nobody would take a SYN
	WEIR_HANDSHAKE_NONE, // nothing, but a socket listens there
	WEIR_HANDSHAKE_BEGUN, // a request socket
	WEIR_HANDSHAKE_OVER, // any other socket: a connection, or what is left of one
};

struct weir_handshake {
	enum weir_handshake_state state;
	uint32_t settled_ms; // BEGUN: the last SYN+ACK was sent at least so long ago
	uint32_t cookie[2]; // BEGUN: the kernel's name of the socket
};

struct weir_handshakes {
	int fd; // netlink; -1 = not open
	uint32_t sequence; // of the last request
};

// Returns 0 or negative errno.
int weir_handshakes_open(struct weir_handshakes *ret);
void weir_handshakes_close(struct weir_handshakes *handshakes);

// Look a flow up. Returns 0 or negative errno.
int weir_handshake_look(struct weir_handshakes *handshakes, const struct weir_handshake_flow *flow,
	struct weir_handshake *ret);

// Remove the handshake of a flow, if it has one that is settled. *ret: what is there now.
// *ret_removed: a handshake was removed, and there is none now.
// Returns 0 or negative errno (-EPERM, -EOPNOTSUPP: the kernel cannot). After another one, such as
// -ETIMEDOUT, a handshake may have been removed.
//
// A client's ACK that comes between looking and removing, within microseconds, makes a connection
// that the kernel cannot tell from the handshake: that one is reset. What it made before or makes
// after is left alone.
int weir_handshake_remove(struct weir_handshakes *handshakes,
	const struct weir_handshake_flow *flow, struct weir_handshake *ret, bool *ret_removed);
