// SPDX-License-Identifier: BSD-3-Clause
//
// Data path: TCP connections to a VIP that reach one chosen backend, like a client's connection
// that the dataplane forwards there. Each uses the kernel's TCP: a socket bound to a port of the
// block, whose packets are routed to the tunnel's device; this module reads them there and sends
// them encapsulated to the backend. The backend answers from the VIP directly to the socket (DSR).
//
// A port keeps the state of its previous connection until it is reused, so that the RST of a closed
// socket is still forwarded.
//
// Threads: one, that of the loop. No globals, no logging: callbacks report.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"
#include "data_path_tunnel.h"

struct weir_data_path;

// The device was removed: no further connection can be opened.
typedef void (*weir_data_path_lost_fn)(void *context, const char *device);

// Destination of a connection.
struct weir_data_path_target {
	struct weir_address backend; // outer destination
	struct weir_address
		source; // outer source, as the dataplane's; family 0 = chosen by the kernel
	uint8_t source_bits; // IPv4: number of low bits that vary by flow
	struct weir_address vip;
	uint16_t port; // of the VIP, host order
};

// One connection. All zeroes: there is none.
struct weir_data_path_flow {
	int socket; // bound, to be connected to VIP and port; -1 once its ownership was taken
	uint16_t port; // source, host order; 0 = no connection
};

// Takes ownership of the tunnel, and sets *tunnel to WEIR_DATA_PATH_TUNNEL_NONE.
// Returns 0, or negative errno with the tunnel unchanged.
int weir_data_path_create(uv_loop_t *loop, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost, void *context, struct weir_data_path **ret);
// All flows must have been closed. Handles close in the next iterations of the loop.
void weir_data_path_free(struct weir_data_path *path); // NULL is allowed

// Cost: some system calls; O(1).
// Returns 0, or negative errno with one line in why: -EADDRNOTAVAIL (no port is free),
// -EAFNOSUPPORT (IPv6 does not work on this host), -ENODEV (the device was removed), and the
// kernel's errors about the route to the backend.
int weir_data_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *why, size_t why_bytes);

// Whether a flow used the data path: at least one of its packets was forwarded, or forwarding
// failed. *ret_error: negative errno of forwarding the last packet; 0 = success. False: the kernel
// used another route, or none; why gets one line.
bool weir_data_path_taken(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	int *ret_error, char *why, size_t why_bytes);

// Whether this host may have caused the timeout of a flow that used the data path. True, with one
// line in why: its SYN or its first ACK was sent less than patience_ms ago, because the loop was
// busy; or no answer arrived, and the kernel's routes and rp_filter would drop one. Cost: two
// requests to the kernel.
bool weir_data_path_local_fault(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	uint32_t patience_ms, char *why, size_t why_bytes);

// Close a connection, and its socket if its ownership was not taken. Allowed without a connection.
void weir_data_path_close(struct weir_data_path *path, struct weir_data_path_flow *flow);
