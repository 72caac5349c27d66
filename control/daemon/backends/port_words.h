// SPDX-License-Identifier: BSD-3-Clause
//
// Port words: which of the words of a host's ports concerns a service, by its binds.
//
// Threads: pure functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "report.h"

struct weir_bound_ports { // of a bind
	uint16_t first, last;
	uint8_t protocol;
};

// The ports of the binds of all services, in their order; one more element than there are, so never
// empty. Freed by the caller. NULL = out of memory.
struct weir_bound_ports *weir_bound_ports_of(const struct weir_config *config);

// The port with the worst word among those that the binds cover, if it is worse than `word`, the
// host's. The first one of equal words. NULL = none.
const struct weir_port_word *weir_port_words_worst(const struct weir_port_word *ports,
	uint32_t port_count, const struct weir_bound_ports *binds, uint32_t bind_count,
	uint8_t word);

// "port 80: no listening socket", "UDP port 53: down"
void weir_port_word_describe(const struct weir_port_word *port, char *to, size_t bytes);
// Why a backend without this word of a port has a better state, one line.
void weir_port_word_describe_end(const struct weir_port_word *port, char *to, size_t bytes);
