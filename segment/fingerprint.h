// SPDX-License-Identifier: BSD-3-Clause
//
// Fingerprint of the layout: a number that changes when anything changes that the two processes
// must agree on: name, offset or size of a field, or name or value of an enumeration or limit, in
// layout.h, mailbox.h, counters.h, drop_reasons.h, flow_state.h or policy.h. Dataplane and control
// compare it when control attaches, so that a change without a new WEIR_SEGMENT_ABI is found, too.
//
// Threads: any; pure.
#pragma once

#include <stdint.h>

// Of the layout that this program was compiled with. Never 0.
uint64_t weir_layout_fingerprint(void);
