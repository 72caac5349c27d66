// SPDX-License-Identifier: BSD-3-Clause
//
// Flow scan: searches the flow tables of all workers for connections that wait for a reply of their
// backend (WEIR_MESSAGE_FLOW_WAITING of mailbox.h). The scan keeps connections for which a steal
// request can be sent to an agent, up to an equal share per backend. A scan starts at a random line
// of each table, so that no flow is left out repeatedly if more flows are found than kept.
//
// Threads: the thread of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "table_walk.h"

#define WEIR_FLOW_SCAN_FLOWS 512u // limit of kept flows
#define WEIR_FLOW_SCAN_AHEAD_MS 100u
#define WEIR_FLOW_SCAN_MOST_MS 1000u // limit of the duration of a scan

struct weir_flow_waiting_at { // a waiting connection
	uint8_t family; // 4 or 6
	uint8_t client[16], vip[16]; // IPv4: the first 4 bytes
	uint16_t client_port, vip_port; // network order
	uint16_t backend;
	uint32_t worker; // the worker that reported the flow
	uint32_t waited_ms; // time since the client's last SYN, or a little longer
	uint32_t stamp;
	uint64_t due_ms; // when the connection has waited for after_ms
};

struct weir_flow_scan {
	struct weir_table_walk walk;
	bool unsupported; // a worker does not support the message: weir-dataplane is older
	bool incomplete; // a worker did not report all of its flows in time
	uint64_t until_ms; // end of the scan, even if incomplete
	uint32_t after_ms;
	uint32_t share; // limit of kept flows per backend
	uint32_t kept[WEIR_WAITING_BACKENDS]; // number of kept flows of each backend
	// Number of flows whose due_ms is set: all flows reported before the last step.
	uint32_t timed;
	uint32_t count;
	struct weir_flow_waiting_at flow[WEIR_FLOW_SCAN_FLOWS]; // without duplicates
};

// Initialise, and subscribe to responses of kind WEIR_MESSAGE_FLOW_WAITING. mailboxes: borrowed.
void weir_flow_scan_init(struct weir_flow_scan *scan, struct weir_mailboxes *mailboxes);
// Starts a scan for flows of up to WEIR_WAITING_BACKENDS backends. It finds flows that have waited
// for after_ms, and flows that will have waited so long within WEIR_FLOW_SCAN_AHEAD_MS. random:
// selects the first line. Without a dataplane the scan ends at once.
void weir_flow_scan_begin(struct weir_flow_scan *scan, const uint16_t *backends, uint32_t count,
	uint32_t after_ms, uint64_t random, uint64_t now_ms);
// Send further requests. Returns false when the scan has ended; the result is in scan->flow[]. Call
// about every millisecond, after weir_mailboxes_take.
bool weir_flow_scan_step(struct weir_flow_scan *scan, uint64_t now_ms);
// Call after the end of a scan. Moves the flows that are due to the front, and returns their
// number.
uint32_t weir_flow_scan_due(struct weir_flow_scan *scan, uint64_t now_ms);
// Removes the first n flows. Returns the time at which the next remaining flow is due; 0 = no flow
// remains.
uint64_t weir_flow_scan_drop(struct weir_flow_scan *scan, uint32_t n);
// Cancels the scan. Call when the dataplane exited, or when the result is not needed.
void weir_flow_scan_abandon(struct weir_flow_scan *scan);
