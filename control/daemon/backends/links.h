// SPDX-License-Identifier: BSD-3-Clause
//
// Links: determines whether the link of a port explains that a check failed or that an agent does
// not answer. While the port to a backend has no link, a failure says nothing about the backend.
// This also applies for one timeout after the link has returned, because the next hop must be
// resolved again. If the kernel also lost the route to the backend or the gateway's MAC address,
// the timeout begins when the kernel has both again. After a link comes up, addresses, routing
// protocols and taps need some time.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "layout.h"
#include "next_hop.h"
#include "segment.h"

// Maximum time from the return of a link until the kernel has a route again. After this time,
// failures count.
#define WEIR_LINKS_ROUTE_MS 30000

struct weir_links { // all zero: no ports
	uint32_t count;
	struct weir_links_port {
		struct weir_port_info info;
		bool down; // the port has no link
		uint64_t down_ms; // when the port was last found without a link, 0 = never
	} ports[WEIR_PORTS_MAX];
};

struct weir_links_of {
	// NULL: no dataplane is attached. The ports are then those of the last segment, because the
	// dataplane is possibly about to restart, and some devices lose their link during a
	// restart.
	const struct weir_segment *segment;
	const struct weir_config *config;
};

// Reads the links of all ports. Call every 100 ms or so. now_ms: monotonic, as the loop's time.
void weir_links_read(struct weir_links *links, struct weir_links_of of, uint64_t now_ms);
// Reads the link of a port again (port below 0: of all ports), unless the last read found the link
// down. Call before weir_links_excuse: a link may have failed since it was read, and some checks
// fail within microseconds then.
void weir_links_update(
	struct weir_links *links, struct weir_links_of of, int port, uint64_t now_ms);

struct weir_links_failure {
	// Path of the packets. If its port is below 0, the port is unknown. A failure is then
	// explained only if the links of all ports explain it.
	struct weir_way way;
	uint64_t began_ms; // start of the check
	uint32_t timeout_ms; // timeout of the check
};

// Returns whether a missing link explains a failure. If so, the failure says nothing about the
// backend, and why receives one line.
bool weir_links_excuse(const struct weir_links *links, const struct weir_links_failure *failure,
	char *why, size_t bytes);
