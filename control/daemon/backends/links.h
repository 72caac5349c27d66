// SPDX-License-Identifier: BSD-3-Clause
//
// Links: whether the link of a port explains that a check failed or that an agent is silent. While
// the port to a backend has no link, and for one timeout after it has one again (a neighbour must
// be resolved again), a failure is no result about the backend.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "layout.h"
#include "segment.h"

#define WEIR_LINKS_READ_MS 100 // between two reads of the links

struct weir_links { // all zero: no port
	uint64_t read_ms; // last read
	uint32_t count;
	struct weir_links_port {
		char name[WEIR_NAME_BYTES];
		bool down; // has no link
		uint64_t down_ms; // when it was last seen without a link, 0 = never
	} ports[WEIR_PORTS_MAX];
};

// Read the links of the ports, unless that was done within WEIR_LINKS_READ_MS. segment NULL: none
// is attached, and no port is without a link. now_ms: monotonic.
void weir_links_read(struct weir_links *links, const struct weir_segment *segment,
	const struct weir_config *config, uint64_t now_ms);

// Whether a failure is no result about the backend; then why gets one line. port: to the backend;
// below 0 = unknown: all ports must explain it. began_ms: when the check began; timeout_ms: its
// timeout.
bool weir_links_excuse(const struct weir_links *links, int port, uint64_t began_ms,
	uint32_t timeout_ms, char *why, size_t bytes);
