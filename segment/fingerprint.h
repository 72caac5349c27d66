// SPDX-License-Identifier: BSD-3-Clause
//
// Fingerprint of the layout: a number that changes with every property that must be the same in
// the dataplane and in control. These properties are the name, offset and size of each field, and
// the name and value of each enumeration and limit, in layout.h, capture_layout.h, mailbox.h,
// counters.h, drop_reasons.h, flow_state.h, packet_facts.h, health_state.h and policy.h. When
// control attaches, it compares both fingerprints, so that a layout change without a new
// WEIR_SEGMENT_ABI is also detected.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Returns the fingerprint of the layout that this program was compiled with. Never 0.
uint64_t weir_layout_fingerprint(void);

// Returns whether a control process of this version can work with a dataplane of this ABI and
// fingerprint. True for this version's layout, and for the previous layouts listed in
// fingerprint.c. This version's layout only adds fields to these layouts, in space that was
// reserved and zero, and adds no region. Therefore control can be upgraded while the dataplane and
// its flows continue; the dataplane can be upgraded at any later time.
bool weir_layout_served(uint32_t abi, uint64_t fingerprint);

// Returns the size of the header in the layout of an ABI, in bytes; 0 if the ABI is not served.
// Bytes of struct weir_segment_header beyond this size are read as 0.
uint32_t weir_layout_header_bytes(uint32_t abi);
