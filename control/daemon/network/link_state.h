// SPDX-License-Identifier: BSD-3-Clause
//
// Link state: determines whether a kernel interface is up and has a link.
//
// Threads: any. Makes a few system calls, which do not block.
#pragma once

#include <stdint.h>

// States of a link. X(NAME, "name")
#define WEIR_LINK_STATES(X) \
	X(UP, "up") \
	X(NO_CARRIER, "no-carrier") /* cable missing, or other end down */ \
	X(DISABLED, "disabled") /* set down by an administrator */ \
	X(GONE, "gone") /* no such interface in this network namespace */ \
	X(UNKNOWN, "unknown")

enum weir_link_state {
#define X(name, key) WEIR_LINK_##name,
	WEIR_LINK_STATES(X)
#undef X
};

enum weir_link_state weir_link_state_read(uint32_t ifindex);
const char *weir_link_state_name(enum weir_link_state state);
