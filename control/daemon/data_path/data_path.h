// SPDX-License-Identifier: BSD-3-Clause
//
// Data path: TCP connections to a VIP that reach one chosen backend, as a client's connection would
// that the dataplane forwards there. For each the kernel's own TCP is used: a socket bound to a
// port of ours, whose packets leave by the tunnel's device and come to us, who send them on,
// encapsulated to the backend. The backend answers from the VIP directly to the socket.
//
// A port stays its former connection's until it is given to another, so that the RST of a socket
// that was closed still finds the way.
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

// The device is gone: no connection can be opened any more.
typedef void (*weir_data_path_lost_fn)(void *context, const char *device);

// Where a connection is to go.
struct weir_data_path_target {
	struct weir_address backend; // outer destination
	struct weir_address source; // outer source, as the dataplane's; family 0 = the kernel's
				    // choice
	uint8_t source_bits; // IPv4: low bits of it that are each flow's own
	struct weir_address vip;
	uint16_t port; // of the VIP, host order
};

// One connection. All zeroes: there is none.
struct weir_data_path_flow {
	int socket; // bound, to be connected to VIP and port; whoever takes it writes -1
	uint16_t port; // source, host order; 0 = there is no connection
};

// The tunnel is the data path's from here on, and marked as none in *tunnel.
// Returns 0 or negative errno, with the tunnel left as it is.
int weir_data_path_create(uv_loop_t *loop, struct weir_data_path_tunnel *tunnel,
	weir_data_path_lost_fn on_lost, void *context, struct weir_data_path **ret);
// All flows must have been closed. Handles close in the next iterations of the loop.
void weir_data_path_free(struct weir_data_path *path); // NULL is fine

// Cost: some system calls; O(1).
// Returns 0, or negative errno with one line in why: -EADDRNOTAVAIL (no port is free),
// -EAFNOSUPPORT (IPv6 does not work here), -ENODEV (the device is gone), and what the kernel says
// of the way to the backend.
int weir_data_path_open(struct weir_data_path *path, const struct weir_data_path_target *target,
	struct weir_data_path_flow *flow, char *why, size_t why_bytes);

// Whether a flow went along the data path: at least one packet of it was sent on, or could not be.
// *ret_error: negative errno for which the last one could not be sent; 0 = it could.
// False: the kernel found another way, or none; why gets one line.
bool weir_data_path_taken(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	int *ret_error, char *why, size_t why_bytes);

// Whether this host may be why a flow that was taken has timed out. True, and one line in why: its
// SYN or its first ACK left less than patience_ms ago, as they had to wait for us; or nothing has
// come back, and the kernel tells that it would drop an answer. Cost: two requests to the kernel.
bool weir_data_path_excuses(struct weir_data_path *path, const struct weir_data_path_flow *flow,
	uint32_t patience_ms, char *why, size_t why_bytes);

// The connection has ended; closes the socket if nobody took it. Fine when there is none.
void weir_data_path_close(struct weir_data_path *path, struct weir_data_path_flow *flow);
