// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "neighbours.h"
#include "neighbours_hops.h"
#include "path_mtu.h"

#define TICK_MS 250
// Time between two batches of probe datagrams while some next hops still wait for their first
// datagram.
#define FIRST_PROBES_MS 20
#define LOOKUPS_PER_TURN 256 // maximum number of route lookups per iteration of the loop
#define SETTLE_MS 50 // delay from a change to the next round of route lookups
// Maximum number of ICMP messages per address family and tick. Further messages stay in the socket
// buffer, or are lost if it is full.
#define PATH_MTU_MESSAGES 2048
// Maximum number of changed path MTUs per tick. The number is limited because each change is
// published and logged.
#define PATH_MTU_CHANGES 64
#define CALM_MS 1000 // minimum time between two rounds of route lookups
// Time between two lookups of a route that can expire. The kernel sends no event when such a route
// expires.
#define EXPIRING_MS 5000

// --- next hops of addresses ---------------------------------------------------------------

static const struct weir_address *source_of(
	const struct weir_neighbours *n, uint32_t port, const struct entry *entry) {
	const struct weir_address *source = entry->address.family == 4
						    ? &n->ports[port].source_ipv4
						    : &n->ports[port].source_ipv6;

	return source->family != 0 ? source : &entry->route.source;
}

// Returns the first port that has a static gateway and a source address for the family of an
// address, or -1. This port is used for addresses that the kernel does not route to a port, unless
// a route refuses them.
static int static_port(const struct weir_neighbours *n, const struct entry *entry) {
	for (uint32_t i = 0; i < n->port_count; i++) {
		if (n->ports[i].has_gateway_mac && source_of(n, i, entry)->family != 0) {
			return (int)i;
		}
	}
	return -1;
}

static void explain_route(
	const struct weir_neighbours *n, const struct entry *entry, char *why, size_t bytes) {
	if (entry->route.local) {
		snprintf(why, bytes, "address is local to this host");
	} else if (entry->route.refused) {
		snprintf(why, bytes, "the route is of type %s",
			entry->route.error == -EHOSTUNREACH ? "unreachable"
			: entry->route.error == -EACCES     ? "prohibit"
							    : "blackhole");
	} else if (entry->route.error) {
		snprintf(why, bytes, "no route (%s)", strerror(-entry->route.error));
	} else {
		weir_neighbours_explain_interface(n, entry->route.ifindex, why, bytes);
	}
}

static void explain_no_reply(
	const struct weir_neighbours *n, const struct weir_route *route, char *why, size_t bytes) {
	uint32_t max = weir_hops_limit_reached(n, route->next_hop.family);
	char address[INET6_ADDRSTRLEN], remedy[96] = "";

	if (max > 0) {
		snprintf(remedy, sizeof(remedy),
			"; the kernel's limit is %u neighbours: raise "
			"net.ipv%u.neigh.default.gc_thresh3",
			max, route->next_hop.family);
	}
	weir_address_format(&route->next_hop, address, sizeof(address));
	snprintf(why, bytes, "no ARP/ND reply for %s on %s%s", address,
		weir_neighbours_link_name(n, route->ifindex), remedy);
}

// Returns the MTU of the route to an address; 0 = the MTU of the port.
static uint16_t route_mtu_of(const struct entry *entry) {
	uint32_t least = entry->address.family == 4 ? WEIR_PATH_MTU_MIN4 : WEIR_PATH_MTU_MIN6;
	uint32_t mtu = entry->route.mtu;

	if (mtu != 0 && mtu < least) {
		mtu = least;
	}
	return mtu < UINT16_MAX ? (uint16_t)mtu : 0;
}

// Returns the MTU of the path to an address; 0 = the MTU of the port.
static uint16_t mtu_of(const struct weir_neighbours *n, const struct entry *entry) {
	uint16_t mtu = route_mtu_of(entry);

	if (entry->path_mtu != 0 && uv_now(n->loop) < entry->path_mtu_ms &&
		(mtu == 0 || entry->path_mtu < mtu)) {
		mtu = entry->path_mtu;
	}
	return mtu;
}

// Returns the port that sends the packets to an address, or -1. If a route refuses packets to the
// address, they do not leave through a static gateway either.
static int port_to(const struct weir_neighbours *n, const struct entry *entry) {
	const struct weir_route *route = &entry->route;
	int port = route->error || route->local ? -1 : weir_neighbours_port_of(n, route->ifindex);

	return port < 0 && !route->local && !route->refused ? static_port(n, entry) : port;
}

// Returns whether the host with this address is on the link of the route's interface, not behind a
// gateway.
static bool is_on_link(const struct weir_route *route, const struct weir_address *address) {
	return weir_neighbours_compare(&route->next_hop, address) == 0;
}

// Determine the next hop of an address. why: gets the reason in one line if there is no next hop.
static struct weir_next_hop resolve(
	const struct weir_neighbours *n, const struct entry *entry, char *why, size_t bytes) {
	int port = port_to(n, entry);
	struct weir_next_hop hop = {0};

	if (port < 0) {
		explain_route(n, entry, why, bytes);
		return hop;
	}
	hop.port = (uint8_t)port;
	hop.ifindex = entry->route.error ? 0 : entry->route.ifindex;
	hop.on_link = !n->ports[port].has_gateway_mac && is_on_link(&entry->route, &entry->address);
	hop.mtu = mtu_of(n, entry);
	hop.route_mtu = route_mtu_of(entry);
	hop.source = *source_of(n, (uint32_t)port, entry);
	if (&n->ports[port].source_ipv4 == source_of(n, (uint32_t)port, entry)) {
		hop.source_bits = n->ports[port].source_ipv4_bits;
	}
	if (hop.source.family == 0) {
		snprintf(why, bytes, "port %s has no IPv%u source address",
			n->ports[port].info.name, entry->address.family);
	} else if (n->ports[port].has_gateway_mac) {
		memcpy(hop.mac, n->ports[port].gateway_mac, sizeof(hop.mac));
		hop.resolved = true;
	} else if (entry->hop != NULL && entry->hop->has_mac) {
		memcpy(hop.mac, entry->hop->mac, sizeof(hop.mac));
		hop.resolved = true;
	} else {
		explain_no_reply(n, &entry->route, why, bytes);
	}
	return hop;
}

static bool is_same(const struct weir_next_hop *a, const struct weir_next_hop *b) {
	if (!a->resolved || !b->resolved) {
		return a->resolved == b->resolved && a->ifindex == b->ifindex;
	}
	return a->port == b->port && a->ifindex == b->ifindex && a->on_link == b->on_link &&
	       a->mtu == b->mtu && a->route_mtu == b->route_mtu &&
	       a->source_bits == b->source_bits && memcmp(a->mac, b->mac, sizeof(a->mac)) == 0 &&
	       weir_neighbours_compare(&a->source, &b->source) == 0;
}

// Stores the time at which a path to an address became available. An address behind a gateway has a
// path when the gateway has replied to ARP or ND. An address on the link of the port needs no
// reply: if there is none, its host may be down, but the path exists.
static void note_way(
	const struct weir_neighbours *n, struct entry *entry, const struct weir_next_hop *hop) {
	bool found = hop->resolved ||
		     (hop->source.family != 0 && is_on_link(&entry->route, &entry->address));

	if (!found) {
		entry->way_ms = 0;
	} else if (entry->way_ms == 0) {
		entry->way_ms = uv_now(n->loop);
	}
}

// Report the changes of next hops that are due. An address that has lost its next hop keeps the
// previous next hop until the hold time ends. The callback may call weir_neighbours_configure, so
// no pointer to an entry is used after the callback.
static void report(struct weir_neighbours *n) {
	struct entry *entry;

	while ((entry = TAILQ_FIRST(&n->dirty)) != NULL) {
		struct weir_address address = entry->address;
		struct weir_next_hop hop;
		char why[256] = "";

		TAILQ_REMOVE(&n->dirty, entry, dirty_link);
		entry->dirty = false;
		if (!entry->looked_up) {
			continue;
		}
		hop = resolve(n, entry, why, sizeof(why));
		note_way(n, entry, &hop);
		if (hop.resolved) {
			entry->missing_ms = 0;
		} else if (entry->missing_ms == 0) {
			entry->missing_ms = uv_now(n->loop);
		}
		if ((!hop.resolved &&
			    uv_now(n->loop) - entry->missing_ms < WEIR_NEIGHBOURS_HOLD_MS) ||
			(entry->reported && is_same(&entry->last_reported, &hop))) {
			continue;
		}
		entry->reported = true;
		entry->last_reported = hop;
		n->on_next_hop(n->context, &address, &hop, why);
	}
}

// --- lookups in the kernel ----------------------------------------------------------------

static void on_work(uv_timer_t *timer);
static void on_tick(uv_timer_t *timer);

static void schedule_work(struct weir_neighbours *n, uint64_t delay_ms) {
	uint64_t due = uv_timer_get_due_in(&n->work);

	if (!uv_is_active((uv_handle_t *)&n->work) || due > delay_ms) {
		uv_timer_start(&n->work, on_work, delay_ms, 0);
	}
}

static void take_link(void *context, const struct weir_link *link) {
	struct weir_neighbours *n = context;

	if (n->link_count == n->link_room) {
		uint32_t room = n->link_room ? n->link_room * 2 : 16;
		struct weir_link *links = realloc(n->links, room * sizeof(*links));

		if (links == NULL) {
			// out of memory: the remaining links are treated as links that are not
			// ports
			return;
		}
		n->links = links;
		n->link_room = room;
	}
	n->links[n->link_count++] = *link;
}

static void look_up_links(struct weir_neighbours *n) {
	n->link_count = 0;
	n->links_stale = weir_routes_links(n->routes, take_link, n) != 0;
	if (n->link_count > 0) {
		weir_neighbours_sort_links(n);
	}
}

static void look_up_route(struct weir_neighbours *n, struct entry *entry) {
	struct weir_route *route = &entry->route;
	uint32_t ifindex;

	if (weir_routes_lookup(n->routes, &entry->address, route)) {
		n->routes_stale = true; // the previous result is kept; the next round retries
		return;
	}
	entry->looked_up = true;
	entry->route_ms = uv_now(n->loop);
	ifindex = route->error || route->local ? 0 : route->ifindex;
	weir_hop_join(n, entry, ifindex, &route->next_hop);
	if (ifindex != 0 && entry->hop == NULL) { // out of memory
		n->routes_stale = true;
	}
}

// Repeats the lookups of routes that can expire. The kernel learns these routes from routers,
// mostly through redirects, and sends no event when they expire.
static void look_up_expiring(struct weir_neighbours *n) {
	uint64_t now = uv_now(n->loop);
	uint32_t looked_up = 0;

	for (uint32_t i = 0; i < n->entry_count && looked_up < LOOKUPS_PER_TURN; i++) {
		struct entry *entry = n->entries[i];

		if (entry->looked_up && entry->route.expires &&
			now - entry->route_ms >= EXPIRING_MS) {
			look_up_route(n, entry);
			weir_neighbours_mark(n, entry);
			looked_up++;
		}
	}
}

static void probe(struct weir_neighbours *n) {
	if (weir_hops_probe(n)) {
		uv_timer_start(&n->tick, on_tick, FIRST_PROBES_MS, TICK_MS);
	}
}

// Runs or continues a round: reads the links if they are stale, looks up a route for each address,
// and then reads the neighbour table of the kernel if it is stale.
static void on_work(uv_timer_t *timer) {
	struct weir_neighbours *n = timer->data;
	uint32_t turn = 0;

	if (n->routes_stale && n->next_lookup == n->entry_count) {
		n->next_lookup = 0;
		n->routes_stale = false;
	}
	if (n->links_stale) {
		look_up_links(n);
	}
	while (n->next_lookup < n->entry_count && turn++ < LOOKUPS_PER_TURN) {
		look_up_route(n, n->entries[n->next_lookup++]);
	}
	if (n->next_lookup < n->entry_count) {
		schedule_work(n, 1); // with 0, libuv would continue in this iteration of the loop
		return;
	}
	n->round_ms = uv_now(n->loop);
	if (n->routes_stale) { // routes changed during the round, or a lookup failed
		schedule_work(n, CALM_MS);
	}
	if (n->neighbours_stale) {
		weir_hops_read_kernel(n);
	}
	probe(n);
	for (uint32_t i = 0; i < n->entry_count; i++) {
		weir_neighbours_mark(n, n->entries[i]);
	}
	report(n);
}

static void on_neighbour(void *context, const struct weir_neighbour *neighbour) {
	struct weir_neighbours *n = context;
	struct hop *hop = weir_hop_find(n, neighbour->ifindex, &neighbour->address);

	if (hop != NULL) {
		weir_hop_set(n, hop, neighbour);
	}
}

static void on_change(void *context) {
	struct weir_neighbours *n = context;
	uint64_t calm = n->round_ms + CALM_MS, soon = uv_now(n->loop) + SETTLE_MS;

	n->links_stale = true;
	n->routes_stale = true;
	if (n->next_lookup == n->entry_count) {
		schedule_work(n, (calm > soon ? calm : soon) - uv_now(n->loop));
	}
}

static void on_lost(void *context) {
	struct weir_neighbours *n = context;

	n->neighbours_stale = true;
	on_change(n);
}

static void on_turn(void *context) {
	report(context);
}

// --- addresses that are not watched -------------------------------------------------------

static int compare_entries(const void *a, const void *b) {
	const struct entry *const *left = a, *const *right = b;

	return weir_neighbours_compare(&(*left)->address, &(*right)->address);
}

static struct entry *find_entry(
	const struct weir_neighbours *n, const struct weir_address *address) {
	struct entry key = {.address = *address}, *key_pointer = &key, **found;

	if (n->entry_count == 0) {
		return NULL;
	}
	found = bsearch(
		&key_pointer, n->entries, n->entry_count, sizeof(n->entries[0]), compare_entries);
	return found != NULL ? *found : NULL;
}

struct weir_way weir_neighbours_way(
	const struct weir_neighbours *n, const struct weir_address *address) {
	const struct entry *entry = find_entry(n, address);

	if (entry == NULL || !entry->looked_up) {
		return (struct weir_way){.port = -1};
	}
	return (struct weir_way){.port = port_to(n, entry),
		.refused = entry->route.refused,
		.since_ms = entry->way_ms};
}

bool weir_neighbours_find(
	struct weir_neighbours *n, const struct weir_address *address, struct weir_next_hop *ret) {
	struct entry entry = {.address = *address};
	char why[256];

	if (find_entry(n, address) != NULL || n->found >= LOOKUPS_PER_TURN) {
		return false;
	}
	n->found++;
	if (n->links_stale) {
		look_up_links(n);
	}
	if (n->links_stale || weir_routes_lookup(n->routes, address, &entry.route)) {
		// The lookup failed. Make no further lookups in this tick.
		n->found = LOOKUPS_PER_TURN;
		return false;
	}
	if (!entry.route.error && !entry.route.local) {
		entry.hop = weir_hop_find(n, entry.route.ifindex, &entry.route.next_hop);
	}
	*ret = resolve(n, &entry, why, sizeof(why));
	return ret->resolved;
}

// --- path MTU -------------------------------------------------------------------------------

// Handles a report of a path MTU. Returns whether the report has reduced the MTU of an entry.
static bool take_path_mtu(struct weir_neighbours *n, const struct weir_path_mtu_report *report) {
	struct entry *entry = find_entry(n, &report->backend);
	uint16_t now, mtu;

	if (entry == NULL || !entry->reported || !entry->last_reported.resolved ||
		!weir_next_hop_has_source(&entry->last_reported, &report->source)) {
		return false;
	}
	now = n->ports[entry->last_reported.port].info.mtu;
	if (entry->last_reported.mtu != 0 && entry->last_reported.mtu < now) {
		now = entry->last_reported.mtu;
	}
	if (entry->path_mtu != 0 && entry->path_mtu < now) { // reduced earlier in this tick
		now = entry->path_mtu;
	}
	mtu = weir_path_mtu_next(report, now);
	if (mtu >= now) {
		return false;
	}
	entry->path_mtu = mtu;
	entry->path_mtu_ms = uv_now(n->loop) + WEIR_NEIGHBOURS_PATH_MTU_MS;
	weir_neighbours_mark(n, entry);
	return true;
}

static void receive_path_mtu(struct weir_neighbours *n) {
	struct weir_path_mtu_report report;
	unsigned int budget[2] = {PATH_MTU_MESSAGES, PATH_MTU_MESSAGES};

	for (unsigned int changes = 0; changes < PATH_MTU_CHANGES;) {
		if (!weir_path_mtu_receive(&n->path_mtu, budget, &report)) {
			break;
		}
		changes += take_path_mtu(n, &report);
	}
}

// --- timer ----------------------------------------------------------------------------------

static void on_tick(uv_timer_t *timer) {
	struct weir_neighbours *n = timer->data;

	n->found = 0;
	probe(n);
	receive_path_mtu(n);
	// Do nothing if a round is already scheduled: that round reads the stale tables.
	if ((n->neighbours_stale || n->links_stale) && !uv_is_active((uv_handle_t *)&n->work)) {
		schedule_work(n, 0);
	}
	look_up_expiring(n);
	for (uint32_t i = 0; i < n->entry_count; i++) {
		struct entry *entry = n->entries[i];

		if (entry->path_mtu != 0 && uv_now(n->loop) >= entry->path_mtu_ms) {
			entry->path_mtu = 0;
			weir_neighbours_mark(n, entry);
		}
		if (entry->missing_ms != 0) {
			weir_neighbours_mark(n, entry);
		}
	}
	report(n);
}

// --- configuration ------------------------------------------------------------------------

static void entry_free(struct weir_neighbours *n, struct entry *entry) {
	weir_hop_join(n, entry, 0, NULL);
	if (entry->dirty) {
		TAILQ_REMOVE(&n->dirty, entry, dirty_link);
	}
	free(entry);
}

// Returns a sorted array with a new entry for each of the addresses, without duplicates; NULL if
// out of memory.
static struct entry **make_entries(
	const struct weir_address *addresses, uint32_t count, uint32_t *ret_count) {
	struct entry **entries = calloc(count + 1, sizeof(*entries));
	uint32_t kept = 0;

	for (uint32_t i = 0; entries != NULL && i < count; i++) {
		entries[i] = calloc(1, sizeof(**entries));
		if (entries[i] == NULL) {
			while (i-- > 0) {
				free(entries[i]);
			}
			free(entries);
			return NULL;
		}
		entries[i]->address = addresses[i];
	}
	if (entries == NULL || count == 0) {
		*ret_count = 0;
		return entries;
	}
	qsort(entries, count, sizeof(entries[0]), compare_entries);
	for (uint32_t i = 1; i < count; i++) {
		if (compare_entries(&entries[kept], &entries[i]) == 0) {
			free(entries[i]);
		} else {
			entries[++kept] = entries[i];
		}
	}
	*ret_count = kept + 1;
	return entries;
}

// Replaces all entries. Entries for the same address keep their state; the entries of removed
// addresses are freed.
static void replace_entries(struct weir_neighbours *n, struct entry **entries, uint32_t count) {
	struct entry **old = n->entries;
	uint32_t old_count = n->entry_count;

	for (uint32_t i = 0; i < count; i++) {
		struct entry *known = find_entry(n, &entries[i]->address);

		if (known != NULL) {
			free(entries[i]);
			entries[i] = known;
			known->reported = false;
		}
	}
	n->entries = entries;
	n->entry_count = count;
	for (uint32_t i = 0; i < old_count; i++) {
		if (find_entry(n, &old[i]->address) != old[i]) {
			entry_free(n, old[i]);
		}
	}
	free(old);
}

int weir_neighbours_configure(struct weir_neighbours *n, const struct weir_neighbour_port *ports,
	uint32_t port_count, const struct weir_address *addresses, uint32_t count) {
	struct entry **entries;
	uint32_t unique;

	if (port_count > WEIR_PORTS_MAX) {
		return -EINVAL;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (addresses[i].family != 4 && addresses[i].family != 6) {
			return -EINVAL;
		}
	}
	entries = make_entries(addresses, count, &unique);
	if (entries == NULL) {
		return -ENOMEM;
	}
	replace_entries(n, entries, unique);
	memcpy(n->ports, ports, port_count * sizeof(ports[0]));
	n->port_count = port_count;
	n->links_stale = true;
	n->routes_stale = false;
	n->next_lookup = 0;
	schedule_work(n, 0);
	return 0;
}

// --- create and free ----------------------------------------------------------------------

int weir_neighbours_create(uv_loop_t *loop, weir_next_hop_fn on_next_hop, void *context,
	struct weir_neighbours **ret) {
	static const struct weir_routes_events events = {
		.on_neighbour = on_neighbour,
		.on_change = on_change,
		.on_lost = on_lost,
		.on_turn = on_turn,
	};
	struct weir_neighbours *n = calloc(1, sizeof(*n));
	int r;

	if (n == NULL) {
		return -ENOMEM;
	}
	n->loop = loop;
	n->on_next_hop = on_next_hop;
	n->context = context;
	n->path_mtu = (struct weir_icmp_sockets){.ipv4 = -1, .ipv6 = -1};
	TAILQ_INIT(&n->dirty);
	r = weir_routes_open(loop, &events, n, &n->routes);
	if (r) {
		free(n);
		return r;
	}
	n->datagram4 = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	n->datagram6 = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	uv_timer_init(loop, &n->work);
	uv_timer_init(loop, &n->tick);
	n->work.data = n;
	n->tick.data = n;
	n->open_handles = 2;
	uv_timer_start(&n->tick, on_tick, TICK_MS, TICK_MS);
	*ret = n;
	return 0;
}

void weir_neighbours_listen(struct weir_neighbours *n, struct weir_icmp_sockets *sockets) {
	weir_icmp_close(&n->path_mtu);
	n->path_mtu = *sockets;
	*sockets = (struct weir_icmp_sockets){.ipv4 = -1, .ipv6 = -1};
}

static void on_closed(uv_handle_t *handle) {
	struct weir_neighbours *n = handle->data;

	if (--n->open_handles == 0) {
		free(n);
	}
}

void weir_neighbours_free(struct weir_neighbours *n) {
	if (n == NULL) {
		return;
	}
	weir_routes_close(n->routes);
	weir_icmp_close(&n->path_mtu);
	for (uint32_t i = 0; i < n->entry_count; i++) {
		entry_free(n, n->entries[i]);
	}
	free(n->entries);
	free(n->links);
	if (n->datagram4 >= 0) {
		close(n->datagram4);
	}
	if (n->datagram6 >= 0) {
		close(n->datagram6);
	}
	uv_close((uv_handle_t *)&n->work, on_closed);
	uv_close((uv_handle_t *)&n->tick, on_closed);
}
