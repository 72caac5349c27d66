// SPDX-License-Identifier: BSD-3-Clause
//
// Verdict: the pipeline's decision about a packet, and the reason. The pipeline writes the verdict,
// and its caller (worker, weir-pcap, weir-bench) carries out the verdict.
#pragma once

#include <stdint.h>

#include "drop_reasons.h"
#include "packet_facts.h"

#define WEIR_BURST 64 // maximum number of packets per call of weir_pipeline_process

#define WEIR_REASON_NONE 0xff // value of verdict.reason if there is no reason

struct weir_verdict { // one per packet of a burst
	uint8_t action; // enum weir_action
	// enum weir_drop_reason, or WEIR_REASON_NONE. With WEIR_ACTION_DROP: why the packet is
	// dropped. With WEIR_ACTION_REPLY: MTU_EXCEEDED if the reply is "too big", CLOSED_PORT if
	// it is "port unreachable" or an RST from a closed port, BACKEND_DOWN if it is an RST for a
	// backend; NONE if it is an echo reply or a challenge ACK.
	uint8_t reason;
	uint8_t choice; // enum weir_choice
	uint8_t port; // index of the port to send on
	uint16_t backend; // WEIR_BACKEND_NONE = no backend was chosen
	uint16_t service; // WEIR_SERVICE_NONE = no service matched
};

const char *weir_action_name(enum weir_action action);
const char *weir_choice_name(enum weir_choice choice);
