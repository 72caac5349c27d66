// SPDX-License-Identifier: BSD-3-Clause
//
// Packet capture: copies packets for control, with what the pipeline made of them (capture.h). A
// packet is rewritten in place and may have left before its end is known. So for each burst, while
// an order is in force:
//   1. weir_packet_capture_begin        saves the first bytes of what the order may be about
//   2. weir_pipeline_process            as always
//   3. weir_packet_capture_see          notes what the pipeline knows, which the next burst
//   replaces
//   4. the caller delivers the packets  weir_packet_capture_undelivered for each that it cannot
//   5. weir_packet_capture_end          writes records
// A packet has one record at most, of the worker that decides about it: what is offered to another
// worker is recorded there, unless the order asks for offers.
//
// Threads: one per worker, that worker only. No lock, no allocation after create, no division.
#pragma once

#include <rte_mbuf.h>

#include "capture.h"
#include "verdict.h"

struct weir_packet_capture;
struct weir_pipeline;

// pipeline: the worker's, borrowed. Returns 0 or -ENOMEM. [set-up]
int weir_packet_capture_create(
	struct weir_pipeline *pipeline, int socket, struct weir_packet_capture **ret);
void weir_packet_capture_free(struct weir_packet_capture *capture); // NULL is fine

// A burst that the pipeline gets next. Returns whether some of it may be recorded; if not, the
// other steps are not due.
bool weir_packet_capture_begin(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint16_t n, uint8_t in_port, uint64_t now_ns);
// The pipeline has processed the burst.
void weir_packet_capture_see(
	struct weir_packet_capture *capture, const struct weir_verdict *verdicts);
// Packet i of the burst was dropped for this reason instead.
void weir_packet_capture_undelivered(
	struct weir_packet_capture *capture, uint32_t i, enum weir_drop_reason reason);
void weir_packet_capture_end(struct weir_packet_capture *capture);

// Packets that were dropped without a pipeline. port: WEIR_CAPTURE_NONE = not known. Between
// bursts.
void weir_packet_capture_dropped(struct weir_packet_capture *capture, struct rte_mbuf *const *pkts,
	uint32_t n, uint8_t port, enum weir_drop_reason reason, uint64_t now_ns);
