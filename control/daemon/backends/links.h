// SPDX-License-Identifier: BSD-3-Clause
//
// Links: whether the link of a port explains that a check failed or that an agent does not answer.
// While the port to a backend has no link, a failure says nothing about the backend. This also
// applies for one timeout afterwards, because the next hop must be resolved again.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "layout.h"
#include "segment.h"

#define WEIR_LINKS_READ_MS 100 // minimum time between two reads of the links

struct weir_links { // all zero: no ports
	uint64_t read_ms; // time of the last read
	uint32_t count;
	struct weir_links_port {
		char name[WEIR_NAME_BYTES];
		bool down; // the port has no link
		uint64_t down_ms; // when the port was last found without a link, 0 = never
	} ports[WEIR_PORTS_MAX];
};

// Reads the links of the ports, unless they were read within the last WEIR_LINKS_READ_MS. segment
// NULL: no dataplane is attached; then no port counts as without a link. now_ms: monotonic.
void weir_links_read(struct weir_links *links, const struct weir_segment *segment,
	const struct weir_config *config, uint64_t now_ms);

// Returns whether a missing link explains a failure, which then says nothing about the backend; why
// receives one line. port: index of the port to the backend. port below 0: the port is unknown, and
// all ports must explain the failure. began_ms: start of the check; timeout_ms: timeout of the
// check.
bool weir_links_excuse(const struct weir_links *links, int port, uint64_t began_ms,
	uint32_t timeout_ms, char *why, size_t bytes);
