// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <linux/neighbour.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "neighbours_hops.h"

#define PROBES_PER_TICK 128
// Time between the first two datagrams to a neighbour that does not reply. The time doubles after
// each datagram.
#define PROBE_FIRST_MS 500
#define PROBE_LAST_MS 8000 // maximum time between two datagrams to a neighbour that does not reply
#define REFRESH_MS 45000 // time between two datagrams to a stale neighbour
#define DISCARD_PORT 9
// The kernel's limit of neighbours is read only if there are at least this many next hops.
#define MANY_HOPS 128

int weir_neighbours_compare(const struct weir_address *a, const struct weir_address *b) {
	if (a->family != b->family) {
		return a->family < b->family ? -1 : 1;
	}
	return memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

void weir_neighbours_mark(struct weir_neighbours *n, struct entry *entry) {
	if (!entry->dirty) {
		entry->dirty = true;
		TAILQ_INSERT_TAIL(&n->dirty, entry, dirty_link);
	}
}

static int compare_links(const void *a, const void *b) {
	const struct weir_link *left = a, *right = b;

	return left->ifindex < right->ifindex ? -1 : left->ifindex > right->ifindex;
}

void weir_neighbours_sort_links(struct weir_neighbours *n) {
	qsort(n->links, n->link_count, sizeof(n->links[0]), compare_links);
}

const struct weir_link *weir_neighbours_link(const struct weir_neighbours *n, uint32_t ifindex) {
	struct weir_link key = {.ifindex = ifindex};

	return n->link_count == 0
		       ? NULL
		       : bsearch(&key, n->links, n->link_count, sizeof(key), compare_links);
}

const char *weir_neighbours_link_name(const struct weir_neighbours *n, uint32_t ifindex) {
	const struct weir_link *link = weir_neighbours_link(n, ifindex);

	return link != NULL ? link->name : "?";
}

// Returns whether a port is on an interface, or in the bridge or bond that the interface is.
static bool is_on(
	const struct weir_neighbours *n, const struct weir_port_info *info, uint32_t ifindex) {
	const struct weir_link *own = weir_neighbours_link(n, info->kernel_ifindex);

	return info->kernel_ifindex != 0 &&
	       (info->kernel_ifindex == ifindex || (own != NULL && own->master == ifindex));
}

// Returns the port for packets that the kernel would send through this interface, or -1. For an
// untagged port, the interface is the port's own interface, or the bridge or bond to which the own
// interface belongs. For a tagged port, the interface is a VLAN interface with the port's tag on
// one of these interfaces.
int weir_neighbours_port_of(const struct weir_neighbours *n, uint32_t ifindex) {
	const struct weir_link *link = weir_neighbours_link(n, ifindex);
	uint32_t base = link != NULL && link->vlan ? link->lower : ifindex;
	uint16_t vlan = link != NULL ? link->vlan : 0;

	for (uint32_t i = 0; i < n->port_count && ifindex != 0; i++) {
		const struct weir_port_info *info = &n->ports[i].info;

		if (info->vlan == vlan && is_on(n, info, base)) {
			return (int)i;
		}
		if (info->kernel_ifindex == ifindex && info->vlan == 0) {
			return (int)i; // the port is the VLAN interface itself
		}
	}
	return -1;
}

// Returns a port on this interface, or on the interface below a VLAN interface, whatever their VLAN
// tags are; NULL = none.
static const struct weir_port_info *other_vlan(const struct weir_neighbours *n, uint32_t ifindex) {
	const struct weir_link *link = weir_neighbours_link(n, ifindex);
	uint32_t base = link != NULL && link->vlan ? link->lower : ifindex;

	for (uint32_t i = 0; i < n->port_count && ifindex != 0; i++) {
		if (is_on(n, &n->ports[i].info, base)) {
			return &n->ports[i].info;
		}
	}
	return NULL;
}

void weir_neighbours_explain_interface(
	const struct weir_neighbours *n, uint32_t ifindex, char *why, size_t bytes) {
	const struct weir_link *link = weir_neighbours_link(n, ifindex);
	const struct weir_port_info *other = other_vlan(n, ifindex);
	const uint16_t vlan = link != NULL ? link->vlan : 0;
	char has[24] = "no VLAN tag";

	if (other == NULL) {
		snprintf(why, bytes, "egress interface %s is not a dataplane port",
			weir_neighbours_link_name(n, ifindex));
		return;
	}
	if (vlan != 0) {
		snprintf(has, sizeof(has), "VLAN tag %u", vlan);
	}
	if (other->vlan == 0) {
		snprintf(why, bytes,
			"egress interface %s has %s, but port %s sends without a tag: set \"vlan\" "
			"of the port, or another route",
			weir_neighbours_link_name(n, ifindex), has, other->name);
	} else {
		snprintf(why, bytes,
			"egress interface %s has %s, but port %s sends with VLAN tag %u: the route "
			"must use a VLAN interface with this tag",
			weir_neighbours_link_name(n, ifindex), has, other->name, other->vlan);
	}
}

// --- next hops ----------------------------------------------------------------------------

static uint32_t hop_bucket(uint32_t ifindex, const struct weir_address *address) {
	uint32_t hash = 2166136261u ^ ifindex; // FNV-1a

	for (size_t i = 0; i < sizeof(address->bytes); i++) {
		hash = (hash ^ address->bytes[i]) * 16777619u;
	}
	return (hash ^ hash >> 16) % HOP_BUCKETS;
}

struct hop *weir_hop_find(
	struct weir_neighbours *n, uint32_t ifindex, const struct weir_address *address) {
	struct hop *hop;

	SLIST_FOREACH(hop, &n->hops[hop_bucket(ifindex, address)], bucket) {
		if (hop->ifindex == ifindex &&
			weir_neighbours_compare(&hop->address, address) == 0) {
			return hop;
		}
	}
	return NULL;
}

static struct hop *add_hop(
	struct weir_neighbours *n, uint32_t ifindex, const struct weir_address *address) {
	struct hop *hop = calloc(1, sizeof(*hop));

	if (hop != NULL) {
		hop->ifindex = ifindex;
		hop->address = *address;
		hop->backoff_ms = PROBE_FIRST_MS;
		LIST_INIT(&hop->entries);
		SLIST_INSERT_HEAD(&n->hops[hop_bucket(ifindex, address)], hop, bucket);
		n->hop_count[address->family == 6]++;
		n->neighbours_stale = true;
	}
	return hop;
}

static void leave_hop(struct weir_neighbours *n, struct entry *entry) {
	struct hop *hop = entry->hop;

	if (hop == NULL) {
		return;
	}
	LIST_REMOVE(entry, hop_link);
	entry->hop = NULL;
	if (LIST_EMPTY(&hop->entries)) {
		SLIST_REMOVE(&n->hops[hop_bucket(hop->ifindex, &hop->address)], hop, hop, bucket);
		n->hop_count[hop->address.family == 6]--;
		free(hop);
	}
}

static void mark_hop(struct weir_neighbours *n, struct hop *hop) {
	struct entry *entry;

	LIST_FOREACH(entry, &hop->entries, hop_link) {
		weir_neighbours_mark(n, entry);
	}
}

void weir_hop_set(struct weir_neighbours *n, struct hop *hop, const struct weir_neighbour *update) {
	bool changed = update->has_mac != hop->has_mac ||
		       (update->has_mac && memcmp(update->mac, hop->mac, sizeof(hop->mac)) != 0);
	uint64_t now = uv_now(n->loop);

	if (update->has_mac && (update->state & NUD_STALE) && !(hop->state & NUD_STALE)) {
		// Spread the probes over time. The kernel created the entries at about the same
		// time, so all their probes would be due at the same time.
		hop->probe_ms =
			now + REFRESH_MS / 2 +
			hop_bucket(hop->ifindex, &hop->address) * (REFRESH_MS / 2) / HOP_BUCKETS;
	} else if (!update->has_mac && hop->has_mac) {
		hop->probe_ms = now;
		hop->backoff_ms = PROBE_FIRST_MS;
	}
	hop->state = update->deleted ? 0 : update->state;
	hop->has_mac = update->has_mac;
	memcpy(hop->mac, update->mac, sizeof(hop->mac));
	if (changed) {
		mark_hop(n, hop);
	}
}

void weir_hop_join(struct weir_neighbours *n, struct entry *entry, uint32_t ifindex,
	const struct weir_address *address) {
	struct hop *hop = ifindex != 0 ? weir_hop_find(n, ifindex, address) : NULL;

	if (hop == NULL && ifindex != 0) {
		hop = add_hop(n, ifindex, address); // NULL: out of memory; the next round retries
	}
	if (hop == entry->hop) {
		return;
	}
	leave_hop(n, entry);
	if (hop != NULL) {
		LIST_INSERT_HEAD(&hop->entries, entry, hop_link);
		entry->hop = hop;
	}
}

// --- neighbours of the kernel -------------------------------------------------------------

static void take_neighbour(void *context, const struct weir_neighbour *neighbour) {
	struct weir_neighbours *n = context;
	struct hop *hop = weir_hop_find(n, neighbour->ifindex, &neighbour->address);

	if (hop != NULL) {
		hop->seen = true;
		weir_hop_set(n, hop, neighbour);
	}
}

static void read_max(struct weir_neighbours *n) {
	for (unsigned int i = 0; i < 2; i++) {
		n->kernel_max[i] = n->hop_count[i] < MANY_HOPS
					   ? 0
					   : weir_routes_neighbours_max(n->routes, i == 0 ? 4 : 6);
	}
}

uint32_t weir_hops_limit_reached(const struct weir_neighbours *n, uint8_t family) {
	uint32_t max = n->kernel_max[family == 6];

	return n->hop_count[family == 6] >= max ? max : 0;
}

void weir_hops_read_kernel(struct weir_neighbours *n) {
	const struct weir_neighbour gone = {.deleted = true};
	struct hop *hop;

	read_max(n);
	for (uint32_t i = 0; i < HOP_BUCKETS; i++) {
		SLIST_FOREACH(hop, &n->hops[i], bucket) {
			hop->seen = false;
		}
	}
	if (weir_routes_neighbours(n->routes, take_neighbour, n)) {
		return; // neighbours_stale stays set, so the next tick retries
	}
	n->neighbours_stale = false;
	for (uint32_t i = 0; i < HOP_BUCKETS; i++) {
		SLIST_FOREACH(hop, &n->hops[i], bucket) {
			if (!hop->seen) {
				weir_hop_set(n, hop, &gone);
			}
		}
	}
}

// --- probes -------------------------------------------------------------------------------

static void send_datagram(const struct weir_neighbours *n, const struct weir_address *address) {
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT)};

	// Ignore errors: the neighbour then remains unresolved, and the datagram is sent again
	// later.
	if (address->family == 4) {
		memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
		sendto(n->datagram4, "", 0, MSG_DONTWAIT, (struct sockaddr *)&in, sizeof(in));
	} else {
		memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
		sendto(n->datagram6, "", 0, MSG_DONTWAIT, (struct sockaddr *)&in6, sizeof(in6));
	}
}

// Returns whether a datagram to this next hop is due. If it is, also schedules the next datagram.
static bool is_probe_due(struct hop *hop, uint64_t now) {
	if (hop->has_mac && !(hop->state & NUD_STALE)) {
		hop->backoff_ms = PROBE_FIRST_MS;
		return false;
	}
	if (now < hop->probe_ms) {
		return false;
	}
	if (hop->has_mac) {
		hop->probe_ms = now + REFRESH_MS;
	} else {
		hop->probe_ms = now + hop->backoff_ms;
		hop->backoff_ms =
			hop->backoff_ms * 2 < PROBE_LAST_MS ? hop->backoff_ms * 2 : PROBE_LAST_MS;
	}
	return true;
}

static bool needs_hop(const struct weir_neighbours *n, const struct hop *hop) {
	int port = weir_neighbours_port_of(n, hop->ifindex);

	return port >= 0 && !n->ports[port].has_gateway_mac;
}

// Sends a batch of datagrams. The batch begins after the last next hop of the previous batch, so
// that every next hop gets its datagram, even if one batch cannot contain all datagrams that are
// due.
bool weir_hops_probe(struct weir_neighbours *n) {
	uint64_t now = uv_now(n->loop);
	uint32_t sent = 0;
	bool is_new = false;
	struct hop *hop;

	for (uint32_t i = 0; i < HOP_BUCKETS && sent < PROBES_PER_TICK; i++) {
		uint32_t at = n->probe_bucket;

		n->probe_bucket = (at + 1) % HOP_BUCKETS;
		SLIST_FOREACH(hop, &n->hops[at], bucket) {
			bool first = hop->probe_ms == 0;

			if (is_probe_due(hop, now) && needs_hop(n, hop)) {
				is_new |= first;
				send_datagram(n, &LIST_FIRST(&hop->entries)->address);
				sent++;
			}
		}
	}
	return is_new && sent >= PROBES_PER_TICK;
}
