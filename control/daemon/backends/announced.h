// SPDX-License-Identifier: BSD-3-Clause
// Announced: the states that the reports of one backend announce, for its host and for its ports.
// Determines which of these states is in effect, and passes it on to states.h.
// A report without a host state keeps the previous host state. A report without port states
// withdraws the port states that came from the same source. A host state from another source does
// not replace the port states.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "port_words.h"
#include "report.h"
#include "states.h"

#define WEIR_ANNOUNCED_SOURCE_BYTES 16 // longer names of sources are truncated

struct weir_announced { // zeroed = nothing is announced
	uint8_t word; // state of the host, enum weir_health_word
	uint8_t passed_on; // the state that was last passed to states.h, enum weir_health_word
	bool by_port; // passed_on is the state of a port
	uint8_t port_count;
	struct weir_port_word ports[WEIR_PORT_WORDS_MOST];
	char why[WEIR_REPORT_WHY_BYTES]; // reason of `word`
	// The source that announced the host state, and the source that announced the port states;
	// "" = none.
	char word_by[WEIR_ANNOUNCED_SOURCE_BYTES], ports_by[WEIR_ANNOUNCED_SOURCE_BYTES];
	const struct weir_bound_ports *binds; // binds of the backend's service, borrowed
	uint32_t bind_count;
};

// Apply the states that a report announces.
void weir_announced_take(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const struct weir_report *report, const char *source);

// Withdraw the states that a source announced, because the source no longer reports.
void weir_announced_withdraw(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const char *source);

// Set the binds of the backend's service. With other binds, another port can have the worst state.
void weir_announced_set_binds(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const struct weir_bound_ports *binds, uint32_t bind_count);
