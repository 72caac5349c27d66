/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
//
// Listening sockets: definitions for listen.bpf.c and user space. The BPF program writes a record
// into a ring buffer when a TCP socket on a watched port starts or stops listening. A record only
// wakes the reader, which then reads the kernel's list of sockets. A record is lost only if the
// ring is full. The loss does no harm: the records in the ring have already woken the reader.
#pragma once

#include <linux/types.h>

// Size of the ring buffer: a power of 2 and a multiple of the page size. User space may enlarge the
// ring.
#define WEIR_LISTEN_RING_BYTES 4096

struct weir_listen_event { // a record
	__u32 port;
	__u32 listens; // 0 = no longer listening
};
_Static_assert(sizeof(struct weir_listen_event) % 8 == 0,
	"the size must be a multiple of 8, so that records in the ring have no padding");
