// SPDX-License-Identifier: BSD-3-Clause
//
// Fingerprint of the layout: a number that changes with every property on which the two processes
// must agree: name, offset or size of a field, or name or value of an enumeration or limit, in
// layout.h, mailbox.h, counters.h, drop_reasons.h, flow_state.h or policy.h. Dataplane and control
// compare it when control attaches, so that a change without a new WEIR_SEGMENT_ABI is found, too.
//
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The fingerprint of the layout that this program was compiled with. Never 0.
uint64_t weir_layout_fingerprint(void);

// True if a control process of this program can serve a dataplane whose layout has these numbers:
// its own layout, or a previous one that it only adds to, in space that was reserved and zero. So
// control is upgraded first, and the dataplane, with all its flows, at any later time.
bool weir_layout_served(uint32_t abi, uint64_t fingerprint);

// Bytes of the header of a layout that is served; bytes after these are 0.
uint32_t weir_layout_header_bytes(uint32_t abi);
