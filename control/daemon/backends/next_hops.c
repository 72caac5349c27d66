// SPDX-License-Identifier: BSD-3-Clause
#include "next_hops.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "neighbours.h"
#include "segment.h"

struct owner { // a backend and its address
	struct weir_address address;
	uint16_t backend;
	uint8_t port; // index + 1 of the last port to the backend; 0 = unknown
};

// Log lines about changes of next hops within one second. If a link is lost, the next hops of all
// its backends change together.
struct lines {
	uint32_t count; // lines written
	uint32_t more[2]; // changes that were not logged; index: `resolved` of the next hop
	char last[2][512]; // last change that `more` counts
};

struct weir_next_hops {
	struct weir_log *log;
	struct weir_states *states;
	struct weir_health *health;
	void (*changed)(void *context);
	void *context;
	struct weir_neighbours *neighbours;
	struct weir_tables *tables; // NULL until the first weir_next_hops_configure
	struct owner *owners; // sorted by address
	uint32_t owner_count;
	struct weir_neighbour_port ports[WEIR_PORTS_MAX]; // ports of the last configuration
	uint32_t port_count;
	struct lines lines;
};

// --- changes of next hops -----------------------------------------------------------------

static int order_by_address(const void *a, const void *b) {
	const struct owner *left = a, *right = b;

	if (left->address.family != right->address.family) {
		return left->address.family < right->address.family ? -1 : 1;
	}
	return memcmp(left->address.bytes, right->address.bytes, sizeof(left->address.bytes));
}

// Returns the index of the first owner of an address. If the address has no owner, returns the
// index of the first owner of a later address, or owner_count.
static uint32_t first_owner(const struct weir_next_hops *hops, const struct weir_address *address) {
	struct owner key = {.address = *address};
	uint32_t low = 0, high = hops->owner_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (order_by_address(&hops->owners[middle], &key) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

// If there were too many log lines in this second, counts a change to or from an unresolved next
// hop instead of logging it. Returns whether the change was counted.
static bool is_counted(struct weir_next_hops *hops, const struct weir_backend_state *backend,
	const struct weir_next_hop *hop, const char *why) {
	struct lines *lines = &hops->lines;

	if (backend->resolved && hop->resolved) {
		return false; // a debug line, or a line about a path MTU
	}
	if (lines->count < WEIR_NEXT_HOPS_LINES) {
		lines->count++;
		return false;
	}
	lines->more[hop->resolved]++;
	snprintf(lines->last[hop->resolved], sizeof(lines->last[0]), "%s/%s%s%s", backend->service,
		backend->name, why[0] != '\0' ? ": " : "", why);
	return true;
}

void weir_next_hops_second(struct weir_next_hops *hops) {
	struct lines *lines = &hops->lines;

	for (int resolved = 0; resolved < 2; resolved++) {
		if (lines->more[resolved] > 0) {
			weir_log_write(hops->log, resolved ? WEIR_LOG_INFO : WEIR_LOG_WARN,
				"next hops of %u more backend%s %s; last backend: %s",
				lines->more[resolved], lines->more[resolved] == 1 ? "" : "s",
				resolved ? "resolved" : "unresolved", lines->last[resolved]);
		}
	}
	lines->count = lines->more[0] = lines->more[1] = 0;
}

static void log_next_hop(struct weir_next_hops *hops, const struct weir_backend_state *backend,
	const struct weir_next_hop *hop, const char *why) {
	const struct weir_log_fields fields = {
		.service = backend->service, .backend = backend->name, .reason = why};
	const uint16_t mtu = weir_next_hop_mtu(hop, &backend->forwarding);
	char address[INET6_ADDRSTRLEN];

	if (is_counted(hops, backend, hop, why)) {
		return;
	}
	weir_address_format(&backend->address, address, sizeof(address));
	if (!hop->resolved) {
		weir_log_event(hops->log, WEIR_LOG_WARN, &fields,
			"backend %s/%s: next hop for %s unresolved: %s", backend->service,
			backend->name, address, why);
	} else {
		weir_log_event(hops->log, backend->resolved ? WEIR_LOG_DEBUG : WEIR_LOG_INFO,
			&fields,
			"backend %s/%s: next hop for %s: port %u, %02x:%02x:%02x:%02x:%02x:%02x",
			backend->service, backend->name, address, hop->port, hop->mac[0],
			hop->mac[1], hop->mac[2], hop->mac[3], hop->mac[4], hop->mac[5]);
		if (mtu != 0 && mtu != backend->path_mtu) {
			weir_log_event(hops->log, WEIR_LOG_INFO, &fields,
				"backend %s/%s: path MTU to %s is %u bytes", backend->service,
				backend->name, address, mtu);
		} else if (mtu == 0 && backend->path_mtu != 0) {
			weir_log_event(hops->log, WEIR_LOG_INFO, &fields,
				"backend %s/%s: path MTU to %s is the MTU of the port again",
				backend->service, backend->name, address);
		}
	}
}

static bool is_owner(
	const struct weir_next_hops *hops, uint32_t i, const struct weir_address *address) {
	struct owner key = {.address = *address};

	return i < hops->owner_count && order_by_address(&hops->owners[i], &key) == 0;
}

// Get the backend of an owner. Returns false if the id is unused now, or has another address.
static bool get_backend(const struct weir_next_hops *hops, const struct owner *owner,
	struct weir_backend_state *ret) {
	return weir_tables_backend(hops->tables, owner->backend, ret) == 0 &&
	       weir_address_equal(&ret->address, &owner->address);
}

static void set_check_hop(struct weir_next_hops *hops, const struct weir_backend_state *backend,
	const struct weir_next_hop *hop) {
	struct weir_data_path_hop check = {.source = hop->source,
		.source_bits = hop->source_bits,
		.ifindex = hop->ifindex,
		.through_gateway = !hop->on_link,
		.has_mac = hop->resolved && hop->on_link};

	memcpy(check.mac, hop->mac, sizeof(check.mac));
	weir_health_set_hop(hops->health, backend->id, &check);
}

static void set_next_hop(struct weir_next_hops *hops, const struct weir_backend_state *backend,
	const struct weir_next_hop *found, const char *why) {
	struct weir_next_hop hop = *found;

	if (hop.resolved && !weir_next_hop_serves(&hop, &backend->forwarding)) {
		hop.resolved = false;
		why = "forwarding l2 needs a backend on a link of a port, but packets to this "
		      "backend go through a gateway; use ipip, gue or gre";
	}
	log_next_hop(hops, backend, &hop, why);
	weir_states_next_hop(hops->states, backend->id, hop.resolved, why);
	set_check_hop(hops, backend, &hop);
	weir_tables_set_next_hop(hops->tables, backend->id, &hop);
	hops->changed(hops->context);
}

static void on_next_hop(void *context, const struct weir_address *address,
	const struct weir_next_hop *hop, const char *why) {
	struct weir_next_hops *hops = context;

	for (uint32_t i = first_owner(hops, address); is_owner(hops, i, address); i++) {
		struct weir_backend_state backend;

		if (!get_backend(hops, &hops->owners[i], &backend)) {
			continue;
		}
		if (hop->resolved) {
			hops->owners[i].port = (uint8_t)(hop->port + 1);
		}
		set_next_hop(hops, &backend, hop, why);
	}
}

bool weir_next_hops_find(
	void *context, const struct weir_address *address, struct weir_next_hop *ret) {
	struct weir_next_hops *hops = context;
	struct weir_next_hop hop;

	for (uint32_t i = first_owner(hops, address); is_owner(hops, i, address); i++) {
		struct weir_backend_state backend;

		if (get_backend(hops, &hops->owners[i], &backend) && backend.resolved &&
			weir_tables_next_hop(hops->tables, backend.id, &hop) == 0) {
			*ret = hop;
			return true;
		}
	}
	return weir_neighbours_find(hops->neighbours, address, ret);
}

// Returns the last port to a backend, as index + 1; 0 = unknown. address: address of the backend.
static uint8_t last_port(
	const struct weir_next_hops *hops, const struct weir_address *address, uint16_t id) {
	struct weir_next_hop hop;

	if (weir_tables_next_hop(hops->tables, id, &hop) == 0 && hop.resolved) {
		return (uint8_t)(hop.port + 1);
	}
	for (uint32_t i = first_owner(hops, address); is_owner(hops, i, address); i++) {
		if (hops->owners[i].backend == id) {
			return hops->owners[i].port;
		}
	}
	return 0;
}

struct weir_way weir_next_hops_way(const struct weir_next_hops *hops, uint16_t id) {
	struct weir_way way = {.port = -1};
	struct weir_backend_state backend;

	if (hops->tables != NULL && weir_tables_backend(hops->tables, id, &backend) == 0) {
		way = weir_neighbours_way(hops->neighbours, &backend.address);
		way.port = way.port >= 0 ? way.port : last_port(hops, &backend.address, id) - 1;
	}
	return way;
}

// --- configuration ------------------------------------------------------------------------

// Lists the backends by address. Includes removed backends that are still in the tables, because
// they can have flows.
static int list_owners(struct weir_next_hops *hops) {
	uint32_t ids = weir_tables_backend_ids(hops->tables), n = 0;
	struct owner *owners = calloc(ids > 0 ? ids : 1, sizeof(owners[0]));

	if (owners == NULL) {
		return -ENOMEM;
	}
	for (uint32_t id = 0; id < ids; id++) {
		struct weir_backend_state backend;

		if (weir_tables_backend(hops->tables, (uint16_t)id, &backend) == 0) {
			owners[n].address = backend.address;
			owners[n].port = last_port(hops, &backend.address, backend.id);
			owners[n++].backend = backend.id;
		}
	}
	qsort(owners, n, sizeof(owners[0]), order_by_address);
	free(hops->owners);
	hops->owners = owners;
	hops->owner_count = n;
	return 0;
}

// Lists the ports of the segment, each with the settings of the configured port of the same name.
static void list_ports(struct weir_next_hops *hops, const struct weir_config *config) {
	const struct weir_segment *segment = weir_tables_segment(hops->tables);

	if (segment != NULL) {
		hops->port_count = segment->ports;
	}
	for (uint32_t i = 0; i < hops->port_count; i++) {
		struct weir_neighbour_port *port = &hops->ports[i];

		if (segment != NULL) {
			*port = (struct weir_neighbour_port){.info = segment->header->port[i]};
			port->info.name[sizeof(port->info.name) - 1] = '\0';
			port->info.kernel_interface[sizeof(port->info.kernel_interface) - 1] = '\0';
		}
		for (uint32_t j = 0; j < config->port_count; j++) {
			const struct weir_config_port *wanted = &config->ports[j];

			if (strcmp(wanted->name, port->info.name) == 0) {
				port->has_gateway_mac = wanted->has_gateway_mac;
				memcpy(port->gateway_mac, wanted->gateway_mac,
					sizeof(port->gateway_mac));
				port->source_ipv4 = wanted->source_ipv4;
				port->source_ipv4_bits = wanted->source_ipv4_bits;
				port->source_ipv6 = wanted->source_ipv6;
			}
		}
	}
}

int weir_next_hops_configure(
	struct weir_next_hops *hops, struct weir_tables *tables, const struct weir_config *config) {
	struct weir_address *addresses;
	int r;

	hops->tables = tables;
	r = list_owners(hops);
	if (r < 0) {
		return r;
	}
	list_ports(hops, config);
	addresses = calloc(hops->owner_count > 0 ? hops->owner_count : 1, sizeof(addresses[0]));
	if (addresses == NULL) {
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < hops->owner_count; i++) {
		addresses[i] = hops->owners[i].address;
	}
	r = weir_neighbours_configure(
		hops->neighbours, hops->ports, hops->port_count, addresses, hops->owner_count);
	free(addresses);
	return r;
}

// --- create and free ----------------------------------------------------------------------

int weir_next_hops_create(uv_loop_t *loop, struct weir_log *log, struct weir_states *states,
	struct weir_health *health, void (*changed)(void *context), void *context,
	struct weir_next_hops **ret) {
	struct weir_next_hops *hops = calloc(1, sizeof(*hops));
	int r;

	if (hops == NULL) {
		return -ENOMEM;
	}
	hops->log = log;
	hops->states = states;
	hops->health = health;
	hops->changed = changed;
	hops->context = context;
	r = weir_neighbours_create(loop, on_next_hop, hops, &hops->neighbours);
	if (r < 0) {
		free(hops);
		return r;
	}
	*ret = hops;
	return 0;
}

void weir_next_hops_listen(struct weir_next_hops *hops, struct weir_icmp_sockets *sockets) {
	weir_neighbours_listen(hops->neighbours, sockets);
}

void weir_next_hops_free(struct weir_next_hops *hops) {
	if (hops == NULL) {
		return;
	}
	weir_neighbours_free(hops->neighbours);
	free(hops->owners);
	free(hops);
}
