// SPDX-License-Identifier: BSD-3-Clause
#include "links.h"

#include <stdio.h>
#include <string.h>

#include "port_link.h"

static void read_port(struct weir_links_port *port, const struct weir_segment *segment,
	const struct weir_config *config, uint32_t i, uint64_t now_ms) {
	const struct weir_port_info *info = &segment->header->port[i];
	const enum weir_link_state link = weir_port_link(segment, config, i);

	// Forget the state of the link if another port has this index now.
	if (strncmp(port->name, info->name, sizeof(port->name)) != 0) {
		*port = (struct weir_links_port){.down = false};
		memcpy(port->name, info->name, sizeof(port->name));
		port->name[sizeof(port->name) - 1] = '\0';
	}
	port->down = link != WEIR_LINK_UP && link != WEIR_LINK_UNKNOWN;
	port->down_ms = port->down ? now_ms : port->down_ms;
}

void weir_links_read(struct weir_links *links, const struct weir_segment *segment,
	const struct weir_config *config, uint64_t now_ms) {
	if (segment == NULL) {
		links->count = 0;
		links->read_ms = 0;
		return;
	}
	if (links->read_ms != 0 && now_ms - links->read_ms < WEIR_LINKS_READ_MS) {
		return;
	}
	links->read_ms = now_ms;
	links->count = segment->ports;
	for (uint32_t i = 0; i < segment->ports; i++) {
		read_port(&links->ports[i], segment, config, i, now_ms);
	}
}

static bool explains(const struct weir_links_port *port, uint64_t began_ms, uint32_t timeout_ms) {
	return port->down || (port->down_ms != 0 && began_ms < port->down_ms + timeout_ms);
}

bool weir_links_excuse(const struct weir_links *links, int port, uint64_t began_ms,
	uint32_t timeout_ms, char *why, size_t bytes) {
	const bool known = port >= 0 && (uint32_t)port < links->count;
	const uint32_t first = known ? (uint32_t)port : 0;
	const uint32_t end = known ? first + 1 : links->count;

	for (uint32_t i = first; i < end; i++) {
		if (!explains(&links->ports[i], began_ms, timeout_ms)) {
			return false;
		}
	}
	if (first == end) {
		return false;
	}
	snprintf(why, bytes,
		links->ports[first].down ? "no result: port %s has no link"
					 : "no result: port %s had no link",
		links->ports[first].name);
	return true;
}
