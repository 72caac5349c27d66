// SPDX-License-Identifier: BSD-3-Clause
#include "links.h"

#include <stdio.h>
#include <string.h>

#include "port_link.h"

static void read_port(
	struct weir_links_port *port, struct weir_links_of of, uint32_t i, uint64_t now_ms) {
	const enum weir_link_state link = of.segment != NULL
						  ? weir_port_link(of.segment, of.config, i)
						  : weir_port_link_without_dataplane(&port->info);

	port->down = link != WEIR_LINK_UP && link != WEIR_LINK_UNKNOWN;
	port->down_ms = port->down ? now_ms : port->down_ms;
}

static void take_ports(struct weir_links *links, const struct weir_segment *segment) {
	links->count = segment->ports;
	for (uint32_t i = 0; i < segment->ports; i++) {
		const struct weir_port_info *info = &segment->header->port[i];
		struct weir_links_port *port = &links->ports[i];

		// Discard the state of the link if another port has this index now.
		if (strncmp(port->info.name, info->name, sizeof(info->name)) != 0) {
			*port = (struct weir_links_port){.down = false};
		}
		port->info = *info;
		port->info.name[sizeof(port->info.name) - 1] = '\0';
	}
}

void weir_links_read(struct weir_links *links, struct weir_links_of of, uint64_t now_ms) {
	if (of.segment != NULL) {
		take_ports(links, of.segment);
	}
	for (uint32_t i = 0; i < links->count; i++) {
		read_port(&links->ports[i], of, i, now_ms);
	}
}

// Gets the range of ports for a port index: this port, or all ports if the index is unknown.
static void range_of(
	const struct weir_links *links, int port, uint32_t *ret_first, uint32_t *ret_end) {
	const bool known = port >= 0 && (uint32_t)port < links->count;

	*ret_first = known ? (uint32_t)port : 0;
	*ret_end = known ? *ret_first + 1 : links->count;
}

void weir_links_update(
	struct weir_links *links, struct weir_links_of of, int port, uint64_t now_ms) {
	uint32_t first, end;

	range_of(links, port, &first, &end);
	for (uint32_t i = first; i < end && (of.segment == NULL || i < of.segment->ports); i++) {
		if (!links->ports[i].down) {
			read_port(&links->ports[i], of, i, now_ms);
		}
	}
}

// Returns the earliest start of a check whose failure is evidence that the backend is down.
static uint64_t counts_from_ms(
	const struct weir_links_port *port, const struct weir_links_failure *failure) {
	const uint64_t most_ms = port->down_ms + WEIR_LINKS_ROUTE_MS;
	uint64_t usable_ms = failure->way.since_ms;

	if (usable_ms == 0 || usable_ms > most_ms) {
		usable_ms = most_ms;
	}
	return (usable_ms > port->down_ms ? usable_ms : port->down_ms) + failure->timeout_ms;
}

static bool explains(const struct weir_links_port *port, const struct weir_links_failure *failure) {
	return port->down ||
	       (port->down_ms != 0 && failure->began_ms < counts_from_ms(port, failure));
}

// Returns the first port to the backend if its link, and those of all other ports that may lead to
// the backend, explain the failure; otherwise NULL.
static const struct weir_links_port *find_reason(
	const struct weir_links *links, const struct weir_links_failure *failure) {
	uint32_t first, end;

	range_of(links, failure->way.port, &first, &end);
	for (uint32_t i = first; i < end; i++) {
		if (!explains(&links->ports[i], failure)) {
			return NULL;
		}
	}
	return first < end ? &links->ports[first] : NULL;
}

bool weir_links_excuse(const struct weir_links *links, const struct weir_links_failure *failure,
	char *why, size_t bytes) {
	const struct weir_links_port *port = find_reason(links, failure);

	if (port != NULL) {
		snprintf(why, bytes,
			port->down ? "no result: port %s has no link"
				   : "no result: port %s had no link",
			port->info.name);
	} else if (failure->way.refused) {
		snprintf(why, bytes,
			"no result: a route of this host refuses packets to the "
			"backend");
	}
	return port != NULL || failure->way.refused;
}
