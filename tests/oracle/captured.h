// SPDX-License-Identifier: BSD-3-Clause
//
// Captured: checks that a capture contains each packet of a burst as received, with its verdict,
// and that a capture of one flow contains all packets that the oracle assigns to this flow.
//
// Threads: one.
#pragma once

#include "packet_capture.h"
#include "rig.h"

// Call before the burst is processed: checks that a capture of each packet's flow includes the
// packet.
void captured_flows(struct rig *rig, struct rig_burst *burst, uint8_t in_port);
// Start capturing the burst.
void captured_begin(struct rig *rig, struct rig_burst *burst, uint8_t in_port);
// Call after the burst was processed, with these verdicts.
void captured_end(struct rig *rig, struct rig_burst *burst, const struct weir_verdict *verdicts);
