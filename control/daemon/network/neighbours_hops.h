// SPDX-License-Identifier: BSD-3-Clause
//
// State of the neighbours module, and its lower half: neighbour entries of the kernel,
// and probes. Above it neighbours.c has watched addresses, routes and reports. Not for other files.
//
// Threads: one, that of the loop.
#pragma once

#include <sys/queue.h>

#include "next_hop.h"
#include "path_mtu.h"
#include "routes.h"

#define HOP_BUCKETS 4096

// A next hop in the kernel's sense: an address on a link. Many backends behind one gateway share
// one.
struct hop {
	SLIST_ENTRY(hop) bucket;
	LIST_HEAD(, entry) entries;
	uint32_t ifindex;
	struct weir_address address;
	uint16_t state; // NUD_..., 0 = the kernel has no entry
	bool has_mac;
	bool told; // during a dump: the kernel has it
	uint8_t mac[6];
	uint64_t probe_ms; // loop time of the next datagram
	uint32_t backoff_ms;
};

struct entry { // a watched address
	struct weir_address address;
	LIST_ENTRY(entry) hop_link;
	TAILQ_ENTRY(entry) dirty_link;
	struct hop *hop; // of its route, NULL = none needed or none known
	struct weir_route route;
	uint64_t route_ms; // loop time when it was asked for
	bool asked; // route is known
	bool dirty; // to be judged anew
	bool reported; // since the last configure
	uint64_t missing_ms; // loop time since when there is no next hop, 0 = there is
	struct weir_next_hop told; // what was reported last
	uint16_t path_mtu; // that routers on the way have told; 0 = none
	uint64_t path_mtu_ms; // loop time at which it is forgotten
};

TAILQ_HEAD(entry_queue, entry);

struct weir_neighbours {
	uv_loop_t *loop;
	weir_next_hop_fn on_next_hop;
	void *context;
	struct weir_routes *routes;
	uv_timer_t work; // lookups that are due
	uv_timer_t tick; // datagrams, expiry of holds
	unsigned int open_handles;
	int datagram4, datagram6; // -1 = this host has no such family
	struct weir_neighbour_port ports[WEIR_PORTS_MAX];
	uint32_t port_count;
	struct entry **entries; // sorted by address
	uint32_t entry_count;
	uint32_t next_lookup; // entries from here on have no fresh route; entry_count = all have
	bool links_stale, routes_stale, neighbours_stale; // to be asked for again
	uint64_t asked_ms; // end of the last round of lookups
	struct weir_link *links;
	uint32_t link_count, link_room;
	struct entry_queue dirty;
	SLIST_HEAD(, hop) hops[HOP_BUCKETS];
	uint32_t hop_count[2]; // of IPv4, of IPv6
	uint32_t kernel_max[2]; // neighbours that the kernel keeps; 0 = not known
	uint32_t probe_bucket; // of hops, where the next turn of datagrams begins
	struct weir_path_mtu_sockets path_mtu;
};

// Order: family, then address. Returns as memcmp.
int weir_neighbours_compare(const struct weir_address *a, const struct weir_address *b);

// To be evaluated and reported in this iteration of the loop.
void weir_neighbours_mark(struct weir_neighbours *n, struct entry *entry);

// After links have come: put them in the order that weir_neighbours_link needs.
void weir_neighbours_sort_links(struct weir_neighbours *n);

// The link, or NULL.
const struct weir_link *weir_neighbours_link(const struct weir_neighbours *n, uint32_t ifindex);

// The port whose frames leave where the kernel's do, or -1.
int weir_neighbours_port_of(const struct weir_neighbours *n, uint32_t ifindex);

// The next hop, or NULL.
struct hop *weir_hop_find(
	struct weir_neighbours *n, uint32_t ifindex, const struct weir_address *address);

// Move an entry to this next hop (made when there is none). ifindex 0: to none.
void weir_hop_join(struct weir_neighbours *n, struct entry *entry, uint32_t ifindex,
	const struct weir_address *address);

// Handle a neighbour event of the kernel; marks the affected entries.
void weir_hop_set(struct weir_neighbours *n, struct hop *hop, const struct weir_neighbour *news);

// Read the neighbour table of the kernel for all next hops. On failure neighbours_stale stays set.
void weir_hops_ask_kernel(struct weir_neighbours *n);

// The kernel's limit of neighbours, when the next hops of this family reach it; else 0.
uint32_t weir_hops_beyond(const struct weir_neighbours *n, uint8_t family);

// Send the datagrams that are due, so that the kernel asks the network. Returns true when some next
// hops may not have got their first one yet: no new flow goes to their backends until they answer.
bool weir_hops_probe(struct weir_neighbours *n);
