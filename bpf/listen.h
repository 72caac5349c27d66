/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Listening sockets: shared by listen.bpf.c and user space. The program writes a record into a ring
// buffer when a TCP socket at a watched port begins or ceases to listen. A record only wakes the
// reader, which then reads the kernel's list of sockets, so that a lost record does no harm.
#pragma once

#include <linux/types.h>

#define WEIR_LISTEN_RING_BYTES 4096 // a power of 2 and whole pages; user space may enlarge the ring

struct weir_listen_event { // a record
	__u32 port;
	__u32 listens; // 0 = no longer listening
};
_Static_assert(sizeof(struct weir_listen_event) % 8 == 0, "no gap between records");
