// SPDX-License-Identifier: BSD-3-Clause
//
// Oracle: what a packet that the pipeline sends must look like, told from the packet that came in
// and the backend's row alone. Written byte by byte; uses nothing of the packet path.
//
// Threads: pure functions. What is wrong ends the process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define ORACLE_FRAME_MAX 2048

struct oracle_frame {
	uint8_t bytes[ORACLE_FRAME_MAX];
	uint32_t n;
};

// The packet was encapsulated for this backend.
void oracle_forwarded(const struct oracle_frame *in, const struct oracle_frame *out,
	const struct weir_backend_row *row);
enum oracle_reply {
	ORACLE_ECHO, // an echo reply
	ORACLE_TOO_BIG, // a message that the packet does not fit
	ORACLE_RESET, // an RST
};

// The packet was turned into a reply.
// tag: taken off by the NIC, put back in the reply; 0 = none.
void oracle_replied(const struct oracle_frame *in, const struct oracle_frame *out,
	enum oracle_reply kind, uint16_t tag);

// Make an input's mutated frame consistent again, as far as it can be: the length of its IP packet,
// and the checksums of IPv4 and of ICMP.
void oracle_fix_length(struct oracle_frame *frame);
void oracle_fix_ipv4(struct oracle_frame *frame);
void oracle_fix_icmp(struct oracle_frame *frame);
