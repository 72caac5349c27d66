// SPDX-License-Identifier: BSD-3-Clause
//
// Fuzz: the keys that fuzz_agent_message.c and its corpus use for weir-control and weir-agent,
// and the formats of its input.
#pragma once

#include "agent_message.h"

static const struct weir_agent_keys agent_rig_keys = {
	.count = 2,
	.key = {{.id = 1, .secret = {1, 2, 3}}, {.id = 0xfffe, .secret = {0xff, 4}}},
};

// The first byte of an input. Bytes after the end of the input are zero.
enum agent_rig_form {
	AGENT_RIG_FOREIGN, // one datagram of any length, unchanged
	// two datagrams from an owner of the key; the target computes their authentication codes
	AGENT_RIG_OWNER,
	// Records of 3 bytes: sender and sequence number, which also advances the clock
	AGENT_RIG_REPLAYS,
	AGENT_RIG_FORMS
};
