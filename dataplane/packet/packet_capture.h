// SPDX-License-Identifier: BSD-3-Clause
//
// Packet capture: copies packets for control, with their verdicts (capture.h). A packet is
// rewritten in place and may have been sent before its final verdict is known. Therefore each burst
// goes through these steps while a capture order is active:
//   1. weir_packet_capture_begin        saves the first bytes of packets that may match
//   2. weir_pipeline_process            processes the burst
//   3. weir_packet_capture_note         copies the pipeline's results, which the next burst
//                                       overwrites
//   4. weir_packet_capture_undelivered  for each packet that the caller cannot deliver
//   5. weir_packet_capture_end          writes records
// The worker that sets the final verdict of a packet writes at most one record. If the order
// includes offers, each worker that offers the packet writes a record, too.
//
// Threads: one capture per worker, used only by that worker. No lock, no allocation after create,
// no division.
#pragma once

#include <rte_mbuf.h>

#include "capture.h"
#include "verdict.h"

struct weir_packet_capture;
struct weir_pipeline;

// Create a capture. pipeline: pipeline of the worker, borrowed. Returns 0 or -ENOMEM. [set-up]
int weir_packet_capture_create(
	struct weir_pipeline *pipeline, int socket, struct weir_packet_capture **ret);
void weir_packet_capture_free(struct weir_packet_capture *capture); // NULL is allowed

// Save the first bytes of packets. Call before the pipeline processes the burst. Returns true if a
// packet may match. If it returns false, skip the other functions of the capture for this burst.
// n: number of packets. If the order is for one flow and the rate limit is not reached, *n is
// lowered so that the burst ends with the first packet of the flow; process the remaining packets
// as further bursts. The record then has the state of the flow after this packet, not after later
// packets.
bool weir_packet_capture_begin(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint16_t *n, uint8_t in_port, uint64_t now_ns);
// Copy the pipeline's results. Call after the pipeline has processed the burst.
void weir_packet_capture_note(
	struct weir_packet_capture *capture, const struct weir_verdict *verdicts);
// Record that packet i of the burst was not delivered but dropped for this reason.
void weir_packet_capture_undelivered(
	struct weir_packet_capture *capture, uint32_t i, enum weir_drop_reason reason);
void weir_packet_capture_end(struct weir_packet_capture *capture);

// Record packets that were dropped outside the pipeline. port: WEIR_CAPTURE_NONE = unknown. Call
// between bursts.
void weir_packet_capture_dropped(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint32_t n, uint8_t port, enum weir_drop_reason reason, uint64_t now_ns);
