// SPDX-License-Identifier: BSD-3-Clause
//
// Edges: a table of unusual, malformed and contradictory packets. Each entry has the verdict that
// is expected from a pipeline with the default tables of pipeline_lab.h.
#pragma once

#include "frames.h"
#include "verdict.h"

// Offsets of bytes to change. EDGE_IP: from the IP header; EDGE_L4: from the L4 header; a plain
// number: from the start of the frame.
#define EDGE_IP(n) (0x4000 + (n))
#define EDGE_L4(n) (0x8000 + (n))
#define EDGE_SETS 6
#define EDGE_EMPTY (-1) // length of an empty frame

struct edge {
	const char *name;
	struct frame_spec spec;
	struct {
		uint16_t at; // 0 = end of list
		uint8_t value;
	} set[EDGE_SETS];
	const struct frame_spec *quote; // packet that an ICMP error quotes; NULL = no ICMP error
	// number of quoted bytes; 0 = the quoted packet's IP header and 8 bytes more
	uint16_t quote_bytes;
	int length; // truncate the frame to this length; 0 = not truncated
	bool stale; // keep the IPv4 checksum from before the changes
	enum weir_action action;
	enum weir_drop_reason reason; // reason of a drop
};

extern const struct edge edges[];
extern const unsigned int edge_count;

void edge_build(const struct edge *edge, struct frame *ret);
