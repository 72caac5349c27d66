// SPDX-License-Identifier: BSD-3-Clause
//
// Status of `weir-agent run`: `weir-agent run` builds it as JSON, and `weir-agent status` shows it
// as text.
//
// Threads: one.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "announcement.h"
#include "capacity_demand.h"
#include "duration.h"
#include "load.h"
#include "orca_poll.h"
#include "port_watch.h"
#include "probes.h"
#include "shed.h"
#include "steal_answers.h"
#include "tcp_looks.h"
#include "words.h"

struct weir_status_parts { // what the status shows
	uint64_t now_ms, started_ms;
	const struct weir_announcement *announcement;
	const struct weir_balancers *balancers;
	struct weir_load *load;
	const struct weir_meter *meter; // NULL = not loaded
	const struct weir_capacity_demand *capacity;
	const struct weir_port_watch *watch;
	const struct weir_tcp_looks *tcp;
	const struct weir_probes *probes;
	const struct weir_steal_answers *steals;
	const struct weir_shed *shed;
	const struct weir_words *words;
	const struct weir_orca_poll *orca; // NULL = none
};

// Build the status, owned by the caller. NULL = out of memory.
json_t *weir_status_make(const struct weir_status_parts *parts);

// Write as text how many connections the drain waits for. drain: the member "drain" of the status.
// Returns text.
const char *weir_status_connections(const json_t *drain, char text[WEIR_DRAIN_COUNT_BYTES]);

// Returns the number of datagrams that were refused because sender and agent have different keys.
// age: gets the time since the last of these datagrams, as text. Returns 0, and leaves age
// unchanged, if there was no such datagram, or if this time is longer than any probe interval:
// different keys are then not the reason why no balancer probes the agent.
uint64_t weir_status_other_key(const json_t *status, char age[WEIR_DURATION_BYTES]);

// Write the status as text.
void weir_status_write(const json_t *status, FILE *out);
