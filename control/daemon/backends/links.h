// SPDX-License-Identifier: BSD-3-Clause
//
// Links: determines whether a missing link explains that a check failed, or that an agent does not
// answer. While the port to a backend has no link, a failure is not evidence that the backend is
// down. A failed check that began within one timeout after the link is up again is not evidence
// either, because the next hop must be resolved again. After a link comes up, addresses, routing
// protocols and taps also need some time. So if the kernel has lost the route to the backend, or
// the MAC address of the gateway, this period of one timeout begins when the kernel has both again,
// at the latest WEIR_LINKS_ROUTE_MS after the link is up. While a route of type unreachable,
// prohibit or blackhole refuses packets to a backend, no failure is evidence either.
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

// Maximum time after a link comes up for which a missing route excuses failed checks. A failed
// check that began more than one timeout after this time is evidence even without a route.
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
	// NULL: no dataplane is attached. The ports of the last segment are kept then, because the
	// dataplane may be restarting. Some devices lose their link during a restart.
	const struct weir_segment *segment;
	const struct weir_config *config;
};

// Reads the links of all ports. Call about every 100 ms. now_ms: CLOCK_MONOTONIC.
void weir_links_read(struct weir_links *links, struct weir_links_of of, uint64_t now_ms);
// Reads the link of a port again, or the links of all ports if the port is unknown or -1. Does not
// read a link that was down when it was last read. Call before weir_links_excuse: a link may have
// failed since it was last read, and without a link some checks fail within microseconds.
void weir_links_update(
	struct weir_links *links, struct weir_links_of of, int port, uint64_t now_ms);

struct weir_links_failure {
	// Path of the packets. If its port is below 0 or not in struct weir_links, the port is
	// unknown. A failure is then explained only if the links of all ports explain it.
	struct weir_way way;
	uint64_t began_ms; // start of the check
	uint32_t timeout_ms; // timeout of the check
};

// Returns whether a missing link, or a route that refuses packets, explains a failure. If so, the
// failure is not evidence that the backend is down, and why receives one line.
bool weir_links_excuse(const struct weir_links *links, const struct weir_links_failure *failure,
	char *why, size_t bytes);
