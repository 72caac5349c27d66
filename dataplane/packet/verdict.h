// SPDX-License-Identifier: BSD-3-Clause
//
// Verdict: what the pipeline decided about a packet, and why. Written by the pipeline, carried out
// by its caller (worker, weir-pcap, weir-bench).
#pragma once

#include <stdint.h>

#include "drop_reasons.h"

#define WEIR_BURST 64 // most packets in one call of the pipeline

enum weir_action {
	WEIR_ACTION_FORWARD, // rewritten; send on verdict.port
	WEIR_ACTION_REPLY, // rewritten into an ICMP reply or an RST; send on verdict.port (where it
			   // came from)
	WEIR_ACTION_KERNEL, // untouched; hand to the kernel of the port it came from
	WEIR_ACTION_DROP, // free; reason in verdict.reason, already counted
	WEIR_ACTION_OFFER, // untouched; hand to the next worker (weir_pipeline_offer_to)
};

#define WEIR_REASON_NONE 0xff // verdict.reason where there is none

// Why a packet got its backend; for verdicts, never on the fast path.
enum weir_choice {
	WEIR_CHOICE_NONE,
	WEIR_CHOICE_FLOW, // that of the flow in the table
	WEIR_CHOICE_NEW, // new flow, from the selection
	WEIR_CHOICE_UNTRACKED, // from the selection, not entered (table full, or mid-flow packet)
	WEIR_CHOICE_REPLACED, // its backend was gone, down or took no new flows: another one
};

struct weir_verdict { // one per packet of a burst
	uint8_t action; // enum weir_action
	uint8_t reason; // enum weir_drop_reason of WEIR_ACTION_DROP; of WEIR_ACTION_REPLY:
			// MTU_EXCEEDED when the reply is "too big", CLOSED_PORT when it is
			// "port unreachable" or an RST, BACKEND_DOWN when it is an RST for a
			// backend; else WEIR_REASON_NONE
	uint8_t choice; // enum weir_choice
	uint8_t port; // index of the port to send on
	uint16_t backend; // WEIR_BACKEND_NONE where none was chosen
	uint16_t service; // WEIR_SERVICE_NONE where none matched
};

const char *weir_action_name(enum weir_action action);
const char *weir_choice_name(enum weir_choice choice);
