// SPDX-License-Identifier: BSD-3-Clause
// Port words: the states that reports announce for the ports of a host. Determines which of these
// states concerns a service, from the ports of the service's binds.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "report.h"

struct weir_bound_ports { // ports of a bind
	uint16_t first, last;
	uint8_t protocol;
};

// Lists the ports of the binds of all services, in the order of the services. The array has one
// more element than there are binds, so it is never empty. The caller frees it. NULL = out of
// memory.
struct weir_bound_ports *weir_bound_ports_of(const struct weir_config *config);

// Returns the port with the worst state among the ports that the binds cover, or the first of
// several such ports. Returns NULL if no port is worse than `word`, the state of the host.
const struct weir_port_word *weir_port_words_worst(const struct weir_port_word *ports,
	uint32_t port_count, const struct weir_bound_ports *binds, uint32_t bind_count,
	uint8_t word);

// Describes the state of a port: "port 80: no listening socket", "UDP port 53: down".
void weir_port_word_describe(const struct weir_port_word *port, char *to, size_t bytes);
// Describes the end of a port's announced state, as the reason for a better state of the backend:
// "port 80 listens again", "port 80 is announced as ready".
void weir_port_word_describe_end(const struct weir_port_word *port, char *to, size_t bytes);
