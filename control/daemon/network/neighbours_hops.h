// SPDX-License-Identifier: BSD-3-Clause
//
// Private to neighbours.c and neighbours_hops.c: the state of the module, and the functions of
// neighbours_hops.c. neighbours_hops.c handles neighbour entries of the kernel and probes.
// neighbours.c handles watched addresses, routes and reports.
//
// Threads: only the event loop's thread.
#pragma once

#include <sys/queue.h>

#include "icmp_sockets.h"
#include "next_hop.h"
#include "routes.h"

#define HOP_BUCKETS 4096

// A next hop of the kernel: an address on a link. Backends behind one gateway share a next hop.
struct hop {
	SLIST_ENTRY(hop) bucket;
	LIST_HEAD(, entry) entries;
	uint32_t ifindex;
	struct weir_address address;
	uint16_t state; // NUD_..., 0 = the kernel has no entry
	bool has_mac;
	bool seen; // the last read of the kernel's neighbour table found this next hop
	uint8_t mac[6];
	uint64_t probe_ms; // loop time at which the next datagram is due
	uint32_t backoff_ms;
};

struct entry { // a watched address
	struct weir_address address;
	LIST_ENTRY(entry) hop_link;
	TAILQ_ENTRY(entry) dirty_link;
	// Next hop of the route; NULL = no next hop is needed, or the next hop is unknown.
	struct hop *hop;
	struct weir_route route;
	uint64_t route_ms; // loop time of the route lookup
	bool looked_up; // route is valid
	bool dirty; // the next hop must be determined again
	bool reported; // the next hop was reported since the last weir_neighbours_configure()
	// Loop time since which the address has had no next hop; 0 = the address has a next hop.
	uint64_t missing_ms;
	struct weir_next_hop last_reported;
	// loop time since which there has been a path, see struct weir_way; 0 = no path
	uint64_t way_ms;
	uint16_t path_mtu; // reported by routers on the path; 0 = none
	uint64_t path_mtu_ms; // loop time at which path_mtu expires
};

TAILQ_HEAD(entry_queue, entry);

struct weir_neighbours {
	uv_loop_t *loop;
	weir_next_hop_fn on_next_hop;
	void *context;
	struct weir_routes *routes;
	uv_timer_t work; // runs the lookups that are due
	uv_timer_t tick; // sends datagrams, and ends hold times
	unsigned int open_handles;
	int datagram4, datagram6; // UDP sockets; -1 = this host does not support the family
	struct weir_neighbour_port ports[WEIR_PORTS_MAX];
	uint32_t port_count;
	struct entry **entries; // sorted by address
	uint32_t entry_count;
	// First entry that the current round has not looked up; entry_count = no round is running.
	uint32_t next_lookup;
	uint32_t found; // number of lookups of addresses that are not watched, since the last tick
	bool links_stale, routes_stale, neighbours_stale; // must be read from the kernel again
	uint64_t round_ms; // end of the last round of lookups
	struct weir_link *links;
	uint32_t link_count, link_room;
	struct entry_queue dirty;
	SLIST_HEAD(, hop) hops[HOP_BUCKETS];
	uint32_t hop_count[2]; // number of next hops, of IPv4 and of IPv6
	// The kernel's limit of neighbours, of IPv4 and of IPv6; 0 = unknown, or not read because
	// there are few next hops.
	uint32_t kernel_max[2];
	uint32_t probe_bucket; // index in hops where the next batch of datagrams starts
	struct weir_icmp_sockets path_mtu;
};

// Compares two addresses by family, then by address. Returns a value like memcmp.
int weir_neighbours_compare(const struct weir_address *a, const struct weir_address *b);

// Marks an entry: the module determines and reports its next hop in this iteration of the loop.
void weir_neighbours_mark(struct weir_neighbours *n, struct entry *entry);

// Sorts the links for weir_neighbours_link. Call this function after links were added.
void weir_neighbours_sort_links(struct weir_neighbours *n);

// Returns the link of this interface, or NULL.
const struct weir_link *weir_neighbours_link(const struct weir_neighbours *n, uint32_t ifindex);
// Returns the name of this interface, or "?".
const char *weir_neighbours_link_name(const struct weir_neighbours *n, uint32_t ifindex);

// Returns the port for packets that the kernel would send through this interface, or -1.
int weir_neighbours_port_of(const struct weir_neighbours *n, uint32_t ifindex);

// Writes in one line why packets through this interface leave through no port: it is none, or the
// VLAN tags of the port and of the interface differ. Call it if weir_neighbours_port_of returns -1.
void weir_neighbours_explain_interface(
	const struct weir_neighbours *n, uint32_t ifindex, char *why, size_t bytes);

// Returns the next hop with this address on this interface, or NULL.
struct hop *weir_hop_find(
	struct weir_neighbours *n, uint32_t ifindex, const struct weir_address *address);

// Sets the next hop of an entry; creates the next hop if it does not exist. ifindex: 0 = the entry
// has no next hop.
void weir_hop_join(struct weir_neighbours *n, struct entry *entry, uint32_t ifindex,
	const struct weir_address *address);

// Stores the kernel's state of a neighbour in its next hop. If the MAC address has changed,
// appeared or disappeared, marks the entries that use this next hop.
void weir_hop_set(struct weir_neighbours *n, struct hop *hop, const struct weir_neighbour *update);

// Read the kernel's neighbour table for all next hops. If this fails, neighbours_stale stays set.
void weir_hops_read_kernel(struct weir_neighbours *n);

// Returns the kernel's limit of neighbours if the number of next hops of this family has reached
// the limit; otherwise 0.
uint32_t weir_hops_limit_reached(const struct weir_neighbours *n, uint8_t family);

// Sends the datagrams that are due, to make the kernel resolve the next hops. Returns true if some
// next hops may still wait for their first datagram; the caller should then call this function
// again soon, because backends get no new flows until their next hops are resolved.
bool weir_hops_probe(struct weir_neighbours *n);
