// SPDX-License-Identifier: BSD-3-Clause
//
// Routes: sends rtnetlink requests to the kernel, and receives its events. The kernel answers a
// request (for one route, all links, or all neighbours) within the system calls; an answer about
// one route takes microseconds. The kernel reports changes as events; the callbacks run in the
// event loop.
//
// Threads: only the event loop's thread. No capability needed.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"

struct nlmsghdr;
struct weir_routes;

struct weir_route { // a route to an address
	int error; // negative errno: there is no route, and the other fields are not valid
	// The route is of type unreachable, prohibit or blackhole; false if there is no route at
	// all.
	bool refused;
	bool local; // the address is an address of this host
	uint32_t ifindex; // ifindex of the egress interface
	struct weir_address next_hop; // gateway, or the address itself
	struct weir_address source; // source chosen by the kernel; family 0 = none
	uint32_t mtu; // MTU of the route itself ("ip route ... mtu"), bytes; 0 = none
	// The kernel has learnt the route from a redirect or a path MTU, and sends no event when
	// the route expires.
	bool expires;
};

struct weir_link {
	uint32_t ifindex;
	uint32_t lower; // VLAN: ifindex of the underlying interface, else 0
	uint32_t master; // ifindex of the bridge or bond that the link belongs to, 0 = none
	uint16_t vlan; // VLAN: the VLAN id, else 0
	char name[IF_NAMESIZE];
};

struct weir_neighbour {
	uint32_t ifindex;
	struct weir_address address;
	uint16_t state; // NUD_...
	bool has_mac; // the MAC address is valid: the kernel would send a packet to it now
	uint8_t mac[6];
	bool deleted; // the kernel has removed the neighbour
};

struct weir_routes_events {
	void (*on_neighbour)(void *context, const struct weir_neighbour *neighbour);
	void (*on_change)(void *context); // a route, rule, address or link has changed
	void (*on_lost)(void *context); // events were lost: all tables must be read again
	void (*on_turn)(void *context); // called after the last event of this iteration of the loop
};

typedef void (*weir_link_fn)(void *context, const struct weir_link *link);
typedef void (*weir_neighbour_fn)(void *context, const struct weir_neighbour *neighbour);

// Open the sockets. events: copied. Returns 0 or negative errno.
int weir_routes_open(uv_loop_t *loop, const struct weir_routes_events *events, void *context,
	struct weir_routes **ret);
// Close the sockets. No more callbacks are called. The libuv handles are closed in the next
// iterations of the loop. NULL is allowed.
void weir_routes_close(struct weir_routes *routes);

// Looks up the route to an address. Returns 0; if there is no route, ret->error is set. Returns
// negative errno if the request has failed.
int weir_routes_lookup(
	struct weir_routes *routes, const struct weir_address *address, struct weir_route *ret);
// Call fn for each link or each neighbour of the kernel; several times for the same entry if the
// table changes meanwhile. Return 0 or negative errno.
int weir_routes_links(struct weir_routes *routes, weir_link_fn fn, void *context);
int weir_routes_neighbours(struct weir_routes *routes, weir_neighbour_fn fn, void *context);
// Returns the kernel's limit of neighbours of an address family (gc_thresh3), which applies to all
// interfaces and network namespaces together; 0 = unknown.
uint32_t weir_routes_neighbours_max(struct weir_routes *routes, uint8_t family);

// Parse an RTM_NEWLINK message. The function is public, so that tests can call it on hosts without
// VLAN devices.
void weir_routes_parse_link(const struct nlmsghdr *message, struct weir_link *ret);
