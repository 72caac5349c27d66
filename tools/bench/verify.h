// SPDX-License-Identifier: BSD-3-Clause
//
// Verify: checks that a packet was forwarded correctly. The expected frame is computed as the RFCs
// and balancer.h specify, without code of the packet path. Called by measure.c.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>

#include <rte_mbuf.h>

#include "balancer.h"

// The expected result for a packet.
struct weir_bench_expectation {
	const uint8_t *frame; // frame as received
	uint32_t frame_bytes;
	uint32_t l3_offset;
	uint32_t ip_bytes;
	uint8_t family; // family of the inner packet
	uint8_t tos;
	uint16_t service;
	uint16_t backend; // WEIR_BACKEND_NONE = any backend of the service
	uint8_t choices; // bit mask of the allowed choices: 1 << enum weir_choice
};

// Check the verdict of a packet and the frame to send. Returns 0, or -EBADMSG with one line in why.
int weir_bench_verify(const struct weir_bench_options *options,
	const struct weir_bench_expectation *expected, const struct weir_verdict *verdict,
	const struct rte_mbuf *m, char *why, size_t why_bytes);
