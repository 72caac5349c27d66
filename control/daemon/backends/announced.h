// SPDX-License-Identifier: BSD-3-Clause
//
// Announced: the states that the reports of one backend announce, for its host and for its ports,
// and which of them is in effect; passes that one on to states.h.
//
// A report without a state of the host keeps the previous one. A report without states of ports
// withdraws those that came from the same source. A state of the host from another source does not
// replace the states of ports.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "port_words.h"
#include "report.h"
#include "states.h"

#define WEIR_ANNOUNCED_SOURCE_BYTES 16 // a longer name of a source is cut

struct weir_announced { // zeroed = nothing is announced
	uint8_t word; // state of the host, enum weir_health_word
	uint8_t passed_on; // the state that was last passed to states.h, enum weir_health_word
	bool by_port; // passed_on is the state of a port
	uint8_t port_count;
	struct weir_port_word ports[WEIR_PORT_WORDS_MOST];
	char why[WEIR_REPORT_WHY_BYTES]; // reason of `word`
	// Which source announced the state of the host and those of the ports; "" = none.
	char word_by[WEIR_ANNOUNCED_SOURCE_BYTES], ports_by[WEIR_ANNOUNCED_SOURCE_BYTES];
	const struct weir_bound_ports *binds; // of the backend's service, borrowed
	uint32_t bind_count;
};

// Take the states that a report announces.
void weir_announced_take(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const struct weir_report *report, const char *source);

// The source no longer reports: withdraw the states that it announced.
void weir_announced_withdraw(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const char *source);

// Set the binds of the backend's service. Other binds may select another port as the port with the
// worst state.
void weir_announced_set_binds(struct weir_announced *announced, struct weir_states *states,
	uint16_t backend, const struct weir_bound_ports *binds, uint32_t bind_count);
