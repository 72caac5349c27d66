// SPDX-License-Identifier: BSD-3-Clause
//
// Captured: whether a capture has each packet of a burst as it came, with the verdict that it got,
// and whether one of a flow has all packets of that flow, as the oracle reads them.
//
// Threads: one.
#pragma once

#include "packet_capture.h"
#include "rig.h"

// Before the burst is processed: a capture of each packet's flow has the packet.
void captured_flows(struct rig *rig, struct rig_burst *burst, uint8_t in_port);
// Capture the burst.
void captured_begin(struct rig *rig, struct rig_burst *burst, uint8_t in_port);
// It was processed, with these verdicts.
void captured_end(struct rig *rig, struct rig_burst *burst, const struct weir_verdict *verdicts);
