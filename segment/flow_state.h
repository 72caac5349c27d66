// SPDX-License-Identifier: BSD-3-Clause
//
// Flow states: stored in the flow table of a worker, reported to control in the responses of a
// mailbox, and shown by weirctl.
#pragma once

// The states of a flow. X(NAME, "name")
#define WEIR_FLOW_STATES(X) \
	X(SYN_SEEN, "syn-seen") \
	X(ESTABLISHED, "established") \
	X(CLOSING, "closing") X(UDP, "udp") X(YOUNG, "young") X(UDP_SEEN, "udp-seen")

enum weir_flow_state {
#define X(name, key) WEIR_FLOW_##name,
	WEIR_FLOW_STATES(X)
#undef X
		WEIR_FLOW_STATE_COUNT,
};
