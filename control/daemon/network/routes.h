// SPDX-License-Identifier: BSD-3-Clause
//
// Routes: the conversation with the kernel by rtnetlink. Questions (one route, all links, all
// neighbours) are answered by the kernel within the system call, in microseconds; changes come
// as events from the loop.
//
// Threads: one, that of the loop. No capability needed.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config.h"

struct nlmsghdr;
struct weir_routes;

struct weir_route { // the way to an address
	int error; // negative errno: there is none; the rest is not set then
	bool local; // the address is one of this host
	uint32_t ifindex; // of the interface that packets leave by
	struct weir_address next_hop; // gateway, or the address itself
	struct weir_address source; // the kernel's choice; family 0 = none
	uint32_t mtu; // of the route itself ("ip route ... mtu"), bytes; 0 = none
	bool passing; // learnt (a redirect, a path MTU); the kernel forgets it without an event
};

struct weir_link {
	uint32_t ifindex;
	uint32_t lower; // VLAN: ifindex of what it sits on, else 0
	uint32_t master; // bridge or bond that it belongs to, 0 = none
	uint16_t vlan; // VLAN: its tag, else 0
	char name[IF_NAMESIZE];
};

struct weir_neighbour {
	uint32_t ifindex;
	struct weir_address address;
	uint16_t state; // NUD_...
	bool has_mac; // the kernel would send to it now
	uint8_t mac[6];
	bool deleted; // the kernel forgot it
};

struct weir_routes_events {
	void (*on_neighbour)(void *context, const struct weir_neighbour *neighbour);
	void (*on_change)(void *context); // a route, rule, address or link changed
	void (*on_lost)(void *context); // events were lost: ask for everything again
	void (*on_turn)(void *context); // the events of this turn of the loop have been told
};

typedef void (*weir_link_fn)(void *context, const struct weir_link *link);
typedef void (*weir_neighbour_fn)(void *context, const struct weir_neighbour *neighbour);

// events is copied. Returns 0 or negative errno.
int weir_routes_open(uv_loop_t *loop, const struct weir_routes_events *events, void *context,
	struct weir_routes **ret);
// No event comes any more; handles close in the next iterations of the loop. NULL is fine.
void weir_routes_close(struct weir_routes *routes);

// Returns 0 (ret->error is set if there is no route), or negative errno: the query failed.
int weir_routes_lookup(
	struct weir_routes *routes, const struct weir_address *address, struct weir_route *ret);
int weir_routes_links(struct weir_routes *routes, weir_link_fn fn, void *context);
int weir_routes_neighbours(struct weir_routes *routes, weir_neighbour_fn fn, void *context);
// How many neighbours of a family the kernel keeps, for all interfaces and network namespaces
// together (gc_thresh3). 0 = it does not tell.
uint32_t weir_routes_neighbours_max(struct weir_routes *routes, uint8_t family);

// What an RTM_NEWLINK message says. Apart, so that it can be tested where there are no VLAN
// devices.
void weir_routes_parse_link(const struct nlmsghdr *message, struct weir_link *ret);
