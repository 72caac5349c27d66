// SPDX-License-Identifier: BSD-3-Clause
//
// Port words: finds, among the states announced for a host's ports, the state that concerns a
// service, by the ports of its binds.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "report.h"

struct weir_bound_ports { // ports of a bind
	uint16_t first, last;
	uint8_t protocol;
};

// The ports of the binds of all services, in the order of the services. Has one element more than
// there are binds, so it is never empty. Freed by the caller. NULL = out of memory.
struct weir_bound_ports *weir_bound_ports_of(const struct weir_config *config);

// The port with the worst state among the ports that the binds cover, if that state is worse than
// `word`, the host's state. The first port if several have the worst state. NULL = none.
const struct weir_port_word *weir_port_words_worst(const struct weir_port_word *ports,
	uint32_t port_count, const struct weir_bound_ports *binds, uint32_t bind_count,
	uint8_t word);

// "port 80: no listening socket", "UDP port 53: down"
void weir_port_word_describe(const struct weir_port_word *port, char *to, size_t bytes);
// Why the end of this port's announced state makes the backend's state better, one line.
void weir_port_word_describe_end(const struct weir_port_word *port, char *to, size_t bytes);
