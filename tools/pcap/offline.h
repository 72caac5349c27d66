// SPDX-License-Identifier: BSD-3-Clause
//
// Offline: runs the tables and the pipeline of one worker without ports, and processes frames one
// by one. Called by main.c.
//
// Values that would come from the network are fixed:
// - Port i has the MAC address 02:00:00:00:00:<i + 1>, and accepts frames to any unicast address.
//   With --mac, the ingress port has the given address, and accepts only frames to this address.
// - The next hop of backend id n is the port's gateway_mac if configured, otherwise
//   02:00:00:01:<n as two bytes>.
// - The outer source is the port's source_ipv4 or source_ipv6 if configured, otherwise 192.0.2.1 or
//   2001:db8::1.
// - Every backend is healthy, until a change of the command line.
//
// The segment has all workers of the configuration; one worker processes all frames.
//
// Threads: one, which becomes DPDK's main lcore.
#pragma once

#include "capture.h"
#include "options.h"
#include "pipeline.h"
#include "pipeline_setup.h"
#include "tables.h"

// Maximum length of a frame that fits into a packet buffer.
#define WEIR_OFFLINE_FRAME_BYTES_MAX (65535 - RTE_PKTMBUF_HEADROOM)

struct weir_offline_result {
	uint8_t action; // enum weir_action
	uint8_t reason; // enum weir_drop_reason, WEIR_REASON_NONE
	uint8_t choice; // enum weir_choice
	bool cut; // the captured frame was truncated; zeros replace the missing bytes
	const char *port; // FORWARD and REPLY: the egress port
	const char *service; // NULL = none
	const char *backend; // backend of the service; NULL = none
	uint16_t backend_id; // WEIR_BACKEND_NONE
	struct weir_capture_frame sent; // FORWARD and REPLY; valid until the next call
	uint32_t fragments; // number of additional frames, if the packet was fragmented
	const struct weir_capture_frame *fragment; // [fragments], as sent
};

struct weir_offline;

// Starts DPDK's EAL without huge pages, devices or shared files, with memory for `flows` flows.
// Call once per process. Returns 0, or negative errno with one line in why.
int weir_offline_start(const char *program, uint32_t flows, char *why, size_t why_bytes);
// Returns the number of flows that the flow table of an offline run can hold.
uint32_t weir_offline_flows(const struct weir_config *config);

// Build tables and pipeline. config and options are borrowed. why gets one line. Returns 0, -EINVAL
// (options name an object that is not in the configuration), or another negative errno.
int weir_offline_create(const struct weir_config *config, const struct weir_pcap_options *options,
	struct weir_offline **ret, char *why, size_t why_bytes);
void weir_offline_free(struct weir_offline *offline); // NULL is allowed

// Makes the changes that are due before this packet of the capture (counted from 1). Changes before
// the first packet are made by weir_offline_create. Returns 0, or negative errno with one line in
// why.
int weir_offline_change(struct weir_offline *offline, uint64_t packet, char *why, size_t why_bytes);

// Processes a frame. Call in the order of the capture. The clock does not go back: if a frame has a
// timestamp before the latest timestamp so far, the latest timestamp is used.
void weir_offline_process(struct weir_offline *offline, const struct weir_capture_frame *frame,
	struct weir_offline_result *ret);

const struct weir_tables *weir_offline_tables(const struct weir_offline *offline);
