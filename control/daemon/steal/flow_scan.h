// SPDX-License-Identifier: BSD-3-Clause
//
// Flow scan: goes over the flow tables of all workers for connections that wait for their backend
// to answer (WEIR_MESSAGE_FLOW_WAITING of mailbox.h). It keeps those that an agent can be asked
// about, of each backend equally many at most. It begins at a line of each table that the caller
// draws, so that with more of them than are kept no flow is left out repeatedly.
//
// Threads: one, that of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "flow_walk.h"

#define WEIR_FLOW_SCAN_FLOWS 512u // most that are kept
#define WEIR_FLOW_SCAN_MOST_MS 1000u // of a scan, however slowly workers answer

struct weir_flow_waiting_at { // a connection that waits
	uint8_t family; // 4 or 6
	uint8_t client[16], vip[16]; // of that family
	uint16_t client_port, vip_port; // network order
	uint16_t backend; // that has it
	uint32_t worker; // that listed it
	uint32_t stamp;
};

struct weir_flow_scan {
	struct weir_flow_walk walk;
	bool unsupported; // a worker does not know the message: weir-dataplane is older
	bool incomplete; // a worker did not list all that it has in time
	uint64_t until_ms; // it ends, with what it has found
	uint32_t share; // of the flows that are kept, for each backend
	uint32_t kept[WEIR_WAITING_BACKENDS]; // of each
	uint32_t count;
	struct weir_flow_waiting_at flow[WEIR_FLOW_SCAN_FLOWS]; // each once
};

// The scan takes the responses of its kind. mailboxes: borrowed.
void weir_flow_scan_init(struct weir_flow_scan *scan, struct weir_mailboxes *mailboxes);
// Begin anew: the flows of up to WEIR_WAITING_BACKENDS backends that have been idle so long.
// random: where it begins. Without a dataplane it ends at once.
void weir_flow_scan_begin(struct weir_flow_scan *scan, const uint16_t *backends, uint32_t count,
	uint32_t idle_ms, uint64_t random, uint64_t now_ms);
// Ask on. Returns false when the scan has ended: scan->flow[] holds what it found. Call every
// millisecond or so, after weir_mailboxes_take.
bool weir_flow_scan_step(struct weir_flow_scan *scan, uint64_t now_ms);
// The dataplane is gone, or the scan is no longer needed.
void weir_flow_scan_abandon(struct weir_flow_scan *scan);
