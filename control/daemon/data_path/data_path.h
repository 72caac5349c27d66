// SPDX-License-Identifier: BSD-3-Clause
//
// Data path: opens TCP connections from this host to a VIP on a chosen backend, or sends UDP
// datagrams in the same way. The backend gets the packets in the same forwarding mode as a client's
// packets from the dataplane.
// Connections use the kernel's TCP and UDP. Each socket is bound to a port of the tunnel's block of
// ports. The kernel routes the packets of the socket to the tunnel's device. This module reads the
// packets from the device, and forwards them to the backend. The backend answers from the VIP
// directly to the socket (DSR).
// A port keeps the state of its previous connection until the port is reused, so that the RST of a
// closed socket is still forwarded.
//
// Threads: only the event loop's thread. No globals, no logging: events are reported by callbacks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path_tunnel.h"

struct weir_data_path;

// Called when the device was removed. No further connections can be opened.
typedef void (*weir_data_path_lost_fn)(void *context, const char *device);

// Next hop of packets to a backend. All zeroes: not known yet.
struct weir_data_path_hop {
	// Outer source address that the dataplane uses; family 0 = chosen by the kernel.
	struct weir_address source;
	uint8_t source_bits; // IPv4: number of low bits that vary by flow
	// For forwarding l2. ifindex: interface of the backend's link; 0 = not known.
	uint32_t ifindex;
	bool through_gateway; // the backend is not on a link
	bool has_mac;
	uint8_t mac[6]; // MAC address of the backend
};

// Destination of a connection.
struct weir_data_path_target {
	struct weir_address backend; // outer destination
	struct weir_forwarding forwarding;
	struct weir_data_path_hop hop;
	struct weir_address vip;
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	uint16_t port; // port of the VIP, host order
};

// One connection. All zeroes: no connection.
struct weir_data_path_flow {
	// A bound socket, to be connected to VIP and port; -1 after a probe has taken ownership of
	// it.
	int socket;
	uint16_t port; // source port, host order; 0 = no connection
};

// Creates the data path. Takes ownership of the tunnel, and sets *tunnel to
// WEIR_DATA_PATH_TUNNEL_NONE. Returns 0, or negative errno with the tunnel unchanged.
int weir_data_path_create(uv_loop_t *loop, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost, void *context, struct weir_data_path **ret);
// Frees the data path. All flows must have been closed. The libuv handles are closed in the next
// iterations of the loop.
void weir_data_path_free(struct weir_data_path *path); // NULL is allowed

// Opens a connection. Cost: a few system calls, and at most once a second a list of this host's
// addresses. Returns 0, or negative errno with one line in why: -EADDRNOTAVAIL (no free port),
// -EPROTONOSUPPORT (forwarding l2, and the tunnel has no packet socket),
// -ENOLINK (forwarding l2, and the backend's link is not known yet),
// -ENETUNREACH (forwarding l2, and the backend is not on a link),
// -EHOSTUNREACH (forwarding l2, and the backend has not replied to ARP or ND),
// -EAFNOSUPPORT (IPv6 does not work on this host), -ENONET (this host has no address of the VIP's
// family), -ENODEV (the device was removed), or an error of the kernel's route lookup or sockets.
int weir_data_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *why, size_t why_bytes);

// Returns whether at least one packet of a flow reached the data path, even if forwarding the
// packet failed. *ret_error: result of forwarding the last packet, 0 or negative errno.
// Returns false if no packet reached the data path: the kernel used another route or had no route,
// the device was removed, or no packet was sent yet. why then receives one line.
bool weir_data_path_taken(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	int *ret_error, char *why, size_t why_bytes);

// Returns whether this host possibly caused the timeout of a flow that used the data path. If so,
// why receives one line. There are two possible causes:
//   - the loop was busy: the flow's SYN, first ACK or first datagram was sent less than patience_ms
//     ago
//   - this host has acknowledged no TCP packet of the backend, and rp_filter of this host would
//   drop a reply of the backend
// Cost: at most two requests to the kernel.
bool weir_data_path_local_fault(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	uint32_t patience_ms, char *why, size_t why_bytes);

// Closes a connection. Also closes its socket, unless a probe has taken ownership of the socket.
// Does nothing without a connection.
void weir_data_path_close(struct weir_data_path *path, struct weir_data_path_flow *flow);
