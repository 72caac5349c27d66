// SPDX-License-Identifier: BSD-3-Clause
//
// Next hops: gets the next hop and the path MTU of each backend from the kernel (neighbours.h).
// Passes them to the tables, the history of states, and the health checks via the data path.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "config.h"
#include "health.h"
#include "icmp_sockets.h"
#include "log.h"
#include "next_hop.h"
#include "states.h"
#include "tables.h"

struct weir_next_hops;

// log, states, health: borrowed. changed: called when the tables must be published. Returns 0 or
// negative errno.
int weir_next_hops_create(uv_loop_t *loop, struct weir_log *log, struct weir_states *states,
	struct weir_health *health, void (*changed)(void *context), void *context,
	struct weir_next_hops **ret);
// Read the path MTU of backends from these sockets. Takes ownership of the sockets.
void weir_next_hops_listen(struct weir_next_hops *hops, struct weir_icmp_sockets *sockets);
// The libuv handles are closed in the next iterations of the loop. NULL is allowed.
void weir_next_hops_free(struct weir_next_hops *hops);

// Finds a next hop for weir_tables_find_hops; `hops` is the context of that callback. Uses the next
// hop of another backend with this address, or of a backend behind the same gateway.
bool weir_next_hops_find(void *hops, const struct weir_address *address, struct weir_next_hop *ret);

// Returns the path of packets to a backend. Without a route through a port, the result has the port
// of the backend's last next hop. The port is -1 if the backend has no next hop in the tables and
// had none in this process, or if the id is unused.
struct weir_way weir_next_hops_way(const struct weir_next_hops *hops, uint16_t backend);

// Maximum number of log lines in a second about next hops that become resolved or unresolved. The
// number of further changes is logged in one line for each kind. Lines about other changes of
// resolved next hops are not limited.
#define WEIR_NEXT_HOPS_LINES 20u
// Logs the number of changes that were not logged one by one. Call every second.
void weir_next_hops_second(struct weir_next_hops *hops);

// Watches the backends of these tables on the ports of the tables' segment. While there is no
// segment, the previous ports are used. Call after each weir_tables_apply and each new segment.
// tables: borrowed until the next call. Returns 0 or negative errno.
int weir_next_hops_configure(
	struct weir_next_hops *hops, struct weir_tables *tables, const struct weir_config *config);
