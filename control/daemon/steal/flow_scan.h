// SPDX-License-Identifier: BSD-3-Clause
//
// Flow scan: searches the flow tables of all workers for connections that wait for a reply from
// their backend (WEIR_MESSAGE_FLOW_WAITING of mailbox.h). The scan keeps only connections that a
// steal request can describe. The maximum number of kept connections is the same for each backend.
// The scan starts at a random line of each table, so that different flows are left out each time if
// there are more flows than a scan can keep.
//
// Threads: the thread of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "table_walk.h"

#define WEIR_FLOW_SCAN_FLOWS 512u // maximum number of flows that a scan keeps
#define WEIR_FLOW_SCAN_AHEAD_MS 100u
#define WEIR_FLOW_SCAN_MOST_MS 1000u // maximum duration of a scan

struct weir_flow_waiting_at { // a waiting connection
	uint8_t family; // 4 or 6
	uint8_t client[16], vip[16]; // IPv4: the first 4 bytes
	uint16_t client_port, vip_port; // port numbers, in network byte order
	uint16_t backend;
	uint32_t worker; // the worker that reported the flow
	uint32_t waited_ms; // lower limit of the time since the client's last SYN
	uint32_t stamp;
	uint64_t due_ms; // time at which the connection will have waited for after_ms
};

struct weir_flow_scan {
	struct weir_table_walk walk;
	// A worker does not support the message, because weir-dataplane has an earlier version.
	bool unsupported;
	bool incomplete; // a worker did not report all of its flows in time
	uint64_t until_ms; // time at which the scan ends, even if it is incomplete
	uint32_t after_ms;
	uint32_t share; // maximum number of flows kept per backend
	uint32_t kept[WEIR_WAITING_BACKENDS]; // number of kept flows of each backend
	// Number of flows at the start of flow[] whose due_ms is set: the flows that were reported
	// before the last step.
	uint32_t timed;
	uint32_t count;
	struct weir_flow_waiting_at flow[WEIR_FLOW_SCAN_FLOWS]; // without duplicates
};

// Initializes the scan, and subscribes to responses of kind WEIR_MESSAGE_FLOW_WAITING. mailboxes:
// borrowed.
void weir_flow_scan_init(struct weir_flow_scan *scan, struct weir_mailboxes *mailboxes);
// Starts a scan for flows of up to WEIR_WAITING_BACKENDS backends. The scan finds flows that have
// waited for after_ms, and flows that will reach this waiting time within the next
// WEIR_FLOW_SCAN_AHEAD_MS. random: random number that selects the first line. If no dataplane is
// attached, the scan ends immediately.
void weir_flow_scan_begin(struct weir_flow_scan *scan, const uint16_t *backends, uint32_t count,
	uint32_t after_ms, uint64_t random, uint64_t now_ms);
// Sends the requests that are due. Call this function about every millisecond, after
// weir_mailboxes_take. Returns false when the scan has ended; the result is in scan->flow[].
bool weir_flow_scan_step(struct weir_flow_scan *scan, uint64_t now_ms);
// Moves the flows whose due_ms has been reached to the front of the list, and returns their number.
// Call this function after the end of a scan.
uint32_t weir_flow_scan_due(struct weir_flow_scan *scan, uint64_t now_ms);
// Removes the first n flows of the list. Returns the earliest due_ms of the remaining flows; 0 = no
// flow remains.
uint64_t weir_flow_scan_drop(struct weir_flow_scan *scan, uint32_t n);
// Cancels the scan. Call this function when the dataplane has exited, or when the result is not
// needed.
void weir_flow_scan_abandon(struct weir_flow_scan *scan);
